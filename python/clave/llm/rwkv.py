"""Handles RWKV, whose layers keep the last token's activations and two sums that decay.

Its recurrence is that of `clave.ops.ssm_scan` over pairs (sum of weighted values, sum of weights). Both are scaled by
the largest weight so far, which is computed before the scan.
"""

from __future__ import annotations

from typing import Any

import torch

from clave.llm.layers import Kept, Layer, called
from clave.ops import ssm_scan
from clave.private import attention_of, replaced_functions

_LEAST = -1e38  # logarithm of the largest weight before the first token


class RwkvState(torch.nn.Module):
    """The states of one layer in the model's order: (batch, size) each."""

    def __init__(self, config: Any, batch: int, dtype: torch.dtype) -> None:
        super().__init__()
        size = config.attention_hidden_size or config.hidden_size
        self.register_buffer("feed_forward", torch.zeros(batch, config.hidden_size, dtype=dtype), persistent=False)
        self.register_buffer("attention", torch.zeros(batch, config.hidden_size, dtype=dtype), persistent=False)
        self.register_buffer("values", torch.zeros(batch, size), persistent=False)
        self.register_buffer("weights", torch.zeros(batch, size), persistent=False)
        self.register_buffer("largest", torch.full((batch, size), _LEAST), persistent=False)


class _OfLayers:
    """One of the model's five states. The model sees (batch, size, layers); each layer has a buffer of its own."""

    def __init__(self, states: Any, name: str) -> None:
        self._buffers = [getattr(s, name) for s in states]

    def __getitem__(self, key: tuple[Any, Any, int]) -> torch.Tensor:
        return self._buffers[key[2]]

    def __setitem__(self, key: tuple[Any, Any, int], value: torch.Tensor) -> None:
        self._buffers[key[2]].copy_(value)


class _Shift(torch.nn.Module):
    """Shifts (batch, L, size) by one token, like torch.nn.ZeroPad2d((0, 0, 1, -1)), for any L."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(x[:, :1]), x], 1)[:, :-1]


class Rwkv:
    """Runs the model unchanged, with its state in buffers and all tokens at once."""

    name = "recurrent state"

    def __init__(self, model: Any) -> None:
        self.original = attention_of(model.config)
        self._config, self._dtype = model.config, next(model.parameters()).dtype
        if not model.rwkv.layers_are_rescaled:
            model.config.rescale_every = 0  # it halves activations and weights only to keep F16 sums from overflowing
        for module in model.modules():
            if hasattr(module, "time_shift"):
                module.time_shift = _Shift()

    def prepare(self, model: Any) -> None:
        """Does nothing, because the model does not use transformers' attention."""

    def rows_to_compare(self, max_context: int, length: int) -> int:
        return length

    def layers(self, model: Any) -> list[Layer]:
        return []

    def new_states(self, batch: int) -> list[RwkvState]:
        return [RwkvState(self._config, batch, self._dtype) for _ in range(self._config.num_hidden_layers)]

    def check(self, model: Any, kept: Kept) -> None:
        """Does nothing, because the model has no position."""

    def logits(self, model: Any, kept: Kept, tokens: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        """Returns logits (B, keep, vocab_size), of all tokens if keep is 0."""
        names = ("feed_forward", "attention", "values", "weights", "largest")
        states = [_OfLayers(kept.states, name) for name in names]
        with replaced_functions(model, {"rwkv_linear_attention": _weighted_values}):
            given = called(model, input_ids=tokens, state=states, use_cache=True, logits_to_keep=keep)
            logits: torch.Tensor = model(**given).logits
        return logits


def _weighted_values(
    time_decay: torch.Tensor,
    time_first: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    state: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    return_state: bool = True,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Computes rwkv_linear_attention from a state on. key, value: (batch, L, size); state: (batch, size) each. Returns
    the result (batch, L, size) and the state afterwards."""
    values, weights, largest = state
    k, v, decay = key.float(), value.float(), -torch.exp(time_decay.float())
    decayed = decay * torch.arange(k.shape[1] + 1)[:, None]
    largest = torch.cummax(torch.cat([largest[:, None], k], 1) - decayed, 1).values + decayed
    before, after = largest[:, :-1], largest[:, 1:]
    weight = torch.exp(k - after)
    sums, one = torch.stack([values, weights], -1), k.new_ones(k.shape[0], k.shape[1], 1, 1)
    then = sums[..., None].clone()
    seen = ssm_scan(torch.stack([weight * v, weight], -1), before + decay - after, one, one, then)
    earlier = torch.cat([sums[:, None], seen], 1)[:, :-1]
    own = k + time_first
    top = torch.maximum(before, own)
    old, new = torch.exp(before - top), torch.exp(own - top)
    out = (old * earlier[..., 0] + new * v) / (old * earlier[..., 1] + new)
    return out.to(key.dtype), [then[..., 0, 0], then[..., 1, 0], after[:, -1]]
