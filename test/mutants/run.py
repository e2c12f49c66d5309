"""Plants one fault after another in a copy of the tree and reports which test notices it.

    run.py [--only TEXT] [--new] [--some N] [--check] [--write] [--list FILE] [--jobs N]

Each `*.faults` file beside this script has the faults of an area. A fault begins with a line `fault: NAME`. It has a
line or two that say what it breaks, lines `notice: TEST`, and the diff. The tests run in their order until one fails:

    replay DEVICE[:CLASS] CASES    the op cases whose names contain CASES, on cpu, opencl or san (cpu with sanitizers);
                                   CLASS: CLAVE_DEVICE_CLASS
    export CASES                   the same cases, exported anew, on the CPU backend: for faults in the exporter
    oclgrind[:CLASS] CASES         the same cases under oclgrind
    c[:CLASS] ROOM/test_x [CASE]   a C test program; CLAVE_TEST_ONLY=CASE
    san ROOM/test_x                the same, built with sanitizers
    pytest ARGUMENTS
    executorch ARGUMENTS           pytest, if ExecuTorch is installed; otherwise the fault is skipped

Faults in files or with names that contain "amx" are skipped on processors without AMX.

All these tests are part of `make check-all`. A line `lives: REASON` says why no test can notice the fault. The old
lines of a hunk must occur exactly once in the file; --check tests only that. --some N runs N faults, others each day.
--new runs faults without a result in results.tsv. --write updates results.tsv and its summary,
docs/developers/mutants.md, after each result. --list writes a table of all faults with their results. The script fails
if a fault survives without a reason or dies despite one, or if a fault does not apply or build. The whole tree is built
for a fault that survives, because its tests may not build all of its files.
"""

import argparse
import collections
import datetime
import fcntl
import hashlib
import itertools
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "ci"))

from runner import quiet_vendors

WORK = ROOT / "build/mutants"
BUILT = ["gen", "obj", "test", "stub", "imitated", "clave", "flags"]  # parts of a build folder
BUILT += [
    "libclave.a",
    "libclave_main.a",
    "libclave.so",
    "libclave.so.0",
    "libclave_delegate.so",
    "libclave_executorch.so",
    "run_pte",
]
SAN = ["SAN=address,undefined", "BUILD=build/san"]
CPU_LIMIT, LIMIT = 120, 1500  # CPU seconds of a process, which a fault may make endless; wall seconds of a command
# How test runners print the name of a failed test.
NAMES = [
    re.compile(r"^FAIL ([^\s,:]+)", re.M),
    re.compile(r"^\[  FAILED  \] (\w+)$", re.M),
    re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M),
    re.compile(r"^(oclgrind) found", re.M),
    re.compile(r"^SUMMARY: (\w+Sanitizer: .*?)(?: /|$)", re.M),
    re.compile(r"ERROR: (\w+Sanitizer: [\w-]+)"),  # other threads may end the process before its summary
]
ADDRESS = re.compile(r" \(/[^)]*\) \(BuildId: \w+\)")  # depends on the machine, in a sanitizer's summary
PAGE = ROOT / "docs/developers/mutants.md"
RESULTS = HERE / "results.tsv"
UNNOTICED = "no test"  # begins the result of a fault that no test noticed
MADE_PAGES = ("docs/reference/cli.md", "docs/reference/ops.md")
COMPLAINT = re.compile(r"\berror: |Error: |undefined reference|multiple definition")  # compiler, linker, Python

Mutant = collections.namedtuple("Mutant", "name text notices lives hunks")
Result = collections.namedtuple("Result", "mutant verdict by seconds")  # verdict: noticed, lived, broken


class Broken(Exception):
    """The fault does not apply or build, or its test does not exist."""


# ---- patches


def read(path):
    """Returns the faults of a file, in its order."""
    names_and_texts = re.split(r"^fault: (.*)\n", path.read_text(), flags=re.M)[1:]
    return [parse(name, text.rstrip("\n")) for name, text in zip(*[iter(names_and_texts)] * 2, strict=True)]


def read_all():
    """Returns the faults of all files, sorted by name; names must be unique."""
    mutants = sorted((m for path in HERE.glob("*.faults") for m in read(path)), key=lambda m: m.name)
    twice = [a.name for a, b in itertools.pairwise(mutants) if a.name == b.name]
    if twice:
        sys.exit(f"expected different names of faults, got {', '.join(twice)} twice")
    return mutants


