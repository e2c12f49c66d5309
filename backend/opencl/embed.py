#!/usr/bin/env python3
"""Writes kernels_embed.c (the kernel files without comments, the signature of every kernel in them, and their block
sizes) and kernel_args.h (a struct of each kernel's arguments).

A signature begins at a line `__kernel void name(`. There are no preprocessor lines between the parentheses, and kernel
names are unique. The parameters end at the next line that ends with `) {`, the kernel at the next line that is a
brace: sources.c extracts kernels by the same rule. A pointer `x` to global memory and the `long x_offset` of its
element 0, which follows it, are one argument, and so is a `__read_only image1d_buffer_t`. A macro `NAME_PARAMS` among
the parameters is a group, for which there is one struct that several kernels can share. It needs only the standard
library.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import sys

SCALARS = {
    "int": "ARG_INT",
    "uint": "ARG_UINT",
    "long": "ARG_LONG",
    "ulong": "ARG_ULONG",
    "float": "ARG_FLOAT",
    "double": "ARG_DOUBLE",
    "real": "ARG_REAL",
    "index_t": "ARG_INDEX",
    "index8": "ARG_INDEX8",
}
QUALIFIERS = {"const", "restrict", "volatile", "__restrict", "unsigned"}
# The C type of an argument; arguments without a type here are bound by the backend itself.
FIELD_TYPES = {
    "ARG_BUFFER": "arg_buffer",
    "ARG_LOCAL": "arg_local",
    "ARG_IMAGE": "arg_image",
    "ARG_INDEX8": "arg_index8",
}
FIELD_TYPES |= dict.fromkeys(["ARG_INT", "ARG_UINT", "ARG_LONG", "ARG_ULONG", "ARG_INDEX"], "int64_t")
FIELD_TYPES |= dict.fromkeys(["ARG_FLOAT", "ARG_DOUBLE", "ARG_REAL"], "double")
BOUND = {
    "FAULT_PARAMS": [
        ("fault", "ARG_FAULT", "volatile __global fault_record *"),
        ("fault_node", "ARG_FAULT_NODE", "const uint"),
    ],
    "RANDOM_PARAMS": [("seed", "ARG_SEED", "const ulong"), ("run", "ARG_RUN", "const uint")],
}
MAX_PARAMETERS = 64  # MAX_LAUNCH_ARGS of opencl.h
MAX_BYTES = 1024  # MAX_LAUNCH_BYTES of opencl.h
SMALL = {"ARG_INT", "ARG_UINT", "ARG_FLOAT", "ARG_RUN", "ARG_FAULT_NODE"}  # 4 bytes, others at most 8


class KernelError(Exception):
    """A kernel file cannot be embedded."""


def without_comments(source: str) -> str:
    source = re.sub(r"/\*.*?\*/", " ", source, flags=re.S)
    return re.sub(r"//[^\n]*", " ", source)


def compact(source: str) -> str:
    """Returns the text that drivers compile: without comments, empty lines and alignment. A line that begins with a
    blank still does, since the braces of kernels are found by their column."""
    lines = (re.sub(r"[ \t]+", " ", line).rstrip() for line in without_comments(source).splitlines())
    return "".join(line + "\n" for line in lines if line)


def split_parameters(body: str) -> list[str]:
    """Splits at commas outside of parentheses (STORAGE(X_TYPE))."""
    parts, depth, current = [], 0, ""
    for c in body:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [" ".join(p.split()) for p in [*parts, current] if p.strip()]


def matching(source: str, start: int) -> int:
    """Returns the index of the parenthesis that closes the one at start."""
    depth = 0
    for i in range(start, len(source)):
        depth += (source[i] == "(") - (source[i] == ")")
        if depth == 0:
            return i
    raise KernelError("parenthesis not closed")


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    type: str
    group: str = ""  # group that it belongs to

    @property
    def field(self) -> str:
        """The parameter's field in the kernel's struct."""
        return f"{self.group}.{self.name}" if self.group else self.name


def parse_parameter(text: str, where: str) -> tuple[str, str, str]:
    """Returns (name, kind, type) of a parameter's declaration. Raises KernelError for an unknown type."""
    match = re.fullmatch(r"(.*?)([A-Za-z_]\w*)", text)
    if not match:
        raise KernelError(f"{where}: parameter '{text}' has no name")
    declaration, name = match.group(1).strip(), match.group(2)
    words = set(re.findall(r"\w+", declaration))
    if "*" in declaration:
        if words & {"__global", "global", "__constant", "constant"}:
            return name, "ARG_BUFFER", declaration
        if words & {"__local", "local"}:
            return name, "ARG_LOCAL", declaration
        raise KernelError(f"{where}: pointer '{name}' is neither __global, __constant nor __local")
    if declaration == "__read_only image1d_buffer_t":
        return name, "ARG_IMAGE", declaration
    types = [w for w in re.findall(r"\w+", declaration) if w not in QUALIFIERS]
    if len(types) != 1 or types[0] not in SCALARS:
        raise KernelError(f"{where}: parameter '{name}' has type '{' '.join(types)}', not one of {', '.join(SCALARS)}")
    return name, SCALARS[types[0]], declaration


