"""A GGUF file's tensors for a module: mapped floats, and stand-ins for blocks, which use no memory."""

from __future__ import annotations

import numpy as np
import torch
from gguf import quants

from clave.encodings import Blocks, Stored
from clave.errors import Code, Error
from clave.gguf.file import File
from clave.gguf.header import shown
from clave.stand_ins import StandIns

_BLOCKS = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4".split()
_FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_UNREAD = "attn_rot_embd"  # tables in old files of llama, which follow from the keys


class Weights:
    """Reads tensors by name and shape. Errors name the file and the tensor."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._stand_ins = StandIns()
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.file.tensors

    def matrix(self, name: str, rows: int | None, columns: int) -> torch.Tensor:
        """Returns (rows, columns): F32, F16 or BF16 mapped from the file, or an f32 stand-in for blocks. rows: None for
        any number."""
        shape = self._take(name, rows, columns)
        kind = self.file.type_of(name).name
        if kind in _FLOATS:
            return self._mapped(name, shape)
        return self._stand_in(name, shape, kind)

    def vector(self, name: str, size: int) -> torch.Tensor:
        """Returns (size,) f32."""
        shape = self._take(name, size)
        if self.file.type_of(name).name in _FLOATS:
            return self._mapped(name, shape).float()
        with np.errstate(all="ignore"):
            found = quants.dequantize(self.file.bytes_of(name), self.file.type_of(name))
        return torch.from_numpy(np.ascontiguousarray(found))

    def stored(self, _name: str, weight: torch.Tensor) -> Stored | None:
        """Returns the encoding of a constant, as the function for clave.export(quantize=) does."""
        return self._stand_ins.stored(_name, weight)

    def check_all_stored(self) -> None:
        """Raises Error if an op other than a product or an embedding reads a stand-in, which it would read as zeros."""
        if self._stand_ins.n_left:
            raise self.file.error(f"{self._stand_ins.n_left} weights in blocks are read by ops other than products")

    def check_all_read(self) -> None:
        """Raises Error for tensors that the architecture does not read, because the results would lack their effect."""
        rest = [n for n in self.file.tensors if n not in self._taken and _UNREAD not in n]
        if rest:
            more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
            names = ", ".join(map(shown, rest[:3]))
            raise self.file.error(f"has tensors that are not supported: {names}{more}", Code.UNSUPPORTED)

    # ---- one tensor

    def _take(self, name: str, *shape: int | None) -> tuple[int, ...]:
        if name not in self.file.tensors:
            raise self.file.error(f"has no tensor {name!r}")
        found, kind = self.file.shape_of(name), self.file.type_of(name).name
        if kind not in _FLOATS and kind not in _BLOCKS:
            known = ", ".join((*_FLOATS, *_BLOCKS))
            raise self.file.error(f"tensor {name!r}: expected one of {known}, got {kind}", Code.UNSUPPORTED)
        if len(found) != len(shape) or any(n not in (None, f) for n, f in zip(shape, found, strict=True)):
            want = ", ".join("any" if n is None else str(n) for n in shape)
            raise self.file.error(f"tensor {name!r}: expected ({want}), got ({', '.join(map(str, found))})")
        if 0 in found:
            raise self.file.error(f"tensor {name!r} is empty")
        self._taken.add(name)
        return found

    def _mapped(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns a view of the mapped tensor."""
        dtype = _FLOATS[self.file.type_of(name).name]
        return torch.from_numpy(self.file.bytes_of(name)).view(dtype).reshape(shape)

    def _stand_in(self, name: str, shape: tuple[int, ...], kind: str) -> torch.Tensor:
        stored = Stored(Blocks(kind).table(), self.file.bytes_of(name).reshape(shape[0], -1))
        try:
            return self._stand_ins.make(shape, torch.float32, stored)
        except Error as e:
            raise self.file.error(f"tensor {name!r}: {e}", e.code) from None
