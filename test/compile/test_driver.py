"""clave compile as a tool: its executables need no other files and are the same each time, and an error is one clear
line and leaves no files."""

import ctypes as C
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from compiled import BUILD, ROOT, command

import clave

PATH = {"PATH": os.environ["PATH"]}
MNIST = ROOT / "examples/mnist/mnist.clv"
ONE = ("--dim", "batch=1")


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    exe = tmp_path_factory.mktemp("mnist") / "mnist"
    r = command("compile", MNIST, "-o", exe, *ONE)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    assert [p.name for p in exe.parent.iterdir()] == ["mnist"]
    return exe


def image(seed=0):
    return np.random.default_rng(seed).standard_normal((1, 1, 28, 28)).astype(np.float32)


def call(exe, *args, **more):
    return subprocess.run([exe, *map(str, args)], capture_output=True, text=True, **more)


def test_mnist_stands_alone(mnist, tmp_path):
    """A copy in another place, with an empty environment, has a session's bits."""
    exe = shutil.copy(mnist, tmp_path / "m")
    session = clave.Session(str(MNIST), device="cpu")
    for seed in range(3):
        image(seed).tofile(tmp_path / "in.bin")
        r = call("./m", "in.bin", "out.bin", cwd=tmp_path, env={})
        assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
        assert (tmp_path / "out.bin").read_bytes() == session.run(image(seed))[0].tobytes()
    needs = call("ldd", exe).stdout.split()
    ours = [word for word in needs if word.startswith("lib") and ".so" in word]
    assert {w.split(".so")[0] for w in ours} <= {"libc", "libm", "libpthread"}


def test_mnist_is_small(mnist):
    assert mnist.stat().st_size <= 132776 + 304_000


def test_help_lists_inputs_and_outputs(mnist):
    r = call(mnist, "--help")
    assert (r.returncode, r.stderr) == (0, "")
    assert "input 0: x: F32 (1, 1, 28, 28), 3136 bytes" in r.stdout
    assert "output 0: output_0: F32 (1, 10), 40 bytes" in r.stdout


def test_bench(mnist, tmp_path):
    image().tofile(tmp_path / "in.bin")
    words = call(mnist, "--bench", 5, tmp_path / "in.bin").stdout.split()
    assert words[::2] == ["load_ms", "first_ms", "median_ms", "min_ms"] and all(float(w) > 0 for w in words[1::2])


@pytest.mark.parametrize(
    "args, code, says",
    [
        ([], 2, "expected 1 input and 1 output files"),
        (["in.bin"], 2, "expected 1 input"),
        (["in.bin", "out.bin", "more"], 2, "expected 1 input"),
        (["--bench", "0", "in.bin"], 2, "got '0'"),
        (["--benhc", "9", "in.bin"], 2, "--benhc: unknown option"),
        (["--bench", "x", "in.bin"], 2, "got 'x'"),
        (
            ["short.bin", "out.bin"],
            1,
            "short.bin: 3132 bytes do not fit input 'x', which is F32 (1, 1, 28, 28), 3136 bytes",
        ),
        (["none.bin", "out.bin"], 1, "none.bin: "),
        (["in.bin", "no/out.bin"], 1, "no/out.bin: "),
    ],
)
def test_wrong_use_of_the_executable(mnist, tmp_path, args, code, says):
    image().tofile(tmp_path / "in.bin")
    image().ravel()[1:].tofile(tmp_path / "short.bin")
    r = call(mnist, *args, cwd=tmp_path)
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (code, "", 1)
    assert r.stderr.startswith("mnist: ") and says in r.stderr
    assert not (tmp_path / "out.bin").exists()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    so = tmp_path_factory.mktemp("library") / "libdigit.so"
    r = command("compile", MNIST, "--shared", "-o", so, *ONE)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    assert sorted(p.name for p in so.parent.iterdir()) == ["digit.h", "libdigit.so"]
    return so


