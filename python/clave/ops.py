"""Ops of clave's own for torch modules, each with the computation that torch runs when it is called eagerly."""

from __future__ import annotations

import torch


@torch.library.custom_op("clave::rope", mutates_args=())
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    """Rotary embedding of x: (*, L, n_heads, head_dim), by angles whose cos and sin are (L, head_dim / 2).

    Rotates the pairs (2i, 2i + 1) if interleaved, else (i, i + head_dim / 2): (a, b) -> (a cos - b sin, a sin + b cos).
    From "RoFormer", https://arxiv.org/abs/2104.09864, equation 34.
    """
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    a, b = pairs.unbind(-1)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1)
    return (turned if interleaved else turned.transpose(-1, -2)).reshape(x.shape)


@rope.register_fake
def _(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
