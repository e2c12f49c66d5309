"""Exports each family of models.py, runs it on devices and compares with torch: a process each, so that a crash or a
long export is one line. Needs transformers.

    python test/families/run.py [--only NAME,NAME] [--devices cpu,opencl] [--json FILE] [--limit SECONDS]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="", help="comma list of families")
    p.add_argument("--devices", default="cpu,opencl")
    p.add_argument("--json", help="write the results here")
    p.add_argument("--limit", type=int, default=180, help="seconds per family")
    p.add_argument("--one", help=argparse.SUPPRESS)
    return p.parse_args()


def one(name, devices):
    """Exports and runs one family; what happened, as a dict."""
    sys.path[:0] = [str(ROOT / "python"), str(HERE)]
    import check

    return check.family(name, devices)


def in_a_process(name, o):
    command = [sys.executable, __file__, "--one", name, "--devices", o.devices]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=o.limit, env=dict(os.environ))
    except subprocess.TimeoutExpired:
        return {"name": name, "status": "slow", "reason": f"more than {o.limit} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"name": name, "status": "crash", "reason": f"exit {done.returncode}: {reason}"}
    return {"seconds": round(time.monotonic() - start, 1)} | json.loads(lines[-1])


def main():
    o = arguments()
    devices = o.devices.split(",")
    if o.one:
        print(json.dumps(one(o.one, devices)))
        return
    sys.path.insert(0, str(HERE))
    import models

    found = []
    for name in models.ROWS:
        if o.only and name not in o.only.split(","):
            continue
        found.append(in_a_process(name, o))
        r = found[-1]
        print(
            f"{name:22} {r['status']:12} {r.get('seconds', ''):6} {r.get('reason') or r.get('error', '')}", flush=True
        )
    counts = {s: sum(r["status"] == s for r in found) for s in sorted({r["status"] for r in found})}
    print(" ".join(f"{s}:{n}" for s, n in counts.items()), f"of {len(found)}")
    if o.json:
        Path(o.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
