"""Resizing. Nearest modes and 8-bit images are exact; others sum up to 64 products in torch's accumulation dtype."""

import torch
import torch.nn.functional as fn

from describe import BF16, F16, F32, F64, FLOATS, INF, NAN, U8, Case, T, name_of, ulps


def resize(mode, *ways, **more):
    """Resizes in all ways of specifying the size."""
    return lambda x: tuple(fn.interpolate(x, mode=mode, **{**more, **w}) for w in ways)


LINE, IMAGE, VOLUME = (2, 3, 11), (2, 3, 5, 7), (1, 2, 3, 4, 5)


def ways(shape):
    """Larger and smaller sizes, factors, and the factors recomputed from the resulting sizes."""
    n = len(shape) - 2
    yield {"size": tuple(range(13, 13 + n))}
    yield {"size": tuple(range(2, 2 + n))}
    yield {"scale_factor": (1.7, 0.6, 2.3)[:n]}
    yield {"scale_factor": (1.7, 0.6, 2.3)[:n], "recompute_scale_factor": True}


def nearest(*xs):
    double = {"scale_factor": 2}
    return [y for x in xs for m in ("nearest", "nearest-exact") for y in resize(m, *ways(x.shape), double)(x)]


def blended(mode, x):
    all_ways = list(ways(x.shape))
    return *resize(mode, *all_ways)(x), *resize(mode, *all_ways[:2], align_corners=True)(x)


def linear(line, image, volume):
    return *blended("linear", line), *blended("bilinear", image), *blended("trilinear", volume)


def cases():
    for dtype in (*FLOATS, U8):
        inputs = [T(shape, dtype, 0, 255) for shape in (LINE, IMAGE, VOLUME)]
        yield Case(f"nearest_{name_of(dtype)}", nearest, inputs)
        if dtype is not U8:
            # A position is rounded to the dtype of computation.
            tolerance = {"rtol": ulps(dtype, 4), "atol": 255 * ulps(dtype, 16)}
            yield Case(f"linear_{name_of(dtype)}", linear, inputs, **tolerance)
            own = ""
            if dtype in (F16, BF16):  # a weight may be rounded to the other neighbour
                own = "torch and the program round cubic weights to x's dtype"
                tolerance["atol"] = 255 / 16 * torch.finfo(dtype).eps
            yield Case(f"cubic_{name_of(dtype)}", lambda x: blended("bicubic", x), inputs[1:2], own=own, **tolerance)
    images = lambda x: (*blended("bilinear", x), *blended("bicubic", x))
    yield Case("blends_u8", images, [T(IMAGE, U8, 0, 255)])
    for mode in ("bilinear", "bicubic"):  # torch 2.13 is wrong for floats where the last size becomes 1
        for dtype in (F32, F64, U8):
            f = lambda x, m=mode: (
                *resize(m, *ways(x.shape), {"size": (9, 2)}, {"size": (17, 4)}, antialias=True)(x),
                *resize(m, {"size": (3, 16)}, antialias=True, align_corners=True)(x),
            )
            tolerance = {"rtol": ulps(dtype, 8), "atol": 255 * ulps(dtype, 16)}
            yield Case(f"{mode}_antialias_{name_of(dtype)}", f, [T((2, 3, 17, 16), dtype, 0, 255)], **tolerance)
    yield from shape_cases()


def shape_cases():
    other = {"rtol": 1e-6, "atol": 1e-5}
    x = T((1, 2, 4, 4), values=(1.0, 2.0, -3.0, INF, 0.5, NAN, -0.0, 4.0, -INF, 1.0, 2.0))
    f = lambda x: (fn.interpolate(x, size=(4, 4), mode="bilinear"), *resize("bilinear", {"size": (5, 8)})(x))
    yield Case("infinite", f, [x], **other)
    f = lambda x: (resize("nearest", {"size": (4, 4)})(x.mT), resize("bilinear", {"size": (4, 4)})(x[..., ::2]))
    yield Case("strided", f, [T((2, 3, 5, 6))], **other)
    f = lambda x: (resize("bilinear", {"size": (4, 8)})(x), resize("nearest", {"size": (4, 8)})(x))
    yield Case("empty_batch", f, [T((0, 3, 5, 6))])
    yield Case("channels", resize("bilinear", {"size": (3, 4)}), [T((1, 9, 5, 6), U8, 0, 255)])
    yield Case("one_changes", resize("bicubic", {"size": (5, 9)}), [T((1, 3, 5, 6), U8, 0, 255)])
    batch, side = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("side", min=2, max=64)
    f = lambda x: (
        fn.interpolate(x, scale_factor=2, mode="nearest"),
        fn.interpolate(x, scale_factor=1.5, mode="bilinear"),
        fn.interpolate(x, size=(x.shape[2] + 3, 7), mode="bicubic", antialias=True),
    )
    shapes = {"args": ({0: batch, 2: side, 3: torch.export.Dim("width", min=2, max=64)},)}
    yield Case("dynamic", f, [T((2, 3, 6, 8))], [T((1, 3, 11, 5))], dynamic_shapes=shapes, **other)
