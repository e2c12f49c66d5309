"""Programs with dynamic sizes that are written out: one executable has a session's bits at all sizes, and gcc and clang
print no warning. A size that does not fit is the session's error, in one line."""

import importlib.util
import json

import numpy as np
import pytest
import torch
from compiled import ROOT, SAN, Builder, command, emit, run, same_bits
from test_carried import MNIST, TINYLM, Gram, Products, Sequence, Window, call, images
from test_models import Loop, Net, Nonzero, Pick, Steps, noise, saved
from test_shared import Library

import clave

DYNAMIC = torch.export.Dim.DYNAMIC


@pytest.fixture(scope="module")
def builder():
    """Returns a builder like that of programs.py, whose objects it shares."""
    return Builder("gcc", ("-O0",), all_steps=True)


def check(exe, session, inputs, *options) -> None:
    want = [np.asarray(w) for w in session.run(*inputs)]
    for i, (a, b) in enumerate(zip(run(exe, inputs, want, *options, env={}), want, strict=True)):
        assert same_bits(a, b), f"output {i}: other bits than a session's"


def compare(builder, program, runs, *options, words=()) -> None:
    """Compares all runs of one executable bit by bit. options: those of the executable. words: those of the
    compilation."""
    exe = builder.build(emit(program, program.parent / "c", *words))
    session = clave.Session(str(program), device="cpu")
    for inputs in runs:
        check(exe, session, inputs, *options)


class Rows(torch.nn.Module):
    """Has views, sums and products along a size that may be 0 or 1, broadcasts, copies and a constant result."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Linear(5, 7)
        self.register_buffer("scale", torch.arange(7.0))

    def forward(self, x):
        y = self.rows(x)
        z = y.mT.reshape(-1, y.shape[0]) + y.sum(0, keepdim=True).mT
        return y.flip(0), torch.cat([z, z * 2], 1), y.new_zeros(y.shape[0], 2), self.scale * 2, y.mean(-1).cumsum(0)


class Images(torch.nn.Module):
    """Convolutions of a transposed image, which is copied. Their variants depend on sizes: 3 x 3 with many channels,
    pointwise, with strides, depthwise."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 32, 3, padding=1)
        self.many = torch.nn.Conv2d(32, 32, 3, padding=1)
        self.depthwise = torch.nn.Conv2d(32, 32, 3, 2, 1, groups=32)
        self.pointwise = torch.nn.Conv2d(32, 16, 1)

    def forward(self, x):
        x = torch.relu(self.many(torch.relu(self.first(x.mT))) + 1)
        x = torch.nn.functional.max_pool2d(x, 2)
        x = self.pointwise(torch.nn.functional.relu6(self.depthwise(x)))
        return torch.nn.functional.adaptive_avg_pool2d(x, 2).flatten(1).softmax(-1), x


def size(name, low, high):
    return torch.export.Dim(name, min=low, max=high)


def sequences(*shapes):
    return [(noise(*s),) for s in shapes]


SIDES = {2: size("height", 8, 80), 3: size("width", 8, 80)}
PROGRAMS = {
    "rows": (Rows, ({0: size("n", 0, 400)},), sequences((4, 5), (1, 5), (300, 5), (0, 5), (4, 5)), ()),
    "net": (Net, ({0: size("batch", 1, 8)},), sequences((2, 3, 32, 32), (1, 3, 32, 32), (7, 3, 32, 32)), ()),
    "products": (
        Products,
        ({0: size("rows", 1, 50), 1: size("columns", 1, 60)}, {0: size("columns", 1, 60)}),
        [(noise(3, 4), noise(4, 3)), (noise(7, 2), noise(2, 3)), (noise(1, 50), noise(50, 3))],
        (),
    ),
    "gram": (Gram, ({0: size("n", 1, 99), 1: size("n", 1, 99)},), sequences((4, 4), (2, 2), (1, 1), (31, 31)), ()),
    "number": (Window, {"x": {0: DYNAMIC}, "n": DYNAMIC}, [(noise(10, 2), n) for n in (4, 7, 10, 2)], ()),
    "pick": (Pick, ({0: size("n", 0, 60)},), [(torch.arange(n) % 7,) for n in (3, 1, 50, 0)], ()),
}


@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.by_turn(14)) for k in PROGRAMS])
def test_bits(builder, tmp_path, name):
    module, dims, runs, options = PROGRAMS[name]
    program = saved(tmp_path, module(), *runs[0], dynamic_shapes=dims)
    compare(builder, program, runs, *options)