def parse(name, fault):
    head, *diff = re.split(r"^(?=--- )", fault, maxsplit=1, flags=re.M)
    fields = re.findall(r"^(notice|lives): (.*)$", head, re.M)
    text = " ".join(line for line in head.splitlines() if not re.match("(notice|lives): ", line))
    hunks = []  # (file, old text, new text)
    for part in re.split(r"^--- .*\n", "".join(diff), flags=re.M)[1:]:
        target, _, body = part.partition("\n")
        for hunk in re.split(r"^@@.*\n", body, flags=re.M)[1:]:
            lines = [line or " " for line in hunk.splitlines()]
            old, new = ("".join(s[1:] + "\n" for s in lines if s[0] in " " + sign) for sign in "-+")
            hunks.append((target.removeprefix("+++ b/"), old, new))
    notices = [value for key, value in fields if key == "notice"]
    lives = next((value for key, value in fields if key == "lives"), "")
    return Mutant(name, text.strip(), notices, lives, hunks)


def plant(mutant, tree, write=True):
    if not mutant.hunks:
        raise Broken("it has no diff: '--- a/FILE', '+++ b/FILE', '@@' and lines")
    for file, old, new in mutant.hunks:
        text = (tree / file).read_text()
        found = text.count(old)
        if found != 1 or old == new:
            raise Broken(f"{file} has the old lines {found} times")
        damaged = text.replace(old, new)
        if file.endswith(".py"):
            check_syntax(file, damaged)
        if write:
            (tree / file).write_text(damaged)


def keeps_apart(mutant):
    """True if a fault's tests need their own cache: a fault of the cache must not damage that of others, and the
    self-check skips kernels that were checked before."""
    return "cache" in mutant.name or any("check" in pathlib.Path(file).name for file, _, _ in mutant.hunks)


def check_syntax(file, text):
    """Raises Broken for a syntax error, which any test that imports the file would notice."""
    try:
        compile(text, file, "exec")
    except SyntaxError as error:
        raise Broken(f"does not build: {file}:{error.lineno}: {error.msg}") from None


# ---- a copy of the tree, with what is built


def listed(builds):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    yield from filter(None, names.split("\0"))
    for start in [
        *(f"{b}/{name}" for b in builds for name in BUILT),
        "python/clave/_generated",
        *MADE_PAGES,
    ]:
        path = ROOT / start
        for p in path.rglob("*") if path.is_dir() else [path]:
            if p.is_file():
                yield str(p.relative_to(ROOT))


def mirror(tree, builds):
    """Makes `tree` equal to the checkout, including file times, so that make builds only what a fault changes."""
    kept = set()
    for name in listed(builds):
        source, copy = ROOT / name, tree / name
        if not source.is_file():
            continue
        kept.add(copy)
        if copy.exists() and copy.stat().st_mtime_ns == source.stat().st_mtime_ns:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        shutil.copy2(source, copy)
    for p in tree.rglob("*"):
        if p not in kept and (p.is_file() or p.is_symlink()):
            p.unlink()
    for venv in (".venv", ".venv-executorch"):
        (tree / venv).symlink_to(ROOT / venv)
    (tree / "build/cases").symlink_to(ROOT / "build/cases")


def environment(tree, cache):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("CLAVE_", "MAKE", "MFLAGS"))}
    return inherited | {
        "CLAVE_BUILD": str(tree / "build"),
        "CLAVE_LIBRARY": str(tree / "build/libclave.so"),
        "CLAVE_CACHE_DIR": cache,
        "CLAVE_TEST_CACHE": cache,
        "CLAVE_TEST_DATA": os.environ.get("CLAVE_TEST_DATA") or str(ROOT / "../shared/data"),
        "PYTHONPATH": f"{tree / 'python'}:{tree / 'test'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OCL_ICD_VENDORS": quiet_vendors(str(WORK / "vendors")),
        "LSAN_OPTIONS": f"suppressions={ROOT / 'ci/lsan.supp'}:print_suppressions=0",
        "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1",
    }


# ---- tests


def commands(notice):
    """Returns (targets of make, its variables, commands, environment) for one `notice:`."""
    kind, _, rest = notice.partition(" ")
    kind, _, variant = kind.partition(":")
    if kind not in KINDS:
        raise Broken(f"'{notice}' is no test")
    goals, variables, steps, env = KINDS[kind](rest)
    if variant:
        env = env | {"CLAVE_DEVICE_CLASS": variant}
    return goals, variables, [shlex.split(step) for step in steps], env


