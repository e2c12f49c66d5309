"""The samples of one op and dtype: torch's own (its operator database) or those of extra.py, as modules and tensors.

A sample's tensors are the inputs of a program; everything else in the call is fixed in it. Samples that differ only in
the values of their tensors share a program.
"""

import dataclasses
import functools
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import extra
import torch
import torch.utils._pytree as pytree
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.opinfo import core

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2": torch.float8_e5m2,
    "c64": torch.complex64,
    "c128": torch.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Dtypes that have a more exact oracle, the same op in f64, with the dtype in that oracle.
LOW = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64) | {torch.complex64: torch.complex128}
# Ops whose complex samples are run, in addition to transforms.
TAKES_COMPLEX = {
    "stft",
    "istft",
    "imag",
    "real",
    "view_as_real",
    "conj",
    "conj_physical",
    "resolve_conj",
    "angle",
    "abs",
}

# Ops that change their first argument: it is a copy, because a program does not change inputs.
IN_PLACE = {"cauchy", "exponential", "geometric", "log_normal", "normal.in_place", "uniform", "zero_"}
IN_PLACE |= {"resize_", "resize_as_"}
IN_PLACE |= {"nn.functional.embedding", "nn.functional.embedding_bag"}  # if they have a max_norm
MORE = 4  # samples of each kind for pointwise ops beyond the database's


class Call(torch.nn.Module):
    """A call whose tensors are the module's inputs; returns the tensors and numbers of the result, flat."""

    def __init__(self, function: Callable[..., Any], leaves: list[Any], spec: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves = leaves  # None for a tensor
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.spec = spec

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        leaves = list(self.leaves)
        for i, t in zip(self.places, tensors, strict=True):
            leaves[i] = t
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return tuple(pytree.tree_leaves(self.function(*args, **kwargs)))


@dataclasses.dataclass
class Sample:
    index: int
    module: Call
    tensors: tuple[torch.Tensor, ...]

    @functools.cached_property
    def key(self) -> str:
        """Returns a key that is equal for samples that can share a program."""
        fixed = [... if isinstance(x, torch.Tensor) else x for x in self.module.leaves]
        kinds = [(NAMES.get(t.dtype, str(t.dtype)), tuple(t.shape), t.stride()) for t in self.tensors]
        return f"{fixed!r} {self.module.spec} {kinds}"

    def describe(self) -> str:
        """Returns the call in one line: tensors as dtype[shape]."""
        leaves = [_short(x) for x in self.module.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.module.spec)
        named = [f"{k}={v}" for k, v in kwargs.items()]
        return ", ".join([*map(str, args), *named]).replace("'", "")

    def in_f64(self) -> tuple[Call, tuple[torch.Tensor, ...]]:
        """Returns the same call with every f32, f16 and bf16 as f64, and c64 as c128."""
        leaves = [LOW.get(x, x) if isinstance(x, torch.dtype) else x for x in self.module.leaves]
        wide = tuple(t.to(LOW.get(t.dtype, t.dtype)) for t in self.tensors)
        return Call(self.module.function, leaves, self.module.spec), wide


def _short(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    layout = "" if x.is_contiguous() else f" strides {list(x.stride())}"
    return f"{NAMES.get(x.dtype, x.dtype)}{list(x.shape)}{layout}"


def make_sample(index: int, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Sample:
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    tensors = tuple(x.detach() for x in leaves if isinstance(x, torch.Tensor))
    return Sample(index, Call(function, leaves, spec), tensors)


@functools.cache
def infos() -> dict[str, Any]:
    """Returns torch's database by name: "max.binary" is the variant "binary" of max."""
    return {name_of(info): info for info in database.op_db}


def name_of(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def dtypes_of(name: str) -> list[str]:
    """Returns the dtypes that clave has and that the op supports on torch's CPU."""
    if name in extras():
        return list(extras()[name].dtypes)
    supported = infos()[name].supported_dtypes("cpu")
    complex_too = name in TAKES_COMPLEX or name.startswith("fft.")
    return [d for d, dtype in DTYPES.items() if dtype in supported and (complex_too or not dtype.is_complex)]


def extras() -> dict[str, Any]:
    return extra.OPS


def samples_of(name: str, dtype: str, limit: int | None = None) -> list[Sample]:
    """Returns the same samples in the same order at every call."""
    torch.manual_seed(zlib.crc32(f"{name} {dtype}".encode()))
    if name in extras():
        made = ((f, args, kwargs) for f, args, kwargs in extras()[name].samples(DTYPES[dtype]))
    else:
        made = _database_samples(name, dtype)
    numbered = enumerate(itertools.islice(made, limit))
    return [make_sample(i, f, args, kwargs) for i, (f, args, kwargs) in numbered]


def _database_samples(name: str, dtype: str) -> Any:
    info = infos()[name]
    function = functools.partial(_on_copy, info) if name in IN_PLACE else info.op
    made = list(info.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
    for s in made + _pointwise_samples(info, DTYPES[dtype], made):
        yield function, (s.input, *s.args), s.kwargs


def _pointwise_samples(info: Any, dtype: torch.dtype, made: list[Any]) -> list[Any]:
    """Returns further pointwise samples: NaN, infinities, limits, small and large numbers, non-contiguous operands."""
    unary, binary = isinstance(info, core.UnaryUfuncInfo), isinstance(info, core.BinaryUfuncInfo)
    if (not unary and not binary) or dtype is torch.bool:
        return []
    kind = "unary" if unary else "binary"
    options = {"device": "cpu", "dtype": dtype, "requires_grad": False}
    names = ["small"] + ["extremal"] * dtype.is_floating_point + ["large"] * (dtype not in (torch.uint8, torch.int8))
    found = []
    for name in names:
        generate = getattr(core, f"generate_elementwise_{kind}_{name}_value_tensors")
        found += itertools.islice(generate(info, **options), MORE)
    strided = next((s.noncontiguous() for s in made if isinstance(s.input, torch.Tensor) and s.input.dim()), None)
    return found + ([strided] if strided is not None else [])


def _on_copy(info: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return info.op(x.clone(), *args, **kwargs)
