"""The KV cache of one layer as a module with buffers, and helpers that all ways to a cache share."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from clave.errors import Code, Error
from clave.ops import sdpa_with_kv_cache


class KVCache(torch.nn.Module):
    """Keys and values of one layer: (batch, n_kv, rows, size) of a float dtype, or of int8 with scales (batch, n_kv,
    rows) in f32.

    window: number of tokens that each token sees, itself included; the rows are then a ring. None: a token sees all
    tokens before it, and there is a row for each token of the context.
    """

    def __init__(
        self,
        n_kv: int,
        rows: int,
        key_size: int,
        value_size: int | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        window: int | None = None,
        batch: int = 1,
    ) -> None:
        super().__init__()
        self.window = window
        value_size = key_size if value_size is None else value_size
        scale = torch.zeros(batch, n_kv, rows) if dtype is torch.int8 else None
        self.register_buffer("keys", torch.zeros(batch, n_kv, rows, key_size, dtype=dtype), persistent=False)
        self.register_buffer("values", torch.zeros(batch, n_kv, rows, value_size, dtype=dtype), persistent=False)
        self.register_buffer("key_scale", scale, persistent=False)
        self.register_buffer("value_scale", None if scale is None else scale.clone(), persistent=False)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        position: torch.Tensor,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns the attention of the tokens at position, position + 1, ..., see clave.ops.sdpa_with_kv_cache."""
        scales = (self.key_scale, self.value_scale)
        return sdpa_with_kv_cache(
            q, k, v, self.keys, self.values, position, *scales, self.window, scale, softcap, sinks
        )

    def write(self, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes k, v (batch, n_kv, L, size) to the rows `positions` (L), in place. Returns all rows, rounded as
        stored, in the dtypes of k and v.

        Raises an error if a position is not a row. Not for a cache with a window.
        """
        keys = _write(k, positions, self.keys, self.key_scale)
        return keys, _write(v, positions, self.values, self.value_scale)


def _write(x: torch.Tensor, positions: torch.Tensor, cache: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    if scale is None:
        cache.index_copy_(2, positions, x.to(cache.dtype))
        return cache.to(x.dtype)
    largest = x.float().abs().amax(-1) / 127
    scale.index_copy_(2, positions, largest)
    levels = torch.where(largest[..., None] > 0, torch.round(x.float() / largest[..., None]), 0)
    cache.index_copy_(2, positions, levels.to(torch.int8))
    return (cache.float() * scale[..., None]).to(x.dtype)


class Kept(torch.nn.Module):
    """The state that a model keeps between calls, in the order of its layers: caches of layers that attend, and states
    of recurrent layers."""

    def __init__(self, caches: Iterable[KVCache], states: Iterable[torch.nn.Module]) -> None:
        super().__init__()
        self.caches = torch.nn.ModuleList(caches)
        self.states = torch.nn.ModuleList(states)


@dataclass
class Layer:
    """The sizes and the dtype of the keys and values that a layer keeps of a token. window: in tokens, None for all."""

    n_kv: int
    key_size: int
    value_size: int
    dtype: torch.dtype
    window: int | None = None

    def bytes(self, dtype: torch.dtype | None = None) -> int:
        """Returns the bytes per token in a cache of a dtype, by default the layer's own."""
        dtype = dtype or self.dtype
        scales = 8 if dtype is torch.int8 else 0
        return self.n_kv * ((self.key_size + self.value_size) * dtype.itemsize + scales)


def ring(window: int | None, max_context: int, prompt_piece: int) -> tuple[int, int | None]:
    """Returns the rows that a layer's cache needs, and its window, None if the rows are the whole context."""
    if window is None or window >= max_context:
        return max_context, None
    return min(max_context, window + max(prompt_piece, 1) - 1), window


def unsupported(message: str) -> Error:
    return Error(f"use_kv_cache: {message}", Code.UNSUPPORTED)


def set_attention(model: Any, implementation: str) -> None:
    """Sets the attention implementation. Hides transformers' warning about models that keep their own attention."""
    logger = logging.getLogger("transformers.modeling_utils")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        model.set_attn_implementation(implementation)
    finally:
        logger.setLevel(before)


def called(model: Any, **given: Any) -> dict[str, Any]:
    """Returns the arguments that the model accepts by name."""
    taken = inspect.signature(model.forward).parameters
    return {k: v for k, v in given.items() if k in taken}


def reason_of(e: Exception) -> str:
    """Returns an exception's message in one line."""
    if isinstance(e, Error):
        return str(e).removeprefix("use_kv_cache: ")
    return f"{type(e).__name__}: {(str(e).strip().splitlines() or [''])[0]}"
