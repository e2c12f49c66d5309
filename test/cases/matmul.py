"""matmul, addmm, bmm, baddbmm, linear. Tolerance: K products summed in f32 (f64 in f64), see describe.products; integers exact."""

import torch
import torch.nn.functional as fn

from describe import (
    BF16,
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
    U8,
    Case,
    T,
    name_of,
    products,
    ulps,
)

PAIRS = {  # a, b
    "square": ((16, 16), (16, 16)), "odd": ((5, 7), (7, 3)), "row": ((1, 300), (300, 17)), "column": ((37, 65), (65, 1)), "tile": ((33, 129), (129, 65)),
    "one": ((1, 1), (1, 1)), "dot": ((19,), (19,)), "matrix_vector": ((9, 31), (31,)), "vector_matrix": ((31,), (31, 9)),
    "batch": ((3, 5, 7), (3, 7, 4)), "broadcast": ((2, 1, 5, 7), (3, 7, 4)), "batch_matrix": ((4, 5, 7), (7, 6)), "matrix_batch": ((5, 7), (4, 7, 6)),
    "batch_vector": ((3, 5, 7), (7,)), "tall": ((257, 8), (8, 5)), "deep": ((4, 1025), (1025, 6)), "empty_k": ((3, 0), (0, 4)), "empty_m": ((0, 3), (3, 4)),
    "empty_batch": ((0, 3, 4), (0, 4, 2)),
}  # fmt: skip


def tolerance(dtype, k):
    # torch may use bf16 or f16 dot products, whose rounding between blocks adds one unit of a sum's size
    return {"rtol": ulps(dtype, 8), "atol": 2 * products(dtype, k)}


def matmul_cases():
    for dtype in (*FLOATS, I32, I64):
        for name, (a, b) in PAIRS.items():
            yield Case(
                f"{name}_{name_of(dtype)}",
                torch.matmul,
                [T(a, dtype, -2, 2), T(b, dtype, -2, 2)],
                **tolerance(dtype, a[-1]),
            )
    big = [T((70, 600), F32), T((600, 90), F32)]
    yield Case("big_f32", torch.matmul, big, **tolerance(F32, 600))
    yield Case("big_f16", lambda a, b: torch.matmul(a.half(), b.half()), big, **tolerance(F16, 600))
    yield Case("several_tiles_f32", torch.matmul, [T((17, 45)), T((45, 18))], **tolerance(F32, 45))  # for oclgrind
    edge = [T((33, 18), F16), T((18, 34), F16)]
    yield Case("edge_of_tile_f16", torch.matmul, edge, **tolerance(F16, 18))  # for oclgrind
    large = [T((300, 513), F32), T((513, 260), F32)]
    yield Case("large_f32", torch.matmul, large, **tolerance(F32, 513))
    scaled = lambda c, a, b: torch.addmm(c, a, b, alpha=0.5, beta=3)
    yield Case("large_addmm_f32", scaled, [T((260,)), *large], **tolerance(F32, 513))
    # A number is added to all elements, or one to each row. Neither is a row from which sums could start.
    spread = lambda c, r, a, b: (torch.addmm(c, a, b), torch.addmm(r, a, b))
    yield Case("addmm_spread_f32", spread, [T((1,)), T((9, 1)), T((9, 20)), T((20, 70))], **tolerance(F32, 20))
    yield Case("big_addmm_f16", scaled, [T((70, 1), F16), T((70, 600), F16), T((600, 90), F16)], **tolerance(F16, 600))
    yield Case("gemv_large_f32", torch.matmul, [T((1, 2048)), T((2048, 1000))], **tolerance(F32, 2048))
    yield Case(
        "gemv_large_f16",
        lambda x, w: fn.linear(x.half(), w.half()),
        [T((1, 512)), T((999, 512))],
        **tolerance(F16, 512),
    )
    yield Case("gemv_linear_f32", fn.linear, [T((1, 1000)), T((333, 1000))], **tolerance(F32, 1000))
    # For tiles on GPUs: several tiles and chains of sums, rows with and without whole texels of 16 bytes, and each
    # operand by rows and by columns.
    for k, dtype in ((72, F16), (75, F32), (80, BF16)):
        a, b, a_t, b_t = T((133, k), dtype), T((k, 136), dtype), T((k, 133), dtype), T((136, k), dtype)
        orders = lambda a, b, a_t, b_t: (a @ b, a @ b_t.t(), a_t.t() @ b, a_t.t() @ b_t.t())
        yield Case(f"orders_{name_of(dtype)}", orders, [a, b, a_t, b_t], **tolerance(dtype, k))
    for m in (2, 3, 4, 7, 8, 9, 16, 31):
        yield Case(f"small_m{m}_f32", fn.linear, [T((m, 129)), T((67, 129)), T((67,))], **tolerance(F32, 129))


