"""Writes build/gen/work_table.c: the work of each op, from the expressions in the attributes `flops` and `bytes` of
its table. ops/work.h has the functions that they call."""

from __future__ import annotations

import re

from gen_c import NOTE, c_name
from gen_schema import Field, Schema, SchemaError, Table, Tokens

# Functions that an expression may call, with the kinds of their arguments: t a tensor field (or a list of them),
# e an expression, f another field.
FUNCTIONS = {
    "has": "t",
    "bytes": "t",
    "part": "te",
    "rows": "t",
    "groups": "t",
    "grouped_rows": "",
    "pairs": "",
    "log2": "e",
    "reduced": "f",
    "taps": "",
    "fft": "",
    "linalg": "",
}
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<word>\w+)|(?P<sign>!=|[-+*/():,\[\]]))")


class _Reader(Tokens):
    """Translates an expression of an op to C, in terms of `w`, a work_node, and `o`, the op's struct."""

    def __init__(self, op: Table, attr: str) -> None:
        self.op, self.attr, self.text = op, attr, str(op.attrs[attr])
        self.tokens = []  # (kind, text)
        at = 0
        while at < len(self.text.rstrip()):
            m = _TOKEN.match(self.text, at)
            if not m:
                raise self.fail(f"unexpected {self.text[at:].strip()[:1]!r}")
            self.tokens.append((str(m.lastgroup), m[str(m.lastgroup)]))
            at = m.end()
        self.at = 0
        self.reads_op = False

    def fail(self, what: str) -> SchemaError:
        return SchemaError(f'{self.op.name}: {self.attr}: "{self.text}": {what}')

    def field(self) -> Field:
        name = self.take()
        found = next((f for f in self.op.fields if f.name == name), None)
        if not found:
            raise self.fail(f"{name!r} is neither a field nor a function")
        self.reads_op = True
        return found

    def tensor(self) -> str:
        """Reads an argument that is a tensor or a list of tensors. Returns it as C."""
        f = self.field()
        if f.type != "Tid":
            raise self.fail(f"{f.name!r} is not a tensor")
        return f"{'&' if f.vector else ''}o->{c_name(f.name)}"

    def call(self, name: str) -> str:
        arguments = ["w"]
        self.take("(")
        is_list = False
        for i, kind in enumerate(FUNCTIONS[name]):
            if i:
                self.take(",")
            if kind == "e":
                arguments.append(self.expression())
            elif kind == "f":
                arguments.append(f"o->{c_name(self.field().name)}")
            else:
                arguments.append(self.tensor())
                is_list = arguments[-1].startswith("&")
        self.take(")")
        return f"work_{name}{'_all' if is_list else ''}({', '.join(arguments)})"

    def index(self, f: Field) -> str:
        """Reads x[-1] or x[axis], a dimension, or x[1:], the product of the dimensions from 1 on. Returns it as C."""
        self.take("[")
        sign = "-" if self.peek() == "-" and self.take() else ""
        where = sign + self.take() if self.peek().isdigit() else f"o->{c_name(self.field().name)}"
        product = self.peek() == ":" and bool(self.take())
        self.take("]")
        return f"work_{'dims' if product else 'dim'}(w, o->{c_name(f.name)}, {where})"

    def value(self, f: Field) -> str:
        name = c_name(f.name)
        if f.type == "Tid" and not f.vector:
            return self.index(f) if self.peek() == "[" else f"work_elements(w, o->{name})"
        if f.type == "Step" and f.vector:
            return f"work_steps(&o->{name})"
        if f.type == "int" and f.vector:
            return f"work_product(&o->{name})"
        return f"(double)o->{name}.count" if f.vector else f"(double)o->{name}"

    def atom(self) -> str:
        kind = self.tokens[self.at][0] if self.at < len(self.tokens) else ""
        if self.peek() == "(":
            self.take()
            inner = self.expression()
            self.take(")")
            return f"({inner})"
        if kind == "number":
            return self.take()
        if kind == "word" and self.peek() in FUNCTIONS:
            return self.call(self.take())
        return self.value(self.field())

    def expression(self) -> str:
        out = self.atom()
        while self.peek() in ("+", "-", "*", "/", "!="):
            out += f" {self.take()} {self.atom()}"
        return out

    def whole(self) -> str:
        out = self.expression()
        if self.peek():
            raise self.fail(f"unexpected {self.peek()!r}")
        return out


def _function(op: Table, attr: str) -> str:
    reader = _Reader(op, attr)
    expression = reader.whole()
    head = f"static double {attr}_{op.snake}(const work_node *w) {{\n"
    struct = f"  const ir_{op.snake} *o = w->node->instruction->op;\n" if reader.reads_op else ""
    unused = "" if "w" in re.findall(r"\w+", struct + expression) else "  (void)w;\n"
    return f"{head}{struct}{unused}  return {expression};\n}}\n\n"


def _computes(op: Table) -> bool:
    return not any(op.has(kind) for kind in ("view", "host", "control"))


def check_work(s: Schema) -> None:
    """Raises SchemaError if an op that computes lacks `flops`, or if another op has `flops` or `bytes`."""
    for op in s.ops:
        if _computes(op) and not op.has("moves") and not op.has("flops"):
            raise SchemaError(f'{op.name}: an op that computes needs flops: "<expression>"')
        if not _computes(op) and (op.has("flops") or op.has("bytes")):
            raise SchemaError(f"{op.name}: only ops that backends run have flops and bytes")


def work_table_c(s: Schema) -> str:
    check_work(s)
    out = [NOTE, '/* The work of each op. */\n#include "ops/work.h"\n\n']
    rows = []
    for op in (op for op in s.ops if _computes(op)):
        names = []
        for attr in ("flops", "bytes"):
            if op.has(attr):
                out.append(_function(op, attr))
            names.append(f"{attr}_{op.snake}" if op.has(attr) else "NULL")
        counts = "true" if any("counts" in f.attrs for f in op.fields) else "false"
        rows.append(f"  [IR_OP_{op.snake.upper()}] = {{true, {counts}, {', '.join(names)}}},\n")
    return "".join(out) + f"const work_formula work_table[IR_OP_COUNT] = {{\n{''.join(rows)}}};\n"
