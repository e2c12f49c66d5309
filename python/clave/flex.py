"""flex_attention of torch.nn.attention in ordinary ops: what is computed, not how its blocks skip what a mask hides.

Where scores are only masked it is scaled dot product attention. Otherwise the scores are written out, and score_mod and
mask_mod, functions of one score and of its batch, head, query and key, are applied to all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from clave.private import over_all_scores


def flex_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    score_mod: torch.fx.GraphModule,
    block_mask: tuple[Any, ...],
    scale: float,
    options: dict[str, Any],
    score_buffers: tuple[Any, ...] = (),
    mask_buffers: tuple[Any, ...] = (),
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q: (B, H, Lq, D), k, v: (B or 1, H or fewer, Lk, D). The result (B, H, Lq, Dv), and of each row of scores in
    base 2 the logarithm of the sum of their exponentials, and the largest: (B, H, Lq) in f32, or f64 where q is.

    block_mask: its last is mask_mod. Rows of which nothing is shown give 0, and -inf.
    """
    k, v = (x if x.shape[0] == q.shape[0] else x.expand(q.shape[0], *x.shape[1:]) for x in (k, v))
    shown = None if _is_all(block_mask[-1]) else _shown(block_mask[-1], q, k, mask_buffers)
    only_masked = _gives_its_score(score_mod) and not (options["OUTPUT_LOGSUMEXP"] or options["OUTPUT_MAX"])
    if only_masked:
        grouped = q.shape[1] != k.shape[1]
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, shown, scale=scale, enable_gqa=grouped)
        nothing = out.new_empty(0)
        return out, nothing, nothing
    scores = _scores(q, k, score_mod, scale, score_buffers)
    if shown is not None:
        scores = torch.where(shown, scores, -math.inf)
    some = scores.eq(-math.inf).logical_not().any(-1, keepdim=True)
    weights = torch.where(some.logical_not(), 0.0, scores.softmax(-1)).to(q.dtype)
    return weights @ _of_each_head(v, q), scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


def _of_each_head(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Keys or values that groups of q's heads share, for each head."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def _places(q: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
    """What a function of one score is given of its place: batch, head, query, key."""
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return [torch.arange(n, device=q.device, dtype=torch.int32) for n in sizes]


def _shown(mask_mod: Callable[..., Any], q: torch.Tensor, k: torch.Tensor, buffers: tuple[Any, ...]) -> torch.Tensor:
    """(B, H, Lq, Lk) bool"""
    every = over_all_scores(mask_mod, prefix=(), suffix=(None,) * len(buffers))
    return every(*_places(q, k), *buffers)  # type: ignore[no-any-return]


def _scores(
    q: torch.Tensor, k: torch.Tensor, score_mod: torch.fx.GraphModule, scale: float, buffers: tuple[Any, ...]
) -> torch.Tensor:
    """(B, H, Lq, Lk), before the mask."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = q.to(wide) @ _of_each_head(k, q).to(wide).transpose(-2, -1) * scale
    if _gives_its_score(score_mod):
        return scores
    every = over_all_scores(score_mod, prefix=(0,), suffix=(None,) * len(buffers))
    return every(scores, *_places(q, k), *buffers).to(wide)  # type: ignore[no-any-return]


def _result(function: torch.fx.GraphModule) -> tuple[torch.fx.Node, torch.fx.Node]:
    """The first argument of a traced function, and its result."""
    nodes = list(function.graph.nodes)
    result = nodes[-1].args[0]
    return nodes[0], result[0] if isinstance(result, tuple | list) else result


def _gives_its_score(score_mod: torch.fx.GraphModule) -> bool:
    score, result = _result(score_mod)
    return result is score


def _is_all(mask_mod: torch.fx.GraphModule) -> bool:
    """Whether it is the mask that shows everything, which torch has where none is given."""
    _, result = _result(mask_mod)
    ones, full = torch.ops.aten.new_ones.default, torch.ops.aten.full.default
    return result.target is ones or (result.target is full and result.args[1] is True)
