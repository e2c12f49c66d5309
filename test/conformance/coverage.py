"""Writes docs/reference/coverage.md.

Ops come from the records of full runs on cpu and opencl, families from the JSON of test/families/run.py. Parts without
records are unchanged, except for ops that were added or removed.

coverage.py [--records build/conformance] [--part] [--families build/families.json]. --part: the records are of some ops
(run.py --only) and make the rows of ops that were never run.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "python")]

import aten
import samples
import scope

from clave.lowering import LOWERINGS
from clave.quantized import WRITTEN_IN_TORCH

DOCUMENT = ROOT / "docs/reference/coverage.md"
DEVICES = ("cpu", "opencl")
COLUMNS = "| op | exporter | cpu | opencl | dtypes | largest error (ulp) |"
TOTALS = "| device | samples | right | unsupported | any failure | time | commit |"
INTRO = """# Coverage

`make conformance` runs torch's operator samples on both devices and writes this page. The columns are:

- **exporter**: *lowered*: clave has the op or composes it of its own ops. *decomposed*: torch composes it of lowered
  ops. *sizes*: the host computes it from the shapes of inputs. Otherwise the cell says why the op is not supported.
- **cpu**, **opencl**: the number of right samples and of all samples whose graph contains the op, before or after
  decomposition. *never run*: no sample's graph contains the lowered op. The OpenCL device is PoCL, without self-check
  and without fallback. A sample that is not right is refused with an error that names the op;
  `test/conformance/expected.tsv` lists each with its reason.
- **dtypes**: the dtypes of samples that are right on both devices.
- **largest error**: the largest distance of right samples, in units in the last place of the result's dtype, from
  torch's result or from the same computation in f64, whichever is nearer. It is large for sums that cancel;
  `test/conformance/compare.py` has the bounds.

Ops that were added after the commits below were run alone.

"""
FAMILIES = """## Families

`.venv-families/bin/python test/families/run.py --modes fixed,eager,sdpa --json build/families.json` and then
`test/conformance/coverage.py` write this table. The models have small sizes and random weights, and run on both devices
without fallback. Families that were not run are omitted.

- **error**: the largest error, relative to the largest value of the result;
- **ms**: the time of one run after the first, while other work runs;
- **open sizes**: the implementations of attention with which the model is also right with open batch and length, at
  batches of 2, 3 and 5; –: not run.

| family | ops | parameters | error, cpu | error, opencl | ms, cpu | ms, opencl | open sizes |
|---|---|---|---|---|---|---|---|
"""


@dataclasses.dataclass
class Tally:
    right: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    run: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    dtypes: dict[str, set[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(set))
    ulp: float = 0.0

    def add(self, device: str, r: dict) -> None:
        self.run[device] += 1
        if r["verdict"] == "right":
            self.right[device] += 1
            self.dtypes[device].add(r["dtype"])
            self.ulp = max(self.ulp, r.get("ulp", 0.0))


def files(folder: pathlib.Path, device: str, part: bool) -> list[pathlib.Path]:
    """Returns the files that run.py writes: for all ops, or for those of its --only."""
    return sorted(folder.glob(f"{device}.*.jsonl" if part else f"{device}.jsonl"))


def read(folder: pathlib.Path, part: bool) -> dict[str, list[dict]]:
    """Returns the records of each device, without skipped samples."""
    found = {}
    for device in DEVICES:
        records = [json.loads(line) for f in files(folder, device, part) for line in f.read_text().splitlines()]
        found[device] = [r for r in records if r.get("verdict") != "skipped" and not r.get("finished")]
    return found


def tally(records: dict[str, list[dict]]) -> dict[str, Tally]:
    tallies: dict[str, Tally] = collections.defaultdict(Tally)
    for device, listed in records.items():
        for r in listed:
            for op in r.get("ops", ()):
                tallies[op].add(device, r)
    return tallies


def row(name: str, t: Tally) -> str:
    cells = [f"`{name}`", aten.exporter(name)]
    for device in DEVICES:
        none = "never run" if cells[1].startswith("lowered") else "–"
        cells.append(f"{t.right[device]} / {t.run[device]}" if t.run[device] else none)
    both = set.intersection(*(t.dtypes[d] for d in DEVICES))
    cells.append(" ".join(d for d in samples.DTYPES if d in both) or "–")
    cells.append(f"{t.ulp:.3g}" if any(t.right.values()) else "–")
    return "| " + " | ".join(cells) + " |"


def totals(records: dict[str, list[dict]]) -> str:
    lines = [TOTALS, "|---|---|---|---|---|---|---|"]
    for device, listed in records.items():
        n = collections.Counter(r["verdict"] for r in listed if "verdict" in r)
        total = n.total()
        bad = total - n["right"] - n["unsupported"]
        share = f"{n['right']} ({100 * n['right'] / max(total, 1):.1f} %)"
        run = next((r for r in listed if "seconds" in r and "verdict" not in r), None)
        time = "–" if run is None or run["resumed"] else f"{run['seconds']} s"
        name = device if run else f"{device}, part of a run"
        cells = [name, total, share, n["unsupported"], bad, time, run["commit"] if run else "–"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def left_out() -> str:
    """Lists the ops of torch's database that are out of scope, by reason."""
    by_reason = collections.defaultdict(list)
    for name, why in scope.out_of_scope().items():
        by_reason[why].append(f"`{name}`")
    lines = [f"- {why}: {', '.join(sorted(names))}" for why, names in sorted(by_reason.items())]
    return "\n".join(lines) + "\n"


