"""Tests the message of a failed export: it names the place in the model, in the user's words, on one line."""

import logging
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from _export import Counter, Fn
from torch import nn
from torch.export import Dim

import clave
from clave.lowering import LOWERINGS
from clave.quiet import quiet

pytestmark = pytest.mark.by_turn(15)

X = torch.linspace(-2, 3, 12).reshape(3, 4)


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x)


class Net(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleDict({"attn": Spectrum()}) for _ in range(n)])

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["attn"](x)
        return torch.special.bessel_y1(x)


def test_unsupported_ops_have_their_places():
    with pytest.raises(clave.UnsupportedOp) as e:
        clave.export(Net().eval(), (torch.randn(4, 4),))
    places = e.value.places["aten.special_airy_ai.default"]
    assert [p.module for p in places] == [f"layers.{i}.attn" for i in range(4)]
    assert {p.method for p in places} == {"forward"}
    assert all(p.line.startswith(__file__) and p.line.endswith("return torch.special.airy_ai(x)") for p in places)
    (outermost,) = e.value.places["aten.special_bessel_y1.default"]
    assert outermost.module == "" and "bessel_y1(x)" in outermost.line
    assert set(e.value.places) == set(e.value.ops)
    said = "(4 calls; layers.0.attn, layers.1.attn, layers.2.attn at " + places[0].line + ", 1 more)"
    assert said in str(e.value) and "\n" not in str(e.value)


def test_places_in_several_methods_and_bodies():
    def branch(x):
        return torch.cond(x.sum() > 0, Spectrum(), lambda x: x * 2, (x,))

    square = torch.randn(4, 4)
    with pytest.raises(clave.UnsupportedOp, match=r"\(2 calls; .*method 'a'.*method 'b'"):
        clave.export({"a": (Spectrum().eval(), (square,)), "b": (Fn(branch).eval(), (square,))})


def test_places_of_a_loaded_graph(tmp_path):
    torch.export.save(torch.export.export(Net(1).eval(), (torch.randn(4, 4),)), tmp_path / "net.pt2")
    with pytest.raises(clave.UnsupportedOp, match=r"layers.0.attn at .*: return torch.special.airy_ai\(x\)"):
        clave.export(tmp_path / "net.pt2")


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


def test_the_verifiers_errors_have_the_models_line(monkeypatch):
    def wrong(c, x):
        return c.emit("Softmax", x=x, axis=9)

    monkeypatch.setitem(LOWERINGS, "aten.sin.default", wrong)
    with pytest.raises(clave.Error, match=r"node \d \(sin, softmax\).*; from 1 at .*: return torch.sin\(x\)$"):
        clave.export(nn.Sequential(nn.Linear(4, 4), Sine()).eval(), (X,))


@pytest.mark.parametrize("raised", [KeyError("axis"), clave.Error("no such axis")], ids=lambda e: type(e).__name__)
def test_what_a_lowering_raises_has_the_models_line(monkeypatch, raised):
    def fail(c, x):
        raise raised

    monkeypatch.setitem(LOWERINGS, "aten.sin.default", fail)
    with pytest.raises(clave.Error, match=r"lowering aten.sin.default: .*axis.*; 0 at .*: return torch.sin\(x\)$"):
        clave.export(nn.Sequential(Sine()).eval(), (X,))


def test_verification_names_the_models_line(monkeypatch):
    monkeypatch.setitem(LOWERINGS, "aten.sin.default", lambda c, x: LOWERINGS["aten.cos.default"](c, x))
    with pytest.raises(clave.Error, match=r"first node that differs is sin .*; from 0 at .*: return torch.sin\(x\)$"):
        clave.export(nn.Sequential(Sine()).eval(), (X,), verify=True)


# ---- sizes in the user's words


def error_of(program, *args):
    with pytest.raises(clave.Error) as e:
        clave.Session(program, "cpu")(*args)
    return str(e.value)


class Pair(nn.Module):
    def forward(self, first, second):
        return first + second.sum(0)


@pytest.mark.parametrize("dim", [Dim.DYNAMIC(min=2, max=9), Dim.AUTO(min=2, max=9), Dim("batch", min=2, max=9)])
def test_bounds_are_told_by_name(dim):
    program = clave.export(Pair().eval(), (X, torch.randn(5, 4)), dynamic_shapes={"second": {0: dim}, "first": None})
    name = "batch" if isinstance(dim, Dim) else "second.shape[0]"
    assert f"dimension 0 of input 'second' is 12; '{name}' must be in [2, 9]" in error_of(
        program, X, torch.randn(12, 4)
    )


