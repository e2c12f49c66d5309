"""Decodes a FlatBuffers program into the schema's dataclasses, as schema.TABLES describes them."""

from __future__ import annotations

import functools
import re
from typing import Any

import flatbuffers
from flatbuffers import number_types as N
from flatbuffers.table import Table

from clave import schema

_SCALARS = {
    "BOOL": N.BoolFlags,
    "I32": N.Int32Flags,
    "U32": N.Uint32Flags,
    "I64": N.Int64Flags,
    "U64": N.Uint64Flags,
    "F64": N.Float64Flags,
    "ENUM": N.Uint8Flags,
    "OPT_I32": N.Int32Flags,
    "OPT_I64": N.Int64Flags,
    "OPT_F64": N.Float64Flags,
}
_ITEMS = {"TIDS": N.Uint32Flags, "I32S": N.Int32Flags}


def decode(flatbuffer: bytes) -> schema.Program:
    """Returns a program that the library encoded. Does not check the data, because the library wrote it."""
    root = flatbuffers.encode.Get(N.UOffsetTFlags.packer_type, flatbuffer, 0)
    return _read(schema.Program, Table(flatbuffer, root))


@functools.cache
def _class_of(cls: type[Any], name: str) -> type[Any]:
    """Returns the class of a field's table, or of the tables in its list, by the name in its annotation."""
    words = re.findall(r"\w+", str(cls.__annotations__[name]))
    return getattr(schema, next(w for w in words if isinstance(getattr(schema, w, None), type)))


def _read(cls: type[Any], table: Table) -> Any:
    return cls(**{f.name: _field(cls, f, table) for f in schema.TABLES[cls]})


def _field(cls: type[Any], f: Any, table: Table) -> Any:
    at = table.Offset(4 + 2 * f.slot)
    if f.kind == "UNION":
        op = schema.OPS[table.Get(N.Uint8Flags, table.Pos + at) - 1]
        return _read(op, _inner(table, table.Pos + table.Offset(6 + 2 * f.slot)))
    if f.kind in ("TABLES", "INT_OR_VIDS", *_ITEMS):
        return _items(cls, f, table, at) if at else []
    if not at:
        return "" if f.kind == "STRING" else f.default
    return _value(cls, f, table, table.Pos + at)


def _value(cls: type[Any], f: Any, table: Table, at: int) -> Any:
    if f.kind in _SCALARS:
        found = table.Get(_SCALARS[f.kind], at)
        return type(f.default)(found) if f.kind == "ENUM" else found
    if f.kind in ("TID", "VID"):
        return (schema.Tid if f.kind == "TID" else schema.Vid)(table.Get(N.Uint32Flags, at))
    if f.kind == "STRING":
        return table.String(at).decode()
    kinds = {"INT_OR_VID": schema.IntOrVid, "FLOAT_OR_VID": schema.FloatOrVid}
    return _read(kinds.get(f.kind) or _class_of(cls, f.name), _inner(table, at))


def _inner(table: Table, at: int) -> Table:
    return Table(table.Bytes, table.Indirect(at))


def _items(cls: type[Any], f: Any, table: Table, at: int) -> list[Any]:
    first, n = table.Vector(at), table.VectorLen(at)
    if f.kind in _ITEMS:
        found = [table.Get(_ITEMS[f.kind], first + 4 * i) for i in range(n)]
        return [schema.Tid(i) for i in found] if f.kind == "TIDS" else found
    item = schema.IntOrVid if f.kind == "INT_OR_VIDS" else _class_of(cls, f.name)
    return [_read(item, _inner(table, first + 4 * i)) for i in range(n)]
