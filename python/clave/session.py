"""Runs programs, and lists the devices that can."""

from __future__ import annotations

import ctypes as C
import dataclasses
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from clave import _library as L
from clave import _tensors, arguments, overlap, structure
from clave.errors import Error, Raised
from clave.program import Argument, Method, Place, Program


def devices() -> list[dict[str, Any]]:
    """Every device: OpenCL's in order, then the CPU backend, as dicts with the fields of clave_device_info.

    `index` is the N of device="opencl:N" (-1: device="cpu"); `is_default` marks what an unset CLAVE_DEVICE picks.
    """
    count = C.c_int()
    L.call("clave_devices_count", C.byref(count))
    return [_device(i) for i in range(count.value)]


def _device(index: int) -> dict[str, Any]:
    info = L.DeviceInfo()
    L.call("clave_devices_get", index, C.byref(info))
    return {name: _text(getattr(info, name)) for name, _ in L.DeviceInfo._fields_ if name != "size"}


def _text(x: Any) -> Any:
    return x.decode(errors="replace") if isinstance(x, bytes) else x


_log = logging.getLogger("clave")
_told: set[str] = set()


def _tell(ctx: object, line: bytes) -> None:
    note = line.decode(errors="replace")
    _log.log(logging.DEBUG if note in _told else logging.WARNING, "%s", note)
    _told.add(note)


_TELL = L.MESSAGE_FN(_tell)


_SPECS = "'cpu', 'opencl', 'opencl:N', 'opencl:TEXT', a comma list of such, or None"


class Device(L.Uncopied):
    """An open device: its sessions share the kernels that are built for it.

    spec: "cpu", "opencl", "opencl:N", "opencl:TEXT", or a comma list; None is CLAVE_DEVICE, and if that is not set the
    best OpenCL device, else the CPU. fallback: whether the CPU backend runs the ops that the device cannot; else those
    are an error. For any number of threads.

    Notes, as of an op that another device runs, are warnings of the logger "clave", each once in a process.
    """

    def __init__(self, spec: str | None = None, *, fallback: bool = True) -> None:
        name = None if spec is None else arguments.text("spec", spec, _SPECS)
        self.spec = spec
        only = not arguments.flag("fallback", fallback)
        options = C.byref(L.DeviceOptions(size=C.sizeof(L.DeviceOptions), no_fallback=only, message=_TELL))
        self.handle = L.Handle("clave_device_open", "clave_device_destroy", name, options)

    def __repr__(self) -> str:
        return f"<clave.Device {self.spec or 'chosen by CLAVE_DEVICE, else the best'}>"

    def supported(
        self, program: Program, method: str = "forward", *, fused: bool = False, allow_custom_kernels: bool = False
    ) -> list[Place]:
        """Where each node of a method would run on this device, by number, and why; nothing is run for it.

        fused: with neighbours joined as in a session; else every node by itself. allow_custom_kernels: see Session.
        """
        m = _method(_program(program), method)
        how = {
            "unfused": not arguments.flag("fused", fused),
            "allow_custom_kernels": arguments.flag("allow_custom_kernels", allow_custom_kernels),
        }
        options = C.byref(L.SessionOptions(size=C.sizeof(L.SessionOptions), **how))
        pointers = program.handle.pointer, self.handle.pointer
        return _places(L.Handle("clave_program_supported", "clave_placement_destroy", *pointers, options), m)

    def pack(self, program: Program, *, allow_custom_kernels: bool = False) -> None:
        """Packs the constants that sessions of the program pack on this device at their first runs, without a run. A
        .clv that it is saved to has them so; sessions on devices of the same kind use them where they lie.

        Before any session of the program is made; allow_custom_kernels: see Session. Error: sessions use the program,
        or the device has no memory for them.
        """
        allowed = arguments.flag("allow_custom_kernels", allow_custom_kernels)
        options = L.SessionOptions(size=C.sizeof(L.SessionOptions), allow_custom_kernels=allowed)
        _program(program).own_weights()
        L.call("clave_program_pack", program.handle.pointer, self.handle.pointer, C.byref(options))


