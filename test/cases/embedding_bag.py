"""Embedding bags: sums, means and maxima of table rows. Sums of at most 9 rows."""

import torch.nn.functional as fn

from describe import FLOATS, I32, I64, Case, T, name_of, sums, ulps


def bags(i, w, o, f):
    return (
        fn.embedding_bag(i, w, o, mode="sum"),
        fn.embedding_bag(i, w, o, mode="mean"),
        fn.embedding_bag(i, w, o, mode="max"),
        fn.embedding_bag(i, w, o, mode="sum", per_sample_weights=f),
        fn.embedding_bag(i, w, o, mode="mean", padding_idx=2),
        fn.embedding_bag(i, w, o, mode="max", padding_idx=-1),
        fn.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        fn.embedding_bag(i[:8].reshape(2, 4), w, mode="mean"),
        fn.embedding_bag(i[:0], w, o[:2] * 0, mode="mean"),
    )


def cases():
    for dtype in FLOATS:
        inputs = [T((17,), I64, 0, 5), T((6, 70), dtype), T((4,), I64, values=(0, 5, 5, 17)), T((17,), dtype)]
        other = [*inputs[:2], T((4,), I64, values=(17, 16, 3, 0)), inputs[3]]  # values are reversed in the second set
        yield Case(f"bags_{name_of(dtype)}", bags, inputs, other=other, rtol=ulps(dtype, 4), atol=sums(dtype, 9, 4))
    by_i32 = lambda i, w, o: fn.embedding_bag(i, w, o, mode="sum")
    good = [T((6,), I32, 0, 4), T((5, 3)), T((2,), I32, values=(0, 0))]
    yield Case("by_i32", by_i32, good, rtol=1e-6, atol=1e-5)
    bad = {
        "index": [T((6,), I32, values=(0, 1, 5)), *good[1:]],
        "below": [T((6,), I32, values=(0, -1)), *good[1:]],
        "offset": [*good[:2], T((2,), I32, values=(0, 7))],
        "first": [*good[:2], T((2,), I32, values=(1, 3))],
    }
    for name, inputs in bad.items():
        yield Case(f"error_{name}", by_i32, inputs, other=good, error="out of range", atol=1e-5)
