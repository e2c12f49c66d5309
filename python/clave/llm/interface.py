"""The fast way to a KV cache: transformers' interface for attention functions, and one op that writes and attends.

A model's attention is replaced by name (AttentionInterface), so no module of the model is patched and no mask is
computed. Arguments of the model need not reach the attention function, because the attention modules know the caches.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.cache_utils import Cache

from clave.llm.layers import Kept, KVCache, Layer, called, ring, set_attention, unsupported
from clave.llm.recurrent import (
    Recurrence,
    RecurrentState,
    cache_layers,
    is_recurrent,
    keeps_nothing,
    recurrence_of,
    scan_from,
)
from clave.private import attention_of

NAME = "clave_kv_cache"
_HOLDER = "_clave_caches"  # the attribute by which an attention module finds its caches
_KNOWN_LAYERS = {"full_attention", "sliding_attention"}


class _Caches:
    """The caches by layer, and the position of the tokens, which a model's attention finds during a call."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation  # the model's own attention
        self.of_layer: dict[int, KVCache] | None = None
        self.position: torch.Tensor | None = None
        self.probed: list[tuple[torch.nn.Module, Layer]] | None = None  # calls of a probe, in order


class Interface:
    """Runs the model with the attention function below. The caches of layers with windows are rings. Recurrent layers
    continue from their own states."""

    name = "attention interface"
    unwritten = math.nan  # the value of unwritten rows when logits are compared, which reveals every use of them

    def __init__(self, model: Any) -> None:
        AttentionInterface.register(NAME, _attend)
        self._holder = _hold(model)
        self.original = self._holder.implementation
        self._attending: list[int] = []  # layers
        self._recurrent: list[Recurrence] = []

    def prepare(self, model: Any) -> None:
        set_attention(model, NAME)

    def rows(self, layer: Layer, max_context: int, prompt_piece: int) -> tuple[int, int | None]:
        """Returns the rows that a layer's cache needs, and its window."""
        return ring(layer.window, max_context, prompt_piece)

    def rows_to_compare(self, max_context: int, length: int) -> int:
        return length

    def layers(self, model: Any) -> list[Layer]:
        """Returns what each layer's attention gets for a single token. Raises Error if the model does not attend
        exactly once in each layer that is not recurrent."""
        own = cache_layers(model)
        _refuse_kinds(model, own)
        calls, n = self._probe(model, own), model.config.num_hidden_layers
        found = {module.layer_idx: layer for module, layer in calls}
        self._recurrent = [recurrence_of(i, layer) for i, layer in enumerate(own) if is_recurrent(layer)]
        seen = {*found, *(i for i, layer in enumerate(own) if is_recurrent(layer) or keeps_nothing(layer))}
        kind = model.config.model_type
        if shared := seen - set(range(n)):
            raise unsupported(f"{kind} attends in layer {min(shared)} of {n}: its layers share attention")
        if len(seen) != n:
            raise unsupported(f"{len(seen)} of the {n} layers of {kind} use transformers' attention interface")
        if len(calls) != len(found):
            raise unsupported(f"{kind} attends {len(calls)} times in {len(found)} layers")
        self._attending = sorted(found)
        return [found[i] for i in self._attending]

    def _probe(self, model: Any, own: list[Any]) -> list[tuple[Any, Layer]]:
        """Runs a token and returns the calls of attention. own: the layers of a cache in which recurrent layers keep
        their first state, [] if there are no recurrent layers."""
        self._holder.probed = []
        token = torch.zeros(1, 1, dtype=torch.int64)
        try:
            cache = _as_cache(Cache(layers=own) if own else None)
            with torch.no_grad():
                model(**called(model, input_ids=token, position_ids=token, **cache))
            return self._holder.probed
        finally:
            self._holder.probed = None

    def new_states(self, batch: int) -> list[RecurrentState]:
        return [RecurrentState(kept, batch) for kept in self._recurrent]

    def check(self, model: Any, kept: Kept) -> None:
        """Does nothing, because the op has the position as a tensor."""

    def logits(self, model: Any, kept: Kept, tokens: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        """Returns logits (B, keep, vocab_size), of all tokens if keep is 0 or the model cannot return fewer."""
        positions = (position + torch.arange(tokens.shape[1]))[None]
        self._holder.of_layer, self._holder.position = dict(zip(self._attending, kept.caches, strict=True)), position
        try:
            with scan_from(model, kept.states) as states:
                cache = _as_cache(states if len(kept.states) else None)
                given = called(model, input_ids=tokens, position_ids=positions, logits_to_keep=keep, **cache)
                logits: torch.Tensor = model(**given).logits
        finally:
            self._holder.of_layer = self._holder.position = None
        return logits


def _as_cache(cache: Any) -> dict[str, Any]:
    """Returns the arguments by which models accept a cache."""
    if cache is None:
        return {"use_cache": False}
    return {"past_key_values": cache, "cache_params": cache, "use_cache": True}


def _refuse_kinds(model: Any, own: list[Any]) -> None:
    """Raises Error for unknown kinds of layers. own: the layers of the model's cache, [] if none is recurrent."""
    types = getattr(model.config, "layer_types", None) or ()
    known = {types[i] for i, layer in enumerate(own) if is_recurrent(layer) or keeps_nothing(layer)}
    if others := set(types) - known - _KNOWN_LAYERS:
        raise unsupported(f"{model.config.model_type} has layers of {', '.join(sorted(others))}")


def _hold(model: Any) -> _Caches:
    """Returns the object that the model's attention modules find. A model has one for all of its caches."""
    modules = [m for m in model.modules() if hasattr(m, "layer_idx")]
    held = (getattr(m, _HOLDER, None) for m in modules)
    holder = next(filter(None, held), None) or _Caches(attention_of(model.config))
    for module in modules:
        object.__setattr__(module, _HOLDER, holder)  # is not registered as a submodule
    return holder


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls. query: (B, n_heads, L, D); key, value: (B, n_kv, L, D), of the
    new tokens. s_aux: (n_heads), a score of each head without a value. Returns the result (B, L, n_heads, Dv), and None
    for the weights."""
    holder = getattr(module, _HOLDER, None)
    if holder is not None and holder.probed is not None:
        _refuse_others(module, attention_mask, others)
        window = sliding_window or _window_of(module)
        holder.probed.append((module, Layer(key.shape[1], key.shape[3], value.shape[3], key.dtype, window)))
        return value.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[3]), None
    if holder is None or holder.of_layer is None:
        raise unsupported("call the model through the module that use_kv_cache returned")
    cache: KVCache = holder.of_layer[module.layer_idx]
    out = cache(query, key, value, holder.position, scaling, softcap, s_aux)
    return out.transpose(1, 2).contiguous(), None  # the layout of transformers' own functions


def _window_of(module: Any) -> int | None:
    """Returns the window of a sliding layer that does not pass it to its attention, or None."""
    kinds = getattr(module.config, "layer_types", None)
    return module.config.sliding_window if kinds and kinds[module.layer_idx] == "sliding_attention" else None


def _refuse_others(module: torch.nn.Module, mask: torch.Tensor | None, others: dict[str, Any]) -> None:
    tensors = [k for k, v in others.items() if isinstance(v, torch.Tensor) and k != "position_ids"]
    if mask is not None:
        tensors.append("attention_mask")
    if not getattr(module, "is_causal", True):
        tensors.append("attention that is not causal")
    if tensors:
        raise unsupported(f"{type(module).__name__} has {', '.join(tensors)}")