IMAGES = sequences((1, 3, 32, 32), (3, 3, 9, 80), (2, 3, 33, 17), (1, 3, 80, 80), (1, 3, 8, 8))


@pytest.mark.parametrize("compiler", [pytest.param(c, marks=pytest.mark.by_turn(14)) for c in ("gcc", "clang")])
def test_images_of_any_size(builder, tmp_path, compiler):
    """clang builds with sanitizers; the weights are packed when new sizes are run."""
    program = saved(tmp_path, Images(), noise(2, 3, 24, 40), dynamic_shapes=({0: size("batch", 1, 9), **SIDES},))
    exe = (builder if compiler == "gcc" else Builder("clang", ("-O0", *SAN))).build(emit(program, tmp_path / "c"))
    session = clave.Session(str(program), device="cpu")
    for (x,) in IMAGES:
        words = [w for n, k in (("batch", 0), ("height", 2)) for w in ("--dim", f"{n}={x.shape[k]}")]
        check(exe, session, (x,), *words)


@pytest.mark.by_turn(14)
def test_a_language_models_method(builder, tmp_path):
    program = tmp_path / "m.clv"
    program.write_bytes(TINYLM.read_bytes())
    runs = [(torch.arange(n)[None] % 60, torch.tensor(0)) for n in (3, 1, 40, 3)]
    compare(builder, program, runs, words=("--method", "forward"))


@pytest.mark.by_turn(14)
def test_sizes_that_do_not_follow(builder, tmp_path):
    program = saved(
        tmp_path, Sequence(), noise(2, 6, 8), dynamic_shapes=({0: size("batch", 1, 5), 1: size("length", 1, 40)},)
    )
    compare(builder, program, sequences((2, 9, 8), (2, 31, 8)), "--dim", "batch=2")
    exe = tmp_path / "c/model"
    r = call(exe, tmp_path / "c/in0.bin", tmp_path / "o", env={})
    assert (
        r.returncode == 1
        and "size 'batch' does not follow from the lengths of the files: set it by --dim batch=N" in r.stderr
    )
    r = call(exe, "--dim", "batch=3", tmp_path / "c/in0.bin", tmp_path / "o", env={})
    assert r.returncode == 1 and "1984 bytes do not fit input" in r.stderr and "'batch' is 3" in r.stderr
    assert "size batch: from 1 to 5\n  size length: from 1 to 40" in call(exe, "--help", env={}).stdout


@pytest.mark.by_turn(14)
def test_one_size_is_fixed(builder, tmp_path):
    a, b = size("rows", 1, 50), size("columns", 1, 60)
    program = saved(tmp_path, Products(), noise(3, 4), noise(4, 3), dynamic_shapes=({0: a, 1: b}, {0: b}))
    runs = [(noise(n, 5), noise(5, 3)) for n in (1, 9)]
    compare(builder, program, runs, words=("--dim", "columns=5"))
    said = call(tmp_path / "c/model", "--help", env={}).stdout
    assert "input 0: x: F32 (rows, 5)" in said and "input 1: y: F32 (5, 3), 60 bytes" in said
    assert "output 0: output_0: F32 (rows, rows)" in said and "size columns" not in said


@pytest.mark.by_turn(14)
def test_a_number_is_fixed(builder, tmp_path):
    """The executable starts no threads."""
    program = saved(tmp_path, Window(), noise(10, 2), 4, dynamic_shapes={"x": {0: DYNAMIC}, "n": DYNAMIC})
    exe = builder.build(emit(program, tmp_path / "c", "--dim", "n=5", "--threads", "0"))
    assert "-lpthread" not in (tmp_path / "c/Makefile").read_text() and "input 1" not in call(exe, "--help").stdout
    session = clave.Session(str(program), device="cpu")
    for n in (10, 5, 31):
        want = [np.asarray(w) for w in session.run(noise(n, 2), 5)]
        assert all(same_bits(a, b) for a, b in zip(run(exe, (noise(n, 2),), want, env={}), want, strict=True))


@pytest.mark.by_turn(14)
def test_its_own_steps(tmp_path):
    """Elementwise kernels have only the steps of the program."""
    program = saved(tmp_path, Steps(), noise(7), torch.arange(7), dynamic_shapes=({0: DYNAMIC}, {0: DYNAMIC}))
    compare(Builder("gcc", ("-O0",)), program, [(noise(n), torch.arange(n)) for n in (7, 2, 100)])


