"""Patterns that models write as several small ops and that passes look for: attention, rotary embedding, norms,
activations, products of constants.

A form adds several statements to a graph. Its reshapes, the ranks and sizes of its masks and the order of its factors
are random, so that a pass meets patterns that it knows and others that only look like them.
"""

import contextlib
import math
from typing import Any

import torch
from graph import FLOATS, Statement


class _Stop(Exception):
    """torch refuses a statement, or its values are useless; the form then ends."""


def _put(b: Any, code: str, rounds: str = "once") -> str:
    name = b.new_name()
    if not b.try_statement(Statement(f"{name} = {code}", name, rounds)):
        raise _Stop
    return name


def _input(b: Any, shape: tuple, dtype: str = "", values: str = "normal") -> str:
    name = b.add_input(dtype or _dtype(b), shape, values)
    if name is None:
        raise _Stop
    return name


def _dtype(b: Any) -> str:
    return b.main if b.main in FLOATS else "F32"


def _length(b: Any) -> Any:
    return b.rng.choice("ab") if b.dynamic and b.rng.random() < 0.6 else b.rng.choice((1, 2, 3, 5, 8, 17, 33))


# ---- attention


def _masked(b: Any, scores: str, shape: tuple) -> str:
    """Returns a mask for scores of this shape. It has any rank, and sizes of 1 anywhere."""
    kept = shape[b.rng.randrange(len(shape)) :]
    sizes = tuple(1 if b.rng.random() < 0.35 else n for n in kept)
    if b.rng.random() < 0.5:
        return _put(b, f"{scores} + {_input(b, sizes, values=b.rng.choice(('normal', 'few')))}")
    mask = _input(b, sizes, "BOOL")
    hidden = b.rng.choice(("-1e4", "float('-inf')", "-1e4"))
    if b.rng.random() < 0.6:
        return _put(b, f"{scores}.masked_fill({mask}, {hidden})")
    return _put(b, f"torch.where({mask}, {scores}, {hidden})")