def parse_parameters(body: str, groups: dict[str, str], where: str, group: str = "") -> list[Parameter]:
    """Parses a list of parameters and expands its groups in place."""
    found: list[Parameter] = []
    for text in split_parameters(body):
        if text in BOUND:
            found += [Parameter(*row) for row in BOUND[text]]
        elif text in groups and not group:
            found += parse_parameters(groups[text], groups, f"{where}, {text}", group_name(text))
        else:
            found.append(Parameter(*parse_parameter(text, where), group))
    return found


def max_bytes(found: list[Parameter]) -> int:
    """Returns the bytes of a kernel's arguments where indices have 64 bits, without padding."""
    return sum(4 if p.kind in SMALL else 64 if p.kind == "ARG_INDEX8" else 8 for p in found)


def check_parameters(found: list[Parameter], where: str) -> None:
    if len(found) > MAX_PARAMETERS:
        raise KernelError(f"{where}: {len(found)} parameters, at most {MAX_PARAMETERS}")
    if max_bytes(found) > MAX_BYTES:
        raise KernelError(f"{where}: {max_bytes(found)} bytes of arguments, at most {MAX_BYTES}")
    names = [p.name for p in found]
    for i, p in enumerate(found):
        if p.kind == "ARG_BUFFER" and [(q.name, q.kind) for q in found[i + 1 : i + 2]] != [
            (p.name + "_offset", "ARG_LONG")
        ]:
            raise KernelError(f"{where}: pointer '{p.name}' is not followed by `const long {p.name}_offset`")
        if p.kind == "ARG_FAULT" and i != len(found) - 2:
            raise KernelError(f"{where}: FAULT_PARAMS is not last")
        if names.count(p.name) > 1:
            raise KernelError(f"{where}: two parameters '{p.name}'")


HEAD = re.compile(r"^__kernel void (\w+)\(", re.M)
GROUP = re.compile(r"^#define (\w+_PARAMS)\s((?:.*\\\n)*.*)$", re.M)


def group_name(macro: str) -> str:
    return macro.removesuffix("_PARAMS").lower()


def parse_groups(texts: dict[str, str]) -> dict[str, str]:
    """Returns the parameter lists that are macros, by the macro's name. texts: the files without comments."""
    found: dict[str, str] = {}
    for file, text in texts.items():
        for name, body in GROUP.findall(text):
            if name in found:
                raise KernelError(f"{file}: a second {name}")
            found[name] = body.replace("\\\n", " ")
    return {name: body for name, body in found.items() if name not in BOUND}


def parse_kernels(source: str, file: str, groups: dict[str, str]) -> dict[str, list[Parameter]]:
    """Returns the parameters of every kernel in a file, by the kernel's name. source: the text without comments."""
    found: dict[str, list[Parameter]] = {}
    for match in re.finditer(r"\b(?:__)?kernel\b", source):
        at = HEAD.match(source, match.start())
        if not at:
            near = source[match.start() : match.start() + 60]
            raise KernelError(f"{file}: near '{near}': a kernel begins with a line `__kernel void name(`")
        name, start = at.group(1), at.end() - 1
        where = f"{file}: kernel {name}"
        end = source.find("\n}\n", start)
        if end < 0 or 0 <= source.find("\n__kernel", start) < end:
            raise KernelError(f"{where}: no line that is a brace ends it")
        close = matching(source, start)
        body = source[start + 1 : close]
        if not source.startswith(") {\n", close):
            raise KernelError(f"{where}: `) {{` does not end the line after the parameters")
        if "#" in body:
            raise KernelError(f"{where}: preprocessor line among the parameters")
        if name in found:
            raise KernelError(f"{where}: a second one of that name")
        found[name] = parse_parameters(body, groups, where)
        check_parameters(found[name], where)
    return found


