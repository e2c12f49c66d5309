"""Layer, RMS, batch and group norm. Tolerance: means over n numbers in f32 (describe.sums) times the weight. clave
rounds 16-bit floats once, while torch may round between its steps: two more units."""

import torch
import torch.nn.functional as fn

from describe import BF16, F16, F32, F64, FLOATS, Case, T, name_of, ulps


def tolerance(dtype):
    return {"rtol": ulps(dtype, 192), "atol": ulps(dtype, 192)}


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
    long = [T((1, 6, 50, 43), dtype), T((6,), dtype), T((6,), dtype)]  # rows that GPUs split
    yield Case(f"group_long_{d}", lambda x, w, b: fn.group_norm(x, 2, w, b, 1e-5), long, **tolerance(dtype))
    yield Case(f"instance_{d}", lambda x: fn.instance_norm(x), [T((2, 3, 5, 7), dtype)], **tol)


def statistics(x, w, b):
    """Returns the further results of the native ops: means and 1 / deviations."""
    return (
        torch.native_layer_norm(x, x.shape[2:], None, None, 1e-5),
        torch.native_group_norm(x, w, b, 2, 6, 15, 3, 1e-5),
        torch.ops.aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
        torch.ops.aten._fused_rms_norm(x, x.shape[3:], None, 1e-5),
    )


def inference(x, w, b, m, v):
    return torch.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5), fn.instance_norm(x, m, v, w, b, False)


def inference_values(x, w, b, m, v):
    """Omits the empty results, for which torch.export has wrong dtypes if operands are mixed."""
    return fn.batch_norm(x, m, v, w, b), fn.layer_norm(x, x.shape[3:], w[:3], b[:3]), fn.group_norm(x, 3, w, b)


def without_running(x, w, b, m, v):
    """Uses the statistics of the batch or of each channel of each sample, whatever the running statistics are."""
    return (
        fn.batch_norm(x, None, None, w, b, True),
        fn.instance_norm(x, m, v, w, b, True),
        fn.instance_norm(x, weight=w),
        fn.instance_norm(x, bias=b),
    )


def channel_inputs(dtype, params):
    c = T((6,), params)
    return [T((2, 6, 5, 3), dtype), c, c, c, T((6,), params, 0.5, 2)]


def cases():
    for dtype in FLOATS:
        d, tol = name_of(dtype), tolerance(dtype)
        yield Case(f"statistics_{d}", statistics, channel_inputs(dtype, dtype)[:3], **tol)
        yield Case(f"inference_{d}", inference, channel_inputs(dtype, dtype), **tol)
        yield Case(f"without_running_{d}", without_running, channel_inputs(dtype, dtype), **tol)
    for dtype in (F16, BF16):  # a 16-bit module whose norms stay in f32
        mixed = channel_inputs(dtype, F32)
        yield Case(f"mixed_{name_of(dtype)}", inference_values, mixed, **tolerance(dtype))
    negative = lambda x: (fn.layer_norm(x, (9,), None, None, -0.25), fn.rms_norm(x, (9,), None, -0.25))
    yield Case("negative_eps", negative, [T((4, 9), F32, 2, 9)], rtol=1e-5, atol=1e-5)
    empty = lambda x, w: (
        fn.group_norm(x, 2, w),
        fn.batch_norm(x, w, w),
        torch.native_layer_norm(x, (3,), None, None, 1e-5),
        fn.layer_norm(x.transpose(0, 2), (4, 0), None),
    )
    yield Case("empty", empty, [T((0, 4, 3)), T((4,))])
    one, many = {0: torch.export.Dim.AUTO}, dict.fromkeys((0, 1, 2), torch.export.Dim.AUTO)
    for dtype in FLOATS:
        inputs, tol = [T((2, 6, 5, 3), dtype), T((6,), dtype), T((6,), dtype)], tolerance(dtype)
        f = lambda x, w, b: (
            fn.instance_norm(x, weight=w, bias=b),
            torch.native_group_norm(x, w, b, x.shape[0], x.shape[1], 15, 3, 1e-5),
        )
        yield Case(f"open_channels_{name_of(dtype)}", f, inputs, **tol, dynamic_shapes=((many, one, one),))
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
