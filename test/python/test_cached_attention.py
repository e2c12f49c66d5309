"""Attention over 16-bit and int8 KV caches against torch's own, in f64, over the numbers that the cache must store."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from torch.nn.functional import scaled_dot_product_attention

import clave
from clave.llm import KVCache

pytestmark = pytest.mark.by_turn(15)

N_HEADS, N_KV = 4, 2
F32, F16, BF16, I8 = torch.float32, torch.float16, torch.bfloat16, torch.int8
# Error of an f32 result: sums of up to 600 products of numbers up to 5, and exponentials of scores up to 30.
ACCURACY = 2e-5


def tokens(n, size, dtype, cache):
    """Returns q, k and v (1, heads, n, size). Numbers about halfway between two of an int8 row are set to 0."""
    generator = torch.Generator().manual_seed(n)
    q, k, v = (torch.randn(1, h, n, size, generator=generator).to(dtype) for h in (N_HEADS, N_KV, N_KV))
    return (q, *(torch.where(halfway(x), 0, x) for x in (k, v))) if cache == I8 else (q, k, v)


def halfway(x):
    steps = x.double() / (x.double().abs().amax(-1, keepdim=True) / 127)
    return (steps - steps.floor() - 0.5).abs() < 1e-3


def held(x, cache):
    """Returns the values that a cache stores for x, in f64."""
    if cache != I8:
        return x.to(cache).double()
    scale = x.float().abs().amax(-1, keepdim=True) / 127
    return torch.round(x.float() / scale).double() * scale.double()


def wanted(q, k, v, cache, window):
    n = q.shape[2]
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    if window:
        seen &= ~seen.tril(-window)
    return scaled_dot_product_attention(q.double(), held(k, cache), held(v, cache), attn_mask=seen, enable_gqa=True)


def in_pieces(call, pieces, q, k, v):
    results, at = [], 0
    for n in pieces:
        part = slice(at, at + n)
        results.append(call(q[:, :, part], k[:, :, part], v[:, :, part], torch.tensor(at)))
        at += n
    return torch.cat(results, 2)


def excess(got, want):
    """Returns the error above half a unit in the last place of the result's dtype plus ACCURACY."""
    info = torch.finfo(got.dtype)
    unit = torch.exp2(torch.floor(torch.log2(want.abs().clamp_min(info.tiny)))) * info.eps
    return ((got.double() - want).abs() - 0.5 * unit - ACCURACY).max().item()


SHORT, LONG = (9, 1, 13, 1), (590, 1, 9)
CASES = [(q, cache, None, SHORT, 8) for q in (F32, F16, BF16) for cache in (F16, BF16, I8)]
CASES += [(F16, F16, 5, SHORT, 8), (BF16, BF16, 5, SHORT, 8), (F32, I8, 5, SHORT, 8)]
CASES += [(F16, F16, None, LONG, 64), (BF16, I8, None, LONG, 64)]


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "cache", "window", "pieces", "size"), CASES)
def test_attention_is_that_over_the_rounded_cache(dtype, cache, window, pieces, size):
    n = sum(pieces)
    new = lambda: KVCache(N_KV, window + 2 if window else n, size, dtype=cache, window=window)
    q, k, v = tokens(n, size, dtype, cache)
    want = wanted(q, k, v, cache, window)
    length = torch.export.Dim("length", min=1, max=n)
    shapes = ({2: length}, {2: length}, {2: length}, None)
    program = clave.export(new(), (*(x[:, :, :3] for x in (q, k, v)), torch.tensor(0)), dynamic_shapes=shapes)
    runs = {"torch": new()} | {device: clave.Session(program, device) for device in ("cpu", "opencl")}
    off = {name: excess(in_pieces(call, pieces, q, k, v), want) for name, call in runs.items()}
    assert all(x <= 0 for x in off.values()), off
