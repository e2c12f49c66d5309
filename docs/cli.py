#!/usr/bin/env python3
"""docs/cli.py TABLES.json PAGE.md: writes the reference of the command line and the environment as Markdown.

TABLES.json is the output of `clave command-tables`. cli/pages.py makes the manual pages from the same tables.
"""

import json
import pathlib
import sys

HEAD = """# Command line and environment

`make` writes this page from the tool's own tables. `clave COMMAND --help` and the manual pages say the same.
"""


def cell(text):
    """Returns a text as one line for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text):
    return f"`{cell(text)}`"


def flag_row(flag):
    names = [f"-{flag['short']}"] if flag["short"] else []
    names.append(flag["name"])
    if flag["value"]:
        names[-1] += f" {flag['value']}"
    return f"| {', '.join(map(code, names))} | {cell(flag['help'])} |"


def command(c):
    yield from (f"## clave {c['name']}", "", c["summary"], "", "```text", f"clave {c['usage']}", "```", "")
    if c["flags"]:
        yield from ("| argument | meaning |", "|---|---|", *map(flag_row, c["flags"]), "")
    if c["more"]:
        yield from ("```text", c["more"].rstrip("\n"), "```", "")


def page(tables):
    lines = [HEAD]
    for c in tables["commands"]:
        lines += command(c)
    lines += ["## Environment", "", "| variable | meaning |", "|---|---|"]
    lines += [f"| {code(v['name'] + '=' + v['value'])} | {cell(v['help'])} |" for v in tables["variables"]]
    lines += ["", "## Devices and exit status", "", tables["devices"], "", tables["exits"], ""]
    return "\n".join(lines)


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(page(json.loads(pathlib.Path(sys.argv[1]).read_text())))
