"""Executables that carry their program and the runtime: they have a session's bits on the same device for all sizes,
also in an empty environment, and errors are one clear line."""

import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from compiled import ALONE, BUILD, ROOT, command, compare_carried, run, same_bits
from test_models import Counter, Dice, Loop, Net, Nonzero, noise, saved

import clave

MNIST = ROOT / "examples/mnist/mnist.clv"
TINYLM = ROOT / "examples/tinylm/tinylm.clv"
DEVICES = {"c": "cpu", "opencl": "opencl"}
TARGETS = ["c", pytest.param("opencl", marks=pytest.mark.by_turn(11))]


def make(program, exe, *options):
    r = command("compile", program, "-o", exe, *options)
    assert (r.returncode, r.stdout) == (0, ""), r.stderr
    return r.stderr


def form_of(target):
    """Returns options with which a single method is also carried instead of written out."""
    return ("--target", target, "--method", "all")


def call(exe, *args, env=None, **more):
    return subprocess.run([exe, *map(str, args)], capture_output=True, text=True, env=env, timeout=120, **more)


def compare(program, exe, runs, *options, target="c", **more):
    for inputs in runs:
        compare_carried(program, exe, inputs, *options, device=DEVICES[target], **more)


def needed(exe):
    """Returns the libraries with which it is linked."""
    words = subprocess.run(["ldd", exe], capture_output=True, text=True, check=True).stdout.split()
    return {w.split(".so")[0] for w in words if w.startswith("lib") and ".so" in w}


@pytest.fixture(scope="module", params=["c", "opencl"])
def mnist(request, tmp_path_factory):
    exe = tmp_path_factory.mktemp("mnist") / "mnist"
    assert make(MNIST, exe, *form_of(request.param)) == ""
    assert [p.name for p in exe.parent.iterdir()] == ["mnist"]
    return request.param, exe


def images(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 1, 28, 28)).astype(np.float32)


def test_one_executable_for_all_batches_stands_alone(mnist, tmp_path):
    target, exe = mnist
    moved = shutil.copy(exe, tmp_path / "m")
    compare(MNIST, moved, [(images(n),) for n in (1, 3, 16)], target=target)
    assert needed(exe) <= {"libc", "libm", "libpthread", "libdl"}
    # the runtime has 3.42 MB, which grow with the kernels' sources; importers of other formats would be 0.8 MB more
    assert exe.stat().st_size < 132_776 + 3_500_000


def test_help(mnist):
    target, exe = mnist
    r = call(exe, "--help", env={})
    assert (r.returncode, r.stderr) == (0, "")
    assert "[--dim NAME=N]... INPUT... OUTPUT..." in r.stdout and "size batch: from 1 to 4096" in r.stdout
    assert "input 0: x: F32 (batch, 1, 28, 28), a multiple of 3136 bytes" in r.stdout
    assert ("on an OpenCL device" in r.stdout) == (target == "opencl")


def test_bench(mnist, tmp_path):
    target, exe = mnist
    images(2).tofile(tmp_path / "in.bin")
    words = call(exe, "--bench", 3, tmp_path / "in.bin", env=ALONE[DEVICES[target]]).stdout.split()
    assert words[::2] == ["load_ms", "first_ms", "median_ms", "min_ms"] and all(float(w) > 0 for w in words[1::2])


