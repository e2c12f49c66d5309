"""The committed bounds of ci/vendor_compile: the maximum scratch memory and registers of each kernel on each target,
and the errors that compilers are expected to report."""

import collections
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
BOUNDS, ERRORS = HERE / "vendor_bounds.tsv", HERE / "vendor_errors.tsv"
STEP = 8  # registers are allotted in groups of this size, so a smaller difference has no effect
HEAD = """\
# The worst of a kernel's programs on each target: bytes of scratch of a work-item / registers, rounded up to 8.
# ci/vendor_compile --check fails above them, ci/vendor_compile --write lowers them. "-": the sample has no program.
"""


def read_targets(path=BOUNDS):
    """Returns the targets of the table, which are those that --check compiles for."""
    return next(line for line in path.read_text().splitlines() if not line.startswith("#")).split("\t")[1:]


def read_bounds(path=BOUNDS):
    """Returns {(kernel, target): (scratch, registers)}."""
    lines = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    targets, bounds = lines[0][1:], {}
    for kernel, *cells in lines[1:]:
        for target, cell in zip(targets, cells, strict=True):
            if cell != "-":
                bounds[kernel, target] = tuple(map(int, cell.split("/")))
    return bounds


def write_bounds(bounds, targets, path=BOUNDS):
    cell = lambda kernel, target: "/".join(map(str, bounds[kernel, target])) if (kernel, target) in bounds else "-"
    rows = [["kernel", *targets]]
    rows += [[kernel, *(cell(kernel, t) for t in targets)] for kernel in sorted({k for k, _ in bounds})]
    path.write_text(HEAD + "\n".join("\t".join(row) for row in rows) + "\n")


def worst(rows):
    """Returns {(kernel, target): (scratch, registers)} of (kernel, target, Result) rows without an error."""
    most = collections.defaultdict(lambda: (0, 0))
    for kernel, target, result in rows:
        if not result.error:
            found = result.scratch, -(-result.registers // STEP) * STEP
            most[kernel, target] = tuple(map(max, zip(most[kernel, target], found, strict=True)))
    return dict(most)


def over(found, bounds):
    """Returns a line for each value that exceeds its bound, and for each kernel without one."""
    lines = []
    for (kernel, target), values in sorted(found.items()):
        if (kernel, target) not in bounds:
            lines.append(f"{kernel} on {target}: no bound; ci/vendor_compile --write adds one")
            continue
        for value, most, what in zip(values, bounds[kernel, target], ("bytes of scratch", "registers"), strict=True):
            if value > most:
                lines.append(f"{kernel} on {target}: {value} {what}, at most {most}")
    return lines


def lowered(found, bounds, raised=()):
    """Returns the bounds after --write: the lower of both values, and new ones. Kernels that are gone have none.

    raised: patterns of kernels whose bounds may also grow.
    """
    bounds = {key: most for key, most in bounds.items() if not any(re.fullmatch(p, key[0]) for p in raised)}
    return {key: tuple(map(min, zip(values, bounds.get(key, values), strict=True))) for key, values in found.items()}


def read_errors(path=ERRORS):
    """Returns [(target pattern, kernel pattern, error pattern, reason)]."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [(*map(re.compile, row[:3]), row[3]) for row in rows]


def judge_errors(rows, expected):
    """Returns (lines of errors that no row of `expected` allows, lines of rows that allow none, number allowed).

    A row of a target that was not compiled may allow none.
    """
    used, wrong, compiled = collections.Counter(), [], {target for _, target, _ in rows}
    for kernel, target, result in rows:
        if not result.error:
            continue
        found = (
            i
            for i, (targets, kernels, errors, _) in enumerate(expected)
            if targets.fullmatch(target) and kernels.fullmatch(kernel) and errors.search(result.error)
        )
        i = next(found, None)
        if i is None:
            wrong.append(f"{kernel} on {target}: {result.error}")
        else:
            used[i] += 1
    unused = [row[:3] for i, row in enumerate(expected) if not used[i] and any(map(row[0].fullmatch, compiled))]
    stale = [f"ci/vendor_errors.tsv: no such error: {' '.join(p.pattern for p in row)}" for row in unused]
    return sorted(set(wrong)), stale, sum(used.values())
