"""Converts or quantises a folder's weights for a model, tensor by tensor, as the program will have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from transformers.pytorch_utils import Conv1D

from clave.encodings import Blocks, Groups, Stored, parse
from clave.errors import Error
from clave.llm import mxfp4
from clave.llm.checkpoint import Checkpoint
from clave.llm.folder import Folder
from clave.llm.skeleton import put_all
from clave.llm.spool import Spool
from clave.progress import Progress
from clave.stand_ins import StandIns

_PIECE = 1 << 18  # elements that are converted at once

Encoding = Groups | Blocks | mxfp4.Encoding


class Encodings:
    """The encodings of a model's matrices, including the matrices of experts. weights, embedding: texts as for
    clave.export(quantize=), or None. A table that is also the model's output is an embedding. Raises Error for an
    unknown encoding."""

    def __init__(self, weights: str | None, embedding: str | None) -> None:
        self._weights = None if weights is None else _parsed("quantize", weights)
        self._embedding = None if embedding is None else _parsed("quantize_embedding", embedding)

    def of(self, model: torch.nn.Module) -> dict[str, tuple[Encoding, bool]]:
        """Returns, by the first name of each parameter, its encoding and True if products read it as (*, K, N)."""
        names = {id(p): n for n, p in model.named_parameters()}
        found: dict[str, tuple[Encoding | None, bool]] = {}
        left = {m.dt_proj for m in model.modules() if hasattr(m, "dt_proj")}  # Mamba multiplies by it from the left
        for m in model.modules():
            if isinstance(m, torch.nn.Linear | Conv1D) and m.weight.dim() == 2 and m not in left:
                found[names[id(m.weight)]] = (self._weights, isinstance(m, Conv1D))
            is_transposed = getattr(m, "is_transposed", None)  # an attribute of transformers' experts
            if isinstance(is_transposed, bool):
                matrices = [p for p in m.parameters(recurse=False) if p.dim() == 3]
                found |= {names[id(p)]: (self._weights, is_transposed) for p in matrices}
        for m in model.modules():
            if isinstance(m, torch.nn.Embedding):
                found[names[id(m.weight)]] = (self._embedding, False)
        return {name: entry for name, entry in found.items() if entry[0] is not None}


def _parsed(option: str, text: str) -> Encoding:
    try:
        found = parse(text)
    except Error as e:
        raise Error(str(e).replace("quantize=", f"{option}=", 1), e.code) from None
    assert not isinstance(found, Stored)
    return found


class Weights:
    """Replaces a model's weights by those in a folder. `stored` is then the function for clave.export(quantize=).

    The weights are stored in `spool` as long as this object exists."""

    def __init__(
        self, folder: Folder, checkpoint: Checkpoint, encodings: dict[str, tuple[Encoding, bool]], where: Path
    ) -> None:
        self._folder, self._checkpoint, self._where = folder, checkpoint, where
        self._encodings = encodings | dict.fromkeys(checkpoint.packed(), (mxfp4.Encoding(), True))
        self._stand_ins = StandIns()

    def fill(self, model: torch.nn.Module, progress: Progress) -> None:
        """Sets the model's weights. Raises Error if a weight cannot have its encoding, or if the disk is full."""
        wanted = dict(model.named_parameters())
        self.spool = Spool(self._where, sum(self._size(n, p) for n, p in wanted.items()))
        buffers, n = dict(model.named_buffers()), len(wanted)
        plain: dict[str, torch.Tensor] = {}
        at: dict[str, int] = {}
        with self._folder.unchanged():
            for i, (name, data) in enumerate(self._checkpoint.weights()):
                with progress.stage(f"weights, {i + 1} of {max(n, i + 1)}"):
                    if name not in wanted:
                        buffers[name].copy_(data)
                    elif name in self._encodings:
                        at[name] = self._encode(name, data)
                    elif data.dim() < 2:
                        plain[name] = data.to(wanted[name].dtype, copy=True)
                    else:
                        at[name] = self._convert(data, wanted[name].dtype)
                del data
        self.spool.map()
        put_all(model, plain | {name: self._placed(name, wanted[name], a) for name, a in at.items()})

    def stored(self, name: str, weight: torch.Tensor) -> Stored | None:
        return self._stand_ins.stored(name, weight)

    def check_all_stored(self) -> None:
        if self._stand_ins.n_left:
            raise self._folder.error(f"{self._stand_ins.n_left} quantised weights are read by ops other than products")

    # ---- one tensor

    def _rows(self, name: str, p: torch.Tensor) -> tuple[int, int]:
        """Returns the number of rows of the quantised matrix, and the bytes of a row."""
        encoding, is_transposed = self._encodings[name]
        *experts, n, k = p.mT.shape if is_transposed else p.shape
        if isinstance(encoding, mxfp4.Encoding):
            size = encoding.row_bytes(k)
        else:
            size = self._encoded(name, encoding, np.zeros((1, k), np.float32)).shape[1]
        return torch.Size(experts).numel() * n, size

    def _size(self, name: str, p: torch.Tensor) -> int:
        if name not in self._encodings:
            return p.numel() * p.dtype.itemsize
        n, size = self._rows(name, p)
        return n * size

    def _encoded(self, name: str, encoding: Groups | Blocks, rows: np.ndarray) -> np.ndarray:
        try:
            return encoding.encode(rows)
        except Error as e:
            raise self._folder.error(f"weight {name!r} cannot be quantised: it {e}", e.code) from None

    def _encode(self, name: str, data: torch.Tensor | mxfp4.Experts) -> int:
        at = self.spool.begin()
        for rows in self._pieces(name, data):
            self.spool.write(np.ascontiguousarray(rows))
        return at

    def _pieces(self, name: str, data: torch.Tensor | mxfp4.Experts) -> Iterator[np.ndarray]:
        encoding, is_transposed = self._encodings[name]
        if isinstance(encoding, mxfp4.Encoding):
            try:
                yield from data.rows()
            except Error as e:
                raise self._folder.error(f"weight {name!r} {e}") from None
            return
        for matrix in data.unsqueeze(0).flatten(0, -3):
            rows = matrix.T if is_transposed else matrix
            step = max(_PIECE // max(rows.shape[1], 1), 1)
            for i in range(0, rows.shape[0], step):
                yield self._encoded(name, encoding, rows[i : i + step].float().contiguous().numpy())

    def _convert(self, data: torch.Tensor, dtype: torch.dtype) -> int:
        at, flat = self.spool.begin(), data.reshape(-1)
        for i in range(0, flat.numel(), 16 * _PIECE):
            self.spool.write_tensor(flat[i : i + 16 * _PIECE].to(dtype))
        return at

    def _placed(self, name: str, p: torch.Tensor, at: int) -> torch.Tensor:
        if name not in self._encodings:
            return self.spool.tensor(at, tuple(p.shape), p.dtype)
        stored = Stored(self._encodings[name][0].table(), self.spool.rows(at, self._rows(name, p)))
        try:
            return self._stand_ins.make(tuple(p.shape), p.dtype, stored)
        except Error as e:
            raise self._folder.error(f"weight {name!r}: {e}", e.code) from None
