"""Runs every test of the project, part by part, with a time for each, and closes with `N passed, N failed`.

Environment: BUILD (build folder), SAN and DEVICE (then only the C suite and the op cases run, with those),
CLAVE_TEST_DATA (default ../shared/data). Options: --all (everything long too), --only PART,PART, --list.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import classes

from runner import ROOT, Job, Runner, make, tests_in

PYTEST = [".venv/bin/python", "-m", "pytest", "-q", "-rs", "--maxfail=20", "-p", "no:cacheprovider", "--durations=3"]
SAN = "address,undefined"
SAN_BUILD = "build/san"
TSAN_BUILD = "build/tsan"
THREADED = ("base/test_threads", "api/test_sessions", "backend/test_cpu_backend", "backend/test_opencl_device")


def c_suite(r, build, env=None, first=()):
    r.run_all([*first, *(Job([binary], env) for binary in tests_in(build))])


def c_plain(r):
    """The pairs of backends once more with the kernels that a GPU gets."""
    gpu = {"CLAVE_DEVICE_CLASS": "gpu"}
    c_suite(r, r.build, first=[Job([b], gpu, "gpu") for b in tests_in(r.build) if "test_opencl" in b])


def c_sanitized(r):
    make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "tests", f"{SAN_BUILD}/clave")
    c_suite(r, SAN_BUILD, r.sanitized)


def cases_build(r):
    r.run([".venv/bin/python", "test/cases/build.py", "--out", f"{r.build}/cases"], name="test/cases/build.py")


def replay_job(r, device, *options, build=None, env=(), note=""):
    """The op cases, or by options some of them, on a device; build: another build's runner."""
    build = build or r.build
    sanitized = build != r.build or os.environ.get("SAN")
    env = (r.sanitized if sanitized else {}) | dict(env)
    command = [f"{build}/test/replay", f"{r.build}/cases/index.tsv", "--device", device, "--turn", r.turn, *options]
    return Job(command, env, note)


def replay(r, device, *options, build=None):
    """All op cases on a device."""
    n = os.cpu_count()
    r.run_all([replay_job(r, device, "--part", f"{k}/{n}", *options, build=build) for k in range(n)], timeout=3000)


def replay_classes(r):
    """Every op case on OpenCL as one of the main classes, which one by the commit; --all: as both."""
    n, jobs = os.cpu_count(), []
    for turn, c in enumerate(classes.MAIN):
        parts = [f"{k}/{n}" for k in range(n)] if r.everything else [f"{2 * k + turn}/{2 * n}" for k in range(n)]
        jobs += [replay_job(r, "opencl", "--part", part, env=c.env, note=c.name) for part in parts]
    r.run_all(jobs, timeout=3000)


def replay_checked(r):
    """A sample of the same cases with kernels compared with the CPU backend's: any difference is an error. --all: all."""
    jobs, parts = [], 1 if r.everything else 16
    for turn, c in enumerate(classes.MAIN):
        env = c.env | {"CLAVE_SELF_CHECK": "strict"}
        jobs.append(replay_job(r, "opencl", "--part", f"{turn % parts}/{parts}", env=env, note=f"self-check, {c.name}"))
    r.run_all(jobs, timeout=3000)


def replay_lesser(r, share):
    """One in `share` of the op cases on each lesser class of devices."""
    make(r, f"{r.build}/stub/libOpenCL.so.1")
    env = lambda c: classes.environment(c, ROOT / r.build)
    options = "opencl", "--part", f"0/{share}"
    r.run_all([replay_job(r, *options, *c.replay, env=env(c), note=c.name) for c in classes.LESSER], timeout=3000)


def replay_cached(r):
    """A sample that builds its kernels, and again from the binaries kept on disk."""
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        for what in ("kernels built", "kernels from binaries"):
            r.run_all([replay_job(r, "opencl", "--part", "1/40", env={"CLAVE_CACHE_DIR": cache}, note=what)])


def cases(r):
    replay(r, "cpu", "--poison")
    replay_classes(r)
    replay_checked(r)
    replay_lesser(r, 4 if r.everything else 40)
    replay_cached(r)
    replay(r, "cpu", build=SAN_BUILD)


