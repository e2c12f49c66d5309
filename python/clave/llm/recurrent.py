"""Handles state that does not grow with the tokens: the states of convolutions and scans in transformers' state space
layers.

The model gets a cache that has them in buffers. Its layers scan a prompt token by token in Python, from an empty state.
Here they call `clave.ops.ssm_scan` instead, which continues from the state in the buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional as fn
from transformers.cache_utils import Cache, DummyLayer, DynamicCache, LinearAttentionCacheLayerMixin

from clave.llm.layers import unsupported
from clave.ops import ssm_scan
from clave.private import replaced_functions


@dataclass
class Recurrence:
    """The states of a layer: shapes for a batch of one, and dtypes, by the number of the state in the layer."""

    index: int
    conv: dict[int, tuple[torch.Size, torch.dtype]]  # (1, channels, earlier tokens that the convolution reads)
    scan: dict[int, tuple[torch.Size, torch.dtype]]  # (1, n_heads, P, N)


class RecurrentState(torch.nn.Module):
    """The states of one layer as buffers: conv_0, scan_0, ..."""

    def __init__(self, kept: Recurrence, batch: int = 1) -> None:
        super().__init__()
        self.index = kept.index
        for name, states in (("conv", kept.conv), ("scan", kept.scan)):
            for i, (shape, dtype) in states.items():
                self.register_buffer(f"{name}_{i}", torch.zeros(batch, *shape[1:], dtype=dtype), persistent=False)


def cache_layers(model: Any) -> list[Any]:
    """Returns the layers of transformers' cache for the model if one is recurrent, otherwise []."""
    if not getattr(model.config, "layer_types", None):
        return []
    try:
        layers = DynamicCache(config=model.config).layers
    except Exception:  # a model without a cache of its own
        return []
    return layers if any(map(is_recurrent, layers)) else []


def is_recurrent(layer: Any) -> bool:
    """True for a recurrent layer of a cache."""
    return isinstance(layer, LinearAttentionCacheLayerMixin)


def keeps_nothing(layer: Any) -> bool:
    return isinstance(layer, DummyLayer)


def recurrence_of(index: int, layer: Any) -> Recurrence:
    """Returns the states of a recurrent layer. layer: a layer of a cache that has seen a token."""
    conv = {i: (torch.Size((*s.shape[:-1], s.shape[-1] - 1)), s.dtype) for i, s in layer.conv_states.items() if _is(s)}
    scan = {i: (_with_rows(s.shape), torch.float32) for i, s in layer.recurrent_states.items() if _is(s)}
    return Recurrence(index, conv, scan)


def _is(state: torch.Tensor | None) -> bool:
    return state is not None


def _with_rows(shape: torch.Size) -> torch.Size:
    """Returns the shape (1, n_heads, P, N), with P = 1 for (1, n_heads, N)."""
    return torch.Size((*shape[:2], 1, shape[2])) if len(shape) == 3 else shape


class States(Cache):
    """The cache of a call. It returns keys and values unchanged, because attention has its own caches."""

    def __init__(self, states: Iterable[RecurrentState]) -> None:
        super().__init__(layers=[])
        self._states = {s.index: s for s in states}
        self.any = bool(self._states)
        self.scanned: torch.Tensor | None = None  # the state of the layer that runs

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return keys, values

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> None:
        """Returns None, as in a first call, so that the layer runs its code for any number of tokens."""
        return None

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> None:
        self.scanned = getattr(self._states[layer_idx], f"scan_{state_idx}")
        return None

    def update_conv_state(
        self, conv_states: torch.Tensor, layer_idx: int, state_idx: int = 0, **_: Any
    ) -> torch.Tensor:
        """Returns conv_states (B, channels, L) after the earlier tokens that are kept, and keeps the last ones."""
        before = getattr(self._states[layer_idx], f"conv_{state_idx}")
        seen = torch.cat([before, conv_states], -1)
        before.copy_(seen[..., conv_states.shape[-1] :])
        return seen

    def update_recurrent_state(
        self, states: torch.Tensor, layer_idx: int, state_idx: int = 0, **_: Any
    ) -> torch.Tensor:
        if states is not self.scanned:
            raise unsupported(f"layer {layer_idx} keeps a state that is not of Mamba's kind")
        return states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int | None = None) -> bool:
        return False

    def is_recording_past(self, layer_idx: int) -> bool:
        return False


@contextmanager
def scan_from(model: Any, states: Iterable[RecurrentState]) -> Iterator[States]:
    """Within the block, the model scans from these states if it is called with the cache that is yielded."""
    cache = States(states)
    if not cache.any:
        yield cache
        return
    functions = {"mamba_selective_scan": _selective_scan, "mamba2_chunk_scan": _chunk_scan}
    with replaced_functions(model, {name: partial(f, cache) for name, f in functions.items()}):
        yield cache


def _step(dt: torch.Tensor, bias: torch.Tensor | None, softplus: bool) -> torch.Tensor:
    dt = dt.float() if bias is None else dt.float() + bias.float()
    return fn.softplus(dt) if softplus else dt


def _selective_scan(
    states: States,
    hidden_states: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **_: Any,
) -> Any:
    """Mamba's scan. hidden_states, dt, z: (batch, channels, L); A: (channels, N); B, C: (batch, N, L); D: (channels).
    Returns (batch, channels, L), and the state if it is requested."""
    x, dt, b, c = (t.transpose(1, 2).float() for t in (hidden_states, dt, B, C))
    dt = _step(dt, delta_bias, delta_softplus)
    assert states.scanned is not None
    out = ssm_scan((x * dt)[..., None], dt, b[:, :, None], c[:, :, None], states.scanned, A.float())[..., 0]
    out = out if D is None else out + x * D
    out = (out if z is None else out * fn.silu(z.transpose(1, 2))).transpose(1, 2)
    return (out, states.scanned) if return_last_state else out


def _chunk_scan(
    states: States,
    hidden_states: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    chunk_size: int,
    D: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, math.inf),
    return_final_states: bool = False,
    **_: Any,
) -> Any:
    """Mamba 2's scan. hidden_states: (batch, L, n_heads, P); dt: (batch, L, n_heads); A, D: (n_heads); B, C: (batch, L,
    n_groups, N). Returns (batch, L, n_heads, P), and the state if it is requested."""
    x, dt = hidden_states.float(), _step(dt, dt_bias, dt_softplus)
    if tuple(dt_limit) != (0.0, math.inf):
        dt = dt.clamp(*dt_limit)
    assert states.scanned is not None
    out = ssm_scan(x * dt[..., None], dt * A.float(), B.float(), C.float(), states.scanned)
    out = out if D is None else out + x * D[:, None]
    return (out, states.scanned) if return_final_states else out
