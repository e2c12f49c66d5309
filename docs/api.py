#!/usr/bin/env python3
"""docs/api.py FOLDER: writes the references of the APIs as Markdown into FOLDER, for site.py.

c_NAME.md has a public header's comments and declarations. python.md has directives, which mkdocstrings replaces by
docstrings."""

import pathlib
import re
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = [*sorted((ROOT / "include").glob("*.h")), ROOT / "delegate/clave_delegate.h"]
# Lines that are no declaration of the API: the preprocessor's and C++'s.
PLUMBING = re.compile(r'^#|^extern "C" \{$')
SECTION = re.compile(r"^/\* -{20,} (.+?)( \*/)?$")  # the comment may go on after its title
DECLARED = re.compile(r"\b(clave_\w+) ?\(|\}\s*(clave_\w+);|typedef [\w ]*?\*?(clave_\w+);|\(\*(clave_\w+)\)\(")

PYTHON = [
    (
        "Programs",
        [
            "clave.exporter.export",
            "clave.load",
            "clave.Program",
            "clave.from_onnx",
            "clave.from_tflite",
            "clave.from_gguf",
        ],
    ),
    ("Running", ["clave.Session", "clave.Device", "clave.devices"]),
    ("Language models", ["clave.LLM", "clave.Sampling", "clave.Tokenizer"]),
    ("Conversations", ["clave.Conversation", "clave.Answer", "clave.Stream", "clave.Token"]),
    ("Language models from folders", ["clave.llm.exporter.LLMExporter"]),
    ("Quantisation by torch", ["clave.quantizer.ClaveQuantizer"]),
    ("Own ops", ["clave.register_lowering", "clave.register_op", "clave.Kernel"]),
    ("Errors", ["clave.Error", "clave.UnsupportedOp", "clave.Cancelled", "clave.Origin", "clave.Code"]),
]

# Functions that the package exports under a shorter name.
HEADED = {"clave.exporter.export": ["    options:", "      heading: clave.export"]}


@dataclass
class Item:
    """A comment's text, and the lines of C after it."""

    text: list = field(default_factory=list)
    code: list = field(default_factory=list)


def comment_lines(lines):
    """Returns the text of the comment that begins lines[0], and its number of lines."""
    n = next(i for i, line in enumerate(lines) if "*/" in line) + 1
    inner = [re.sub(r"^ ?\*(?!/) ?", "", line) for line in lines[:n]]
    inner[0] = inner[0].removeprefix("/*").strip()
    inner[-1] = inner[-1].split("*/")[0].rstrip()
    return inner, n


def items(lines):
    """Returns the comments outside braces that begin a line, each with the declarations up to the next one."""
    found, at, depth = [Item()], 0, 0
    while at < len(lines):
        line = lines[at]
        if depth == 0 and (section := SECTION.match(line)):
            text, n = comment_lines(lines[at:])
            found += [Item([f"## {section[1]}"]), Item(text[1:]), Item()]
            at += n
            continue
        elif depth == 0 and line.startswith("/*"):
            text, n = comment_lines(lines[at:])
            found.append(Item(text))
            at += n
            continue
        elif depth or not (PLUMBING.match(line) or line == "}"):
            if not line and depth == 0 and found[-1].code:
                found.append(Item())
            elif line:
                found[-1].code.append(line)
            depth += line.count("{") - line.count("}")
        at += 1
    return [i for i in found if i.text or i.code]


def prose(lines):
    """Yields a comment as Markdown: indented lines are C, all others are text."""
    for line in lines:
        if line.startswith("  "):
            yield f"  {line}"
        elif line.startswith("## "):
            yield line
        else:
            parts = re.split(r"(`[^`]*`)", line)  # Markdown shows them as code, too
            yield "".join(p if p.startswith("`") else re.sub(r"([\\*_<>\[\]#|])", r"\\\1", p) for p in parts)


def declared(code):
    """Returns the names that lines of C declare outside braces."""
    whole = re.sub(r"/\*.*?\*/", "", "\n".join(code), flags=re.S)
    outer, depth = [], 0
    for c in whole:
        depth -= c == "}"
        if depth == 0:
            outer.append(c)
        depth += c == "{"
    return [next(filter(None, m.groups())) for m in DECLARED.finditer("".join(outer))]


def without_attributes(line):
    """Returns a declaration without attributes, which are for compilers."""
    return re.sub(r"\bCLAVE_API ", "", re.sub(r" ?\bCLAVE_CHECK\b", "", line))


def c_page(header):
    """Returns a header's page. Its anchors are the names that the header declares."""
    lines = header.read_text().splitlines()
    page = [f"# {header.name}", "", f"`#include <{header.name}>`", ""]
    for item in items(lines):
        page += [f'<a id="{name}"></a>' for name in declared(item.code)]
        page += ["", *prose(item.text), ""]
        if item.code:
            page += ["```c", *map(without_attributes, item.code), "```", ""]
    return "\n".join(page)


def python_page():
    page = [
        "# The Python API",
        "",
        "`pip install ./python`; exporting needs `'./python[export]'`, folders of language models",
    ]
    page += ["`'./python[llm]'`.", ""]
    for section, names in PYTHON:
        page += [f"## {section}", ""]
        for name in names:
            page += [f"::: {name}", *HEADED.get(name, ()), ""]
    return "\n".join(page)


def write(folder):
    """Writes the pages. Returns their names in the order of the site's navigation."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"python.md": python_page()} | {f"c_{h.stem}.md": c_page(h) for h in HEADERS}
    for name, text in pages.items():
        (folder / name).write_text(text)
    return list(pages)


if __name__ == "__main__":
    print("\n".join(write(pathlib.Path(sys.argv[1]))))
