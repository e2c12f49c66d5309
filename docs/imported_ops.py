#!/usr/bin/env python3
"""docs/imported_ops.py OPS.json PAGE.md: writes the table of ops that the importers know as Markdown.

OPS.json is the output of `clave inspect --formats --json`.
"""

import itertools
import json
import pathlib
import sys

HEAD = """# Ops of other formats

`make` writes this page from the importers' tables, which `clave inspect --formats` prints. An op is supported from the
given version on. A model with any other op, or with an attribute or dtype that the importer lacks, is refused with a
message that lists all of them: [Run ONNX models](../howto/onnx.md), [Run TFLite models](../howto/tflite.md).
"""
TITLES = {"": "ops of the format itself"}


def section(title, ops):
    lines = [f"## {title}", "", "| op | first version |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {since} |" for name, since in ops)]) + "\n"


def page(rows):
    kind = lambda r: (r["format"], r["domain"])
    parts = [HEAD]
    for (form, domain), ops in itertools.groupby(sorted(rows, key=lambda r: (*kind(r), r["op"])), kind):
        first = {}
        for r in ops:
            first[r["op"]] = min(r["since"], first.get(r["op"], r["since"]))
        parts.append(section(f"{form}: {TITLES.get(domain, f'`{domain}`')}", sorted(first.items())))
    return "\n".join(parts)


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(page(json.loads(pathlib.Path(sys.argv[1]).read_text())))
