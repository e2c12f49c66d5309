"""A Hugging Face causal model with its KV cache, or other state, inside: which way it goes through is decided by
comparing logits."""

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
from clave.private import alone, attention_of, check_version

_COMPARED = 12  # tokens


class CachedCausalLM(Kept):
    """forward(tokens, position): the logits of the last token, (batch, vocab_size), or of all, (batch, L, vocab_size).

    tokens: (batch, L) int64, that stand at position, position + 1, ...; position: () int64, or an int. What stands
    before is what earlier calls were given.

    way: "attention interface", "cache" and the attention that the model then has, or, for RWKV, "recurrent state";
    reason: why not the first, or None.
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
    """A transformers causal LM as a module that clave.export takes: forward(tokens, position), see CachedCausalLM.

    Its weights are the model's own, and the model can only be called through it from then on. Of a model that takes
    images or sounds, too, it is the text model.
    max_context: tokens that the cache holds. Where the model goes through the attention interface, layers with a
    sliding window hold fewer: their window and `prompt_piece` more, as a longer prompt is written to them in pieces of
    that many tokens.
    dtype: of the cache, default the model's; torch.int8 stores each row with a scale.
    long_factors: rope of type longrope turns texts of every length by its long factors, as llama.cpp and vLLM do for
    a long context. Without it max_context may be at most the length from which transformers takes them.

    The attention interface of transformers is tried first: one op writes to the cache and attends to what is written.
    A model that does not use it, or uses it otherwise, is handed a transformers.Cache over the same buffers and attends
    itself, to all rows, with a mask. Random tokens in three pieces decide: the first way that gives the logits of the
    model as it was is taken. Error if there is none, with what is in the way; limits.TooLong if max_context is more
    than the model has positions for, or its rope settled frequencies.
    Layers of Mamba's kind keep the states of convolutions and recurrences (`states`), of the types that they have.
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
    limits.settle(model, max_context, long_factors)
    try:
        with alone:
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
    """limits.TooLong if a token at the last position is more than the model has positions for."""
    caches = [_cache_of(way, layer, max_context, 1, layer.dtype, 1) for layer in layers]
    kept = Kept(caches, way.new_states(1))

    def run(position: int) -> None:
        way.logits(model, kept, tokens[:, :1], torch.tensor(position), 1)

    with alone:
        limits.check_last(run, model.config.model_type, tokens.shape[1], max_context)


def _of_text(model: Any, max_context: int) -> Any:
    """The model, or the text model of one that takes more. Error: it is no decoder."""
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
    """In the order in which they are tried."""
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
    """The first way whose logits are the model's, its layers, and why it is not the very first."""
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
    """(1, L), none of them the padding, which some models give no position."""
    config = config.get_text_config()
    length = min(_COMPARED, max_context, getattr(config, "max_position_embeddings", None) or _COMPARED)
    tokens = torch.randint(config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    padding = getattr(config, "pad_token_id", None)
    return tokens if padding is None else torch.where(tokens == padding, (padding + 1) % config.vocab_size, tokens)


def _own_logits(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Those of the model as it was."""
    try:
        with torch.no_grad():
            return model(input_ids=tokens, use_cache=False).logits.double()
    except Exception as e:  # the model's own, of any kind
        raise unsupported(f"{type(model).__name__} gives no logits of {tokens.shape[1]} tokens: {reason_of(e)}") from e


def _pieces(length: int) -> Iterator[tuple[int, int]]:
    """The first half, a single token, the rest."""
    cuts = sorted({0, (length + 1) // 2, min((length + 1) // 2 + 1, length), length})
    yield from pairwise(cuts)


def _logits_of_small_windows(model: Any, tokens: torch.Tensor) -> torch.Tensor | None:
    """None where the tokens cross all windows as they are, or the model takes no smaller ones."""
    with limits.small_windows(model, tokens.shape[1]) as crossed:
        try:
            return _own_logits(model, tokens) if crossed else None
        except Error:
            return None


def _try(model: Any, way: Any, tokens: torch.Tensor, want: torch.Tensor, max_context: int) -> list[Layer]:
    """The model's layers; Error if it gives other logits with a cache, in pieces.

    2 % of the largest, in 16 bits 10 %, is for rounding in many layers: a token in another's place, or another's keys,
    are off by about as much as the logits are large.
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
        raise unsupported(f"{way.name} gives other logits, off by {difference:.3g} of {largest:.3g}")
    return layers
