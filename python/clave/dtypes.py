"""Element types of torch, numpy and the schema. torch is imported only for `torch_dtype`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    import torch

# Names in the order of the schema's DType.
NAMES = (
    *("F32", "F16", "BF16", "F64", "I8", "U8", "I16", "I32", "I64", "BOOL"),
    *("U16", "U32", "U64", "F8_E4M3", "F8_E5M2"),
)
NUMPY = tuple(
    np.dtype(t)
    for t in (
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        np.float64,
        np.int8,
        np.uint8,
        np.int16,
        np.int32,
        np.int64,
        np.bool_,
        np.uint16,
        np.uint32,
        np.uint64,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    )
)
# Complex dtypes by the dtype of their parts.
COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}
_TORCH = (
    *("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"),
    *("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"),
)
_INDEX = {name: i for i, name in enumerate(_TORCH)}


def index_of_numpy(dtype: np.dtype) -> int:
    """Returns the schema's number of a numpy dtype. Raises TypeError if it has none."""
    if dtype not in NUMPY:
        raise TypeError(f"expected dtype {', '.join(str(d) for d in NUMPY)}, got {dtype}")
    return NUMPY.index(dtype)


def index_of_torch(dtype: torch.dtype) -> int:
    """Returns the schema's number of a torch dtype. Raises TypeError if it has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in _INDEX:
        raise TypeError(f"expected dtype {', '.join(_TORCH)}, got {name}")
    return _INDEX[name]


def torch_name(index: int) -> str:
    """Returns torch's name of a dtype of the schema, such as "float8_e4m3fn"."""
    return _TORCH[index]


def torch_dtype(index: int) -> torch.dtype:
    import torch

    return getattr(torch, _TORCH[index])
