"""The expected result of every sample: right, run without fallback and fast, except for samples in expected.tsv.

samples.tsv has the number of samples of an op in each dtype, including skipped ones. expected.tsv lists samples that
are refused or skipped, each with a reason. open.tsv lists further refusals if sizes are dynamic. A device has the
results of the CPU backend unless a row names it. A run fails on any difference, also if a listed sample is right.

    expected.py RECORDS... [--reason OP=WORDS] [--reason OP:PART=WORDS]

rewrites both files from the records (build/conformance/DEVICE.jsonl) of ops that were run in full, and keeps all other
rows. It fails if a new row has no reason: --reason passes one for an op, or for its samples whose message contains
PART.
"""

import argparse
import collections
import dataclasses
import functools
import itertools
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

import samples
import scope

COUNTS = HERE / "samples.tsv"
TABLE = HERE / "expected.tsv"
OPEN = HERE / "open.tsv"
COUNTS_HEAD = "# Samples of each op in each dtype; expected.py writes this.\nop\tsamples\n"
TABLE_HEAD = (
    "# The samples that are not expected to be right, and why; expected.py writes this.\n"
    "op\tdtypes\tsamples\tdevice\tverdict\treason\n"
)
FAILED = ("wrong", "error", "crash", "timeout", "slow")  # never expected
ALL = "all"  # stands for all devices, or all samples of an op and dtype

Job = tuple[str, str]  # op, dtype


@dataclasses.dataclass(frozen=True)
class Expectation:
    verdict: str
    reason: str


RIGHT = Expectation("right", "")


class Baseline:
    """Maps jobs to numbers of samples, and (job, sample) to {device: expectation}."""

    def __init__(self, counts: dict[Job, int], rows: dict[tuple[Job, int], dict[str, Expectation]]) -> None:
        self.counts, self.rows = counts, rows

    def of(self, device: str, job: Job, sample: int) -> Expectation:
        where = self.rows.get((job, sample), {})
        return where.get(device) or where.get(ALL) or RIGHT

    def listed(self, job: Job) -> set[int]:
        """Returns the samples of a job that are expected to fail on some device."""
        return {i for of, i in self.rows if of == job}

    def complaint(self, device: str, r: dict) -> str:
        """Describes how a record differs from the expectation, or returns "". Out of scope, only failures differ."""
        job, verdict = (r["op"], r["dtype"]), r["verdict"]
        if verdict in FAILED:
            return verdict
        if job not in self.counts:
            return ""
        expected = self.of(kind(device), job, r["sample"]).verdict
        if verdict == expected:
            return ""
        return f"new {verdict}" if expected == "right" else f"{verdict}, but listed as {expected} in {TABLE.name}"

    def lost(self, job: Job, seen: set[int], limit: int | None) -> str:
        """Describes how the samples of a finished job differ from those it should have, or returns ""."""
        if job not in self.counts:
            return f"not in {COUNTS.name}" if job[0] in scope.in_scope() else ""
        n = self.counts[job] if limit is None else min(limit, self.counts[job])
        if seen == set(range(n)):
            return ""
        missing, new = sorted(set(range(n)) - seen), sorted(seen - set(range(n)))
        return "; ".join(
            [f"no samples {ranges(missing)}, {COUNTS.name} has {n}"] * bool(missing)
            + [f"new samples {ranges(new)}, {COUNTS.name} has {n}"] * bool(new)
        )


def kind(device: str) -> str:
    """Returns cpu or opencl, also for "opencl:1"."""
    return device.partition(":")[0]


def ranges(listed: Iterable[int]) -> str:
    """Formats sorted numbers as "0-3,7"."""
    runs = itertools.groupby(enumerate(listed), lambda pair: pair[1] - pair[0])
    ends = ([n for _, n in group] for _, group in runs)
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in ends)


def numbers(text: str) -> Iterator[int]:
    """Yields the numbers of ranges()."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def table_rows(path: pathlib.Path) -> list[list[str]]:
    """Returns the cells of each row, without comments and the heading."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [line.split("\t") for line in lines[1:]]


@functools.cache
def open_rows() -> list[list[str]]:
    return table_rows(OPEN)


def is_refused_open(r: dict) -> bool:
    """True if torch.export refuses a sample with dynamic sizes, or open.tsv lists it."""
    listed = any(fnmatch(r["op"], op) and part in r["message"] for op, part, _ in open_rows())
    return listed or r["message"].startswith("torch.export: ")


def load() -> Baseline:
    counts = {}
    for op, text in table_rows(COUNTS):
        for group in text.split():
            dtypes, _, n = group.partition(":")
            counts |= {(op, d): int(n) for d in dtypes.split(",")}
    rows: dict[tuple[Job, int], dict[str, Expectation]] = collections.defaultdict(dict)
    for op, dtypes, listed, device, verdict, reason in table_rows(TABLE):
        for job in ((op, d) for d in dtypes.split(",")):
            for i in range(counts[job]) if listed == ALL else numbers(listed):
                rows[job, i][device] = Expectation(verdict, reason)
    return Baseline(counts, dict(rows))


