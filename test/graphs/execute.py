"""Exports a graph and runs it in sessions of clave: fused and not, with dense and strided inputs, sizes in both orders,
poisoned memory, and again after a reset. First runs are compared with the oracle, later ones with the first by bits.
optimized.py compares rewritten programs with the program before all passes."""

import copy
import ctypes as C
import functools
import os
import re
import warnings
from typing import Any

import torch
from graph import SCALAR, Graph, Module
from oracle import Answer, Oracle, Unfit, is_modelled, judge, same, values_of
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import is_concrete_int

import clave
from clave import _library as L
from clave.errors import Raised

TRIALS_A_DEVICE = 50  # after so many the device is opened again, without their kernels


class Failure(Exception):
    """A wrong result of clave. kind: equal for a smaller graph that shows the same fault."""

    def __init__(self, kind: str, text: str, runs: tuple = ()):
        super().__init__(text)
        self.kind, self.text = kind, text
        self.runs = runs


@functools.lru_cache(maxsize=8)
def opened(device: str, generation: int) -> clave.Device:
    """Returns a device of a class, such as "opencl/gpu"; each generation opens it again."""
    name, _, kind = device.partition("/")
    os.environ["CLAVE_DEVICE_CLASS"] = kind
    return clave.Device(name, fallback=False)


class Session(clave.Session):
    """Makes a session with options that only tests use."""

    def __init__(self, program: Any, device: clave.Device, unfused: bool):
        self.program, self.device = program, device
        owners = (program.handle, device.handle)
        s = L.SessionOptions(size=C.sizeof(L.SessionOptions), poison=True, unfused=unfused, unchecked=True)
        pointers = (o.pointer for o in owners)
        self._handle = L.Handle("clave_session_create", "clave_session_destroy", *pointers, C.byref(s), keep=owners)
        self._observer, self._raised = L.OBSERVE_FN(), Raised()


