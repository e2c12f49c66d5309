"""Decomposes ops of quantised models into torch's ops.

Some libraries' ops are Python functions over torch's ops. Decompositions are written here if such a function inspects
the data before it computes, or if torch has an op only in C++. Formulas: torch.ao.quantization.fx._decomposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from clave.private import OpOverload, eager_function

# Libraries whose ops are Python functions over torch's.
WRITTEN_IN_TORCH = ("quantized_decomposed", "torchao")


def decompositions(ops: Iterable[OpOverload]) -> dict[Any, Callable[..., Any]]:
    """Returns the decompositions of the ops: those written here, or the functions that libraries' ops run eagerly."""
    table: dict[Any, Callable[..., Any]] = {}
    for op in ops:
        written = _OWN.get(str(op)) or (eager_function(op) if op.namespace in WRITTEN_IN_TORCH else None)
        if written is not None:
            table[op] = written
    return table


def _narrow_as_f32(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _quantize(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, low: torch.Tensor, high: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Quantises x with one scale and zero point. scale, zero, low, high: one element each."""
    scaled = _narrow_as_f32(x) * (1.0 / scale.item())
    return torch.clamp(torch.round(scaled) + zero.item(), low, high).to(dtype)


def _dequantize(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, *_: Any, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    wide = torch.float32 if out_dtype is None else out_dtype
    return (x.to(wide) - zero.item()) * scale.item()


def _quantize_groups(
    x: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    group: int = 128,
) -> torch.Tensor:
    """Quantises x (M, K) in groups of neighbours along K. scales, zeros: one for each group."""
    if group > x.shape[-1] and scales.shape[-1] == 1:
        group = x.shape[-1]
    scaled = x.reshape(-1, group).mul(1.0 / scales.reshape(-1, 1)).add(zeros.reshape(-1, 1))
    return scaled.round().clamp(low, high).to(dtype).reshape(x.shape)


def _ends(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the least and the greatest of x's elements and 0, as tensors of one element."""
    low, high = torch.aminmax(x)
    return low.clamp(max=0).reshape(1), high.clamp(min=0).reshape(1)


def _choose(x: torch.Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    least, greatest = _ends(x)
    scale = torch.max((greatest - least) / float(high - low), torch.full((1,), eps))
    zero = low - torch.round(least / scale).to(torch.int32)
    return scale.double(), zero.clamp(low, high).to(torch.int64)


def _choose_symmetric(
    x: torch.Tensor, low: int, high: int, eps: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    least, greatest = _ends(x)
    scale = torch.max(torch.max(-least, greatest) / (float(high - low) / 2), torch.full((1,), eps))
    return scale.double(), torch.full((1,), 128 if dtype == torch.uint8 else 0)


def _int8_weight(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Returns x (M, K) times the transpose of weight (N, K), i8, with a scale for each row of the weight."""
    wide = _narrow_as_f32(x)
    return (wide @ weight.to(wide.dtype).t() * scales).to(x.dtype)


_OWN: dict[str, Callable[..., Any]] = {
    "aten._weight_int8pack_mm.default": _int8_weight,
    "quantized_decomposed.quantize_per_tensor.tensor2": _quantize,
    "quantized_decomposed.dequantize_per_tensor.tensor2": _dequantize,
    "quantized_decomposed.quantize_per_channel_group.default": _quantize_groups,
    "quantized_decomposed.choose_qparams.tensor": _choose,
    "quantized_decomposed.choose_qparams_symmetric.tensor": _choose_symmetric,
}
