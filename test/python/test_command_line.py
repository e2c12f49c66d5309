"""python -m clave export: .pt2 files and modules by name, their inputs as text, one-line errors."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import clave
from clave.__main__ import main
from clave.errors import UsageError
from clave.specs import Inputs, Sizes

ROOT = Path(__file__).resolve().parents[2]

MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.linear, self.drop = nn.Linear(size, 2), nn.Dropout(0.5)

    def forward(self, x, scale=1.0, *, shift=None):
        y = self.drop(self.linear(x)) * scale
        return y if shift is None else y + shift


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(2))

    def forward(self, *xs):
        self.n += sum(xs).sum(0)
        return self.n * 1


ready = Counter()


def with_inputs():
    length = torch.export.Dim("length", min=2, max=8)
    return Net(), (torch.ones(3, 4),), {"scale": 2.0}, {"x": {0: length}, "scale": None}


def broken():
    return 1 / 0


class Eigen(nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x)


class holder:
    net = Net()


number = 3
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    (tmp_path / "clave_test_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield "clave_test_models"
    sys.modules.pop("clave_test_models", None)


def export(*args):
    return main(["export", *map(str, args), "-o", "m.clv"])


def shape(program, method="forward", index=0):
    return program.methods[method].inputs[index].shape


def test_a_module_by_name(models):
    args = "--args", "f32[batch,4],scale:2.5,shift:f32[2]"
    assert export(f"{models}:Net", *args, "--dynamic", "batch=2..9", "--verify") == 0
    program = clave.load("m.clv")
    assert shape(program) == ("batch", 4)
    session = clave.Session(program, "cpu")
    x, shift = torch.ones(9, 4), torch.ones(2)
    assert session(x, scale=2.5, shift=shift).shape == (9, 2)
    with pytest.raises(clave.Error, match=r"'batch' must be in \[2, 9\]"):
        session(torch.ones(10, 4), scale=2.5, shift=shift)


@pytest.mark.parametrize("source", ["ready", "Counter"])
def test_what_a_name_may_be(models, source):
    """The name is that of a module, or of a function that makes one, in a file; forward may have any number of
    inputs."""
    assert export(f"{models}.py:{source}", "--args", "f32[n, 2], f32[n, 2]", "--dynamic", "n=64") == 0
    session = clave.Session(clave.load("m.clv"), "cpu")
    assert session(torch.ones(5, 2), torch.ones(5, 2)).tolist() == [10, 10]


def test_what_makes_its_inputs_itself(models):
    assert export(f"{models}:with_inputs") == 0
    assert shape(clave.load("m.clv")) == ("length", 4)
    assert export(f"{models}:holder.net", "--args", "f32[4]", "--dtype", "f16") == 0
    assert clave.load("m.clv").methods["forward"].inputs[0].dtype == np.float16


def test_quantised_weights(models, capsys):
    assert export(f"{models}:Net", "--args", "f32[1,4]", "--report") == 0
    plain = capsys.readouterr().out
    assert export(f"{models}:Net", "--args", "f32[1,4]", "--quantize", "int8", "--report") == 0
    report = capsys.readouterr().out
    encodings = [t.encoding for t in clave.load("m.clv").schema.tensors if t.encoding]
    assert [e.bits for e in encodings] == [8] and report.splitlines()[1] != plain.splitlines()[1]
    assert export(f"{models}:Net", "--args", "f32[1,4]", "--quantize", "int1") == 2
    assert capsys.readouterr().err.startswith("clave: --quantize int1: expected int2 to int8")


def test_several_methods(models, capsys):
    sources = f"net={models}:Net", f"count={models}:ready", f"with={models}:with_inputs"
    args = "--args", "net=f32[1,4]", "--args", "count=f32[3,2]"
    names = "--input-names", "net=features", "--output-names", "count=total", "--output-names", "net=y"
    assert export(*sources, *args, *names, "--report") == 0
    program = clave.load("m.clv")
    assert [a.name for m in ("net", "count") for a in (*program.methods[m].inputs, *program.methods[m].outputs)] == [
        "features",
        "y",
        "xs_0",
        "total",
    ]
    out = capsys.readouterr()
    assert "method      net\n" in out.out and "state       8 bytes" in out.out and out.err == ""


def command(*args):
    env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    return subprocess.run([sys.executable, "-m", "clave", *map(str, args)], capture_output=True, text=True, env=env)


def test_a_file_of_torch_export(tmp_path):
    torch.export.save(torch.export.export(nn.Linear(2, 2), (torch.randn(1, 2),)), tmp_path / "m.pt2")
    done = command("export", tmp_path / "m.pt2", "-o", tmp_path / "m.clv", "--verify", "--report")
    assert done.returncode == 0 and done.stderr == "" and "parameters  6\n" in done.stdout
    assert clave.load(tmp_path / "m.clv").methods


def test_failures_are_one_line(tmp_path):
    (tmp_path / "clave_test_models.py").write_text(MODELS)
    where = f"{tmp_path}/clave_test_models.py"
    done = command("export", tmp_path / "no.pt2", "-o", tmp_path / "n.clv")
    assert done.returncode == 1 and done.stderr == f"clave: {tmp_path}/no.pt2: there is no such file\n"
    done = command("export", f"{where}:Eigen", "--args", "f32[4,4]", "-o", tmp_path / "n.clv")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("clave: 1 unsupported op: aten.special_airy_ai.default (")
    assert "return torch.special.airy_ai(x))" in done.stderr and not (tmp_path / "n.clv").exists()


@pytest.mark.parametrize(
    "args, code, says",
    [
        (["{}:broken"], 1, "clave_test_models:broken: ZeroDivisionError: division by zero"),
        (["{}:nothing"], 1, "module 'clave_test_models' has no attribute 'nothing'"),
        (["clave_no_such:Net"], 1, "clave_no_such:Net: ModuleNotFoundError"),
        (["no_such.py:Net"], 1, "no_such.py:Net: FileNotFoundError"),
        (["{}:number"], 1, "module: expected a torch.nn.Module"),
        (["{}:Net", "--args", "f32[1,4],f32[3,4]", "--verify"], 1, "torch.export cannot capture Net"),
        (["{}:Net", "--args", "f32[b,4]"], 2, "size 'b' is not declared, for example by --dynamic b=1..64"),
        (["{}:Net", "--args", "f33[4]"], 2, "'f33[4]': expected one of f32"),
        (["{}:Net", "--args", "f32[x:4]"], 2, "size: expected a number or the name of a --dynamic size, got 'x:4'"),
        (["{}:Net", "--args", "x:f32[4],2"], 2, "'2' has no name and follows inputs that have one"),
        (
            ["{}:Net", "--args", "f32[4", "--dtype", "f16"],
            2,
            "expected an input as f32[1,3], a number, or one with its name as x:f32[1,3], got 'f32[4'",
        ),
        (["{}:Net", "--args", "1.2.3"], 2, "'1.2.3' is not a number"),
        (["{}:Net", "--args", "f32[4]", "--args", "f32[4]"], 2, "--args f32[4]: expected NAME=... of a method"),
        (["a={}:Net", "b={}:Net", "--args", "f32[4]"], 2, "--args f32[4]: expected NAME=... of a method"),
        (["a={}:Net", "a={}:Net"], 2, "SOURCE: method 'a' has two"),
        (["{}:Net", "{}:Net"], 2, "SOURCE clave_test_models:Net: expected NAME=... of a method"),
        (["{}:Net", "--dynamic", "b=9..2"], 2, "--dynamic b=9..2: expected LOW below HIGH, got 9..2"),
        (["{}:Net", "--dynamic", "b=x"], 2, "--dynamic b=x: expected a new size as NAME, NAME=HIGH"),
        (["{}:Net", "--dynamic", "b", "--dynamic", "b=3"], 2, "--dynamic b=3: expected a new size"),
        (["{}:Net", "--dtype", "f8"], 2, "--dtype f8: expected one of f32, f16"),
        (["{}:with_inputs", "--args", "f32[4]"], 2, "clave_test_models:with_inputs makes its inputs itself"),
        (["m.pt2", "--args", "f32[4]"], 2, "--args f32[4]: a .pt2 file has its inputs already"),
        (["{}:Net", "--args", "f32[4]", "--input-names", "a,b"], 1, "input_names has 2, method 'forward' has 1 input"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(models, capsys, args, code, says):
    assert export(*(a.format(models) for a in args)) == code
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and err.startswith("clave: ") and not Path("m.clv").exists()


@pytest.mark.parametrize("args", [[], ["export"], ["export", "m.pt2"], ["export", "m.pt2", "-o", "m.clv", "--nothing"]])
def test_a_malformed_command_line_is_one_line(args, capsys):
    with pytest.raises(SystemExit) as e:
        main(args)
    err = capsys.readouterr().err
    assert e.value.code == 2 and err.startswith("clave: ") and err.count("\n") == 1


def test_inputs_as_text():
    sizes = Sizes.parse(["b=64", "w=3..5", "n"])
    inputs = Inputs.parse("i64[b, 3], f32, bool[2*w,n], -3, 2.5e-1, .5, true, none, f16[], u8[0]", sizes)
    dtypes = [a.dtype for a in inputs.args if isinstance(a, torch.Tensor)]
    assert dtypes == [torch.int64, torch.float32, torch.bool, torch.float16, torch.uint8]
    i, f, mask = inputs.args[:3]
    assert i.shape[1] == 3 and f.shape == () and mask.shape[0] in (6, 8, 10) and set(i.flatten().tolist()) == {0, 1}
    assert len({i.shape[0], mask.shape[0] // 2, mask.shape[1]}) == 3  # torch treats equal sizes as one
    assert inputs.args[3:8] == (-3, 0.25, 0.5, True, None)
    assert inputs.shapes[0] == {0: sizes.dims["b"]} and inputs.shapes[1] is None
    assert str(inputs.shapes[2][0].__name__) == "2*w" and inputs.args[9].numel() == 0
    assert Inputs.parse("", sizes).args == ()
    same = Inputs.parse("f32[4]", sizes).args[0]
    assert np.array_equal(same, Inputs.parse("f32[4]", sizes).args[0]) and same.unique().numel() == 4
    with pytest.raises(UsageError):
        Inputs.parse("f32[4] f32[4]", sizes)
