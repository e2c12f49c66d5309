"""Exports torch modules: `export` lowers the graphs of one or more methods with one builder and verifies the program.

Lowering continues after an op that cannot be lowered, with placeholders for its results, to name all such ops at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

from clave import arguments, mutation, structure, trace
from clave.builder import VIEWS, MethodBuilder, ProgramBuilder, Slot, Val
from clave.conversion import Conversion
from clave.entries import entries_of
from clave.errors import Code, Error, Unsupported
from clave.evaluation import Evaluator
from clave.lowering import LOWERINGS, Context
from clave.lowering.registry import COMPLEX, Complex, Filled, apply, dtype_of, written
from clave.naming import Names, by_method, dim_names, rename
from clave.packed import pack
from clave.places import Missing, Origins, failed, name_of, nodes_of, origin_of, users_line
from clave.private import OpOverload, export_lock, is_fake, meaning_of, schema_of
from clave.program import Program
from clave.progress import Progress
from clave.quantize import Choice, check_choice, join
from clave.quantize import quantize as quantize_weights
from clave.quiet import quiet
from clave.shared import Shared, States, data_of, is_state_update
from clave.sizes import Sizes
from clave.verification import Reference
from clave.verification import verify as verify_program

_SYMBOLIC = (SymIntArgument, SymFloatArgument, SymBoolArgument)


def export(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    quantize: Choice = None,
    *,
    strict: bool | None = None,
    verify: bool = False,
    dtype: torch.dtype | None = None,
    input_names: Names = None,
    output_names: Names = None,
    decompositions: Mapping[Any, Any] | None = None,
    report: bool = False,
    passes: Iterable[str] | None = None,
) -> Program:
    """Exports a torch module in eval mode as a program.

    module: a torch.nn.Module with example `args` and `kwargs` as for torch.export, an ExportedProgram, the path of a
    .pt2 file, or a dict of methods {"name": (module, args[, kwargs[, dynamic_shapes]]) or any of the others}. Methods
    share constants, and state that is one tensor in their modules. strict: as for torch.export; None tries non-strict
    first. The program uses the module's weights without a copy. If a weight was changed after the export, saving the
    program or creating a session raises Error.

    quantize: encoding of the weights of products, embeddings and convolutions, such as "int8" (a scale for each row) or
    "int4:32" (a scale for 32 neighbours), see clave.encodings.HELP; or a function of a weight's name and tensor that
    returns such a text or None.

    verify: runs the example inputs on the CPU backend and through the module, and, if sizes are symbolic, inputs of
    other sizes, too. If results differ, an Error says by how much and names the first node that differs. Weights are
    compared before they are quantised. passes: names of the passes that rewrite the program (`Program.optimized`). ()
    runs no pass, None all of them.

    dtype: floating-point parameters, buffers and example inputs, except 8-bit ones, are converted to it before the
    export; the module is not changed. input_names, output_names: names of the program's inputs and outputs in order, or
    a dict of such lists by method. decompositions: {torch.ops.ns.op: function}, used in place of torch's for these ops.
    report: prints Program.report. A long export shows its progress on a terminal. Raises UnsupportedOp, which lists
    every op that clave cannot run with its places in the model, and Error for anything else that is wrong.
    """
    entries = entries_of(module, args, kwargs, dynamic_shapes)
    verify, report = arguments.flag("verify", verify), arguments.flag("report", report)
    check_choice(quantize)
    if dtype is not None:
        entries = converted(entries, Conversion(dtype))
    options = Options(
        strict if strict is None else arguments.flag("strict", strict),
        decompositions if decompositions is None else trace.checked_table(decompositions),
        by_method("input_names", input_names, list(entries)),
        by_method("output_names", output_names, list(entries)),
        passes if passes is None else arguments.names("passes", passes),
    )
    with export_lock, quiet, Progress() as progress:
        program = _export_or_error(entries, options, verify, progress, quantize)
    if report:
        print(program.report)
    return program


def _export_or_error(
    entries: dict[str, Any], options: Options, verify: bool, progress: Progress, choice: Choice
) -> Program:
    """Exports, and raises Error for any exception of torch, numpy or a function of the caller."""
    try:
        return _export(entries, options, verify, progress, choice)
    except Error:
        raise
    except Exception as e:
        code = Code.NO_MEMORY if isinstance(e, MemoryError) else Code.INVALID
        raise Error(f"clave.export: {meaning_of(e)}{users_line(e)}", code) from e


@dataclass(frozen=True)
class Options:
    """Options of all methods, and the user's names by method."""

    strict: bool | None = None
    decompositions: Mapping[Any, Any] | None = None
    input_names: Mapping[str, list[str] | None] = field(default_factory=dict)
    output_names: Mapping[str, list[str] | None] = field(default_factory=dict)
    passes: Iterable[str] | None = None


