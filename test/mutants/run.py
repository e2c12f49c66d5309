"""Plants one fault after another in a copy of the tree and says which test notices.

    run.py [--only TEXT] [--new] [--some N] [--check] [--write] [--jobs N]

Each `*.faults` beside this file has the faults of an area. A fault begins with a line `fault: NAME`, then come what it
breaks, in a line or two, lines `notice: TEST`, which are tried in turn until one fails, and the diff:

    replay DEVICE[:CLASS] CASES    the op cases whose names hold CASES, on cpu, opencl or san (cpu, with sanitizers);
                                   CLASS: CLAVE_DEVICE_CLASS
    export CASES                   the same, exported anew: for faults in the exporter; on the CPU backend
    oclgrind[:CLASS] CASES         the same under oclgrind
    c[:CLASS] ROOM/test_x [CASE]   a C test program; CLAVE_TEST_ONLY=CASE
    san ROOM/test_x                the same, built with sanitizers
    pytest ARGUMENTS
    executorch ARGUMENTS           pytest, where ExecuTorch is installed; left out where it is not

All of them are part of `make check-all`. A line `lives: REASON` says why no test can notice. A hunk's old lines must
stand in the file exactly once, wherever; --check looks at that alone. --some N takes N faults, others each day; --new
those that docs/developers/mutants.md does not say to have been run. --write writes that file as results come, where
other faults keep their rows and those without one get it. Fails if a fault lives without a reason,
has a reason and dies, or no longer applies or builds: a fault that lives is built whole, as its tests may build none of
what it damages.
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
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "ci"))

from runner import quiet_vendors

WORK = ROOT / "build/mutants"
BUILT = ["gen", "obj", "test", "stub", "clave", "flags"]  # of a build folder
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
CPU_LIMIT, LIMIT = 120, 1500  # seconds of a process, as a fault may make a loop endless; of a command on a busy machine
# How the runners that we use name what failed.
NAMES = [
    re.compile(r"^FAIL ([^\s,:]+)", re.M),
    re.compile(r"^\[  FAILED  \] (\w+)$", re.M),
    re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M),
    re.compile(r"^(oclgrind) found", re.M),
    re.compile(r"^SUMMARY: (\w+Sanitizer: .*?)(?: /|$)", re.M),
    re.compile(r"ERROR: (\w+Sanitizer: [\w-]+)"),  # other threads may end the process before its summary
]
ADDRESS = re.compile(r" \(/[^)]*\) \(BuildId: \w+\)")  # of the machine, in a sanitizer's summary
NOT_RUN = "not run yet"
PAGE = ROOT / "docs/developers/mutants.md"
MADE_PAGES = ("docs/reference/cli.md", "docs/reference/ops.md")
COMPLAINT = re.compile(r"\berror: |Error: |undefined reference|multiple definition")  # compiler, linker, Python

Mutant = collections.namedtuple("Mutant", "name text notices lives hunks")
Result = collections.namedtuple("Result", "mutant verdict by seconds")  # verdict: noticed, lived, broken


class Broken(Exception):
    """The mutant must be mended: it does not apply, does not build, or its test is not there."""


# ---- patches


def read(path):
    """The faults of a file, in its order."""
    names_and_texts = re.split(r"^fault: (.*)\n", path.read_text(), flags=re.M)[1:]
    return [parse(name, text.rstrip("\n")) for name, text in zip(*[iter(names_and_texts)] * 2, strict=True)]


def read_all():
    """The faults of all files by their names, each of which stands for one."""
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
    """Whether a fault's tests have a cache of their own: one in the cache must not reach the others, one in the
    self-check would not be met where others have proven the kernels."""
    return "cache" in mutant.name or any("check" in pathlib.Path(file).name for file, _, _ in mutant.hunks)


def check_syntax(file, text):
    """What Python cannot read fails any test that imports it."""
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
    """Makes `tree` equal to the checkout, times of files included: make then builds only what a fault changes."""
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
    """(what make must build, its variables, commands, environment) of one `notice:`."""
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
    goals = ["all", "tests"] if "test/fault" in arguments else ["all", f"build/{RUNNER}"]
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
    """(exit status, output)"""
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
    """The failed test's name. Whatever else makes a command fail is not a test that noticed."""
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
    """The name of the test that fails in the tree, None if all pass."""
    goals, variables, steps, extra = commands(notice)
    make(tree, env, *variables, *goals)
    for step in steps:
        code, output = call(step, tree, env | extra)
        if code:
            return who(notice, code, output)
    return None


class Bench:
    """The copies of the tree, one for each job, and what the tests say of the tree without a fault."""

    def __init__(self, jobs, builds):
        self.builds, self.lock, self.sound = builds, threading.Lock(), {}
        self.trees = [WORK / f"tree{i}" for i in range(jobs)]

    def sound_test(self, notice, env):
        """A test that fails without a fault too notices nothing."""
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
    """Keeps other runs of this checkout out of the copies: the file, which must stay open."""
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (WORK / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run plants faults in {WORK}")
    return lock


# ---- choosing, reporting


def choose(mutants, some):
    """`some` of them, by the hash of the day (UTC) and the name: with the days each has its turn."""
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


def rows_before():
    """{name: row} of all faults: as docs/developers/mutants.md has it, or that it was not run."""
    found = re.finditer(r"^\| (\w+) \| .*$", PAGE.read_text(), re.M)
    rows = {m.group(1): m.group(0) for m in found}
    return {m.name: rows.get(m.name) or row(m, NOT_RUN, "") for m in read_all()}


def row(mutant, by, when):
    return f"| {mutant.name} | {mutant.text} | {by} | {when} |".replace("\\", "\\\\")


def was_run(row):
    return f" | {NOT_RUN} | " not in row


def write(results):
    rows = rows_before()
    for r in results:
        by = r.by if r.verdict == "noticed" else f"**no test**: {r.by}"
        rows[r.mutant.name] = row(r.mutant, by.split("\n")[0], datetime.date.today())
    ran = [r for r in rows.values() if was_run(r)]
    noticed = sum(" | **no test**: " not in r for r in ran)
    share = 100 * noticed // max(len(ran), 1)
    some = f"{len(ran)} were run, each on the day in its row"
    head = f"""# Planted faults

Of {len(rows)} planted faults {some}; {noticed} of those were noticed ({share} %).
`make mutants` runs all, `test/mutants/run.py --new --write` those that never were; both write this file.
`make check-more` runs two, others each day. Each stands in a file of [test/mutants](../../test/mutants) with its tests.

| fault | what it breaks | noticed by | run |
|---|---|---|---|
"""
    PAGE.write_text(head + "\n".join(rows[name] for name in sorted(rows)) + "\n")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="faults whose names match this regular expression")
    parser.add_argument(
        "--new", action="store_true", help="faults that docs/developers/mutants.md does not say to have been run"
    )
    parser.add_argument("--some", type=int, help="so many, by turn")
    parser.add_argument("--check", action="store_true", help="only whether all apply")
    parser.add_argument("--write", action="store_true", help="writes docs/developers/mutants.md")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count()))
    args = parser.parse_args()
    mutants = [m for m in read_all() if re.search(args.only, m.name)]
    if args.new:
        rows = rows_before()
        mutants = [m for m in mutants if not was_run(rows[m.name])]
    if args.check:
        if args.write:
            write([])
        return check(mutants)
    if not (ROOT / ".venv-executorch").exists():
        mutants = [m for m in mutants if not any(n.startswith("executorch ") for n in m.notices)]
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
