"""Where a GGUF file has its keys and tensors, according to PyPI's gguf: for tests that change its bytes."""

import dataclasses

import gguf


@dataclasses.dataclass
class Key:
    """at, end: the bytes of the value; of an array, those of its elements. size: bytes of its first number, which for
    a text is its length."""

    at: int
    end: int
    size: int


@dataclasses.dataclass
class Tensor:
    """info: the offset of its number of dimensions, which the dimensions, the type and the offset of the data follow.
    at, end: the bytes of the data."""

    name: str
    rank: int
    info: int
    at: int
    end: int


def layout_of(path):
    """Returns the keys of a valid file by name, and its tensors."""
    reader = gguf.GGUFReader(path)
    keys = {name: _key(field) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return keys, [_tensor(t) for t in reader.tensors]


def _key(field):
    is_array = field.types[0] == gguf.GGUFValueType.ARRAY
    sizes = [part.nbytes for part in field.parts]
    n = 5 if is_array else 3  # length and text of the name, the type, and an array's type and number of elements
    at = field.offset + sum(sizes[:n])
    return Key(at, field.offset + sum(sizes), sizes[n])


def _tensor(t):
    info = t.field.offset + sum(part.nbytes for part in t.field.parts[:2])
    return Tensor(t.name, len(t.shape), info, t.data_offset, t.data_offset + t.n_bytes)
