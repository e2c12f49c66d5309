"""Tests options that may be repeated, given 0, 1, 2 and many times."""

import numpy as np
import pytest
import torch
from torch.export import Dim

import clave

MANY = 12
COUNTS = (0, 1, 2, MANY)
DIMS = {
    "bench": ("--runs", "1", "--device", "cpu"),
    "tune": ("--device", "cpu", "--dry-run"),
    "inspect": ("--html",),
    "compile": ("--emit-c", "sources"),
}


class Negatives(torch.nn.Module):
    def forward(self, *x):
        return tuple(-t for t in x) or torch.ones(1)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Returns a program for each count of inputs; each input has its own size."""
    folder, found = tmp_path_factory.mktemp("lists"), {}
    for n in COUNTS:
        given = tuple(torch.ones(3) for _ in range(n))
        shapes = (tuple({0: Dim(f"n{i}", min=2, max=9)} for i in range(n)),) if n else None
        found[n] = folder / f"{n}.clv"
        clave.export(Negatives(), given, dynamic_shapes=shapes, verify=False).save(found[n])
    return found


@pytest.mark.parametrize("command", DIMS)
@pytest.mark.parametrize("n", COUNTS)
def test_dims(tool, programs, n, command):
    dims = [word for i in range(n) for word in ("--dim", f"n{i}=5")]
    more = DIMS[command]
    tool.good(command, programs[n], *dims, *more)
    if command == "compile":
        more = ("--emit-c", "others")
    said = tool.bad(1, command, programs[n], *dims, "--dim", "m=5", *more)
    assert '"m"' in said or "m=5" in said or "'m'" in said
    if n:
        said = tool.bad(1, command, programs[n], *dims, "--dim", "n0=5", *more)
        assert "n0" in said


@pytest.mark.parametrize("n", COUNTS)
def test_inputs(tool, programs, n):
    np.save(tool.folder / "x.npy", np.arange(5, dtype=np.float32))
    info = [a.name for a in clave.load(programs[n]).methods["forward"].inputs]
    assert len(info) == n
    given = [word for i, name in enumerate(info) for word in ("--input", f"{name}={'x.npy' if i % 2 else '1,2,3'}")]
    tool.good("run", programs[n], *given)
    if n:
        assert "is given twice" in tool.bad(1, "run", programs[n], *given, *given[:2])
        assert "missing input" in tool.bad(1, "run", programs[n], *given[2:])


@pytest.mark.parametrize("n", COUNTS)
def test_passes(tool, programs, n):
    names = ["constant", "view", "constant"] + ["constant"] * MANY
    tool.good("optimize", programs[2], "-o", "o.clv", *(word for name in names[:n] for word in ("--pass", name)))
    said = tool.bad(1, "optimize", programs[2], "-o", "o.clv", *["--pass", "constant"] * n, "--pass", "nonsense")
    assert "nonsense" in said


@pytest.mark.parametrize("last", (False, True), ids=["first", "last"])
@pytest.mark.parametrize("n", COUNTS)
def test_stop_texts_and_biases(tool, root, n, last):
    """In a long list of options without effect, one option that has an effect applies, first or last."""
    model = root / "examples/tinylm/tinylm.clv"
    command = ("generate", model, "--prompt", "Once", "--max-new-tokens", "6", "--temperature", "0")
    plain = tool.good(*command)
    for option, idle, real in (("--stop", "no such {}", plain[3]), ("--logit-bias", "{}=0.0", "40=100")):
        more = [word for i in range(n) for word in (option, idle.format(i))]
        assert tool.good(*command, *more) == plain
        alone = tool.good(*command, option, real)
        assert alone != plain
        assert tool.good(*command, *(more if last else []), option, real, *([] if last else more)) == alone


@pytest.mark.parametrize("n", (1, 2, MANY))
def test_lists_of_devices(tool, programs, n):
    spec = ",".join(["cpu"] * n)
    tool.good("bench", programs[1], "--runs", "1", "--device", spec)
    assert "device" in tool.bad(1, "bench", programs[1], "--device", spec + ",")
