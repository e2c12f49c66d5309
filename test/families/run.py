"""Exports each family of models.py and zoo.py, runs it on devices and compares it with torch, in a separate process, so
that a crash or a long export is one line. `ci/venv families` installs their libraries.

A family must be right, or have the status that expected.tsv lists with a reason. All else fails, also if a listed
family is right. Families without their library are skipped and counted.

    .venv-families/bin/python test/families/run.py [--only NAME,NAME] [--modes fixed,eager,sdpa] [--devices cpu,opencl]
                                                   [--json FILE] [--limit S]

dynamic.py has the modes: fixed sizes, and dynamic batches and lengths with each attention.
"""

import argparse
import fnmatch
import itertools
import json
import logging
import multiprocessing
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXPECTED = HERE / "expected.tsv"
sys.path[:0] = [str(ROOT / "python"), str(HERE)]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="*", help="comma list of families, * and ? as in file names")
    p.add_argument("--devices", default="cpu,opencl")
    p.add_argument("--modes", default="fixed", help="comma list: fixed, eager, sdpa")
    p.add_argument("--json", help="write the results here")
    p.add_argument("--limit", type=int, default=300, help="seconds per family")
    return p.parse_args()


def expectations():
    """Returns {(family, mode): status} of families that are not expected to be right."""
    rows = [line.split("\t") for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#")]
    assert all(len(row) == 4 and row[3] for row in rows), "each row of expected.tsv has a reason"
    return {(name, mode): status for name, modes, status, _ in rows for mode in modes.split(",")}


def complaint(result, expected):
    """Describes how a family differs from the expectation, or returns ""."""
    status, want = result["status"], expected.get((result["name"], result["mode"]), "right")
    if status in (want, "skipped"):
        return ""
    return f"new {status}" if want == "right" else f"listed as {want} in {EXPECTED.name}"


def work(connection, name, devices, mode):
    import check

    warnings.simplefilter("ignore")
    logging.disable()
    connection.send(check.family(name, devices, mode))


def in_a_process(name, mode, o):
    """Returns the result of one family, as a dict."""
    told = {"name": name, "mode": mode}
    ours, theirs = multiprocessing.Pipe(False)
    given = (theirs, name, o.devices.split(","), mode)
    process = multiprocessing.get_context("fork").Process(target=work, args=given)
    start = time.monotonic()
    process.start()
    theirs.close()
    try:
        if not ours.poll(o.limit):
            return told | {"status": "slow", "reason": f"more than {o.limit} s"}
        return ours.recv() | {"seconds": round(time.monotonic() - start, 1)}
    except EOFError:
        process.join()
        return told | {"status": "crash", "reason": f"exit {process.exitcode}"}
    finally:
        process.kill()
        process.join()


def line(r):
    """Formats one family: the program's contents if it is right, otherwise the reason."""
    told = r.get("reason") or f"{r['n_ops']:4} ops {r['error']} {r['passes']}"
    return f"{r['name']:22} {r['mode']:6} {r['status']:12} {r.get('seconds', ''):6} {told}"


def main():
    o = arguments()
    import models
    import torch
    import transformers  # noqa: F401 (once, before the processes are forked)
    import zoo

    torch.set_num_threads(1)  # otherwise the forked processes hang in torch's thread pool
    found, failed, expected = [], [], expectations()
    names = [n for n in (*models.ROWS, *zoo.ROWS) if any(fnmatch.fnmatchcase(n, p) for p in o.only.split(","))]
    for name, mode in itertools.product(names, o.modes.split(",")):
        found.append(in_a_process(name, mode, o))
        wrong = complaint(found[-1], expected)
        failed += [name] if wrong else []
        print(line(found[-1]) + (f" [{wrong}]" if wrong else ""), flush=True)
        if o.json:
            Path(o.json).write_text(json.dumps(found, indent=1))
    skipped = sum(r["status"] == "skipped" for r in found)
    print(f"{len(found) - skipped - len(failed)} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