def replay_test(rest):
    device, _, cases = rest.partition(" ")
    device, _, variant = device.partition(":")
    env = {"CLAVE_SELF_CHECK": "off"} | ({"CLAVE_DEVICE_CLASS": variant} if variant else {})
    if device == "san":
        return [f"build/san/{RUNNER}"], SAN, [f"build/san/{RUNNER} {CASES} --device cpu --only {cases}"], env
    poison = "--poison" if device == "cpu" else ""
    return [f"build/{RUNNER}"], [], [f"build/{RUNNER} {CASES} --device {device} --only {cases} {poison}"], env


def export_test(cases):
    out = "build/exported/" + cases.replace("/", "_")
    build = f".venv/bin/python test/cases/build.py --out {out} --only {cases} --jobs 1 --replay build/{RUNNER}"
    return [f"build/{RUNNER}", "all"], [], [build, f"build/{RUNNER} {out}/index.tsv --device cpu"], {}


def oclgrind_test(cases):
    step = f"ci/oclgrind build/{RUNNER} {CASES} --device opencl:0 --small 20000 --only {cases}"
    return [f"build/{RUNNER}"], [], [step], {"CLAVE_CACHE_DIR": "off"}


def c_test(rest, build="build", variables=()):
    program, _, only = rest.partition(" ")
    path = f"{build}/test/{program}"
    return [path], variables, [path], {"CLAVE_TEST_ONLY": only} if only else {}


def san_test(rest):
    return c_test(rest, "build/san", SAN)


def python_test(arguments):
    goals = ["all", "tests"] if re.search("test/fault|test/imitated", arguments) else ["all", f"build/{RUNNER}"]
    return goals, [], [f".venv/bin/python -m pytest -q -x -p no:cacheprovider {arguments}"], {}


def executorch_test(arguments):
    pytest = ".venv-executorch/bin/python -m pytest -q -x -p no:cacheprovider -W ignore"
    return ["executorch"], [], [f"{pytest} test/delegate/executorch/{arguments}"], {}


RUNNER, CASES = "test/replay", "build/cases/index.tsv"
KINDS = {
    "replay": replay_test,
    "export": export_test,
    "oclgrind": oclgrind_test,
    "c": c_test,
    "san": san_test,
    "pytest": python_test,
    "executorch": executorch_test,
}


def call(command, tree, env):
    """Returns (exit status, output)."""
    try:
        p = subprocess.run(
            ["prlimit", f"--cpu={CPU_LIMIT}", *command],
            cwd=tree,
            env=env,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
        )
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired:
        raise Broken(f"{' '.join(command)} takes more than {LIMIT} s") from None


def who(notice, code, output):
    """Returns the failed test's name. Raises Broken if the command failed for another reason."""
    for pattern in NAMES:
        if found := pattern.search(output):
            return f"{notice.split(' ')[0]}: {ADDRESS.sub('', found[1])}"
    if (number := -code if code < 0 else code - 128) in set(signal.Signals):
        return f"{notice}: {signal.Signals(number).name}"
    raise Broken(f"'{notice}' fails without a test's name:\n{output[-1500:]}")


def make(tree, env, *arguments):
    code, output = call(["make", "-s", "--no-print-directory", *arguments], tree, env)
    if code:
        complaint = next(filter(COMPLAINT.search, output.splitlines()), output[-1500:])
        raise Broken(f"does not build: {complaint.strip()}")


def noticed(notice, tree, env):
    """Returns the name of the test that fails in the tree, or None if all pass."""
    goals, variables, steps, extra = commands(notice)
    make(tree, env, *variables, *goals)
    for step in steps:
        code, output = call(step, tree, env | extra)
        if code:
            return who(notice, code, output)
    return None


