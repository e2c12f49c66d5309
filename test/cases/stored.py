"""Dtypes that are only stored: moved, cast to and from all others, and in the few ops that torch supports. Exact."""

import torch

from describe import (
    BF16,
    BOOL,
    F8_E4M3,
    F8_E5M2,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    INF,
    INTS,
    NAN,
    STORED,
    U8,
    U16,
    U32,
    U64,
    Case,
    T,
    name_of,
)

FLOAT8 = (F8_E4M3, F8_E5M2)
UNSIGNED = (U16, U32, U64)
EVERYTHING = (*FLOATS, *INTS, BOOL, *STORED)
# Numbers at and around the largest and smallest ones, half of these, and midpoints between neighbours.
NEAR_FLOAT8 = tuple(
    sign * x
    for sign in (1, -1)
    for x in (
        *(NAN, INF, 0.0, 448.0, 463.9, 464.0, 464.1, 480.0, 512.0, 57344.0, 61439.0, 61440.0, 65536.0, 1e30),
        *(2.0**-6, 1.0625 * 2**-6, 2.0**-9, 2.0**-10, 1.001 * 2**-10, 2.0**-14, 2.0**-16, 2.0**-17, 1.001 * 2**-17),
        *(1e-30, 1.0, 1.0625, 1.1875, 1.125, 1.375, 1.0626, 0.1, 1 / 3),
    )
)
LARGE_U64 = (
    2**64 - 1,
    2**63,
    2**63 + 1,
    2**63 - 1,
    2**53 + 1,
    2**24 + 1,
    2**64 - 2**39,
    2**63 + 2**39,
    2**63 + 2**40,
    7,
    0,
)


def each(functions):
    return lambda *xs: tuple(f(*xs) for f in functions)


def casts(to):
    return each([lambda x, t=t: x.to(t) for t in to])


def numbers(dtype, shape):
    """Returns numbers that all dtypes hold, and the ends of each dtype's range."""
    if dtype in FLOAT8:
        return T(shape, dtype, values=(0.0, -0.0, 1.0, -1.5, 448.0, -0.25, 2.0**-9, NAN, 3.5, -96.0, 0.875))
    return T(shape, dtype, values=(0, 1, 2 ** (8 * dtype.itemsize) - 1, 2 ** (8 * dtype.itemsize - 1), 200, 5, 77))


def cast_cases():
    for dtype in STORED:
        yield Case(f"cast_{name_of(dtype)}", casts(EVERYTHING), [T((3, 43), dtype, 0, 100)])
    for dtype in (*FLOATS, *INTS, BOOL):
        yield Case(f"cast_{name_of(dtype)}", casts(STORED), [T((3, 43), dtype, 0, 100)])
    for dtype in FLOATS:
        yield Case(f"float8_rounding_{name_of(dtype)}", casts(FLOAT8), [T((64,), dtype, values=NEAR_FLOAT8)])
    integers = (0, 1, 17, 19, 448, 463, 464, 465, 480, 57344, 61439, 61440, 70000, -17, -465)
    for dtype in (I16, I32, I64):
        kept = [n for n in integers if abs(n) < 2**15 or dtype is not I16]
        yield Case(f"float8_rounding_{name_of(dtype)}", casts(FLOAT8), [T((30,), dtype, values=tuple(kept))])
    floats = (*FLOATS, *FLOAT8, BOOL, I64, U32, U16, I32)
    yield Case("u64_rounding", casts(floats), [T((22,), U64, values=LARGE_U64)])
    yield Case(
        "u32_rounding", casts((*FLOATS, *FLOAT8, I32, U16)), [T((9,), U32, values=(2**32 - 1, 2**31, 2**24 + 1))]
    )
    whole = (0.0, 0.9, -0.9, 1.5, 65535.0, 2.0**31, 2.0**32 - 256, 2.0**63, 2.0**64 - 2.0**40, -1.0, -300.0, 2.0**40)
    for dtype in (F32, F64):
        yield Case(f"to_u64_{name_of(dtype)}", casts([U64]), [T((24,), dtype, values=(*whole, INF, -INF, NAN, 1e30))])
        yield Case(f"to_u32_{name_of(dtype)}", casts([U32, U16]), [T((14,), dtype, values=(*whole[:5], -1.0, -300.0))])
        yield Case(f"to_u32_large_{name_of(dtype)}", casts([U32]), [T((14,), dtype, values=whole[:7])])
    wrapped = (-1, -300, 2**31, 2**32 + 5, -(2**62), 2**63 - 1)
    yield Case("wrap_i64", casts(UNSIGNED), [T((12,), I64, values=wrapped)])


