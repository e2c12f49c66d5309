"""Runs torch's own operator samples on a device and compares each with torch eager.

    run.py --device opencl --only sort --dtype f32 --failures

The verdict of a sample is right, wrong, unsupported (refused, with the reason), error (any other exception), crash,
timeout, slow (right, but over worker.SLOW_S of CPU time) or skipped (torch itself refuses it). Sessions have no
fallback. The records, one JSON object per line, are written to OUT/<device>.jsonl; --resume keeps earlier ones.
Prints `N passed, N failed`: samples that differ from the baseline (expected.py) fail.
"""

import argparse
import collections
import json
import multiprocessing
import multiprocessing.connection
import pathlib
import subprocess
import sys
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "python")]

import expected
import samples
import scope
import worker

VERDICTS = ("right", "unsupported", "skipped", *expected.FAILED)
SLICE = 4  # samples of each op in the slice
ALIKE = 3  # number of records of an op and dtype with about the same message that are printed


class Worker:
    """A process, and the sample that it runs."""

    def __init__(self, options, limit_s):
        self.options, self.limit_s = options, limit_s
        self.job = None
        self.start()

    def start(self):
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=worker.serve, args=(theirs, self.options), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, name, dtype):
        self.job, self.done, self.single = (name, dtype), set(), False
        self.send()

    def send(self):
        self.sample, self.call = None, ""
        self.deadline = time.monotonic() + self.limit_s
        self.connection.send((*self.job, self.done, self.single))

    def take(self):
        """Returns the records that it has sent; None at the end of a job."""
        kind, *data = self.connection.recv()
        self.deadline = time.monotonic() + self.limit_s
        if kind == "begin":
            self.sample, self.call = data
            return []
        if kind == "end":
            self.job = None
            return None
        return [self.record(data[0])]

    def record(self, r):
        self.done.add(r["sample"])
        return {"op": self.job[0], "dtype": self.job[1]} | r

    def lose(self, verdict):
        """Replaces a process that died or hangs; returns the record of its sample, if it ran one."""
        self.process.kill()
        self.process.join()
        message = f"over {self.limit_s} s" if verdict == "timeout" else f"exit {self.process.exitcode}"
        lost = []
        if self.sample is not None or self.single:
            index = -1 if self.sample is None else self.sample
            lost = [self.record({"sample": index, "call": self.call, "verdict": verdict, "message": message})]
        self.connection.close()
        self.start()
        if self.single and self.sample is None:
            self.job = None
        else:
            self.single = True
            self.send()
        return lost

    def stop(self):
        self.process.kill()
        self.process.join()


class Pool:
    """Runs jobs on several workers and calls `done` with each record."""

    def __init__(self, n, options, limit_s, done):
        self.done = done
        self.workers = [Worker(options, limit_s) for _ in range(n)]

    def run(self, jobs, finished):
        waiting = collections.deque(jobs)
        while True:
            for w in self.workers:
                if w.job is None and waiting:
                    w.give(*waiting.popleft())
            busy = [w for w in self.workers if w.job]
            if not busy:
                return
            self.wait(busy, finished)

    def wait(self, busy, finished):
        ready = multiprocessing.connection.wait([w.connection for w in busy], timeout=0.5)
        for w in busy:
            if w.connection in ready:
                self.take(w, finished)
            elif time.monotonic() > w.deadline:
                self.lose(w, "timeout", finished)

    def take(self, w, finished):
        job = w.job
        try:
            records = w.take()
        except (EOFError, ConnectionError):
            self.lose(w, "crash", finished)
            return
        if records is None:
            finished(job)
        for r in records or ():
            self.done(r)

    def lose(self, w, verdict, finished):
        job = w.job
        for r in w.lose(verdict):
            self.done(r)
        if w.job is None:
            finished(job)

    def stop(self):
        for w in self.workers:
            w.stop()


class Report:
    """Writes records, compares them with the baseline, counts verdicts, and shows progress on a terminal."""

    def __init__(self, path, options, total, show, most):
        self.file = path.open("a")
        self.device, self.limit, self.baseline = options.device, options.limit, options.baseline
        self.open_sizes = options.open_sizes
        self.total, self.show, self.most = total, show, most
        self.counts = collections.Counter()
        self.alike = collections.Counter()
        self.seen = collections.defaultdict(set)
        self.jobs, self.passed, self.failed = 0, 0, 0
        self.terminal = sys.stderr.isatty()

    def add(self, r):
        print(json.dumps(r), file=self.file, flush=True)
        complaint = self.count(r)
        alike = r["op"], r["dtype"], r["verdict"], r["message"][:30]
        self.alike[alike] += 1
        if (complaint or self.show(r)) and self.alike[alike] <= self.most:
            self.tell(f"{complaint + ': ' if complaint else ''}{line_of(r)}")

    def count(self, r):
        """Counts a record; returns how it differs from the expectation."""
        self.counts[r["verdict"]] += 1
        self.seen[r["op"], r["dtype"]].add(r["sample"])
        refused = self.open_sizes and r["verdict"] == "unsupported" and expected.is_refused_open(r)
        complaint = "" if refused else self.baseline.complaint(self.device, r)
        self.passed += not complaint
        self.failed += bool(complaint)
        return complaint

    def finished(self, job):
        self.jobs += 1
        end = {"op": job[0], "dtype": job[1], "finished": True, "device": self.device, "limit": self.limit}
        print(json.dumps(end), file=self.file, flush=True)
        self.check_samples(job)
        if self.terminal:
            done = f"{self.jobs}/{self.total} {job[0]} {job[1]}"
            print(f"\r\033[K{done}: {summary(self.counts)}", end="", file=sys.stderr, flush=True)

    def check_samples(self, job):
        """Checks that a finished job has all of its samples and no others."""
        if lost := self.baseline.lost(job, self.seen.pop(job, set()), self.limit):
            self.failed += 1
            self.tell(f"{job[0]} {job[1]}: {lost}")

    def tell(self, line):
        self.clear()
        print(line, flush=True)

    def total_of_run(self, seconds, resumed):
        run = {"seconds": round(seconds), "resumed": resumed, "commit": commit()}
        print(json.dumps(run), file=self.file, flush=True)
        print(f"{seconds:.0f} s")

    def clear(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def git(*arguments):
    """Returns the output of git; it is empty outside a checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def commit():
    """Returns the checkout's commit; "dirty" if tracked files differ, except the document made from the records."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/reference/coverage.md")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (", dirty" if changed else "")


def summary(counts):
    return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])


