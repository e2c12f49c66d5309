"""Adds a KV cache, or other state, to a Hugging Face causal model. Several ways are tried; the first one whose logits
equal the model's own is used."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from clave import arguments
from clave._extras import install_command
from clave.errors import Code, Error
from clave.llm import limits, multimodal
from clave.llm.layers import Kept, KVCache, Layer, reason_of, set_attention, unsupported
from clave.llm.options import KV, check_capacity, check_options
from clave.private import attention_of, check_version, export_lock

_COMPARED = 12  # tokens


class CachedCausalLM(Kept):
    """forward(tokens, position) returns the logits of the last token, (batch, vocab_size), or of all tokens, (batch, L,
    vocab_size).

    tokens: (batch, L) int64, for the positions position, position + 1, ... position: () int64, or an int. Earlier calls
    have run the tokens before it.

    way: "attention interface"; "cache" and the attention that the model then uses; or "recurrent state" for RWKV.
    reason: why the first way was not used, or None.
    """

    def __init__(
        self,
        model: Any,
        way: Any,
        caches: list[KVCache],
        states: list[torch.nn.Module],
        all_logits: bool,
        reason: str | None,
    ) -> None:
        super().__init__(caches, states)
        self.model = model
        self.all_logits = all_logits
        self.way: str = way.name
        self.reason = reason
        self._way = way

    def forward(self, tokens: torch.Tensor, position: torch.Tensor | int) -> torch.Tensor:
        if not isinstance(position, torch.Tensor):
            position = torch.full((), position, dtype=torch.int64)
        logits: torch.Tensor = self._way.logits(self.model, self, tokens, position, 0 if self.all_logits else 1)
        return logits if self.all_logits else logits[:, -1]


def use_kv_cache(
    model: Any,
    max_context: int,
    *,
    dtype: torch.dtype | None = None,
    batch: int = 1,
    prompt_piece: int = 256,
    all_logits: bool = False,
    long_factors: bool = False,
) -> CachedCausalLM:
    """Returns a transformers causal LM as a module that clave.export accepts: forward(tokens, position), see
    CachedCausalLM.

    The module shares the model's weights. Afterwards the model can only be called through it. For a model that also
    accepts images or sounds, it is the text model.

    max_context: capacity of the cache in tokens. With the attention interface, a layer with a sliding window holds only
    its window and `prompt_piece` - 1 tokens more, because a longer prompt is written to it in pieces of `prompt_piece`
    tokens. dtype: element type of the cache, by default the model's; torch.int8 stores each row with a scale. batch:
    number of texts. all_logits: returns the logits of all tokens, not only of the last. long_factors: RoPE of type
    longrope uses its long factors for texts of every length, as llama.cpp and vLLM do for a long context. Without it,
    max_context is at most the length beyond which transformers uses them.

    The attention interface of transformers is tried first: one op writes to the cache and attends to the written rows.
    A model that does not use the interface, or uses it differently, gets a transformers.Cache over the same buffers and
    attends to all rows itself, with a mask. The first way whose logits of random tokens, run in three pieces, are those
    of the unchanged model is used. Layers of Mamba's kind keep the states of convolutions and recurrences (`states`) in
    their own dtypes.

    Raises Error with the reasons if no way works, and limits.TooLong if max_context exceeds the model's positions or
    the length for which the frequencies of its RoPE are fixed.
    """
    if dtype is not None and (not isinstance(dtype, torch.dtype) or dtype not in KV.values()):
        got = dtype if isinstance(dtype, torch.dtype) else arguments.described(dtype)
        raise Error(f"dtype: expected {', '.join(map(str, KV.values()))} or None, got {got}")
    check_options(None, max_context, prompt_piece)
    batch, all_logits = arguments.integer("batch", batch, 1, 2**31 - 1), arguments.flag("all_logits", all_logits)
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise arguments.refused("model", "a causal language model of transformers", model)
    model = _of_text(model.eval(), max_context)
    ways, before = _ways(model), attention_of(model.config)
    tokens = random_tokens(model.config, max_context)
    limits.fix_rope(model, max_context, long_factors)
    try:
        with export_lock:
            way, layers, reason = _choose(model, ways, tokens, max_context)
    except BaseException:
        set_attention(model, before)
        raise
    rows = [way.rows(layer, max_context, prompt_piece)[0] for layer in layers]
    check_capacity(max_context, sum(batch * r * layer.bytes(dtype) for r, layer in zip(rows, layers, strict=True)))
    if dtype is not None and not layers:
        raise unsupported(
            f"{model.config.model_type} keeps no keys and values, which could be {str(dtype).removeprefix('torch.')}"
        )
    _check_last(model, way, layers, tokens, max_context)
    caches = [_cache_of(way, layer, max_context, prompt_piece, dtype or layer.dtype, batch) for layer in layers]
    return CachedCausalLM(model, way, caches, way.new_states(batch), all_logits, reason)


def _check_last(model: Any, way: Any, layers: list[Layer], tokens: torch.Tensor, max_context: int) -> None:
    """Raises limits.TooLong if the model has no position for the last token of the context."""
    caches = [_cache_of(way, layer, max_context, 1, layer.dtype, 1) for layer in layers]
    kept = Kept(caches, way.new_states(1))

    def run(position: int) -> None:
        way.logits(model, kept, tokens[:, :1], torch.tensor(position), 1)

    with export_lock:
        limits.check_last(run, model.config.model_type, tokens.shape[1], max_context)


def _of_text(model: Any, max_context: int) -> Any:
    """Returns the model, or its text model if it accepts more than text. Raises Error if it is not a decoder."""
    try:
        multimodal.check_decoder(model.config)
    except Error as e:
        raise unsupported(str(e)) from None
    if not multimodal.has_more_than_text(model.config):
        return model
    text = multimodal.text_model(model)
    multimodal.match(model, text, random_tokens(text.config, max_context))
    return text


def _ways(model: Any) -> list[Any]:
    """Returns the ways in the order in which they are tried."""
    try:
        import transformers

        check_version("transformers", transformers.__version__)
        from clave.llm import general, interface, rwkv
    except ModuleNotFoundError as e:
        raise Error(f"use_kv_cache needs {e.name}: {install_command('llm')}", Code.UNSUPPORTED) from e
    if model.config.model_type == "rwkv":
        return [rwkv.Rwkv(model)]
    fast = interface.Interface(model)
    implementations = dict.fromkeys((fast.original, "eager"))
    return [fast, *(general.General(i, w) for i in implementations for w in general.WAYS)]


def _choose(model: Any, ways: list[Any], tokens: torch.Tensor, max_context: int) -> tuple[Any, list[Layer], str | None]:
    """Returns the first way whose logits equal the model's, its layers, and the reason why the first of all ways
    failed, or None."""
    reasons: list[str] = []
    set_attention(model, ways[0].original)
    want = _own_logits(model, tokens)
    of_small = _logits_of_small_windows(model, tokens)
    for way in ways:
        try:
            if of_small is not None:
                with limits.small_windows(model, tokens.shape[1]):
                    _try(model, way, tokens, of_small, max_context)
            layers = _try(model, way, tokens, want, max_context)
        except Exception as e:  # the model's own, of any kind
            reasons.append(reason_of(e))
        else:
            return way, layers, reasons[0] if reasons else None
    parts = dict.fromkeys(reasons)
    raise unsupported(f"{type(model).__name__}: {'; '.join(parts)}")


def _cache_of(way: Any, layer: Layer, max_context: int, prompt_piece: int, dtype: torch.dtype, batch: int) -> KVCache:
    rows, window = way.rows(layer, max_context, prompt_piece)
    return KVCache(layer.n_kv, rows, layer.key_size, layer.value_size, dtype=dtype, window=window, batch=batch)


# ---------------------------------------------------------------- comparison with the model as it was


def random_tokens(config: Any, max_context: int) -> torch.Tensor:
    """Returns random tokens (1, L). None of them is the padding, for which some models have no position."""
    config = config.get_text_config()
    length = min(_COMPARED, max_context, getattr(config, "max_position_embeddings", None) or _COMPARED)
    tokens = torch.randint(config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    padding = getattr(config, "pad_token_id", None)
    return tokens if padding is None else torch.where(tokens == padding, (padding + 1) % config.vocab_size, tokens)


def _own_logits(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the logits of the unchanged model, (1, L, vocab_size) f64."""
    try:
        with torch.no_grad():
            return model(input_ids=tokens, use_cache=False).logits.double()
    except Exception as e:  # the model's own, of any kind
        raise unsupported(
            f"{type(model).__name__} returns no logits of {tokens.shape[1]} tokens: {reason_of(e)}"
        ) from e