@pytest.mark.parametrize(
    "args, code, says",
    [
        ([], 2, "expected 1 input and 1 output files"),
        (["in.bin"], 2, "expected 1 input"),
        (["--dim", "batch=x", "in.bin", "out.bin"], 2, 'expected NAME=N with N from 0, got "batch=x"'),
        (["--dim", "rows=3", "in.bin", "out.bin"], 2, "'forward' has no open size of this name"),
        (["--dim", "batch=2", "--dim", "batch=1", "in.bin", "out.bin"], 2, "--dim batch=1: 'batch' is given twice"),
        (
            ["--dim", "batch=3", "in.bin", "out.bin"],
            1,
            "in.bin: 6272 bytes do not fit input 'x', which is F32 (batch, 1, 28, 28), a mult",
        ),
        (["--dim", "batch=5000", "in.bin", "out.bin"], 1, "--dim: size 'batch': expected 1 to 4096, got 5000"),
        (
            ["short.bin", "out.bin"],
            1,
            "short.bin: 6268 bytes do not fit input 'x', which is F32 (batch, 1, 28, 28), a multiple of 3136",
        ),
        (["empty.bin", "out.bin"], 1, "empty.bin: size 'batch': expected 1 to 4096, got 0"),
        (["none.bin", "out.bin"], 1, "none.bin: "),
        (["in.bin", "no/out.bin"], 1, "no/out.bin: "),
    ],
)
def test_wrong_use(mnist, tmp_path, args, code, says):
    target, exe = mnist
    images(2).tofile(tmp_path / "in.bin")
    images(2).ravel()[1:].tofile(tmp_path / "short.bin")
    (tmp_path / "empty.bin").write_bytes(b"")
    r = call(exe, *args, cwd=tmp_path, env=ALONE[DEVICES[target]])
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (code, "", 1), r.stderr
    assert r.stderr.startswith("mnist: ") and says in r.stderr
    assert not (tmp_path / "out.bin").exists()


def test_no_device(tmp_path, mnist):
    """No other device replaces an OpenCL device. The CPU target needs no device."""
    target, exe = mnist
    images(1).tofile(tmp_path / "in.bin")
    places = ("in.bin", "out.bin")
    none = call(exe, *places, cwd=tmp_path, env={"OCL_ICD_VENDORS": "/nonexistent"})
    cpu = call(exe, *places, cwd=tmp_path, env={"CLAVE_DEVICE": "opencl:0, cpu"})
    if target == "c":
        assert (none.returncode, cpu.returncode) == (0, 0)
        return
    assert (none.returncode, cpu.returncode) == (1, 1)
    assert none.stderr.startswith("mnist: no OpenCL device: ") and "only on OpenCL devices" in none.stderr
    assert "CLAVE_DEVICE is 'opencl:0, cpu', and this executable runs only on OpenCL devices" in cpu.stderr
    other = call(exe, *places, cwd=tmp_path, env={"CLAVE_DEVICE": "opencl:99"})
    assert (
        other.returncode == 1
        and "unknown device 'opencl:99'" in other.stderr
        and "only on OpenCL devices" in other.stderr
    )
    assert (
        none.stderr.count("\n") == cpu.stderr.count("\n") == other.stderr.count("\n") == 1
        and not (tmp_path / "out.bin").exists()
    )


def test_it_is_the_process_that_kernels_are_built_in(mnist, tmp_path):
    """The library starts the executable with a socket to build kernels; without a socket, the same argument is a file
    name."""
    _, exe = mnist
    ours, its = socket.socketpair()
    p = subprocess.Popen([exe, "build-kernels"], stdin=its, stderr=subprocess.PIPE, text=True)
    its.close()
    ours.close()
    assert p.wait(timeout=60) == 1 and "no process requests kernels on standard input" in p.stderr.read()
    r = call(exe, "build-kernels", env={}, stdin=subprocess.DEVNULL)
    assert r.returncode == 2 and "expected 1 input and 1 output files" in r.stderr


class Products(torch.nn.Module):
    """Two files together determine the sizes."""

    def forward(self, x, y):
        return x @ x.mT + y.sum(), y * 2


class Sequence(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.rows(x)
        return torch.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)


