"""Sums and products of 10,000 terms in F16, BF16 and small integers, against f64 (integers: torch) rounded once.

Every partial sum of the terms is exact in F32, and a sum in 16 bits stops or drifts. Every lowering of a family that
adds has a row here, or a reason in NO_SUMS; a new family belongs in one of the lists.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from _export import Fn

import clave
from clave.lowering import registry
from clave.ops import ssm_scan

N = 10_000
BF16, F16 = torch.bfloat16, torch.float16
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32)

ADDING = (
    "reduce cumulate softmax matmul conv pool norm distance scatter update embedding_bag fold histogram attention rnn"
)
ADDING += " ssm_scan bilinear upsample"
OTHER = """
    arange cat complex complex_functions control copy ctc_loss deform_conv elementwise fft grid_sample index linalg nms
    nonzero pad random reshape roi rope scalar search slice sort triangle unique
"""
# Lowerings of those families that do not add, or that a row of the same function covers.
NO_SUMS = """
    max min amax amin aminmax any all argmax argmin _is_all_true cummax cummin one_hot masked_scatter index_fill
    slice_scatter select_scatter index_copy diagonal_scatter diag_embed as_strided_scatter im2col
    max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
    _upsample_bicubic2d_aa
    _scaled_mm _scaled_mm_v2 _grouped_mm grouped_mm_fallback _int_mm linalg_matmul convolution
    _scaled_dot_product_flash_attention_for_cpu sdpa_with_kv_cache sdpa_with_pages
    lstm gru rnn_tanh rnn_relu gru_cell rnn_relu_cell rnn_tanh_cell
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training native_group_norm native_layer_norm
    _fused_rms_norm batch_norm _native_batch_norm_legit histogram histc bincount _euclidean_dist _pdist_forward
    _embedding_bag_forward_only _unsafe_index_put _masked_softmax unfold_backward
    _adaptive_avg_pool2d _adaptive_avg_pool3d _softmax _log_softmax softmax log_softmax scatter _embedding_bag
    _upsample_bilinear2d_aa ssm_scan
