"""Reads serialize/schema.fbs and ops/elementwise.tsv into plain objects, and rejects schemas that the other generators
cannot express. The objects do not depend on the output language."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

# IntOrVid and FloatOrVid are stored by value in C; Tid and Vid are bare slot numbers.
BY_VALUE = {"IntOrVid", "FloatOrVid"}
SLOTS = {"Tid", "Vid"}
SCALARS = {"bool", "int", "uint", "long", "ulong", "double"}
VECTOR_ITEMS = {"int", "Tid", "IntOrVid"}  # besides tables
NULLABLE = {"int", "long", "double"}
RESULTS = ("same", "bool", "cast", "where")


class SchemaError(Exception):
    """An error in the schema or the step table. The message is one line."""


@dataclass
class Field:
    name: str
    type: str  # a scalar, "string", or the name of an enum, struct, table or union
    vector: bool
    default: str | None  # the text after "=", "null" included
    attrs: dict[str, str | bool]
    slot: int = 0  # FlatBuffers vtable slot; a union has its type in this slot and its value in the next one

    @property
    def required(self) -> bool:
        return "required" in self.attrs

    @property
    def encoded_since(self) -> int:
        """The schema version that first allows the operand to be encoded, or 0 if the op's first version does."""
        since = self.attrs.get("encoded")
        return int(since) if isinstance(since, str) else 0

    @property
    def since(self) -> int:
        """The schema version that introduced the field, or 0 if the op's first version has it."""
        return int(str(self.attrs.get("since", "0")))

    @property
    def nullable(self) -> bool:
        return self.default == "null"

    @property
    def out(self) -> bool:
        return "out" in self.attrs

    @property
    def reuses(self) -> str | None:
        name = self.attrs.get("reuses")
        return str(name) if name is not None else None


@dataclass
class Table:
    name: str
    fields: list[Field]
    attrs: dict[str, str | bool]
    doc: str
    is_struct: bool = False

    @property
    def snake(self) -> str:
        return snake(self.name)

    @property
    def family(self) -> str:
        return str(self.attrs.get("family", self.snake))

    @property
    def since(self) -> int:
        return int(str(self.attrs["since"]))

    def has(self, attr: str) -> bool:
        return attr in self.attrs

    def runs_on(self, backend: str) -> bool:
        if self.has("cpu"):
            return backend == "cpu"
        if self.has("opencl"):
            return backend == "opencl"
        return not (self.has("view") or self.has("host") or self.has("control"))


@dataclass
class Enum:
    name: str
    values: dict[str, int]
    doc: str
    attrs: dict[str, str | bool] = field(default_factory=dict)

    @property
    def snake(self) -> str:
        return "dtype" if self.name == "DType" else snake(self.name)

    @property
    def later(self) -> tuple[int, int]:
        """The first value that is newer than the enum, and the schema version that introduced it and all later ones."""
        value, _, since = str(self.attrs.get("since", "")).partition(" ")
        return (self.values[value], int(since)) if value else (256, 0)


@dataclass
class Step:
    """One row of ops/elementwise.tsv."""

    id: int
    name: str
    arity: int
    result: str
    types: str
    divides: bool
    c: str
    cl: str


@dataclass
class Schema:
    enums: dict[str, Enum] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)  # structs too, in file order
    union_name: str = ""
    op_names: list[str] = field(default_factory=list)
    root: str = ""
    file_identifier: str = ""
    namespace: str = ""
    includes: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def ops(self) -> list[Table]:
        """The union's tables in union order. The op at index i has number i + 1 in a file."""
        return [self.tables[name] for name in self.op_names]

    @property
    def version(self) -> int:
        fields = [f for op in self.ops for f in op.fields]
        return max(
            *(op.since for op in self.ops),
            *(f.encoded_since for f in fields),
            *(f.since for f in fields),
            *(e.later[1] for e in self.enums.values()),
        )