def test_a_size_that_is_fixed_is_no_option(tmp_path):
    exe = tmp_path / "m"
    make(MNIST, exe, "--target", "opencl", *("--dim", "batch=2"))
    said = call(exe, "--help", env={}).stdout
    assert "input 0: x: F32 (2, 1, 28, 28), 6272 bytes" in said and "output 0: output_0: F32 (2, 10), 80" in said
    assert "--dim" not in said
    images(1).tofile(tmp_path / "in.bin")
    r = call(exe, tmp_path / "in.bin", tmp_path / "out.bin", env={})
    assert (
        r.returncode == 1
        and "in.bin: 3136 bytes do not fit input 'x', which is F32 (2, 1, 28, 28), 6272 bytes" in r.stderr
    )


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_of_several_files(tmp_path, target):
    a, b = torch.export.Dim("rows", max=50), torch.export.Dim("columns", max=60)
    args = (noise(3, 4), noise(4, 3))
    program = saved(tmp_path, Products(), *args, dynamic_shapes=({0: a, 1: b}, {0: b}))
    exe = tmp_path / "m"
    make(program, exe, *form_of(target))
    compare(program, exe, [args, (noise(7, 2), noise(2, 3)), (noise(1, 50), noise(50, 3))], target=target)
    noise(5, 4).numpy().tofile(tmp_path / "x")
    noise(3, 3).numpy().tofile(tmp_path / "y")
    r = call(exe, tmp_path / "x", tmp_path / "y", tmp_path / "o", tmp_path / "p", env=ALONE[DEVICES[target]])
    assert (
        r.returncode == 1
        and "x: 80 bytes do not fit input 'x', which is F32 (rows, columns), a multiple of 4 bytes" in r.stderr
    )
    assert "'columns' is 3" in r.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_a_size_that_does_not_follow(tmp_path, target):
    """A file has a batch and a length. One of them must be given, and a wrong one is refused."""
    batch, length = torch.export.Dim("batch", max=5), torch.export.Dim("length", max=40)
    program = saved(tmp_path, Sequence(), noise(2, 6, 8), dynamic_shapes=({0: batch, 1: length},))
    exe = tmp_path / "m"
    make(program, exe, *form_of(target))
    compare(program, exe, [(noise(2, 9, 8),), (noise(2, 31, 8),)], "--dim", "batch=2", target=target)
    r = call(exe, tmp_path / "in0.bin", tmp_path / "o", env=ALONE[DEVICES[target]])
    assert (
        r.returncode == 1
        and "size 'batch' does not follow from the lengths of the files: set it by --dim batch=N" in r.stderr
    )
    r = call(exe, "--dim", "batch=3", tmp_path / "in0.bin", tmp_path / "o", env=ALONE[DEVICES[target]])
    assert r.returncode == 1 and "1984 bytes do not fit input" in r.stderr and "'batch' is 3" in r.stderr


class Gram(torch.nn.Module):
    def forward(self, x):
        return x @ x


def test_a_size_that_stands_twice(tmp_path):
    n = torch.export.Dim("n", max=99)
    program = saved(tmp_path, Gram(), noise(4, 4), dynamic_shapes=({0: n, 1: n},))
    exe = tmp_path / "m"
    make(program, exe, *form_of("c"))
    compare(program, exe, [(noise(n, n),) for n in (2, 7, 31)])
    noise(4, 3).numpy().tofile(tmp_path / "x")
    r = call(exe, tmp_path / "x", tmp_path / "o", env={})
    assert r.returncode == 1 and "48 bytes do not fit input 'x', which is F32 (n, n)" in r.stderr


class Window(torch.nn.Module):
    def forward(self, x, n: int):
        return x[:n] * n, n + 1


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_stand_in_the_place_of_files(tmp_path, target):
    dim = torch.export.Dim.DYNAMIC
    program = saved(tmp_path, Window(), noise(10, 2), 4, dynamic_shapes={"x": {0: dim}, "n": dim})
    exe = tmp_path / "m"
    make(program, exe, *form_of(target))
    compare(program, exe, [(noise(10, 2), n) for n in (4, 7, 10)], target=target)
    for said in ("x", "", "1.5", "99999999999999999999"):
        r = call(exe, tmp_path / "in0.bin", said, tmp_path / "o", tmp_path / "p", env=ALONE[DEVICES[target]])
        assert r.returncode == 1 and f"input 'n': expected a number, I64, got \"{said}\"" in r.stderr
    fixed = tmp_path / "fixed"
    make(program, fixed, *form_of(target), "--dim", "n=5")
    want = [np.asarray(w) for w in clave.Session(str(program), device=DEVICES[target]).run(noise(10, 2), 5)]
    got = run(fixed, (noise(10, 2),), want, env=ALONE[DEVICES[target]])
    assert all(same_bits(a, b) for a, b in zip(got, want, strict=True))