def parse_files(paths: list[str]) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, list[Parameter]]]]:
    """Returns the files' texts without comments, the groups of parameters, and the kernels of each stem."""
    texts = {
        os.path.basename(p): without_comments(pathlib.Path(p).read_text(encoding="utf-8"))
        for p in sorted(paths, key=os.path.basename)
    }
    groups = parse_groups(texts)
    kernels: dict[str, dict[str, list[Parameter]]] = {}
    seen: dict[str, str] = {}
    for file, text in texts.items():
        stem, ending = os.path.splitext(file)
        if ending != ".cl":
            continue
        kernels[stem] = parse_kernels(text, file, groups)
        for name in kernels[stem]:
            if name in seen:
                raise KernelError(f"{file}: kernel {name}: {seen[name]} has one of that name")
            seen[name] = file
    return texts, groups, kernels


def arguments(parameters: list[Parameter]) -> list[Parameter]:
    """Returns the arguments that an op passes, without offsets of buffers and arguments that the backend binds."""
    names = {p.name for p in parameters if p.kind == "ARG_BUFFER"}
    return [p for p in parameters if p.kind in FIELD_TYPES and p.name.removesuffix("_offset") not in names - {p.name}]


def structs(groups: dict[str, str], kernels: dict[str, dict[str, list[Parameter]]]) -> dict[str, dict[str, str]]:
    """Returns {struct: {field: type}} of every struct."""
    found = {}
    for macro, body in groups.items():
        own = arguments(parse_parameters(body, {}, macro))
        found[group_name(macro) + "_params"] = {p.name: FIELD_TYPES[p.kind] for p in own}
    for rows in kernels.values():
        for kernel, parameters in rows.items():
            fields = {
                p.group or p.name: p.group + "_params" if p.group else FIELD_TYPES[p.kind]
                for p in arguments(parameters)
            }
            found[kernel + "_args"] = fields
    return found


DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Z]\w*)[ \t]+(\S.*?)[ \t]*$", re.M)
ENUMERATED = re.compile(r"\b([A-Z]\w*) == ([A-Z]\w*)")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
LARGEST_BLOCK = 65536


def parse_blocks(source: str) -> list[tuple[str, int]]:
    """Returns the numeric macros with their defaults. They include the kernels' block sizes. Macros on either side of
    `KIND == SUM` are excluded, because they name choices."""
    choices = {name for pair in ENUMERATED.findall(source) for name in pair}
    values: dict[str, int] = {}
    rows = set()
    for name, text in DEFINE.findall(source):
        expression = re.sub(r"[A-Z]\w*", lambda m: str(values.get(m.group(), "?")), text)
        if name in choices or not re.fullmatch(r"[\d\s()*/]+", expression):
            continue
        values[name] = int(eval(expression.replace("/", "//")))  # digits, products and quotients only
        rows.add((name, values[name]))
    return sorted(row for row in rows if row[1] <= LARGEST_BLOCK)


def headers_of(name: str, texts: dict[str, str]) -> list[str]:
    """Returns the files that a file includes, directly or not, except common.h."""
    direct = [h for h in INCLUDE.findall(texts[name]) if h != "common.h"]
    return [h for d in direct for h in [*headers_of(d, texts), d]]


LONG_STRINGS = '#pragma GCC diagnostic ignored "-Woverlength-strings"  /* gcc and clang read any length */'
ESCAPES = {b: f"\\{b:03o}" for b in range(256) if not 32 <= b < 127} | {ord(c): f"\\{c}" for c in '\\"?'}


def emit_bytes(name: str, data: bytes) -> str:
    """Returns an array of the bytes and a zero, as a string. Compilers read strings ten times as fast as numbers."""
    lines = (line.decode("latin-1").translate(ESCAPES) for line in data.splitlines(keepends=True))
    return "\n".join([f"static const unsigned char {name}[] =", *(f'    "{line}"' for line in lines), '    "";'])