def _pieces(length: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges of the first half, a single token, and the rest."""
    cuts = sorted({0, (length + 1) // 2, min((length + 1) // 2 + 1, length), length})
    yield from pairwise(cuts)


def _logits_of_small_windows(model: Any, tokens: torch.Tensor) -> torch.Tensor | None:
    """Returns the logits with small windows, or None if the tokens cross all windows already or the model does not
    accept smaller ones."""
    with limits.small_windows(model, tokens.shape[1]) as crossed:
        try:
            return _own_logits(model, tokens) if crossed else None
        except Error:
            return None


def _try(model: Any, way: Any, tokens: torch.Tensor, want: torch.Tensor, max_context: int) -> list[Layer]:
    """Returns the model's layers. Raises Error if its logits differ with a cache, in pieces.

    The tolerance, 2 % of the largest logit and 10 % in 16 bits, is for rounding in many layers. A token at a wrong
    position, or with another token's keys, changes logits by about their own size.
    """
    way.prepare(model)
    layers = way.layers(model)
    length = tokens.shape[1]
    rows, longest = way.rows_to_compare(max_context, length), max(end - at for at, end in _pieces(length))
    caches = [_cache_of(way, layer, rows, longest, layer.dtype, 1) for layer in layers]
    for cache in caches:
        cache.keys.fill_(way.unwritten)
        cache.values.fill_(way.unwritten)
    kept = Kept(caches, way.new_states(1))
    way.check(model, kept)
    with torch.no_grad():
        got = [way.logits(model, kept, tokens[:, at:end], torch.tensor(at), 0) for at, end in _pieces(length)]
    difference, largest = (torch.cat(got, 1).double() - want).abs().max(), want.abs().max()
    wide = next(model.parameters()).dtype in (torch.float32, torch.float64)
    if not difference <= (0.02 if wide else 0.1) * largest:
        raise unsupported(f"{way.name} returns other logits, off by {difference:.3g} of {largest:.3g}")
    return layers