def _program(x: Any) -> Program:
    if not isinstance(x, Program):
        raise arguments.refused("program", "a clave.Program (of a file: clave.load)", x)
    return x


def open_device(x: Any, **how: Any) -> Device:
    """A Device, or the one of a spec."""
    if isinstance(x, Device):
        return x
    if x is not None and not isinstance(x, str):
        raise arguments.refused("device", f"a clave.Device, {_SPECS}", x)
    return Device(x, **how)


def _method(program: Program, name: str) -> Method:
    if not isinstance(name, str):
        raise arguments.refused("method", "the name of a method", name)
    if name not in program.methods:
        raise Error(f"method: expected {' or '.join(program.methods)}, got {name!r}, which the program does not have")
    return program.methods[name]


def _places(places: L.Handle, m: Method) -> list[Place]:
    return [_place(places, m.name.encode(), i) for i in range(m.n_nodes)]


def _place(places: L.Handle, method: bytes, index: int) -> Place:
    info = L.PlacementInfo()
    L.call("clave_placement_get", places.pointer, method, index, C.byref(info))
    return Place(*(_text(getattr(info, f.name)) for f in dataclasses.fields(Place)))


_PRECISIONS = ("strict", "fast", None)
_WARM_UPS = ("wait", "background")  # clave_warm_up