def test_a_number_that_is_a_float(tmp_path, monkeypatch):
    """The executable carries a .json program as a .clv."""
    spec = importlib.util.spec_from_file_location("cli_programs", ROOT / "test/cli/conftest.py")
    of_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(of_cli)
    (tmp_path / "m.json").write_text(json.dumps(of_cli.make_program("\x1b[31mred")))
    make(tmp_path / "m.json", tmp_path / "m", *form_of("c"), "--dim", "batch=3")
    compare(tmp_path / "m.json", tmp_path / "m", [(noise(3, 4), 0.5), (noise(3, 4), -1e-3)])
    said = call(tmp_path / "m", "--help", env={}).stdout
    assert "input 1: scale: a number, F64" in said and "output 0: ?[31mred: F32 (3, 4), 48 bytes" in said
    r = call(tmp_path / "m", tmp_path / "in0.bin", "half", tmp_path / "o", tmp_path / "p", env={})
    assert r.returncode == 1 and "input 'scale': expected a number, F64, got \"half\"" in r.stderr


def test_a_number_whose_value_has_another_name(tmp_path):
    """--dim names the value; files and numbers are given in the order of the arguments."""
    spec = importlib.util.spec_from_file_location("cli_programs", ROOT / "test/cli/conftest.py")
    of_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(of_cli)
    program = of_cli.make_program()
    program["values"][1]["name"] = "factor"
    (tmp_path / "m.json").write_text(json.dumps(program))
    said = make(tmp_path / "m.json", tmp_path / "m", "--dim", "factor=2")
    assert "embeds the runtime: scalar input 'scale' is a float, which cannot be fixed" in said
    want = [np.asarray(w) for w in clave.Session(str(tmp_path / "m.json"), device="cpu").run(noise(3, 4), 2.0)]
    got = run(tmp_path / "m", (noise(3, 4),), want, env=ALONE["cpu"])
    assert all(same_bits(a, b) for a, b in zip(got, want, strict=True))


