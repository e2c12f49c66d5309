"""Runs commands for ci/check.py, in parts side by side. It times each command, counts tests from the output of test
runners, and prints failures and skipped tests."""

import collections
import contextlib
import copy
import dataclasses
import heapq
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAN_BUILD = "build/san"

# -rs prints why tests were skipped.
PYTEST = [".venv/bin/python", "-m", "pytest", "-q", "-rs", "--maxfail=20", "-p", "no:cacheprovider", "--durations=3"]

# Patterns of the test runners' summaries.
CMOCKA_PASSED = re.compile(r"\[  PASSED  \] (?:\w+: )?(\d+) test\(s\)")  # newer versions name the group
CMOCKA_FAILED = re.compile(r"\[  FAILED  \] (?:\w+: )?(\d+) test\(s\)")
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed", re.M)
PYTEST_LINE = re.compile(r"^(?=.*\b(?:passed|failed|errors?|skipped)\b)(.*) in [\d.]+s", re.M)


def count(output):
    """Returns (passed, failed) of a runner's output, or None if it has no counts."""
    pytest = PYTEST_LINE.findall(output)
    if pytest:
        number = lambda word: sum(int(n) for n in re.findall(rf"(\d+) {word}", pytest[-1]))
        return number("passed"), number("failed") + number("errors?")
    plain = PLAIN.findall(output)
    if plain:
        return sum(int(p) for p, _ in plain), sum(int(f) for _, f in plain)
    if "[==========]" in output:
        return (sum(map(int, CMOCKA_PASSED.findall(output))), sum(map(int, CMOCKA_FAILED.findall(output))))
    return None


# Patterns of the lines about skipped tests, with the groups (number or "", reason): pytest -rs, our own programs.
SKIPS = [re.compile(r"^SKIPPED \[(\d+)\] (.*)$", re.M), re.compile(r"^()skipped: (.*)$", re.M)]
CMOCKA_SKIPPED = re.compile(
    r"^\[  SKIPPED \] (?!(?:\w+: )?\d+ test)(.*)$", re.M
)  # a test is listed when it runs and in the summary


def count_skips(output):
    """Returns {reason: number of tests} of the skipped tests in a runner's output."""
    found = collections.Counter()
    for pattern in SKIPS:
        for times, why in pattern.findall(output):
            found[why.strip()] += int(times or 1)
    found.update({name.strip() for name in CMOCKA_SKIPPED.findall(output)})
    return found


def read_bounds(path):
    """Returns [(maximum, pattern, reason)] from a file of tab-separated lines. Lines that begin with # are comments."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [(int(most), re.compile(pattern), reason) for most, pattern, reason in rows]


def judge_skips(skipped, bounds):
    """Returns (lines to print, number of tests that were skipped but must not be).

    skipped: {reason: number}. There is a line for each bound that applies, and for each reason without a bound.
    """
    lines, wrong = [], 0
    left = collections.Counter(skipped)
    for most, pattern, reason in bounds:
        mine = [why for why in left if pattern.search(why)]
        n = sum(left.pop(why) for why in mine)
        if n:
            lines.append(f"  {n} skipped, at most {most}: {reason}")
        wrong += max(0, n - most)
    lines += [f"  {n} skipped, which ci/skips does not list: {why}" for why, n in left.items()]
    return lines, wrong + sum(left.values())


def quiet_vendors(folder):
    """Fills a folder with the OpenCL platforms for sanitized runs: all except Mesa's. Returns the folder.

    Clover leaks when it is opened, and is unloaded before LeakSanitizer can match its name against ci/lsan.supp.
    rusticl's memory of threads makes LeakSanitizer itself fail (signal 11 in its tracer).
    """
    os.makedirs(folder, exist_ok=True)
    for icd in pathlib.Path("/etc/OpenCL/vendors").glob("*.icd"):
        if not any(name in icd.read_text() for name in ("MesaOpenCL", "RusticlOpenCL")):
            shutil.copy(icd, folder)
    return folder


@dataclasses.dataclass
class Job:
    """A command, further environment variables, and a note that the output shows before it."""

    command: list
    env: dict | None = None
    note: str = ""

    @property
    def name(self):
        return " ".join([*([f"({self.note})"] if self.note else []), *self.command])


def pocl_folder():
    """Returns the folder of PoCL's cache, which all commands share. Otherwise clave makes one for each process."""
    folder = os.environ.get("POCL_CACHE_DIR") or os.path.expanduser("~/.cache/pocl/kcache")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


# LeakSanitizer itself sometimes fails if a driver's thread ends while it inspects the threads (signal 11 in its
# tracer). This message then does not indicate a fault of the program.
LEAK_CHECK_FAILED = "LeakSanitizer has encountered a fatal error"


class CommandSlots:
    """A limit on the number of running commands, one for each CPU. Waiting commands start in the order of `rank`, the
    position of their part."""

    def __init__(self, n):
        self.free, self.waiting, self.tickets = n, [], itertools.count()
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def reserved(self, rank):
        with self.changed:
            ticket = (rank, next(self.tickets))
            heapq.heappush(self.waiting, ticket)
            self.changed.wait_for(lambda: self.free and self.waiting[0] == ticket)
            heapq.heappop(self.waiting)
            self.free -= 1
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.free += 1
                self.changed.notify_all()


