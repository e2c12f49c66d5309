"""Options of export: names, a dtype, decompositions, lowerings; its report; and its progress."""

import io
import re
import subprocess
import time

import numpy as np
import pytest
import torch
from _export import Counter, Fn, same
from torch import nn
from torch.export import Dim

import clave
from clave.lowering import LOWERINGS
from clave.lowering.steps import compute, step
from clave.progress import Progress

pytestmark = pytest.mark.by_turn(15)

X = torch.linspace(-2, 3, 12).reshape(3, 4)


class TwoHeads(nn.Module):
    def forward(self, image, extra):
        both = image + extra["bias"]
        return {"logits": both * 2, "scores": [both.sum(), both.shape[0]]}


# ---- names


def names(program, method="forward"):
    m = program.methods[method]
    return [a.name for a in m.inputs], [a.name for a in m.outputs]


def test_inputs_and_outputs_have_the_users_names():
    args = X, {"bias": torch.ones(4)}
    shapes = ({0: Dim.DYNAMIC(min=2, max=9)}, {"bias": None})
    assert names(clave.export(TwoHeads().eval(), args, dynamic_shapes=shapes)) == (
        ["image", "extra_bias"],
        ["logits", "scores_0", "scores_1"],
    )
    given = ["pixels", "b"], ["y", "total", "n"]
    program = clave.export(
        TwoHeads().eval(), args, dynamic_shapes=shapes, input_names=given[0], output_names=tuple(given[1])
    )
    assert names(program) == given
    session = clave.Session(program, "cpu")
    same(session(*args), TwoHeads()(*args))
    same(session(image=X, extra=args[1]), TwoHeads()(*args))
    same(session(b=args[1]["bias"], pixels=X), TwoHeads()(*args))
    with pytest.raises(clave.Error, match=r"input 'pixels' is 12; 'pixels.shape\[0\]' must be in \[2, 9\]"):
        session(torch.ones(12, 4), args[1])


def test_names_that_the_module_gives_another_argument_are_the_modules():
    program = clave.export(Minus().eval(), (X, X * 2), input_names=["second", "first"])
    assert names(program)[0] == ["second", "first"]
    same(clave.Session(program, "cpu")(first=X, second=X * 2), X - X * 2)


class Minus(nn.Module):
    def forward(self, first, second):
        return first - second


def test_names_of_several_methods():
    methods = {"a": (Counter(0).eval(), (torch.ones(3),)), "b": (nn.Linear(4, 4).eval(), (X,))}
    program = clave.export(methods, input_names={"b": ["x"]}, output_names={"a": ["sum"], "b": ["y"]})
    assert names(program, "a")[1] == ["sum"] and names(program, "b") == (["x"], ["y"])


@pytest.mark.parametrize(
    "given, says",
    [
        ({"input_names": ["a", "b", "c"]}, "input_names has 3, method 'forward' has 2 inputs: image, extra_bias"),
        ({"output_names": []}, "output_names has 0, method 'forward' has 3 outputs: logits, scores_0, scores_1"),
        ({"input_names": ["a", "a"]}, "input_names of method 'forward' has 'a' twice"),
        ({"input_names": "ab"}, "input_names: expected a list of names, or a dict of lists by method, got 'ab'"),
        ({"output_names": ["a", ""]}, r"output_names of method 'forward': expected a list of names, got \['a', ''\]"),
        ({"input_names": {"decode": ["a"]}}, "input_names has names for 'decode', the methods are forward"),
    ],
)
def test_wrong_names_are_errors(given, says):
    shapes = ({0: Dim.DYNAMIC}, {"bias": None})
    with pytest.raises(clave.Error, match=says):
        clave.export(TwoHeads().eval(), (X, {"bias": torch.ones(4)}), dynamic_shapes=shapes, **given)


def test_one_list_does_not_name_several_methods():
    methods = {m: (nn.Linear(4, 4).eval(), (X,)) for m in "ab"}
    with pytest.raises(clave.Error, match="input_names is a list and there are 2 methods"):
        clave.export(methods, input_names=["x"])


# ---- inputs that the module changes


class Shift(nn.Module):
    def forward(self, window, x):
        window[:-1] = window[1:].clone()
        window[-1] = x
        return window.sum()


def test_inputs_are_changed_as_the_module_changes_them():
    """A call changes torch tensors (with any strides) and numpy arrays; `run` returns the new values as results."""
    args = torch.arange(6.0), torch.tensor(9.0)
    program = clave.export(Shift().eval(), args, verify=True)
    session = clave.Session(program, "cpu")
    mine, theirs = torch.arange(12.0)[::2], torch.arange(12.0)[::2]
    for _ in range(2):
        same(session(mine, args[1]), Shift()(theirs, args[1]))
        same(mine, theirs)
    array = np.arange(6, dtype=np.float32)
    total, after = session.run(array, 9.0)
    assert after.tolist() == [1, 2, 3, 4, 5, 9] and total == 24 and array.tolist() == [0, 1, 2, 3, 4, 5]
    assert session(array, 9.0) == 24 and array.tolist() == after.tolist()
    assert names(program)[1] == ["output_0", "window"]


