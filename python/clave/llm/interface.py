"""The fast way to a KV cache: transformers' interface for attention functions, and one op that writes and attends.

A model's attention is replaced by name (AttentionInterface), so no module of the model is patched, and it is not asked
for a mask. What the model is called with need not reach that attention: the attention modules know where the caches
are.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface

from clave.llm.layers import KVCache, Layer, called, ring, set_attention, unsupported
from clave.private import attention_of

NAME = "clave_kv_cache"
_HOLDER = "_clave_caches"  # the attribute by which an attention module finds its caches
_KNOWN_LAYERS = {"full_attention", "sliding_attention"}


class _Caches:
    """What the attention of a model finds: the caches by layer, and the position of the tokens, while it is called."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation  # of attention, as the model had it
        self.of_layer: Any = None  # (n_layers) KVCache
        self.position: torch.Tensor | None = None
        self.probed: list[tuple[torch.nn.Module, Layer]] | None = None  # calls of a probe, in their order


class Interface:
    """The model runs with the attention function below; its caches are rings where its layers have windows."""

    name = "attention interface"

    def __init__(self, model: Any) -> None:
        AttentionInterface.register(NAME, _attend)
        self._holder = _hold(model)
        self.original = self._holder.implementation

    def prepare(self, model: Any) -> None:
        set_attention(model, NAME)

    def rows(self, layer: Layer, max_context: int, prompt_piece: int) -> tuple[int, int | None]:
        """The rows that a layer's cache needs, and its window."""
        return ring(layer.window, max_context, prompt_piece)

    def rows_to_compare(self, max_context: int, length: int) -> int:
        return length

    def layers(self, model: Any) -> list[Layer]:
        """What each layer's attention is given for a single token."""
        kind = model.config.model_type
        others = set(getattr(model.config, "layer_types", None) or ()) - _KNOWN_LAYERS
        if others:
            raise unsupported(f"{kind} has layers of {', '.join(sorted(others))}")
        calls, n = self._probe(model), model.config.num_hidden_layers
        found = {module.layer_idx: layer for module, layer in calls}
        if sorted(found) != list(range(n)):
            raise unsupported(f"{len(found)} of the {n} layers of {kind} use transformers' attention interface")
        if len(calls) != n:
            raise unsupported(f"{kind} attends {len(calls)} times in {n} layers")
        return [found[i] for i in range(n)]

    def _probe(self, model: Any) -> list[tuple[Any, Layer]]:
        self._holder.probed = []
        token = torch.zeros(1, 1, dtype=torch.int64)
        try:
            with torch.no_grad():
                model(**called(model, input_ids=token, position_ids=token, use_cache=False))
            return self._holder.probed
        finally:
            self._holder.probed = None

    def check(self, model: Any, caches: Any) -> None:
        """Nothing: the op takes the position as a tensor."""

    def logits(self, model: Any, caches: Any, tokens: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        """(B, keep, vocab_size), of all tokens where keep is 0, or where the model gives no fewer."""
        positions = (position + torch.arange(tokens.shape[1]))[None]
        self._holder.of_layer, self._holder.position = caches, position
        try:
            given = {"position_ids": positions, "use_cache": False, "logits_to_keep": keep}
            logits: torch.Tensor = model(**called(model, input_ids=tokens, **given)).logits
        finally:
            self._holder.of_layer = self._holder.position = None
        return logits


def _hold(model: Any) -> _Caches:
    """What the model's attention modules find; one for all caches that a model is given."""
    modules = [m for m in model.modules() if hasattr(m, "layer_idx")]
    held = (getattr(m, _HOLDER, None) for m in modules)
    holder = next(filter(None, held), None) or _Caches(attention_of(model.config))
    for module in modules:
        object.__setattr__(module, _HOLDER, holder)  # no part of the module
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
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls for attention. query: (B, n_heads, L, D), key, value: (B, n_kv, L, D): the new tokens."""
    holder = getattr(module, _HOLDER, None)
    if holder is not None and holder.probed is not None:
        _refuse_others(module, attention_mask, others)
        window = sliding_window or _window_of(module)
        holder.probed.append((module, Layer(key.shape[1], key.shape[3], value.shape[3], key.dtype, window)))
        return value.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[3]), None
    if holder is None or holder.of_layer is None:
        raise unsupported("call the model through what use_kv_cache returned")
    cache: KVCache = holder.of_layer[module.layer_idx]
    out = cache(query, key, value, holder.position, scaling, softcap)
    return out.transpose(1, 2).contiguous(), None  # as transformers' own are


def _window_of(module: Any) -> int | None:
    """The window of a sliding layer that does not hand it on."""
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