def cases_everywhere(r):
    """All devices at hand, and the OpenCL backend under sanitizers."""
    replay(r, "opencl", build=SAN_BUILD)
    devices = json.loads(r.output([f"{r.build}/clave", "devices", "--json"]))
    for i in range(1, sum(d["kind"] == "opencl" for d in devices)):
        replay(r, f"opencl:{i}", "--fallback")
    jobs = []
    for c in classes.MAIN:  # docs/devices.md has what came of it
        rusticl = c.env | {"RUSTICL_ENABLE": "llvmpipe"}
        jobs.append(replay_job(r, "opencl:llvmpipe", "--part", "0/5", "--fallback", env=rusticl, note=f"rusticl, {c.name}"))
        intel = replay_job(r, "opencl:0")
        jobs.append(Job(["ci/intel_opencl", *intel.command], intel.env | c.env, f"Intel's runtime, {c.name}"))
    r.run_all(jobs, timeout=4000)


def data_races(r):
    """Threads, sessions beside each other and op cases under ThreadSanitizer; a part of them in make check."""
    programs = [f"{TSAN_BUILD}/test/{name}" for name in (*THREADED, "replay", "soak")]
    make(r, "SAN=thread", f"BUILD={TSAN_BUILD}", *(["tests"] if r.everything else programs))
    env = r.sanitized | {"CLAVE_THREADS": "4"}
    jobs = [Job([test], env) for test in (tests_in(TSAN_BUILD) if r.everything else programs[: len(THREADED)])]
    share = "0/1" if r.everything else "0/10"
    jobs.append(replay_job(r, "cpu", "--part", share, build=TSAN_BUILD, env=env))
    if r.everything:
        jobs.append(replay_job(r, "opencl", "--part", "0/20", build=TSAN_BUILD, env=env))
    soak = [f"{TSAN_BUILD}/test/soak", "--seconds", "20" if r.everything else "1", "--scratch"]
    jobs += [Job([*soak, f"{r.home}/talk-{device}", "--device", device], env) for device in ("cpu", "opencl")]
    r.run_all(jobs, timeout=1800)


def soak(r, minutes):
    r.run(["ci/soak", r.build, str(minutes), "cpu", "opencl"], name=f"soak of {minutes} minutes", timeout=4000)


def speed(r):
    make(r, "bench-programs")
    r.run([".venv/bin/python", "bench/bench.py", "--check", "--build", r.build], name="bench.py --check", timeout=4000)


def oclgrind(r):
    """Small op cases with the kernels of GPUs, which have barriers, and a sample with those of CPUs. --all: all."""
    n, jobs = os.cpu_count(), []
    for c in reversed(classes.MAIN):
        parts = n if r.everything or c.name == "gpu" else 8 * n
        for k in range(n):
            job = replay_job(r, "opencl:0", "--small", "20000", "--fallback", "--part", f"{k}/{parts}")
            jobs.append(Job(["ci/oclgrind", *job.command], job.env | c.env, f"oclgrind, {c.name}"))
    r.run_all(jobs, timeout=4000)


def conformance(r):
    """A few of torch's own samples of every op, on both backends; `make conformance` runs them all."""
    r.run([*PYTEST, "test/conformance"], name="pytest test/conformance")
    for device in ("cpu", "opencl"):
        command = [".venv/bin/python", "test/conformance/run.py", "--slice", "--failures", "--device", device]
        r.run([*command, "--jobs", str(os.cpu_count())], name=" ".join(command), timeout=1500)


def main_classes(r):
    """The classes that a part runs on which takes one by turns; --all: both."""
    return classes.MAIN if r.everything else [classes.MAIN[zlib.crc32(r.turn.encode()) % len(classes.MAIN)]]


def pytest_part(*folders, sanitized=False, by_class=False):
    """Each argument's folders in a process of their own, side by side: those that take longest first."""

    def run(r):
        base = r.sanitized if sanitized else {}
        rows = [(base | c.env, c.name) for c in main_classes(r)] if by_class else [(base, "")]
        r.run_all([Job([*PYTEST, *f.split()], env, note) for env, note in rows for f in folders], timeout=3000)

    return run


