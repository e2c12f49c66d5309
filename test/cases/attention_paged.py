"""Attention over caches in pages. Tolerance: two sums (head_dim and keys) and a softmax, all in f32."""

import torch

from clave.ops import sdpa_with_pages
from describe import BF16, F16, F32, I8, I32, I64, Case, T, name_of

TOLERANCE = 2e-5
ROWS = 16
# The pages are out of order. Sequences 0 and 3 share their first page. Entries that no token needs may have any value.
TABLE = ((6, 2, 0), (3, -7, 99), (5, 1, 4), (6, 7, -1))


class Paged(torch.nn.Module):
    """q: (1, N, n_heads, D), k and v: (1, N, n_kv, D or v_dim), as a model projects them."""

    def __init__(self, kv=2, pages=9, rows=ROWS, dim=8, v_dim=None, dtype=F32, sinks=None, **kwargs):
        super().__init__()
        self.kwargs = kwargs
        self.sinks = None if sinks is None else torch.nn.Parameter(torch.tensor(sinks), requires_grad=False)
        self.register_buffer("keys", torch.zeros(pages, kv, rows, dim, dtype=dtype))
        self.register_buffer("values", torch.zeros(pages, kv, rows, v_dim or dim, dtype=dtype))
        for name in ("key_scale", "value_scale"):
            self.register_buffer(name, torch.zeros(pages, kv, rows) if dtype is I8 else None)

    def forward(self, q, k, v, position, sequence, table):
        scales = (self.key_scale, self.value_scale)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        more = self.kwargs if self.sinks is None else self.kwargs | {"sinks": self.sinks}
        return sdpa_with_pages(q, k, v, self.keys, self.values, position, sequence, table, *scales, **more)


DIMS = [torch.export.Dim(name, min=1, max=2000) for name in ("length", "sequences", "pages")]


def open_sizes(a, b):
    """Returns the dynamic shapes, whose sizes differ between the two runs."""
    at = [(3, 0, 0), (5, 0, 1), (5, 1, 2)]  # input, axis, size
    length, sequences, pages = (DIMS[d] if a[i].shape[k] != b[i].shape[k] else None for i, k, d in at)
    one, many = ({0: length} if length else None), ({1: length} if length else None)
    table = {k: d for k, d in ((0, sequences), (1, pages)) if d}
    return (many, many, many, one, one, table or None)


def whole(*runs):
    """Returns the tokens of runs (sequence, first position, count)."""
    return [(p + i, s) for s, p, n in runs for i in range(n)]


def inputs(tokens, table, run, dtype=F32, heads=4, kv=2, dim=8, v_dim=None):
    """tokens: (position, sequence) of each. The values of the second run are in reverse order (T.repeat_values)."""
    order = 1 if run == 0 else -1
    flat = [page for row in table for page in row]
    return [
        T((1, len(tokens), heads, dim), dtype),
        T((1, len(tokens), kv, dim), dtype),
        T((1, len(tokens), kv, v_dim or dim), dtype),
        T((len(tokens),), I64, values=tuple(p for p, _ in tokens)[::order]),
        T((len(tokens),), I32, values=tuple(s for _, s in tokens)[::order]),
        T((len(table), len(table[0])), I32, values=tuple(flat)[::order]),
    ]


def paged(
    name, first, then, dtype=F32, cache=None, heads=4, kv=2, dim=8, v_dim=None, table=TABLE, after=None, **kwargs
):
    """Runs `first`, `then`, `first`; tokens are (position, sequence). `then` uses the table `after`, if given."""
    sizes = {"dtype": dtype, "heads": heads, "kv": kv, "dim": dim, "v_dim": v_dim}
    a, b = inputs(first, table, 0, **sizes), inputs(then, after or table, 1, **sizes)
    return case(name, Paged(kv, dim=dim, v_dim=v_dim, dtype=cache or dtype, **kwargs), a, b)


def case(name, module, a, b, error=""):
    return Case(
        f"paged_{name}",
        module,
        a,
        other=b,
        error=error,
        rtol=TOLERANCE,
        atol=TOLERANCE,
        state=True,
        dynamic_shapes=open_sizes(a, b),
    )


PROMPTS = whole((0, 0, 20), (1, 0, 3), (2, 0, 33), (3, 16, 2))
TOKENS = [(20, 0), (3, 1), (33, 2), (18, 3)]  # one token after each prompt


