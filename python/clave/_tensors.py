"""Converts numpy arrays and torch tensors to clave_tensor views, and back. An input is copied only if its memory cannot
be read in place."""

from __future__ import annotations

import ctypes as C
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from clave import _library as L
from clave.arguments import described
from clave.dtypes import COMPLEX, NUMPY, index_of_numpy, index_of_torch, torch_dtype
from clave.errors import Code, Error

if TYPE_CHECKING:
    import torch


def _fill(dtype: int, shape: tuple[int, ...], strides: tuple[int, ...], address: int) -> L.Tensor:
    if len(shape) > L.MAX_RANK:
        raise Error(f"expected a tensor of rank {L.MAX_RANK} or less, got {len(shape)}", Code.UNSUPPORTED)
    t = L.Tensor(dtype=dtype, rank=len(shape), data=address)
    t.dims[: len(shape)] = shape
    t.strides[: len(shape)] = strides
    return t


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def of_torch(x: torch.Tensor) -> tuple[L.Tensor, Any]:
    """Returns a view of a torch tensor, and the tensor that must live as long as the view.

    A tensor on another device, or one that is conjugated or negated lazily, is copied. Raises TypeError if the tensor
    is not dense or has no memory.
    """
    kind = why_not_dense(x)
    if kind is not None:
        raise TypeError(f"expected a dense tensor, got {kind}")
    x = x.detach()
    if x.device.type != "cpu" or x.is_conj() or x.is_neg():
        x = x.cpu().resolve_conj().resolve_neg()
    address = x.data_ptr()
    if not address and x.numel():
        raise TypeError("expected a dense tensor, got one without memory, which stands for another in a trace")
    return _fill(index_of_torch(x.dtype), tuple(x.shape), x.stride(), address), x


def why_not_dense(x: torch.Tensor) -> str | None:
    """Returns the kind of a torch tensor whose elements are not stored by strides, or None if they are."""
    kinds = {
        "a nested tensor": x.is_nested,
        "a quantized tensor": x.is_quantized,
        f"a tensor of layout {x.layout}": str(x.layout) != "torch.strided",
        "a tensor on the meta device, which has no elements": x.is_meta,
    }
    return next((kind for kind, holds in kinds.items() if holds), None)


def one_line(e: Exception) -> str:
    """Returns the first line of an exception's message that is not blank, or the name of its type."""
    return next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)


def of_numpy(x: np.ndarray) -> tuple[L.Tensor, Any]:
    """Returns a view of an array, and the array that must live as long as the view.

    An array is copied if it has a foreign byte order, is unaligned, or has strides that are not multiples of its item
    size. Raises TypeError if the schema lacks its dtype.
    """
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if any(s % x.itemsize for s in x.strides) or not x.flags.aligned:
        x = np.ascontiguousarray(x).reshape(x.shape)
    strides = tuple(s // x.itemsize for s in x.strides)
    return _fill(index_of_numpy(x.dtype), x.shape, strides, x.ctypes.data), x


def view(x: Any, dtype: int) -> tuple[L.Tensor, Any]:
    """Returns a view of an input. Converts Python numbers and lists of them to the dtype that the program expects."""
    if is_torch(x):
        return of_torch(x)
    if not isinstance(x, np.ndarray | np.generic):
        x = _array(x)
        if np.can_cast(x.dtype, NUMPY[dtype], "same_kind"):  # 1.5 is not truncated to 1
            x = x.astype(NUMPY[dtype])
    return of_numpy(np.asarray(x))


def _array(x: Any) -> np.ndarray:
    """Returns numbers or lists of numbers as an array. Raises TypeError for anything else."""
    made = np.asarray(x)
    if made.dtype.kind not in "biufcV" or (made.dtype.kind == "V" and made.dtype.isbuiltin == 1):
        raise TypeError(f"expected a torch tensor, a numpy array or numbers, got {described(x)}")
    return made


def write(x: Any, value: np.ndarray) -> None:
    """Copies the value into a torch tensor or a numpy array. Raises TypeError for anything else."""
    if is_torch(x):
        import torch

        with torch.no_grad():
            x.copy_(to_torch(value))
    elif isinstance(x, np.ndarray):
        np.copyto(x, value, casting="same_kind")
    else:
        raise TypeError(f"expected a torch tensor or a numpy array, got {described(x)}")


def view_pairs(x: Any, dtype: int) -> tuple[L.Tensor, Any]:
    """Returns a view (..., 2) of a complex input (...): real and imaginary parts of the dtype.

    Raises TypeError if the input has another complex dtype.
    """
    want = COMPLEX[NUMPY[dtype]]
    if not is_torch(x) and not isinstance(x, np.ndarray | np.generic):
        x = _array(x)
        x = x.astype(want) if np.can_cast(x.dtype, want, "same_kind") else x
    given = str(x.dtype).removeprefix("torch.") if is_torch(x) else x.dtype.newbyteorder("=").name
    if given != want.name:
        raise TypeError(f"expected dtype {want.name}, got {given}")
    if is_torch(x):
        return of_torch(_pairs_of_torch(x.detach()))
    x = np.asarray(x)
    return of_numpy(as_strided(x.real, (*x.shape, 2), (*x.strides, x.itemsize // 2)))


def _pairs_of_torch(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.view_as_real(x.resolve_conj())


def join_pairs(x: np.ndarray) -> np.ndarray:
    """Views a contiguous array (..., 2) of real and imaginary parts as complex numbers (...)."""
    return x.view(COMPLEX[x.dtype]).reshape(x.shape[:-1])


def to_numpy(t: L.Tensor) -> np.ndarray:
    """Returns a copy of a contiguous tensor."""
    dtype, shape = NUMPY[t.dtype], tuple(t.dims[: t.rank])
    out = np.empty(shape, dtype)
    if out.size:
        C.memmove(out.ctypes.data, t.data, out.nbytes)
    return out


def need_torch() -> None:
    """Raises Error if torch is not installed. Called before a run that returns torch tensors."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        raise Error(
            "calling a session returns torch tensors, but torch is not installed: its run() returns numpy arrays",
            Code.UNSUPPORTED,
        ) from None


def to_torch(x: np.ndarray) -> torch.Tensor:
    """Returns the array as a torch tensor over the same memory."""
    import torch

    if x.dtype.kind == "c":
        return torch.from_numpy(x)
    if x.dtype.isbuiltin != 1:  # bf16 and 8-bit floats, which numpy itself does not have
        return torch.from_numpy(x.view(f"i{x.itemsize}")).view(torch_dtype(index_of_numpy(x.dtype)))
    return torch.from_numpy(x)
