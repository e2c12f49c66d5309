"""Experts that a folder stores as MXFP4 (OCP's E2M1 numbers, 32 to a power of two), as gpt-oss has them: taken so.

`NAME_blocks`: (E, N, K / 32, 16) bytes of two numbers, neighbours, the first of them low; `NAME_scales`: (E, N, K / 32)
exponents with bias 127. They make up a parameter NAME (E, K, N).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from clave import schema
from clave.encodings import Blocks
from clave.errors import Error

DTYPE = "MXFP4"  # beside safetensors' names
_BLOCK, _BYTES = 32, 17  # elements; bytes as llama.cpp stores them: the exponent, then number i beside number 16 + i


def shape_of(blocks: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, ...]:
    """Of the parameter. Error: they do not belong together."""
    if len(blocks) != 4 or blocks[3] != _BLOCK // 2 or scales != blocks[:3]:
        raise Error(f"expected (E, N, K / 32, 16) and (E, N, K / 32), got {blocks} and {scales}")
    return blocks[0], blocks[2] * _BLOCK, blocks[1]


@dataclass(frozen=True)
class Experts:
    """Of one parameter, before its bytes are read."""

    load: Callable[[str], torch.Tensor]
    blocks: str
    scales: str

    def rows(self) -> Iterator[np.ndarray]:
        """Of one expert after the other: (N, K / 32 * 17), as base/decode.h reads them. Error: a scale is NaN."""
        for blocks, scales in zip(self.load(self.blocks), self.load(self.scales), strict=True):
            if (scales == 255).any():
                raise Error("has a scale that is not a number")
            numbers = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2)
            half = _BLOCK // 2
            codes = numbers[..., :half] | numbers[..., half:] << 4
            yield torch.cat((scales[..., None], codes), -1).flatten(1).numpy()


@dataclass(frozen=True)
class Taken:
    """The form of such a parameter."""

    def table(self) -> schema.Encoding:
        return Blocks(DTYPE).table()

    def row_bytes(self, k: int) -> int:
        return k // _BLOCK * _BYTES
