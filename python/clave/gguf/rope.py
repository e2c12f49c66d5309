"""Computes the frequency of each pair of a head, and the factor of cos and sin.

Sources: YaRN, https://arxiv.org/abs/2309.00071; LongRoPE, https://arxiv.org/abs/2402.13753.
"""

from __future__ import annotations

import math

import numpy as np

from clave.gguf.architectures import Rope


def frequencies(rope: Rope, factors: np.ndarray | None = None) -> np.ndarray:
    """Returns the angles of position 1, (dims / 2) f32, infinite if the file's numbers make them too large. factors:
    (dims / 2), the file's divisors of the frequencies."""
    plain = rope.base ** (-np.arange(0, rope.dims, 2) / rope.dims)
    if factors is not None:
        plain = plain / factors
    if rope.kind == "linear":
        plain = plain / rope.factor
    if rope.kind == "yarn":
        kept = _kept(rope)
        plain = plain * kept + plain / rope.factor * (1 - kept)
    with np.errstate(over="ignore"):
        return plain.astype(np.float32)


def _kept(rope: Rope) -> np.ndarray:
    """Returns the share of each frequency that YaRN does not scale, (dims / 2): 1 for pairs that turn more than
    beta_fast times in the original context, 0 for pairs that turn less than beta_slow times."""

    def pair(turns: float) -> float:
        return rope.dims * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.base))

    low, high = max(math.floor(pair(rope.beta_fast)), 0), min(math.ceil(pair(rope.beta_slow)), rope.dims - 1)
    ramp = (np.arange(rope.dims // 2) - low) / max(high - low, 0.001)
    return 1 - np.clip(ramp, 0, 1)


def magnitude(rope: Rope, context: int) -> float:
    """Returns the factor of cos and sin. context: the context for which the model was made."""
    if rope.kind == "yarn":
        return (rope.magnitude or 1.0) * (0.1 * math.log(max(rope.factor, 1.0)) + 1.0)
    if rope.kind == "longrope" and rope.magnitude is None:
        stretched = context / rope.original
        return math.sqrt(1 + math.log(stretched) / math.log(rope.original)) if stretched > 1 else 1.0
    return 1.0 if rope.magnitude is None else rope.magnitude
