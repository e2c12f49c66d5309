"""Quantised weights: decoded bit for bit like gguf and torch, on both backends and as both device classes; the weights
that clave.export(quantize=) keeps, their encodings, and its refusals."""

import itertools

import gguf
import numpy as np
import pytest
import torch
from _export import instructions
from torch import nn

import clave
from clave import encodings, schema
from clave.encodings import Blocks, Groups, Stored, parse

BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
BLOCKS += ["IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"]
BLOCKS += ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]
DEVICES = [("cpu", "cpu"), ("opencl", "cpu"), ("opencl", "gpu")]


class Tables(nn.Module):
    """Embeddings, each with its own weight."""

    def __init__(self, tables):
        super().__init__()
        self.tables = nn.ParameterList([nn.Parameter(t, requires_grad=False) for t in tables])

    def forward(self, ids):
        return [nn.functional.embedding(ids, t) for t in self.tables]


def same_bits(got, want):
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    return same.all()


def exported(stored, n, k):
    """Exports {name: Stored} as embeddings, which return all n rows."""
    module = Tables([torch.full((n, k), float(i)) for i in range(len(stored))])  # equal ones would be merged
    forms = iter(stored.values())
    return clave.export(module, (torch.arange(n),), quantize=lambda _name, _weight: next(forms), verify=False)


