"""The settings of a partitioner, as compile specs, which ExecuTorch passes to the backend and keeps in the .pte. The
runtime reads the settings of a device from there (delegate/executorch/backend.cc)."""

from __future__ import annotations

import dataclasses

from executorch.exir.backend.compile_spec_schema import CompileSpec

from clave.encodings import parse
from clave.errors import Error


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings, as ClavePartitioner describes them. None and False are not written to a .pte."""

    device: str | None = None
    n_threads: int | None = None
    memory_budget: int | None = None
    cache_dir: str | None = None
    fast: bool = False
    quantize: str | None = None
    share_mutable_buffers: bool = False
    external_data: str | None = None

    def __post_init__(self) -> None:
        """Raises Error for an invalid value."""
        for f in dataclasses.fields(self):
            value, wanted = getattr(self, f.name), _TYPES[str(f.type)]
            if value is not None and not _is_right(f.name, value, wanted):
                raise Error(f"{f.name}: expected {_expected(f.name, wanted)}, got {value!r}")
        if self.quantize is not None:
            parse(self.quantize)

    def specs(self) -> list[CompileSpec]:
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        texts = {k: str(int(v) if isinstance(v, bool) else v) for k, v in given.items() if v not in (None, False)}
        return [CompileSpec(name, text.encode()) for name, text in texts.items()]

    @classmethod
    def of(cls, specs: list[CompileSpec]) -> Settings:
        """Reads the settings from compile specs. Raises Error for an unknown setting."""
        known = {f.name: _TYPES[str(f.type)] for f in dataclasses.fields(cls)}
        unknown = [s.key for s in specs if s.key not in known]
        if unknown:
            raise Error(f"ClaveBackend has no compile spec {unknown[0]!r}; it has {', '.join(known)}")
        return cls(**{s.key: _read(s.value.decode(), known[s.key], s.key) for s in specs})


_TYPES = {"bool": bool, "int | None": int, "str | None": str}
_MAXIMA = {"n_threads": 1024, "memory_budget": 2**64 - 1}  # limits of the library


def _is_right(name: str, value: object, wanted: type) -> bool:
    if type(value) is int and wanted is int:
        return 1 <= value <= _MAXIMA[name]
    return type(value) is wanted and value != ""


def _expected(name: str, wanted: type) -> str:
    return f"a whole number from 1 to {_MAXIMA[name]}" if wanted is int else _EXPECTED[wanted]


_EXPECTED = {bool: "True or False", str: "a text"}


def _read(text: str, wanted: type, name: str) -> bool | int | str:
    if wanted is not str and not text.isdecimal():
        raise Error(f"compile spec {name!r}: expected {_expected(name, wanted)}, got {text!r}")
    return text if wanted is str else wanted(int(text))
