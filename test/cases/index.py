"""Embedding, index_select, gather, index with tensors. Exact: elements are only moved. Bad indices must be errors."""

import torch
import torch.nn.functional as fn

from describe import BOOL, F32, FLOATS, I32, I64, INTS, Case, T, name_of


def cases():
    for dtype in (*FLOATS, *INTS, BOOL):
        d = name_of(dtype)
        x = T((5, 7, 3), dtype, 0, 100)
        yield Case(f"embedding_{d}", lambda i, w: w[i], [T((2, 9), I64, 0, 10), T((11, 6), dtype, 0, 100)])
        select = lambda x, i: (x.index_select(0, i % 5), x.index_select(1, i), x.index_select(-1, i % 3))
        yield Case(f"select_{d}", select, [x, T((8,), I64, 0, 6)])
        gather = lambda x, i: (x.gather(0, i % 5), x.gather(1, i), x.gather(2, i % 3))
        yield Case(f"gather_{d}", gather, [x, T((4, 6, 2), I64, 0, 6)])
        yield Case(f"index_{d}", index_all, [x, T((4,), I64, -5, 4), T((4,), I64, 0, 2), T((3, 1), I64, -7, 6)])
    yield from embedding_cases()
    yield from shape_cases()
    yield from error_cases()


def index_all(x, i, j, k):
    return (
        x[i],
        x[:, k],
        x[i, :, j],
        x[:, i % 5, j],
        x[..., j],
        x[i, i, j],
        x[k % 5, i % 7],
        x[None, i],
        x[1, :, j],
        x[i, 1:4],
    )


def embedding_cases():
    for dtype in FLOATS:
        yield Case(f"table_{name_of(dtype)}", fn.embedding, [T((3, 4), I64, 0, 20), T((21, 9), dtype)])
    yield Case("table_i32", fn.embedding, [T((3, 4), I32, 0, 20), T((21, 9))])
    yield Case("table_padding", lambda i, w: fn.embedding(i, w, padding_idx=0), [T((3, 4), I64, 0, 20), T((21, 9))])
    yield Case("table_scalar", fn.embedding, [T((), I64, 0, 20), T((21, 9))])
    norms = lambda i, w: tuple(fn.embedding(i, w.clone(), max_norm=2.5, norm_type=p) for p in (1.0, 2.0))
    yield Case("table_max_norm", norms, [T((3, 4), I64, 0, 20), T((21, 9))], rtol=1e-6)
    yield Case("table_empty", fn.embedding, [T((0, 3), I64, 0, 20), T((21, 9))])
    yield Case(
        "table_module",
        torch.nn.Sequential(torch.nn.Embedding(50, 12), torch.nn.LayerNorm(12)),
        [T((2, 7), I64, 0, 49)],
        rtol=1e-5,
        atol=1e-5,
    )


def shape_cases():
    yield Case("select_strided", lambda x, i: x.t()[1:].index_select(1, i), [T((9, 5)), T((4,), I64, 0, 8)])
    yield Case("select_index_strided", lambda x, i: x.index_select(0, i[::2]), [T((9, 5)), T((8,), I64, 0, 8)])
    yield Case("select_by_i32", lambda x, i: x.index_select(0, i), [T((9, 5)), T((4,), I32, 0, 8)])
    yield Case("select_empty", lambda x, i: x.index_select(0, i), [T((9, 5)), T((0,), I64)])
    yield Case("gather_strided", lambda x, i: x.t().gather(1, i.t()), [T((9, 5)), T((4, 5), I64, 0, 8)])
    yield Case("gather_vector", lambda x, i: x.gather(0, i), [T((9,)), T((20,), I64, 0, 8)])
    yield Case("gather_scalar", lambda x, i: x.gather(0, i), [T(()), T((), I64, 0, 0)])
    yield Case("gather_empty", lambda x, i: x.gather(1, i), [T((3, 5)), T((3, 0), I64)])
    yield Case("take_along", lambda x: torch.take_along_dim(x, x.argmax(1, keepdim=True), 1), [T((4, 9))])
    yield Case("index_strided", lambda x, i: (x.t()[i], x.flip(0)[:, i]), [T((8, 6)), T((3, 2), I64, 0, 5)])
    yield Case("index_by_i32", lambda x, i: x[i], [T((8, 6)), T((3, 2), I32, -8, 7)])
    yield Case("index_empty", lambda x, i: (x[i], x[:, i]), [T((8, 9)), T((0, 2), I64)])
    yield Case("index_large", lambda x, i: x[i], [T((3000, 17)), T((4001,), I64, 0, 2999)])


def error_cases():
    """Reads with invalid indices, which no kernel may use: just beyond the end, far beyond it, very negative."""
    good = T((4,), I64, 0, 4)
    x = T((5, 5), F32)
    for name, value in {"end": 5, "far": 2**40, "negative": -1, "wraps": -(2**62)}.items():
        bad = T((4,), I64, values=(0, 1, value, 2))
        yield Case(f"error_embedding_{name}", fn.embedding, [bad, x], other=[good, x], error="out of range")
        yield Case(
            f"error_select_{name}", lambda x, i: x.index_select(1, i), [x, bad], other=[x, good], error="out of range"
        )
        yield Case(
            f"error_gather_{name}",
            lambda x, i: x.gather(0, i.reshape(2, 2)),
            [x, bad],
            other=[x, good],
            error="out of range",
        )
        if value == -1:
            continue  # x[-1] is the last
        past = T((4,), I64, values=(0, 1, max(5 * value, -(2**62)), 2))
        yield Case(f"error_take_{name}", torch.take, [x, past], other=[x, good], error="out of range")
        yield Case(f"error_index_{name}", lambda x, i: x[:, i], [x, bad], other=[x, good], error="out of range")
    yield Case(
        "error_index_below",
        lambda x, i: x[i],
        [x, T((4,), I64, values=(0, -6, 1, 2))],
        other=[x, good],
        error="out of range",
    )