# ---- rewriting


def save(b: Baseline) -> None:
    COUNTS.write_text(COUNTS_HEAD + "".join(f"{op}\t{text}\n" for op, text in count_lines(b.counts)))
    TABLE.write_text(TABLE_HEAD + "".join("\t".join(row) + "\n" for row in expectation_lines(b)))


def count_lines(counts: dict[Job, int]) -> Iterator[tuple[str, str]]:
    """Yields (op, "f32,f64:12 i8:4")."""
    for op, jobs in itertools.groupby(counts, key=lambda job: job[0]):
        by_count: dict[int, list[str]] = collections.defaultdict(list)
        for job in jobs:
            by_count[counts[job]].append(job[1])
        yield op, " ".join(f"{','.join(dtypes)}:{n}" for n, dtypes in by_count.items())


def expectation_lines(b: Baseline) -> list[tuple[str, ...]]:
    """Returns the rows of expected.tsv: samples in ranges, and one row for dtypes with the same samples."""
    place = {job: i for i, job in enumerate(b.counts)}
    grouped: dict[tuple[Job, str, Expectation], list[int]] = collections.defaultdict(list)
    for job, i in sorted(b.rows, key=lambda key: (place[key[0]], key[1])):
        for device, e in b.rows[job, i].items():
            grouped[job, device, e].append(i)
    dtypes: dict[tuple[str, str, str, Expectation], list[str]] = collections.defaultdict(list)
    for (job, device, e), listed in grouped.items():
        text = ALL if len(listed) == b.counts[job] else ranges(listed)
        dtypes[job[0], text, device, e].append(job[1])
    return [(op, ",".join(ds), text, device, e.verdict, e.reason) for (op, text, device, e), ds in dtypes.items()]


def read(paths: list[pathlib.Path]) -> dict[str, dict[Job, list[dict]]]:
    """Returns {device: {job: its newest records}} of jobs that were run in full; the CPU backend first."""
    found: dict[str, dict[Job, list[dict]]] = collections.defaultdict(dict)
    for path in sorted(paths, key=lambda p: p.stat().st_mtime):
        records: dict[Job, list[dict]] = collections.defaultdict(list)
        for r in map(json.loads, path.read_text().splitlines()):
            job = (r.get("op", ""), r.get("dtype", ""))
            if "verdict" in r:
                records[job].append(r)
            elif r.get("finished") and r["limit"] is None:
                found[kind(r["device"])][job] = records[job]
    return dict(sorted(found.items()))


def reason_for(r: dict, reasons: list[str]) -> str:
    """Returns the words of the first OP=WORDS or OP:PART=WORDS that fits the record."""
    for text in reasons:
        key, _, words = text.partition("=")
        op, _, part = key.partition(":")
        if op == r["op"] and part in r["message"]:
            return words
    return ""


def merge(b: Baseline, device: str, jobs: dict[Job, list[dict]], reasons: list[str]) -> tuple[Baseline, list[str]]:
    """Returns the baseline updated by a device's records, and the records that have no reason or cannot be expected."""
    rows, bad = {key: where for key, where in b.rows.items() if key[0] not in jobs}, []
    place = ALL if device == "cpu" else device
    for job, r in ((job, r) for job, records in jobs.items() for r in records):
        e = b.of(device, job, r["sample"])
        if r["verdict"] != e.verdict:
            e = Expectation(r["verdict"], reason_for(r, reasons))
        where = {d: other for d, other in b.rows.get((job, r["sample"]), {}).items() if d != place}
        usual = RIGHT if place == ALL else where.get(ALL, RIGHT)
        if e.verdict != usual.verdict:
            where[place] = e
            if e.verdict in FAILED or not e.reason:
                bad.append(f"{'cannot be expected' if e.verdict in FAILED else 'no reason'}: {line_of(r)}")
        if where:
            rows[job, r["sample"]] = where
    return Baseline(b.counts | {job: len(records) for job, records in jobs.items()}, rows), bad


def line_of(r: dict) -> str:
    return f"{r['op']} {r['verdict']}: {r['message']}"


def in_order(b: Baseline) -> Baseline:
    """Sorts the jobs by the ops in scope and their dtypes, and removes jobs that are no longer in scope."""
    jobs = [(n, d) for n in scope.in_scope() for d in samples.dtypes_of(n)]
    known = {job: b.counts[job] for job in jobs if job in b.counts}
    return Baseline(known, {key: where for key, where in b.rows.items() if key[0] in known})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=pathlib.Path)
    parser.add_argument("--reason", action="append", default=[], metavar="OP[:PART]=WORDS")
    args = parser.parse_args()
    baseline, bad = load(), []
    for device, jobs in read(args.records).items():
        baseline, found = merge(baseline, device, jobs, args.reason)
        bad += found
    if bad:
        print("\n".join(f"{line} ({n} samples)" for line, n in collections.Counter(bad).items()))
        sys.exit(f"nothing written: {len(bad)} samples without a reason, or that cannot be expected")
    save(in_order(baseline))
    print(f"wrote {COUNTS.name} and {TABLE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