def all_codes_cases():
    codes = T((256,), U8, values=tuple(range(256)))
    for dtype in FLOAT8:
        f = lambda x, d=dtype: casts((*FLOATS, BOOL, *FLOAT8))(x.view(d))
        yield Case(f"all_codes_{name_of(dtype)}", f, [codes])
    every = T((65536,), I16, values=tuple(range(-32768, 32768)))
    for dtype in (F16, BF16):
        yield Case(f"all_codes_{name_of(dtype)}", lambda x, d=dtype: casts(FLOAT8)(x.view(d)), [every])
    yield Case("all_codes_u16", lambda x: casts((*FLOATS, *FLOAT8, I16, U8))(x.view(U16)), [every])


def moves(x, i):
    """torch's views, copies, joins and parts."""
    n = x.shape[0]
    changed = x.clone()
    changed[1:, ::2] = x[:-1, 1::2]
    filled = x.clone()
    filled[0] = 3
    return (
        *(x.t().contiguous(), x[::2, 1:].flip(0), x.expand(3, *x.shape).reshape(3 * n, -1), x.unfold(1, 3, 2).clone()),
        *(
            torch.cat([x, x[:2]]),
            torch.stack([x, x.flip(0)], 1),
            x.roll(2, 1),
            x.repeat(2, 1),
            x.repeat_interleave(2, 0),
        ),
        *(x[i], x[:, i], x[i, i], x.index_select(1, i), torch.nn.functional.embedding(i, x), x[x[:, 0] == x[:, 0]]),
        *(torch.nn.functional.pad(x, (2, 1, 0, 3)), torch.nn.functional.pad(x, (1, -1), value=2.0), changed, filled),
        *(
            x.diagonal().clone(),
            torch.diag_embed(x[0]),
            torch.select_scatter(x, x[0], 0, 2),
            x[0].expand(4, -1).clone(),
        ),
    )


def move_cases():
    index = T((4,), I64, values=(2, 0, 3, 1))
    for dtype in STORED:
        d = name_of(dtype)
        yield Case(f"moves_{d}", moves, [numbers(dtype, (4, 8)), index])
        large = lambda x: (
            x.t().contiguous(),
            x[3:, 5:].clone(),
            torch.cat([x, x], 1),
            torch.nn.functional.pad(x, (3, 4)),
        )
        yield Case(f"moves_large_{d}", large, [numbers(dtype, (67, 129))])
        empty = lambda x: (x.clone(), torch.cat([x, x]), x.to(F32), x.t().contiguous(), x == x)
        yield Case(f"empty_{d}", empty, [numbers(dtype, (0, 5))])
        yield Case(f"scalar_{d}", lambda x: (x.clone(), x.to(F32), x.reshape(1), x != x), [numbers(dtype, ())])
        made = lambda x, t=dtype: (torch.full((3, 2), 3, dtype=t), torch.zeros_like(x), torch.ones(2, dtype=t), x)
        yield Case(f"made_{d}", made, [numbers(dtype, (2, 3))])
        bits = lambda x: (x.view(U8), x.reshape(-1).view(U8).view(x.dtype))
        yield Case(f"bits_{d}", bits, [numbers(dtype, (3, 8))])
    rows = torch.export.Dim("rows", max=99)
    sizes = {"other": [numbers(U16, (9, 3))], "dynamic_shapes": {"args": ({0: rows},)}}
    open_sizes = lambda x: (torch.cat([x, x]), x.flip(0), x.to(F32) + x.shape[0], x.t().contiguous())
    yield Case("dynamic", open_sizes, [numbers(U16, (5, 3))], **sizes)