RINGS = ("quick", "check", "more", "all")  # each runs what those before it run, and more


class Runner:
    """The state of a run: settings and counts. Each part gets a copy with counts of its own.

    build: the build folder. home: a temporary folder. ring: one of RINGS. Parts must not change `env`.
    """

    def __init__(self, build, home, ring):
        self.build, self.home, self.ring = build, home, ring
        self.everything = ring == "all"
        self.is_fixed = ring in ("quick", "check")  # runs the same tests at every commit, and the smallest shares
        self.passed = self.failed = 0
        self.cpu = 0.0  # processor seconds of the commands
        self.skipped = collections.Counter()
        self.turn = self.day()
        self.parts, self.commands = [], []  # (name, processor seconds, passed, failed), (seconds, name)
        self.part_name, self.kept, self.record = "", {}, None
        self.rank, self.slots = 0, CommandSlots(os.cpu_count())
        self.lock = threading.Lock()  # protects the counts and the output
        self.stop = threading.Event()  # set: no further command begins
        self.env = dict(os.environ)
        for name in ("CLAVE_DEVICE", "CLAVE_CACHE_DIR", "CLAVE_KERNEL_DIR", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            self.env.pop(name, None)
        self.env |= {
            "CLAVE_LIBRARY": str(ROOT / build / "libclave.so"),
            "CLAVE_BUILD": str(ROOT / build),
            "CLAVE_CACHE_DIR": "off",  # PoCL has its own cache; with clave's it compiles every kernel a second time
            "POCL_CACHE_DIR": pocl_folder(),
            "CLAVE_HELPER": "off",  # child processes that build kernels would compete with other tests for the CPUs
            "CLAVE_SELF_CHECK": "off",  # it would replace a wrong kernel by the CPU backend
            "CLAVE_TEST_DATA": os.environ.get("CLAVE_TEST_DATA") or str(ROOT / "../shared/data"),
            "CLAVE_TEST_ALL": "1" if self.everything else "",
            "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'test'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LSAN_OPTIONS": f"suppressions={ROOT / 'ci/lsan.supp'}:print_suppressions=0",
            "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        self.sanitized = {
            "OCL_ICD_VENDORS": quiet_vendors(os.path.join(home, "vendors")),
            "CLAVE_SAN_BUILD": str(ROOT / SAN_BUILD),
        }

    def commit(self):
        """Returns the hash of the checked commit, or "none"."""
        p = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        return p.stdout.strip() or "none"

    def day(self):
        """Returns the seed of the sample of tests: the date (UTC), or CLAVE_CHECK_DAY, or "fixed" in the rings that run
        the same tests each time. All runs of a day draw the same tests, also at other commits."""
        today = os.environ.get("CLAVE_CHECK_DAY") or time.strftime("%Y-%m-%d", time.gmtime())
        return "fixed" if self.is_fixed else today

    def part(self, name, function, rank=0):
        """Runs function(runner) as a part, and adds its counts."""
        mine = copy.copy(self)
        mine.part_name, mine.rank = name, rank
        mine.passed, mine.failed, mine.cpu = 0, 0, 0.0
        function(mine)
        with self.lock:
            self.passed += mine.passed
            self.failed += mine.failed
            self.parts.append((name, mine.cpu, mine.passed, mine.failed))
            print("== {}\n   {:.1f} processor seconds, {} passed, {} failed".format(*self.parts[-1]), flush=True)

    @contextlib.contextmanager
    def stopping(self):
        """Context manager: after an exception inside, or an interrupt, no further command starts."""
        try:
            yield
        except BaseException:
            self.stop.set()
            raise

    def side_by_side(self, parts):
        """Runs parts concurrently: (name, function, names of parts that must have ended before).

        Commands of earlier parts start first. A CPU that they leave idle runs commands of the next parts.
        """
        ended = {name: threading.Event() for name, _, _ in parts}

        def run(rank, name, function, after):
            for other in after:
                if other in ended:
                    ended[other].wait()
            try:
                with self.stopping():
                    self.part(name, function, rank)
            finally:
                ended[name].set()

        with ThreadPoolExecutor(max(1, len(parts))) as pool, self.stopping():
            for done in [pool.submit(run, rank, *part) for rank, part in enumerate(parts)]:
                done.result()

    def resume(self):
        """Records the commands that pass in a file for this commit, and skips those that it already has, so that a run
        of hours can be stopped and started again. Does nothing if files differ from the commit."""
        dirty = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
        if self.commit() == "none" or dirty.strip():
            return
        self.record = ROOT / self.build / f"check-{self.commit()}.json"
        if self.record.exists():
            self.kept = json.loads(self.record.read_text())

    def keep(self, key, seconds, passed, skipped):
        if self.record:
            self.kept[key] = [seconds, passed, dict(skipped)]
            self.record.write_text(json.dumps(self.kept, indent=1))

    def attempt(self, command, env, timeout):
        """Runs a command. Returns (exit status, output)."""
        return self.measure(command, env, timeout)[:2]

    def measure(self, command, env, timeout):
        """Runs a command for at most `timeout` seconds, or four times as long in the ring "all", which often shares the
        machine. Returns (exit status, output, processor seconds)."""
        timeout *= 4 if self.everything else 1
        with tempfile.TemporaryFile() as output:
            try:
                p = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=self.env | (env or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                return 127, str(error), 0.0
            code, note, used = self.wait(p, timeout)
            output.seek(0)
            return code, output.read().decode(errors="replace") + note, used

    def wait(self, p, timeout):
        """Waits for a process, and stops it after `timeout` seconds. Adds its processor seconds to those of the part.

        Returns (exit status, "" or a note that it was stopped, processor seconds). The exit status is then 124.
        """
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), os.kill(p.pid, signal.SIGKILL)))
        timer.start()
        try:
            os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)  # the process keeps its id, which the timer may kill
        finally:
            timer.cancel()
            timer.join()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        with self.lock:
            self.cpu += seconds
        return (124, f"\nstopped after {timeout} s", seconds) if late.is_set() else (p.returncode, "", seconds)

    def run(self, command, name, env=None, timeout=900):
        """Runs a command and adds its counts. Prints its output only if something failed. Returns true on success.

        A command that passed in an earlier run of this commit (`resume`) does not run again: its counts are added.
        """
        key = f"{self.part_name}: {name}"
        if key in self.kept:
            took, passed, skipped = self.kept[key]
            return self.add(name, f"{took:.0f} s at an earlier start", passed, 0, skipped)
        with self.slots.reserved(self.rank):
            if self.stop.is_set():
                return False
            begin = time.monotonic()
            code, output, used = self.measure(command, env, timeout)
            for _ in range(3):  # on a busy machine LeakSanitizer can fail twice in a row
                if LEAK_CHECK_FAILED not in output:
                    break
                code, output, used = self.measure(command, env, timeout)
            if LEAK_CHECK_FAILED in output:
                print(f"{name}: LeakSanitizer failed four times; the command runs once more without it", flush=True)
                without = self.env["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0")
                code, output, used = self.measure(command, (env or {}) | {"ASAN_OPTIONS": without}, timeout)
            took = time.monotonic() - begin
        self.commands.append((took, f"{self.part_name}: {name}"))
        passed, failed = count(output) or (int(code == 0), int(code != 0))
        failed = max(failed, int(code != 0))
        with self.lock:
            if failed:
                print("\n".join(output.rstrip().splitlines()[-150:]))
                print(f"FAILED (exit {code}): {self.part_name}: {name}", flush=True)
            else:
                self.keep(key, took, passed, count_skips(output))
        # On a shared machine the time depends on other work; the processor seconds are the cost of the command.
        return self.add(name, f"{took:.0f} s ({used:.0f} of a processor)", passed, failed, count_skips(output))

    def add(self, name, took, passed, failed, skipped):
        """Adds a command's counts. Returns true if no test failed."""
        with self.lock:
            self.passed += passed
            self.failed += failed
            self.skipped.update(skipped)
            if self.everything:
                print(f"   {took}, {passed} passed, {failed} failed: {name[:120]}", flush=True)
        return not failed

    def run_all(self, jobs, timeout=900):
        """Runs jobs side by side, as many as there are CPUs."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda j: self.run(j.command, j.name, j.env, timeout), jobs))

    def skip(self, why):
        with self.lock:
            self.skipped[why] += 1

    def close_skips(self):
        """Counts skipped tests that ci/skips does not allow as failures. Returns the lines about skipped tests."""
        lines, wrong = judge_skips(self.skipped, read_bounds(ROOT / "ci/skips"))
        self.failed += wrong
        return "\n".join(lines)

    def output(self, command):
        return subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True).stdout

    def times(self, total):
        """Returns a table of the parts' processor seconds and counts, the total time, and the slowest commands."""
        rows = [
            f"  {seconds:7.1f} s of a processor  {passed:6} passed {failed:4} failed  {name}"
            for name, seconds, passed, failed in self.parts
        ]
        longest = [f"  {seconds:7.1f} s  {name[:110]}" for seconds, name in sorted(self.commands)[-12:]]
        return "\n".join(["", *rows, f"  {total:7.1f} s  in all", "the longest commands:", *longest])


def make(r, *goals):
    r.run(
        ["make", "--no-print-directory", f"-j{os.cpu_count()}", f"BUILD={r.build}", *goals],
        name="make " + " ".join(goals),
    )


def tests_in(build):
    """Returns the paths of the built C tests whose sources exist. A build folder may have tests without a source."""
    sources = sorted(p.relative_to(ROOT) for p in (ROOT / "test").glob("*/**/test_*.c"))
    built = [pathlib.Path(build) / s.with_suffix(ending) for s in sources for ending in ("", ".exe")]
    return [str(p) for p in built if (ROOT / p).exists()]
