"""Reads experts that a folder stores as MXFP4 (OCP's E2M1 numbers, 32 per power of two), such as gpt-oss's. The program
keeps this encoding.

`NAME_blocks`: (E, N, K / 32, 16) bytes, each with two neighbouring numbers, the first in the low bits. `NAME_scales`:
(E, N, K / 32) exponents with bias 127. Both together are a parameter NAME (E, K, N).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from clave import schema
from clave.encodings import Blocks
from clave.errors import Error

DTYPE = "MXFP4"  # in addition to safetensors' names
_BLOCK, _BYTES = 32, 17  # elements; bytes in llama.cpp's layout: the exponent, then numbers i and 16 + i in a byte


def shape_of(blocks: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the parameter. Raises Error if the shapes of blocks and scales do not match."""
    if len(blocks) != 4 or blocks[3] != _BLOCK // 2 or scales != blocks[:3]:
        raise Error(f"expected (E, N, K / 32, 16) and (E, N, K / 32), got {blocks} and {scales}")
    return blocks[0], blocks[2] * _BLOCK, blocks[1]


@dataclass(frozen=True)
class Experts:
    """The experts of one parameter, whose bytes are not read yet."""

    load: Callable[[str], torch.Tensor]
    blocks: str
    scales: str

    def rows(self) -> Iterator[np.ndarray]:
        """Yields the rows of each expert, (N, K / 32 * 17) uint8, as base/decode.h reads them. Raises Error if a scale
        is NaN."""
        for blocks, scales in zip(self.load(self.blocks), self.load(self.scales), strict=True):
            if (scales == 255).any():
                raise Error("has a scale that is not a number")
            numbers = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2)
            half = _BLOCK // 2
            codes = numbers[..., :half] | numbers[..., half:] << 4
            yield torch.cat((scales[..., None], codes), -1).flatten(1).numpy()


@dataclass(frozen=True)
class Encoding:
    """The encoding of such a parameter."""

    def table(self) -> schema.Encoding:
        return Blocks(DTYPE).table()

    def row_bytes(self, k: int) -> int:
        return k // _BLOCK * _BYTES