def _export(entries: dict[str, Any], options: Options, verify: bool, progress: Progress, choice: Choice) -> Program:
    captured, captures = {}, trace.Captures()
    for name, entry in entries.items():
        with progress.stage("capturing", name):
            captured[name] = capture_method(captures, name, entry, options)
    of = {name: (*entry[:3], captured[name][0]) for name, entry in entries.items()} if verify else {}
    references = {name: Reference.of(name, *parts) for name, parts in of.items()}
    graphs = {name for name, entry in entries.items() if isinstance(entry[0], str | os.PathLike | ExportedProgram)}
    states = States({name: p for name, (p, _) in captured.items()}, graphs)
    for program, _ in captured.values():
        trace.erase_dead(program.graph_module.graph)
    origins = Origins()
    with progress.stage("lowering"):
        builder = build(captured, states, origins, options)
    errors: dict[str, float] = {}
    if choice is None or references:
        made = _rewritten(builder, origins, options, progress)
        with progress.stage("verifying"):
            errors = made.errors = verify_program(made, references, origins)
        if choice is None:
            return made
    with progress.stage("quantising"):
        builder.finish()  # removes dead nodes and unused constants
        quantize_weights(builder, choice)
    quantised = _rewritten(builder, origins, options, progress)
    quantised.errors = errors
    return quantised


def _rewritten(builder: ProgramBuilder, origins: Origins, options: Options, progress: Progress) -> Program:
    with progress.stage("rewriting"):
        return _made((builder.finish(), [data for _, data in builder.constants]), origins).optimized(options.passes)


def _made(built: tuple[Any, list[torch.Tensor]], origins: Origins) -> Program:
    try:
        return Program(*built)
    except Error as e:
        raise origins.located(e) from None


def lowered(graphs: Mapping[str, Any], choice: Choice = None, passes: Iterable[str] | None = None) -> Program:
    """Makes a program of functional, decomposed graphs, one method each. graphs: ExportedPrograms, or objects with the
    same parts. Methods share state that is one tensor. choice, passes: as quantize and passes of export."""
    origins = Origins()
    builder = build({name: (g, {}) for name, g in graphs.items()}, States(dict(graphs)), origins)
    if choice is not None:
        builder.finish()  # removes dead nodes and unused constants
        quantize_weights(builder, choice)
    return _made((builder.finish(), [data for _, data in builder.constants]), origins).optimized(passes)


def converted(entries: dict[str, Any], conversion: Conversion) -> dict[str, Any]:
    for name, (module, *_) in entries.items():
        if isinstance(module, str | os.PathLike | ExportedProgram):
            raise Error(f"dtype= needs the module of method {name!r}: a graph's dtypes are fixed", Code.UNSUPPORTED)
    return {
        name: (conversion.module(trace.checked(module)), conversion.inputs(args), conversion.inputs(kwargs), shapes)
        for name, (module, args, kwargs, shapes) in entries.items()
    }


def capture_method(
    captures: trace.Captures, name: str, entry: tuple[Any, Any, Any, Any], options: Options
) -> tuple[ExportedProgram, dict[Any, str]]:
    """Captures a method. Returns its decomposed graph, and the user's names of the graph's symbols."""
    module, args, kwargs, dynamic_shapes = entry
    if isinstance(module, str | os.PathLike):
        module = trace.load(module)
    if isinstance(module, ExportedProgram):
        _refuse_more(args, kwargs, dynamic_shapes)
        captured = module
    else:
        captured = captures.of(module, tuple(args or ()), kwargs, dynamic_shapes, options.strict)
    names = dim_names(captured, dynamic_shapes, options.input_names.get(name))
    return trace.decompose(captured, options.decompositions), names


