"""The general way to a KV cache: a transformers.Cache over our buffers, and the model's own attention with a mask.

The model is handed a cache of as many rows as the context is long, of which the mask shows those that are written. How
models ask a cache for its length and where their positions come from differs: WAYS are tried in their order.
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
    """One layer: writes the new rows in place and shows all of them."""

    is_compileable = True
    is_sliding = False

    def __init__(self, cache: KVCache, position: torch.Tensor, length: Any) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = cache.keys, cache.values, True
        self._cache, self._position, self._length = cache, position, length

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the buffers are there."""

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

    get_max_cache_shape = get_max_length  # as older versions of transformers call it


class _WrittenRows(_Rows):
    """One layer that shows the written rows only: their number is a size that a run reads."""

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
def _as_it_is(model: torch.nn.Module) -> Iterator[None]:
    """Takes back what modules meanwhile keep of a call: tables that they make when they first need them."""
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

    own_positions: bool  # it counts positions itself, from the length of the cache, else it is given them
    length: str  # of the cache: "tensor", "zero": no model's business, "size": a number, read by the run


WAYS = (Way(False, "tensor"), Way(False, "zero"), Way(True, "tensor"), Way(True, "zero"), Way(True, "size"))


class General:
    """The model runs as it is, with a cache in place of transformers' own."""

    def __init__(self, implementation: str, way: Way) -> None:
        self.implementation, self.way = implementation, way
        self.name = f"cache ({implementation} attention)"
        # The value of rows that are not written yet when a way is compared with the model. NaN shows every use of them,
        # but a mask does not remove them: eager attention adds it to their scores and multiplies their values by 0,
        # which both stay NaN. With NaN no masked way passes, for any model. A number that large changes the logits of
        # every model that counts or chooses such rows.
        self.unwritten = math.nan if way.length == "size" else 1000.0

    def prepare(self, model: Any) -> None:
        set_attention(model, self.implementation)

    def rows(self, layer: Layer, max_context: int, prompt_piece: int) -> tuple[int, int | None]:
        """One row more where the length is a size: torch takes two tokens or more for the least of any number, and has
        the last position of a single one out of range."""
        return max_context + (self.way.length == "size"), None

    def rows_to_compare(self, max_context: int, length: int) -> int:
        return max_context  # what a model makes of rows that are not written depends on their number

    def layers(self, model: Any) -> list[Layer]:
        """What each layer hands to a cache for a single token."""
        cache, token = DynamicCache(), torch.zeros(1, 1, dtype=torch.int64)
        if "past_key_values" not in called(model, past_key_values=cache):
            raise unsupported(f"{type(model).__name__} takes no cache (past_key_values)")
        try:
            with torch.no_grad():
                model(**called(model, input_ids=token, past_key_values=cache, use_cache=True))
        except Exception as e:
            raise unsupported(f"{type(model).__name__} keeps other than keys and values ({reason_of(e)})") from e
        layers = [self._layer(model, layer) for layer in cache.layers]
        if not layers:
            raise unsupported(f"{type(model).__name__} writes nothing to its cache")
        return layers

    def _layer(self, model: Any, layer: Any) -> Layer:
        k, v = getattr(layer, "keys", None), getattr(layer, "values", None)
        if k is None or v is None or k.dim() != 4 or v.dim() != 4 or k.shape[2] != 1 or v.shape[2] != 1:
            raise unsupported(f"{type(model).__name__} keeps other than a key and a value of each token")
        return Layer(k.shape[1], k.shape[3], v.shape[3], k.dtype)

    def new_states(self, batch: int) -> list[torch.nn.Module]:
        return []

    def check(self, model: Any, kept: Kept) -> None:
        """Error if the model asks for the value of the position while it runs, which would fix it in an export."""
        if self.way.length == "size":
            return
        with _as_it_is(model), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as fakes, quiet:
            tokens, position = (fakes.from_tensor(torch.zeros(s, dtype=torch.int64)) for s in ((1, 2), ()))
            try:
                self.logits(model, kept, tokens, position, 0)
            except DataDependentOutputException as e:
                raise unsupported(f"{type(model).__name__} branches on the cache's length") from e
            except Exception:
                return  # an op that torch has no shapes for, or an error that the comparison meets too

    def logits(self, model: Any, kept: Kept, tokens: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        """(B, keep, vocab_size), of all tokens where keep is 0, or where the model gives no fewer."""
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