class Bench:
    """Copies of the tree, one for each job, and the results of tests in the tree without a fault."""

    def __init__(self, jobs, builds):
        self.builds, self.lock, self.sound = builds, threading.Lock(), {}
        self.trees = [WORK / f"tree{i}" for i in range(jobs)]

    def sound_test(self, notice, env):
        """Raises Broken if the test fails without the fault, too."""
        if notice not in self.sound:
            self.sound[notice] = noticed(notice, ROOT, env)
        if self.sound[notice]:
            raise Broken(f"{self.sound[notice]} fails without the fault, too")

    def judge(self, mutant, certain):
        begin = time.monotonic()
        with self.lock:
            tree = self.trees.pop()
        try:
            verdict, by = self.try_tests(mutant, tree, certain)
        except (Broken, OSError) as error:
            verdict, by = "broken", str(error)
        with self.lock:
            self.trees.append(tree)
        return Result(mutant, verdict, by, time.monotonic() - begin)

    def try_tests(self, mutant, tree, certain):
        mirror(tree, self.builds)
        plant(mutant, tree)
        with tempfile.TemporaryDirectory() as own:
            shared = WORK / "cache"
            shared.mkdir(mode=0o700, exist_ok=True)
            env = environment(tree, own if keeps_apart(mutant) else str(shared))
            for notice in mutant.notices:
                if name := noticed(notice, tree, env):
                    if certain:
                        self.sound_test(notice, environment(ROOT, str(shared)))
                    return "noticed", name
            make(tree, env, "all", "tests")
        return "lived", mutant.lives


