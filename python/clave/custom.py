"""Custom ops: the user's torch ops as OpenCL C kernels, which the program carries together with a reference.

The op's fake kernel is its shape rule. The sizes of results and of the grid, and numbers for the kernel, are
expressions over the sizes of the call, which the program computes at run time. The reference is traced into clave's own
ops. It runs if no kernel can, and kernels are compared with it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from clave import arguments, schema
from clave.builder import Node, Slot, Val
from clave.errors import Code, Error, Unsupported
from clave.kernel import Kernel
from clave.lowering.registry import LOWERINGS, Context, Filled, dtype_of, op_name, overload_of
from clave.lowering.steps import slot_as
from clave.private import OpOverload, function_of, op_of, schema_of
from clave.trace import decompositions

_D, _P = schema.DType, schema.CustomParameterKind
_STORAGE = {
    _D.F32: "float",
    _D.F16: "half",
    _D.BF16: "ushort",
    _D.U16: "ushort",
    _D.U32: "uint",
    _D.U64: "ulong",
    _D.F8_E4M3: "uchar",
    _D.F8_E5M2: "uchar",
    _D.F64: "double",
    _D.I8: "char",
    _D.U8: "uchar",
    _D.I16: "short",
    _D.I32: "int",
    _D.I64: "long",
    _D.BOOL: "uchar",
}
_NUMBERS = {"int": _P.int_, "long": _P.long_, "float": _P.float_, "double": _P.double_}
_MAX_GROUP = 256


def register_op(op: Any, *kernels: Kernel, reference: Callable[..., Any] | None = None) -> None:
    """Registers kernels for a torch op. Programs carry them, and the op is neither decomposed nor lowered.

    op: torch.ops.ns.op.overload, its name "ns::op", or the result of torch.library.custom_op. It must have a fake
    kernel and must not change its arguments. kernels: a device runs the first one that is for it and accepts the dtypes
    of the call; if there is no such kernel, the reference runs. reference: a function of the op's arguments that
    computes the same in torch ops; by default the function that torch.library.custom_op was given.

    Sessions run custom kernels only with allow_custom_kernels=True. A second registration replaces the first. Raises
    Error if the op does not qualify or a kernel is malformed.
    """
    target = overload_of(op_of(op))
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise arguments.refused("kernels", "clave.Kernel objects", kernel)
    if reference is not None:
        arguments.function("reference", reference, "a function of the op's arguments, or None")
    name = op_name(target)
    if name in LOWERINGS and not isinstance(LOWERINGS[name], _Custom):
        raise Error(f"{name} has a lowering already")
    if schema_of(target).is_mutable or any(r.alias_info is not None for r in schema_of(target).returns):
        raise Error(f"{name} changes or returns its arguments: a custom op must return new tensors", Code.UNSUPPORTED)
    if reference is None:
        reference = function_of(target)
    if reference is None:
        raise Error(f"{name} has no reference: pass a function of torch ops as reference=")
    LOWERINGS[name] = _Custom(name, target, [_Source.of(name, target, k) for k in kernels], reference)


# ---------------------------------------------------------------- a kernel's text


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a kernel. space: "global", "local", or "" for a number."""

    name: str
    type: str
    space: str
    is_const: bool


_HEAD = re.compile(r"\b(?:__)?kernel\s+void\s+(\w+)\s*\(([^()]*)\)\s*\{")
_QUALIFIERS = {"const", "restrict", "__restrict", "volatile", "__global", "global", "__local", "local"}