@pytest.mark.by_turn(14)
def test_an_index_out_of_range(builder, tmp_path):
    """The error has the node's name; the runs before and after it are right."""
    program = saved(tmp_path, Pick(), torch.tensor([3, 0]), dynamic_shapes=({0: DYNAMIC},))
    compare(builder, program, [(torch.tensor([3, 0]),)])
    np.array([1, 9, 2]).tofile(tmp_path / "i.bin")
    r = call(tmp_path / "c/model", tmp_path / "i.bin", tmp_path / "o.bin", env={})
    assert r.returncode == 1 and not (tmp_path / "o.bin").exists()
    assert r.stderr == "model: index 9 out of range [0, 6]; node 0 (index_select, table)\n"


@pytest.mark.by_turn(14)
def test_a_number_that_is_a_float(builder, tmp_path):
    """An input is a float, and a size exceeds its bounds."""
    spec = importlib.util.spec_from_file_location("cli_programs", ROOT / "test/cli/conftest.py")
    of_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(of_cli)
    (tmp_path / "m.json").write_text(json.dumps(of_cli.make_program()))
    exe = builder.build(emit(tmp_path / "m.json", tmp_path / "c"))
    session = clave.Session(str(tmp_path / "m.json"), device="cpu")
    for n, scale in ((3, 0.5), (8, -1e-3), (1, 7.0)):
        check(exe, session, (noise(n, 4), scale))
    noise(9, 4).numpy().tofile(tmp_path / "x.bin")
    r = call(exe, tmp_path / "x.bin", 0.5, tmp_path / "o", tmp_path / "p", env={})
    assert r.returncode == 1 and "x.bin: size 'batch': expected 1 to 8, got 9" in r.stderr


def test_what_is_carried_says_why(tmp_path):
    """Bodies and sizes that depend on data are determined during a run."""
    for module, args, dims, node in (
        (Loop, (noise(4, 5), torch.tensor(5)), ({0: DYNAMIC}, None), "(if, cond)"),
        (Nonzero, (noise(6),), ({0: DYNAMIC},), "(item, "),
    ):
        program = saved(tmp_path, module(), *args, dynamic_shapes=dims)
        r = command("compile", program, "--emit-c", tmp_path / module.__name__)
        assert r.returncode == 0 and "embeds the runtime: a size of input 'x' is not fixed (--dim " in r.stderr, (
            r.stderr
        )
        assert (
            "and the result of this control flow is not known before a run; node " in r.stderr and node in r.stderr
        ), r.stderr


@pytest.mark.by_turn(14)
def test_the_example(tmp_path):
    """The example as users build it, with options for written-out programs; its results equal the kept ones."""
    exe = tmp_path / "digits"
    r = command("compile", MNIST, "-o", exe, "--verify", "--threads", "2", "--march", "native")
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    assert exe.stat().st_size < 132_776 + 800_000
    assert call(exe, "--verify", env={}).stdout.startswith("verified: 1 outputs")
    session = clave.Session(str(MNIST), device="cpu")
    for n in (1, 3, 17):
        check(exe, session, (images(n),))
    images(2)[:, :, 1:].tofile(tmp_path / "short.bin")
    r = call(exe, tmp_path / "short.bin", tmp_path / "o", env={})
    assert (
        r.returncode == 1
        and "short.bin: 6048 bytes do not fit input 'x', which is F32 (batch, 1, 28, 28), a multip" in r.stderr
    )
    words = call(exe, "--bench", 3, tmp_path / "in0.bin", env={}).stdout.split()
    assert words[::2] == ["load_ms", "first_ms", "median_ms", "min_ms"]


@pytest.mark.by_turn(14)
def test_a_library(tmp_path):
    """Sizes change from one run to the next, in an order in which plans are kept and dropped."""
    r = command("compile", MNIST, "-o", tmp_path / "libdigits.so", "--shared", "--verify")
    assert (r.returncode, r.stderr) == (0, "")
    library, session = Library(tmp_path / "libdigits.so"), clave.Session(str(MNIST), device="cpu")
    for n in [*range(1, 12), 3, 1, 11, 2]:
        library.compare("forward", (images(n, n),), session.run(images(n, n)))
    assert library.call("verify") == 0, library.error()
    library.close()