"""


def zeros(x, n=2):
    return x[:n] * 0


def places(x, n=2):
    return torch.arange(N) % n


def one_factor(x):
    """Returns factors a little above 1, whose product is large: 1 + eps in F16, more in BF16."""
    return x * 0 + (1 + 2**-10 if x.dtype in (F16, torch.float64) else 1 + 2**-7)


ROWS = {
    "sum": torch.sum,
    "sum rows": lambda x: x.reshape(1, N).sum(1),
    "sum columns": lambda x: x.reshape(N, 1).expand(N, 3).sum(0),
    "mean": torch.mean,
    "mean rows": lambda x: x.reshape(N, 1).mean(0),
    "nansum": torch.nansum,
    "count_nonzero": torch.count_nonzero,
    "norm1": lambda x: torch.linalg.vector_norm(x, 1),
    "norm2": lambda x: torch.linalg.vector_norm(x / 64, 2),
    "norm3": lambda x: torch.linalg.vector_norm(x / 64, 3),
    "norm0": lambda x: torch.linalg.vector_norm(x, 0),
    "dist": lambda x: torch.dist(x / 64, x / 32, 1),
    "var": lambda x: torch.var(x / 64),
    "std_mean": lambda x: torch.std_mean(x / 64)[0],
    "var_mean": lambda x: torch.var_mean(x / 64)[1],
    "std": lambda x: torch.std(x / 64),
    "var_mean of rows": lambda x: torch.var_mean((x / 64).reshape(2, -1), 1)[0],
    "cumsum": lambda x: torch.cumsum(x, 0),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "logcumsumexp": lambda x: torch.logcumsumexp(x / 64, 0),
    "softmax": lambda x: torch.softmax(x / 64, 0),
    "log_softmax": lambda x: torch.log_softmax(x / 64, 0),
    "mm": lambda x: torch.mm((x / 64).reshape(1, N), x.reshape(N, 1)),
    "matmul": lambda x: torch.matmul(x.reshape(1, 1, N) / 64, x.reshape(1, N, 1).expand(1, N, 5)),
    "bmm": lambda x: torch.bmm(x.reshape(1, 1, N) / 64, x.reshape(1, N, 1)),
    "mv": lambda x: torch.mv(x.reshape(1, N) / 64, x),
    "dot": lambda x: torch.dot(x / 64, x),
    "linear": lambda x: F.linear(x / 64, x.reshape(1, N), x[:1]),
    "addmm": lambda x: torch.addmm(x[:1], x.reshape(1, N) / 64, x.reshape(N, 1)),
    "baddbmm": lambda x: torch.baddbmm(x[:1], x.reshape(1, 1, N) / 64, x.reshape(1, N, 1)),
    "addbmm": lambda x: torch.addbmm(zeros(x, 1), x.reshape(N, 1, 1) / 64, x.reshape(N, 1, 1)),
    "addmv": lambda x: torch.addmv(x[:1], x.reshape(1, N) / 64, x),
    "einsum": lambda x: torch.einsum("i,i->", x / 64, x),
    "conv1d": lambda x: F.conv1d(x.reshape(1, 1, N) / 64, x.reshape(1, 1, N)),
    "conv2d": lambda x: F.conv2d(x.reshape(1, 1, 100, 100) / 64, x.reshape(1, 1, 100, 100)),
    "conv2d pointwise": lambda x: F.conv2d(x.reshape(1, N, 1, 1) / 64, x.reshape(1, N, 1, 1)),
    "conv3d": lambda x: F.conv3d(x.reshape(1, 1, 10, 10, 100) / 64, x.reshape(1, 1, 10, 10, 100)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x.reshape(1, N, 1) / 64, x.reshape(N, 1, 1)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x.reshape(1, N, 1, 1) / 64, x.reshape(N, 1, 1, 1)),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x.reshape(1, N, 1, 1, 1) / 64, x.reshape(N, 1, 1, 1, 1)),
    "avg_pool1d": lambda x: F.avg_pool1d(x.reshape(1, 1, N), N),
    "avg_pool2d": lambda x: F.avg_pool2d(x.reshape(1, 1, 100, 100), 100),
    "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(1, 1, 10, 10, 100), (10, 10, 100)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.reshape(1, 1, N), 1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, 100, 100), (2, 1)),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x.reshape(1, 1, 10, 10, 100), (1, 1, 2)),
    "interpolate area": lambda x: F.interpolate(x.reshape(1, 1, N), size=3, mode="area"),
    "antialias": lambda x: F.interpolate(x.reshape(1, 1, 1, N), size=(1, 2), mode="bilinear", antialias=True),
    "layer_norm": lambda x: F.layer_norm(x / 64, (N,)),
    "rms_norm": lambda x: F.rms_norm(x / 64, (N,), eps=1e-5),
    "group_norm": lambda x: F.group_norm(x.reshape(1, 2, N // 2) / 64, 1),
    "instance_norm": lambda x: F.instance_norm(x.reshape(1, 2, N // 2) / 64),
    "cosine_similarity": lambda x: F.cosine_similarity(x / 64, x / 32, 0),
    "cdist": lambda x: torch.cdist(x.reshape(1, N) / 64, zeros(x, N).reshape(1, N), 1.0),
    "embedding_bag sum": lambda x: F.embedding_bag(
        torch.arange(N), x.reshape(N, 1), torch.zeros(1, dtype=torch.int64), mode="sum"
    ),
    "embedding_bag mean": lambda x: F.embedding_bag(
        torch.arange(N), x.reshape(N, 1), torch.zeros(1, dtype=torch.int64), mode="mean"
    ),
    "scatter_add": lambda x: zeros(x).scatter_add(0, places(x), x),
    "scatter_add rows": lambda x: (
        zeros(x, 6).view(2, 3).scatter_add(0, places(x)[:, None].expand(N, 3), x[:, None].expand(N, 3))
    ),
    "scatter add": lambda x: zeros(x).scatter(0, places(x), x, reduce="add"),
    "scatter_reduce sum": lambda x: x[:2].scatter_reduce(0, places(x), x, "sum"),
    "scatter_reduce mean": lambda x: x[:2].scatter_reduce(0, places(x), x, "mean", include_self=False),
    "index_add": lambda x: zeros(x).index_add(0, places(x), x),
    "index_add alpha": lambda x: zeros(x).index_add(0, places(x), x, alpha=0.75),
    "index_reduce mean": lambda x: zeros(x).index_reduce(0, places(x), x, "mean", include_self=False),
    "index_put": lambda x: zeros(x).index_put((places(x),), x, accumulate=True),
    "put": lambda x: zeros(x).put(places(x), x, accumulate=True),
    "fold": lambda x: F.fold(x.reshape(1, 100, 100), (1, 199), (1, 100)),
    "attention": lambda x: F.scaled_dot_product_attention(
        zeros(x, 4).view(1, 1, 1, 4), x.view(1, 1, N, 1).expand(1, 1, N, 4) / 64, x.view(1, 1, N, 1).expand(1, 1, N, 4)
    ),
    "bilinear": lambda x: F.bilinear(x[None] / 64, x[None, :1], x.view(1, N, 1)),
    "lstm_cell": lambda x: torch.lstm_cell(
        x[None] / 64,
        (zeros(x, 1)[None], zeros(x, 1)[None]),
        (x / 4096).expand(4, N),
        zeros(x, 1).view(1, 1).expand(4, 1),
    )[1],
}
PRODUCTS = {
    "prod": lambda x: one_factor(x).prod(),
    "prod rows": lambda x: one_factor(x).reshape(1, N).prod(1),
    "cumprod": lambda x: one_factor(x).cumprod(0),
    "scatter multiply": lambda x: (zeros(x) + 1).scatter(0, places(x), one_factor(x), reduce="multiply"),
    "scatter multiply number": lambda x: (zeros(x) + 1).scatter(0, places(x), 1.0009765625, reduce="multiply"),
    "scatter_reduce prod": lambda x: (zeros(x) + 1).scatter_reduce(0, places(x), one_factor(x), "prod"),
    "index_reduce prod": lambda x: (zeros(x) + 1).index_reduce(0, places(x), one_factor(x), "prod"),
}
OF_INTS = {
    "sum": torch.sum,
    "sum rows": lambda x: x.reshape(1, N).sum(1),
    "prod": torch.prod,
    "mean": lambda x: torch.mean(x, dtype=torch.float32),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "trace": lambda x: torch.trace(x.reshape(100, 100)),
    "count_nonzero": torch.count_nonzero,
    "nansum": torch.nansum,
    "bincount": lambda x: torch.bincount(x.abs().clamp(0, 7), minlength=8),
    "scatter_add": lambda x: zeros(x).scatter_add(0, places(x), x),
    "scatter_reduce sum": lambda x: zeros(x).scatter_reduce(0, places(x), x, "sum"),
    "scatter_reduce prod": lambda x: zeros(x).scatter_reduce(0, places(x), x, "prod", include_self=False),
    "index_add": lambda x: zeros(x).index_add(0, places(x), x),
    "index_put": lambda x: zeros(x).index_put((places(x),), x, accumulate=True),
    "put": lambda x: zeros(x).put(places(x), x, accumulate=True),
    "mm": lambda x: x.reshape(1, N) @ x.reshape(N, 1),
    "dot": lambda x: torch.dot(x, x),
}


def patterns(dtype):
    """Yields terms with exact partial sums in F32: 10,000 of one size, of both signs, small ones after a large one."""
    i = torch.arange(N)
    yield "ones", torch.ones(N)
    yield "halves", torch.full((N,), 0.5)
    yield "alternating", torch.where(i % 2 == 0, 1.0, -0.75)
    yield "large and small", torch.where(i == 0, 2048.0 if dtype is F16 else 256.0, 0.5)


# Error of a function of a sum besides the one rounding: units in the last place of the result's dtype.
INEXACT = 2.0


def reference(f, x, dtype):
    return f(x.double()).to(dtype)


def complaint(name, got, want):
    eps = torch.finfo(want.dtype).eps if want.dtype.is_floating_point else 0
    if torch.allclose(got.double(), want.double(), rtol=eps * INEXACT, atol=eps * 2**-4, equal_nan=True):
        return ""
    far = (got.double() - want.double()).abs().flatten().nan_to_num(math.inf).argmax()
    return f"{name}: expected {want.flatten()[far].item()}, got {got.flatten()[far].item()}"


SESSIONS = (("cpu", "strict"), ("cpu", "fast"), ("opencl", "strict"))


def export(fs, x):
    return clave.export(Fn(lambda x: tuple(f(x) for f in fs.values())).eval(), (x,), verify=False)


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_floats_are_summed_in_f32(dtype):
    fs = ROWS | PRODUCTS
    program = export(fs, torch.ones(N, dtype=dtype))
    wrong = []
    for device, precision in SESSIONS:
        session = clave.Session(program, clave.Device(device, fallback=False), precision=precision)
        for pattern, values in patterns(dtype):
            x = values.to(dtype)
            for (name, f), got in zip(fs.items(), session(x), strict=True):
                assert got.dtype == (torch.int64 if name == "count_nonzero" else dtype), name
                if name in PRODUCTS and pattern != "ones":
                    continue
                wanted = product_of(name, dtype) if name in PRODUCTS else reference(f, x, got.dtype)
                wrong += [f"{device} {precision} {pattern} {c}"] if (c := complaint(name, got, wanted)) else []
    assert not wrong, "\n".join(wrong)


def product_of(name, dtype):
    """Returns the product in f64, with the factors of the dtype's own function."""
    x = torch.ones(N, dtype=dtype)
    factors = (one_factor(x) if "number" not in name else x * 0 + 1.0009765625).double()
    if name == "cumprod":
        return factors.cumprod(0).to(dtype)
    half = factors[: N // 2].prod().to(dtype)
    whole = factors.prod().to(dtype)
    return whole.reshape(1) if name == "prod rows" else whole if name == "prod" else half.expand(2)


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers_wrap_as_in_torch(dtype):
    fs = dict(OF_INTS)
    x = torch.ones(N, dtype=dtype)
    i = torch.arange(N)
    program = export(fs, x)
    for device, values in itertools.product(("cpu", "opencl"), (i % 3, i % 120 + 7, i * 0 + 1, i % 2 * 2 - 1)):
        session = clave.Session(program, clave.Device(device, fallback=False))
        x = values.to(dtype)
        for (name, f), got in zip(fs.items(), session(x), strict=True):
            torch.testing.assert_close(got, f(x), msg=f"{device} {name}: {got} expected {f(x)}")


@pytest.mark.by_turn(16)
def test_kernels_for_gpus(processes):
    x = torch.ones(N, dtype=F16)
    session = processes["gpu"].open(export(ROWS, x))
    wrong = []
    for pattern, values in patterns(F16):
        x = values.to(F16)
        for (name, f), got in zip(ROWS.items(), session.run(x.numpy()), strict=True):
            got = torch.from_numpy(got)
            wrong += [f"{pattern} {c}"] if (c := complaint(name, got, reference(f, x, got.dtype))) else []
    assert not wrong, "\n".join(wrong)


def test_scans_keep_their_state_in_f32():
    """ssm_scan: with a decay of 1 the state is a sum over time."""
    x = torch.full((1, N, 1, 1), 0.5, dtype=BF16)
    one = torch.ones(1, N, 1, 1, dtype=BF16)
    f = Fn(lambda x, decay, b, c, state: ssm_scan(x, decay, b, c, state.clone())).eval()
    args = (x, torch.zeros(1, N, 1), one, one, torch.zeros(1, 1, 1, 1))
    got = clave.Session(clave.export(f, args, verify=False), "cpu")(*args)
    wanted = torch.arange(1, N + 1, dtype=torch.float64).reshape(x.shape) / 2
    torch.testing.assert_close(got, wanted.to(BF16), rtol=2**-7, atol=0)


def test_every_adding_lowering_has_a_row(monkeypatch):
    called = set()
    for name, own in list(registry.LOWERINGS.items()):

        def recording(*args, name=name, own=own):
            called.add(name)
            return own(*args)

        recording.__module__ = own.__module__
        monkeypatch.setitem(registry.LOWERINGS, name, recording)
    export(ROWS | PRODUCTS, torch.ones(N, dtype=F16))
    export(OF_INTS, torch.ones(N, dtype=torch.int16))
    families = {name: f.__module__.rpartition(".")[2] for name, f in registry.LOWERINGS.items()}
    ours = {n: m for n, m in families.items() if registry.LOWERINGS[n].__module__.startswith("clave.lowering")}
    unknown = set(ours.values()) - set(f"{ADDING} {OTHER}".split())
    assert not unknown, f"say in ADDING or OTHER whether these families add: {unknown}"
    short = {n for n, m in ours.items() if m in ADDING.split() and n not in called}
    missing = {n for n in short if n.replace("::", ".").split(".")[1] not in NO_SUMS.split()}
    assert not missing, f"give these a row, or a reason in NO_SUMS: {sorted(missing)}"