def _without_comments(text: str) -> str:
    """Replaces comments and strings by blanks of the same length."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def _parameter(op: str, text: str) -> _Parameter:
    tokens = re.findall(r"\w+|\S", text)
    types = [t for t in tokens[:-1] if t not in _QUALIFIERS and t != "*"]
    spaces = {t.removeprefix("__") for t in tokens} & {"global", "local"}
    is_pointer = tokens.count("*") == 1
    if len(types) != 1 or not re.fullmatch(r"[A-Za-z_]\w*", tokens[-1]) or len(spaces) != is_pointer:
        raise Error(
            f"{op}: cannot read the kernel's parameter {text.strip()!r}; expected `global const TYPE *name`, "
            "`global TYPE *name`, `local TYPE *name` or `TYPE name`"
        )
    return _Parameter(tokens[-1], types[0], "".join(spaces), "const" in tokens)


@dataclass(frozen=True)
class _Source:
    """A kernel's parsed source, checked against the op's schema."""

    kernel: Kernel
    prelude: str
    body: str
    parameters: tuple[_Parameter, ...]

    @classmethod
    def of(cls, op: str, target: OpOverload, kernel: Kernel) -> _Source:
        bare = _without_comments(kernel.source)
        heads = list(_HEAD.finditer(bare))
        if len(heads) != 1 or len(re.findall(r"\b(?:__)?kernel\b", bare)) != 1:
            raise Error(f"{op}: expected one function `kernel void name(...) {{` in the source, got {len(heads)}")
        if re.search(r'#\s*include\s*"', kernel.source):
            raise Error(f"{op}: a kernel's source must not include files")
        if kernel.device not in schema.CustomDevice.__members__:
            raise Error(f"{op}: device: expected {', '.join(schema.CustomDevice.__members__)}, got {kernel.device!r}")
        head = heads[0]
        parameters = tuple(_parameter(op, p) for p in head[2].split(",") if p.strip() not in ("", "void"))
        made = cls(kernel, kernel.source[: head.start()], kernel.source[head.end() :], parameters)
        made._check(op, target)
        return made

    def _check(self, op: str, target: OpOverload) -> None:
        arguments = {a.name: a for a in schema_of(target).arguments}
        tensors = [n for n, a in arguments.items() if isinstance(a.type, torch.TensorType)]
        tensors += [n for n, a in arguments.items() if str(a.type) == "Optional[Tensor]"]
        numbers = {*(arguments.keys() - set(tensors)), *self.kernel.values}
        outs = result_names(target)
        for p in self.parameters:
            known = {"global": [*tensors, *outs], "local": [*self.kernel.local_memory], "": sorted(numbers)}[p.space]
            if p.name not in known:
                kind = {"global": "tensors", "local": "local memories", "": "numbers"}[p.space]
                names = ", ".join(known) or "it has none"
                raise Error(f"{op}: the kernel's {p.name} is not among the op's {kind}: {names}")
            if p.space == "global" and p.is_const == (p.name in outs):
                wanted = "not be const" if p.name in outs else "be `global const`"
                raise Error(f"{op}: the kernel's {p.name} must {wanted}")
            if not p.space and p.type not in _NUMBERS:
                raise Error(f"{op}: the kernel's {p.name}: expected {', '.join(_NUMBERS)}, got {p.type}")
        missing = [n for n in outs if n not in {p.name for p in self.parameters}]
        if missing:
            raise Error(f"{op}: the kernel has no parameter for result {missing[0]}")
        local = self.local(1)
        if min(local) < 1 or _product(local) > _MAX_GROUP:
            raise Error(
                f"{op}: local: expected positive numbers of product {_MAX_GROUP} or less, got {self.kernel.local}"
            )

    def local(self, dims: int) -> tuple[int, ...]:
        given = self.kernel.local if isinstance(self.kernel.local, tuple) else (self.kernel.local,)
        return (*given, *(1,) * (dims - len(given)))

    def refuses(self, dtypes: Mapping[str, schema.DType]) -> str | None:
        """Returns the reason why the kernel does not accept tensors of these dtypes, given by name, or None if it
        does."""
        for p in self.parameters:
            if p.space == "global" and p.type not in (_STORAGE[dtypes[p.name]], f"{p.name}_type"):
                stored = _STORAGE[dtypes[p.name]]
                return f"the kernel's {p.name} is {p.type}, the tensor is {dtypes[p.name].name} ({stored})"
        return None


def _product(numbers: tuple[int, ...]) -> int:
    total = 1
    for n in numbers:
        total *= n
    return total


def result_names(target: OpOverload) -> list[str]:
    """Returns the schema's names of the results, or "out", or "out0", "out1", ... if it has no names."""
    returns = schema_of(target).returns
    if all(r.name for r in returns):
        return [r.name for r in returns]
    return ["out"] if len(returns) == 1 else [f"out{i}" for i in range(len(returns))]