def test_sizes_that_must_be_equal_are_told_by_name():
    program = clave.export(
        Fn(lambda x, y: x + y).eval(), (X, X), dynamic_shapes=(({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),)
    )
    assert "'args_1' is 6, but 'args_0.shape[0]' is already 5" in error_of(
        program, torch.randn(5, 4), torch.randn(6, 4)
    )


def test_sizes_of_a_graph_have_names():
    graph = torch.export.export(Pair().eval(), (X, torch.randn(5, 4)), dynamic_shapes=(None, {0: Dim.DYNAMIC(max=9)}))
    assert "'second.shape[0]' must be in" in error_of(clave.export(graph), X, torch.randn(12, 4))


def test_assertions_of_the_model_are_told_by_name():
    class Count(nn.Module):
        def forward(self, x, n):
            n = n.item()
            torch._check(n < x.shape[0])
            return x * n

    program = clave.export(Count().eval(), (X, torch.tensor(2)), dynamic_shapes=({0: Dim.DYNAMIC}, None))
    assert "< x.shape[0]" in error_of(program, X, torch.tensor(3))


# ---- models that torch cannot capture


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Cut(nn.Module):
    def forward(self, x):
        n = int(x.max().item())
        return x * 2 if n > 3 else x.view(n, -1)


@pytest.mark.parametrize(
    "module, x, says",
    [
        (Branch(), X, r"branches on a value that is known only at run time \(.*torch.cond.*: if x.sum\(\) > 0:$"),
        (Cut(), torch.arange(12), r"makes a Python number of a tensor.*: n = int\(x.max\(\).item\(\)\)$"),
    ],
)
def test_guards_on_data_are_explained(module, x, says):
    with pytest.raises(clave.Error, match=says):
        clave.export(module.eval(), (x,))


def test_sizes_that_the_model_fixes_are_named():
    with pytest.raises(
        clave.Error, match=r"Constraints violated \(b\); You marked b as dynamic .* constant \(3\); .*b = 3$"
    ):
        clave.export(Fn(lambda x: x.view(3, 2, 2)).eval(), (X,), dynamic_shapes=(({0: Dim("b", min=2, max=8)},),))


def test_modules_that_torch_export_does_not_take():
    linear = nn.Linear(4, 4).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripts = torch.jit.script(linear), torch.jit.trace(linear, (X,))
        quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(linear), {nn.Linear})
    for script in scripts:
        with pytest.raises(clave.Error, match=r"Linear is a ScriptModule, .*: pass the torch.nn.Module"):
            clave.export(script, (X,))
    with pytest.raises(clave.Error, match=r"'0' is a quantised Linear .*: pass the module before quantisation"):
        clave.export(quantised, (X,))


class Branches(torch.nn.Module):
    """Its computation depends on sizes in Python."""

    def forward(self, x, y):
        torch._check(x.shape[0] < y.shape[0])
        if x.shape[0] % 2 == 0:
            x = x * 10
        if y.shape[0] == 6:
            return x.sum() + y.sum()
        return x.sum() - y.sum()


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("whole", [False, True], ids=["module", "graph"])
def test_sizes_for_which_the_model_goes_another_way(whole, verify):
    """torch.export keeps the example's branch. Other sizes are refused with an error that names the condition."""
    module, args = Branches().eval(), (torch.ones(4, 2), torch.ones(7, 2))
    shapes = ({0: Dim.AUTO}, {0: Dim.AUTO})
    if whole:
        program = clave.export(torch.export.export(module, args, dynamic_shapes=shapes), verify=verify)
    else:
        program = clave.export(module, args, dynamic_shapes=shapes, verify=verify)
    for device in ("cpu", "opencl"):
        session = clave.Session(program, device)
        x, y = torch.randn(2, 2), torch.randn(9, 2)
        torch.testing.assert_close(session(x, y), module(x, y))
        for n, m, says in (
            (3, 7, r"\(x.shape\[0\] % 2\) == 0: 1 == 0 does not hold"),
            (8, 8, "8 < 8"),
            (4, 6, "6 != 6"),
        ):
            with pytest.raises(clave.Error, match=f"the model was captured for sizes with .*{says}"):
                session(torch.ones(n, 2), torch.ones(m, 2))


def test_dynamic_shapes_of_a_graph_are_refused():
    graph = torch.export.export(nn.Linear(4, 4).eval(), (X,))
    for more in ({"args": (X,)}, {"kwargs": {"x": X}}, {"dynamic_shapes": ({0: Dim("b")},)}):
        with pytest.raises(clave.Error, match=f"{next(iter(more))} given with an ExportedProgram, .* torch.export"):
            clave.export(graph, **more)


def test_a_pass_that_fails_in_torch_is_our_error(monkeypatch):
    def fail(*_):
        raise ValueError("no such node")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fail)
    with pytest.raises(clave.Error, match=r"torch cannot decompose the graph: ValueError: no such node"):
        clave.export(nn.Linear(4, 4).eval(), (X,))


# ---- silence


class Heads(nn.Module):
    """Attention that a rewrite reshapes to symbolic sizes."""

    def forward(self, x):
        q = x.view(1, -1, 2, 4).transpose(1, 2)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        x = nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return x.transpose(1, 2).reshape(1, -1, 8)