def computed_cases():
    for dtype in STORED:
        compared = each([torch.eq, torch.ne, lambda x, y: x == 200, lambda x, y: y != 5, torch.mul])
        more = each([lambda x, y: x.any(), lambda x, y: x.all(1), lambda x, y: torch.where(x == y, x, y[0])])
        inputs = [numbers(dtype, (3, 11)), numbers(dtype, (11,))]
        yield Case(f"compared_{name_of(dtype)}", lambda x, y, a=compared, b=more: (*a(x, y), *b(x, y)), inputs)
    for dtype in FLOAT8:
        tests = [torch.isnan, torch.abs] if dtype is F8_E4M3 else [torch.isnan, torch.abs, torch.isinf]
        yield Case(f"float8_{name_of(dtype)}", each(tests), [numbers(dtype, (3, 11))])
    for dtype in UNSIGNED:
        bits = [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, lambda x, y: x & 6, lambda x, y: x ^ 2**15]
        yield Case(f"bitwise_{name_of(dtype)}", each(bits), [numbers(dtype, (3, 7)), T((7,), dtype, 0, 9)])
        yield Case(f"times_{name_of(dtype)}", lambda x: x * 3, [numbers(dtype, (3, 7))])
        sums = [
            lambda x: x.sum(),
            lambda x: x.sum(1),
            lambda x: x.prod(0),
            lambda x: x.sum(0, dtype=I64),
            lambda x: x.cumsum(1),
        ]
        yield Case(f"sums_{name_of(dtype)}", each(sums), [numbers(dtype, (5, 7))])
        order = [lambda x: x.sort(1)[0], lambda x: x.sort(0, descending=True)[1], lambda x: x.unique()]
        yield Case(f"order_{name_of(dtype)}", each(order), [numbers(dtype, (3, 7))])
        quotient = [lambda x: x / 3, lambda x: torch.sqrt(x), lambda x: x + torch.ones(7)]
        yield Case(f"floats_{name_of(dtype)}", each(quotient), [T((3, 7), dtype, 0, 1000)], rtol=1e-6)
    in_between = lambda x: (x.to(F8_E4M3).to(F32) * 2, x.to(F8_E5M2).to(F16) + 1, x.to(U16).to(F32) - 0.5)
    yield Case("in_between", in_between, [T((300,), F32, 0, 440)])
    yield Case("in_between_u32", lambda x: (x.to(U32).to(I64) + 1, x.to(U16).to(I64), x.to(U64).to(F32)), [T((50,), I64, -(2**40), 2**40)])  # fmt: skip


def behind_product_cases():
    """Steps that run in a product read such values, and round to these dtypes in between."""
    product = lambda x, w, s: (
        (x @ w) * s.to(F32),
        torch.relu(x @ w + s.to(F32)).to(F8_E4M3).to(F32) - 1,
        (x @ w).to(s.dtype).to(F32),
    )
    for dtype in STORED:
        inputs = [
            T((9, 16), values=(0.5, 1.0, 0.25, 2.0, 0.75)),
            T((16, 24), values=(1.0, 0.5, 2.0)),
            T((24,), dtype, 0, 9),
        ]
        yield Case(f"behind_product_{name_of(dtype)}", product, inputs)


class Kept(torch.nn.Module):
    """Keeps state of a dtype that is only stored."""

    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 3, dtype=dtype))

    def forward(self, x):
        before = self.kept.to(F32)
        self.kept.copy_(x.to(self.kept.dtype))
        return before + x.to(self.kept.dtype).to(F32)


def chosen(x, p):
    return torch.cond(p.any(), lambda x: (x.flip(0), x.to(F32)), lambda x: (x.clone(), -x.to(F32)), (x,))


def control_cases():
    for dtype in (U16, F8_E4M3):
        d = name_of(dtype)
        yield Case(f"state_{d}", Kept(dtype), [T((4, 3), F32, 0, 300)], state=True)
        yield Case(f"cond_{d}", chosen, [numbers(dtype, (4, 3)), T((2,), BOOL)], own="a branch, exact")
    constant = torch.arange(12).reshape(3, 4).to(F8_E5M2)
    yield Case("constant", lambda x: (constant.to(F32) + x, constant[1:], x), [T((3, 4))], rtol=1e-7)
    yield Case("i8_u16", lambda x: (x.to(U16), x.to(U16).to(I8)), [T((300,), I8, -128, 127)])


def cases():
    for family in (cast_cases, all_codes_cases, move_cases, computed_cases, behind_product_cases, control_cases):
        yield from family()