def hold():
    """Locks the copies against other runs of this checkout. Returns the lock file, which must stay open."""
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (WORK / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run plants faults in {WORK}")
    return lock


# ---- choosing, reporting


def choose(mutants, some):
    """Chooses `some` faults by the hash of the day (UTC) and the name, so that each has its turn in time."""
    day = os.environ.get("CLAVE_CHECK_DAY") or time.strftime("%Y-%m-%d", time.gmtime())
    turn = lambda m: hashlib.sha256(f"{day} {m.name}".encode()).hexdigest()
    return sorted(sorted(mutants, key=turn)[:some], key=lambda m: m.name)


def is_right(result):
    return result.verdict == ("lived" if result.mutant.lives else "noticed")


def show(result):
    print(f"{'' if is_right(result) else 'FAIL '}{result.mutant.name}: {result.verdict}", end="")
    print(f" by {result.by}" if result.verdict == "noticed" else f": {result.by or result.mutant.text}", end="")
    print(f" ({result.seconds:.0f} s)", flush=True)


def score(results):
    dead = sum(r.verdict == "noticed" for r in results)
    return f"{dead} of {len(results)} planted faults are noticed ({100 * dead // max(1, len(results))} %)"


def read_results():
    """Returns {name: (the test that noticed the fault, the day)}."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {name: (by, day) for name, by, day in rows}


def is_noticed(result):
    return not result[0].startswith(UNNOTICED)


def write(results):
    """Adds results to results.tsv, removes those of faults that no longer exist, and writes the page."""
    kept, all_faults = read_results(), read_areas()
    for r in results:
        by = r.by if r.verdict == "noticed" else f"{UNNOTICED}: {r.by}"
        kept[r.mutant.name] = (by.split("\n")[0].replace("\t", " "), str(datetime.date.today()))
    names = {m.name for mutants in all_faults.values() for m in mutants}
    kept = {name: kept[name] for name in sorted(kept.keys() & names)}
    head = (
        "# Last results of planted faults, written by run.py --write: name, the test that noticed the fault, the day.\n"
    )
    RESULTS.write_text(head + "".join(f"{name}\t{by}\t{day}\n" for name, (by, day) in kept.items()))
    PAGE.write_text(summary(all_faults, kept))


def read_areas():
    """Returns {area: its faults}."""
    return {path.stem: read(path) for path in sorted(HERE.glob("*.faults"))}


def in_cell(text):
    return text.replace("\\", "\\\\").replace("|", "\\|")


def summary(all_faults, kept):
    rows, never, survivors = [], [], []
    for area, mutants in all_faults.items():
        run = [m for m in mutants if m.name in kept]
        noticed = sum(is_noticed(kept[m.name]) for m in run)
        rows.append((f"`{area}`", len(mutants), len(run), noticed, len(mutants) - len(run)))
        survivors += [m for m in run if not is_noticed(kept[m.name])]
        if names := " ".join(sorted(m.name for m in mutants if m.name not in kept)):
            never += [area, *textwrap.wrap(names, 116, initial_indent="  ", subsequent_indent="  ")]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    lives = [f"- `{m.name}`: {m.text} {reason(m, kept)}" for m in sorted(survivors)]
    return PAGE_TEXT.format(table="\n".join(lines), survivors="\n".join(lives) or "None.", never="\n".join(never))


def reason(mutant, kept):
    """Says why no test noticed a fault."""
    if mutant.lives:
        return f"No test can notice it: {mutant.lives}."
    by, day = kept[mutant.name]
    why = by.removeprefix(UNNOTICED).strip(": ")
    return f"On {day}: `{why}`." if why else f"Its tests passed on {day}."


def list_all(path):
    """Writes a table of all faults with their results."""
    kept = read_results()
    lines = ["# All planted faults", "", "| fault | what it breaks | noticed by | day |", "|---|---|---|---|"]
    for m in read_all():
        by, day = kept.get(m.name, ("never run", ""))
        lines.append(f"| {m.name} | {in_cell(m.text)} | {in_cell(by)} | {day} |")
    path.write_text("\n".join(lines) + "\n")


PAGE_TEXT = """# Planted faults

A planted fault is a small error that `test/mutants/run.py` makes in a copy of the sources. One of the tests that the
fault names must notice it. Each file of [test/mutants](../../test/mutants) has the faults of one area.

- `make mutants` runs all faults, and `test/mutants/run.py --new --write` runs the faults that never ran. Both update
  this page and [results.tsv](../../test/mutants/results.tsv), which has the test that noticed each fault.
- `make check-more` runs two faults, others each day.
- `test/mutants/run.py --list build/mutants.md` writes a table of all faults: what each breaks, the test that noticed
  it, and the day.

| area | faults | run | noticed | never run |
|---|---|---|---|---|
{table}

## Not noticed

{survivors}

## Never run

```text
{never}
```
"""


def check(mutants):
    bad = 0
    for m in mutants:
        try:
            plant(m, ROOT, write=False)
            for notice in m.notices:
                commands(notice)
            if not m.text or not (m.notices or m.lives):
                raise Broken("its head needs a text and a test")
        except (Broken, OSError) as error:
            bad += 1
            print(f"FAIL {m.name}: {error}")
    print(f"{len(mutants) - bad} passed, {bad} failed")
    return 1 if bad else 0


def runs_here(mutant):
    """False for faults of ExecuTorch's plugin without ExecuTorch, and of AMX's kernels on a processor without AMX."""
    info = pathlib.Path("/proc/cpuinfo")
    if any("amx" in text for text in (mutant.name, *(h[0] for h in mutant.hunks))):
        return info.exists() and " amx_bf16 " in info.read_text()
    return (ROOT / ".venv-executorch").exists() or not any(n.startswith("executorch ") for n in mutant.notices)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="faults whose names match this regular expression")
    parser.add_argument("--new", action="store_true", help="faults without a result in results.tsv")
    parser.add_argument("--some", type=int, metavar="N", help="N faults, others each day")
    parser.add_argument("--check", action="store_true", help="only checks that all faults apply")
    parser.add_argument("--write", action="store_true", help="updates results.tsv and docs/developers/mutants.md")
    parser.add_argument("--list", type=pathlib.Path, metavar="FILE", help="only writes a table of all faults")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count()))
    args = parser.parse_args()
    mutants = [m for m in read_all() if re.search(args.only, m.name)]
    if args.list:
        list_all(args.list)
        return 0
    if args.new:
        kept = read_results()
        mutants = [m for m in mutants if m.name not in kept]
    if args.check:
        if args.write:
            write([])
        return check(mutants)
    mutants = [m for m in mutants if runs_here(m)]
    if args.some:
        mutants = choose(mutants, args.some)
    sanitized = any(re.match("san|replay san", n) for m in mutants for n in m.notices)
    builds = ["build", "build/san"] if sanitized else ["build"]
    begin, _held = time.monotonic(), hold()
    for arguments in [["all", "tests"], [*SAN, "tests"]][: len(builds)]:
        subprocess.run(["make", "-s", "--no-print-directory", f"-j{args.jobs}", *arguments], cwd=ROOT, check=True)
    results, bench = [], Bench(args.jobs, builds)
    with ThreadPoolExecutor(args.jobs) as pool:
        for done in as_completed([pool.submit(bench.judge, m, certain=not args.some) for m in mutants]):
            results.append(done.result())
            show(results[-1])
            if args.write:
                write(results)
    wrong = sum(not is_right(r) for r in results)
    print(f"{score(results)}, {time.monotonic() - begin:.0f} s\n{len(results) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
