"""Options that all exports of language models share: type and capacity of the KV cache. Exports the method
forward(tokens, position)."""

from __future__ import annotations

import os
from typing import Any

import torch

from clave import arguments
from clave.errors import Code, Error
from clave.exporter import export
from clave.program import Program

CONTEXT = 4096  # tokens; the largest default capacity
KV = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8}


def check_options(kv: str | None, max_context: int | None, prompt_piece: int) -> None:
    """Raises Error for invalid options of a KV cache."""
    arguments.choice("kv", kv, (*KV, None))
    if max_context is not None:
        arguments.integer("max_context", max_context, 2, 2**31 - 1)
    arguments.integer("prompt_piece", prompt_piece, 1, 2**31 - 1)


def check_capacity(max_context: int, needed: int) -> None:
    """Raises Error if caches of `needed` bytes do not fit into this machine's memory."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise Error(
            f"the caches of {max_context} tokens take {needed >> 20} MiB, and this machine has {there >> 20}: "
            f"max_context (--max-context) {max_context * there // needed} would fit",
            Code.NO_MEMORY,
        )


def tokens_and_position(max_context: int) -> tuple[tuple[torch.Tensor, torch.Tensor], Any]:
    """Returns example inputs of forward(tokens, position), and their dynamic shapes."""
    length = torch.export.Dim("length", min=1, max=max_context)
    return (torch.ones(1, min(3, max_context), dtype=torch.int64), torch.tensor(0)), ({1: length}, None)


def export_model(model: torch.nn.Module, max_context: int, quantize: Any = None) -> Program:
    """Exports the method forward(tokens, position) for 1 to max_context tokens."""
    example, shapes = tokens_and_position(max_context)
    return export(model, example, dynamic_shapes=shapes, quantize=quantize)
