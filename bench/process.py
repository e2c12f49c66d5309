"""Programs that print what they measured as one JSON value, sessions in turns, and pages that have the tables of it."""

import json
import os
import re
import subprocess
import sys
import time


def measured(command, env=None):
    """Runs a command; its JSON. What it says beside that is shown where it fails."""
    p = subprocess.run([*map(str, command)], capture_output=True, text=True, env=os.environ | (env or {}))
    if p.returncode:
        print(p.stderr, file=sys.stderr)
        raise SystemExit(f"{' '.join(map(str, command))}: exit {p.returncode}")
    return json.loads(p.stdout)


def tool(args, name, *arguments, env=None):
    """What build/bench/NAME measured."""
    return measured([args.build / "bench" / name, *arguments], env)


def session_times(sessions, args, turns):
    """Processor seconds of each session in each turn."""
    made = [[] for _ in sessions]
    for turn in range(turns + 2):  # two to warm up
        for session, taken in zip(sessions, made, strict=True):
            begin = time.process_time()
            session.run(*args)
            taken += [time.process_time() - begin] if turn > 1 else []
    return made


def write_section(page, name, lines):
    """Replaces what stands between a page's markers for one measurement."""
    text = page.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
    assert pattern.search(text), f"{page}: no section {name}"
    page.write_text(pattern.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text))