class Session(L.Uncopied):
    """A program on a device, with the memory and the state (KV caches, buffers that the module changes) of its runs.

    program: a Program or the path of one. device: a Device, or the spec of one that is opened for this session;
    fallback: see there. seed: of random ops, in [0, 2**64). One session is for one thread at a time.

    fused: False runs every node by itself, for comparison node by node.

    warm_up: "wait", or "background": while kernels are built the CPU backend answers; between runs, once they are
    there, the session moves to the device with its state. What goes wrong before leaves it on the CPU backend.

    precision: "strict" or "fast", as CLAVE_PRECISION says (docs/reference/precision.md); None: as that variable says.

    allow_custom_kernels: whether the device runs the kernels that the program carries for ops of its author's
    (clave.register_op), which is code that can do anything there; else a program that has one for it is an Error.
    """

    def __init__(
        self,
        program: Program | str | os.PathLike[str],
        device: Device | str | None = None,
        *,
        seed: int = 0,
        fallback: bool | None = None,
        fused: bool = True,
        warm_up: str = "wait",
        precision: str | None = None,
        allow_custom_kernels: bool = False,
    ) -> None:
        how = {
            "unfused": not arguments.flag("fused", fused),
            "seed": arguments.integer("seed", seed, 0, 2**64 - 1),
            "fast": arguments.choice("precision", precision, _PRECISIONS) == "fast",
            "strict": precision == "strict",
            "warm_up": _WARM_UPS.index(arguments.choice("warm_up", warm_up, _WARM_UPS)),
            "allow_custom_kernels": arguments.flag("allow_custom_kernels", allow_custom_kernels),
        }
        asked = {} if fallback is None else {"fallback": arguments.flag("fallback", fallback)}
        if isinstance(device, Device) and asked:
            raise Error(
                "fallback: expected it where the Device is opened, Device(spec, fallback=...), got it for a session"
            )
        if not isinstance(program, Program):
            program = Program.load(os.fsdecode(arguments.path("program", program, "a clave.Program or a path")))
        self.program = program
        self._take_weights()
        self.device = open_device(device, **asked)
        owners = (self.program.handle, self.device.handle)
        pointers = (o.pointer for o in owners)
        options = C.byref(L.SessionOptions(size=C.sizeof(L.SessionOptions), **how))
        self._handle = L.Handle("clave_session_create", "clave_session_destroy", *pointers, options, keep=owners)

        self._observer, self._raised = L.OBSERVE_FN(), Raised()

    def _take_weights(self) -> None:
        self.program.own_weights()

    @property
    def inputs(self) -> list[Argument]:
        """What run takes, of the method "forward" or the only one: name, dtype, shape and bounds of each input."""
        return self._only_method().given()

    @property
    def outputs(self) -> list[Argument]:
        """What run gives, of the method "forward" or the only one."""
        return self._only_method().results()

    def _only_method(self) -> Method:
        methods = self.program.methods
        if "forward" not in methods and len(methods) > 1:
            raise Error(
                f"expected one of the methods {', '.join(methods)}: session.program.methods[name] has its inputs"
            )
        return methods.get("forward") or next(iter(methods.values()))

    def __repr__(self) -> str:
        if self._handle.is_closed:
            return "<clave.Session, closed>"
        return f"<clave.Session {'; '.join(map(str, self.program.methods.values()))}; {self.device!r}>"

    def run(self, *inputs: Any, method: str = "forward", **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Runs a method; gives its tensors in the order of the module's result, as numpy arrays; behind them what those
        inputs become that the module changes in place, and which are left as they are here. An input that the module
        changes shares no memory with another one, else that is an Error before anything runs.

        inputs, kwargs: as the module took them, nested as at export, or all by the program's own names of its inputs;
        numpy arrays or torch tensors (read in place, any strides), Python numbers for host scalars. Complex inputs and
        results are complex64 or complex128. bf16 and 8-bit floats have ml_dtypes' dtypes. Error (a RuntimeError)
        names the input, what it is and what it should be.

        A run that fails may have changed state (the module's buffers), in part or with wrong values where data was bad,
        such as an index; reset() begins anew. An error that is found before anything runs, such as an input's shape,
        leaves state alone.
        """
        m = _method(self.program, method)
        return self._run_bound(m, self._bind(m, inputs, kwargs))

    def _run_bound(self, m: Method, given: dict[int, Any]) -> tuple[np.ndarray, ...]:
        """given: the inputs by position."""
        name, owners = m.name.encode(), []
        overlap.check_apart([a.name for a in m.inputs], given, (i for i, _ in m.metadata.get("changed", ())))
        try:
            for index, value in sorted(given.items()):
                owners.append(self._set(m, index, value))
            self._run(name)
        finally:
            for index in range(len(m.inputs)):
                L.call("clave_session_bind_input", self._handle.pointer, name, index, None)
        arrays = [self._output(name, i) for i in range(len(m.outputs))]
        return tuple(_tensors.join_pairs(a) if i in m.complex_outputs else a for i, a in enumerate(arrays))

    def __call__(self, *inputs: Any, method: str = "forward", **kwargs: Any) -> Any:
        """The same with torch tensors in the structure that the module itself returns. What the module changes in place
        is changed in place: the torch tensor or numpy array that was given. Needs torch."""
        _tensors.need_torch()
        m = _method(self.program, method)
        given = self._bind(m, inputs, kwargs)
        for index, _ in m.metadata.get("changed", ()):
            if index in given:
                overlap.check_writable(m.inputs[index].name, given[index])
        arrays = self._run_bound(m, given)
        self._change(m, arrays, given)
        leaves = [_result(a, info) for a, info in zip(arrays, m.outputs, strict=True)]
        return structure.build(m.metadata["outputs"], leaves.__getitem__) if m.metadata else tuple(leaves)

    def _change(self, m: Method, arrays: tuple[np.ndarray, ...], given: dict[int, Any]) -> None:
        """Writes what inputs become into those that were given."""
        for index, output in m.metadata.get("changed", ()):
            try:
                _tensors.write(given[index], arrays[output])
            except (RuntimeError, ValueError, TypeError) as e:
                raise Error(f"input {m.inputs[index].name!r} is changed in place, which it does not allow: {e}") from e

    def observe(self, see: Callable[[int, np.ndarray], None] | None) -> None:
        """Has see(node, value) called after each node of a run, by number (see placement), for each tensor that it
        wrote; what it raises ends the run. None: no more. Nodes that are fused into others write nothing."""
        raised = self._raised

        def called(ctx: Any, node: int, slot: int, value: Any) -> bool:
            try:
                see(node, _tensors.to_numpy(value.contents))  # type: ignore[misc]
            except BaseException as e:
                raised.error = e
            return raised.error is None

        if see is not None:
            arguments.function("see", see, "a function of a node and a value, or None")
        self._observer = L.OBSERVE_FN(called) if see is not None else L.OBSERVE_FN()
        L.call("clave_session_observe", self._handle.pointer, self._observer, None)

    def _run(self, method: bytes) -> None:
        self._raised.error = None
        try:
            L.call("clave_session_run", self._handle.pointer, method)
        except Error:
            if self._raised.error is None:
                raise
        self.program.check_held()
        raised = self._raised.take()
        try:
            if raised is not None:
                raise raised
        finally:
            del raised  # its traceback has this frame

    def close(self) -> None:
        """Frees its memory and state now; a second call does nothing, any other is an Error. `with` calls it."""
        self._handle.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def reset(self) -> None:
        """State back to its initial value, random numbers to their first."""
        L.call("clave_session_reset", self._handle.pointer)

    def resize(self, size: str, n: int) -> None:
        """State whose shape has this size ("context" of a KV cache; `inspect` shows them) gets n along it.

        What it holds stays, as far as there is room, with zeros behind it. In a new session such a size is the largest,
        and state gets memory in the first run. clave.Error where no state has the size, or n is out of its bounds.
        """
        size_name, rows = arguments.text("size", size), arguments.integer("n", n, -(2**63), 2**63 - 1)
        L.call("clave_session_resize", self._handle.pointer, size_name, rows)

    @property
    def answered_by(self) -> str | None:
        """The kind of the device of the last run: "opencl", or "cpu" where the CPU backend answered for it."""
        return _text(L.library().clave_session_answered_by(self._handle.pointer))

    def placement(self, method: str = "forward") -> list[Place]:
        """Where each node of a method runs, by number, and why: as of the last run, in which ops whose kernels the
        device cannot run, or gets wrong, go to the CPU backend."""
        m = _method(self.program, method)
        return _places(L.Handle("clave_session_placement", "clave_placement_destroy", self._handle.pointer), m)

    def _bind(self, m: Method, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
        names = [a.name for a in m.inputs]
        if m.metadata and not (kwargs and not inputs and self._is_by_name(m, names, kwargs)):
            return structure.bind(m.metadata["inputs"], m.metadata.get("parameters", []), inputs, kwargs)
        # a program of another importer, or inputs that were named: by position, then by name
        unknown = [k for k in kwargs if k not in names]
        if unknown:
            raise structure.unknown_input(unknown[0], names)
        if len(inputs) > len(names):
            raise Error(f"expected {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        twice = next((k for k in kwargs if names.index(k) < len(inputs)), None)
        if twice is not None:
            raise Error(f"input {twice!r}: expected once, got by position and by name")
        return dict(enumerate(inputs)) | {names.index(k): v for k, v in kwargs.items()}

    @staticmethod
    def _is_by_name(m: Method, names: list[str], kwargs: dict[str, Any]) -> bool:
        """Whether the arguments are the program's own inputs, by names that the module's parameters do not have."""
        return set(kwargs) == set(names) and not set(kwargs) <= set(m.metadata.get("parameters", []))

    def _set(self, m: Method, index: int, value: Any) -> Any:
        """Binds an input; gives what must live until the run is over."""
        info = m.inputs[index]
        see = _tensors.view_pairs if index in m.complex_inputs else _tensors.view
        try:
            view, owner = see(value, info.number)
        except Error as e:
            raise Error(f"input {info.name!r}: {e}", e.code) from e
        except Exception as e:  # torch's, numpy's and whatever a class of the caller's raises
            raise Error(f"input {info.name!r}: {_tensors.one_line(e)}") from e
        L.call("clave_session_bind_input", self._handle.pointer, m.name.encode(), index, C.byref(view))
        return owner

    def _output(self, method: bytes, index: int) -> np.ndarray:
        out = L.Tensor()
        L.call("clave_session_output", self._handle.pointer, method, index, C.byref(out))
        return _tensors.to_numpy(out)


def _result(array: np.ndarray, info: Argument) -> Any:
    """A torch tensor, or a Python number where the module returned one."""
    return array.item() if info.is_scalar else _tensors.to_torch(array)