def test_a_library_answers(library):
    lib = C.CDLL(str(library))
    lib.digit_create.restype, lib.digit_error.restype = C.c_void_p, C.c_char_p
    x, y = image(), np.zeros((1, 10), np.float32)
    m = C.c_void_p(lib.digit_create(2))
    pointers = [a.ctypes.data_as(C.c_void_p) for a in (x, y)]
    for _ in range(2):
        assert lib.digit_run(m, *pointers) == 0 and lib.digit_error(m) == b""
        assert y.tobytes() == clave.Session(str(MNIST), device="cpu").run(x)[0].tobytes()
        y[:] = 0
        lib.digit_reset(m)
    lib.digit_destroy(m)
    lib.digit_destroy(None)


def test_a_library_exports_what_its_header_declares(library):
    names = [line.split()[-1] for line in call("nm", "-D", "--defined-only", library).stdout.splitlines()]
    assert names == [f"digit_{n}" for n in ("create", "destroy", "error", "reset", "run")]


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "clang -x c++ -std=c++17"])
def test_a_librarys_header(library, tmp_path, compiler):
    (tmp_path / "use.c").write_text(
        '#include "digit.h"\n#include "digit.h"\n'
        "int main(void) { static float x[784], y[10]; digit_model *m = digit_create(1);\n"
        "  int bad = digit_run(m, x, y); digit_destroy(m); return bad; }\n"
    )
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{library.parent}", f"-L{library.parent}"]
    exe = tmp_path / "use"
    subprocess.run([*compiler.split(), *flags, tmp_path / "use.c", "-ldigit", "-o", exe], check=True)
    assert call(exe, env={"LD_LIBRARY_PATH": str(library.parent)}).returncode == 0


@pytest.mark.by_turn(9)
def test_the_same_bytes_each_time(mnist, tmp_path):
    assert command("compile", MNIST, "-o", tmp_path / "other", *ONE).returncode == 0
    assert (tmp_path / "other").read_bytes() == mnist.read_bytes()


def test_sources_build_elsewhere(tmp_path):
    r = command("compile", MNIST, "--emit-c", tmp_path / "src", *ONE)
    assert (r.returncode, r.stderr) == (0, "")
    moved = shutil.move(tmp_path / "src", tmp_path / "moved")
    flags = "CFLAGS=-Werror -O0"
    r = subprocess.run(["make", "-s", "-j2", flags, "CC=clang"], cwd=moved, capture_output=True, text=True)
    assert (r.returncode, r.stderr) == (0, "")
    image().tofile(tmp_path / "in.bin")
    assert call(pathlib.Path(moved) / "model", tmp_path / "in.bin", tmp_path / "out.bin").returncode == 0
    assert (tmp_path / "out.bin").read_bytes() == clave.Session(str(MNIST), device="cpu").run(image())[0].tobytes()


def bad(tmp_path, *args, env=None):
    """Expects one error line of clave and no new files; returns the line, and the notes before it."""
    before = sorted(tmp_path.iterdir())
    r = command("compile", *args, env=os.environ | (env or {}))
    *notes, line = r.stderr.splitlines()
    assert r.returncode == 1 and r.stdout == "" and line.startswith("clave: "), r.stderr
    assert all(n.startswith("clave: note: ") for n in notes)
    assert sorted(tmp_path.iterdir()) == before
    return line, notes


def compiler(tmp_path, script):
    path = tmp_path / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"CC": str(path)}


def test_constants_elsewhere(tmp_path):
    """Constants of a .json, given after the program or by --consts, make the same executable."""
    assert command("convert", MNIST, tmp_path / "m.json").returncode == 0
    (tmp_path / "consts.safetensors").rename(tmp_path / "weights.safetensors")
    for name, given in (("a", []), ("b", ["--consts"])):
        made = command(
            "compile", tmp_path / "m.json", *given, tmp_path / "weights.safetensors", "--emit-c", tmp_path / name, *ONE
        )
        assert made.returncode == 0, made.stderr
    assert (tmp_path / "a/weights.bin").read_bytes() == (tmp_path / "b/weights.bin").read_bytes()
    assert "consts.safetensors: no such file" in bad(tmp_path, tmp_path / "m.json", "-o", tmp_path / "m", *ONE)[0]