@pytest.mark.parametrize("kind, device_class", DEVICES)
def test_any_bytes_of_blocks_decode_as_gguf_decodes_them(kind, device_class, processes):
    """Scales include infinite, NaN, subnormal and negative ones."""
    random, rows, k = np.random.default_rng(1), 40, 512
    stored = {}
    for name in BLOCKS:
        elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
        stored[name] = Stored(Blocks(name).table(), random.integers(0, 256, (rows, k // elements * size), np.uint8))
    program = exported(stored, rows, k)
    got = processes[device_class].open(program, kind).run(torch.arange(rows))
    with np.errstate(all="ignore"):
        for (name, s), g in zip(stored.items(), got, strict=True):
            assert same_bits(g, gguf.dequantize(s.rows, gguf.GGMLQuantizationType[name])), name


@pytest.mark.parametrize("kind, device_class", DEVICES)
def test_every_code_of_8_bit_floats_is_torchs(kind, device_class, processes):
    codes = np.arange(256, dtype=np.uint8)[None]
    rows = np.concatenate([codes, np.ones((1, 1), np.float32).view(np.uint8)], axis=1)
    types = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    program = exported({name: Stored(Groups(code=name).table(), rows) for name in types}, 1, 256)
    got = processes[device_class].open(program, kind).run(torch.arange(1))
    for dtype, g in zip(types.values(), got, strict=True):
        assert same_bits(g[0], torch.from_numpy(codes[0]).view(dtype).float())


def decoded(program, n):
    return clave.Session(program, "cpu")(torch.arange(n))


@pytest.mark.parametrize("zeros", ["", ":zeros"])
@pytest.mark.parametrize("bits", range(2, 9))
def test_an_integer_is_half_a_step_off(bits, zeros):
    """Checks the error of groups: a step is the range of a group, including 0, divided by its codes. Elements within
    half a step of an end may be a whole step off, and so may the zero. A 16-bit scale adds a sixteenth of a step."""
    torch.manual_seed(bits)
    weight = torch.cat([torch.randn(9, 48), torch.rand(2, 48), torch.zeros(1, 48), torch.full((1, 48), -3.0)])
    groups = (0, 16, 32)
    module = Tables([weight + i for i, _ in enumerate(groups)])
    texts = iter([f"int{bits}:{g}{zeros}" if g else f"int{bits}{zeros}" for g in groups])
    got = decoded(clave.export(module, (torch.arange(13),), quantize=lambda _n, _w: next(texts), verify=False), 13)
    for i, (size, g) in enumerate(zip(groups, got, strict=True)):
        for part, mine in zip((weight + i).split(size or 48, 1), g.split(size or 48, 1), strict=True):
            low, high = part.amin(1, True).clamp(max=0), part.amax(1, True).clamp(min=0)
            if not zeros:
                high = torch.maximum(high, -low)
                low = -high
            step = (high - low) / (2**bits - (1 if zeros else 0))
            at_ends = ((part - low < step * 0.55) | (high - part < step * 0.55)).sum(1, True)
            bound = step.square() * (0.32 * part.shape[1] + at_ends)
            assert ((mine - part).square().sum(1, True) <= bound + 1e-9).all()


class Model(nn.Module):
    """A tied embedding, a product by (K, N), a product by (N, K), and a weight that a sum also reads."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(2)
        self.table = nn.Embedding(50, 64, dtype=dtype)
        self.turned = nn.Parameter(torch.randn(64, 48, dtype=dtype) / 8)
        self.linear = nn.Linear(48, 64, dtype=dtype)
        self.read = nn.Parameter(torch.randn(64, 64, dtype=dtype) / 8)
        self.vector = nn.Parameter(torch.randn(64, dtype=dtype))

    def forward(self, ids):
        x = self.linear(self.table(ids) @ self.turned) + self.vector
        x = nn.functional.linear(x, self.read) + self.read.sum(0)
        return x @ self.table.weight.T


def quantised_names(program):
    slots = program.schema.tensors
    return {c.name: slots[i].encoding for i, c in enumerate(program.schema.constants) if slots[i].encoding}


def test_which_weights_are_quantised():
    model, ids = Model().eval(), torch.arange(6).view(2, 3)
    program = clave.export(model, (ids,), quantize="int8")
    assert set(quantised_names(program)) == {"table.weight", "turned", "linear.weight", "read"}
    assert all(m.op.b_transposed for m in instructions(program, "Matmul"))
    assert len(instructions(program, "Dequantize")) == 1, "the sum reads a decoded weight"
    assert len(program.schema.constants) == 6, "a tied embedding is stored once"
    want = model(ids)
    for kind in ("cpu", "opencl"):
        torch.testing.assert_close(
            clave.Session(program, kind)(ids), want, rtol=0.03, atol=0.03 * want.abs().max().item()
        )


def test_a_function_chooses_by_name_and_tensor():
    model, ids = Model().eval(), torch.arange(4)
    seen = {}

    def choose(name, weight):
        seen[name] = tuple(weight.shape)
        return {"table.weight": "Q8_0", "turned": "int4:16:zeros", "read": "e4m3"}.get(name)

    found = quantised_names(clave.export(model, (ids,), quantize=choose))
    assert seen == {"table.weight": (50, 64), "turned": (64, 48), "linear.weight": (64, 48), "read": (64, 64)}
    assert {n: (e.kind, e.bits, e.group, e.has_zeros, e.code, e.format) for n, e in found.items()} == {
        "table.weight": (schema.EncodingKind.block_format, 0, 0, False, schema.CodeKind.int_, "Q8_0"),
        "turned": (schema.EncodingKind.group_quantized, 4, 16, True, schema.CodeKind.int_, ""),
        "read": (schema.EncodingKind.group_quantized, 8, 0, False, schema.CodeKind.e4m3, ""),
    }


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("text", ["int8", "int4:16", "Q4_0"])
def test_weights_of_16_bits(dtype, text):
    """A quantised product equals the module with decoded weights; only the weights' own error remains."""
    model, ids = Model(dtype).eval(), torch.arange(5)
    choose = lambda _name, weight: text if weight.shape[-1] % 32 == 0 and weight.shape[0] % 32 == 0 else None
    program = clave.export(model, (ids,), quantize=choose)
    tables = Tables([model.turned.detach().T.contiguous(), model.read.detach()])
    values = decoded(clave.export(tables, (torch.arange(48),), quantize=choose, verify=False), 48)
    rest = decoded(clave.export(Tables([model.read.detach()]), (torch.arange(64),), quantize=choose, verify=False), 64)
    with torch.no_grad():
        if "turned" in quantised_names(program):
            model.turned.copy_(values[0].T)
        model.read.copy_(rest[0])
        want = model(ids).float()
    for kind in ("cpu", "opencl"):
        got = clave.Session(program, kind)(ids).float()
        assert got.sub(want).abs().max() < 0.03 * want.abs().max()


def test_two_methods_share_a_quantised_weight():
    model = Model().eval()
    program = clave.export({n: (model, (torch.arange(s),)) for n, s in (("long", 9), ("short", 2))}, quantize="int4:16")
    assert len(quantised_names(program)) == 4 and len(program.schema.methods) == 2
    session = clave.Session(program, "cpu")
    long, short = (session.run(torch.arange(s), method=n)[0] for n, s in (("long", 9), ("short", 2)))
    torch.testing.assert_close(torch.as_tensor(long[:2]), torch.as_tensor(short), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ending", [".clv", ".json"])
def test_files_keep_what_was_quantised(tmp_path, ending):
    model, ids = Model().eval(), torch.arange(4)
    texts = itertools.cycle(["Q4_1", "int3:16", "int8:zeros", "e5m2:32"])
    program = clave.export(
        model, (ids,), quantize=lambda _n, w: (_t := next(texts)) if w.shape[0] == 64 else (next(texts), "int8")[1]
    )
    want = clave.Session(program, "cpu")(ids)
    program.save(str(tmp_path / f"m{ending}"))
    loaded = clave.Program.load(str(tmp_path / f"m{ending}"))
    assert quantised_names(loaded) == quantised_names(program)
    np.testing.assert_array_equal(clave.Session(loaded, "cpu")(ids), want)


@pytest.mark.parametrize(
    "wish, said",
    [
        ("int9", "quantize: expected int2 to int8, ..., got 'int9'"),
        ("int4:24", "(a multiple of 16)"),
        ("e4m3:zeros", "expected int2 to int8, e4m3"),
        ("Q4_K", "or one of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0, MXFP4, or a function"),
        ("", "quantize: expected int2 to int8, ..., got ''"),
        (lambda _n, _w: 4, "quantize: expected int2 to int8, ..., got 4"),
        (lambda _n, _w: "Q8_0", "has rows of 48, Q8_0 needs a multiple of 32"),
        (lambda _n, _w: Stored(Groups().table(), np.zeros((3, 68), np.uint8)), " rows, 3 were stored"),
    ],
)
def test_what_is_refused(wish, said):
    with pytest.raises(clave.Error) as e:
        clave.export(Model().eval(), (torch.arange(3),), quantize=wish)
    assert all(part in str(e.value) for part in said.split("...")) and "\n" not in str(e.value)


@pytest.mark.parametrize("text", ["int4:16", "e4m3", "Q8_0"])
def test_a_weight_that_is_not_finite_is_refused_by_name(text):
    model = Model().eval()
    with torch.no_grad():
        model.read[3, 4] = float("inf")
    with pytest.raises(clave.Error, match=r"weight 'read' cannot be quantised: it has elements that are not finite"):
        clave.export(model, (torch.arange(3),), quantize=lambda n, _w: text if n == "read" else None, verify=False)


def test_the_texts_of_help_are_taken():
    names = encodings.HELP.split("one of ")[1].split(", ")
    assert {type(parse(n)) for n in names} == {Blocks} and parse("int4:32:zeros") == Groups(4, "int", 32, True, "f16")
    assert parse("int8:bf16") == Groups(8, "int", 0, False, "bf16")