def strided_cases():
    layouts = {
        "at": lambda a, b: a.t() @ b, "bt": lambda a, b: a[:7].t() @ b[:9].t()[:7], "both_t": lambda a, b: (b.t() @ a),
        "sliced": lambda a, b: a[::2, 1:].t() @ b[::2, ::3], "flipped": lambda a, b: a.flip(1).t() @ b,
    }  # fmt: skip
    for dtype in (F32, F16):
        for name, f in layouts.items():
            yield Case(
                f"strided_{name}_{name_of(dtype)}", f, [T((10, 9), dtype), T((10, 11), dtype)], **tolerance(dtype, 10)
            )
    heads = lambda q, k: q.transpose(1, 2) @ k.transpose(1, 2).transpose(-2, -1)
    yield Case("strided_heads", heads, [T((2, 5, 3, 8)), T((2, 6, 3, 8))], **tolerance(F32, 8))
    yield Case("strided_expand", lambda a, b: a.expand(4, 3, 5) @ b, [T((1, 3, 5)), T((4, 5, 2))], **tolerance(F32, 5))


def fused_cases():
    for dtype in (*FLOATS, I64):
        d, tol = name_of(dtype), tolerance(dtype, 40)
        x, w, b = T((5, 13), dtype, -2, 2), T((13, 7), dtype, -2, 2), T((7,), dtype, -2, 2)
        yield Case(f"addmm_{d}", lambda b, x, w: torch.addmm(b, x, w), [b, x, w], **tol)
        yield Case(
            f"addmm_scaled_{d}", lambda b, x, w: torch.addmm(b, x, w, alpha=2, beta=3), [T((5, 1), dtype), x, w], **tol
        )
        yield Case(f"addmm_beta0_{d}", lambda b, x, w: torch.addmm(b, x, w, beta=0), [b, x, w], **tol)
        yield Case(f"bmm_{d}", torch.bmm, [T((3, 4, 9), dtype), T((3, 9, 5), dtype)], **tol)
        yield Case(
            f"baddbmm_{d}",
            lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=1),
            [T((3, 4, 5), dtype), T((3, 4, 9), dtype), T((3, 9, 5), dtype)],
            **tol,
        )
        yield Case(f"mv_{d}", torch.mv, [T((7, 13), dtype), T((13,), dtype)], **tol)
        if dtype is I64:
            continue
        weight = T((7, 13), dtype)
        yield Case(f"linear_{d}", lambda x, w, b: (fn.linear(x, w, b), fn.linear(x, w)), [x, weight, b], **tol)
        yield Case(f"linear_3d_{d}", fn.linear, [T((2, 3, 13), dtype), weight, b], **tol)
        yield Case(f"linear_vector_{d}", fn.linear, [T((13,), dtype), weight, b], **tol)
        gelu = lambda x, w, b: fn.gelu(fn.linear(x, w, b)) + x[:, :7]
        yield Case(f"linear_gelu_{d}", gelu, [x, weight, b], rtol=2 * tol["rtol"], atol=2 * tol["atol"])
    nan = float("nan")
    yield Case(
        "beta0_ignores_nan",
        lambda b, x, w: torch.addmm(b, x, w, beta=0),
        [T((7,), values=(nan,)), T((5, 13)), T((13, 7))],
        **tolerance(F32, 13),
    )
    yield Case(
        "nan_inf",
        torch.matmul,
        [T((5, 6), values=(1.0, nan, 2.0, float("inf"), 0.0, -1.0, 3.0)), T((6, 4))],
        **tolerance(F32, 6),
    )
    yield Case(
        "constant_weight",
        torch.nn.Sequential(torch.nn.Linear(19, 33), torch.nn.ReLU(), torch.nn.Linear(33, 5)),
        [T((7, 19))],
        **tolerance(F32, 33),
    )
    yield Case("f64_precision", torch.matmul, [T((5, 100), F64), T((100, 5), F64)], rtol=1e-13, atol=1e-13)