def test_inputs_that_cannot_be_changed_are_errors():
    session = clave.Session(clave.export(Shift().eval(), (torch.arange(6.0), torch.tensor(9.0))), "cpu")
    frozen = np.arange(6, dtype=np.float32)
    frozen.flags.writeable = False
    refused = {
        "which it does not allow: the array is read-only": frozen,
        "which it does not allow: expected a torch tensor or a numpy array, got list": [0, 1, 2, 3, 4, 5],
        "expected elements that are apart in memory": torch.zeros(1).expand(6),
    }
    for why, window in refused.items():
        with pytest.raises(clave.Error, match=f"input 'window' is changed in place.*{why}"):
            session(window, 9.0)


def test_a_changed_input_that_is_also_the_result():
    class Add(nn.Module):
        def forward(self, x):
            return x.add_(1), x

    x, program = torch.zeros(3), clave.export(Add().eval(), (torch.zeros(3),), verify=True)
    same(clave.Session(program, "cpu")(x), (torch.ones(3), torch.ones(3)))
    assert x.tolist() == [1, 1, 1]


def test_verification_sees_what_inputs_become(monkeypatch):
    monkeypatch.setitem(LOWERINGS, "aten.sin.default", lambda c, x: LOWERINGS["aten.cos.default"](c, x))

    class Into(nn.Module):
        def forward(self, x):
            x.copy_(x.exp().sin())
            return torch.ones(())

    with pytest.raises(clave.Error, match=r"result 1 is off by .* the first node that differs is sin"):
        clave.export(Into().eval(), (X.clone(),), verify=True)


# ---- dtype


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

    def forward(self, ids, x):
        self.steps += 1
        return self.out(self.embed(ids) + x), self.steps


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_module_is_converted_and_stays_as_it_was(dtype):
    module, args = Tied().eval(), (torch.tensor([1, 2, 6]), X)
    weight = module.embed.weight
    program = clave.export(module, args, dtype=dtype, verify=True)
    assert len(program.schema.constants) == 1  # still tied
    got = clave.Session(program, "cpu")(args[0], X.to(dtype))[0]
    torch.testing.assert_close(got.float(), module(*args)[0], rtol=2e-2, atol=2e-2)
    assert module.embed.weight is weight and weight.dtype == torch.float32 and got.dtype == dtype


def test_methods_share_a_converted_module():
    module = Counter(0).eval()
    methods = {name: (nn.Sequential(module), (torch.ones(3),)) for name in "ab"}
    program = clave.export(methods, dtype=torch.float16)
    assert program.schema.n_state == 1
    session = clave.Session(program, "cpu")
    x = torch.ones(3, dtype=torch.float16)
    assert [session(x, method=m)[0].item() for m in "aab"] == [2, 4, 6] and module.total.tolist() == [0, 0, 0]


def test_what_cannot_be_converted_is_an_error():
    with pytest.raises(clave.Error, match=r"dtype: expected torch\.float16, .*, got torch\.int8"):
        clave.export(nn.Linear(4, 4).eval(), (X,), dtype=torch.int8)
    graph = torch.export.export(nn.Linear(4, 4).eval(), (X,))
    with pytest.raises(clave.Error, match="dtype= needs the module of method 'forward'"):
        clave.export(graph, dtype=torch.float16)
    module = Fn(lambda x: x).eval()
    module.lock = __import__("threading").Lock()
    with pytest.raises(clave.Error, match="Fn cannot be copied, which dtype= needs: TypeError"):
        clave.export(module, (X,), dtype=torch.float16)


# ---- the user's decompositions and lowerings


