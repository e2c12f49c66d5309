"""The general way to a KV cache: a transformers.Cache over clave's buffers, and the model's own attention with a mask.

The cache has a row for each token of the context, and the mask shows the rows that are written. Models differ in how
they read the length of a cache, and in where their positions come from, so WAYS are tried in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from clave.llm.layers import Kept, KVCache, Layer, called, reason_of, set_attention, unsupported
from clave.private import DataDependentOutputException, FakeTensorMode, buffers_of
from clave.quiet import quiet


class _Rows(CacheLayerMixin):
    """One layer of the cache. It writes new rows in place and returns all rows."""

    is_compileable = True
    is_sliding = False

    def __init__(self, cache: KVCache, position: torch.Tensor, length: Any) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = cache.keys, cache.values, True
        self._cache, self._position, self._length = cache, position, length

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Does nothing, because the buffers exist."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        positions = self._position + torch.arange(key_states.shape[2])
        return self._cache.write(key_states, value_states, positions)

    def get_mask_sizes(self, query_length: Any) -> tuple[Any, int]:
        return self._cache.keys.shape[2], 0

    def get_seq_length(self) -> Any:
        return self._length

    def get_max_length(self) -> int:
        return self._cache.keys.shape[2]

    get_max_cache_shape = get_max_length  # its name in older versions of transformers


class _WrittenRows(_Rows):
    """One layer of the cache that returns only the written rows. Their number is a size that is read at run time."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = super().update(key_states, value_states)
        end = self._length + key_states.shape[2]
        return keys.narrow(2, 0, end), values.narrow(2, 0, end)

    def get_mask_sizes(self, query_length: Any) -> tuple[Any, int]:
        return self._length + query_length, 0


class _State(Cache):
    def __init__(self, layers: list[Any], offset: Any) -> None:
        super().__init__(layers=layers)
        self._offset = offset

    def get_query_offset(self, layer_idx: int = 0) -> Any:
        return self._offset


@contextmanager
def _restored(model: torch.nn.Module) -> Iterator[None]:
    """Restores the modules' attributes and buffers after the block, such as tables that a module makes in a call."""
    kept = [(m, dict(m.__dict__), dict(buffers_of(m))) for m in model.modules()]
    try:
        yield
    finally:
        for module, attributes, buffers in kept:
            for current, before in ((module.__dict__, attributes), (buffers_of(module), buffers)):
                current.clear()
                current.update(before)


@dataclass(frozen=True)
class Way:
    """How a model is called with a cache."""

    own_positions: bool  # the model counts positions from the length of the cache; otherwise it gets them
    length: str  # length of the cache that the model sees: "tensor"; "zero"; "size", a number that is read at run time


WAYS = (Way(False, "tensor"), Way(False, "zero"), Way(True, "tensor"), Way(True, "zero"), Way(True, "size"))


class General:
    """Runs the model unchanged, with a cache in place of transformers' own."""

    def __init__(self, implementation: str, way: Way) -> None:
        self.implementation, self.way = implementation, way
        self.name = f"cache ({implementation} attention)"
        # The value of unwritten rows when a way is compared with the model. NaN would reveal every use of such a row,
        # but no way with a mask would pass for any model: eager attention adds the mask to the rows' scores and
        # multiplies their values by 0, and NaN survives both. A large number changes the logits of every model that
        # counts or selects such rows.
        self.unwritten = math.nan if way.length == "size" else 1000.0

    def prepare(self, model: Any) -> None:
        set_attention(model, self.implementation)

    def rows(self, layer: Layer, max_context: int, prompt_piece: int) -> tuple[int, int | None]:
        """Returns the rows that a layer's cache needs, and no window. If the length is a size, there is one more row:
        torch assumes at least two tokens for any number, which puts the last position of a single one out of range."""
        return max_context + (self.way.length == "size"), None

    def rows_to_compare(self, max_context: int, length: int) -> int:
        return max_context  # all rows, because the effect of unwritten ones may depend on their number

    def layers(self, model: Any) -> list[Layer]:
        """Returns what each layer writes to a cache for a single token. Raises Error if it is not keys and values."""
        cache, token = DynamicCache(), torch.zeros(1, 1, dtype=torch.int64)
        if "past_key_values" not in called(model, past_key_values=cache):
            raise unsupported(f"{type(model).__name__} accepts no cache (past_key_values)")
        try:
            with torch.no_grad():
                model(**called(model, input_ids=token, past_key_values=cache, use_cache=True))
        except Exception as e:
            raise unsupported(f"{type(model).__name__} keeps state other than keys and values ({reason_of(e)})") from e
        layers = [self._layer(model, layer) for layer in cache.layers]
        if not layers:
            raise unsupported(f"{type(model).__name__} writes nothing to its cache")
        return layers

    def _layer(self, model: Any, layer: Any) -> Layer:
        k, v = getattr(layer, "keys", None), getattr(layer, "values", None)
        if k is None or v is None or k.dim() != 4 or v.dim() != 4 or k.shape[2] != 1 or v.shape[2] != 1:
            raise unsupported(f"{type(model).__name__} keeps state other than a key and a value of each token")
        return Layer(k.shape[1], k.shape[3], v.shape[3], k.dtype)

    def new_states(self, batch: int) -> list[torch.nn.Module]:
        return []

    def check(self, model: Any, kept: Kept) -> None:
        """Raises Error if the model reads the value of the position while it runs, which would fix it in an export."""
        if self.way.length == "size":
            return
        with _restored(model), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as fakes, quiet:
            tokens, position = (fakes.from_tensor(torch.zeros(s, dtype=torch.int64)) for s in ((1, 2), ()))
            try:
                self.logits(model, kept, tokens, position, 0)
            except DataDependentOutputException as e:
                raise unsupported(f"{type(model).__name__} branches on the cache's length") from e
            except Exception:
                return  # an op without a shape rule in torch, or an error that the comparison finds, too

    def logits(self, model: Any, kept: Kept, tokens: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        """Returns logits (B, keep, vocab_size), of all tokens if keep is 0 or the model cannot return fewer."""
        caches: Any = kept.caches
        rows, n = caches[0].keys.shape[2], tokens.shape[1]
        given: dict[str, Any] = {"use_cache": True, "logits_to_keep": keep}
        if self.way.length == "size":
            layers, offset = self._sized(caches, position, n)
        else:
            offset = position
            length = position if self.way.length == "tensor" else 0
            layers = [_Rows(cache, position, length) for cache in caches]
            written = (torch.arange(rows) < position + n).to(torch.int64)
            given["attention_mask"] = written[None].expand(tokens.shape[0], -1)
        if not self.way.own_positions:
            given["position_ids"] = (position + torch.arange(n))[None]
        given["past_key_values"] = _State(layers, offset)
        logits: torch.Tensor = model(**called(model, input_ids=tokens, **given)).logits
        return logits

    def _sized(self, caches: Any, position: torch.Tensor, n: int) -> tuple[list[Any], Any]:
        at, rows = position.item(), caches[0].keys.shape[2]
        torch._check(at >= 0)
        torch._check(at + n <= rows)
        return [_WrittenRows(cache, position, at) for cache in caches], at
