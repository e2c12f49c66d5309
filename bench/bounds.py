"""Compares measurements with the last column of the tables, "limit", for bench.py --check."""

BOUND = "limit"
NO_BOUND = "–"  # the row has no bound

# The columns to which the bound applies.
BOUNDED = {
    "overhead": [1],
    "launch": [3],
    "startup": [1],
    "session": [4],
    "delegate": [3],
    "executorch": [3],
    "memory": [3],
    "indexing": [3],
    "models": [2],
    "fast": [2],
    "int8": [2],
    "imported": [2],
    "works": [2],
    "sweeps": [1],
    "sharing": [1],
    "compiled": [5],
    "limits": [1],
    "sampler": [1, 2],
    "load": [1],
}

# Wall times, which other load on the machine increases. The other columns are memory and ratios of alternating CPU
# times, which hold on any machine.
TIMES = {"overhead", "startup", "session", "delegate", "executorch", "compiled", "sampler"}
TIMES |= {"limits", "load", "models", "fast", "int8", "imported", "works", "sweeps", "sharing"}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def is_table(lines):
    """True if something was measured; else a line says why not."""
    return lines[0].startswith("|")


def has_bounds(lines):
    return is_table(lines) and cells(lines[0])[-1].startswith(BOUND)


def rows_over(name, lines):
    """Returns {name of the row: the value and its bound} for the rows of a table that exceed their bound."""
    assert has_bounds(lines), f"{name}: the last column does not say '{BOUND}'"
    over = {}
    for row in (cells(line) for line in lines[2:] if line.startswith("|")):
        if row[-1] == NO_BOUND:
            continue
        bound = float(row[-1])
        values = [float(row[column].split()[0]) for column in BOUNDED[name]]
        if not all(value <= bound for value in values):
            over[row[0]] = f"{' and '.join(map(str, values))}, {BOUND} {row[-1]}"
    return over