# ---------------------------------------------------------------- a call


class _Call:
    """A call of the op during lowering, with its arguments and results by name."""

    def __init__(self, op: _Custom, c: Context, arguments: tuple[Any, ...]) -> None:
        self.op, self.c = op, c
        names = [a.name for a in schema_of(op.target).arguments]
        self.arguments = dict(zip(names, arguments, strict=True))
        if any(isinstance(x, Slot | Filled) for a in arguments if isinstance(a, list) for x in a):
            raise Unsupported("a list of tensors")
        self.tensors = {n: c.tensor(x) for n, x in self.arguments.items() if isinstance(x, Slot | Filled)}
        self.outs = result_names(op.target)
        indices: list[int | None] = [None] if len(self.outs) == 1 else list(range(len(self.outs)))
        if not isinstance(c.node.meta["val"], tuple | list):
            indices = [None]
        self.fakes = [c.fake(i) for i in indices]
        self.results = [c.builder.temp(dtype_of(f.dtype), c.sizes.shape(f.shape)) for f in self.fakes]
        given = self._given()
        self.stand_ins = {**given, **dict(zip(self.outs, self.fakes, strict=True))}

    def _given(self) -> dict[str, Any]:
        """Returns the call's arguments as torch traced them: fake tensors and numbers."""
        node, made = self.c.node, {}
        for i, a in enumerate(schema_of(self.op.target).arguments):
            x = node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            made[a.name] = torch.fx.node.map_arg(x, lambda n: n.meta["val"])
        return made

    def evaluate(self, size: Any, what: str) -> Any:
        """Returns `size` if it is a number, otherwise the result of the function `size`, whose parameters name tensors
        and numbers of the call."""
        if not callable(size):
            return size
        names = list(inspect.signature(size).parameters)
        unknown = [n for n in names if n not in self.stand_ins]
        if unknown:
            known = ", ".join(self.stand_ins)
            raise Error(f"{self.op.name}: parameters of {what}: expected some of {known}, got {unknown[0]!r}")
        return size(**{n: self.stand_ins[n] for n in names})

    def kernels(self) -> Iterator[Node]:
        dtypes = {n: x.dtype for n, x in (*self.tensors.items(), *zip(self.outs, self.results, strict=True))}
        absent = [p.name for s in self.op.sources for p in s.parameters if p.space == "global" and p.name not in dtypes]
        if absent:
            raise Unsupported(f"{absent[0]} is None, which its kernel does not accept")
        reasons = [s.refuses(dtypes) for s in self.op.sources]
        if reasons and all(reasons):
            raise Unsupported(str(reasons[0]))
        for source, reason in zip(self.op.sources, reasons, strict=True):
            if reason is None:
                yield self._kernel(source, dtypes)

    def _kernel(self, s: _Source, dtypes: Mapping[str, schema.DType]) -> Node:
        grid = self.evaluate(s.kernel.grid, "grid")
        grid = list(grid) if isinstance(grid, tuple | list) else [grid]
        local = s.local(len(grid))
        if not 1 <= len(grid) <= 3 or len(local) != len(grid):
            raise Error(
                f"{self.op.name}: grid and local: expected 1 to 3 numbers in both, got {len(grid)} and {len(local)}"
            )
        types = "".join(f"#define {n}_type {_STORAGE[t]}\n" for n, t in dtypes.items())
        fields = {
            "device": schema.CustomDevice[s.kernel.device],
            "prelude": types + s.prelude,
            "body": s.body,
            "parameters": [self._parameter(s, p) for p in s.parameters],
            "global_": [self.c.sizes.resolve(n) for n in grid],
            "local": list(local),
        }
        return Node("CustomKernel", fields)

    def _parameter(self, s: _Source, p: _Parameter) -> Node:
        if p.space == "global":
            order = [*self.tensors, *self.outs]
            return _parameter_node(p.name, _P.tensor, index=order.index(p.name))
        if p.space == "local":
            found = [d for d, t in _STORAGE.items() if t == p.type]
            if not found:
                raise Error(f"{self.op.name}: the kernel's {p.name} is local memory of {p.type}")
            n = self.c.sizes.resolve(self.evaluate(s.kernel.local_memory[p.name], f"local_memory[{p.name!r}]"))
            return _parameter_node(p.name, _P.local, i=n, dtype=found[0])
        return self._number(s, p)

    def _number(self, s: _Source, p: _Parameter) -> Node:
        if p.name in s.kernel.values:
            value = self.evaluate(s.kernel.values[p.name], f"values[{p.name!r}]")
            is_symbol = isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat)
            value = self.c.sizes.number(value) if is_symbol else value
        else:
            value = self.arguments[p.name]
        kind = _NUMBERS[p.type]
        is_float = isinstance(value, float) or (isinstance(value, Val) and value.type == "float")
        if not isinstance(value, int | float | Val) or (is_float and kind in (_P.int_, _P.long_)):
            raise Unsupported(f"the kernel's {p.name} is {p.type}, the call has {value!r}")
        if kind in (_P.float_, _P.double_):
            return _parameter_node(p.name, kind, f=value)
        return _parameter_node(p.name, kind, i=int(value) if isinstance(value, bool) else value)

    def reference(self) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
        """Traces the reference. Returns its graph, a function of the tensors, and its fake results."""
        given = self._given()
        names = list(self.tensors)

        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            made = self.op.reference(**(given | dict(zip(names, tensors, strict=True))))
            return tuple(made) if isinstance(made, tuple | list) else (made,)

        tensors = [given[n] for n in names]
        try:  # first without functional tensors, which would let the reference read data that they do not have
            plain = make_fx(run, tracing_mode="symbolic")(*tensors)
            graph = make_fx(torch.func.functionalize(plain), decompositions(), tracing_mode="symbolic")(*tensors)
        except Exception as e:
            message = str(e).splitlines()[0] if str(e) else ""
            raise Error(f"{self.op.name}: torch cannot trace its reference: {type(e).__name__}: {message}") from e
        results = next(n for n in graph.graph.nodes if n.op == "output").args[0]
        return graph, [r.meta["val"] for r in results]

    def check_shapes(self, results: list[torch.Tensor]) -> None:
        """Raises Error if the results of the fake kernel and of the reference differ in number, dtype or shape."""
        if len(results) != len(self.fakes):
            raise Error(f"{self.op.name} returns {len(self.fakes)} results and its reference {len(results)}")
        for name, fake, got in zip(self.outs, self.fakes, results, strict=True):
            same = fake.dtype == got.dtype and fake.dim() == got.dim()
            if same and all(statically_known_true(a == b) for a, b in zip(fake.shape, got.shape, strict=True)):
                continue
            raise Error(
                f"{self.op.name}: {name} is {_described_tensor(fake)} by its fake kernel, "
                f"{_described_tensor(got)} by its reference"
            )


def _parameter_node(name: str, kind: schema.CustomParameterKind, **fields: Any) -> Node:
    return Node("CustomParameter", {"name": name, "kind": kind, **fields})


def _described_tensor(t: torch.Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} ({', '.join(map(str, t.shape))})"


@dataclass(frozen=True)
class _Custom:
    """A registered op and its lowering."""

    name: str
    target: OpOverload
    sources: list[_Source]
    reference: Callable[..., Any]

    def __call__(self, c: Context, *arguments: Any) -> Any:
        call = _Call(self, c, arguments)
        graph, results = call.reference()
        call.check_shapes(results)
        kernels = list(call.kernels())
        args = list(call.tensors.values())
        with c.body(f"{c.node.name}.reference") as body:
            body.args = [c.builder.temp(x.dtype, x.shape) for x in args]
            made = c.run(graph, list(body.args))
            body.results = [slot_as(c, v, out.dtype) for v, out in zip(made, call.results, strict=True)]
        c.builder.emit(
            "Custom", target=self.name, kernels=kernels, reference_chain=body, args=args, results=call.results
        )
        return list(call.results) if isinstance(c.node.meta["val"], tuple | list) else call.results[0]