def linalg_cases():
    """Ops that decompose into products, or are products by another name: several per program."""
    nan = float("nan")
    for dtype in (*FLOATS, I64):
        d, tol = name_of(dtype), tolerance(dtype, 40)
        a, v, w = T((5, 7), dtype), T((7,), dtype), T((5,), dtype)
        vectors = lambda a, v, w: (
            torch.addmv(w, a, v, beta=3, alpha=2), torch.addr(a, w, v, beta=2, alpha=3), torch.outer(w, v), torch.inner(a, v), torch.dot(v, v), torch.trace(a),
        )  # fmt: skip
        yield Case(f"vectors_{d}", vectors, [a, v, w], rtol=2 * tol["rtol"], atol=6 * tol["atol"])
        b, x, y = T((4, 6), dtype), T((3, 4, 5), dtype), T((3, 5, 6), dtype)
        batches = lambda b, x, y: (
            torch.addbmm(b, x, y, beta=2.5, alpha=3.5), torch.einsum("bij,bjk->ik", x, y), torch.tensordot(x, y, dims=([0, 2], [0, 1])), torch.kron(b, y[0]),
        )  # fmt: skip
        yield Case(f"batches_{d}", batches, [b, x, y], rtol=2 * tol["rtol"], atol=10 * tol["atol"])
        if dtype is not I64:
            zero = lambda n, a, v, x, y: (
                torch.addmv(n[:, 0], a, v, beta=0), torch.addr(n[:, :7], a[:, 0], v, beta=0), torch.addbmm(n[:4, :6], x, y, beta=0), torch.baddbmm(n[:4, :6], x, y, beta=0),
            )  # fmt: skip
            yield Case(
                f"beta0_{d}",
                zero,
                [T((5, 9), dtype, values=(nan,)), a, v, x, y],
                rtol=tol["rtol"],
                atol=4 * tol["atol"],
            )
            yield Case(
                f"bilinear_{d}",
                fn.bilinear,
                [T((2, 3, 4), dtype), T((2, 3, 5), dtype), T((6, 4, 5), dtype), T((6,), dtype)],
                rtol=4 * tol["rtol"],
                # The products of two operands are rounded to the dtype before they are summed with the third.
                atol=16 * tol["atol"] + (2 * torch.finfo(dtype).eps if dtype in (F16, BF16) else 0),
                steps=1,
            )
    for dtype in (I8, U8, I16, I32, I64):
        wrap = lambda a, b, c: (
            a @ b,
            torch.addmm(c, a, b, alpha=3, beta=2),
            torch.matrix_power(a[:, :5], 3),
            torch.mv(a, b[:, 0]),
        )
        yield Case(
            f"wrap_{name_of(dtype)}",
            wrap,
            [T((5, 9), dtype, -100, 100), T((9, 4), dtype, -100, 100), T((5, 4), dtype, -100, 100)],
        )
    empty = lambda c, a, b: (
        torch.baddbmm(c, a, b, beta=2),
        torch.bmm(a, b),
        torch.addbmm(c[0], a, b),
        torch.einsum("bij,bjk->bik", a, b),
    )
    yield Case("empty_k_bias", empty, [T((2, 3, 4)), T((2, 3, 0)), T((2, 0, 4))], **tolerance(F32, 1))
    more = lambda a, b, m: (
        fn.cosine_similarity(a, b, dim=0), torch.linalg.cross(a[:, :3], b[:, :3]), torch.linalg.multi_dot([a.T, b, m]), torch.matrix_power(m, 5), torch.linalg.vecdot(a, b), fn.pairwise_distance(a, b),
    )  # fmt: skip
    yield Case("more_f32", more, [T((5, 4)), T((5, 4)), T((4, 4), F32, -0.5, 0.5)], **tolerance(F32, 40))