KINDS = {
    "net": (Net, [(noise(2, 3, 32, 32),)]),
    "loop": (Loop, [(noise(4, 5), torch.tensor(5)), (-noise(4, 5).abs(), torch.tensor(0))]),
    "sizes of data": (Nonzero, [(noise(6).relu(),), (torch.zeros(6),)]),
    "dice": (Dice, [(noise(5), torch.tensor(3))]),
    "state": (Counter, [(noise(3),)]),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_bits(tmp_path, name, target):
    module, runs = KINDS[name]
    program = saved(tmp_path, module(), *runs[0])
    exe = tmp_path / "m"
    make(program, exe, "--target", target, "--method", "all")
    compare(program, exe, runs, target=target)


def test_an_output_without_elements(tmp_path):
    program = saved(tmp_path, Nonzero(), noise(6))
    assert "depends on data" in make(program, tmp_path / "m")
    compare(program, tmp_path / "m", [(torch.zeros(6),)])


class Shared(torch.nn.Module):
    """Two methods that share a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.arange(4.0))

    def forward(self, x):
        self.n.add_(x)
        return self.n * 2


class Read(torch.nn.Module):
    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self, k):
        return self.of.n[k] + 1


@pytest.mark.parametrize("target", TARGETS)
def test_methods(tmp_path, target):
    of = Shared()
    clave.export({"add": (of, (noise(4),)), "read": (Read(of), (torch.tensor([1, 2]),))}).save(tmp_path / "m.clv")
    exe = tmp_path / "m"
    make(tmp_path / "m.clv", exe, "--target", target, "--method", "all")
    for options, method, inputs in (
        ((), "add", noise(4)),
        (("--method", "add"), "add", noise(4)),
        (("--method", "read"), "read", torch.tensor([3, 0])),
    ):
        compare(tmp_path / "m.clv", exe, [(inputs,)], *options, target=target, method=method)
    r = call(exe, "--help", env={})
    assert "[--method M]" in r.stdout and "method add:" in r.stdout and "method read:" in r.stdout
    r = call(exe, "--method", "write", "a", "b", env={})
    assert r.returncode == 2 and r.stderr == 'm: unknown method "write"; the methods are add, read\n'
    make(tmp_path / "m.clv", tmp_path / "one", "--target", "opencl", "--method", "read")
    assert "--method" not in call(tmp_path / "one", "--help", env={}).stdout


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("target", TARGETS)
def test_resnet(tmp_path, target, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/resnet")
    monkeypatch.delitem(sys.modules, "model", raising=False)
    model = pytest.importorskip("model")
    batch = torch.export.Dim("batch", min=1, max=256)
    x = noise(2, 3, 32, 32)
    clave.export(model.load(), (x,), dynamic_shapes=({0: batch},)).save(tmp_path / "m.clv")
    make(tmp_path / "m.clv", tmp_path / "m", *form_of(target))
    compare(tmp_path / "m.clv", tmp_path / "m", [(x,), (noise(1, 3, 32, 32),)], target=target)


# ---------------------------------------------------------------- language models


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    exe = tmp_path_factory.mktemp("story") / "story"
    assert make(TINYLM, exe) == ""
    return exe


SAID = ("--prompt", "ROMEO:", "--temperature", "0.8", "--seed", "3", "--max-new-tokens", "60")


def test_a_story(story, tmp_path):
    moved = shutil.copy(story, tmp_path / "s")
    want = command("generate", TINYLM, "--device", "cpu", *SAID)
    got = call(moved, *SAID, cwd="/", env={})
    assert (got.returncode, got.stdout) == (0, want.stdout), got.stderr
    assert needed(story) <= {"libc", "libm", "libpthread", "libdl"}


@pytest.mark.by_turn(9)
def test_a_story_on_opencl(tmp_path):
    exe = tmp_path / "story"
    make(TINYLM, exe, "--target", "opencl")
    want = command("generate", TINYLM, "--device", "opencl", *SAID)
    got = call(exe, *SAID, env=ALONE["opencl"])
    assert (got.returncode, got.stdout) == (0, want.stdout), got.stderr
    r = call(exe, "--device", "cpu", *SAID, env={})
    assert r.returncode == 1 and r.stderr.startswith(
        "story: --device is 'cpu', and this executable runs only on OpenCL devices"
    )


def test_the_options_of_a_story(story, tmp_path):
    """The options are those of clave generate, except those that name a program or a device."""
    own = {w for w in call(story, "--help", env={}).stdout.split() if w.startswith("--")}
    tool = {w for w in command("generate", "--help").stdout.split() if w.startswith("--")}
    assert tool - own >= {"--consts", "--device", "--no-fallback"} and own <= tool
    r = call(story, "--prompt", "A", "--output-ids", tmp_path / "ids", "--max-new-tokens", "5", env={})
    assert r.returncode == 0 and len((tmp_path / "ids").read_text().split()) == 5
    r = call(story, env={})
    assert r.returncode == 2 and r.stderr.startswith("story: ") and "usage: story" not in r.stdout
    r = call(story, "--promt", "x", env={})
    assert r.returncode == 2 and "story: story has no flag --promt; did you mean --prompt?" in r.stderr
    assert "usage: story (--prompt TEXT" in r.stderr and "       story --help explains it" in r.stderr


def test_the_tensors_of_a_language_model(tmp_path):
    exe = tmp_path / "m"
    make(TINYLM, exe, *form_of("c"))
    tokens = (torch.tensor([[5, 17, 3]]), torch.tensor(0))
    compare(TINYLM, exe, [tokens, (torch.tensor([[5]]), torch.tensor(0))])


@pytest.mark.by_turn(9)
def test_stories_by_a_model_of_any_length(tmp_path, monkeypatch, test_data):
    """One method runs prompts of any length and single tokens; the tokenizer is in a file."""
    monkeypatch.syspath_prepend(ROOT / "examples/stories260k")
    monkeypatch.delitem(sys.modules, "model", raising=False)
    monkeypatch.setenv("CLAVE_TEST_DATA", str(test_data))
    data = test_data / "stories260K"
    import model

    length = torch.export.Dim("length", min=1, max=512)
    args = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    program = clave.export(model.load(torch.float32), args, dynamic_shapes=({1: length}, None))
    program.set_tokenizer(data / "tok512.model")
    program.save(tmp_path / "m.clv")
    make(tmp_path / "m.clv", tmp_path / "story")
    said = ("--prompt", "Once upon a time", "--max-new-tokens", "100")
    want = command("generate", tmp_path / "m.clv", "--device", "cpu", *said).stdout
    got = call(tmp_path / "story", *said, env={})
    assert (got.returncode, got.stdout) == (0, want) and len(want) > 200, got.stderr
    r = call(tmp_path / "story", "--chat", "--prompt", "Hello", env={})
    assert r.returncode == 1 and "m.clv has no chat template" in r.stderr


# ---------------------------------------------------------------- errors


def bad(tmp_path, *args, env=None):
    """Expects one error line of clave and no new files; returns the line."""
    before = sorted(tmp_path.iterdir())
    r = command("compile", *args, env=os.environ | (env or {}))
    line = r.stderr.splitlines()[-1]
    assert r.returncode == 1 and r.stdout == "" and line.startswith("clave: "), r.stderr
    assert sorted(tmp_path.iterdir()) == before
    return line


class Solve(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x).relu()


def test_ops_that_no_opencl_device_has(tmp_path):
    program = saved(tmp_path, Solve(), noise(3, 3))
    line = bad(tmp_path, program, "-o", tmp_path / "m", "--target", "opencl")
    assert "op linalg has no OpenCL kernel and runs only on the CPU backend" in line and "node " in line
    make(program, tmp_path / "m", "--method", "all")
    compare(program, tmp_path / "m", [(noise(3, 3),)])


def test_no_compiler(tmp_path):
    line = bad(tmp_path, MNIST, "-o", tmp_path / "m", "--target", "opencl", env={"CC": "no-such-cc"})
    assert "no-such-cc: No such file" in line and "CC names the C compiler" in line


def test_a_linker_that_fails(tmp_path):
    cc = tmp_path / "cc"
    cc.write_text('#!/bin/sh\ncase "$*" in *" -c "*) exit 0;; esac; echo no room; exit 1\n')
    cc.chmod(0o755)
    for program in (MNIST, TINYLM):
        line = bad(tmp_path, program, "-o", tmp_path / "m", "--target", "opencl", env={"CC": str(cc)})
        assert "exit status 1 while linking: no room" in line


def test_no_library(tmp_path):
    (tmp_path / "libclave.a").write_text("")
    line = bad(tmp_path, MNIST, "-o", tmp_path / "m", *form_of("c"), "--static-library", tmp_path / "none.a")
    assert "none.a: not found" in line and "--static-library sets its path" in line
    line = bad(tmp_path, MNIST, "-o", tmp_path / "m", *form_of("c"), "--static-library", tmp_path / "libclave.a")
    assert "libclave_main.a: not found; it must be in the folder of libclave.a" in line


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_library_by_a_path_from_here(tmp_path):
    """The SBOM names the library that was linked."""
    for name in ("libclave.a", "libclave_main.a"):
        (tmp_path / name).symlink_to(BUILD / name)
    args = ("-o", "m", "--static-library", "libclave.a", "--sbom", "s.json")
    r = command("compile", TINYLM, *args, cwd=tmp_path)
    assert r.returncode == 0, r.stderr
    assert len(call(tmp_path / "m", "--prompt", "ROMEO:", "--max-new-tokens", 4, env={}).stdout) > 6
    found = {c["name"]: c for c in json.loads((tmp_path / "s.json").read_text())["components"]}
    for name in ("libclave.a", "libclave_main.a"):
        assert found[name]["hashes"] == [{"alg": "SHA-256", "content": sha256(BUILD / name)}]
        assert found[name]["licenses"] == [{"license": {"id": "MIT"}}]
    for name, licence in (("libpcre2-8.a", "BSD-3-Clause"), ("libutf8proc.a", "MIT")):
        asked = ["cc", f"-print-file-name={name}"]
        path = pathlib.Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
        assert (name in found) == path.is_absolute()
        if path.is_absolute():
            assert found[name]["hashes"][0]["content"] == sha256(path)
            assert found[name]["licenses"] == [{"license": {"id": licence}}]


def test_libraries_beside_the_runtime_are_linked(tmp_path):
    """Libraries beside the runtime, as in a Python wheel, are linked on machines without development packages."""
    for name in ("libclave.a", "libclave_main.a"):
        (tmp_path / name).symlink_to(BUILD / name)
    asked = ["cc", "-print-file-name=libpcre2-8.a"]
    path = pathlib.Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    subprocess.run(["objcopy", "--strip-debug", path, tmp_path / path.name], check=True)
    with (tmp_path / path.name).open("ab") as archive:
        archive.write(b"\n" * 2)  # makes it differ from the system's library
    args = ("-o", "m", "--static-library", tmp_path / "libclave.a", "--sbom", "s.json")
    r = command("compile", TINYLM, *args, cwd=tmp_path)
    assert r.returncode == 0, r.stderr
    found = {c["name"]: c for c in json.loads((tmp_path / "s.json").read_text())["components"]}
    assert found[path.name]["hashes"][0]["content"] == sha256(tmp_path / path.name) != sha256(path)


@pytest.mark.parametrize(
    "args, says",
    [
        (["-o", "{}/no/m"], "no/m: No such file or directory"),
        (["-o", "{}"], ": Is a directory"),
        (["--emit-c", "{}"], "is not empty"),
        (
            ["-o", "{}/m", "--march", "native"],
            "--march needs a program that is emitted as C code, and a program for OpenCL",
        ),
        (
            ["-o", "{}/m", "--tune", "--method", "all"],
            "--tune needs a single method, and cannot be combined with --method all",
        ),
        (["-o", "{}/m", "--dim", "rows=1"], "'rows'"),
        (["-o", "{}/m", "--dim", "batch=0"], "batch"),
    ],
)
def test_bad_arguments(tmp_path, args, says):
    (tmp_path / "file").write_text("x")
    assert says in bad(tmp_path, MNIST, "--target", "opencl", *[a.format(tmp_path) for a in args])


@pytest.mark.by_turn(9)
def test_the_same_bytes_each_time(mnist, tmp_path):
    target, exe = mnist
    make(MNIST, tmp_path / "other", *form_of(target))
    assert (tmp_path / "other").read_bytes() == exe.read_bytes()


def test_a_language_model_is_not_tuned_or_bare(tmp_path):
    line = bad(tmp_path, TINYLM, "-o", tmp_path / "m", "--tune")
    assert "--tune needs a single method, and cannot be combined with the text generation of a language model" in line
    r = command("compile", TINYLM, "--bare", "-o", tmp_path / "tiny.o")
    says = "--bare needs a program that is emitted as C code, and this program embeds the runtime; "
    says += "a size of input 'tokens' is not fixed (--dim length=N fixes it)"
    assert r.returncode == 1 and says in r.stderr, r.stderr
    line = bad(tmp_path, TINYLM, "-o", tmp_path / "m", "--arena", "static")
    assert (
        "--arena static needs a program that is emitted as C code, and the text generation of a language model" in line
    )


@pytest.mark.parametrize("program", [MNIST, TINYLM])
def test_sources_build_elsewhere(tmp_path, program):
    r = command("compile", program, "--emit-c", tmp_path / "src", *(form_of("c") if program == MNIST else ()))
    assert r.returncode == 0, r.stderr
    moved = shutil.move(tmp_path / "src", tmp_path / "moved")
    r = subprocess.run(
        ["make", "-s", "CC=clang", "CFLAGS=-Werror", f"CLAVE_LIBDIR={BUILD}"], cwd=moved, capture_output=True, text=True
    )
    assert (r.returncode, r.stderr) == (0, "")
    exe = pathlib.Path(moved) / "model"
    if program == TINYLM:
        assert call(exe, *SAID, env={}).stdout == command("generate", TINYLM, "--device", "cpu", *SAID).stdout
    else:
        compare(MNIST, exe, [(images(2),)])
