"""Sampling at a grid's positions: linear, nearest, cubic; zeros, border or reflection outside. Tolerance: a position is
rounded to the dtype of computation; the error is that times the difference of neighbouring values."""

import torch
import torch.nn.functional as fn

from describe import F16, F32, F64, INF, NAN, Case, T, name_of, ulps


def sample(mode):
    return lambda x, g: tuple(
        fn.grid_sample(x, g, mode, padding, align)
        for padding in ("zeros", "border", "reflection")
        for align in (False, True)
    )


def cases():
    for dtype in (F32, F64):
        for mode in ("bilinear", "nearest", "bicubic"):
            x, grid = T((2, 3, 5, 7), dtype), T((2, 4, 6, 2), dtype, -2.5, 2.5)
            other = {"rtol": ulps(dtype, 16), "atol": ulps(dtype, 64)}
            yield Case(f"plane_{mode}_{name_of(dtype)}", sample(mode), [x, grid], **other)
            if mode != "bicubic":
                volume, points = T((2, 3, 4, 5, 3), dtype), T((2, 3, 2, 4, 3), dtype, -2.5, 2.5)
                yield Case(f"volume_{mode}_{name_of(dtype)}", sample(mode), [volume, points], **other)
    odd = (NAN, 0.0, INF, 0.5, 0.25, -INF, 1e30, 0.5, -1e30, 0.5, 1.0, -1.0, -0.0, NAN)
    for mode in ("bilinear", "nearest", "bicubic"):
        yield Case(
            f"odd_{mode}", odd_positions(mode), [T((1, 2, 4, 5)), T((1, 3, 4, 2), values=odd)], rtol=1e-5, atol=1e-5
        )
    volume = T((1, 2, 4, 5, 3)), T((1, 2, 3, 4, 3), values=(NAN, 0.0, INF, 0.5, 0.25, -INF, 0.3, 0.5))
    f = lambda x, g: tuple(fn.grid_sample(x, g, "bilinear", p, False) for p in ("zeros", "border"))
    yield Case("odd_volume", f, [*volume], rtol=1e-5, atol=1e-5)
    half = lambda x, g: fn.grid_sample(x, (g * 4).round() / 4, "nearest", "border", True)
    yield Case("plane_f16", half, [T((1, 2, 9, 9), F16), T((1, 4, 4, 2), F16, -1, 1)])
    yield Case("one_element", sample("bilinear"), [T((1, 2, 1, 1)), T((1, 3, 3, 2))], rtol=1e-6, atol=1e-6)
    yield Case("empty", lambda x, g: fn.grid_sample(x, g, align_corners=False), [T((0, 3, 4, 4)), T((0, 5, 5, 2))])
    f = lambda x, t: fn.grid_sample(x, fn.affine_grid(t, (2, 3, 6, 4), align_corners=False), align_corners=False)
    yield Case("affine", f, [T((2, 3, 5, 7)), T((2, 2, 3))], rtol=1e-4, atol=1e-4)
    f = lambda x, g: fn.grid_sample(x.mT, g.transpose(1, 2), align_corners=True)
    yield Case("strided", f, [T((2, 3, 5, 7)), T((2, 4, 6, 2))], rtol=1e-5, atol=1e-5)
    dims = {0: torch.export.Dim("batch", max=8)}
    f = lambda x, g: fn.grid_sample(x, g, align_corners=False)
    shapes = {"args": ({**dims, 2: torch.export.Dim("height", min=2, max=64)}, dims)}
    a, b = [T((2, 3, 5, 7)), T((2, 4, 6, 2))], [T((3, 3, 8, 7)), T((3, 4, 6, 2))]
    yield Case("dynamic", f, a, b, dynamic_shapes=shapes, rtol=1e-5, atol=1e-5)


def odd_positions(mode):
    """Excludes border and reflection of an infinite position in bicubic mode, where torch's own kernels differ."""
    return lambda x, g: (
        fn.grid_sample(x, g, mode, "zeros", False),
        fn.grid_sample(x, g, mode, "border", True) if mode != "bicubic" else fn.grid_sample(x, g, mode, "zeros", True),
    )
