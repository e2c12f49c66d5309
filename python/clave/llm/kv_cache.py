"""A Hugging Face causal model with its KV cache inside: buffers, and one op that writes to them and attends.

transformers lets a model's attention be replaced by name (AttentionInterface), so no module of the model is patched,
and it is not asked for a mask. What the model is called with need not reach that attention: the attention modules know
where the caches are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from clave.errors import Code, Error
from clave.ops import sdpa_with_kv_cache

NAME = "clave_kv_cache"
_HOLDER = "_clave_caches"  # the attribute by which an attention module finds its caches
_COMPARED = 12  # tokens
_KNOWN_LAYERS = {"full_attention", "sliding_attention"}


class KVCache(torch.nn.Module):
    """Keys and values of one layer: (batch, n_kv, rows, size) of a float dtype or int8, which adds (batch, n_kv, rows).

    window: each token sees only so many, itself included, and the rows are a ring; None: all, and rows are the context.
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
    ) -> torch.Tensor:
        """Attention of the tokens at position, position + 1, ...: see clave.ops.sdpa_with_kv_cache."""
        scales = (self.key_scale, self.value_scale)
        return sdpa_with_kv_cache(q, k, v, self.keys, self.values, position, *scales, self.window, scale, softcap)


class _Caches:
    """What the attention of a model finds: the caches by layer, and the position of the tokens, while it is called."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation  # of attention, as the model had it
        self.of_layer: Any = None  # (n_layers) KVCache
        self.position: torch.Tensor | None = None
        self.probed: list[tuple[torch.nn.Module, _Layer]] | None = None  # calls of a probe, in their order


class CachedCausalLM(torch.nn.Module):
    """forward(tokens, position): the logits of the last token, (batch, vocab_size), or of all, (batch, L, vocab_size).

    tokens: (batch, L) int64, that stand at position, position + 1, ...; position: () int64, or an int. What stands
    before is what earlier calls were given.
    """

    def __init__(self, model: Any, holder: _Caches, caches: list[KVCache], all_logits: bool) -> None:
        super().__init__()
        self.model = model
        self.caches = torch.nn.ModuleList(caches)
        self.all_logits = all_logits
        self._holder = holder

    def forward(self, tokens: torch.Tensor, position: torch.Tensor | int) -> torch.Tensor:
        if not isinstance(position, torch.Tensor):
            position = torch.full((), position, dtype=torch.int64)
        position_ids = (position + torch.arange(tokens.shape[1]))[None]
        keep = 0 if self.all_logits else 1
        self._holder.of_layer, self._holder.position = self.caches, position
        try:
            logits = self.model(
                input_ids=tokens, position_ids=position_ids, use_cache=False, logits_to_keep=keep
            ).logits
        finally:
            self._holder.of_layer = self._holder.position = None
        return logits if self.all_logits else logits[:, -1]


@dataclass
class _Layer:
    """What a layer's attention is given."""

    n_kv: int
    key_size: int
    value_size: int
    dtype: torch.dtype
    window: int | None


def use_kv_cache(
    model: Any,
    max_context: int,
    *,
    dtype: torch.dtype | None = None,
    batch: int = 1,
    prompt_piece: int = 256,
    all_logits: bool = False,
) -> CachedCausalLM:
    """A transformers causal LM as a module that clave.export takes: forward(tokens, position), see CachedCausalLM.

    Its weights are the model's own, and the model can only be called through it from then on.
    max_context: tokens that the cache holds. Layers with a sliding window hold fewer: their window and `prompt_piece`
    more, as a longer prompt is written to them in pieces of that many tokens.
    dtype: of the cache, default the model's; torch.int8 stores each row with a scale.

    Error if the model does more than attend to the tokens before, all of them or the last ones: other kinds of layers,
    attention sinks, a mask of its own; or if it gives other logits for random tokens in two pieces than as it was.
    """
    _register()
    _refuse_other_layers(model.config)
    model.eval()
    tokens, before, holder = _random_tokens(model.config, max_context), model.config._attn_implementation, _hold(model)
    model.set_attn_implementation(NAME)
    try:
        layers = _probe(model, holder)
        model.set_attn_implementation(holder.implementation)
        want = _logits(model, tokens)
        model.set_attn_implementation(NAME)
        _compare(model, holder, layers, tokens, want)
    except BaseException:
        model.set_attn_implementation(before)
        raise
    caches = [_cache_of(layer, max_context, prompt_piece, dtype, batch) for layer in layers]
    return CachedCausalLM(model, holder, caches, all_logits)


