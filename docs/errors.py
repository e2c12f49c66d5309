#!/usr/bin/env python3
"""docs/errors.py [--out FILE]: checks that each message of the sources is explained, and writes the error guide.

errors.tsv has causes and cures, by the path of the source file or by a part of the message.

Messages are formats in the code that reports them; there is no table of them. The script therefore reads the C and
Python sources. A message without a row is an error, and so is a row without a message.
"""

import argparse
import ast
import dataclasses
import functools
import importlib.machinery
import importlib.util
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = (
    "api",
    "backend",
    "base",
    "cli",
    "compile",
    "delegate",
    "import",
    "interp",
    "jinja",
    "json",
    "llm",
    "ops",
    "serialize",
)
ROOMS += ("tokenizer",)
RAISED = {
    "Error",
    "Unsupported",
    "UsageError",
    "UnsupportedOp",
    "unsupported",
}  # calls with a message, and x.error(...)


@dataclasses.dataclass
class Row:
    where: str  # a path, or a part of a message
    title: str
    cause: str
    cure: str

    @property
    def is_path(self):
        return re.fullmatch(r"[a-z_]+(/[a-z_]*)+", self.where) is not None


def rows():
    lines = (ROOT / "docs/errors.tsv").read_text().splitlines()
    return [Row(*line.split("\t")) for line in lines if not line.startswith("#")]


def c_messages():
    """Yields (file, message) of the C sources, as ci/messages finds them."""
    loader = importlib.machinery.SourceFileLoader("messages", str(ROOT / "ci/messages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("messages", loader))
    loader.exec_module(module)
    for room in ROOMS:
        for place, form in module.formats(room):
            yield place.partition(":")[0], form


def text_of(node):
    """Returns the format of a message, with %s for each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "%s" for v in node.values)
    return None


def makes_error(called):
    return getattr(called, "id", None) in RAISED or getattr(called, "attr", None) == "error"


def python_messages():
    for path in sorted((ROOT / "python/clave").rglob("*.py")):
        if "_generated" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and makes_error(node.func) and node.args:
                message = text_of(node.args[0])
                if message and len(message) > 8:
                    yield path.relative_to(ROOT).as_posix(), message


@functools.cache
def messages():
    return sorted({*c_messages(), *python_messages()})


def row_of(place, table):
    """Returns the row with the longest path that begins `place`."""
    fitting = [r for r in table if r.is_path and place.startswith(r.where)]
    return max(fitting, key=lambda r: len(r.where), default=None)


def problems(found, table):
    for place, message in found:
        if row_of(place, table) is None:
            yield f"{place}: {message}: no row of docs/errors.tsv explains it"
    for row in table:
        if row.is_path and not any(row_of(place, table) is row for place, _ in found):
            yield f"docs/errors.tsv: {row.where}: no message comes from there"
        if not row.is_path and not any(row.where in message for _, message in found):
            yield f"docs/errors.tsv: {row.where}: no message contains it"


def shown(message):
    """Returns a message as users see it, with dots for the values."""
    plain = re.sub(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z)?[a-zA-Z]", "…", message).replace("`", "'").replace("\n", " ")
    return "`" + plain.strip() + "`"


HEAD = """# Error guide

[Understand an error](../howto/errors.md) explains the line and its code. Find the message in the lists below, or the
part of clave that it comes from. Dots stand for values.
"""


def section(title, row, met):
    listed = [f"- {m}" for m in sorted({shown(m) for m in met})]
    return [f"{title} {row.title}", "", f"**Cause:** {row.cause}", "", f"**What to do:** {row.cure}", "", *listed, ""]


def guide(found, table):
    lines = [HEAD, "## The most frequent messages", ""]
    for row in table:
        if not row.is_path:
            lines += section("###", row, [m for _, m in found if row.where in m])
    for row in table:
        if row.is_path:
            lines += section("##", row, [m for place, m in found if row_of(place, table) is row])
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, help="writes the guide as Markdown")
    options = parser.parse_args()
    found, table = messages(), rows()
    wrong = list(problems(found, table))
    print("\n".join(wrong) or f"{len(found)} messages, each explained")
    if options.out and not wrong:
        options.out.write_text(guide(found, table))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
