"""Writes compile_commands.json, for editors and clang tools, from the output of `make --dry-run` on standard input."""

import json
import pathlib
import re
import sys

SOURCE = re.compile(r" -c (\S+\.c) -o ")

folder = str(pathlib.Path.cwd())
lines = [line.strip() for line in sys.stdin]
commands = [{"directory": folder, "file": m[1], "command": line} for line in lines if (m := SOURCE.search(line))]
if not commands:
    sys.exit("compile_commands.json: expected commands that compile C files, got none")
pathlib.Path("compile_commands.json").write_text(json.dumps(commands, indent=1) + "\n")
