"""The ranked list of bench/breakdown_bench.py: the names of nodes and their order."""

import pytest


@pytest.fixture
def table(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "bench"))
    import breakdown_bench

    return breakdown_bench


def node(op, shapes, ms=1.0, compute=0.0, memory=0.0, kind="node"):
    return {"op": op, "kind": kind, "shapes": shapes, "ms": ms, "compute_ms": compute, "memory_ms": memory}


@pytest.mark.parametrize(
    ("op", "shapes", "name"),
    [
        ("conv", "F32 [1, 16, 8, 8], F32 [4, 16, 1, 1] -> F32 [1, 4, 8, 8]", "conv, 1×1"),
        ("conv", "F32 [1, 16, 8, 8], F32 [16, 1, 3, 5], F32 [16] -> F32 [1, 16, 8, 8]", "conv, depthwise 3×5"),
        ("conv", "F32 [1, 1, 8, 8], F32 [16, 1, 3, 3] -> F32 [1, 16, 8, 8]", "conv, 3×3"),
        ("conv", "F32 [1, 8, 9], int8:32 [16, 8, 7] -> F32 [1, 16, 9]", "conv, 7"),
        ("conv_integer", "U8 [1, 8, 7, 7], I8 [8, 1, 3, 3] -> I32 [1, 8, 7, 7]", "conv_integer, depthwise 3×3"),
        ("elementwise", "I32 [1, 8, 7, 7], F32 [8, 1, 1] -> U8 [1, 8, 7, 7]", "elementwise, to 8 bits"),
        ("elementwise", "U8 [1, 8, 7, 7] -> F32 [1, 8, 7, 7]", "elementwise"),
        ("matmul", "F32 [1, 768], Q8_0 [768, 4096] -> F32 [1, 4096]", "matmul, 1 row, at most 4096 columns"),
        ("matmul", "F32 [2, 9, 768], F32 [768, 32000] -> F32 [2, 9, 32000]", "matmul, 18 rows, more columns"),
        ("matmul_integer", "U8 [9, 8], I8 [48, 8] -> I32 [9, 48]", "matmul_integer, 9 rows, at most 4096 columns"),
        ("softmax", "F32 [] -> F32 []", "softmax"),
    ],
)
def test_kinds_of_nodes(table, op, shapes, name):
    assert table.kind(node(op, shapes)) == name
    assert table.kind(node(op, "", kind="copy")) == "copy"


def test_what_can_gain_most_comes_first(table):
    rows = [
        node("softmax", "", ms=3, memory=2.5, compute=1),
        node("pool", "", ms=2, compute=0.5),
        node("softmax", "", ms=1, memory=1.5),
        node("copy", "", ms=1, compute=None, memory=None, kind="transfer"),
    ]
    ranked = table.ranked({"nodes": rows, "run_ms": 10, "between_ms": 3})
    assert [r[0] for r in ranked] == ["between kernels", "pool", "transfer", "softmax"]
    assert [r[3] for r in ranked] == pytest.approx([0.3, 0.15, 0.1, 0])
    assert ranked[1][1:3] == pytest.approx((0.2, 0.25)) and ranked[3][1:3] == pytest.approx((0.4, 1.0))
