"""The ops in scope and how they are compared: the table ops.tsv, and the ops of extra.py.

The table has a row for every op of torch's operator database, so that no op is omitted without a reason;
test_coverage.py checks that.
"""

import functools
import pathlib

import samples

TABLE = pathlib.Path(__file__).with_name("ops.tsv")


@functools.cache
def table() -> dict[str, tuple[str, str]]:
    """Returns {op: (values, random or out; the reason why it is out)}."""
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")][1:]
    rows = (line.split("\t") for line in lines)
    return {row[0]: (row[1], row[2] if len(row) > 2 else "") for row in rows}


def in_scope() -> list[str]:
    """Returns the ops to run, sorted, those of extra.py last."""
    return [name for name, (how, _) in table().items() if how != "out"] + sorted(samples.extras())


def out_of_scope() -> dict[str, str]:
    return {name: why for name, (how, why) in table().items() if how == "out"}


def is_random(name: str) -> bool:
    """True if only shape and dtype are compared: the generator differs from torch's, or values are undefined."""
    if name in samples.extras():
        return samples.extras()[name].random
    return table()[name][0] == "random"