def _refuse_more(args: Any, kwargs: Any, dynamic_shapes: Any) -> None:
    """Raises Error for arguments that only torch.export reads, because an ExportedProgram already has them."""
    for name, given in (("args", args), ("kwargs", kwargs), ("dynamic_shapes", dynamic_shapes)):
        if given:
            raise Error(
                f"{name} given with an ExportedProgram, whose sizes are fixed: pass them to torch.export.export"
            )


def build(
    captured: dict[str, tuple[ExportedProgram, dict[Any, str]]],
    states: States,
    origins: Origins | None = None,
    options: Options | None = None,
) -> ProgramBuilder:
    """Returns the program before slots are numbered. Raises UnsupportedOp with all ops that cannot be lowered."""
    builder = ProgramBuilder()
    shared = Shared(builder, states)
    missing, origins, options = Missing(), origins or Origins(), options or Options()
    for name, (program, names) in captured.items():
        origins.add(name, nodes_of(program.graph_module))
        method = builder.add_method(name)
        Method(method, program, shared, names, missing).lower()
        rename(method, options.input_names.get(name), options.output_names.get(name))
    if missing:
        raise missing.error()
    join(builder)
    return builder


class Method:
    """Lowers one graph into one method."""

    def __init__(
        self,
        builder: MethodBuilder,
        program: ExportedProgram,
        shared: Shared,
        names: dict[Any, str],
        missing: Missing,
    ) -> None:
        self.builder = builder
        self.program = program
        self.shared = shared
        self.missing = missing
        self.evaluator = Evaluator(program, shared.states)
        self.sizes = Sizes(builder, program.range_constraints, names)
        self.values: dict[torch.fx.Node, Any] = {}
        self.changed: list[list[int]] = []  # [input, output with its new value]

    def lower(self) -> None:
        graph = self.program.graph_module.graph
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        inputs = self._bind_inputs(list(zip(placeholders, self.program.graph_signature.input_specs, strict=True)))
        self._run(self.program.graph_module)
        outputs = self._bind_outputs(next(n for n in graph.nodes if n.op == "output").args[0])
        signature = self.program.module_call_graph[0].signature
        parameters = list(getattr(signature, "forward_arg_names", None) or [])
        metadata = {"inputs": inputs, "outputs": outputs, "parameters": parameters}
        metadata |= {"changed": self.changed} if self.changed else {}
        self.builder.metadata = json.dumps(metadata, separators=(",", ":"))

    # ---- inputs

    def _bind_inputs(self, placeholders: list[tuple[torch.fx.Node, InputSpec]]) -> structure.Spec:
        leaves: list[structure.Spec] = []
        for node, spec in placeholders:
            self._bind_input(node, spec, leaves)
        self._equate_sizes()
        return structure.from_treespec(self.program.call_spec.in_spec, iter(leaves))

    def _bind_input(self, node: torch.fx.Node, spec: InputSpec, leaves: list[structure.Spec]) -> None:
        if spec.kind == InputKind.USER_INPUT:
            leaves.append(self._bind_user_input(node, spec.arg))
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            if not node.users and _is_without_use(node, data_of(self.program, str(spec.target))):
                return
            self.values[node] = self.shared.tensor(self.program, spec)
        elif spec.kind == InputKind.TOKEN:
            self.values[node] = None  # orders effects; an op with an effect is refused under its own name
        else:
            raise Error(f"input {node.name!r} is a {spec.kind.name.lower()}, which is not supported", Code.UNSUPPORTED)

    def _bind_user_input(self, node: torch.fx.Node, arg: Any) -> structure.Spec:
        if isinstance(arg, ConstantArgument):
            self.values[node] = arg.value
            return _constant(arg.value)
        value: Slot | Val
        fake = node.meta["val"]
        is_complex = isinstance(arg, TensorArgument) and fake.is_complex()
        if isinstance(arg, TensorArgument):
            shape = tuple(self._own_size(s) for s in fake.shape)
            value = Slot(_input_dtype(node), (*shape, 2) if is_complex else shape, "input", node.name)
        else:
            value = self._own_size(fake, node.name)
        self.values[node] = Complex(value) if is_complex else value
        if isinstance(value, int):  # torch fixed the number at export
            value = self.builder.val("int", node.name, value, value)
        self.builder.inputs.append((node.name, value))
        return structure.leaf(len(self.builder.inputs) - 1, is_complex)

    def _own_size(self, size: Any, name: str = "") -> Any:
        """Returns a dimension of an input, or a scalar input: a literal, the value of its symbol, or a new value that
        is equated to its expression later."""
        e = size.node.expr if hasattr(size, "node") else size
        if isinstance(e, int) or e.is_Integer:
            return int(e)
        if e.is_Symbol and (e not in self.sizes.known or not name):
            return self.sizes.known.get(e) or self.sizes.bind(e)
        own = self.builder.val("int", name or self.sizes.words(e))
        self.sizes.pending.append((own, e))
        return own

    def _equate_sizes(self) -> None:
        for own, e in self.sizes.pending:
            self.sizes.equate(own, e, f"{own.name or e} is the size that was exported as {self.sizes.words(e)}")
        for e in self.program.graph_module.meta.get(trace.CONDITIONS, ()):
            self.sizes.expect(e)

    # ---- instructions

    def _run(self, graph_module: torch.fx.GraphModule) -> None:
        for node in graph_module.graph.nodes:
            self.builder.source = name_of(node)
            if node.op == "call_function":
                self._call(node)
            elif node.op == "get_attr":
                self.values[node] = self._attribute(graph_module, node)

    def _attribute(self, graph_module: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
        found: Any = graph_module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return self.shared.constant(found, str(node.target)) if isinstance(found, torch.Tensor) else found

    def _call(self, node: torch.fx.Node) -> None:
        name = trace.op_name(node.target)
        if self._pack(node):
            return
        if name == "getitem":
            self._take_item(node)
        elif name in LOWERINGS or name in COMPLEX:
            self._lower(node, name)
        elif name.startswith("wrap_with_"):  # set_grad_enabled, autocast: only the body matters
            self._inline(node)
        elif name == mutation.KIND:
            self._lower_changing(node)
        elif name == "with_effects":
            self._lower_effect(node)
        elif not _is_size(node.meta.get("val")):  # sizes are computed when something needs them
            self._refuse(node, name, "")

    def _pack(self, node: torch.fx.Node) -> bool:
        """True if the call decodes a weight that the program keeps quantised."""
        packed = pack(node, self.evaluator)
        if packed is None:
            return False
        encoded = self.shared.encoded(packed.stored, packed.dtype, packed.shape, packed.name)
        plain = self.builder.emit("Dequantize", x=encoded, out=self.builder.temp(encoded.dtype, packed.shape))
        self.values[node] = plain
        if packed.is_transposed:
            self.values[node] = self.builder.view("Permute", plain, packed.shape[::-1], dims=[1, 0])
        return True

    def _lower(self, node: torch.fx.Node, name: str) -> None:
        context = Context(self.builder, self.sizes, node, self.shared.constant, self._run_graph)
        try:
            self.values[node] = apply(name, context, self._arguments(node))
        except Unsupported as e:
            self._refuse(node, name, str(e))
        except Exception as e:
            raise failed(e, name, origin_of(node, self.builder.name)) from e

    def _lower_changing(self, node: torch.fx.Node) -> None:
        name = trace.op_name(node.args[0])
        context = Context(self.builder, self.sizes, node, self.shared.constant, self._run_graph)
        try:
            if name not in LOWERINGS:
                raise Unsupported("")
            self.builder.source = name_of(node).replace(mutation.KIND, name.split(".")[1])
            call = mutation.split_call(node)
            made = LOWERINGS[name](context, *(self._argument(a) for a in call.arguments))
            self.values[node] = [made[i] for i in call.order]
        except Unsupported as e:
            self._refuse(node, name, str(e))

    def _lower_effect(self, node: torch.fx.Node) -> None:
        """Lowers an op that has an effect and no result. Its first argument is a token, which only orders such ops."""
        name = trace.op_name(node.args[1])
        if name not in LOWERINGS:
            return self._refuse(node, name, "")
        context = Context(self.builder, self.sizes, node, self.shared.constant, self._run_graph)
        LOWERINGS[name](context, *(self._argument(a) for a in node.args[2:]))
        self.values[node] = ["token"]

    def _take_item(self, node: torch.fx.Node) -> None:
        source, index = node.args
        items = self.values.get(source)
        if items is None:
            return
        self.values[node] = items[index]
        if items[index] is None:
            self._refuse(node, trace.op_name(source.target), f"its result {index}")

    def _inline(self, node: torch.fx.Node) -> None:
        body_at = next(i for i, a in enumerate(node.args) if isinstance(self.values.get(a), torch.fx.GraphModule))
        arguments = [self._argument(a) for a in node.args[body_at + 1 :]]
        self.values[node] = self._run_graph(self.values[node.args[body_at]], arguments)

    def _run_graph(self, graph_module: torch.fx.GraphModule, arguments: list[Any]) -> list[Any]:
        """Lowers a graph that is part of another, and returns its results."""
        inner = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
        for placeholder, value in zip(inner, arguments, strict=True):
            self.values[placeholder] = value
        self._run(graph_module)
        results = next(n for n in graph_module.graph.nodes if n.op == "output").args[0]
        return [self._argument(a) for a in (results if isinstance(results, list | tuple) else [results])]

    def _refuse(self, node: torch.fx.Node, name: str, reason: str) -> None:
        """Uses torch's result if it is known at export. Otherwise records the op and continues with placeholders."""
        known = self.evaluator.value(node)
        if known is not None:
            many = isinstance(known, tuple | list)
            made = [self.shared.constant(t, name_of(node)) for t in (known if many else [known])]
            self.values[node] = made if many else made[0]
            return
        self.missing.add(name, reason, origin_of(node, self.builder.name))
        val = node.meta.get("val")
        self.values[node] = [self._stand_in(v) for v in val] if isinstance(val, tuple | list) else self._stand_in(val)

    def _stand_in(self, val: Any) -> Any:
        if not isinstance(val, torch.Tensor):
            return self.builder.val() if _is_size(val) else None
        for s in val.shape:
            for symbol in getattr(getattr(s, "node", None), "expr", s).free_symbols if hasattr(s, "node") else ():
                if symbol not in self.sizes.known:
                    self.sizes.bind(symbol)
        try:
            if val.is_complex():
                return Complex(self.builder.temp(dtype_of(val.dtype.to_real()), self.sizes.shape((*val.shape, 2))))
            return self.builder.temp(dtype_of(val.dtype), self.sizes.shape(val.shape))
        except Unsupported:
            return self.builder.temp(dtype_of(torch.float32), (1,) * val.dim())

    def _arguments(self, node: torch.fx.Node) -> list[Any]:
        """Returns the call's arguments in the order of the op's schema, with defaults for absent ones."""
        if not isinstance(node.target, OpOverload):
            return [self._argument(a) for a in node.args]
        if node.target is torch.ops.aten._assert_scalar.default:
            return []  # its condition becomes a check, not a host scalar
        schema_args = schema_of(node.target).arguments
        out = []
        for i, a in enumerate(schema_args):
            given = node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            out.append(self._argument(given))
        return out

    def _argument(self, a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            if a not in self.values and _is_size(a.meta.get("val")):
                self.values[a] = self.sizes.number(a.meta["val"])
            return self.values[a]
        if isinstance(a, list | tuple):
            return [self._argument(x) for x in a]
        return a

    # ---- outputs

    def _bind_outputs(self, results: tuple[Any, ...]) -> structure.Spec:
        leaves: list[structure.Spec] = []
        changed: list[tuple[Any, str]] = []
        for result, spec in zip(results, self.program.graph_signature.output_specs, strict=True):
            self.builder.source = spec.arg.name if hasattr(spec.arg, "name") else ""
            if is_state_update(spec):
                self._update_state(spec.target, self._argument(result))
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                changed.append((result, spec.target))
            elif spec.kind == OutputKind.USER_OUTPUT:
                leaves.append(self._bind_output(result, spec.arg))
            elif spec.kind != OutputKind.TOKEN:
                raise Error(f"an output of kind {spec.kind.name.lower()} is not supported", Code.UNSUPPORTED)
        described = structure.from_treespec(self.program.call_spec.out_spec, iter(leaves))
        self.builder.outputs = [
            (n, v) for n, v in zip(_output_names(described), [v for _, v in self.builder.outputs], strict=True)
        ]
        self._bind_changed(changed)
        return described

    def _bind_changed(self, changed: list[tuple[Any, str]]) -> None:
        """Appends the new values of inputs that the module changes in place to the outputs."""
        slots = [v for _, v in self.builder.inputs]
        for result, name in changed:
            own, value = self._input_value(name), self._argument(result)
            if value is own:
                continue
            slot = own.pair if isinstance(own, Complex) else own
            self.changed.append([slots.index(slot), len(self.builder.outputs)])
            self._bind_output(result, None)
            taken = [n for n, _ in self.builder.outputs[:-1]]
            self.builder.outputs[-1] = (list(_unique([*taken, name]))[-1], self.builder.outputs[-1][1])

    def _input_value(self, name: str) -> Any:
        return next(v for n, v in self.values.items() if n.op == "placeholder" and n.name == name)

    def _update_state(self, name: str, value: Any) -> None:
        state = self.shared.state(self.program, name)
        if value is state or not isinstance(value, Slot | Filled):
            return
        self.builder.updates.append((state, self._computed(value)))

    def _bind_output(self, result: Any, arg: Any) -> structure.Spec:
        if isinstance(arg, ConstantArgument) or not isinstance(result, torch.fx.Node):
            return _constant(result if not isinstance(arg, ConstantArgument) else arg.value)
        value = self._argument(result)
        is_complex = isinstance(value, Complex)
        if is_complex:
            _check_parts(f"output {result.name!r}", result)
            value = value.pair
        if isinstance(value, Slot | Filled):
            value = self._computed(value)
            value.kind = "output"
        elif not isinstance(value, Val):
            return _constant(value)
        self.builder.outputs.append((result.name, value))
        return structure.leaf(len(self.builder.outputs) - 1, is_complex)

    def _computed(self, value: Slot | Filled) -> Slot:
        """Returns the value in a temporary of its own. Copies an input, constant, state, view or earlier output."""
        if isinstance(value, Filled):
            return written(self.builder, value)
        taken = any(value is v for _, v in self.builder.updates)
        if value.kind == "temp" and value.op not in VIEWS and not taken:
            return value
        return self.builder.emit("Copy", x=value, out=self.builder.temp(value.dtype, value.shape))


def _constant(value: Any) -> structure.Spec:
    if value is not None and not isinstance(value, bool | int | float | str):
        value = str(value)
    return {"type": "constant", "value": value}


def _is_without_use(node: torch.fx.Node, data: torch.Tensor) -> bool:
    """True for a constant that cannot be stored, which is an error only if something reads it."""
    return bool(node.meta["val"].is_complex()) or is_fake(data)


def _is_size(val: Any) -> bool:
    return isinstance(val, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def _check_parts(what: str, node: torch.fx.Node) -> None:
    """Raises Error for complex numbers with 16-bit parts, which numpy lacks."""
    if node.meta["val"].dtype is torch.complex32:
        raise Error(f"{what} is complex32: clave accepts and returns complex64 and complex128", Code.UNSUPPORTED)


def _input_dtype(node: torch.fx.Node) -> Any:
    """Returns the dtype of an input, or of the parts of a complex input."""
    dtype = node.meta["val"].dtype
    _check_parts(f"input {node.name!r}", node)
    try:
        return dtype_of(dtype.to_real() if dtype.is_complex else dtype)
    except Unsupported as e:
        raise Error(f"input {node.name!r}: {e}", Code.UNSUPPORTED) from None


def _output_names(spec: structure.Spec) -> list[str]:
    """Returns a name for each output: its keys joined if the structure has names, otherwise output_<i>."""
    names: list[str] = []

    def walk(s: structure.Spec, path: tuple[str, ...]) -> None:
        if s["type"] == "leaf":
            named = path and not all(p.isdigit() for p in path)
            names.append("_".join(path) if named else f"output_{len(names)}")
        for key, child in zip(s.get("keys", map(str, range(len(s.get("items", ()))))), s.get("items", ()), strict=True):
            walk(child, (*path, key))

    walk(spec, ())
    return list(_unique(names))


def _unique(names: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        while name in seen:
            name += "_"
        seen.add(name)
        yield name