def others() -> str:
    """Lists the ops of other libraries that the exporter supports."""
    named = ", ".join(f"`{name}`" for name in sorted(LOWERINGS) if "::" in name)
    written = " and ".join(f"`{space}::*`" for space in WRITTEN_IN_TORCH)
    return f"""## Ops of other libraries

- These ops are lowered, and the program runs without their library: {named}. `test/python` compares them.
- The ops {written} are replaced by their computation in floating point. Weights stay int8.
"""


def behind_ops() -> str:
    """Returns the text between the ops and the families, which needs no records."""
    return f"{others()}\n## Out of scope\n\nThese ops of torch's operator database are not run:\n\n{left_out()}"


def document(records: dict[str, list[dict]]) -> str:
    tallies = tally(records)
    rows = [row(name, tallies[name]) for name in aten.rows()]
    table = "\n".join([COLUMNS, "|---|---|---|---|---|---|", *rows])
    return f"{INTRO}## In all\n\n{totals(records)}\n## Ops\n\n{table}\n\n{behind_ops()}"


def family_row(name: str, modes: dict[str, dict]) -> str:
    fixed = modes.get("fixed", {"status": "never run"})
    said = lambda mode, r: mode if r["status"] == "right" else f"{mode}: {r['status'].replace('_', ' ')}"
    opened = ", ".join(said(m, r) for m, r in modes.items() if m != "fixed") or "–"
    if fixed["status"] != "right":
        what = ": ".join(fixed.get("reason", "").split(": ")[:2])  # without the advice after it
        reason = what.partition("; at ")[0].replace("|", "/")  # without the line, which is of one machine's files
        return f"| {name} | {fixed['status'].replace('_', ' ')}: {reason} | | | | | | {opened} |"
    of = lambda what: [f"{fixed[what][d]:.2g}" for d in DEVICES]
    return f"| {' | '.join([name, str(fixed['n_ops']), str(fixed['parameters']), *of('error'), *of('ms'), opened])} |"


def families(results: list[dict]) -> str:
    modes = collections.defaultdict(dict)
    for r in results:
        if r["status"] != "skipped":
            modes[r["name"]][r["mode"]] = r
    return FAMILIES + "\n".join(family_row(name, modes[name]) for name in sorted(modes, key=str.lower)) + "\n"


def listed_rows(text: str) -> dict[str, list[str]]:
    """Returns {op: cells of its row in the document}."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    return {r[0].strip("`"): r[1:] for r in rows}


def with_all_ops(text: str, newer: dict[str, Tally] | None = None) -> str:
    """Returns the document with a row for each op added since its records, and without rows of removed ops. newer:
    tallies of ops that were never run before."""
    lines = text.splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.startswith("| `")]
    rows = {lines[i].split("`")[1]: lines[i] for i in at}
    for name in aten.rows():
        made = (newer or {}).get(name, Tally())
        if name not in rows or (made.run and "never run" in rows[name]):
            rows[name] = f"{row(name, made)}\n"
    listed = [rows[name] for name in aten.rows()]
    return "".join([*lines[: at[0]], *listed, "\n", behind_ops()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=pathlib.Path, default=ROOT / "build/conformance")
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--families", type=pathlib.Path, default=ROOT / "build/families.json")
    args = parser.parse_args()
    ops, heading, listed = DOCUMENT.read_text().partition("## Families\n")
    records = read(args.records, args.part)
    if all(records.values()) and not args.part:
        ops = document(records)
    else:
        ops = with_all_ops(ops, tally(records) if args.part else None)
    listed = families(json.loads(args.families.read_text())) if args.families.exists() else heading + listed
    DOCUMENT.write_text(f"{ops.rstrip()}\n\n{listed}")
    print(f"wrote {DOCUMENT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
