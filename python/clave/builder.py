"""Builds a program of several methods.

Until it is finished, a tensor is a `Slot`, a host scalar a `Val`, and an instruction a `Node` whose fields hold such
objects. `ProgramBuilder.finish` numbers them (constants, inputs, outputs, state, temporaries) and writes the schema's
dataclasses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from clave import schema
from clave.dtypes import torch_name
from clave.errors import Error, Unsupported
from clave.version import VERSION

PRODUCER = f"clave {VERSION}"
# Ops whose result is their operand's memory.
VIEWS = {"Reshape", "Permute", "Expand", "Slice", "Select", "Flip", "Diagonal", "AsStrided", "Unfold"}


@dataclass(eq=False)
class Val:
    """A host scalar. type: "int", "float" or "bool"; min, max: inclusive bounds of an int, None if unbounded."""

    type: str = "int"
    name: str = ""
    min: int | None = None
    max: int | None = None


Int = int | Val  # a literal, or a value known at run time
Float = float | Val


@dataclass(eq=False)
class Slot:
    """A tensor. kind: "constant", "input", "output", "state" or "temp". op: the op that writes it, "" if no op does."""

    dtype: schema.DType
    shape: tuple[Int, ...]
    kind: str = "temp"
    name: str = ""
    op: str = ""
    encoding: schema.Encoding | None = None  # only for a constant, whose data is then (rows..., bytes of a row)

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Node:
    """An instruction, or a table inside one. op: its name in the schema. fields: its fields, with Slots and Vals in
    place of Tids and Vids."""

    op: str
    fields: dict[str, Any]
    name: str = ""
    dead: bool = False  # removed from its chain


@dataclass(eq=False)
class Body:
    """A chain that a control op runs, held in a field of its node. It may read all values that the op may read."""

    name: str
    args: list[Slot] = field(default_factory=list)
    results: list[Slot] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)


@dataclass
class MethodBuilder:
    """One method: its named inputs and outputs, and its instructions in order."""

    program: ProgramBuilder
    name: str
    inputs: list[tuple[str, Slot | Val]] = field(default_factory=list)
    outputs: list[tuple[str, Slot | Val]] = field(default_factory=list)
    updates: list[tuple[Slot, Slot]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    metadata: str = ""
    source: str = ""  # the source graph's node that is being lowered
    _views: dict[Any, Slot] = field(default_factory=dict)

    def temp(self, dtype: schema.DType, shape: Sequence[Int]) -> Slot:
        return Slot(dtype, tuple(shape))

    def emit(self, op: str, **fields: Any) -> Any:
        """Appends an instruction and returns its `out`."""
        if op not in schema.MOVES and op != "Elementwise":
            _refuse_stored(fields)
        node = Node(op, fields, self.source)
        self.nodes.append(node)
        for written in results(node):
            if isinstance(written, Slot):
                written.op = op
                written.name = written.name or self.source
        return fields.get("out")

    def view(self, op: str, x: Slot, shape: Sequence[Int], /, **fields: Any) -> Slot:
        """Emits a view op and returns its slot, or returns the slot of an equal view of the same operand."""
        key = (op, x, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in fields.items()))
        if key not in self._views:
            self._views[key] = self.emit(op, x=x, **fields, out=self.temp(x.dtype, shape))
        return self._views[key]

    @contextmanager
    def body(self, name: str) -> Iterator[Body]:
        """Opens a body. Inside the `with` block, instructions are emitted into it."""
        made, nodes, views = Body(name), self.nodes, self._views
        self.nodes, self._views = made.nodes, dict(views)
        try:
            yield made
        finally:
            self.nodes, self._views = nodes, views

    def val(self, type: str = "int", name: str = "", min: int | None = None, max: int | None = None) -> Val:
        v = Val(type, name, min, max)
        self.program.values.append(v)
        return v


def _refuse_stored(fields: dict[str, Any]) -> None:
    """Raises Unsupported if an operand or a result has a dtype that clave only moves and casts."""
    for x in _objects(fields):
        if isinstance(x, Slot) and x.dtype > schema.DType.BOOL:
            raise Unsupported(f"{torch_name(x.dtype)}, which clave moves and casts only")


@dataclass(eq=False)
class ProgramBuilder:
    """All methods, with the constants and the state they share."""

    methods: list[MethodBuilder] = field(default_factory=list)
    constants: list[tuple[Slot, Any]] = field(default_factory=list)  # slots and their data, of any type
    state: list[tuple[Slot, Slot | None]] = field(default_factory=list)  # slots and their initial constants
    values: list[Val] = field(default_factory=list)
    streams: int = 0  # number of streams of random numbers

    def add_method(self, name: str) -> MethodBuilder:
        self.methods.append(MethodBuilder(self, name))
        return self.methods[-1]

    def next_stream(self) -> int:
        """Returns a new stream of random numbers. Each node that draws them has its own."""
        self.streams += 1
        return self.streams - 1

    def finish(self) -> schema.Program:
        """Returns the program with numbered slots and values. `self.constants` holds its constants in slot order."""
        return _Finish(self).program()


class _Finish:
    """Numbers slots and values, and writes the dataclasses."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self.builder = builder
        for m in builder.methods:
            m.nodes = live_nodes(m)
        self.bodies = [b for m in builder.methods for b in _bodies(m.nodes)]
        self.chains = {id(b): len(builder.methods) + i for i, b in enumerate(self.bodies)}
        used = self._used_slots()
        builder.constants = [(s, data) for s, data in builder.constants if id(s) in used]
        names: set[str] = set()
        for s, _ in builder.constants:
            s.name = unique(s.name, names)
        self.kinds = {k: self._slots_of(k) for k in ("constant", "input", "output", "state", "temp")}
        self.slots = [s for kind in self.kinds.values() for s in kind]
        self.tids = {id(s): schema.Tid(i) for i, s in enumerate(self.slots)}
        self.values = self._used_values()
        self.vids = {id(v): schema.Vid(i) for i, v in enumerate(self.values)}

    def _slots_of(self, kind: str) -> list[Slot]:
        if kind == "constant":
            return [s for s, _ in self.builder.constants]
        if kind == "state":
            return [s for s, _ in self.builder.state]
        seen: dict[int, Slot] = {}
        for m in self.builder.methods:
            for s in [*(v for _, v in m.inputs), *(v for _, v in m.outputs), *_written(m.nodes)]:
                if isinstance(s, Slot) and s.kind == kind:
                    seen.setdefault(id(s), s)
        return list(seen.values())

    def _used_slots(self) -> set[int]:
        used = {id(initial) for _, initial in self.builder.state}
        return used | {id(x) for m in self.builder.methods for n in m.nodes for x in _objects(n.fields)}

    def _used_values(self) -> list[Val]:
        used = {id(d) for s in self.slots for d in s.shape}
        for m in self.builder.methods:
            used |= {id(x) for _, x in [*m.inputs, *m.outputs]}
            used |= {id(x) for n in m.nodes for x in _objects(n.fields)}
        return [v for v in self.builder.values if id(v) in used]

    def program(self) -> schema.Program:
        b = self.builder
        return schema.Program(
            version=1,  # clave_program_create raises it to the version that the ops need
            producer=PRODUCER,
            tensors=[self._tensor(s) for s in self.slots],
            n_inputs=len(self.kinds["input"]),
            n_outputs=len(self.kinds["output"]),
            n_state=len(self.kinds["state"]),
            values=[self._value(v) for v in self.values],
            constants=[schema.Constant(name=s.name) for s in self.kinds["constant"]],
            state_inits=[schema.StateInit(state=self.tid(s), constant=self.tid(c)) for s, c in b.state if c],
            chains=[self._chain(c) for c in self._all_chains()],
            methods=[self._method(i, m) for i, m in enumerate(b.methods)],
        )

    def _all_chains(self) -> list[MethodBuilder | Body]:
        return [*self.builder.methods, *self.bodies]

    def _chain(self, c: MethodBuilder | Body) -> schema.Chain:
        instructions = [self._instruction(n) for n in c.nodes]
        if not isinstance(c, Body):
            return schema.Chain(name=c.name, instructions=instructions)
        args, results = ([self.tid(s) for s in slots] for slots in (c.args, c.results))
        return schema.Chain(name=c.name, instructions=instructions, args=args, results=results)

    def tid(self, s: Slot) -> schema.Tid:
        return self.tids[id(s)]

    def _int(self, v: Int) -> schema.IntOrVid:
        return schema.IntOrVid(vid=self.vids[id(v)]) if isinstance(v, Val) else schema.IntOrVid(literal=int(v))

    def _float(self, v: Float) -> schema.FloatOrVid:
        return schema.FloatOrVid(vid=self.vids[id(v)]) if isinstance(v, Val) else schema.FloatOrVid(literal=float(v))

    def _tensor(self, s: Slot) -> schema.Tensor:
        shape = [self._int(d) for d in s.shape]
        return schema.Tensor(dtype=s.dtype, shape=shape, name=s.name, encoding=s.encoding)

    def _value(self, v: Val) -> schema.Value:
        return schema.Value(name=v.name, type=schema.ValueType[v.type + "_"], min=v.min, max=v.max)

    def _argument(self, name: str, x: Slot | Val) -> schema.Argument:
        if isinstance(x, Slot):
            return schema.Argument(name=name, tensor=self.tid(x))
        return schema.Argument(name=name, value=self.vids[id(x)])

    def _method(self, index: int, m: MethodBuilder) -> schema.Method:
        return schema.Method(
            name=m.name,
            inputs=[self._argument(n, x) for n, x in m.inputs],
            outputs=[self._argument(n, x) for n, x in m.outputs],
            updates=[schema.StateUpdate(state=self.tid(s), value=self.tid(v)) for s, v in m.updates],
            chain=index,
            metadata=m.metadata,
        )

    def _instruction(self, n: Node) -> schema.Instruction:
        return schema.Instruction(op=self._table(n), name=n.name)

    def _table(self, n: Node) -> Any:
        table = getattr(schema, n.op)
        known = {f.name for f in schema.TABLES[table]}
        if not known.issuperset(n.fields):
            raise Error(f"{n.op} has no field {', '.join(sorted(set(n.fields) - known))}")
        fields = {f.name: self._field(f.kind, n.fields[f.name]) for f in schema.TABLES[table] if f.name in n.fields}
        return table(**fields)

    def _field(self, kind: str, v: Any) -> Any:
        if v is None:
            return None
        if isinstance(v, Body):
            return self.chains[id(v)]
        if kind == "TABLES":  # the steps of an Elementwise, or tables that hold others
            return [self._table(x) if isinstance(x, Node) else self._step(x) for x in v]
        convert = {
            "TID": self.tid,
            "VID": lambda x: self.vids[id(x)],
            "INT_OR_VID": self._int,
            "FLOAT_OR_VID": self._float,
        }
        if kind.endswith("S") and kind[:-1] in convert:
            return [convert[kind[:-1]](x) for x in v]
        return convert[kind](v) if kind in convert else list(v) if kind == "I32S" else v

    def _step(self, step: schema.Step) -> schema.Step:
        """Numbers the operands of a step. An operand of source `value` holds the Val itself in `index`."""
        operands = [self._operand(o) for o in step.operands]
        return schema.Step(kind=step.kind, dtype=step.dtype, operands=operands)

    def _operand(self, o: schema.Operand) -> schema.Operand:
        if o.source != schema.OperandSource.value:
            return o
        return schema.Operand(source=o.source, index=self.vids[id(o.index)].idx)