def line_of(r):
    text = f"{r['verdict']:11} {r['op']} {r['dtype']} #{r['sample']} ({r['call']})"
    return f"{text}: {r['message']}" if r["message"] else text


def chosen_jobs(args):
    """Returns (name, dtype) of the requested jobs."""
    if args.only:
        known = [*samples.infos(), *samples.extras()]
        names = [n for n in known if any(matches(n, part) for part in args.only.split(","))]
        if not names:
            sys.exit(f"no op {args.only!r}; --list shows those in scope")
    else:
        names = scope.in_scope()
    if args.slice:
        head = git("rev-parse", "HEAD")
        taken = [n for n in names if zlib.crc32(f"{head} {n}".encode()) % args.slice == 0]
        return [slice_job(head, n) for n in taken if samples.dtypes_of(n)]
    wanted = args.dtype.split(",") if args.dtype else list(samples.DTYPES)
    return [(n, d) for n in names for d in samples.dtypes_of(n) if d in wanted]


def slice_job(head, name):
    """Returns an op with one of its dtypes, which differs between commits, so that several commits run all."""
    dtypes = samples.dtypes_of(name)
    return name, dtypes[zlib.crc32(f"{name} {head}".encode()) % len(dtypes)]


def matches(name, wanted):
    """NAME matches all of its variants; "nn.functional." is optional; NAME* is a prefix."""
    short = name.removeprefix("nn.functional.")
    if wanted.endswith("*"):
        return name.startswith(wanted[:-1]) or short.startswith(wanted[:-1])
    return wanted in (name, short) or name.startswith(wanted + ".") or short.startswith(wanted + ".")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, opencl, opencl:1 ...")
    parser.add_argument("--only", help="ops: NAME,NAME or a prefix NAME*; also ones out of scope")
    parser.add_argument("--dtype", help=",".join(samples.DTYPES))
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--samples", type=int, help="maximum number of samples per op and dtype")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one sample (60)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/conformance")
    slice_help = "a few samples of each op, or of one in N, in one dtype, by its name and the commit"
    parser.add_argument("--slice", type=int, nargs="?", const=1, metavar="N", help=slice_help)
    parser.add_argument(
        "--open", action="store_true", help="use dynamic sizes; then refusals of torch.export are not failures"
    )
    parser.add_argument("--resume", action="store_true", help="keep the records of finished ops")
    parser.add_argument("--list", action="store_true", help="list the ops in scope and their dtypes")
    parser.add_argument("--failures", action="store_true", help="print the samples that are not right")
    parser.add_argument("--verbose", action="store_true", help="print every sample")
    return parser.parse_args()


def file_suffix(only):
    """Returns the suffix of the records' file for a choice of ops; a long choice is cut and gets a checksum."""
    text = (only or "").replace("*", "_")
    if len(text) > 80:
        text = f"{text[:60]}-{zlib.crc32(text.encode()):08x}"
    return text and f".{text}"


def resume(path, jobs, limit):
    """Keeps the records at path of jobs finished with this limit; returns these, and the unfinished jobs."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    job = lambda r: (r.get("op"), r.get("dtype"))
    finished = {job(r) for r in records if r.get("finished") and r["limit"] == limit}
    kept = [r for r in records if job(r) in finished]
    path.write_text("".join(json.dumps(r) + "\n" for r in kept))
    return kept, [j for j in jobs if j not in finished]


def main():
    args = parse_arguments()
    jobs = chosen_jobs(args)
    if args.list:
        for name, group in collections.Counter(n for n, _ in jobs).items():
            print(f"{name}\t{','.join(d for n, d in jobs if n == name)}" if group else "")
        return 0
    programs = args.out / "programs" / worker.fingerprint()
    programs.mkdir(parents=True, exist_ok=True)
    suffix = file_suffix(args.only)
    path = (
        args.out
        / f"{args.device.replace(':', '-')}{suffix}{'.slice' if args.slice else ''}{'.open' if args.open else ''}.jsonl"
    )
    limit = args.samples or (SLICE if args.slice else None)
    kept = []
    if args.resume:
        kept, jobs = resume(path, jobs, limit)
    else:
        path.write_text("")
    shown = lambda r: args.verbose or ((args.failures or args.only) and r["verdict"] not in ("right", "skipped"))
    options = worker.Options(args.device, programs, expected.load(), limit, args.open)
    report = Report(path, options, len(jobs), shown, 10**9 if args.verbose else ALIKE)
    for r in kept:
        report.check_samples((r["op"], r["dtype"])) if r.get("finished") else report.count(r)
    begin = time.monotonic()
    pool = Pool(args.jobs, options, args.timeout, report.add)
    try:
        pool.run(jobs, report.finished)
    finally:
        pool.stop()
    report.clear()
    report.total_of_run(time.monotonic() - begin, args.resume)
    print(f"{summary(report.counts)} on {args.device}; records in {path}")
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
