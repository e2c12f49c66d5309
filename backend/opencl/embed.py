#!/usr/bin/env python3
"""Writes kernels_embed.c: the kernel files as bytes, the signature of every kernel in them, and their block sizes.

A signature is parsed from a line that begins `__kernel void name(`: no preprocessor lines between the parentheses, one
kernel name per file. A kernel ends at the next line that is a brace: sources.c cuts it out so. Standard library only.
"""

import argparse
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


class KernelError(Exception):
    """A kernel file that cannot be embedded."""


def without_comments(source: str) -> str:
    source = re.sub(r"/\*.*?\*/", " ", source, flags=re.S)
    return re.sub(r"//[^\n]*", " ", source)


def split_parameters(body: str) -> list[str]:
    """At commas outside of parentheses (STORAGE(X_TYPE))."""
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
    """Index of the parenthesis that closes the one at start."""
    depth = 0
    for i in range(start, len(source)):
        depth += (source[i] == "(") - (source[i] == ")")
        if depth == 0:
            return i
    raise KernelError("parenthesis not closed")


def parse_parameter(text: str, where: str) -> list[tuple[str, str]]:
    """(name, kind) of one parameter; FAULT_PARAMS stands for two."""
    if text == "FAULT_PARAMS":
        return [("fault", "ARG_FAULT"), ("fault_node", "ARG_FAULT_NODE")]
    match = re.fullmatch(r"(.*?)([A-Za-z_]\w*)", text)
    if not match:
        raise KernelError(f"{where}: parameter '{text}' has no name")
    declaration, name = match.group(1), match.group(2)
    words = set(re.findall(r"\w+", declaration))
    if "*" in declaration:
        if words & {"__global", "global", "__constant", "constant"}:
            return [(name, "ARG_BUFFER")]
        if words & {"__local", "local"}:
            return [(name, "ARG_LOCAL")]
        raise KernelError(f"{where}: pointer '{name}' is neither __global, __constant nor __local")
    types = [w for w in re.findall(r"\w+", declaration) if w not in QUALIFIERS]
    if len(types) != 1 or types[0] not in SCALARS:
        raise KernelError(f"{where}: parameter '{name}' has type '{' '.join(types)}', not one of {', '.join(SCALARS)}")
    return [(name, SCALARS[types[0]])]


HEAD = re.compile(r"^__kernel void (\w+)\(", re.M)


def parse_kernels(source: str, file: str) -> dict[str, list[tuple[str, str]]]:
    """The parameters of every kernel in a file, by name."""
    source = without_comments(source)
    found: dict[str, list[tuple[str, str]]] = {}
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
        body = source[start + 1 : matching(source, start)]
        if "#" in body:
            raise KernelError(f"{where}: preprocessor line among the parameters")
        parameters = [p for part in split_parameters(body) for p in parse_parameter(part, where)]
        if name in found and found[name] != parameters:
            raise KernelError(f"{where}: declared twice with different parameters")
        found[name] = parameters
    return found


DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Z]\w*)[ \t]+(\S.*?)[ \t]*$", re.M)
ENUMERATED = re.compile(r"\b([A-Z]\w*) == ([A-Z]\w*)")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
LARGEST_BLOCK = 65536


def parse_blocks(source: str) -> list[tuple[str, int]]:
    """The macros that are numbers, with their defaults: what kernels walk sizes in steps of is among them. Those that
    stand on either side of `KIND == SUM` are names of choices."""
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
    """The files that one includes, and those include, but common.h."""
    direct = [h for h in INCLUDE.findall(texts[name]) if h != "common.h"]
    return [h for d in direct for h in [*headers_of(d, texts), d]]


def bytes_of(data: bytes) -> str:
    rows = []
    for i in range(0, len(data), 24):
        rows.append("    " + ", ".join(str(b) for b in data[i : i + 24]) + ",")
    return "\n".join(rows)


def emit(paths: list[str]) -> str:
    out = [
        "/* Generated by backend/opencl/embed.py. */",
        '#include "backend/opencl/device.h"',
        "",
    ]
    files, signatures = [], []
    texts = {os.path.basename(p): without_comments(pathlib.Path(p).read_text(encoding="utf-8")) for p in paths}
    for path in sorted(paths, key=os.path.basename):
        name = os.path.basename(path)
        with open(path, "rb") as f:
            data = f.read()
        stem, ending = os.path.splitext(name)
        symbol = re.sub(r"\W", "_", name)
        out += [f"static const unsigned char file_{symbol}[] = {{", bytes_of(data) or "    0", "};"]
        files.append(f'    {{"{name}", file_{symbol}, {len(data)}}},')
        if ending != ".cl":
            continue
        blocks = parse_blocks("".join(texts[n] for n in [*headers_of(name, texts), name]))
        rows = ", ".join(f'{{"{macro}", {value}}}' for macro, value in blocks)
        out.append(f"static const block_info blocks_{stem}[] = {{{rows or '{0}'}}};")
        for kernel, parameters in parse_kernels(data.decode("utf-8"), name).items():
            rows = ", ".join(f'{{"{p}", {kind}}}' for p, kind in parameters)
            out.append(f"static const arg_info args_{stem}_{kernel}[] = {{{rows or '{0}'}}};")
            row = f'"{stem}", "{kernel}", args_{stem}_{kernel}, {len(parameters)}, blocks_{stem}, {len(blocks)}'
            signatures.append(f"    {{{row}}},")
    out += ["const kernel_file kernel_files[] = {", *(files or ["    {0}"]), "};"]
    out.append(f"const int n_kernel_files = {len(files)};")
    out += ["const kernel_signature kernel_signatures[] = {", *(signatures or ["    {0}"]), "};"]
    out.append(f"const int n_kernel_signatures = {len(signatures)};")
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the C file to write")
    parser.add_argument("files", nargs="*", help="kernels_cl/*.cl and *.h")
    options = parser.parse_args()
    try:
        content = emit(options.files)
    except KernelError as e:
        print(f"embed.py: {e}", file=sys.stderr)
        return 1
    with open(options.out, "w", encoding="utf-8") as f:
        f.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
