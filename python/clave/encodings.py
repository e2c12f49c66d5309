"""Quantised weights: integers or 8-bit floats in groups that share a scale, or llama.cpp's block formats.

base/encoding.h defines the layout of groups: a row has its codes, lowest bits first, then a scale for each group, then
a zero point for each group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ml_dtypes import bfloat16, finfo, float8_e4m3fn, float8_e5m2

from clave import schema
from clave.errors import Error

_PART = 32  # the codes of a row are padded to a multiple of this
_FORMS = re.compile(
    r"(?:int(?P<bits>[2-8])|(?P<float>e4m3|e5m2))(?::(?P<group>\d+))?(?P<zeros>:zeros)?(?::(?P<scale>f16|bf16|f32))?"
)
_LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
_STEPS = np.linspace(0.8, 1.0, 11)  # fractions of a group's range over which codes are tried
_QUANTIZED_BLOCKS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
HELP = (
    "int2 to int8, e4m3 or e5m2, then optionally `:GROUP` (a multiple of 16), `:zeros` and the type of the scales "
    f"(:f16, :bf16 or :f32), such as int4:32:zeros, or one of {', '.join(_QUANTIZED_BLOCKS)}"
)


def parse(text: Any) -> Groups | Blocks | Stored:
    """Parses a text such as "int4:32" or "Q4_0"; returns a Stored unchanged. Raises Error with the accepted texts."""
    if isinstance(text, Stored):
        return text
    m = _FORMS.fullmatch(text) if isinstance(text, str) else None
    group = int(m["group"] or 0) if m else 0
    if m and group % 16 == 0 and not (m["float"] and m["zeros"]):
        scale = m["scale"] or ("f16" if group else "f32")
        return Groups(int(m["bits"] or 8), m["float"] or "int", group, bool(m["zeros"]), scale)
    if text in _QUANTIZED_BLOCKS:
        return Blocks(text)
    raise Error(f"quantize: expected {HELP}, or a function of a weight's name and tensor, got {text!r}")


@dataclass(frozen=True)
class Stored:
    """The bytes of a matrix that is already quantised. rows: (n, bytes of a row), uint8, in `encoding`."""

    encoding: schema.Encoding
    rows: np.ndarray

    form = property(lambda self: self.encoding)  # the name of `encoding` in 0.2

    def table(self) -> schema.Encoding:
        return self.encoding

    def encode(self, weight: Any) -> np.ndarray:
        """Returns the stored rows, without reading the matrix (n, k). Raises Error if the number of rows differs."""
        if self.rows.shape[0] != weight.shape[0]:
            raise Error(f"has {weight.shape[0]} rows, {self.rows.shape[0]} were stored")
        return self.rows


@dataclass(frozen=True)
class Blocks:
    """A block format, by llama.cpp's name. PyPI's gguf computes the blocks."""

    format: str

    def table(self) -> schema.Encoding:
        return schema.Encoding(kind=schema.EncodingKind.block_format, axis=1, format=self.format)

    def encode(self, weight: np.ndarray) -> np.ndarray:
        """Returns the rows (n, bytes), uint8, of a float32 matrix (n, k). Raises Error if an element is not finite, a
        row is not a whole number of blocks, or the package gguf is missing."""
        _check_finite(weight)
        try:
            from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
        except ImportError:
            raise Error(f"cannot be quantised to {self.format} without the Python package gguf") from None
        kind = GGMLQuantizationType[self.format]
        if weight.shape[1] % GGML_QUANT_SIZES[kind][0]:
            raise Error(f"has rows of {weight.shape[1]}, {self.format} needs a multiple of {GGML_QUANT_SIZES[kind][0]}")
        return quants.quantize(np.ascontiguousarray(weight), kind)


def _check_finite(weight: np.ndarray) -> None:
    if not np.isfinite(weight).all():
        raise Error("has elements that are not finite")


@dataclass(frozen=True)
class Groups:
    """Codes in groups that share a scale.

    bits: bits of a code. code: "int", "e4m3" or "e5m2". group: elements that share a scale, 0 for a whole row. zeros:
    each group has a zero point. scale: dtype of scales and zero points, "f16", "bf16" or "f32".
    """

    bits: int = 8
    code: str = "int"
    group: int = 0
    zeros: bool = False
    scale: str = "f32"

    def table(self) -> schema.Encoding:
        """Returns the encoding of a matrix as a program declares it."""
        return schema.Encoding(
            kind=schema.EncodingKind.group_quantized,
            axis=1,
            bits=self.bits,
            group=self.group,
            scale=schema.DType[self.scale.upper()],
            has_zeros=self.zeros,
            code=schema.CodeKind[self.code + ("_" if self.code == "int" else "")],
        )

    # ---- numbers

    def encode(self, weight: np.ndarray) -> np.ndarray:
        """Returns the rows (n, bytes), uint8, of a float32 matrix (n, k). Raises Error if an element is not finite."""
        _check_finite(weight)
        n, k = weight.shape
        size = self.group or max(k, 1)
        groups = -(-k // size)
        padded = np.zeros((n, groups * size), np.float32)
        padded[:, :k] = weight
        codes, scales, zeros = self._quantize(padded.reshape(n, groups, size))
        return self._rows(codes.reshape(n, -1)[:, :k], scales, zeros)

    def stored(self, codes: Any, scales: Any, zeros: Any) -> Stored:
        """Packs torch tensors: codes (n, k) in u8; scales and zeros (n, groups) in `scale`'s dtype. zeros: None if the
        encoding has no zero points."""
        bits = [x.contiguous().view(torch.uint8).numpy() for x in (scales, zeros) if x is not None]
        return Stored(self.table(), self._rows(codes.numpy(), *bits))

    def _rows(self, codes: np.ndarray, *factors: np.ndarray) -> np.ndarray:
        """Packs rows. factors: scales, and zero points if the encoding has them, (n, groups) each."""
        parts = [self._pack(codes), *(f.view(np.uint8) for f in factors[: 1 + self.zeros])]
        row = np.concatenate(parts, axis=1)
        return np.pad(row, ((0, 0), (0, -row.shape[1] % 4)))

    def _quantize(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns codes (shape of x), and scales and zero points (n, groups) in the stored dtype."""
        stored = {"f16": np.float16, "bf16": bfloat16, "f32": np.float32}[self.scale]
        if self.code != "int":
            scales = _nonzero(np.abs(x).max(axis=2) / _LARGEST[self.code], stored)
            return self._float_codes(x / scales.astype(np.float32)[..., None]), scales, np.zeros_like(scales)
        low, high = np.minimum(x.min(axis=2), 0), np.maximum(x.max(axis=2), 0)
        best: list[np.ndarray] = []
        for step in _STEPS:
            found = self._codes(x, low * np.float32(step), high * np.float32(step), stored)
            if best:
                better = found[0] < best[0]
                found = [np.where(_like(better, new), new, old) for new, old in zip(found, best, strict=True)]
            best = found
        return best[1].astype(np.uint8), best[2], best[3]

    def _codes(self, x: np.ndarray, low: np.ndarray, high: np.ndarray, stored: Any) -> list[np.ndarray]:
        """Quantises over a range. Returns [squared error of each group, codes, scales, zero points]."""
        top, half = 2**self.bits - 1, 2 ** (self.bits - 1)
        if self.zeros:
            scales = _nonzero((high - low) / top, stored)
            zeros = np.clip(np.round(-low / scales.astype(np.float32)), 0, top).astype(stored)
        else:
            # The end that is larger in magnitude gets the larger half of the codes.
            ends = np.where(high > -low, -high, low)
            scales = _nonzero(ends / -half, stored)
            zeros = np.full(scales.shape, half, stored)
        scale, zero = scales.astype(np.float32)[..., None], zeros.astype(np.float32)[..., None]
        codes = np.clip(np.round(x / scale) + zero, 0, top)
        error = np.square((codes - zero) * scale - x).sum(axis=2)
        return [error, codes, scales, zeros]

    def _float_codes(self, x: np.ndarray) -> np.ndarray:
        kind = float8_e4m3fn if self.code == "e4m3" else float8_e5m2
        return np.clip(x, -_LARGEST[self.code], _LARGEST[self.code]).astype(kind).view(np.uint8)

    def _pack(self, codes: np.ndarray) -> np.ndarray:
        n, k = codes.shape
        padded = np.zeros((n, -(-k // _PART) * _PART), np.uint8)
        padded[:, :k] = codes
        if self.bits == 8:
            return padded
        bits = np.unpackbits(padded[..., None], axis=2, bitorder="little")[..., : self.bits]
        return np.packbits(bits.reshape(n, -1), axis=1, bitorder="little")


def _nonzero(scales: np.ndarray, stored: Any) -> np.ndarray:
    """Rounds scales to the stored dtype and clips them to its range. A scale that is 0, or rounds to 0, becomes 1."""
    with np.errstate(over="ignore"):
        rounded = scales.astype(stored)
    limit = float(finfo(stored).max)
    rounded = np.clip(rounded.astype(np.float32), -limit, limit).astype(stored)
    return np.where(rounded == 0, stored(1), rounded)


def _like(groups: np.ndarray, x: np.ndarray) -> np.ndarray:
    return groups[..., None] if x.ndim == 3 else groups
