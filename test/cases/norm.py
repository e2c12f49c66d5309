"""Layer, RMS, batch and group norm. Tolerance: means over n numbers in f32 (describe.sums) times the weight; the 16-bit floats
round once on our side, while torch may round between its steps: two more units."""

import torch
import torch.nn.functional as fn

from describe import F32, F64, FLOATS, Case, T, name_of, ulps


def tolerance(dtype):
    many = 64 if dtype in (F32, F64) else 1
    return {"rtol": 3 * ulps(dtype, many), "atol": 3 * ulps(dtype, many)}


def layer_cases(dtype, d):
    tol = tolerance(dtype)
    affine = lambda x, w, b: fn.layer_norm(x, (x.shape[-1],), w, b, 1e-5)
    for name, shape in {"row": (5, 33), "deep": (2, 3, 64), "long": (2, 4099), "one": (7, 1)}.items():
        n = (shape[-1],)
        yield Case(f"layer_{name}_{d}", affine, [T(shape, dtype), T(n, dtype), T(n, dtype)], **tol)
    yield Case(f"layer_plain_{d}", lambda x: fn.layer_norm(x, (9,)), [T((3, 5, 9), dtype)], **tol)
    yield Case(
        f"layer_weight_{d}",
        lambda x, w: fn.layer_norm(x, (9,), w, None, 1e-3),
        [T((3, 9), dtype), T((9,), dtype)],
        **tol,
    )
    yield Case(
        f"layer_axes_{d}",
        lambda x, w, b: fn.layer_norm(x, (5, 9), w, b),
        [T((3, 5, 9), dtype), T((5, 9), dtype), T((5, 9), dtype)],
        **tol,
    )
    yield Case(f"rms_{d}", lambda x, w: fn.rms_norm(x, (33,), w, 1e-6), [T((4, 33), dtype), T((33,), dtype)], **tol)
    yield Case(f"rms_plain_{d}", lambda x: fn.rms_norm(x, (7,), eps=1e-5), [T((2, 3, 7), dtype)], **tol)
    manual = lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w
    yield Case(
        f"rms_by_hand_{d}", manual, [T((4, 64), dtype), T((64,), dtype)], rtol=2 * tol["rtol"], atol=2 * tol["atol"]
    )


def channel_cases(dtype, d):
    tol = tolerance(dtype)
    batch = lambda x, m, v, w, b: (fn.batch_norm(x, m, v, w, b, False, 0.1, 1e-5), fn.batch_norm(x, m, v))
    for name, shape in {"2d": (2, 5, 7, 3), "1d": (3, 5, 11), "flat": (4, 5)}.items():
        c = T((5,), dtype)
        yield Case(f"batch_{name}_{d}", batch, [T(shape, dtype), c, T((5,), dtype, 0.5, 2), c, c], **tol)
    group = lambda x, w, b: fn.group_norm(x, 3, w, b, 1e-5)
    yield Case(f"group_{d}", group, [T((2, 6, 5, 3), dtype), T((6,), dtype), T((6,), dtype)], **tol)
    yield Case(f"group_plain_{d}", lambda x: (fn.group_norm(x, 1), fn.group_norm(x, 6)), [T((2, 6, 9), dtype)], **tol)
    yield Case(f"instance_{d}", lambda x: fn.instance_norm(x), [T((2, 3, 5, 7), dtype)], **tol)


def cases():
    for dtype in FLOATS:
        yield from layer_cases(dtype, name_of(dtype))
        yield from channel_cases(dtype, name_of(dtype))
    strided = lambda x, w: fn.layer_norm(x.transpose(0, 1), (8,), w)
    yield Case("layer_strided", strided, [T((3, 5, 8)), T((8,))], rtol=1e-5, atol=1e-5)
    yield Case("layer_offset", lambda x: fn.layer_norm(x, (64,)), [T((4, 64), F32, 1000, 1001)], rtol=1e-3, atol=1e-3)
    yield Case("layer_empty", lambda x, w: fn.layer_norm(x, (8,), w), [T((0, 8)), T((8,))])
    yield Case(
        "batch_channels_last",
        lambda x, m, v: fn.batch_norm(x.permute(0, 3, 1, 2), m, v),
        [T((2, 3, 4, 5)), T((5,)), T((5,), F32, 0.5, 2)],
        rtol=1e-5,
        atol=1e-5,
    )
