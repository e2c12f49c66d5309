#!/usr/bin/env python3
"""Writes compile_tables.c: the fields of every argument struct of a CPU kernel, the kernels, and the files that emitted
programs are built from, as bytes, each with the files that it needs.

A kernel is declared by `KERNEL(name, args)` in a header and defined by `const kernel_desc kernel_name` in a source. A
source needs the files that it includes, and the sources that define the functions that it names. The script finds
non-static functions of the project whose definition begins a line. It needs only the standard library.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "backend/opencl"))
from embed import LONG_STRINGS, emit_bytes, without_comments

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
DEFINED = re.compile(r"^(?:[A-Za-z_][\w \*]*[ \*])?(\w+)\([^;{}]*\) \{", re.M)
KERNEL_DEFINED = re.compile(r"^const kernel_desc (kernel_\w+) = \{", re.M)
KERNEL_RECORDED = re.compile(r"\bcpu_launch\([^,]+,\s*(\w+)")
KERNEL_DECLARED = re.compile(r"^KERNEL\((\w+), (\w+)\);", re.M)
TYPE = re.compile(r"^typedef (struct|union|enum) \w+ \{(.*?)\n?\} (\w+);", re.M | re.S)
# Inline functions and macros of a header, which are compiled into its includers.
INLINE = re.compile(
    r"^(?:TARGET_\w+ )?(?:static inline|KERNEL_INLINE)[^;{]*\{(?:[^\n]*\}$|.*?^\})|^#[ \t]*define(?:[^\n]*\\\n)*[^\n]*",
    re.M | re.S,
)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)\s*")
STATIC = re.compile(r"^(?:TARGET_\w+ )*(?:static|KERNEL_INLINE)\b")


class SourceError(Exception):
    """The tables cannot be made from a source."""


@dataclasses.dataclass
class Source:
    path: str
    data: bytes
    text: str  # without comments
    needs: list[str] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)  # visible to other files


def read(paths: list[str], generated: list[str]) -> dict[str, Source]:
    """Returns the sources by path within the project, and generated files by name."""
    files = [(p, p) for p in paths] + [(pathlib.Path(p).name, p) for p in generated]
    found = {}
    for name, path in sorted(files):
        data = pathlib.Path(path).read_bytes()
        found[name] = Source(name, data, without_comments(data.decode()))
    return found


def definitions(sources: dict[str, Source]) -> dict[str, str]:
    """Returns the source of every function and kernel that other files may use."""
    found = {}
    for s in sources.values():
        if not s.path.endswith(".c"):
            continue
        found_here = DEFINED.finditer(ATTRIBUTE.sub("", s.text))
        names = [m.group(1) for m in found_here if not STATIC.match(m.group())]
        for name in [*names, *KERNEL_DEFINED.findall(s.text)]:
            if name == "main":
                continue
            if found.setdefault(name, s.path) != s.path:
                raise SourceError(f"{s.path}: {name} is defined in {found[name]}, too")
            s.names.append(name)
    return found


def headers_of(source: Source, sources: dict[str, Source]) -> list[str]:
    """Returns all files that the source includes, directly or not."""
    found: list[str] = []
    left = INCLUDE.findall(source.text)
    while left:
        name = left.pop()
        if name in found:
            continue
        if name not in sources:
            raise SourceError(f"{source.path}: {name} is not among the sources")
        found.append(name)
        left += INCLUDE.findall(sources[name].text)
    return sorted(found)


def compiled_text(source: Source, headers: list[str], sources: dict[str, Source]) -> str:
    """Returns the compiled text of a source: its own, and the inline functions of its headers."""
    parts = [m.group() for h in headers for m in INLINE.finditer(sources[h].text)]
    return "\n".join([source.text, *parts])


def own_names(source: Source) -> set[str]:
    """Returns the names of the source's static functions. Other files may define functions of the same names."""
    found = DEFINED.finditer(ATTRIBUTE.sub("", source.text))
    return {m.group(1) for m in found if STATIC.match(m.group())}


def find_needs(sources: dict[str, Source]) -> None:
    defined = definitions(sources)
    for s in sources.values():
        if not s.path.endswith(".c"):
            continue
        headers = headers_of(s, sources)
        used = set(re.findall(r"\w+", compiled_text(s, headers, sources))) - own_names(s)
        used |= {f"kernel_{name}" for name in KERNEL_RECORDED.findall(s.text)}
        others = {defined[name] for name in used if name in defined} - {s.path}
        s.needs = [*headers, *sorted(others)]


def reachable(sources: dict[str, Source], roots: list[str]) -> dict[str, Source]:
    found: set[str] = set()
    left = list(roots)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += sources[path].needs
    return {p: s for p, s in sources.items() if p in found}


# ---------------------------------------------------------------- structs


@dataclasses.dataclass(frozen=True)
class Type:
    kind: str  # struct, union, enum
    body: str


def types_of(sources: dict[str, Source]) -> dict[str, Type]:
    found = {}
    for s in sources.values():
        if s.path.endswith(".h"):
            for kind, body, name in TYPE.findall(s.text):
                found[name] = Type(kind, body)
    return found


def enum_names(body: str) -> list[str]:
    return re.findall(r"^\s*(\w+)", body.replace(",", "\n"), re.M)


def fields_of(struct: str, body: str) -> list[tuple[str, str, bool]]:
    """Returns (type, name, is an array) of each field; the type of pointers is "*"."""
    found = []
    for statement in filter(None, (" ".join(s.split()) for s in body.split(";"))):
        match = re.fullmatch(r"((?:const )?\w+) (.+)", statement)
        if not match or "(" in statement:
            raise SourceError(f"{struct}: `{statement}` is not a field that can be printed")
        for declarator in match.group(2).split(", "):
            name = re.fullmatch(r"(\**)(\w+)(\[\w+\])?", declarator)
            if not name or (name.group(1) and name.group(3)):
                raise SourceError(f"{struct}: `{declarator}` is not a field that can be printed")
            kind = "*" if name.group(1) else match.group(1).removeprefix("const ")
            found.append((kind, name.group(2), bool(name.group(3))))
    return found


