"""TFLite models that are refused: one line with everything that is wrong, and no crash for a damaged file."""

import numpy as np
import pytest

import clave

_tflite = pytest.importorskip("_tflite", reason="no ai-edge-litert is installed")
from _tflite import FUSED_TANH, Codes, Model

F32, I32 = np.float32, np.int32
X = (F32, (2, 3))


def refused(model):
    with pytest.raises(clave.Error) as e:
        clave.from_tflite(model)
    assert "\n" not in str(e.value)
    return e.value


def test_all_unsupported_ops_in_one_message():
    graph = (model := Model()).main
    x = graph.input(*X)
    (a,) = graph.op("CUSTOM", [x], custom="Foo")
    graph.op("CUSTOM", [x], custom="Foo")
    graph.op("BIDIRECTIONAL_SEQUENCE_RNN", [x])
    graph.op("UNIQUE", [x], [F32, I32])
    graph.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x])
    graph.op("ADD", [x, x], fused_activation_function=FUSED_TANH)
    graph.op("NEG", [a])  # unknown because of its input
    codes = graph.input(np.int32, (2, 3), Codes(0.01))
    graph.output(*graph.op("ADD", [codes, codes], [(np.int32, Codes(0.01))]))
    e = refused(model.bytes())
    assert isinstance(e, clave.UnsupportedOp)
    assert e.ops == ["Foo", "BIDIRECTIONAL_SEQUENCE_RNN", "UNIQUE", "UNIDIRECTIONAL_SEQUENCE_LSTM", "ADD"]
    assert e.reasons["Foo"] == "2 nodes: t1, t2"
    assert "recurrent layers are not imported yet; 1 node: t6" in str(e)
    assert e.reasons["ADD"] == "the fused activation 4; 1 node: t7; quantised codes of dtype INT32; 1 node: t10"


def one(op, inputs, results=(F32,), change=None, **more):
    """Returns a function that makes a model of one op. inputs: constants, or numbers of tensors; 0 is an input."""

    def make():
        graph = (model := Model()).main
        graph.input(*X)
        numbers = [i if isinstance(i, int) else graph.constant(i) for i in inputs]
        graph.output(*graph.op(op, numbers, results, **more))
        if change:
            change(model.table, graph)
        return model.bytes()

    return make


def other_branch(table, graph):
    branch = graph.model.graph("branch")
    branch.output(branch.input(F32, (4, 3)))


output_7 = lambda table, graph: graph.output(7)
output_nothing = lambda table, graph: graph.output(graph.tensor(F32))


def set_at(path, value):
    """Returns a function that changes a field of the model: ".subgraphs 0 .tensors 1 .type"."""

    def change(table, graph):
        *parts, last = path.split()
        for part in parts:
            table = getattr(table, part[1:]) if part[0] == "." else table[int(part)]
        setattr(table, last[1:], value)

    return change


FIRST_OP, CONSTANT = ".subgraphs 0 .operators 0", ".subgraphs 0 .tensors 1"
branches = lambda then, other: {"then_subgraph_index": then, "else_subgraph_index": other}
ones, yes = np.ones((2, 3), F32), np.array([True])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (one("ADD", [0, 99]), "operand 99 of 2"),
        (one("ADD", [0, -1]), "input 1 is missing"),
        (one("ADD", [0, 1]), "input 't1' is the result of no operator"),
        (one("NEG", [0], [0]), "'t0' has two producers"),
        (one("NEG", [0], change=output_7), "an input or output is tensor 7 of 2"),
        (one("NEG", [0], change=output_nothing), "the output is the result of no operator"),
        (one("NEG", [0], change=set_at(".subgraphs", [])), "the model has no subgraph"),
        (one("NEG", [0], change=set_at(".version", 2)), "version 2 of the schema (expected 3)"),
        (one("NEG", [0], change=set_at(f"{FIRST_OP} .opcodeIndex", 7)), "operator code 7"),
        (one("TRANSPOSE", [0, I32([1, 1])]), "perm repeats axis 1"),
        (one("EXPAND_DIMS", [0, I32([5])]), "axis 5"),
        (one("RESHAPE", [0, I32([-1, -1])]), "several sizes are -1"),
        (one("STRIDED_SLICE", [0, *[I32([1, 1, 1])] * 3]), "more indices than dimensions"),
        (one("PAD", [0, I32([[1, 1]])]), "paddings do not have two numbers for each of 2 dimensions"),
        (one("SPLIT", [I32(0), 0], [F32] * 3), "2 elements in 3 equal parts"),
        (one("ADD", [0, ones], change=set_at(f"{CONSTANT} .shape", [2, 4])), "'t1' has 24 bytes for 8 elements"),
        (one("ADD", [0, ones], change=set_at(f"{CONSTANT} .shape", [2**31 - 1] * 4)), "are negative or overflow"),
        (one("ADD", [0, ones], change=set_at(f"{CONSTANT} .type", 5)), "a constant of dtype STRING"),
        (one("IF", [0, 0], **branches(0, 0)), "expected a condition of one BOOL"),
        (one("IF", [yes, 0], **branches(9, 0)), "subgraph 9 of 1"),
        (one("IF", [yes, 0], **branches(0, 0)), "subgraphs call each other"),
        (one("IF", [yes, 0, 0], **branches(1, 1), change=other_branch), "has 1 inputs and 1 results"),
        (one("CUSTOM", [0, 0], custom_options=list(b"1234"), custom="MaxUnpooling2D"), "options of 4 bytes"),
    ],
)  # fmt: skip
def test_invalid_models(make, said):
    assert said in str(refused(make()))


def test_uninitialised_variable():
    graph = (model := Model()).main
    handle = graph.tensor(kind=_tflite.RESOURCE)
    graph.op("VAR_HANDLE", [], [handle], container="", shared_name="v")
    graph.output(*graph.op("READ_VARIABLE", [handle]))
    assert "a variable that nothing has initialised" in str(refused(model.bytes()))


def product():
    """Returns a model with a constant of 24 bytes that can be moved out of the FlatBuffer."""
    graph = (model := Model()).main
    x, y = graph.input(*X), graph.constant(ones)
    graph.output(*graph.op("MUL", [x, y]))
    return model, model.table.buffers[-2]


@pytest.mark.parametrize(
    ("offset", "size"), [(4096, 24), (4080, 24), (4072, 2**63), (2**64 - 8, 24), (2**63, 2**63), (10**12, 1)]
)
def test_buffers_outside_of_the_file(offset, size):
    model, buffer = product()
    buffer.data, buffer.offset, buffer.size = None, offset, size
    assert "is outside of the file" in str(refused(model.bytes().ljust(4096, b"\0")))


def damaged():
    """Yields the file cut at each size, and with each integer replaced by wrong ones."""
    data = product()[0].bytes()
    yield from (data[:size] for size in range(len(data)))
    for at in range(0, len(data) - 3, 2):
        for wrong in (0, 1, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF, len(data)):
            yield data[:at] + wrong.to_bytes(4, "little") + data[at + 4 :]


def test_damaged_files():
    """Each is a program or one line, never a crash."""
    programs = lines = 0
    for data in damaged():
        try:
            clave.from_tflite(data)
            programs += 1
        except clave.Error as e:
            assert "\n" not in str(e)
            lines += 1
    assert programs < lines / 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x1c\0\0\0TFL3", "run past the end of 8 bytes"),
        (b"\x08\0\0\0TFL3" + bytes(40), "version 0 of the schema"),
        (b"\x08\0\0\0TFL2" + bytes(40), "neither a program"),
    ],
)
def test_other_files(data, said):
    assert said in str(refused(data))
