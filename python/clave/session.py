"""Runs programs on devices, and lists devices."""

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
    """Returns all devices: OpenCL devices in order, then the CPU backend, as dicts with the fields of
    clave_device_info.

    `index` is the N of device="opencl:N", or -1 for device="cpu". `is_default` marks the device that is used if
    CLAVE_DEVICE is unset.
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
_logged: set[str] = set()


def _log_note(ctx: object, line: bytes) -> None:
    note = line.decode(errors="replace")
    _log.log(logging.DEBUG if note in _logged else logging.WARNING, "%s", note)
    _logged.add(note)


_LOG_NOTE = L.MESSAGE_FN(_log_note)


_SPECS = "'cpu', 'opencl', 'opencl:N', 'opencl:TEXT', a comma list of such, or None"


class Device(L.Uncopied):
    """An open device. Its sessions share the kernels that are built for it.

    spec: "cpu", "opencl", "opencl:N", "opencl:TEXT", or a comma list. None: CLAVE_DEVICE; if that is unset, the best
    OpenCL device if there is a GPU or an accelerator, otherwise the CPU backend. fallback: the CPU backend runs ops
    that the device cannot run; if False, such an op raises Error. Several threads may use a device. Raises Error for an
    invalid spec, with the valid ones.

    The logger "clave" passes on each note of the device as a warning, once per process, for example that an op runs
    elsewhere.
    """

    def __init__(self, spec: str | None = None, *, fallback: bool = True) -> None:
        name = None if spec is None else arguments.text("spec", spec, _SPECS)
        self.spec = spec
        only = not arguments.flag("fallback", fallback)
        options = C.byref(L.DeviceOptions(size=C.sizeof(L.DeviceOptions), no_fallback=only, message=_LOG_NOTE))
        self.handle = L.Handle("clave_device_open", "clave_device_destroy", name, options)

    def __repr__(self) -> str:
        return f"<clave.Device {self.spec or 'chosen by CLAVE_DEVICE, else the best'}>"

    def supported(
        self, program: Program, method: str = "forward", *, fused: bool = False, allow_custom_kernels: bool = False
    ) -> list[Place]:
        """Returns where each node of a method would run on this device, by number, and why, without running anything.

        fused: nodes are fused as in a session; otherwise every node is by itself. allow_custom_kernels: see Session.
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
        """Packs the constants that sessions of the program would pack on this device at their first runs. A .clv that
        is saved afterwards has the packed weights, and sessions on devices of the same kind use them in place.

        allow_custom_kernels: see Session. Raises Error if a session of the program exists, or if the device lacks
        memory.
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
    """Returns x if it is a Device, otherwise opens the device of the spec x, or of None."""
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

    program: a Program or the path of one. device: a Device, or a spec, for which a device is opened; fallback: see
    Device. seed: random seed of random ops, in [0, 2**64). One thread at a time may use a session.

    fused: False runs every node by itself, to compare results node by node.

    warm_up: "wait" builds kernels before the first results. With "background", the CPU backend runs the program while
    kernels are built; afterwards, between runs, the session moves to the device with its state. If building fails, the
    session stays on the CPU backend.

    precision: "strict" or "fast" (docs/reference/precision.md); None: the value of CLAVE_PRECISION.

    allow_custom_kernels: the device may run kernels that the program carries for its author's ops (clave.register_op),
    which are code that can do anything there. If False, a program with a kernel for the device raises Error.
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
        fallback_option = {} if fallback is None else {"fallback": arguments.flag("fallback", fallback)}
        if isinstance(device, Device) and fallback_option:
            raise Error("fallback: pass it where the Device is opened, Device(spec, fallback=...), not to a session")
        if not isinstance(program, Program):
            program = Program.load(os.fsdecode(arguments.path("program", program, "a clave.Program or a path")))
        self.program = program
        self._take_weights()
        self.device = open_device(device, **fallback_option)
        owners = (self.program.handle, self.device.handle)
        pointers = (o.pointer for o in owners)
        options = C.byref(L.SessionOptions(size=C.sizeof(L.SessionOptions), **how))
        self._handle = L.Handle("clave_session_create", "clave_session_destroy", *pointers, options, keep=owners)

        self._observer, self._raised = L.OBSERVE_FN(), Raised()

    def _take_weights(self) -> None:
        self.program.own_weights()

    @property
    def inputs(self) -> list[Argument]:
        """The inputs of the method "forward", or of the only method: name, dtype, shape and bounds."""
        return self._only_method().given()

    @property
    def outputs(self) -> list[Argument]:
        """The outputs of the method "forward", or of the only method."""
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
        """Runs a method. Returns its tensors as a flat tuple of numpy arrays, in the order of the module's result. They
        are followed by the new values of inputs that the module changes in place; the inputs stay unchanged here.

        inputs, kwargs: as for the module, nested as at export, or all by the program's names of its inputs. They are
        numpy arrays or torch tensors (read in place, any strides), or Python numbers for host scalars. Complex inputs
        and results are complex64 or complex128. bf16 and 8-bit floats have ml_dtypes' dtypes.

        Raises Error (a RuntimeError) with the name of a wrong input, what it is and what was expected; also if an input
        that the module changes shares memory with another one. Such an error, before anything runs, leaves state (the
        module's buffers) unchanged. A run that fails later may have changed state in part or, if data such as an index
        was bad, to wrong values. reset() restores it.
        """
        m = _method(self.program, method)
        return self._run_bound(m, self._bind(m, inputs, kwargs))

    def _run_bound(self, m: Method, given: dict[int, Any]) -> tuple[np.ndarray, ...]:
        """Runs a method. given: the inputs by position."""
        name, owners = m.name.encode(), []
        overlap.check_disjoint([a.name for a in m.inputs], given, (i for i, _ in m.metadata.get("changed", ())))
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
        """Runs a method, like `run`. Returns torch tensors in the structure that the module itself returns. Inputs,
        torch tensors or numpy arrays, that the module changes in place are changed in place. Needs torch."""
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
        """Writes the new values of inputs into the tensors or arrays of the caller."""
        for index, output in m.metadata.get("changed", ()):
            try:
                _tensors.write(given[index], arrays[output])
            except (RuntimeError, ValueError, TypeError) as e:
                raise Error(f"input {m.inputs[index].name!r} is changed in place, which it does not allow: {e}") from e

    def observe(self, see: Callable[[int, np.ndarray], None] | None) -> None:
        """Calls see(node, value) after each node of a run, for each tensor that the node wrote. node: its number, see
        placement. An exception ends the run and is raised. None: stops the calls. A node that is fused into another
        writes nothing."""
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
        raised = self._raised.take()
        try:
            if raised is not None:
                raise raised
        finally:
            del raised  # its traceback has this frame

    def close(self) -> None:
        """Frees the session's memory and state now. A second call does nothing; any other call raises Error. `with`
        calls it."""
        self._handle.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def reset(self) -> None:
        """Resets state to its initial values, and random numbers to the first ones."""
        L.call("clave_session_reset", self._handle.pointer)

    def resize(self, size: str, n: int) -> None:
        """Sets a named size of state, such as "context" of a KV cache, to n. `clave inspect` shows the names.

        State keeps its contents up to the new size; new elements are zeros. In a new session the size is the largest
        possible, and state is allocated at the first run. Raises clave.Error if no state has the size, or if n is out
        of its bounds.
        """
        size_name, rows = arguments.text("size", size), arguments.integer("n", n, -(2**63), 2**63 - 1)
        L.call("clave_session_resize", self._handle.pointer, size_name, rows)

    @property
    def answered_by(self) -> str | None:
        """The kind of the device of the last run: "opencl", or "cpu" if the CPU backend ran it."""
        return _text(L.library().clave_session_answered_by(self._handle.pointer))

    def placement(self, method: str = "forward") -> list[Place]:
        """Returns where each node of a method runs, by number, and why, as of the last run. An op whose kernel the
        device cannot run, or whose results are wrong, moves to the CPU backend in a run."""
        m = _method(self.program, method)
        return _places(L.Handle("clave_session_placement", "clave_placement_destroy", self._handle.pointer), m)

    def _bind(self, m: Method, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
        names = [a.name for a in m.inputs]
        if m.metadata and not (kwargs and not inputs and self._is_by_name(m, names, kwargs)):
            return structure.bind(m.metadata["inputs"], m.metadata.get("parameters", []), inputs, kwargs)
        # an importer other than clave.export, or inputs by name: inputs by position come first
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
        """True if the arguments are the program's inputs, by names that the module's parameters do not have."""
        return set(kwargs) == set(names) and not set(kwargs) <= set(m.metadata.get("parameters", []))

    def _set(self, m: Method, index: int, value: Any) -> Any:
        """Binds an input. Returns the object that must live until the run ends."""
        info = m.inputs[index]
        see = _tensors.view_pairs if index in m.complex_inputs else _tensors.view
        try:
            view, owner = see(value, info.number)
        except Error as e:
            raise Error(f"input {info.name!r}: {e}", e.code) from e
        except Exception as e:  # any exception of torch, numpy or a class of the caller
            raise Error(f"input {info.name!r}: {_tensors.one_line(e)}") from e
        L.call("clave_session_bind_input", self._handle.pointer, m.name.encode(), index, C.byref(view))
        return owner

    def _output(self, method: bytes, index: int) -> np.ndarray:
        out = L.Tensor()
        L.call("clave_session_output", self._handle.pointer, method, index, C.byref(out))
        return _tensors.to_numpy(out)


def _result(array: np.ndarray, info: Argument) -> Any:
    """Returns a torch tensor, or a Python number if the module returned one."""
    return array.item() if info.is_scalar else _tensors.to_torch(array)