def groups(a, b, first, second):
    """Returns the inputs of both runs, each with different group ends; T reverses the values of the second run."""
    ends = [T((len(e),), I32, values=e) for e in (first, second[::-1])]
    return {"inputs": [a, b, ends[0]], "other": [a, b, ends[1]]}


ROWS = (1, 2, 3, 4, 5, 8, 9, 17, 31, 32, 33, 70)  # numbers of rows around those for which a kernel is compiled


class Constants(torch.nn.Module):
    """Products of a few rows of x, in both layouts, with one constant matrix."""

    def __init__(self, n, k, dtype):
        super().__init__()
        g = torch.Generator().manual_seed(7)
        self.register_buffer("weight", (torch.rand(n, k, generator=g) - 0.5).to(dtype))
        self.register_buffer("turned", self.weight.t().contiguous())
        self.register_buffer("bias", torch.rand(n, generator=g).to(dtype))

    def forward(self, x):
        rows = [fn.linear(x[:m], self.weight, self.bias) for m in ROWS]
        columns = x.t().contiguous().t()
        others = [
            fn.linear(columns[1:4], self.weight),
            torch.addmm(self.bias, columns, self.turned, alpha=0.5, beta=2),
            x[:6] @ self.turned[:, 1:],
            fn.linear(torch.stack([x[:10].reshape(2, 5, -1), x[10:20].reshape(2, 5, -1)], 1)[:, :, ::2], self.weight),
            self.weight @ x[0],
        ]
        return (*rows, *others)


class Added(torch.nn.Module):
    """Adds a row of numbers, and a number for each row, to products with a constant."""

    def __init__(self, k, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(k, n, generator=torch.Generator().manual_seed(7)))

    def forward(self, c, r, x):
        return torch.addmm(c, x, self.weight), torch.addmm(r, x, self.weight, alpha=2, beta=3)