def unique(name: str, taken: set[str]) -> str:
    """Returns the name, with a number appended if it is taken, and adds it to `taken`."""
    base, n = name, 1
    while name in taken:
        n += 1
        name = f"{base}.{n}"
    taken.add(name)
    return name


def results(n: Node) -> list[Slot | Val]:
    """Returns the slots and values that an instruction writes."""
    fields = schema.TABLES[getattr(schema, n.op)]
    written = [n.fields[f.name] for f in fields if f.out and n.fields.get(f.name) is not None]
    return [x for w in written for x in (w if isinstance(w, list) else [w])]


def _bodies(nodes: list[Node]) -> Iterator[Body]:
    """Yields the bodies of control ops, each before the bodies that it contains."""
    for n in nodes:
        for body in n.fields.values():
            if isinstance(body, Body):
                yield body
                yield from _bodies(body.nodes)


def _written(nodes: list[Node]) -> Iterator[Slot]:
    """Yields slots in the order in which the instructions write them."""
    for n in nodes:
        for body in n.fields.values():
            if isinstance(body, Body):
                yield from body.args
                yield from _written(body.nodes)
        yield from (s for s in results(n) if isinstance(s, Slot))


def _objects(x: Any) -> Iterator[Slot | Val]:
    """Yields every Slot and Val in a node's fields."""
    if isinstance(x, Slot | Val):
        yield x
    elif isinstance(x, dict):
        for v in x.values():
            yield from _objects(v)
    elif isinstance(x, list | tuple):
        for v in x:
            yield from _objects(v)
    elif isinstance(x, Node):
        yield from _objects(x.fields)
    elif isinstance(x, schema.Step):
        yield from (o.index for o in x.operands if isinstance(o.index, Val))
    elif isinstance(x, Body):
        yield from (*x.args, *x.results)
        for n in x.nodes:
            yield from _objects(n.fields)


def live_nodes(m: MethodBuilder) -> list[Node]:
    """Returns the method's nodes without dead ones. Arguments, results, state updates and checks keep nodes alive."""
    needed: set[int] = set()
    for _, x in [*m.inputs, *m.outputs]:
        _need(needed, x)
    for _, value in m.updates:
        _need(needed, value)
    return _live(m.nodes, needed)


def _need(needed: set[int], x: Slot | Val) -> None:
    needed.add(id(x))
    if isinstance(x, Slot):
        needed.update(id(d) for d in x.shape if isinstance(d, Val))


def _live(nodes: list[Node], needed: set[int]) -> list[Node]:
    """Returns the live nodes of a chain, adds their operands to `needed`, and removes dead nodes from bodies."""
    live: list[Node] = []
    for n in reversed(nodes):
        if n.op != "Check" and not any(id(w) in needed for w in results(n)):
            continue
        live.append(n)
        for body in n.fields.values():
            if isinstance(body, Body):
                for x in (*body.args, *body.results):
                    _need(needed, x)
                body.nodes = _live(body.nodes, needed)
        for x in _objects(n.fields):
            _need(needed, x)
    return live[::-1]
