"""Computes flex_attention of torch.nn.attention by ordinary ops, which do not skip masked blocks.

If scores are only masked, this is scaled dot product attention. Otherwise all scores are computed, and score_mod and
mask_mod, which are functions of one score and of its batch, head, query and key, are applied to all of them at once.
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
    """Attention with modified scores. q: (B, H, Lq, D); k: (B or 1, H or fewer, Lk, D); v: (B or 1, as k, Lk, Dv).

    block_mask: its last element is mask_mod. Returns the result (B, H, Lq, Dv), and logsumexp and maximum of each row
    of scores, divided by ln 2: (B, H, Lq) in f32, or in f64 if q is f64. The latter two are empty if `options` requests
    neither and score_mod returns its score. A row without a visible key yields 0, -inf and -inf.
    """
    k, v = (x if x.shape[0] == q.shape[0] else x.expand(q.shape[0], *x.shape[1:]) for x in (k, v))
    shown = None if _is_all(block_mask[-1]) else _shown(block_mask[-1], q, k, mask_buffers)
    only_masked = _returns_its_score(score_mod) and not (options["OUTPUT_LOGSUMEXP"] or options["OUTPUT_MAX"])
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
    """Repeats keys or values, which groups of heads share, for each head of q."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def _places(q: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
    """Returns the indices of batches, heads, queries and keys, the arguments of a function of one score."""
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return [torch.arange(n, device=q.device, dtype=torch.int32) for n in sizes]


def _shown(mask_mod: Callable[..., Any], q: torch.Tensor, k: torch.Tensor, buffers: tuple[Any, ...]) -> torch.Tensor:
    """Returns the mask (B, H, Lq, Lk), bool: True if the query sees the key."""
    every = over_all_scores(mask_mod, prefix=(), suffix=(None,) * len(buffers))
    return every(*_places(q, k), *buffers)  # type: ignore[no-any-return]


def _scores(
    q: torch.Tensor, k: torch.Tensor, score_mod: torch.fx.GraphModule, scale: float, buffers: tuple[Any, ...]
) -> torch.Tensor:
    """Returns the scores (B, H, Lq, Lk) before the mask, in f32, or in f64 if q is f64."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = q.to(wide) @ _of_each_head(k, q).to(wide).transpose(-2, -1) * scale
    if _returns_its_score(score_mod):
        return scores
    every = over_all_scores(score_mod, prefix=(0,), suffix=(None,) * len(buffers))
    return every(scores, *_places(q, k), *buffers).to(wide)  # type: ignore[no-any-return]


def _result(function: torch.fx.GraphModule) -> tuple[torch.fx.Node, torch.fx.Node]:
    """Returns the first argument of a traced function, and its result."""
    nodes = list(function.graph.nodes)
    result = nodes[-1].args[0]
    return nodes[0], result[0] if isinstance(result, tuple | list) else result


def _returns_its_score(score_mod: torch.fx.GraphModule) -> bool:
    score, result = _result(score_mod)
    return result is score


def _is_all(mask_mod: torch.fx.GraphModule) -> bool:
    """True for the mask that hides nothing, which torch passes by default."""
    _, result = _result(mask_mod)
    ones, full = torch.ops.aten.new_ones.default, torch.ops.aten.full.default
    return result.target is ones or (result.target is full and result.args[1] is True)
