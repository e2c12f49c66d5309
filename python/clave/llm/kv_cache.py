"""A Hugging Face causal model with its KV cache, or other state, inside: which way it goes through is decided by
comparing logits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from clave import arguments
from clave.errors import Code, Error
from clave.llm.layers import Kept, KVCache, Layer, reason_of, set_attention, unsupported
from clave.llm.options import KV, check_options, check_room
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
) -> CachedCausalLM:
    """A transformers causal LM as a module that clave.export takes: forward(tokens, position), see CachedCausalLM.

    Its weights are the model's own, and the model can only be called through it from then on.
    max_context: tokens that the cache holds. Where the model goes through the attention interface, layers with a
    sliding window hold fewer: their window and `prompt_piece` more, as a longer prompt is written to them in pieces of
    that many tokens.
    dtype: of the cache, default the model's; torch.int8 stores each row with a scale.

    The attention interface of transformers is tried first: one op writes to the cache and attends to what is written.
    A model that does not use it, or uses it otherwise, is handed a transformers.Cache over the same buffers and attends
    itself, to all rows, with a mask. Random tokens in three pieces decide: the first way that gives the logits of the
    model as it was is taken. Error if there is none, with what is in the way.
    Layers of Mamba's kind keep the states of convolutions and recurrences (`states`), of the types that they have.
    """
    if dtype is not None and (not isinstance(dtype, torch.dtype) or dtype not in KV.values()):
        got = dtype if isinstance(dtype, torch.dtype) else arguments.described(dtype)
        raise Error(f"dtype: expected {', '.join(map(str, KV.values()))} or None, got {got}")
    check_options(None, max_context, prompt_piece)
    batch, all_logits = arguments.integer("batch", batch, 1, 2**31 - 1), arguments.flag("all_logits", all_logits)
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise arguments.refused("model", "a causal language model of transformers", model)
    ways, model = _ways(model), model.eval()
    tokens, before = _random_tokens(model.config, max_context), attention_of(model.config)
    _settle_rope(model, max_context)
    try:
        with alone:
            way, layers, reason = _choose(model, ways, tokens, max_context)
    except BaseException:
        set_attention(model, before)
        raise
    rows = [way.rows(layer, max_context, prompt_piece)[0] for layer in layers]
    check_room(max_context, sum(batch * r * layer.bytes(dtype) for r, layer in zip(rows, layers, strict=True)))
    if dtype is not None and not layers:
        raise unsupported(
            f"{model.config.model_type} keeps no keys and values, which could be {str(dtype).removeprefix('torch.')}"
        )
    caches = [_cache_of(way, layer, max_context, prompt_piece, dtype or layer.dtype, batch) for layer in layers]
    return CachedCausalLM(model, way, caches, way.new_states(batch), all_logits, reason)


def _ways(model: Any) -> list[Any]:
    """In the order in which they are tried."""
    try:
        import transformers

        check_version("transformers", transformers.__version__)
        from clave.llm import general, interface, rwkv
    except ModuleNotFoundError as e:
        raise Error("use_kv_cache needs transformers: pip install clave[llm]", Code.UNSUPPORTED) from e
    if model.config.model_type == "rwkv":
        return [rwkv.Rwkv(model)]
    fast = interface.Interface(model)
    implementations = dict.fromkeys((fast.original, "eager"))
    return [fast, *(general.General(i, w) for i in implementations for w in general.WAYS)]


def _settle_rope(model: Any, max_context: int) -> None:
    """Frequencies that grow with the text stay as they are where no text is so long that they would.

    Error where one can be: the keys in the cache are turned by those of a shorter text.
    """
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        if not isinstance(kind, str) or "dynamic" not in kind:
            continue
        longest = module.original_max_seq_len
        if max_context > longest:
            raise unsupported(
                f"{model.config.model_type} has rope of type {kind}: beyond {longest} tokens the frequencies depend on "
                f"the length of the text; expected max_context at most {longest}, not {max_context}"
            )
        module.rope_type = "settled"


def _choose(model: Any, ways: list[Any], tokens: torch.Tensor, max_context: int) -> tuple[Any, list[Layer], str | None]:
    """The first way whose logits are the model's, its layers, and why it is not the very first."""
    set_attention(model, ways[0].original)
    want, reasons = _logits(model, tokens), []
    for way in ways:
        try:
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


def _random_tokens(config: Any, max_context: int) -> torch.Tensor:
    """(1, L), none of them the padding, which some models give no position."""
    length = min(_COMPARED, max_context, getattr(config, "max_position_embeddings", None) or _COMPARED)
    tokens = torch.randint(config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    padding = getattr(config, "pad_token_id", None)
    return tokens if padding is None else torch.where(tokens == padding, (padding + 1) % config.vocab_size, tokens)


def _logits(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits.double()


def _pieces(length: int) -> Iterator[tuple[int, int]]:
    """The first half, a single token, the rest."""
    cuts = sorted({0, (length + 1) // 2, min((length + 1) // 2 + 1, length), length})
    yield from pairwise(cuts)


def _try(model: Any, way: Any, tokens: torch.Tensor, want: torch.Tensor, max_context: int) -> list[Layer]:
    """The model's layers; Error if it gives other logits with a cache, in pieces.

    2 % of the largest, in 16 bits 10 %, is for rounding in many layers: a token in another's place, or another's keys,
    are off by about as much as the logits are large.
    """
    way.prepare(model)
    layers = way.layers(model)
    rows, length = way.rows_to_compare(max_context, tokens.shape[1]), tokens.shape[1]
    caches = [_cache_of(way, layer, rows, length, layer.dtype, 1) for layer in layers]
    kept = Kept(caches, way.new_states(1))
    way.check(model, kept)
    with torch.no_grad():
        got = [way.logits(model, kept, tokens[:, at:end], torch.tensor(at), 0) for at, end in _pieces(length)]
    difference, largest = (torch.cat(got, 1).double() - want).abs().max(), want.abs().max()
    wide = next(model.parameters()).dtype in (torch.float32, torch.float64)
    if not difference <= (0.02 if wide else 0.1) * largest:
        raise unsupported(f"{way.name} gives other logits, off by {difference:.3g} of {largest:.3g}")
    return layers
