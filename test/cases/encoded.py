"""Products with a quantised weight (for few and for many rows), embeddings and other readers of it, for each encoding.

The weights are random bytes. The expected results are torch's on weights that PyPI's gguf (blocks) or group_values
(groups) decodes. Tolerance: as in matmul.py.
"""

import numpy as np
import torch
import torch.nn.functional as fn
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from ml_dtypes import bfloat16

from clave import schema
from clave.encodings import Blocks, Stored, parse
from describe import BF16, F16, F32, I32, I64, Case, T, name_of, products, ulps

ROWS = 67
# Offsets of a block's F16 scales, and the largest product of codes.
BLOCKS = {
    "Q4_0": ((0,), 8), "Q4_1": ((0, 2), 15), "Q5_0": ((0,), 16), "Q5_1": ((0, 2), 31), "Q8_0": ((0,), 128), "Q2_K": ((80, 82), 45),
    "Q3_K": ((108,), 128), "Q4_K": ((0, 2), 945), "Q5_K": ((0, 2), 1953), "Q6_K": ((208,), 4096), "IQ4_NL": ((0,), 127),
    "IQ4_XS": ((0,), 4064), "TQ1_0": ((52,), 1), "TQ2_0": ((64,), 1), "MXFP4": ((), 12),
    "IQ2_XXS": ((0,), 167), "IQ2_XS": ((0,), 167), "IQ2_S": ((0,), 167), "IQ3_XXS": ((0,), 481), "IQ3_S": ((0,), 465), "IQ1_S": ((0,), 17),
    "IQ1_M": ((), 17),
}  # fmt: skip
GROUPS = (
    "int8", "int8:32", "int8:128:zeros", "int7:16", "int6:64:zeros", "int5:32", "int4:32", "int4:32:zeros", "int4:128", "int4:64:zeros:bf16", "int8:32:f32", "int4", "int3:16:zeros",
    "int2:16", "int2:64:zeros", "e4m3", "e4m3:32", "e5m2:64",
    "int4:16:f32", "int8:48", "int5:48:zeros", "e4m3:16", "e5m2:80:f32",
)  # fmt: skip


