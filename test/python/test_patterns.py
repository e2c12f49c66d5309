"""Passes before lowering: patterns of separate ops become the whole op, and near misses do not.

Each pattern is counted in Program.passes; every program, matched or not, must have torch's numbers.
"""

import math

import pytest
import torch
from torch import nn

import clave

pytestmark = pytest.mark.by_turn(17)
D = 16
FOLDS = ("cast", "constant", "dead_code", "equal", "number", "view")
F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64


class Fn(nn.Module):
    def __init__(self, f, **parameters):
        super().__init__()
        self.f = f
        for name, value in parameters.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.f(*args, **dict(self.named_buffers()))


def export(f, args, decomposed=False, dynamic_shapes=None, **parameters):
    """Returns the program; decomposed: from a .pt2's graph that torch has already decomposed."""
    module = f if isinstance(f, nn.Module) else Fn(f, **parameters)
    module.eval()
    if decomposed:
        return module, clave.export(
            torch.export.export(module, args, dynamic_shapes=dynamic_shapes).run_decompositions()
        )
    return module, clave.export(module, args, dynamic_shapes=dynamic_shapes)


def run(module, program, args, rtol=2e-5, atol=2e-6):
    got = clave.Session(program, "cpu")(*args)
    with torch.no_grad():
        torch.testing.assert_close(got, module(*args), rtol=rtol, atol=atol, equal_nan=True)


def found(f, args, decomposed=False, tolerance=(2e-5, 2e-6), **parameters):
    """Returns the patterns that applied, without the folding passes, after checking the numbers and each pass."""
    torch.manual_seed(0)
    module, program = export(f, args, decomposed, **parameters)
    run(module, program, args, *tolerance)
    assert program.refused == {}
    return {k: v for k, v in program.passes.items() if k not in FOLDS}


def x(*shape, dtype=F32):
    return torch.randn(*(shape or (2, 5, D)), dtype=F64).to(dtype)


W = torch.linspace(0.5, 2, D)
B = torch.linspace(-1, 1, D)

# ---------------------------------------------------------------- activations

GELU = {
    "erf": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "erf_half_first": lambda x: 0.5 * x * (torch.erf(x * 0.7071067811865476) + 1.0),
    "erf_grouped": lambda x: x * (0.5 * (1.0 + torch.erf(x / 1.4142135623730951))),
    "tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
    "tanh_fast": lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),
    "tanh_cube": lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
}
NOT_GELU = {
    "short_root": lambda x: x * 0.5 * (1 + torch.erf(x * 0.7071)),
    "other_half": lambda x: x * 0.4 * (1 + torch.erf(x / math.sqrt(2))),
    "other_one": lambda x: x * 0.5 * (2 + torch.erf(x / math.sqrt(2))),
    "two_tensors": lambda x: x.abs() * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "minus": lambda x: x * 0.5 * (1 - torch.erf(x / math.sqrt(2))),
    "other_cube": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.0447 * torch.pow(x, 3.0)))),
    "square": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 2.0)))),
    "cube_inside": lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x * x))),
    "quick": lambda x: x * torch.sigmoid(1.702 * x),
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", GELU)
def test_gelu(form, decomposed):
    assert found(GELU[form], (x(),), decomposed) == {"gelu": 1}


@pytest.mark.parametrize("form", NOT_GELU)
def test_not_gelu(form):
    assert found(NOT_GELU[form], (x(),)) == {}


def test_gelu_whose_parts_are_used_elsewhere_stays():
    def f(x):
        e = torch.erf(x / math.sqrt(2))
        return x * 0.5 * (1 + e), e

    assert found(f, (x(),)) == {}


def test_activations_in_16_bits_stay_as_they_round_in_between():
    assert found(GELU["erf"], (x(dtype=BF16),), tolerance=(1e-2, 1e-2)) == {}
    assert found(lambda x: x * torch.sigmoid(x), (x(dtype=F16),), tolerance=(2e-3, 2e-3)) == {}


def test_silu():
    assert found(lambda x: x * torch.sigmoid(x), (x(),)) == {"silu": 1}
    assert found(lambda x: torch.sigmoid(x) * x, (x(),), True) == {"silu": 1}
    assert found(lambda x: x / (1 + torch.exp(-x)), (x(),)) == {"silu": 1}
    assert found(lambda x, y: x * torch.sigmoid(x) * y, (x(), x())) == {"silu": 1}
    assert found(lambda x, y: x * torch.sigmoid(y), (x(), x())) == {}
    assert found(lambda x: x * torch.sigmoid(-x), (x(),)) == {}
    assert found(lambda x: x / (1 + torch.exp(x)), (x(),)) == {}
    assert found(lambda x: x / (2 + torch.exp(-x)), (x(),)) == {}


