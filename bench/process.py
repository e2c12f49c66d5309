"""Runs programs that print measurements as one JSON value, alternates calls, and updates tables in pages."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time


def measured(command, env=None):
    """Runs a command and returns its JSON. Shows its other output if it fails."""
    p = subprocess.run([*map(str, command)], capture_output=True, text=True, env=os.environ | (env or {}))
    if p.returncode:
        print(p.stderr, file=sys.stderr)
        raise SystemExit(f"{' '.join(map(str, command))}: exit {p.returncode}")
    return json.loads(p.stdout)


def tool(args, name, *arguments, env=None):
    """Returns the measurements of build/bench/NAME."""
    return measured([args.build / "bench" / name, *arguments], env)


def seconds(call, clock=time.perf_counter):
    """Returns the seconds of one call by the given clock."""
    begin = clock()
    call()
    return clock() - begin


def times_in_turns(calls, turns, clock=time.process_time):
    """Returns the seconds of each call in each turn, by default in CPU time."""
    for call in [*calls, *calls]:  # the first half warms up
        call()
    turn_by_turn = [[seconds(call, clock) for call in calls] for _ in range(turns)]
    return [list(taken) for taken in zip(*turn_by_turn, strict=True)]


def spread(values):
    """Formats measurements of several turns for a table."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def peak_rss_mb():
    """Returns the peak memory of this process in units of 10^6 bytes, like `clave bench`."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def wanted(args, name):
    """True if --rows selects the row of this name, or is not given."""
    return not args.rows or re.search(args.rows, name)


def merged(before, rows):
    """Returns the table's lines with newly measured lines in place of those with the same first cell."""
    if before[0] != rows[0]:
        raise SystemExit(f"--rows: the table on the page has other columns, measure it whole: {before[0]}")
    is_line = [line.startswith("|") for line in rows]
    if not any(all(is_line[i - 2 : i + 1]) for i in range(2, len(rows))):  # after a table's header
        raise SystemExit("--rows: no row has such a name")
    title = lambda line: line.split(" | ")[0]
    anew = {}
    for line in rows:
        anew.setdefault(title(line), []).append(line)
    lines = [anew[title(line)].pop(0) if anew.get(title(line)) else line for line in before]
    left = [line for of in anew.values() for line in of]
    if left:
        raise SystemExit(f"--rows: the table on the page has no such rows, measure it whole: {left[0]}")
    return lines


def write_section(page, name, lines, some=False):
    """Replaces the text between a page's markers for one measurement, or some of its rows."""
    text = page.read_text()
    found = re.search(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end {name} -->)", text, re.S)
    assert found, f"{page}: no section {name}"
    whole = merged(found[0].splitlines(), lines) if some else lines
    page.write_text(text[: found.start()] + "\n".join(whole) + "\n" + text[found.end() :])
