#!/usr/bin/env python3
"""Checks that each initialiser of a struct of kernel_args.h names all of its fields: C would silently set a missing
one to zero. The fields are const, so an initialiser is the only way to make such a struct.

    check_args.py --kernels kernels_cl/*/* --sources backend/opencl/*/*.c

Prints a line for each mistake: file, line, struct, field. It needs only the standard library.
"""

import argparse
import pathlib
import re
import sys

import embed


def blank_out(source: str) -> str:
    """Returns the source with comments and strings replaced by blanks of equal length."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), source, flags=re.S)


def items_of(source: str, start: int) -> list[str]:
    """Returns the comma-separated parts within the braces that open at start."""
    items, depth, current = [], 0, ""
    for c in source[start:]:
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            break
        if c == "," and depth == 1:
            items.append(current)
            current = ""
        else:
            current += c
    items.append(current)
    return [i.strip().removeprefix("{").strip() if n == 0 else i.strip() for n, i in enumerate(items)]


def mistakes_of(structs: dict[str, dict[str, str]], struct: str, source: str, start: int) -> list[str]:
    """Checks the initialiser that opens at start, and nested initialisers of groups. Returns the mistakes."""
    found, named = [], set()
    for item in filter(None, items_of(source, start)):
        match = re.match(r"\.(\w+)\s*=\s*(.*)", item, re.S)
        if not match:
            found.append(f"{struct} is initialised by place: '{item.split()[0]}' has no name")
            continue
        field, value = match.groups()
        named.add(field)
        kind = structs[struct].get(field)
        if kind in structs and value.startswith("{"):
            found += mistakes_of(structs, kind, value, 0)
    missing = [f".{field}" for field in structs[struct] if field not in named]
    return found + ([f"{struct} lacks {', '.join(missing)}"] if missing else [])


# PLAIN matches text after a struct's name that needs no check: a pointer, a function, or a copy of another object.
# BRACES matches text before the braces of an initialiser or a compound literal.
PLAIN = re.compile(r"\s*\*|\s*\w+\s*\(|\s*\w+\s*=\s*(?!\{)")
BRACES = re.compile(r"(?:\s*\w+\s*=|\s*\))\s*(?=\{)")


def check(structs: dict[str, dict[str, str]], source: str) -> list[tuple[int, str]]:
    """Returns (line, mistake) of each mistake in a source."""
    source, found = blank_out(source), []
    for match in re.finditer(rf"\b({'|'.join(structs)})\b", source):
        struct, at = match.group(1), match.end()
        braces = BRACES.match(source, at)
        wrong = [f"{struct} is neither initialised nor a pointer"]
        if braces:
            wrong = mistakes_of(structs, struct, source, braces.end())
        elif PLAIN.match(source, at):
            wrong = []
        found += [(source.count("\n", 0, at) + 1, w) for w in wrong]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", nargs="+", required=True)
    parser.add_argument("--sources", nargs="+", required=True)
    options = parser.parse_args()
    _, groups, kernels = embed.parse_files(options.kernels)
    structs, bad = embed.structs(groups, kernels), 0
    for path in options.sources:
        for line, mistake in check(structs, pathlib.Path(path).read_text(encoding="utf-8")):
            print(f"{path}:{line}: error: {mistake}", file=sys.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