def in_turn(r, names, turns):
    """One in `turns` of the names, others at the next commit; all under --all."""
    return [n for n in names if r.everything or zlib.crc32((r.turn + n).encode()) % turns == 0]


def fuzz_corpora(r):
    """Every input on every target; programs on the CPU backend, and some of them on OpenCL."""
    make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "fuzz-replays")
    inputs = lambda kind: [str(f) for d in ("corpus", "found") if (f := ROOT / "test/fuzz" / d / kind).exists()]
    targets = [s.stem for s in sorted((ROOT / "test/fuzz").glob("fuzz_*.c"))]
    env = r.sanitized | {"CLAVE_DEVICE": "cpu"}
    jobs = [Job([f"{SAN_BUILD}/fuzz/replay_{t}", *inputs(t.removeprefix("fuzz_"))], env) for t in targets]
    programs = in_turn(r, [str(f.relative_to(ROOT)) for f in sorted((ROOT / "test/fuzz/found/run").iterdir())], 24)
    env = r.sanitized | {"CLAVE_DEVICE": "opencl"}
    jobs += [Job([f"{SAN_BUILD}/fuzz/replay_fuzz_run", *programs[n::2]], env, "OpenCL") for n in range(2)]
    r.run_all(jobs, timeout=3000)


def contract(r):
    script = ROOT / "../shared/contract/check.py"
    if not script.exists():
        r.skip("no ../shared/contract here")
        return
    parts = (ROOT / "ci/contract-parts").read_text().split()
    r.run([".venv/bin/python", str(script), "--clave", r.build, "--only", ",".join(parts)], name="contract")


def lint(r):
    r.run(["ci/lint", r.build], name="ci/lint")


# name, function, "short" (make check), "all" (make check-all only) or "san" (the parts of make check SAN=...)
PARTS = [
    ("lint", lint, "short"),
    ("C suite", c_plain, "short"),
    ("C suite, sanitized", c_sanitized, "short"),
    ("op cases: torch's answers", cases_build, "short"),
    ("op cases", cases, "short"),
    ("conformance", conformance, "short"),
    (
        "python, examples, text, command line",
        pytest_part("test/python", "test/examples", "test/llm", "test/cli", by_class=True),
        "short",
    ),
    ("data races", data_races, "short"),
    ("soak", lambda r: soak(r, 5 if r.everything else 0.07), "short"),
    ("faults", pytest_part("test/fault", sanitized=True), "short"),
    ("fuzz corpora", fuzz_corpora, "short"),
    ("oclgrind", oclgrind, "short"),
    ("documents and build", pytest_part("test/ci test/docs"), "short"),
    ("contract", contract, "short"),
    ("op cases, all devices", cases_everywhere, "all"),
    ("speed", speed, "all"),
]


def sanitized_only(r, san, device):
    """make check SAN=... DEVICE=...: the C suite and the op cases of that build on that device."""
    c_suite(r, r.build, r.sanitized if san else None)
    cases_build(r)
    for d in [device] if device else ["cpu", "opencl"]:
        replay(r, d, "--fallback")


def choose(args):
    san, device = os.environ.get("SAN"), os.environ.get("DEVICE")
    if san or device:
        return [
            (
                f"C suite and op cases ({san or 'plain'}, {device or 'all devices'})",
                lambda r: sanitized_only(r, san, device),
            )
        ]
    wanted = args.only.split(",") if args.only else None
    return [
        (name, f)
        for name, f, when in PARTS
        if (wanted and any(w in name for w in wanted)) or (not wanted and (when == "short" or args.all))
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", help="names of parts, or pieces of them, separated by commas")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(name for name, _, _ in PARTS))
        return 0
    os.chdir(ROOT)
    home = tempfile.mkdtemp(prefix="clave-check-")
    r = Runner(os.environ.get("BUILD") or "build", home, everything=args.all)
    begin = time.monotonic()
    try:
        r.part("build", lambda r: make(r, "all", "tests"))
        if not r.failed:
            for name, f in choose(args):
                r.part(name, f)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(r.times(time.monotonic() - begin))
    print(r.close_skips())
    print(f"{r.passed} passed, {r.failed} failed")
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