def _other_shape(b: Any, x: str, shape: tuple) -> tuple[str, tuple]:
    """Returns x with its leading sizes (batch, heads) split differently; symbolic sizes stay."""
    batch, heads, *rest = shape
    ends = ", ".join(f"{x}.shape[{d}]" for d in (2, 3))
    if isinstance(batch, int) and batch % 2 == 0 and b.rng.random() < 0.5:
        return _put(b, f"{x}.view({batch // 2}, 2, {heads}, {ends})", "no"), (batch // 2, 2, heads, *rest)
    if isinstance(batch, int):
        return _put(b, f"{x}.view({batch * heads}, {ends})", "no"), (batch * heads, *rest)
    return _put(b, f"{x}.view(1, {x}.shape[0], {heads}, {ends})", "no"), (1, *shape)


def _scores(b: Any, q: str, k: str, size: int) -> str:
    scale = b.rng.choice((size**-0.5, 0.25, 1.0))
    codes = (f"({q} @ {k}.mT) * {scale}", f"({q} * {scale}) @ {k}.mT", f"{q} @ {k}.transpose(-1, -2) / {1 / scale}")
    return _put(b, b.rng.choice(codes), "sum")


def attention(b: Any) -> None:
    batch = b.rng.choice((1, 2, 2, 4, 6, "b" if b.dynamic else 3))
    heads, groups, size = b.rng.choice((1, 2, 3)), b.rng.choice((1, 1, 2)), b.rng.choice((2, 4, 8, 5))
    queries, keys = _length(b), _length(b)
    keys = queries if b.rng.random() < 0.6 else keys
    q = _input(b, (batch, heads * groups, queries, size))
    k, v = (_input(b, (batch, heads, keys, size)) for _ in range(2))
    if groups > 1:
        k, v = (_put(b, f"{x}.repeat_interleave({groups}, 1)", "no") for x in (k, v))
    shape = (batch, heads * groups, queries, keys)
    x = _scores(b, q, k, size)
    for _ in range(b.rng.choice((0, 1, 1, 2))):
        if len(shape) == 4 and b.rng.random() < 0.5:
            x, shape = _other_shape(b, x, shape)
        x = _masked(b, x, shape)
    if b.rng.random() < 0.2:
        x = _put(b, f"30 * torch.tanh({x} / 30)")
    at = b.rng.choice((-1, -1, -1, -1, -1, -2))
    x = _put(b, f"torch.softmax({x}, {at})", "sum")
    if len(shape) != 4 or b.rng.random() < 0.2:
        x = _put(b, f"{x}.view({q}.shape[0], {heads * groups}, {q}.shape[2], {k}.shape[2])", "no")
    x = _put(b, f"{x} @ {v}", "sum")
    if b.rng.random() < 0.5:
        _put(b, f"{x}.transpose(1, 2).reshape({q}.shape[0], -1, {heads * groups * size})", "no")


# ---- rotary embedding


def _heads(b: Any, batch: Any, length: Any, size: int) -> list[str]:
    """Returns tensors (batch, heads, length, size): one, or parts of one tensor, as after a joined product."""
    heads = [b.rng.choice((1, 2, 3)) for _ in range(b.rng.choice((1, 2, 2, 3)))]
    if len(heads) == 1:
        return [_input(b, (batch, heads[0], length, size))]
    x = _input(b, (batch, length, sum(heads) * size))
    parts, start = [], 0
    for n in heads:
        part = _put(b, f"{x}[..., {start}:{start + n * size}]")
        start += n * size
        parts.append(_put(b, f"{part}.unflatten(-1, ({n}, {size})).transpose(1, 2)"))
    return parts


def _rotate(b: Any, x: str, half: int, cos: str, sin: str, interleaved: bool) -> None:
    if interleaved:
        turned = f"torch.stack((-{x}[..., 1::2], {x}[..., ::2]), -1).flatten(-2)"
    else:
        turned = f"torch.cat((-{x}[..., {half}:], {x}[..., :{half}]), -1)"
    if b.rng.random() < 0.2:  # not a rotation
        turned = turned.replace("-x", "x", 1) if not interleaved else turned.replace("1::2", "::2")
    left, right = _put(b, f"{x} * {cos}"), _put(b, f"{_put(b, turned)} * {sin}")
    y = _put(b, f"{left} + {right}" if b.rng.random() < 0.8 else f"{right} - {left}")
    if b.rng.random() < 0.5:
        _put(b, f"{y} * 2")


def rope(b: Any) -> None:
    length, half, batch = _length(b), b.rng.choice((1, 2, 4, 8)), b.rng.choice((1, 2, 3))
    angles = _put(b, f"{_input(b, (b.rng.choice((1, batch)), 1, length, half))} * 3")
    interleaved = b.rng.random() < 0.4
    doubled = f"{angles}.repeat_interleave(2, -1)" if interleaved else f"torch.cat([{angles}, {angles}], -1)"
    angles = _put(b, doubled, "no")
    cos, sin = _put(b, f"{angles}.cos()"), _put(b, f"{angles}.sin()")
    for x in _heads(b, batch, length, 2 * half):
        _rotate(b, x, half, cos, sin, interleaved)


# ---- norms and activations


def norm(b: Any) -> None:
    n = b.rng.choice((1, 3, 8, 17, 64, 129))
    x = _input(b, (b.rng.choice((1, 2, 3)), _length(b), n))
    w = _input(b, b.rng.choice(((n,), (1, 1, n), (1,))), values="positive")
    eps, axes = b.rng.choice((1e-5, 1e-2, 0.5)), b.rng.choice(("-1", "-1", "-1", "2", "(-2, -1)"))
    if centred := b.rng.random() < 0.5:
        x = _put(b, f"{x} - {x}.mean({axes}, keepdim=True)", "sum")
    square = b.rng.choice((f"{x}.pow(2)", f"{x} * {x}", f"{x}.square()"))
    mean = _put(b, f"({square}).mean({axes}, keepdim=True)", "sum")
    root = b.rng.choice((f"torch.rsqrt({mean} + {eps})", f"({mean} + {eps}) ** -0.5", f"1 / ({mean} + {eps}).sqrt()"))
    x = _put(b, f"{x} * {_put(b, root)}")
    x = _put(b, b.rng.choice((f"{x} * {w}", f"{w} * {x}", f"{x} * (1 + {w})")))
    if centred and b.rng.random() < 0.7:
        _put(b, f"{x} + {_input(b, (n,))}")


# The factor of x in two statements; 1 + the first cancels if x is far below 0.
GELUS = (
    ("torch.erf(@ / 1.4142135623730951)", "0.5 * @ * (1 + %)"),
    ("torch.erf(@ * 0.7071067811865476)", "@ * 0.5 * (1 + %)"),
    ("torch.tanh(0.7978845608028654 * (@ + 0.044715 * @ ** 3))", "0.5 * @ * (1 + %)"),
    ("torch.tanh(@ * 0.7978845608 * (1 + 0.044715 * @ * @))", "@ * 0.5 * (1 + %)"),
    ("torch.sigmoid(@)", "@ * %"),
    ("torch.sigmoid(1.702 * @)", "@ * %"),
    ("torch.tanh(F.softplus(@))", "@ * %"),
)


def activation(b: Any) -> None:
    x = _input(b, (_length(b), b.rng.choice((3, 8, 17))))
    inner, outer = b.rng.choice(GELUS)
    gate = _put(b, inner.replace("@", x))
    y = _put(b, outer.replace("@", x).replace("%", gate))
    if b.rng.random() < 0.5:
        _put(b, f"{y} * {_input(b, b.inputs[-1].shape)}")


# ---- products of constants


def _constant(b: Any, *shape: int, low: int = -16) -> str:
    """Returns a constant of sixteenths, which every float dtype holds."""
    values = [b.rng.randint(low, 16) / 16 for _ in range(math.prod(shape))]
    return f"torch.tensor({torch.tensor(values).reshape(shape).tolist()}, dtype={_dtype(b)})"


def _convolution(b: Any, channels: int, more: str) -> str:
    groups = b.rng.choice((1, 1, 2)) if channels % 2 == 0 else 1
    inner, width = groups * b.rng.choice((1, 2)), b.rng.choice((1, 3))
    x = _input(b, (b.rng.choice((1, 2, "b" if b.dynamic else 3)), inner, b.rng.choice((3, 6, 17))), values="normal")
    if b.rng.random() < 0.4:
        w = _constant(b, inner, channels // groups, width)
        return _put(b, f"F.conv_transpose1d({x}, {w}{more}, groups={groups})", "sum")
    return _put(b, f"F.conv1d({x}, {_constant(b, channels, inner // groups, width)}{more}, groups={groups})", "sum")


def batch_norm(b: Any) -> None:
    """Adds a batch norm after a product of a constant, or of an input, which is not folded."""
    channels = b.rng.choice((1, 2, 4, 5))
    more = f", bias={_constant(b, channels)}" if b.rng.random() < 0.5 else ""
    if b.rng.random() < 0.3:
        x = _input(b, (_length(b), b.rng.choice((3, 8))), values="normal")
        y = _put(b, f"F.linear({x}, {_constant(b, channels, b.inputs[-1].shape[-1])}{more})", "sum")
    else:
        y = _convolution(b, channels, more)
    if b.rng.random() < 0.1:
        _put(b, f"{y} * 2")  # another reader
    mean, weight, bias = (_constant(b, channels) for _ in range(3))
    scale = f", weight={weight}, bias={bias}" if b.rng.random() < 0.7 else ""
    _put(
        b, f"F.batch_norm({y}, {mean}, {_constant(b, channels, low=1)}{scale}, eps={b.rng.choice((1e-5, 0.1))})", "sum"
    )


def _part(b: Any, x: str, inner: int, n: int) -> str:
    """Adds a product of x and readers of its rows, some of which copy them."""
    more = f", {_constant(b, n)}" if b.rng.random() < 0.3 else ""
    if b.rng.random() < 0.2:
        y = _put(b, f"{x} @ {_constant(b, inner, n)}", "sum")
    else:
        y = _put(b, f"F.linear({x}, {_constant(b, n, inner)}{more})", "sum")
    readers = ("@ * 2", "@ * torch.sigmoid(@)", f"@.view(*@.shape[:-1], {n // 2 or 1}, -1).transpose(-2, -3) + 1", "@")
    return _put(b, b.rng.choice((*readers, "@.flatten()", "torch.softmax(@, -1)")).replace("@", y))


def products(b: Any) -> None:
    """Adds products of one tensor with several constants."""
    inner = b.rng.choice((1, 3, 8))
    x = _input(b, (b.rng.choice((1, 2, "b" if b.dynamic else 3)), _length(b), inner), values="normal")
    sizes = [b.rng.choice((1, 2, 4, 6)) for _ in range(b.rng.choice((2, 2, 3, 4)))]
    parts = [_part(b, x, inner, n) for n in sizes]
    if len(set(sizes)) == 1 and b.rng.random() < 0.5:
        _put(b, f"{parts[0]} * {parts[1]}")


FORMS = {attention: 6, rope: 2, norm: 2, activation: 1, batch_norm: 2, products: 2}


def add(b: Any) -> None:
    """Adds one form, or as much of it as possible."""
    with contextlib.suppress(_Stop):
        b.rng.choices(list(FORMS), list(FORMS.values()), k=1)[0](b)