def needed_types(types: dict[str, Type], roots: list[str]) -> list[str]:
    """Returns the structs reachable from the roots, each after those that it contains."""
    found: list[str] = []

    def visit(name: str) -> None:
        if name in found or name not in types:
            return
        if types[name].kind != "enum":
            for kind, _, _ in fields_of(name, types[name].body):
                visit(kind)
        found.append(name)

    for root in roots:
        visit(root)
    return found


def emit_field(struct: str, types: dict[str, Type], field: tuple[str, str, bool]) -> str:
    kind, name, is_array = field
    one = f"(({struct} *)0)->{name}" + ("[0]" if is_array else "")
    count = f"sizeof((({struct} *)0)->{name}) / sizeof({one})" if is_array else "0"
    row = f'.name = "{name}", .offset = offsetof({struct}, {name}), .size = sizeof({one}), .count = {count}, '
    if kind == "*":
        row += ".kind = FIELD_POINTER"
    elif kind not in types:
        row += f".kind = KIND_OF({one})"
    elif types[kind].kind == "enum":
        row += f".kind = FIELD_ENUM, .names = names_of_{kind}, .n_names = {len(enum_names(types[kind].body))}"
    else:
        row += f".kind = FIELD_STRUCT, .of = &struct_of_{kind}"
    return f"    {{{row}}},"


def emit_type(name: str, types: dict[str, Type]) -> list[str]:
    of = types[name]
    if of.kind == "enum":
        rows = ", ".join(f'{{(int){n}, "{n}"}}' for n in enum_names(of.body))
        return [f"static const enum_name names_of_{name}[] = {{{rows}}};"]
    fields = fields_of(name, of.body)
    if of.kind == "union":
        fields = fields[:1]
    return [
        f"static const struct_field fields_of_{name}[] = {{",
        *(emit_field(name, types, f) for f in fields),
        "};",
        f'static const struct_info struct_of_{name} = {{"{name}", fields_of_{name}, {len(fields)}}};',
    ]


KINDS = {
    "bool": "FIELD_BOOL",
    **{f"int{bits}_t": "FIELD_INT" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": "FIELD_UINT" for bits in (8, 16, 32, 64)},
    "float": "FIELD_F32",
    "double": "FIELD_F64",
}
KIND_OF = f"#define KIND_OF(x) _Generic((x), {', '.join(f'{t}: {k}' for t, k in KINDS.items())})"


# ---------------------------------------------------------------- the file


def kernels_of(sources: dict[str, Source]) -> list[tuple[str, str, str, str]]:
    """Returns (name, struct, header, source) of each kernel."""
    defined = {k: s.path for s in sources.values() for k in KERNEL_DEFINED.findall(s.text)}
    found = []
    for s in sources.values():
        for name, args in KERNEL_DECLARED.findall(s.text):
            if f"kernel_{name}" not in defined:
                raise SourceError(f"{s.path}: no source defines kernel_{name}")
            found.append((name, args, s.path, defined[f"kernel_{name}"]))
    return found


def emit_files(sources: dict[str, Source]) -> list[str]:
    number = {path: i for i, path in enumerate(sources)}
    out, rows = [], []
    for path, s in sources.items():
        i = number[path]
        out.append(emit_bytes(f"file_{i}", s.data))
        needs = ", ".join(str(number[n]) for n in s.needs)
        out.append(f"static const uint16_t needs_{i}[] = {{{needs or '0'}}};")
        names = ", ".join(f'"{name}"' for name in dict.fromkeys(s.names))
        out.append(f"static const char *const names_{i}[] = {{{names or 'NULL'}}};")
        counts = f"{len(s.needs)}, names_{i}, {len(dict.fromkeys(s.names))}"
        rows.append(f'    {{"{path}", file_{i}, {len(s.data)}, needs_{i}, {counts}}},')
    out += ["const source_file source_files[] = {", *rows, "};"]
    return [*out, f"const int n_source_files = {len(sources)};"]


def emit(sources: dict[str, Source]) -> str:
    find_needs(sources)
    kernels = kernels_of(sources)
    kept = reachable(sources, [p for p in sources if not p.startswith(("base/", "json/"))])
    number = {path: i for i, path in enumerate(kept)}
    types = types_of(sources)
    out = ["/* Generated by compile/sources.py. */", LONG_STRINGS, '#include "compile/tables.h"', ""]
    out += [f'#include "{h}"' for h in sorted({k[2] for k in kernels})]
    out += ["", KIND_OF, ""]
    for name in needed_types(types, [k[1] for k in kernels]):
        out += emit_type(name, types)
    out.append("const kernel_info kernel_infos[] = {")
    for name, args, header, source in kernels:
        out.append(f'    {{&kernel_{name}, "kernel_{name}", &struct_of_{args}, {number[header]}, {number[source]}}},')
    out += ["};", f"const int n_kernel_infos = {len(kernels)};"]
    return "\n".join([*out, *emit_files(kept)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the C file to write")
    parser.add_argument("--generated", action="append", default=[], help="a source in the folder of generated files")
    parser.add_argument("files", nargs="*", help="the sources, by their paths in the project")
    options = parser.parse_args()
    try:
        content = emit(read(options.files, options.generated))
    except SourceError as e:
        print(f"sources.py: {e}", file=sys.stderr)
        return 1
    pathlib.Path(options.out).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