@torch.library.custom_op("clave_test::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@cube.register_fake
def _(x):
    return torch.empty_like(x)


CUBE = torch.ops.clave_test.cube


@pytest.mark.parametrize("op", [CUBE, CUBE.default])
def test_decompositions_of_the_users(op):
    module = Fn(lambda x: cube(x) + 1).eval()
    with pytest.raises(clave.UnsupportedOp, match="clave_test::cube"):
        clave.export(module, (X,))
    program = clave.export(module, (X,), decompositions={op: lambda x: x * x * x}, verify=True)
    torch.testing.assert_close(clave.Session(program, "cpu")(X), X**3 + 1)


def test_decompositions_come_before_our_lowerings():
    def relu(x):
        return x * 7

    program = clave.export(nn.ReLU().eval(), (X,), decompositions={torch.ops.aten.relu.default: relu}, verify=False)
    torch.testing.assert_close(clave.Session(program, "cpu")(X), X * 7)


def test_wrong_decompositions_are_errors():
    for table in ({"aten::relu": lambda x: x}, {CUBE: None}):
        with pytest.raises(
            clave.Error, match=r"decompositions: expected torch.ops.ns.op or an overload of it: a function, got "
        ):
            clave.export(nn.ReLU().eval(), (X,), decompositions=table)


@pytest.mark.parametrize("op", ["clave_test::cube", "clave_test::cube.default", CUBE.default])
def test_lowerings_of_the_users(op):
    try:

        @clave.register_lowering(op)
        def lower_cube(c, x):
            return compute(c, step("mul", c.dtype(), step("mul", c.dtype(), x, x), x))

        program = clave.export(Fn(lambda x: cube(x) + 1).eval(), (X,), verify=True)
        torch.testing.assert_close(clave.Session(program, "cpu")(X), X**3 + 1)
        with pytest.raises(clave.Error, match="clave_test::cube has a lowering already"):
            clave.register_lowering(op)
    finally:
        LOWERINGS.pop("clave_test::cube", None)


def test_lowerings_of_what_is_no_op_are_errors():
    for op in ("clave_test::nowhere", "relu", torch.relu, CUBE, "clave_test::cube.out"):
        with pytest.raises(clave.Error, match=r"op: expected torch\.ops"):
            clave.register_lowering(op)
    with pytest.raises(clave.Error, match=r"aten.relu.default has a lowering already"):
        clave.register_lowering("aten::relu")


# ---- the report


@pytest.mark.parametrize("dim, memory", [(None, True), (Dim("batch", min=1, max=64), True), (Dim.DYNAMIC, False)])
def test_report(root, build, tmp_path, dim, memory):
    net = nn.Sequential(nn.Linear(4, 300), nn.GELU(), nn.Flatten(), nn.Linear(300, 2)).eval()
    program = clave.export(net, (X,), dynamic_shapes=({0: dim},) if dim else None, verify=True)
    program.save(tmp_path / "net.clv")
    report, (method,) = program.report, program.report.methods
    assert report.parameters == sum(p.numel() for p in net.parameters()) == 2102
    assert report.constant_bytes == 4 * 2102 and report.state_bytes == 0
    assert sum(method.ops.values()) == program.methods["forward"].n_nodes and method.ops["Matmul"] == 2
    assert 0 < method.error < 1e-5 and report.passes == program.passes
    inspected = subprocess.run([build / "clave", "inspect", tmp_path / "net.clv"], capture_output=True, text=True)
    said = re.search(r"temporaries and outputs at most .*", inspected.stdout)
    text = str(report)
    if memory:
        assert said and said[0] in text
    else:
        assert method.memory is None and not said and "memory      unbounded: input.shape[0] has no upper bound" in text
        assert "temporaries without a bound: input.shape[0] has none" in inspected.stdout
    assert "parameters  2,102" in text and "constants   8.4 KB" in text and "Matmul 2" in text
    loaded = clave.load(tmp_path / "net.clv").report
    assert loaded.methods[0].error is None and loaded.methods[0].ops == method.ops and loaded.passes == {}


def test_report_of_bodies_and_state(capsys):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: (x @ x).exp() @ x, lambda x: x * 2, (x,))

    methods = {"branch": (Fn(f).eval(), (X[:, :3],)), "count": (Counter(0).eval(), (torch.ones(3),))}
    program = clave.export(methods, report=True, verify=False)
    branch, count = program.report.methods
    assert branch.ops["If"] == 1 and branch.ops["Matmul"] == 2 and program.report.state_bytes == 12
    assert branch.error is None and (branch.name, count.name) == ("branch", "count")
    assert str(program.report) in capsys.readouterr().out and "error" not in str(program.report)


# ---- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_progress_is_for_terminals_and_long_exports(stream, monkeypatch):
    monkeypatch.setattr("clave.progress._QUIET_S", 0.05)
    monkeypatch.setattr("clave.progress._TICK_S", 0.01)
    with Progress(stream) as progress, progress.stage("capturing", "decode"):
        limit = time.monotonic() + 20
        while "capturing" not in stream.getvalue() and stream.isatty() and time.monotonic() < limit:
            time.sleep(0.01)
    written = stream.getvalue()
    assert ("clave: capturing 'decode', 0 s" in written) == stream.isatty()
    assert written.endswith("\r\033[K") if stream.isatty() else written == ""


def test_a_short_export_says_nothing():
    stream = Terminal()
    with Progress(stream) as progress, progress.stage("capturing"):
        pass
    assert stream.getvalue() == ""