def _cache_of(layer: _Layer, max_context: int, prompt_piece: int, dtype: torch.dtype | None, batch: int) -> KVCache:
    window = None if layer.window is None or layer.window >= max_context else layer.window
    rows = max_context if window is None else min(max_context, window + max(prompt_piece, 1) - 1)
    sizes = (layer.n_kv, rows, layer.key_size, layer.value_size)
    return KVCache(*sizes, dtype=dtype or layer.dtype, window=window, batch=batch)


def _unsupported(message: str) -> Error:
    return Error(f"use_kv_cache: {message}", Code.UNSUPPORTED)


def _refuse_other_layers(config: Any) -> None:
    kinds = set(getattr(config, "layer_types", None) or ()) - _KNOWN_LAYERS
    if kinds:
        raise _unsupported(f"{config.model_type} has layers of {', '.join(sorted(kinds))}")


def _hold(model: Any) -> _Caches:
    """What the model's attention modules find; one for all caches that a model is given."""
    modules = [m for m in model.modules() if hasattr(m, "layer_idx")]
    held = (getattr(m, _HOLDER, None) for m in modules)
    holder = next(filter(None, held), None) or _Caches(model.config._attn_implementation)
    for module in modules:
        object.__setattr__(module, _HOLDER, holder)  # no part of the module
    return holder


def _probe(model: Any, holder: _Caches) -> list[_Layer]:
    """What each layer's attention is given for a single token."""
    holder.probed = []
    token = torch.zeros(1, 1, dtype=torch.int64)
    with torch.no_grad():
        model(input_ids=token, position_ids=token, use_cache=False)
    calls, holder.probed = holder.probed, None
    n, kind = model.config.num_hidden_layers, model.config.model_type
    found = {module.layer_idx: layer for module, layer in calls}
    if sorted(found) != list(range(n)):
        raise _unsupported(f"{len(found)} of the {n} layers of {kind} use transformers' attention interface")
    if len(calls) != n:
        raise _unsupported(f"{kind} attends {len(calls)} times in {n} layers: a cache is of one attention")
    return [found[i] for i in range(n)]


# ---------------------------------------------------------------- comparison with the model as it was


def _random_tokens(config: Any, max_context: int) -> torch.Tensor:
    """(1, L), none of them the padding, which some models give no position."""
    length = min(_COMPARED, max_context, getattr(config, "max_position_embeddings", None) or _COMPARED)
    tokens = torch.randint(config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    padding = getattr(config, "pad_token_id", None)
    return tokens if padding is None else torch.where(tokens == padding, (padding + 1) % config.vocab_size, tokens)


def _logits(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits.double()


def _compare(model: Any, holder: _Caches, layers: list[_Layer], tokens: torch.Tensor, want: torch.Tensor) -> None:
    """Refuses a model that gives other logits with a cache, in two pieces.

    2 % of the largest, in 16 bits 10 %, is for rounding in many layers: a token in another's place, or another's keys,
    are off by about as much as the logits are large.
    """
    length = tokens.shape[1]
    cached = CachedCausalLM(model, holder, [_cache_of(layer, length, length, None, 1) for layer in layers], True)
    cut = (length + 1) // 2
    with torch.no_grad():
        pieces = [cached(tokens[:, at:end], at) for at, end in ((0, cut), (cut, length)) if at < end]
    difference, largest = (torch.cat(pieces, 1).double() - want).abs().max(), want.abs().max()
    wide = layers[0].dtype in (torch.float32, torch.float64)
    if not difference <= (0.02 if wide else 0.1) * largest:
        raise _unsupported(
            f"{type(model).__name__} gives other logits with a cache (off by {difference:.3g} of {largest:.3g}): it "
            "makes more of its tokens than attention to those before them"
        )


def _register() -> None:
    try:
        from transformers import AttentionInterface
    except ModuleNotFoundError as e:
        raise Error("use_kv_cache needs transformers: pip install clave[llm]", Code.UNSUPPORTED) from e
    AttentionInterface.register(NAME, _attend)


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
        holder.probed.append((module, _Layer(key.shape[1], key.shape[3], value.shape[3], key.dtype, window)))
        return value.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[3]), None
    if holder is None or holder.of_layer is None:
        raise _unsupported("call the model through what use_kv_cache returned")
    out = holder.of_layer[module.layer_idx](query, key, value, holder.position, scaling, softcap)
    return out.transpose(1, 2).contiguous(), None  # as transformers' own are


def _window_of(module: torch.nn.Module) -> int | None:
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
        raise _unsupported(f"{type(module).__name__} has {', '.join(tensors)}")
