"""Describes op cases: a torch function, inputs by shape, dtype and range, and a tolerance with a reason.

A family's file yields `Case`s from its `cases()`; build.py turns each into a program and torch's results. One case may
compute several variants of an op for one dtype: they become outputs of one program, which keeps the build fast.
"""

import dataclasses
import zlib
from collections.abc import Callable

import torch

F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
I8, U8, I16, I32, I64, BOOL = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool
U16, U32, U64 = torch.uint16, torch.uint32, torch.uint64
F8_E4M3, F8_E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
STORED = (U16, U32, U64, F8_E4M3, F8_E5M2)
FLOATS = (F32, F16, BF16, F64)
INTS = (I32, I64, U8, I8, I16)
NAN, INF = float("nan"), float("inf")


@dataclasses.dataclass
class T:
    """An input: uniform values in [low, high] (integers included at both ends), or the given values, repeated."""

    shape: tuple
    dtype: torch.dtype = F32
    low: float = -2.0
    high: float = 2.0
    values: tuple | None = None

    def make(self, generator, run):
        if self.values is not None:
            return self.repeat_values(run)
        if self.dtype is BOOL:
            return torch.randint(0, 2, self.shape, generator=generator).bool()
        if not self.dtype.is_floating_point:
            low = max(int(self.low), torch.iinfo(self.dtype).min)
            return torch.randint(low, int(self.high) + 1, self.shape, generator=generator).to(self.dtype)
        unit = torch.rand(self.shape, generator=generator, dtype=F64)
        return (self.low + unit * (self.high - self.low)).to(self.dtype)

    def repeat_values(self, run):
        """Returns the values in order; in the other set of inputs, in reverse order."""
        n = torch.Size(self.shape).numel()
        values = self.values if run == 0 else self.values[::-1]
        return torch.tensor([values[i % len(values)] for i in range(n)], dtype=self.dtype).reshape(self.shape)


@dataclasses.dataclass
class Case:
    name: str
    function: Callable  # a function or a module
    inputs: list  # T of the first set
    other: list | None = None  # the second set, if it differs in more than its random values
    rtol: float = 0.0  # allowed error before a result is rounded to its dtype
    atol: float = 0.0
    steps: int = 0  # roundings to a 16-bit dtype that only torch's ops do or only the program does
    whole: str = ""  # why the program rounds only its results: the reference is the whole function in f64
    own: str = ""  # why torch's own results are the reference, and not those in f64 (reference.py)
    error: str = ""  # the first set must fail with this text
    dynamic_shapes: object = None
    state: bool = False  # the module changes its buffers
    quantize: object = None  # the weights' encodings, as in clave.export

    def data(self, run):
        """Returns the inputs of set 0 (A) or 1 (B)."""
        generator = torch.Generator().manual_seed(zlib.crc32(self.name.encode()) + run)
        specs = self.other if run and self.other is not None else self.inputs
        return tuple(s.make(generator, run) for s in specs)


def name_of(dtype):
    return {
        F32: "f32",
        F16: "f16",
        BF16: "bf16",
        F64: "f64",
        I8: "i8",
        U8: "u8",
        I16: "i16",
        I32: "i32",
        I64: "i64",
        BOOL: "bool",
        U16: "u16",
        U32: "u32",
        U64: "u64",
        F8_E4M3: "f8e4m3",
        F8_E5M2: "f8e5m2",
    }[dtype]


def computed(dtype):
    """Returns the dtype of computation. 16-bit floats are rounded once at the end, which test/compare.h allows for."""
    return F64 if dtype is F64 else F32


def ulps(dtype, n):
    """Returns a relative tolerance of n units in the last place of the dtype of computation."""
    return torch.finfo(computed(dtype)).eps * n if dtype.is_floating_point else 0.0


def sums(dtype, terms, magnitude=1.0):
    """Returns the absolute tolerance of a sum of `terms` products of about `magnitude`: the error of a sum in f32 by
    blocks grows with the square root of the terms."""
    return magnitude * ulps(dtype, 4) * max(terms, 1) ** 0.5


def products(dtype, terms, magnitude=1.5):
    """Returns the absolute tolerance of a sum of `terms` products of about `magnitude` in a matrix product, which may
    add them one after another. Each addition rounds a partial sum of about magnitude * sqrt(i). Over thousands of
    elements the worst is five standard deviations off, about magnitude * eps * terms. To this it adds sums()."""
    return magnitude * ulps(dtype, 1) * terms + sums(dtype, terms, magnitude)
