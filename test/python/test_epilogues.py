"""Programs whose ops already have epilogues: made, saved, loaded, optimised and run."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import clave
from clave import schema
from clave.program import Program


class Fn(torch.nn.Module):
    def forward(self, x, w, r):
        return torch.relu(x @ w + r) * 0.5, torch.nn.functional.layer_norm(x, (x.shape[-1],)) - r[:, :1]


INPUTS = (torch.randn(5, 33), torch.randn(33, 18), torch.randn(5, 18))


def append_step(op, elementwise):
    """Appends the elementwise op's one step, which first reads op's result, to op's epilogue."""
    (step,) = elementwise.steps
    before = len(op.epilogue)
    for o in step.operands:
        if o.source == schema.OperandSource.input and o.index == 0 and before:
            o.source, o.index = schema.OperandSource.step, before - 1
        elif o.source == schema.OperandSource.input and o.index:
            o.index += len(op.epilogue_inputs)
    op.epilogue = [*op.epilogue, step]
    op.epilogue_inputs = [*op.epilogue_inputs, *elementwise.inputs[1:]]
    op.out = elementwise.out


def with_epilogues(program):
    """Makes each elementwise node the epilogue of the node before it, which moves to its place."""
    chain = program.schema.chains[0]
    kept = []
    for ins in chain.instructions:
        takers = [k for k in kept if hasattr(k.op, "epilogue")]
        if isinstance(ins.op, schema.Elementwise):
            (taker,) = (k for k in takers if k.op.out.idx == ins.op.inputs[0].idx)
            append_step(taker.op, ins.op)
            kept.remove(taker)
            ins = taker
        kept.append(ins)
    chain.instructions = kept
    return Program(program.schema, [])


def ops_of(program):
    return [type(i.op).__name__ for c in program.schema.chains for i in c.instructions]


def run(program, device="cpu"):
    return clave.Session(program, device=device).run(*(x.numpy() for x in INPUTS))


@pytest.fixture
def program():
    return with_epilogues(clave.export(Fn(), INPUTS))


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_results(program, device):
    assert not any(o == "Elementwise" for o in ops_of(program))
    for got, want in zip(run(program, device), Fn()(*INPUTS), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["m.clv", "m.json"])
def test_files(program, name, tmp_path):
    program.save(tmp_path / name)
    again = clave.load(tmp_path / name)
    assert again.schema.version == 3 and ops_of(again) == ops_of(program)
    for got, want in zip(run(again), run(program), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_older_version(program, tmp_path):
    program.save(tmp_path / "m.json")
    text = json.loads((tmp_path / "m.json").read_text())
    text["version"] = 2
    (tmp_path / "m.json").write_text(json.dumps(text))
    with pytest.raises(clave.Error, match="an epilogue of matmul needs schema version 3, the program says 2"):
        clave.load(tmp_path / "m.json")


def test_passes_see_nodes(program):
    optimised = program.optimized()
    assert ops_of(optimised).count("Elementwise") >= 2
    for got, want in zip(run(optimised), run(program), strict=True):
        np.testing.assert_array_equal(got, want)