def snake(name: str) -> str:
    """Converts LayerNorm to layer_norm."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_TOKEN = re.compile(
    r'(?P<doc>///[^\n]*)|(?P<skip>//[^\n]*|\s+)|(?P<string>"[^"\n]*")|(?P<word>-?[\w.]+)|(?P<sign>[{}()\[\]:;,=])'
)


class Tokens:
    """The input of a parser. `tokens` are (kind, text, ...), and `at` is the index of the next one. fail(what) returns
    an error for the current position."""

    tokens: list[tuple]
    at = 0

    def fail(self, what: str) -> SchemaError:
        raise NotImplementedError

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, want: str = "") -> str:
        text = self.peek()
        if not text or (want and text != want):
            raise self.fail(f"expected {want or 'more'!r}, found {text or 'the end'!r}")
        self.at += 1
        return text


class _Parser(Tokens):
    def __init__(self, text: str, path: str) -> None:
        self.tokens = []  # (kind, text, line)
        self.path = path
        pos, line = 0, 1
        while pos < len(text):
            m = _TOKEN.match(text, pos)
            if not m:
                raise SchemaError(f"{path}:{line}: unexpected character {text[pos]!r}")
            if m.lastgroup != "skip":
                self.tokens.append((m.lastgroup, m.group(), line))
            line += m.group().count("\n")
            pos = m.end()

    def fail(self, what: str) -> SchemaError:
        line = self.tokens[min(self.at, len(self.tokens) - 1)][2] if self.tokens else 1
        return SchemaError(f"{self.path}:{line}: {what}")

    def accept(self, want: str) -> bool:
        if self.peek() != want:
            return False
        self.at += 1
        return True

    def string(self) -> str:
        text = self.take()
        if not text.startswith('"'):
            raise self.fail(f"expected a string, found {text!r}")
        return text[1:-1]

    def doc(self) -> str:
        lines = []
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "doc":
            lines.append(self.take()[3:].strip())
        return "\n".join(lines)

    def attrs(self) -> dict[str, str | bool]:
        out: dict[str, str | bool] = {}
        if not self.accept("("):
            return out
        while not self.accept(")"):
            name = self.take()
            out[name] = self.string() if self.accept(":") else True
            self.accept(",")
        return out

    def field(self) -> Field:
        self.doc()
        name = self.take()
        self.take(":")
        vector = self.accept("[")
        type_ = self.take()
        if vector:
            self.take("]")
        default = self.take() if self.accept("=") else None
        attrs = self.attrs()
        self.take(";")
        return Field(name, type_, vector, default, attrs)

    def table(self, doc: str, is_struct: bool) -> Table:
        name = self.take()
        attrs = self.attrs()
        fields: list[Field] = []
        self.take("{")
        while not self.accept("}"):
            fields.append(self.field())
        return Table(name, fields, attrs, doc, is_struct)

    def enum(self, doc: str) -> Enum:
        name = self.take()
        self.take(":")
        if self.take() != "ubyte":
            raise self.fail(f"enum {name} must be ubyte")
        attrs = self.attrs()
        self.take("{")
        values: dict[str, int] = {}
        number = 0
        while not self.accept("}"):
            self.doc()
            value = self.take()
            if self.accept("="):
                number = int(self.take())
            if value in values or number in values.values():
                raise self.fail(f"enum {name}: {value} = {number} is declared twice")
            values[value] = number
            number += 1
            self.accept(",")
        if 0 not in values.values() or max(values.values()) > 255:
            raise self.fail(f"enum {name}: needs a value 0, and none above 255")
        return Enum(name, values, doc, attrs)

    def union(self, schema: Schema) -> None:
        if schema.union_name:
            raise self.fail("only one union is supported, the union of the ops")
        schema.union_name = self.take()
        self.take("{")
        while not self.accept("}"):
            schema.op_names.append(self.take())
            self.accept(",")

    def declaration(self, schema: Schema, attributes: list[str]) -> None:
        doc = self.doc()
        word = self.take()
        if word in ("table", "struct"):
            t = self.table(doc, word == "struct")
            if t.name in schema.tables or t.name in schema.enums:
                raise self.fail(f"{t.name} is declared twice")
            schema.tables[t.name] = t
        elif word == "enum":
            e = self.enum(doc)
            if e.name in schema.tables or e.name in schema.enums:
                raise self.fail(f"{e.name} is declared twice")
            schema.enums[e.name] = e
        elif word == "union":
            self.union(schema)
        else:
            self.statement(word, schema, attributes)

    def statement(self, word: str, schema: Schema, attributes: list[str]) -> None:
        if word == "attribute":
            attributes.append(self.string())
        elif word == "include":
            schema.includes.append(self.string())
        elif word == "file_identifier":
            schema.file_identifier = self.string()
        elif word == "namespace":
            schema.namespace = self.take()
        elif word == "root_type":
            schema.root = self.take()
        else:
            raise self.fail(f"unknown word {word!r}")
        self.take(";")


def _check_attrs(where: str, attrs: dict[str, str | bool], known: list[str]) -> None:
    for name in attrs:
        if name not in known:
            raise SchemaError(f"{where}: unknown attribute {name!r}")


def _check_field(s: Schema, t: Table, f: Field) -> None:
    where = f"{t.name}.{f.name}"
    tables = {n for n, x in s.tables.items() if not x.is_struct}
    known = SCALARS | {"string", s.union_name} | set(s.enums) | set(s.tables)
    if f.type not in known:
        raise SchemaError(f"{where}: unknown type {f.type!r}")
    if f.vector and f.type not in VECTOR_ITEMS | (tables - BY_VALUE):
        raise SchemaError(f"{where}: the decoders do not support vectors of {f.type}")
    if f.nullable and f.type not in NULLABLE:
        raise SchemaError(f"{where}: only {', '.join(sorted(NULLABLE))} may be null")
    if f.default is not None and (f.vector or f.type not in SCALARS):
        raise SchemaError(f"{where}: only scalars have defaults")
    if f.out and f.type not in SLOTS:
        raise SchemaError(f"{where}: only Tid and Vid fields can be out")
    if not str(f.attrs.get("encoded", "0")).isdigit() and f.attrs["encoded"] is not True:
        raise SchemaError(f'{where}: expected encoded, or encoded: "<number>"')
    if not str(f.attrs.get("since", "0")).isdigit():
        raise SchemaError(f'{where}: expected since: "<number>"')
    if f.reuses is not None and not any(x.name == f.reuses and x.type == "Tid" and not x.vector for x in t.fields):
        raise SchemaError(f"{where}: reuses names {f.reuses!r}, which is not a Tid field of {t.name}")


def _check_enum(e: Enum, attributes: list[str]) -> None:
    _check_attrs(e.name, e.attrs, attributes)
    value, _, since = str(e.attrs.get("since", "")).partition(" ")
    if "since" in e.attrs and (value not in e.values or not since.isdigit()):
        raise SchemaError(f'{e.name}: expected since: "<value> <number>"')


def _finish(s: Schema, attributes: list[str]) -> None:
    for e in s.enums.values():
        _check_enum(e, attributes)
    for t in s.tables.values():
        _check_attrs(t.name, t.attrs, attributes)
        slot, seen = 0, set()
        for f in t.fields:
            _check_attrs(f"{t.name}.{f.name}", f.attrs, attributes)
            if f.name in seen:
                raise SchemaError(f"{t.name}.{f.name} is declared twice")
            seen.add(f.name)
            _check_field(s, t, f)
            f.slot = slot
            slot += 2 if f.type == s.union_name else 1
        t.fields = [f for f in t.fields if "deprecated" not in f.attrs]
    for name in s.op_names:
        op = s.tables.get(name)
        if op is None or op.is_struct:
            raise SchemaError(f"union {s.union_name}: {name} is not a table")
        if not str(op.attrs.get("since", "")).isdigit():
            raise SchemaError(f'{name}: an op needs since: "<number>"')
    if s.root not in s.tables or len(s.file_identifier) != 4:
        raise SchemaError("the schema needs a root_type and a file_identifier of four characters")


def read_steps(path: Path) -> list[Step]:
    """Reads the rows of elementwise.tsv. Ids must count up from 0, because tables are indexed by them."""
    steps: list[Step] = []
    names = set()
    rows = [r for r in path.read_text(encoding="utf-8").splitlines() if r and not r.startswith("#")]
    for row in rows[1:]:
        cells = [*row.split("\t"), ""][:8]
        if len(cells) < 8:
            raise SchemaError(f"{path.name}: {row!r}: expected 8 columns, got {len(cells)}")
        step = Step(
            int(cells[0]), cells[1], int(cells[2]), cells[3], cells[4], cells[5] == "divides", cells[6], cells[7]
        )
        if step.id != len(steps) or step.name in names or step.id > 255:
            raise SchemaError(f"{path.name}: step {step.name}: expected id {len(steps)} and a new name, got {step.id}")
        if step.result not in RESULTS or not 1 <= step.arity <= 3 or not step.types or set(step.types) - set("fib"):
            raise SchemaError(f"{path.name}: step {step.name}: bad arity, result or types")
        if cells[5] not in ("", "divides"):
            raise SchemaError(f"{path.name}: step {step.name}: unknown flag {cells[5]!r}")
        names.add(step.name)
        steps.append(step)
    return steps


def read_schema(schema_path: Path, steps_path: Path) -> Schema:
    s = Schema(steps=read_steps(steps_path))
    s.enums["StepKind"] = Enum(
        "StepKind", {x.name: x.id for x in s.steps}, "Elementwise steps, from ops/elementwise.tsv."
    )
    parser = _Parser(schema_path.read_text(encoding="utf-8"), schema_path.name)
    attributes = ["required", "deprecated"]
    while parser.peek():
        parser.declaration(s, attributes)
    _finish(s, attributes)
    return s