def random_blocks(name, k, random, n=ROWS):
    """Returns blocks of random bytes. Their scales keep the elements below about 2."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = random.integers(0, 256, (n, k // elements, size), np.uint8)
    places, largest = BLOCKS[name]
    for at in places:
        scales = random.uniform(0.5, 2, blocks.shape[:2]) * random.choice([-1, 1], blocks.shape[:2]) / largest
        blocks[..., at : at + 2] = scales.astype(np.float16)[..., None].view(np.uint8)
    if name == "IQ1_M":  # the nibbles of the scale are in four bytes
        scales = (random.uniform(0.5, 2, blocks.shape[:2]) / largest).astype(np.float16).view(np.uint16)
        for i in range(4):
            blocks[..., 49 + 2 * i] = blocks[..., 49 + 2 * i] & 15 | (scales >> 4 * i & 15) << 4
    if name == "MXFP4":
        blocks[..., 0] = random.integers(123, 127, blocks.shape[:2])
    return Stored(Blocks(name).table(), blocks.reshape(n, -1))


def block_values(name, rows):
    return quants.dequantize(rows, GGMLQuantizationType[name])


def group_values(groups, rows, k):
    """Returns (code - zero) * scale, from bytes in the layout of base/encoding.h."""
    padded, size = -(-k // 32) * 32, groups.group or max(k, 1)
    n_groups, n_codes = -(-k // size), padded * groups.bits // 8
    bits = np.unpackbits(rows[:, :n_codes], axis=1, bitorder="little").reshape(len(rows), padded, groups.bits)
    codes = (bits << np.arange(groups.bits)).sum(axis=2).astype(np.uint8)[:, :k]
    if groups.code == "int":
        values = codes.astype(np.float32)
    else:
        values = (
            torch.from_numpy(codes)
            .view({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[groups.code])
            .float()
            .numpy()
        )
    dtype = np.dtype({"f16": np.float16, "bf16": bfloat16, "f32": np.float32}[groups.scale])
    tail = np.ascontiguousarray(rows[:, n_codes : n_codes + (1 + groups.zeros) * n_groups * dtype.itemsize])
    factors = tail.view(dtype).astype(np.float32)
    scales, zeros = factors[:, :n_groups], factors[:, n_groups:]
    zero = (
        np.repeat(zeros, size, axis=1)[:, :k] if groups.zeros else 2 ** (groups.bits - 1) if groups.code == "int" else 0
    )
    return (values - zero) * np.repeat(scales, size, axis=1)[:, :k]


class Weight(torch.nn.Module):
    """Readers of a quantised weight: products with 1, 3 and 20 rows, an embedding, and an op without encodings."""

    def __init__(self, values, dtype=F32):
        super().__init__()
        self.w = torch.nn.Parameter(
            torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(dtype), requires_grad=False
        )

    def forward(self, x, ids, bias):
        few = fn.linear(x[:1], self.w), fn.linear(x[:3], self.w, bias), fn.linear(x[:7].reshape(7, 1, -1), self.w)
        return *few, fn.linear(x, self.w), fn.embedding(ids, self.w), self.w + x[0, 0]


class Product(Weight):
    """A single product."""

    def forward(self, x):
        return fn.linear(x, self.w)


class Batches(Weight):
    """Products with batches that do not merge into rows of one product, and rows that are not contiguous."""

    def forward(self, x):
        return fn.linear(x.transpose(1, 2)[..., ::2], self.w)


class Experts(Weight):
    """Rows in three groups, each multiplied by a matrix of 22 rows; turned: the parameter is the transposed matrix."""

    def __init__(self, values, turned, dtype=F32):
        experts = values[:66].reshape(3, 22, -1)
        super().__init__(experts.transpose(0, 2, 1) if turned else experts, dtype)
        self.turned = turned

    def forward(self, x, ends):
        return torch.ops.transformers.grouped_mm_fallback(x, self.w if self.turned else self.w.mT, ends)


def experts_case(name, values, stored, k, rows, ends, turned=False, dtype=F32):
    stored = Stored(stored.encoding, stored.rows[:66])
    return Case(
        f"experts_{name}",
        Experts(values, turned, dtype),
        **groups(T((rows, k), dtype), *ends),
        quantize=lambda _name, _weight: stored,
        rtol=ulps(dtype, 8),
        atol=2 * products(dtype, k, 3),
    )


def groups(a, first, second):
    """Returns the inputs of both runs, each with different group ends; T reverses the values of the second run."""
    ends = [T((3,), I32, values=e) for e in (first, second[::-1])]
    return {"inputs": [a, ends[0]], "other": [a, ends[1]]}


def experts_cases(random):
    from transformers.integrations import moe

    ends = ((4, 4, 13), (0, 20, 21))
    for name in ("MXFP4", "Q4_0", "Q6_K"):
        stored = random_blocks(name, 512, random)
        yield experts_case(name.lower(), block_values(name, stored.rows), stored, 512, 21, ends)
    stored = random_blocks("MXFP4", 96, random)
    values = block_values("MXFP4", stored.rows)
    for rows, ends in (
        (1, ((0, 1, 1), (1, 1, 1))),
        (6, ((2, 3, 6), (1, 1, 2))),
        (140, ((60, 80, 133), (0, 0, 140))),
        (0, ((0, 0, 0),) * 2),
    ):
        yield experts_case(f"mxfp4_rows_{rows}", values, stored, 96, rows, ends, turned=True)
    for text in ("int8", "int4:32", "int4:48:zeros", "e4m3"):
        yield experts_case(text.replace(":", "_"), *of_groups(text, 131, random), 131, 21, ((4, 4, 13), (0, 20, 21)))
    for dtype in (F16, BF16):
        values, stored = of_groups("int4:32", 192, random, exact=True)
        yield experts_case(f"turned_{name_of(dtype)}", values, stored, 192, 9, ((3, 9, 9), (0, 1, 5)), True, dtype)


def all_codes(text):
    """Returns a column with all 8-bit floats, including NaN and infinity, and the bytes. The padding codes of each row
    are NaN."""
    groups = parse(text)
    codes = np.full((256, 32), 0x7F, np.uint8)
    codes[:, 0] = np.arange(256)
    rows = np.concatenate([codes, np.full((256, 1), 0.5, np.float32).view(np.uint8)], axis=1)
    return group_values(groups, rows, 1), Stored(groups.table(), rows)


def case(name, values, stored, k, dtype=F32):
    ids = T((3, 2), I64, 0, ROWS - 1)
    return Case(
        name,
        Weight(values, dtype),
        [T((20, k), dtype), ids, T((ROWS,), dtype)],
        quantize=lambda _name, _weight: stored,
        rtol=ulps(dtype, 8),
        atol=2 * products(dtype, k, 3),
    )


def of_groups(text, k, random, exact=False, n=ROWS):
    """Returns values and bytes. exact: scales are powers of two, so that a value fits 16 bits."""
    groups = parse(text)
    weight = random.uniform(-2, 2, (n, k)).astype(np.float32)
    if exact:
        weight = np.clip(
            np.round(weight * 2 ** (groups.bits - 2)), -(2 ** (groups.bits - 1)), 2 ** (groups.bits - 1) - 1
        )
        weight[:, ::16] = -(2 ** (groups.bits - 1))
        weight /= 2 ** (groups.bits - 2)
    stored = Stored(groups.table(), groups.encode(weight))
    return group_values(groups, stored.rows, k), stored


def cases():
    random = np.random.default_rng(3)
    yield from experts_cases(np.random.default_rng(4))
    for name in BLOCKS:
        stored = random_blocks(name, 512, random)
        yield case(name.lower(), block_values(name, stored.rows), stored, 512)
    for text in GROUPS:
        for k in (131, 256):
            yield case(f"{text.replace(':', '_')}_k{k}", *of_groups(text, k, random), k)
    for dtype in (F16, BF16):
        for text in ("int8", "int4:32"):
            yield case(
                f"{text.replace(':', '_')}_{name_of(dtype)}", *of_groups(text, 192, random, exact=True), 192, dtype
            )
    for m in (0, 2, 5, 8, 9, 12, 13, 25, 32, 33):
        values, stored = of_groups("int4:32", 352, random)
        yield Case(
            f"rows_{m}",
            Product(values),
            [T((m, 352))],
            quantize=lambda _name, _weight, stored=stored: stored,
            rtol=ulps(F32, 8),
            atol=2 * products(F32, 352, 3),
        )
    for m in (3, 40):
        for text in ("e4m3", "e5m2"):
            values, stored = all_codes(text)
            yield Case(
                f"all_codes_{text}_{m}",
                Product(values),
                [T((m, 1))],
                quantize=lambda _name, _weight, stored=stored: stored,
                rtol=ulps(F32, 2),
            )
    values, stored = of_groups("int4:32", 704, random)
    for m in (5, 11, 70):  # more k than gemm.cl reads at once
        yield Case(
            f"deep_{m}",
            Product(values),
            [T((m, 704))],
            quantize=lambda _name, _weight, stored=stored: stored,
            rtol=ulps(F32, 8),
            atol=2 * products(F32, 704, 3),
        )
    values, stored = of_groups("int4:64:zeros", 200, random)
    for m in (5, 40):
        yield Case(
            f"batches_{m}",
            Batches(values),
            [T((2, m, 3, 400))],
            quantize=lambda _name, _weight: stored,
            rtol=ulps(F32, 8),
            atol=2 * products(F32, 200, 3),
        )