def test_nothing_but_errors_is_written(capfd, caplog):
    """torch's loggers, warnings and prints of the graph are silent, whether the export works or not."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        clave.export(Fn(lambda x: x[:, int(x.sum().item()) :]).eval(), (torch.zeros(3, 4).long(),))
        clave.export(Counter(0).eval(), (torch.ones(3),), verify=True)
        heads = Heads().eval(), (torch.randn(1, 5, 8),)
        clave.export(*heads, dynamic_shapes=({1: Dim("length", min=2, max=9)},))
        with pytest.raises(clave.Error):
            clave.export(Branch().eval(), (X,))
    assert [str(w.message) for w in warned] == [] and not caplog.records
    assert tuple(capfd.readouterr()) == ("", "")


def test_the_models_own_words_come_through(capfd):
    def f(x):
        print("tracing")
        warnings.warn("mine", UserWarning, stacklevel=1)
        return x * 2

    with pytest.warns(UserWarning, match="mine"):
        clave.export(Fn(f).eval(), (X,))
    assert "tracing" in capfd.readouterr().out


def test_silence_ends_with_the_last_thread():
    logger, filters = logging.getLogger("torch.export"), list(warnings.filters)
    level, inside, over = logger.getEffectiveLevel(), threading.Event(), threading.Event()

    def other():
        with quiet:
            inside.set()
            over.wait()

    thread = threading.Thread(target=other)
    with quiet:
        thread.start()
        inside.wait()
    assert logger.getEffectiveLevel() > logging.CRITICAL and "print" in vars(torch.export._trace)
    over.set()
    thread.join()
    assert (
        logger.getEffectiveLevel() == level and warnings.filters == filters and "print" not in vars(torch.export._trace)
    )


# ---- a module that changes


@pytest.mark.parametrize("change", [lambda w: w.mul_(2), lambda w: w.data.mul_(2), lambda w: w.numpy().fill(1)])
def test_a_module_that_changes_before_it_is_saved_is_an_error(tmp_path, change):
    module = nn.Sequential(nn.Linear(4, 4)).eval()
    program = clave.export(module, (X,))
    program.save(tmp_path / "before.clv")
    with torch.no_grad():
        change(module[0].weight)
    for use in (lambda: program.save(tmp_path / "after.clv"), lambda: clave.Session(program, "cpu")):
        with pytest.raises(clave.Error, match=r"'0.weight' was changed after clave.export took it: export again"):
            use()
    assert not (tmp_path / "after.clv").exists()
    clave.Session(clave.load(tmp_path / "before.clv"), "cpu")
    clave.Session(clave.export(module, (X,)), "cpu")


def test_weights_that_move_away_do_not_change_a_program():
    module = nn.Linear(4, 4).eval()
    program, want = clave.export(module, (X,)), module(X)
    module.half()
    torch.testing.assert_close(clave.Session(program, "cpu")(X), want)


def test_weights_made_in_inference_mode_are_taken():
    with torch.inference_mode():
        module = nn.Linear(4, 4).eval()
    program = clave.export(module, (X,))
    clave.Session(program, "cpu")


def test_weights_that_differ_between_the_looked_at_elements_are_two():
    a, b = torch.zeros(5000), torch.zeros(5000)
    b[100] = 1  # index between two ranges of sampled elements
    program = clave.export(Fn(lambda x: x + a + b + a.clone()).eval(), (torch.zeros(5000),))
    assert clave.Session(program, "cpu")(torch.zeros(5000))[100] == 1


def test_weights_are_held_once(tmp_path):
    """Neither the export nor the file needs memory for 256 MB of weights beyond that of a small net."""
    code = f"""
import resource, torch, clave

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def net(side):
    return torch.nn.Sequential(*(torch.nn.Linear(side, side) for _ in range(4))).eval(), (torch.randn(1, side),)

clave.export(*net(8)).save({str(tmp_path / "small.clv")!r})
module, example = net(4096)
before = peak()
clave.export(module, example).save({str(tmp_path / "large.clv")!r})
print(peak() - before)
"""
    env = os.environ | {"PYTHONPATH": str(Path(clave.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (tmp_path / "large.clv").stat().st_size > 256e6, done.stderr
    assert int(done.stdout) < 64e6


def test_weights_that_are_mapped_are_not_read(tmp_path):
    """An export of 256 MB reads only the sampled elements and the pages that the system reads around them: 2 MB each
    if it maps the file in large pages."""
    code = f"""
import torch, clave

def mapped():
    status = open("/proc/self/status").read()
    return int(status.split("RssFile:")[1].split()[0]) * 1024

def net(weight):
    module = torch.nn.Linear(4096, 16384, bias=False, device="meta")
    module.weight = torch.nn.Parameter(weight.view(-1, 4096))
    return module.eval(), (torch.randn(1, 4096),)

with open({str(tmp_path / "weight")!r}, "wb") as file:
    for _ in range(4):
        torch.randn(1 << 24).numpy().tofile(file)
clave.export(torch.nn.Linear(8, 8).eval(), (torch.randn(1, 8),))
before = mapped()
program = clave.export(*net(torch.from_file({str(tmp_path / "weight")!r}, size=1 << 26)))
print(mapped() - before)
"""
    env = os.environ | {"PYTHONPATH": str(Path(clave.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 128e6