def export(graph: Graph) -> tuple[Any, Any]:
    """Returns the program before any pass, and torch's exported one. Raises Unfit if torch does not export it."""
    values = values_of(graph.inputs, graph.sizes[0], graph.seed)
    module = Module(graph, {s.name: values[s.name] for s in graph.state}).eval()
    args = tuple(values[a.name] for a in graph.arguments)
    dims = [
        Dim.AUTO if a.dtype == SCALAR else {d: Dim.AUTO for d, n in enumerate(a.shape) if isinstance(n, str)}
        for a in graph.arguments
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(module, args, dynamic_shapes=(tuple(dims),), strict=False)
        except Exception as e:
            raise Unfit(f"torch.export: {type(e).__name__}: {str(e)[:300]}") from None
        try:
            return clave.export(exported, passes=()), exported
        except clave.Error as e:
            torchs = (
                r"\(aten\.(unfold|expand)\.default\) is changed in place|tensor being mutated that has internal overlap"
            )
            if re.search(torchs, str(e)):  # torch's own functional program is wrong or missing
                raise Unfit(str(e)) from None
            raise Failure("export", f"clave.export: {type(e).__name__}: {e}") from None
        except Exception as e:  # any exception other than Error is a fault, too
            raise Failure("export", f"clave.export: {type(e).__name__}: {e}") from None


def strided(x: Any) -> Any:
    """Returns the same values, in every second element of memory with dimensions in reverse order."""
    if isinstance(x, int) or not x.dim():
        return x
    wide = torch.full((*reversed(x.shape[1:]), 2 * x.shape[0]), 77).to(x.dtype)[..., ::2]
    wide = wide.permute(*reversed(range(x.dim())))
    return wide.copy_(x)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(same(a, b).all())


def fixes_other_sizes(exported: Any, args: list[Any]) -> bool:
    """True if the exported program fixes a size that is different here. Its guards do not always show it."""
    shapes = {n.name: n.meta["val"] for n in exported.graph.nodes if n.op == "placeholder"}
    pairs = zip(exported.graph_signature.user_inputs, args, strict=True)
    return any(
        is_concrete_int(n) and n != m
        for name, x in pairs
        if isinstance(x, torch.Tensor)
        for n, m in zip(shapes[name].shape, x.shape, strict=True)
    )


class Trial:
    """One graph on one device."""

    count = 0  # trials of this process

    def __init__(self, graph: Graph, program: Any, exported: Any, device: str):
        self.graph, self.program, self.exported, self.device = graph, program, exported, device
        Trial.count += 1
        self.arguments = [values_of(graph.arguments, s, graph.seed + k) for k, s in enumerate(graph.sizes)]

    def session(self, unfused: bool, program: Any = None) -> Session:
        return Session(program or self.program, opened(self.device, Trial.count // TRIALS_A_DEVICE), unfused)

    def run(self, s: Session, k: int, change: Any = lambda x: x) -> list[torch.Tensor] | None:
        """Returns the outputs of a run on inputs k, or None if torch's program refuses these sizes, too."""
        values = self.arguments[k]
        args = [change(values[a.name]) for a in self.graph.arguments]
        try:
            return list(s(*args))
        except clave.Error as e:
            if self._torch_refuses(args):
                return None
            raise Failure("error", f"inputs {k}: {e}", (k,)) from None

    def _torch_refuses(self, args: list[torch.Tensor]) -> bool:
        if fixes_other_sizes(self.exported, args):
            return True
        try:
            self.exported.module()(*args)
        except Exception:
            return True
        return False

    def check(self, answers: list[list[Answer]], carried: list[list[Answer]]) -> None:
        """answers: results for each set of inputs from the initial state. carried: results for all sets in sequence."""
        fused = self.session(unfused=False)
        first: list[Any] = []
        for k, want in enumerate(answers):
            fused.reset()
            first.append(self.run(fused, k))
            if first[-1] is not None:
                self.compare(want, first[-1], k)
        if self.graph.state:
            fused.reset()
            for k, want in enumerate(carried):
                got = self.run(fused, k)
                if got is None:
                    break
                self.compare(want, got, k, "carried ")
        self._again(fused, first, "the same session again")
        self._again(self.session(unfused=True), first, "unfused, strided, other order", strided)

    def outputs(self, program: Any) -> list[list[torch.Tensor] | None]:
        """Runs another program of this graph: each set of inputs from the initial state, then all in sequence."""
        s = self.session(unfused=False, program=program)
        found = []
        for k in range(len(self.arguments)):
            s.reset()
            found.append(self.run(s, k))
        if self.graph.state:
            s.reset()
            found += [self.run(s, k) for k in range(len(self.arguments))]
        return found

    def _again(self, s: Session, first: list[Any], how: str, change: Any = lambda x: x) -> None:
        for k in reversed(range(len(first))):
            s.reset()
            got = self.run(s, k, change)
            if (got is None) != (first[k] is None):
                raise Failure("error", f"inputs {k}: sizes are refused in one session, not in another", (k,))
            for i, (a, b) in enumerate(zip(got or (), first[k] or (), strict=True)):
                if not same_bits(a, b):
                    raise Failure("bits", f"inputs {k}, output {i}: {how}: other bits than the first time", (k, i))

    def compare(self, want: list[Answer], got: list[torch.Tensor], k: int, how: str = "") -> None:
        if len(want) != len(got):
            raise Failure("values", f"{len(got)} outputs, torch has {len(want)}", (k,))
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            wrong = judge(a, b)
            if wrong and not how and self._export_differs(a, k, i):
                raise Unfit("torch's exported program differs from eager")
            if wrong:
                raise Failure("values", f"{how}inputs {k}, output {i}: {wrong}", (k, i))

    def _export_differs(self, want: Answer, k: int, i: int) -> bool:
        """True if torch's own exported program is wrong for these sizes: export fixes the pieces of a split."""
        module = copy.deepcopy(self.exported.module())
        try:
            args = [copy.copy(self.arguments[k][a.name]) for a in self.graph.arguments]
            return bool(judge(want, list(module(*args))[i]))
        except Exception:
            return True


def answers_of(graph: Graph, trial: Trial) -> tuple[list[list[Answer]], list[list[Answer]]]:
    oracle = Oracle(graph)
    fresh = []
    for arguments in trial.arguments:
        oracle.reset()
        fresh.append(oracle.run(arguments))
    carried = []
    if graph.state:
        oracle.reset()
        carried = [oracle.run(a) for a in trial.arguments]
    if not all(is_modelled(a) for answers in fresh + carried for a in answers):
        raise Unfit("torch's own result is out of the bound")
    return fresh, carried