def emit_header(groups: dict[str, str], kernels: dict[str, dict[str, list[Parameter]]]) -> str:
    names = [k for rows in kernels.values() for k in rows]
    out = [
        "#ifndef GEN_KERNEL_ARGS_H",
        "#define GEN_KERNEL_ARGS_H",
        "/* Generated by backend/opencl/embed.py. The arguments of each kernel: fields cannot be set later, and",
        " * check_args.py checks that each initialiser of a struct names all fields. */",
        '#include "backend/opencl/program/args.h"',
    ]
    for struct, fields in structs(groups, kernels).items():
        rows = "".join(f"  const {kind} {name};\n" for name, kind in fields.items())
        out.append(f"typedef struct {struct} {{\n{rows}}} {struct};")
    out += ["enum {", *(f"  KERNEL_{k.upper()}," for k in names), "  N_KERNELS", "};"]
    out.append("/* The index in kernel_signatures of the kernel whose arguments the pointer refers to. */")
    rows = ", \\\n    ".join(f"{k}_args: KERNEL_{k.upper()}" for k in names)
    out += [f"#define KERNEL_OF(...) _Generic(*(__VA_ARGS__), \\\n    {rows})", "#endif"]
    return "\n".join(out) + "\n"


def emit_signature(stem: str, kernel: str, parameters: list[Parameter], n_blocks: int) -> tuple[str, str]:
    """Returns the table of a kernel's parameters, and the kernel's row in kernel_signatures."""
    given = arguments(parameters)
    place = lambda p: f"offsetof({kernel}_args, {p.field})" if p in given else "0"
    rows = ", ".join(f'{{"{p.name}", "{p.type}", {p.kind}, {place(p)}}}' for p in parameters)
    table = f"static const arg_info args_{kernel}[] = {{{rows or '{0}'}}};"
    row = f'"{stem}", "{kernel}", args_{kernel}, {len(parameters)}, blocks_{stem}, {n_blocks}'
    return table, f"    [KERNEL_{kernel.upper()}] = {{{row}}},"


def place_of(path: str) -> str:
    """Returns a file's path in the folder of kernels, "conv/winograd.cl"; headers of other rooms have no folder."""
    _, room, place = path.rpartition("kernels_cl/")
    return place if room else os.path.basename(path)


def emit(paths: list[str], texts: dict[str, str], kernels: dict[str, dict[str, list[Parameter]]]) -> str:
    out = [
        "/* Generated by backend/opencl/embed.py. */",
        LONG_STRINGS,
        "#include <stddef.h>",
        '#include "backend/opencl/program/program.h"',
        f'_Static_assert(MAX_LAUNCH_ARGS == {MAX_PARAMETERS}, "of embed.py");',
        f'_Static_assert(MAX_LAUNCH_BYTES == {MAX_BYTES}, "of embed.py");',
        "",
    ]
    files, signatures = [], []
    for path in sorted(paths, key=os.path.basename):
        name = os.path.basename(path)
        data = compact(pathlib.Path(path).read_text(encoding="utf-8")).encode()
        stem, ending = os.path.splitext(name)
        symbol = re.sub(r"\W", "_", name)
        out.append(emit_bytes(f"file_{symbol}", data))
        files.append(f'    {{"{name}", "{place_of(path)}", file_{symbol}, {len(data)}}},')
        if ending != ".cl":
            continue
        blocks = parse_blocks("".join(texts[n] for n in [*headers_of(name, texts), name]))
        rows = ", ".join(f'{{"{macro}", {value}}}' for macro, value in blocks)
        out.append(f"static const block_info blocks_{stem}[] = {{{rows or '{0}'}}};")
        for kernel, parameters in kernels[stem].items():
            table, row = emit_signature(stem, kernel, parameters, len(blocks))
            out.append(table)
            signatures.append(row)
    out += ["const kernel_file kernel_files[] = {", *(files or ["    {0}"]), "};"]
    out.append(f"const int n_kernel_files = {len(files)};")
    out += ["const kernel_signature kernel_signatures[] = {", *(signatures or ["    {0}"]), "};"]
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the C file to write")
    parser.add_argument("--header", required=True, help="the header to write")
    parser.add_argument(
        "files", nargs="*", help="the files of kernels_cl/ and its folders, and headers that they include"
    )
    options = parser.parse_args()
    try:
        texts, groups, kernels = parse_files(options.files)
        header, content = emit_header(groups, kernels), emit(options.files, texts, kernels)
    except KernelError as e:
        print(f"embed.py: {e}", file=sys.stderr)
        return 1
    pathlib.Path(options.out).write_text(content, encoding="utf-8")
    pathlib.Path(options.header).write_text(header, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
