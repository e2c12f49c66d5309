"""Help, flags, suggestions, exit codes, and output that cannot be written."""

import subprocess
from pathlib import Path

import pytest

COMMANDS = ["devices", "run", "bench", "inspect", "verify", "convert", "optimize", "cache"]


def test_help_and_version(tool):
    overview = tool.good("--help")
    assert all(f"  {c} " in overview for c in COMMANDS)
    assert tool.good("--version").startswith("clave ")
    assert tool.good("help") == overview
    for c in COMMANDS:
        text = tool.good(c, "--help")
        assert text.startswith(f"usage: clave {c}") and "--version" in text
        assert tool.good("help", c) == text
        assert tool.good(c, "--version") == tool.good("--version")
        for args in (("--help",), ("--version",)):
            assert tool.run(c, *args).stderr == ""


def test_help_wins_over_what_follows(tool):
    assert tool.good("run", "--help", "--nonsense")
    assert "no flag" in tool.bad(2, "run", "--nonsense", "--help")


@pytest.mark.parametrize(
    "word, meant",
    [
        ("rnu", "run"),
        ("insepct", "inspect"),
        ("device", "devices"),
        ("--hlep", "--help"),
    ],
)
def test_nearest_command(tool, word, meant):
    assert f'did you mean "{meant}"' in tool.bad(2, word)


def test_no_nearest_command(tool):
    assert "did you mean" not in tool.bad(2, "xylophone")
    assert "did you mean" not in tool.bad(2, "y" * 5000)
    assert tool.bad(2) == "a command is missing"
    assert tool.bad(2, "") == 'unknown command ""'


@pytest.mark.parametrize(
    "args, says",
    [
        (["run"], "run needs PROG"),
        (["run", "p", "q"], 'unexpected argument "q"'),
        (["run", "p", "--ouputs", "o"], "did you mean --outputs?"),
        (["run", "p", "--zzz"], "run has no flag --zzz"),
        (["run", "p", "-x"], "run has no flag -x"),
        (["run", "p", "--device"], "--device needs a value"),
        (["run", "p", "--device", "cpu", "--device", "cpu"], "--device is given twice"),
        (["compile", "p", "w", "--consts", "c"], "--consts is given twice"),
        (["compile", "p", "--consts", "c", "w"], 'unexpected argument "w"'),
        (["run", "p", "--no-fallback=yes"], "--no-fallback accepts no value"),
        (["run", "p", "--inputs="], "--inputs needs a value"),
        (["run", "p", "--warm-up", "soon"], '--warm-up: expected wait or background, got "soon"'),
        (["bench", "p", "--warm-up", "background", "--no-fallback"], "which --no-fallback forbids"),
        (["generate", "p", "--prompt", "x", "--warm-up="], 'wait or background, got ""'),
        (["run", ""], "PROG needs a value"),
        (["bench", "p", "--runs", "0"], "integer from 1 to"),
        (["bench", "p", "--runs", "3x"], 'got "3x"'),
        (["bench", "p", "--runs", "99999999999999999999"], "integer from 1 to"),
        (["convert", "a"], "convert needs B"),
        (["tokenize", "--tokenizer", "t"], "needs --encode or --decode"),
        (["tokenize", "--tokenizer", "t", "--encode", "--decode"], "exclude each other"),
        (["cache", "--clear", "--max-mb", "3"], "exclude each other"),
        (["inspect", "p", "--dot", "--svg"], "exclude each other"),
    ],
)
def test_malformed_command_lines(tool, args, says):
    assert says in tool.bad(2, *args)


WRITTEN = {"run": ("--outputs", "--profile", "--dump"), "optimize": ("-o",), "compile": ("-o",)}
WRITTEN["generate"] = ("--output-ids", "--logprobs", "--stats-json")


@pytest.mark.parametrize(("command", "flag"), [(c, f) for c, flags in WRITTEN.items() for f in flags])
def test_files_that_are_written_are_not_standard_output(tool, command, flag):
    """A file flag refuses "-", because the file would mix with the printed output. No file is named "-" either."""
    says = f'{flag}: expected a file, got "-": standard output is used for the output of {command}'
    assert tool.bad(2, command, "p.clv", flag, "-") == says
    assert tool.bad(2, command, "p.clv", f"{flag}=-") == says


def test_files_that_cannot_be_written_are_known_before_anything_is_done(tool, program):
    (tool.folder / "folder").mkdir()
    for to, says in (("none/o", "none/o: No such file or directory"), ("folder", "folder: Is a directory")):
        assert tool.bad(1, "run", program, "--profile", to) == says
        assert tool.bad(1, "generate", "missing.clv", "--prompt", "x", "--logprobs", to) == says
        assert tool.bad(1, "compile", "missing.clv", "-o", to) == says


MNIST = Path(__file__).parents[2] / "examples/mnist/mnist.clv"


