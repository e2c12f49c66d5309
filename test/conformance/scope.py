"""Which ops are in scope and how they are compared: the table ops.tsv, and what extra.py adds.

The table has a row for every op of torch's operator database, so that nothing is left out without a reason;
test_coverage.py checks that.
"""

import functools
import pathlib

import samples

TABLE = pathlib.Path(__file__).with_name("ops.tsv")


@functools.cache
def table() -> dict[str, tuple[str, str]]:
    """Op -> (values, random or out; the reason why it is out)."""
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")][1:]
    rows = (line.split("\t") for line in lines)
    return {row[0]: (row[1], row[2] if len(row) > 2 else "") for row in rows}


def in_scope() -> list[str]:
    """The ops to run, sorted, those of extra.py last."""
    return [name for name, (how, _) in table().items() if how != "out"] + sorted(samples.extras())


def out_of_scope() -> dict[str, str]:
    return {name: why for name, (how, why) in table().items() if how == "out"}


def is_random(name: str) -> bool:
    """Whether shape and dtype alone are compared: another generator than torch's, or no defined values at all."""
    if name in samples.extras():
        return samples.extras()[name].random
    return table()[name][0] == "random"
