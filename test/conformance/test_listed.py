"""Every op in the graphs of the model families of ../shared/op_frequency.tsv runs, or is omitted with a reason."""

import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

import aten
import listed

import clave
from clave import trace
from clave.errors import UnsupportedOp

DEVICES = ("cpu", "opencl")


def families_by_op(test_data):
    lines = (test_data.parent / "op_frequency.tsv").read_text().splitlines()[1:]
    return {name: int(n) for name, n, *_ in (line.split("\t") for line in lines)}


def ops_of(program):
    """Returns the names of the calls in a graph and in its subgraphs."""
    graphs = (m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule))
    targets = {n.target for graph in graphs for n in graph.nodes if n.op == "call_function"}
    return {
        trace.op_name(t) if isinstance(t, torch._ops.OpOverload) else f"{t.__module__}.{t.__name__}" for t in targets
    }


@pytest.fixture(scope="module")
def module():
    return listed.Calls(listed.calls()).eval()


@pytest.fixture(scope="module")
def program(module):
    return clave.export(module, (), listed.tensors(0))


@pytest.fixture(scope="module")
def sizes():
    args = (torch.randn(7, 4), torch.tensor(5))
    return torch.export.export(listed.Sizes(), args, dynamic_shapes=({0: torch.export.Dim("n", min=4, max=64)}, None))


def test_every_op_of_the_families_is_listed(test_data, sizes):
    if not (test_data.parent / "op_frequency.tsv").is_file():
        pytest.skip(f"no op_frequency.tsv in {test_data.parent}")
    names = set(families_by_op(test_data))
    computed = ops_of(sizes)
    assert names - set(aten.listed_ops()) - computed == {"_operator.getitem"}  # selects one of several results


def test_what_is_left_out_has_a_reason():
    how = {name: aten.exporter(name) for name in aten.listed_ops()}
    assert not {h for h in how.values() if h.startswith("no: ")}
    assert set(listed.calls()) | {name for name, h in how.items() if h == "sizes"} == set(how) - {
        "aten._assert_scalar.default"
    }


def test_what_is_left_out_is_refused_by_name():
    name = "aten.linalg_eig.default"
    with pytest.raises(UnsupportedOp) as e:
        clave.export(listed.Calls({name: "x"}), (), {"x": torch.randn(4, 4)})
    assert e.value.ops == [name]


@pytest.mark.parametrize("device", DEVICES)
def test_calls(device, module, program):
    session = clave.Session(program, device)
    for seed in (0, 1, 0):
        inputs = listed.tensors(seed)
        with torch.no_grad():
            wanted = module(**inputs)
        results = session(**inputs)
        wrong = {name: e for name in wanted if (e := difference(name, results[name], wanted[name]))}
        assert not wrong


def difference(name, got, want):
    undefined = name in {u.replace(".", "_") for u in listed.UNDEFINED}
    try:
        for g, w in zip(got, want, strict=True):
            if undefined:
                assert (g.shape, g.dtype) == (w.shape, w.dtype)
            else:
                torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)
    except AssertionError as e:
        return str(e)


@pytest.mark.parametrize("device", DEVICES)
def test_sizes(device, sizes):
    session = clave.Session(clave.export(sizes), device)
    for n, u in ((7, 5), (4, 3), (20, 0), (7, 5)):
        args = (torch.randn(n, 4), torch.tensor(u))
        torch.testing.assert_close(session(*args), listed.Sizes()(*args))