@pytest.mark.parametrize("flags", [("-o",), ("-o", "m", "--sbom")])
@pytest.mark.parametrize("name", ["m.json", "weights.safetensors"])
def test_what_is_read_is_not_written_over(tmp_path, flags, name):
    """No path, such as a link, makes the tool overwrite input files."""
    assert command("convert", MNIST, tmp_path / "m.json").returncode == 0
    (tmp_path / "consts.safetensors").rename(tmp_path / "weights.safetensors")
    read = [tmp_path / "m.json", tmp_path / "weights.safetensors"]
    before = [f.read_bytes() for f in read]
    (tmp_path / "link").symlink_to(name)
    written = [tmp_path / f if f == "m" else f for f in flags]
    made = command("compile", *read, *written, tmp_path / "link", *ONE)
    says = f"clave: {flags[-1]} {tmp_path}/link would overwrite {tmp_path}/{name}, which the command reads\n"
    assert (made.returncode, made.stderr) == (1, says)
    assert [f.read_bytes() for f in read] == before and not (tmp_path / "m").exists()


def test_no_compiler(tmp_path):
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "m", *ONE, env={"CC": "no-such-cc"})
    assert "no-such-cc: No such file" in line and "CC names the C compiler" in line
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "m", *ONE, env={"CC": "  "})
    assert "CC: expected the name of a compiler, got only spaces" in line


def test_a_failing_compiler(tmp_path):
    """The compiler's output is shown, and its first error is in clave's line."""
    env = compiler(tmp_path, "echo warm >&2; echo 'x.c:1: error: cold' >&2; exit 3")
    line, notes = bad(tmp_path, MNIST, "-o", tmp_path / "m", *ONE, env=env)
    assert "exit status 3 while compiling model.c: x.c:1: error: cold" in line
    assert notes[:2] == ["clave: note: warm", "clave: note: x.c:1: error: cold"]


@pytest.mark.parametrize(
    "says",
    [
        "no room",
        "ld: no room\ncollect2: error: ld returned 1 exit status",
        "ld: a warning\nld: final link failed: no room",
    ],
)
def test_a_linker_that_fails(tmp_path, says):
    """The line has the linker's message, not the compiler's message about it."""
    env = compiler(tmp_path, f'case "$*" in *" -c "*) exit 0;; esac; echo "{says}"; exit 1')
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "m", *ONE, env=env)
    assert "exit status 1 while linking: " in line and line.endswith("no room")


def test_a_compiler_by_a_path_from_here(tmp_path):
    """The compiler runs in the folder of sources."""
    compiler(tmp_path, 'while [ "$1" != -o ]; do shift; done; echo made > "$2"')
    env = os.environ | {"CC": "./compiler"}
    r = command("compile", MNIST, "-o", tmp_path / "m", *ONE, cwd=tmp_path, env=env)
    assert (r.returncode, r.stderr) == (0, "") and (tmp_path / "m").read_text() == "made\n"
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "n", *ONE, env={"CC": "./no-such-cc"})
    assert "/no-such-cc: No such file" in line


def test_a_compiler_that_makes_nothing(tmp_path):
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "m", *ONE, env=compiler(tmp_path, "exit 0"))
    assert f"{tmp_path}/m: " in line


def test_a_compiler_with_arguments(tmp_path):
    """Arguments in CC are passed, and --keep-build keeps the sources."""
    env = compiler(tmp_path, '[ "$1" = -x ] || exit 1; while [ "$1" != -o ]; do shift; done; echo made > "$2"')
    r = command(
        "compile", MNIST, "-o", tmp_path / "m", "--keep-build", *ONE, env=os.environ | {"CC": env["CC"] + " -x"}
    )
    assert r.returncode == 0, r.stderr
    assert (tmp_path / "m").read_text() == "made\n"
    assert (tmp_path / "m.build/model.c").exists() and (tmp_path / "m.build/Makefile").exists()