@pytest.mark.parametrize("command", ["run", "bench"])
def test_what_is_read_is_not_written_over(tool, command):
    """No path, such as a link, makes the tool overwrite the program or its constants."""
    tool.good("convert", MNIST, "p.json")
    (tool.folder / "there").mkdir()
    (tool.folder / "link").symlink_to("p.json")
    before = {f.name: f.read_bytes() for f in tool.folder.iterdir() if f.is_file()}
    consts = "consts.safetensors"
    for to, says in (
        ("p.json", "would overwrite p.json, which the command reads"),
        ("link", "would overwrite p.json, which the command reads"),
        (consts, "would be read as the constants of p.json; write to another file"),
        (f"there/../{consts}", "would be read as the constants of p.json; write to another file"),
    ):
        assert tool.bad(1, command, "p.json", "--profile", to) == f"--profile {to} {says}"
    (tool.folder / consts).rename(tool.folder / "c.safetensors")
    for name in (consts, "c.safetensors"):
        said = tool.bad(1, command, "p.json", "--consts", "c.safetensors", "--profile", name)
        assert said.startswith(f"--profile {name} would ")
    assert not (tool.folder / consts).exists()
    (tool.folder / "c.safetensors").rename(tool.folder / consts)
    assert {f.name: f.read_bytes() for f in tool.folder.iterdir() if f.is_file()} == before


def test_an_input_is_not_written_over(tool, root):
    digit = (root / "examples/mnist/digits/7.npy").read_bytes()
    (tool.folder / "i.npy").write_bytes(digit)
    for to in ("i.npy", "./i.npy"):
        said = tool.bad(1, "run", MNIST, "--input", "x=i.npy", "--outputs", to)
        assert said == f"--outputs {to} would overwrite i.npy, which the command reads"
    assert (tool.folder / "i.npy").read_bytes() == digit
    tool.good("run", MNIST, "--input", "x=i.npy", "--outputs", "o.safetensors")


def test_a_table_is_renewed_and_no_program(tool, program):
    words = ("tune", "p.clv", "--device", "cpu", "--dry-run", "--export")
    tool.good("convert", program, "p.clv")
    before = (tool.folder / "p.clv").read_bytes()
    assert tool.bad(1, *words, "p.clv") == "--export p.clv would overwrite p.clv, which the command reads"
    assert (tool.folder / "p.clv").read_bytes() == before
    tool.good(*words, "t.json")
    tool.good(*words, "t.json", "--import", "t.json")


def test_two_flags_do_not_write_one_file(tool, program):
    for other in ("o", "./o"):
        said = tool.bad(1, "run", program, "--outputs", "o", "--profile", other)
        assert said == f"--profile and --outputs would both write {other}"
    assert "/dev/null" not in tool.run("run", program, "--outputs", "/dev/null", "--profile", "/dev/null").stderr


def test_what_is_not_there_is_not_read(tool, program):
    both = ("compile", program, "-o", "made", "--emit-c", "made")
    assert "which the command reads" not in tool.run(*both).stderr
    assert "which the command reads" not in tool.bad(1, "run", "none.clv", "--profile", "none.clv")


def test_a_program_is_optimized_in_place(tool, program):
    tool.good("convert", program, "p.json")
    tool.good("optimize", "p.json", "-o", "p.json")
    tool.good("verify", "p.json")


def test_flag_forms(tool, program):
    want = tool.good("bench", program, "--runs", "2", "--json")
    assert '"runs": 2' in want
    assert '"runs": 2' in tool.good("bench", "--json", "--runs=2", "--", program)


def test_an_error_is_one_line_however_odd_the_name(tool):
    assert "odd\\x0a\\x1bname.clv" in tool.bad(1, "run", "odd\n\x1bname.clv")
    assert tool.bad(2, "a\nb") == 'unknown command "a\\x0ab"'
    assert len(tool.bad(1, "run", "x" * 30000)) < 20000


@pytest.mark.parametrize("args", [["--help"], ["devices", "--json"], ["run", "--help"]])
def test_output_that_cannot_be_written(tool, args):
    with open("/dev/full", "w") as full:
        r = tool.run(*args, stdout=full)
    assert r.returncode == 1 and r.stderr == "clave: standard output: No space left on device\n"
    line = " ".join(f"'{a}'" for a in [tool.exe, *args])
    r = subprocess.run(["sh", "-c", f"{line} >&-"], capture_output=True, text=True, check=False)
    assert r.returncode == 1 and r.stderr.startswith("clave: standard output: ")
    r = subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            f"(sleep 0.3; {line}) | true; exit ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        check=False,
        text=True,
    )
    assert r.returncode == 1 and r.stderr == "clave: standard output: Broken pipe\n"


def test_all_streams_closed(tool, program):
    """Files that the tool opens must not become its standard output."""
    line = f"cd {tool.folder} && CLAVE_DEVICE=cpu {tool.exe} convert {program} q.clv <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], check=False).returncode == 0
    assert tool.good("verify", "q.clv")


def test_verify_says_that_nothing_was_compared(tool, root):
    """--device alone runs nothing; with --run the program runs, and the note disappears."""
    model = root / "examples/mnist/mnist.clv"
    alone = tool.run("verify", model, "--device", "cpu")
    assert alone.returncode == 0 and "structure" in alone.stdout
    assert alone.stderr.startswith("clave: note: only the structure was checked; pass --run")
    assert tool.run("verify", model).stderr == "" == tool.run("verify", model, "--device", "cpu", "--run").stderr