def cases():
    for dtype, cache in ((F32, F32), (F32, I8), (F16, F16), (F16, F32), (BF16, BF16), (BF16, I8)):
        yield paged(f"{name_of(dtype)}_in_{name_of(cache)}", PROMPTS, TOKENS, dtype, cache)
    yield paged("dim_3", PROMPTS, TOKENS, dim=3, v_dim=5, heads=3, kv=1)
    yield paged("dim_80_i8", PROMPTS, TOKENS, dim=80, cache=I8, heads=8, kv=1)
    yield paged("dim_300", PROMPTS, TOKENS, dim=300)
    one, alone = whole((0, 0, 40)), TABLE[:1]
    yield paged("one_token", one, [(40, 0)], table=alone, v_dim=5, heads=1, kv=1)
    yield paged("one_token_i8", one, [(40, 0)], table=alone, cache=I8, heads=20, kv=1, window=33)
    yield paged("few_tokens", one, whole((0, 40, 7)), table=alone, window=17)
    mixed = [(20, 0), (3, 1), *whole((2, 33, 15)), (18, 3)]
    yield paged("mixed", PROMPTS, mixed, scale=0.3, softcap=1.5, heads=6)
    yield paged("sinks", PROMPTS, mixed, cache=I8, window=19, sinks=(0.5, -3.0, 20.0, -torch.inf))
    yield paged("scattered", PROMPTS, [(34, 2), (21, 0), (33, 2), (3, 1), (20, 0), (35, 2)])
    yield paged("written_again", PROMPTS, whole((0, 5, 3), (2, 0, 40)), window=4)
    yield paged("moved", PROMPTS, TOKENS, after=((6, 2, 0), (8, 0, 0), (5, 1, 4), (6, 7, -1)), window=1)
    yield paged("wide", PROMPTS, TOKENS, rows=32, table=((2, 0), (1, 1), (5, 4), (6, 3)))
    long = (tuple(range(40, 0, -1)), (41,) * 40, (42, *[0] * 39))
    many, sizes = whole((0, 0, 620), (1, 0, 2)), {"heads": 2, "kv": 1, "dim": 16, "pages": 43}
    yield paged("split", many, [(620, 0), (2, 1)], table=long, **sizes)
    yield paged("split_of_one", many[:620], [(620, 0)], table=long[:1], cache=I8, **sizes)
    yield paged("split_of_some", many, whole((0, 620, 9), (1, 2, 4)), table=long, window=300, **sizes)
    yield paged("sinks_split", many, [(620, 0), (2, 1)], table=long, sinks=(1.0, 9.0), **sizes)
    sizes |= {"heads": 20}
    yield paged("one_among_many", many, [*whole((0, 620, 9)), (2, 1)], table=long, **sizes)
    wide = {"dim": 100, "v_dim": 129, "heads": 6}
    yield paged("blocks", PROMPTS, [*whole((2, 1, 31)), (20, 0), *whole((1, 3, 13))], cache=I8, window=19, **wide)
    batch = tuple((i,) for i in range(40))
    yield paged("batch", whole(*((i, 0, 3) for i in range(40))), [(3, i) for i in range(40)], pages=40, table=batch)
    yield from isolated()
    yield from errors()


def isolated():
    """Infinity and NaN in one sequence, whose first token is the 21st, do not reach the others."""
    odd = inputs(PROMPTS, TABLE, 0)
    odd[2].values = (*[0.5, -0.25] * (20 * 8), float("inf"), float("nan"), *[0.75] * (38 * 16 - 2))
    yield case("odd", Paged(), odd, inputs([*whole((1, 3, 4)), (20, 0), (33, 2)], TABLE, 1))


def errors():
    for name, tokens, table, error in (
        ("sequence", [(0, 0), (0, 4)], TABLE, "index 4 out of range [0, 3]"),
        ("position", [(3, 0), (48, 0)], TABLE, "positions [48, 49) exceed a cache of 48 rows"),
        ("position_negative", [(-1, 0)], TABLE, "positions [-1, 0) exceed a cache"),
        ("position_far", [(2**63 - 2, 2)], TABLE, "exceed a cache of 48 rows"),
        ("page_before", [(40, 0)], ((0, -(2**31), 1),), "index -2147483648 out of range [0, 8]"),
        ("page_of_many", whole((0, 0, 20), (1, 0, 17)), TABLE, "index -7 out of range [0, 8]"),
    ):
        yield case(f"error_{name}", Paged(), inputs(tokens, table, 0), inputs([(0, 0), (0, 1)], TABLE, 1), error)