@pytest.mark.parametrize(
    "args, code, says",
    [
        (["-o", "{}/no/m", *ONE], 1, "no/m: No such file or directory"),
        (["-o", "{}", *ONE], 1, ": Is a directory"),
        (["--emit-c", "{}", *ONE], 1, "is not empty"),
        (["--emit-c", "{}/file", *ONE], 1, "file"),
        ([*ONE], 2, "compile needs either -o BIN or --emit-c DIR"),
        (["-o", "{}/m", "--emit-c", "{}/d"], 2, "compile needs either -o BIN or --emit-c DIR"),
        (["-o", "{}/m", "--target", "cuda", *ONE], 2, '--target: expected c or opencl, got "cuda"'),
        (["-o", "{}/m", "--bare", "--shared", *ONE], 2, "--shared and --bare exclude each other"),
        (["-o", "{}/m", "--arena", "heap", *ONE], 2, '--arena: expected static, got "heap"'),
        (["-o", "{}/m", "--threads", "-1", *ONE], 2, "--threads"),
        (["-o", "{}/m", "--budget", "1", *ONE], 2, "--budget needs --tune"),
        (["-o", "{}/m", "--kernel-dir", "{}", *ONE], 1, "the folder has no kernel source that the program uses: "),
        (["-o", "{}/m", "--arena", "static", "--target", "opencl"], 1, "--arena static needs a program that is"),
        (["-o", "{}/m.o", "--bare", "--target", "opencl"], 1, "--bare needs a program that is emitted as C code"),
        (["-o", "{}/m", "--dim", "batch"], 2, 'expected NAME=N with N from 0, got "batch"'),
        (["-o", "{}/m", "--dim", "batch=-1"], 2, "with N from 0"),
        (["-o", "{}/m", "--dim", "batch=0"], 1, "batch"),
        (["-o", "{}/m", "--dim", "rows=1", *ONE], 1, "'rows'"),
        (["-o", "{}/m", "--dim", "batch=2", *ONE], 1, "size 'batch' is given twice"),
        (["-o", "{}/no!.so", "--shared", *ONE], 1, "library: 'no!' cannot be the prefix of C function names"),
        (["-o", "{}/model.so", "--shared", *ONE], 1, "'model' cannot be the prefix"),
        (["-o", "{}/carried_text.so", "--shared"], 1, "'carried_text' cannot be the prefix"),
        (["-o", "{}/libclave_llm.so", "--shared"], 1, "'clave_llm' cannot be the prefix"),
        (["-o", "{}/m", "--method", "no", *ONE], 1, 'unknown method "no"'),
    ],
)
def test_bad_arguments(tmp_path, args, code, says):
    (tmp_path / "file").write_text("x")
    given = [a.format(tmp_path) for a in args]
    line = bad(tmp_path, MNIST, *given)[0] if code == 1 else usage(given)
    assert says in line


@pytest.mark.parametrize("option", ["--arena static", "--bare", "--packed-only"])
def test_what_wants_fixed_sizes_says_so(tmp_path, option):
    """The error names the option and the remedy."""
    line, notes = bad(tmp_path, MNIST, "-o", tmp_path / "m.o", *option.split())
    name = option if "static" in option else option.split()[0]
    says = f"clave: {name} needs a program that is emitted as C code, and this program embeds the runtime; "
    says += "a size of input 'x'"
    assert (line, notes) == (f"{says} is not fixed (--dim batch=N fixes it)", [])


def usage(args):
    r = command("compile", MNIST, *args)
    assert r.returncode == 2 and r.stdout == ""
    return r.stderr.splitlines()[0]