class Square(torch.nn.Module):
    """Reads a constant matrix by columns and by rows, without a transpose between."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("weight", torch.rand(n, n, generator=torch.Generator().manual_seed(7)) - 0.5)

    def forward(self, x):
        return x @ self.weight, self.weight @ x[0], x[:1] @ self.weight


def constant_cases():
    """b is a constant, which a device may pack."""
    for dtype in (F32, F16, BF16):
        for n, k in ((67, 129), (40, 300), (9, 64), (260, 1), (16, 15)):
            name = f"constant_{n}_{k}_{name_of(dtype)}"
            yield Case(name, Constants(n, k, dtype), [T((70, k), dtype)], **tolerance(dtype, k))
    # Whole panels of columns and a partial one.
    rows = [T((9, 70)), T((9, 1)), T((9, 20))]
    yield Case("constant_addmm", Added(20, 70), rows, **tolerance(F32, 20))
    yield Case("constant_square", Square(37), [T((5, 37))], **tolerance(F32, 37))
    # Several columns of panels per work-item on CPUs, and more k than a block.
    yield Case("constant_wide", Constants(1100, 150, F32), [T((300, 150))], **tolerance(F32, 150))
    yield Case("constant_tall", Square(290), [T((530, 290))], **tolerance(F32, 290))
    deep = Constants(40, 5000, F16)
    yield Case("constant_deep_f16", deep, [T((70, 5000), F16)], **tolerance(F16, 5000))


class Narrow(torch.nn.Module):
    """Rows in f32 times 16-bit constants, by columns and by rows, with a bias."""

    def __init__(self, n, k, dtype):
        super().__init__()
        random = torch.Generator().manual_seed(n)
        for name, shape in (("w", (n, k)), ("v", (k, n)), ("bias", (n,))):
            made = torch.rand(shape, generator=random) - 0.5
            self.register_buffer(name, made if name == "bias" else made.to(dtype))

    def forward(self, x):
        w, v = self.w.to(x.dtype), self.v.to(x.dtype)
        return fn.linear(x, w, self.bias), x @ v, fn.linear(x[:1], w), fn.linear(x[:3], w, self.bias), x[:7] @ v


def narrow_cases():
    """b has 16 bits; products read it without conversion."""
    for dtype in (F16, BF16):
        d = name_of(dtype)
        for n, k in ((67, 129), (1, 40), (130, 300), (9, 1)):
            yield Case(f"narrow_{n}_{k}_{d}", Narrow(n, k, dtype), [T((70, k))], **tolerance(F32, k))
        batches = lambda x, w: (x @ w.to(x.dtype), x[0] @ w.to(x.dtype).mT.contiguous().mT, x[:, :1] @ w[0].to(x.dtype))
        yield Case(f"narrow_batches_{d}", batches, [T((3, 5, 33)), T((3, 33, 20), dtype)], **tolerance(F32, 33))


def grouped_cases():
    """Rows are sorted by group. b is a transposed weight, as in transformers, or not transposed."""
    from transformers.integrations import moe

    grouped_mm = torch.ops.transformers.grouped_mm_fallback
    linear = lambda a, b, ends: grouped_mm(a, b.transpose(-2, -1), ends)
    for dtype in (*FLOATS, I32, I64, U8):
        for name, f, shape in (("linear", linear, (3, 33, 65)), ("plain", grouped_mm, (3, 65, 33))):
            inputs = groups(T((21, 65), dtype), T(shape, dtype), (4, 4, 13), (0, 20, 21))
            yield Case(f"grouped_{name}_{name_of(dtype)}", f, **inputs, **tolerance(dtype, 65))
    sizes = {
        "one_row": (1, 5, 9, 3), "decode": (8, 64, 70, 35), "many": (200, 3, 40, 67), "one_group": (37, 1, 19, 21), "empty_rows": (0, 3, 5, 7),
        "empty_k": (6, 3, 0, 7), "empty_n": (6, 3, 5, 0), "deep": (12, 4, 1500, 40), "no_group": (5, 0, 4, 3),
    }  # fmt: skip
    for name, (rows, n_groups, k, n) in sizes.items():
        even, late = (tuple(max(0, rows * (e + 1) // n_groups - d) for e in range(n_groups)) for d in (0, 3))
        inputs = groups(T((rows, k)), T((n_groups, n, k)), even, late)
        both = lambda a, b, ends: (linear(a, b, ends.long()), grouped_mm(a, b.transpose(-2, -1).clone(), ends))
        yield Case(f"grouped_{name}", both, **inputs, **tolerance(F32, k))
    strided = lambda a, b, ends: grouped_mm(a.t()[::2], b[:, 1:, ::3], ends[::2])
    inputs = groups(T((9, 26)), T((2, 10, 30)), (5, 0, 12), (0, 1, 13))
    yield Case("grouped_strided", strided, **inputs, **tolerance(F32, 9))
    numbers = T((6, 5), values=(1.0, float("nan"), 2.0, float("inf"), 0.0, -1.0, 3.0))
    yield Case("grouped_nan_inf", linear, **groups(numbers, T((2, 4, 5)), (2, 3), (1, 6)), **tolerance(F32, 5))
    for name, ends in {"descending": (3, 2), "beyond": (3, 7), "negative": (-1, 2)}.items():
        inputs = groups(T((6, 5)), T((2, 4, 5)), ends, (2, 5))
        yield Case(f"grouped_{name}", linear, **inputs, error="out of range", **tolerance(F32, 5))
    torchs = lambda a, b, ends, c: (
        torch._grouped_mm(a, b.transpose(-2, -1), offs=ends), torch._grouped_mm(b, c, offs=ends), torch._grouped_mm(b, b.transpose(-2, -1)),
    )  # fmt: skip
    inputs = groups(T((16, 16), BF16), T((2, 24, 16), BF16), (4, 16), (0, 16))
    inputs = {k: [*v, T((16, 16), BF16)] for k, v in inputs.items()}
    yield Case("grouped_torch", torchs, **inputs, own="torch has no _grouped_mm in f64", **tolerance(BF16, 16))


def scaled_cases():
    """8-bit floats with scales. torch has no f64 version: the reference is its own results, in f32 rounded once."""
    multiply = torch._scaled_mm
    why = "torch has 8-bit floats only"
    for a, b in ((F8_E4M3, F8_E4M3), (F8_E5M2, F8_E4M3), (F8_E4M3, F8_E5M2)):
        for out in (F32, BF16, F16, F8_E4M3, F8_E5M2):
            f = lambda x, w, s, t, out=out: multiply(x, w.t(), s, t, out_dtype=out)
            inputs = [T((7, 48), a), T((32, 48), b), T((), low=0.1, high=2), T((1,), low=0.1, high=2)]
            name = "_".join(map(name_of, (a, b, out)))
            yield Case(f"scaled_{name}", f, inputs, own=why, **tolerance(out, 48))
    rows = [T((5, 16), F8_E4M3), T((64, 16), F8_E4M3), T((5, 1), low=0.1, high=2), T((1, 64), low=0.1, high=2)]
    for out in (F32, BF16):
        biased = lambda x, w, s, t, bias, out=out: (
            multiply(x, w.t(), s, t, out_dtype=out),
            multiply(x, w.t(), s, t, bias=bias.to(out), out_dtype=out),
            multiply(x, w.t(), s[0], t[0, :1], bias=bias.to(BF16), out_dtype=out),
        )
        yield Case(f"scaled_rows_{name_of(out)}", biased, [*rows, T((64,))], own=why, **tolerance(out, 16))
    divided = lambda x, w, s, t, r: (
        multiply(x, w.t(), s[0], t[0, :1], scale_result=r, out_dtype=F8_E4M3),
        multiply(x, w.t(), s[0], t[0, :1], scale_result=r, out_dtype=F32),
        multiply(x, w.t(), s[0], t[0, :1], torch.ones(64), r, F8_E5M2),
    )
    yield Case("scaled_divided", divided, [*rows, T((), low=0.3, high=3)], own=why, **tolerance(F32, 16))
    recipes = lambda x, w, s, t: (
        torch._scaled_mm_v2(x, w.t(), [s], [1], [0], [t], [1], [0], None, F32),
        torch._scaled_mm_v2(x, w.t(), [s[0]], [0], [], [t[0, :1]], [0], [], torch.ones(64), BF16),
    )
    yield Case("scaled_recipes", recipes, rows, own=why, **tolerance(F32, 16))
    n = torch.export.Dim("n", max=64)
    other = {"other": [T((9, 16), F8_E4M3), *rows[1:2], T((9, 1), low=0.1, high=2), rows[3]]}
    sizes = {"dynamic_shapes": {"args": ({0: n}, None, {0: n}, None)}}
    by_rows = lambda x, w, s, t: multiply(x, w.t(), s, t, out_dtype=BF16)
    yield Case("scaled_dynamic", by_rows, rows, own=why, **other, **sizes, **tolerance(BF16, 16))


def cases():
    families = (
        matmul_cases,
        strided_cases,
        fused_cases,
        linalg_cases,
        constant_cases,
        narrow_cases,
        grouped_cases,
        scaled_cases,
    )
    for family in families:
        yield from family()
