"""Reads and writes protocol buffers field by field, to change SentencePiece models in tests."""

import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def varint(value):
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def fields(data):
    """Returns [[number, wire, value]]; a value is an int, or the bytes of BYTES and FIXED*."""
    out, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == VARINT:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if wire == BYTES else ({FIXED64: 8, FIXED32: 4}[wire], at)
            value, at = data[at : at + size], at + size
        out.append([tag >> 3, wire, value])
    return out


def message(rows):
    out = bytearray()
    for number, wire, value in rows:
        out += varint(number << 3 | wire)
        if wire == VARINT:
            out += varint(value)
        else:
            out += (varint(len(value)) if wire == BYTES else b"") + value
    return bytes(out)


def field(number, value):
    """Returns a row for message() from an int or bool, a float, bytes or text."""
    if isinstance(value, int):
        return [number, VARINT, int(value)]
    if isinstance(value, float):
        return [number, FIXED32, struct.pack("<f", value)]
    return [number, BYTES, value.encode() if isinstance(value, str) else value]


def get(data, number, default=None):
    """Returns the last value of a field."""
    return next((v for n, _, v in reversed(fields(data)) if n == number), default)


def put(data, **values):
    """Returns a message with fields set by number: put(data, _3=True)."""
    rows = {int(k[1:]): v for k, v in values.items()}
    return message([f for f in fields(data) if f[0] not in rows] + [field(n, v) for n, v in rows.items()])