def test_what_a_source_needs_is_what_the_linker_finds(monkeypatch):
    """The tables list for each source those that define the functions it calls; nm of its object agrees."""
    monkeypatch.syspath_prepend(ROOT / "compile")
    monkeypatch.chdir(ROOT)
    import sources

    folders = ("base", "ops", "backend/cpu/kernels", "backend/cpu", "interp/plan", "compile/runtime", "compile/open")
    of_library = ("base/tuning_", "backend/cpu/backend.c", "backend/cpu/buffer.c", "backend/cpu/running.c")
    of_library += ("ops/work.", "interp/plan/schedule_cache")
    files = [
        str(f.relative_to(ROOT))
        for d in folders
        for f in (ROOT / d).glob("**/*.[ch]" if d.endswith("kernels") else "*.[ch]")
    ]
    files = [f for f in files if not f.startswith(of_library) or f.endswith(".h")]
    files += [f"json/{name}" for name in ("json.h", "syntax.c", "writer.c", "writer.h")]
    files += ["backend/backend.h", "serialize/program.h", "serialize/numbering.c", "interp/graph/graph.c"]
    files += [f"interp/{name}.h" for name in ("graph/graph", "executable", "interp")]
    files += [f"interp/{name}{end}" for name in ("scalar", "schedule") for end in (".c", ".h")]
    generated = [str(BUILD / "gen" / name) for name in ("steps.def", "ir.h", "op_rules.h", "cpu_ops.h")]
    all_sources = sources.read(files, generated)
    sources.find_needs(all_sources)
    defined, undefined = {}, {}
    for path in (p for p in all_sources if p.endswith(".c") and not p.startswith("compile/")):
        lines = call("nm", BUILD / "obj" / f"{path.removesuffix('.c')}.o").stdout.splitlines()
        undefined[path] = {line.split()[-1] for line in lines if " U " in line}
        defined |= {line.split()[-1]: path for line in lines if line.split()[-2] in "TDRB"}
    for path, names in undefined.items():
        wanted = {defined[n] for n in names if n in defined} - {path}
        assert wanted <= set(all_sources[path].needs), f"{path}: {wanted - set(all_sources[path].needs)}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(tmp_path, number):
    """The compiler that is running is ended, too."""
    env = compiler(tmp_path, f"echo x >> {tmp_path}/started; sleep 60 & wait")
    before = sorted(tmp_path.iterdir())
    with subprocess.Popen(
        [BUILD / "clave", "compile", MNIST, "-o", tmp_path / "m", *ONE], env=os.environ | env, stderr=subprocess.PIPE
    ) as p:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        p.send_signal(number)
        said = p.stderr.read().decode()
    assert (p.returncode, said.splitlines()[-1]) == (128 + number, "clave: interrupted")
    (tmp_path / "started").unlink()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["text", "int", "class", "size_t", "tensor"])
def test_a_library_of_any_name(tmp_path, name):
    """Names that are words of C or types of the runtime work, too."""
    r = command("compile", MNIST, "--shared", "--emit-c", tmp_path / name, *ONE)
    assert r.returncode == 0, r.stderr
    for source in ("library.c", f"{name}.h"):
        subprocess.run(
            ["gcc", "-std=c11", "-Wall", "-Werror", "-I.", "-fsyntax-only", source], cwd=tmp_path / name, check=True
        )


@pytest.mark.parametrize("kind, name", [("--shared", "math"), ("--shared", "string"), ("--bare", "names")])
def test_a_library_named_as_a_header(tmp_path, kind, name):
    """The library's own header replaces neither one of the system nor one of the runtime."""
    r = command("compile", MNIST, kind, "--emit-c", tmp_path / name, *ONE)
    assert r.returncode == 0, r.stderr
    makefile = (tmp_path / name / "Makefile").read_text()
    flags = next(line for line in makefile.splitlines() if line.startswith("FLAGS = ")).split()[2:]
    own = "bare.c" if kind == "--bare" else "library.c"
    kernel = min((tmp_path / name / "backend/cpu/kernels").glob("*.c"))
    for source in ("model.c", own, "compile/runtime/core.c", kernel):
        subprocess.run(["gcc", *flags, "-Werror", "-fsyntax-only", source], cwd=tmp_path / name, check=True)
    assert f"{name}_run" in (tmp_path / name / f"{name}.h").read_text()