# ---------------------------------------------------------------- norms


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


RMS = {
    "plain": rms,
    "weight_first": lambda x, w: w * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
    "divided": lambda x, w: x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w,
    "power": lambda x, w: w * (x * torch.pow(x.square().mean(-1, keepdim=True) + 1e-5, -0.5)),
    "sum": lambda x, w: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) / D + 1e-6) * w,
    "no_weight": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) + 0 * w,
    "one_plus": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w),
    "two_axes": lambda x, w: x * torch.rsqrt(x.pow(2).mean((-2, -1), keepdim=True) + 1e-6),
}
NOT_RMS = {
    "middle_axis": lambda x, w: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * w,
    "cube": lambda x, w: x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + 1e-6) * w,
    "no_eps": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * w,
    "other_x": lambda x, w: (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "eps_outside": lambda x, w: x / (torch.sqrt(x.pow(2).mean(-1, keepdim=True)) + 1e-6) * w,
    "not_mean": lambda x, w: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6) * w,
    "root": lambda x, w: x * torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "rows_weight": lambda x, w: x / (x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", RMS)
def test_rms_norm(form, decomposed):
    assert found(RMS[form], (x(),), decomposed, w=W) == {"rms_norm": 1}


@pytest.mark.parametrize("form", NOT_RMS)
def test_not_rms_norm(form):
    assert found(NOT_RMS[form], (x(),), w=W) == {}


def test_rms_norm_with_what_is_no_weight_keeps_the_product():
    """A factor of another shape multiplies after the norm."""
    assert found(lambda x, y: rms(x, y), (x(), x(5, D))) == {"rms_norm": 1}
    assert found(lambda x, y: rms(x, y), (x(2, 3, D), x(2, 3, 1))) == {"rms_norm": 1}


def hf_rms(x, w):
    h = x.to(F32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def test_rms_norm_of_16_bit_modules_rounds_where_they_round():
    """Hugging Face's norm: normalised in f32, rounded, then times the weight. Bits differ only by a sum's order."""
    for dtype in (BF16, F16):
        a, w = x(64, D, dtype=dtype), W.to(dtype)
        module, program = export(hf_rms, (a,), w=w)
        assert program.passes["rms_norm"] == 1 and program.passes["norm_in_16_bits"] == 1
        assert (clave.Session(program, "cpu")(a) != module(a)).sum() <= 2
    assert found(hf_rms, (x(),), w=W) == {"rms_norm": 1}
    gemma = lambda x, w: (hf_rms(x.float(), 1.0) * (1.0 + w.float())).type_as(x)
    module, program = export(gemma, (a,), w=w)
    assert program.passes["rms_norm"] == 1 and "norm_in_16_bits" not in program.passes
    assert (clave.Session(program, "cpu")(a) != module(a)).sum() <= 2


def test_rms_norm_all_in_16_bits_stays():
    assert found(rms, (x(dtype=BF16),), tolerance=(2e-2, 2e-2), w=W.to(BF16)) == {}


def mean(x):
    return x.mean(-1, keepdim=True)


def var(x, axis=-1, correction=0):
    return x.var(axis, keepdim=True, correction=correction)


def centred(x, w, b):
    d = x - mean(x)
    return w * (d / (mean(d.pow(2)) + 1e-5).sqrt()) + b


LAYER = {
    "var": lambda x, w, b: (x - mean(x)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * w + b,
    "rsqrt": lambda x, w, b: b + w * ((x - mean(x)) * torch.rsqrt(var(x) + 1e-5)),
    "square": centred,
    "twice": lambda x, w, b: (x - mean(x)) / (mean((x - mean(x)).pow(2)) + 1e-5).sqrt() * w + b,
    "no_bias": lambda x, w, b: (x - mean(x)) * torch.rsqrt(var(x) + 1e-5) * w,
    "bare": lambda x, w, b: (x - mean(x)) * torch.rsqrt(var(x) + 1e-5),
}
NOT_LAYER = {
    "unbiased": lambda x, w, b: (x - mean(x)) / torch.sqrt(var(x, correction=1) + 1e-5) * w + b,
    "eps_outside": lambda x, w, b: (x - mean(x)) / (x.std(-1, keepdim=True) + 1e-5) * w + b,
    "other_mean": lambda x, w, b: (x - x.mean(1, True)) * torch.rsqrt(var(x) + 1e-5) * w + b,
    "first_axis": lambda x, w, b: (x - x.mean(1, True)) * torch.rsqrt(var(x, 1) + 1e-5) * w + b,
    "no_mean": lambda x, w, b: x * torch.rsqrt(var(x) + 1e-5) * w + b,
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", LAYER)
def test_layer_norm(form, decomposed):
    assert found(LAYER[form], (x(),), decomposed, w=W, b=B) == {"layer_norm": 1}


@pytest.mark.parametrize("form", NOT_LAYER)
def test_not_layer_norm(form):
    assert found(NOT_LAYER[form], (x(),), w=W, b=B) == {}


def test_a_residual_is_no_bias():
    assert found(lambda x, w, b: x + LAYER["var"](x, w, b), (x(),), w=W, b=B) == {"layer_norm": 1}


# ---------------------------------------------------------------- attention

INF = float("inf")
MIN = torch.finfo(F32).min
H, L, HD = 4, 6, 8


def qkv(heads=H, kv=None, dtype=F32, keys=L):
    kv = kv or heads
    return x(2, heads, L, HD, dtype=dtype), x(2, kv, keys, HD, dtype=dtype), x(2, kv, keys, HD, dtype=dtype)


def eager(q, k, v, scale=HD**-0.5):
    return torch.softmax(q @ k.transpose(-2, -1) * scale, -1) @ v


def eager_masked(q, k, v, mask):
    """Hugging Face's eager attention: an added mask, the softmax in f32."""
    scores = torch.matmul(q, k.transpose(2, 3)) * HD**-0.5 + mask
    return torch.matmul(nn.functional.softmax(scores, dim=-1, dtype=F32).to(q.dtype), v)


def repeat_kv(x, n):
    b, heads, length, dim = x.shape
    return x[:, :, None, :, :].expand(b, heads, n, length, dim).reshape(b, heads * n, length, dim)


def t5(q, k, v, bias):
    return torch.softmax(torch.matmul(q, k.transpose(3, 2)) + bias, -1) @ v


def two_masks(q, k, v, a, b):
    return torch.softmax(q @ k.mT + a + b, -1) @ v


def by_einsum(q, k, v):
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(scores, -1), v)


def bloom(q, k, v, alibi):
    """Heads and batch in one dimension, the scores by baddbmm."""
    three = lambda t: t.reshape(2 * H, L, HD)
    scores = torch.baddbmm(alibi, three(q), three(k).transpose(1, 2), beta=1.0, alpha=0.3).view(2, H, L, L)
    return torch.bmm(torch.softmax(scores, -1).view(2 * H, L, L), three(v))


def biases(*shape):
    """Returns 0 or the least number; each row has a 0."""
    hidden = torch.rand(*shape) < 0.5
    hidden[..., 0] = False
    return torch.zeros(shape).masked_fill(hidden, MIN)


ATTENTION = {
    "plain": (eager, qkv()),
    "divided": (lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(HD), -1) @ v, qkv()),
    "scaled_q": (lambda q, k, v: torch.softmax((q * 0.3) @ k.transpose(-1, -2), dim=-1) @ v, qkv()),
    "scaled_both": (lambda q, k, v: torch.softmax((q * 0.5) @ (k * 0.5).mT, -1) @ v, qkv()),
    "masked": (eager_masked, (*qkv(), biases(2, 1, L, L))),
    "masked_keys": (eager_masked, (*qkv(keys=9), biases(2, 1, 1, 9))),
    "t5": (t5, (*qkv(), x(1, H, L, L))),
    "two_masks": (two_masks, (*qkv(), x(1, H, L, L), biases(2, 1, 1, L))),
    "bloom": (bloom, (*qkv(), x(2 * H, 1, L))),
    "repeated": (lambda q, k, v: eager(q, repeat_kv(k, 2), repeat_kv(v, 2)), qkv(kv=2)),
    "repeated_one": (lambda q, k, v: eager(q, repeat_kv(k, H), repeat_kv(v, H)), qkv(kv=1)),
    "shared": (eager, (x(2, H, L, HD), x(2, 1, L, HD), x(2, 1, L, HD))),
    "one_query_head": (eager, (x(2, 1, L, HD), *qkv()[:2])),
    "one_key_head": (eager, (x(2, H, L, HD), x(2, 1, L, HD), x(2, H, L, HD))),
    "one_value_head": (eager, (x(2, H, L, HD), x(2, H, L, HD), x(2, 1, L, HD))),
    "three": (eager, (x(H, L, HD), x(H, 9, HD), x(H, 9, HD))),
    "einsum": (by_einsum, qkv()),
    "heads_last": (
        lambda *t: eager(*(t.view(2, L, H, HD).transpose(1, 2) for t in t)).transpose(1, 2).reshape(2, L, H * HD),
        tuple(x(2, L, H * HD) for _ in range(3)),
    ),
}  # fmt: skip


def talking(q, k, v, w):
    return torch.einsum("hg,bgij->bhij", w, torch.softmax(q @ k.mT, -1)) @ v


NOT_ATTENTION = {
    "other_axis": (lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v, qkv()),
    "scaled_mask": (lambda q, k, v, m: torch.softmax((q @ k.mT + m) * 0.3, -1) @ v, (*qkv(), x(L, L))),
    "squared": (lambda q, k, v: torch.softmax((q @ k.mT * 0.3).square(), -1) @ v, qkv()),
    "returned": (lambda q, k, v: (lambda p: (p @ v, p))(torch.softmax(q @ k.mT, -1)), qkv()),
    "scores_returned": (lambda q, k, v: (lambda s: (torch.softmax(s, -1) @ v, s))(q @ k.mT), qkv()),
    "dropped": (lambda q, k, v: (torch.softmax(q @ k.mT, -1) * 0.9) @ v, qkv()),
    "plus_before": (lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, (x(L, HD), x(L, HD), x(L, HD))),
    "transposed": (lambda q, k, v: torch.softmax(q @ k.mT, -1).mT @ v, qkv()),
    "talking_heads": (talking, (*qkv(), x(H, H))),
    "tensor_scale": (lambda q, k, v, s: torch.softmax(q @ k.mT * s, -1) @ v, (*qkv(), x(H, 1, 1))),
    "log": (lambda q, k, v: torch.log_softmax(q @ k.mT, -1) @ v, qkv()),
}  # fmt: skip


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", ATTENTION)
def test_attention(form, decomposed):
    f, args = ATTENTION[form]
    assert found(f, args, decomposed) == {"attention": 1}


def test_attention_of_a_batch_that_only_the_mask_has():
    f = lambda q, k, v, m: torch.softmax((q @ k.mT).masked_fill(m, -1e9), -1) @ v
    assert found(f, (*(x(1, H, L, HD) for _ in range(3)), torch.rand(3, 1, L, L) > 0.5)) == {"attention": 1}


@pytest.mark.parametrize("form", NOT_ATTENTION)
def test_not_attention(form):
    f, args = NOT_ATTENTION[form]
    assert "attention" not in found(f, args)


@pytest.mark.parametrize("fill", [-INF, MIN, -1e4, -1.0])
@pytest.mark.parametrize("inverted", [False, True])
def test_attention_with_hidden_keys_is_exact_where_all_are_hidden(fill, inverted):
    """A row of -inf is NaN, a row of another number attends to all alike, and scores omit NaN in a masked key."""

    def f(q, k, v, mask):
        scores = q @ k.mT
        scores = scores.masked_fill(mask, fill) if inverted else torch.where(mask, scores, fill)
        return torch.softmax(scores, -1) @ v

    q, k, v = qkv()
    mask = torch.rand(2, 1, L, L) < 0.5
    mask[0, 0, 2], mask[1, 0, 3] = inverted, not inverted
    k[0, 1, 4, 2] = math.nan
    assert found(f, (q, k, v, mask)) == {"attention": 1}


@pytest.mark.parametrize("dtype", [F64, BF16, F16])
def test_attention_in_other_dtypes(dtype):
    mask = biases(2, 1, L, L).clamp(min=-1e4).to(dtype)
    tolerance = {F64: (1e-12, 1e-12), BF16: (5e-2, 3e-2), F16: (6e-3, 4e-3)}[dtype]
    masked = eager_masked if dtype != F64 else t5
    assert found(masked, (*qkv(dtype=dtype), mask), tolerance=tolerance) == {"attention": 1}


def test_attention_over_no_keys_is_zero():
    assert found(eager, qkv(keys=0)) == {"attention": 1}


SDPA = nn.functional.scaled_dot_product_attention


@pytest.mark.parametrize("causal", [False, True])
def test_torch_attention_taken_apart_is_found(causal):
    """torch's decomposition of scaled_dot_product_attention: its safe softmax returns 0 where a mask hides all keys."""
    mask = torch.rand(2, 1, L, L) < 0.5
    mask[0, 0, 2] = False
    f = lambda q, k, v: SDPA(q, k, v, is_causal=causal)
    assert found(f, qkv(), True) == {"attention": 1}
    assert found(lambda q, k, v, m: SDPA(q, k, v, m), (*qkv(), mask), True) == {"attention": 1}
    assert found(lambda q, k, v: SDPA(q, k, v, enable_gqa=True), qkv(kv=2), True) == {"attention": 1}


def test_repeated_heads_are_read_where_they_are():
    f = lambda q, k, v: SDPA(q, repeat_kv(k, 2), repeat_kv(v, 2))
    assert found(f, qkv(kv=2)) == {"grouped_attention": 1}
    assert found(lambda q, k, v: SDPA(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), qkv(kv=2)) == {
        "grouped_attention": 1
    }
    assert found(lambda q, k, v: SDPA(q, repeat_kv(k, 2), v), (*qkv(kv=2)[:2], x(2, H, L, HD))) == {}
    tiled = lambda q, k, v: SDPA(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))
    assert found(tiled, qkv(kv=2)) == {}


def flat_bias(q, k, v, bias):
    """The bias is added where the leading dimensions are merged."""
    scores = (q @ k.transpose(-2, -1)).reshape(-1, L, L) * 0.3 + bias
    return torch.softmax(scores.reshape(*q.shape[:-1], L), -1) @ v


@pytest.mark.parametrize("lead", [(2, 3), (1, 3), (3, 1), (2, 2), (1, 4, 2), (2, 3, 4)])
@pytest.mark.parametrize("form", ["rows", "heads", "window", "all", "flat"])
def test_biases_of_any_rank(lead, form):
    """MaxViT's windows have two leading dimensions before the heads, which the bias lacks."""
    args = tuple(x(*lead, L, HD) for _ in range(3))
    heads, n = lead[-1], math.prod(lead)
    sizes = {"rows": (1, L), "heads": (heads, L, L), "window": (lead[0], *[1] * (len(lead) - 1), L, L)}
    b = x(*(sizes | {"all": (*lead, L, L), "flat": (n, L, L)})[form])
    added = lambda q, k, v, b: torch.softmax(q @ k.transpose(-2, -1) * 0.3 + b, -1) @ v
    assert found(flat_bias if form == "flat" else added, (*args, b)) == {"attention": 1}


def test_a_bias_under_other_leading_dimensions_is_not_taken_for_one_under_these():
    """The bias depends on the second index; its shape would also fit the first index."""

    def split(q, k, v, bias):
        scores = (q @ k.transpose(-2, -1)).unsqueeze(2) * 0.3 + bias
        return torch.softmax(scores.squeeze(2), -1) @ v

    assert found(split, (*(x(4, 4, L, HD) for _ in range(3)), x(4, 1, L, L))) == {}


@pytest.mark.parametrize("lead", [(2, 3), (1, 3), (2, 3, 4)])
@pytest.mark.parametrize("shared", [True, False])
def test_conditions_under_one_leading_dimension(lead, shared):
    args = tuple(x(*lead, L, HD) for _ in range(3))
    seen = torch.rand(1 if shared else math.prod(lead), L, L) > 0.3

    def flat(q, k, v, seen):
        scores = (q @ k.transpose(-2, -1)).reshape(-1, L, L) * 0.3
        return torch.softmax(torch.where(seen, scores, -1e4).reshape(*q.shape[:-1], L), -1) @ v

    assert found(flat, (*args, seen)) == {"attention": 1}


def test_a_condition_under_other_leading_dimensions_is_not_taken_for_one_under_these():
    def split(q, k, v, seen):
        scores = (q @ k.transpose(-2, -1)).unsqueeze(2) * 0.3
        return torch.softmax(torch.where(seen, scores, -1e4).squeeze(2), -1) @ v

    assert found(split, (*(x(4, 4, L, HD) for _ in range(3)), torch.rand(4, 1, L, L) > 0.3)) == {}


def test_constant_masks():
    ones = torch.ones(L, L, dtype=torch.bool)
    f = lambda q, k, v, m: SDPA(q, k, v, m)
    assert found(f, qkv(), m=ones) == {"attention_mask": 1}
    assert found(f, qkv(), m=ones.tril()) == {"attention_mask": 1}
    assert found(f, qkv(), m=ones.tril()[None, None]) == {"attention_mask": 1}
    assert found(f, qkv(), m=torch.zeros(L, L)) == {"attention_mask": 1}
    assert found(f, qkv(), m=ones.tril(1)) == {}
    assert found(f, qkv(), m=ones.triu()) == {}
    assert found(f, qkv(), m=torch.ones(L, L)) == {}
    assert found(lambda q, k, v: SDPA(q, k, v, torch.arange(L) <= torch.arange(L)[:, None]), qkv()) == {
        "attention_mask": 1
    }
