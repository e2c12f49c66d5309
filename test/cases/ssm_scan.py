"""clave.ops.ssm_scan from run to run. Tolerance: a state of about 6 is a decaying sum over tokens, rounded in f32 at
each; a result is a sum of n_state of its products."""

import torch

from clave.ops import ssm_scan
from describe import BF16, F16, F32, F64, INF, NAN, Case, T, sums, ulps

TOKENS = torch.export.Dim("tokens", min=1, max=1000)


class Scan(torch.nn.Module):
    """x: (B, L, H, P), log_decay: (B, L, H), b, c: (B, L, G, N), rate: (H, N) if there is one."""

    def __init__(self, batch, heads, size, n, dtype):
        super().__init__()
        self.register_buffer("state", torch.zeros(batch, heads, size, n, dtype=dtype))

    def forward(self, x, log_decay, b, c, rate=None):
        return ssm_scan(x, log_decay, b, c, self.state, rate)


class Turned(Scan):
    """Operands as views: x and log_decay transposed, and one group of two of b and c."""

    def forward(self, x, log_decay, b, c, rate=None):
        return super().forward(x.transpose(1, 3), log_decay.mT, b[:, :, 1:], c[:, :, 1:], rate)


def scan(name, heads, size, n, groups=1, lengths=(7, 5), batch=1, rate=False, dtype=F32, make=Scan, **others):
    """Runs of these lengths, one after another. others: fields of the case, and inputs by name."""
    wide = F64 if dtype is F64 else F32

    def new(length):
        inputs = {
            "x": T((batch, length, heads, size), dtype),
            "log_decay": T((batch, length, heads), wide, -1.5, 0),
            "b": T((batch, length, groups, n), dtype),
            "c": T((batch, length, groups, n), dtype),
        } | ({"rate": T((heads, n), wide, 0.1, 2)} if rate else {})
        return list((inputs | {k: v for k, v in others.items() if isinstance(v, T)}).values())

    first, then = lengths
    dynamic = ({1: TOKENS},) * 4 + (None,) * rate if first != then and min(lengths) > 0 else None
    return Case(
        name,
        make(batch, heads, size, n, wide),
        new(first),
        other=new(then),
        rtol=ulps(wide, 32),
        atol=sums(wide, max(n, 4), 12),
        state=True,
        dynamic_shapes=dynamic,
    )


def cases():
    for dtype in (F32, F64, F16, BF16):
        d = str(dtype)[6:]
        yield scan(f"mamba_{d}", 12, 1, 16, rate=True, dtype=dtype)
        yield scan(f"mamba2_{d}", 4, 8, 32, groups=2, dtype=dtype)
        yield scan(f"rwkv_{d}", 9, 2, 1, dtype=dtype)
    for n in (1, 5, 33, 256, 300):
        yield scan(f"state_{n}", 3, 2, n)
        yield scan(f"state_{n}_rate", 3, 2, n, rate=True)
    for length in (1, 8, 16, 17, 70):
        yield scan(f"tokens_{length}", 5, 3, 16, lengths=(length, 1))
    yield scan("batch", 6, 3, 16, groups=3, batch=2, lengths=(19, 4))
    yield scan("batch_rate", 6, 1, 7, groups=2, batch=3, rate=True)
    for name, sizes in (("tokens", (3, 2, 16)), ("heads", (0, 2, 16)), ("rows", (3, 0, 16)), ("state", (3, 2, 0))):
        none = (0, 0) if name == "tokens" else (7, 5)
        yield scan(f"no_{name}", *sizes, groups=min(sizes[0], 1), lengths=none)
        yield scan(f"no_{name}_rate", *sizes, groups=min(sizes[0], 1), lengths=none, rate=True)
    for rate in (False, True):
        turned = {"x": T((2, 2, 3, 7)), "log_decay": T((2, 3, 7), F32, -1.5, 0)}
        end = "_rate" if rate else ""
        yield scan(f"views{end}", 3, 2, 16, groups=2, batch=2, lengths=(7, 7), make=Turned, rate=rate, **turned)
        ends = T((1, 7, 3), values=(-0.5, -INF, -0.25, 0.0, -1.0))  # -inf: no earlier state remains
        yield scan(f"forgets{end}", 3, 2, 5, lengths=(7, 7), rate=rate, log_decay=ends)
        odd = T((1, 7, 3, 2), values=(*[0.5] * 17, NAN, *[1.0] * 5, INF))
        yield scan(f"odd{end}", 3, 2, 16, lengths=(7, 7), rate=rate, x=odd)