@pytest.mark.parametrize("name", ["thread_pool", "model", "file_writer"])
def test_a_library_whose_functions_would_be_the_runtimes(tmp_path, name):
    line, _ = bad(tmp_path, MNIST, "--shared", "-o", tmp_path / f"lib{name}.so", *ONE)
    assert f"library: '{name}' cannot be the prefix of C function names" in line


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_went_in(tmp_path):
    """The SBOM has hashes of program, sources and weights, flags, compiler and versions, the same each time."""
    script = '[ "$1" = --version ] && echo "some cc 1" && exit; while [ "$1" != -o ]; do shift; done; echo made > "$2"'
    cc = compiler(tmp_path, script)
    seen = []
    for name, env in (("a", {}), ("b", {}), ("c", {"SOURCE_DATE_EPOCH": "86400"})):
        args = ("-o", tmp_path / "m", "--sbom", tmp_path / name, "--keep-build", *ONE)
        r = command("compile", MNIST, *args, env=os.environ | cc | env)
        assert r.returncode == 0, r.stderr
        seen.append((tmp_path / name).read_text())
    assert seen[0] == seen[1] != seen[2]
    r = command("compile", MNIST, "-o", tmp_path / "m", "--sbom", tmp_path / "a", *ONE, env={"CC": "false"} | PATH)
    assert r.returncode == 1 and (tmp_path / "a").read_text() == seen[0]
    b = json.loads(seen[2])
    assert (b["bomFormat"], b["specVersion"], b["version"]) == ("CycloneDX", "1.5", 1)
    assert b["metadata"]["timestamp"] == "1970-01-02T00:00:00Z" and "timestamp" not in json.loads(seen[0])["metadata"]
    clave_of, cc_of = b["metadata"]["tools"]["components"]
    assert clave_of["name"] == "clave" and clave_of["version"] == clave.__version__
    assert cc_of["version"] == "some cc 1"
    assert b["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": sha256(tmp_path / "m")}]
    flags = {p["name"]: p["value"] for p in b["metadata"]["component"]["properties"]}
    assert flags["clave:compiler"] == cc["CC"] and "-ffp-contract=off" in flags["clave:compile-flags"]
    program, *files = b["components"]
    assert program["name"] == "mnist.clv" and program["hashes"][0]["content"] == sha256(MNIST)
    built = tmp_path / "m.build"
    there = {str(p.relative_to(built)) for p in built.rglob("*") if p.suffix in (".c", ".h", ".S", ".bin", ".def")}
    assert {f["name"] for f in files} == there | {"Makefile"}
    assert all(f["hashes"][0]["content"] == sha256(built / f["name"]) for f in files)
    ours = {f["name"] for f in files if f.get("licenses") == [{"license": {"id": "MIT"}}]}
    assert ours == {f["name"] for f in files if "/" in f["name"]} | {"steps.def"}


def test_what_went_in_cannot_be_written(tmp_path):
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "m", "--sbom", tmp_path / "no/s.json", *ONE)
    assert "no/s.json" in line
    env = {"SOURCE_DATE_EPOCH": "soon"}
    line, _ = bad(tmp_path, MNIST, "-o", tmp_path / "m", "--sbom", tmp_path / "s", *ONE, env=env)
    assert "SOURCE_DATE_EPOCH: expected seconds since 1970, got 'soon'" in line


def test_no_device_is_replaced(tmp_path):
    """Neither a device nor the target of a link is replaced."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        line, _ = bad(tmp_path, MNIST, "-o", tmp_path / name, *ONE)
        assert line == f"clave: {tmp_path / name}: expected a regular file, got a device or a pipe"
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
