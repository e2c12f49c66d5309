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

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from runner import ROOT, Runner, make, tests_in

PYTEST = [".venv/bin/python", "-m", "pytest", "-q", "-x", "--maxfail=20", "-p", "no:cacheprovider", "--durations=3"]
SHARE = 90  # per cent of the conformance slice that must be right; the rest is unsupported
SAN = "address,undefined"
SAN_BUILD = "build/san"


def c_suite(r, build, env=None, first=()):
    r.run_all([*first, *([binary] for binary in tests_in(build))], env=env)


def c_plain(r):
    """With the kernels that a GPU gets, too."""
    gpu = ["env", "CLAVE_DEVICE_CLASS=gpu"]
    c_suite(r, r.build, first=[[*gpu, binary] for binary in tests_in(r.build) if "test_opencl" in binary])


def c_sanitized(r):
    make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "tests", f"{SAN_BUILD}/clave")
    c_suite(r, SAN_BUILD, r.sanitized)


def cases_build(r):
    r.run([".venv/bin/python", "test/cases/build.py", "--out", f"{r.build}/cases"], name="test/cases/build.py")


def replay(r, build, device, *args, cache="off", most=False):
    """The op cases on a device; most: but one in each n + 1, n being the CPUs."""
    command = [f"{build}/test/replay", f"{r.build}/cases/index.tsv", "--device", device, *args]
    env = {"CLAVE_CACHE_DIR": cache, "CLAVE_SELF_CHECK": "off"} | (
        r.sanitized if build != r.build or os.environ.get("SAN") else {}
    )
    n = os.cpu_count()
    shards = [[*command, "--every", str(n + most), "--first", str(k)] for k in range(n)]
    r.run_all(shards, env=env, timeout=3000)


def cases(r):
    replay(r, r.build, "cpu", "--poison")
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        for _ in ("cold", "from cached binaries"):  # building kernels takes most of the time
            replay(r, r.build, "opencl", cache=cache, most=not r.everything)
    replay(r, SAN_BUILD, "cpu")


def cases_everywhere(r):
    """All devices at hand, and the OpenCL backend under sanitizers."""
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        replay(r, SAN_BUILD, "opencl", cache=cache)
    devices = json.loads(r.output([f"{r.build}/clave", "devices", "--json"]))
    for i in range(1, sum(d["kind"] == "opencl" for d in devices)):
        replay(r, r.build, f"opencl:{i}")
    r.run(
        [f"{r.build}/test/replay", f"{r.build}/cases/index.tsv", "--device", "opencl:llvmpipe", "--every", "5"],
        env={"RUSTICL_ENABLE": "llvmpipe", "CLAVE_CACHE_DIR": "off", "CLAVE_SELF_CHECK": "off"},
        name="replay on rusticl",
        timeout=3000,
    )


def oclgrind(r, every):
    command = ["ci/oclgrind", f"{r.build}/test/replay", f"{r.build}/cases/index.tsv", "--small", "20000"]
    r.run([*command, "--only", "/error_"], name="oclgrind, indices out of range")
    r.run([*command, "--every", str(every)], name=f"oclgrind, every {every}th small case", timeout=4000)


def conformance(r):
    """A few of torch's own samples of every op, on both backends; `make conformance` runs them all."""
    r.run([*PYTEST, "test/conformance"], name="pytest test/conformance")
    for device in ("cpu", "opencl"):
        command = [".venv/bin/python", "test/conformance/run.py", "--slice", "--failures", "--device", device]
        r.run([*command, "--jobs", str(os.cpu_count()), "--share", str(SHARE)], name=" ".join(command), timeout=1500)


def pytest_part(*folders, sanitized=False):
    """Each argument's folders in a process of their own, side by side: those that take longest first."""
    commands = [[*PYTEST, *f.split()] for f in folders]
    return lambda r: r.run_all(commands, env=r.sanitized if sanitized else None, timeout=3000)


def fuzz_corpora(r):
    make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "fuzz-replays")
    for target in sorted((ROOT / SAN_BUILD / "fuzz").glob("replay_*")):
        corpus = ROOT / "test/fuzz/corpus" / target.name.removeprefix("replay_fuzz_")
        r.run([str(target), str(corpus)], name=f"corpus of {target.name}")


def contract(r):
    script = ROOT / "../shared/contract/check.py"
    if not script.exists():
        print("  skipped: no ../shared/contract here")
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
        pytest_part("test/python", "test/examples", "test/llm", "test/cli"),
        "short",
    ),
    ("faults", pytest_part("test/fault", sanitized=True), "short"),
    ("fuzz corpora", fuzz_corpora, "short"),
    ("oclgrind", lambda r: oclgrind(r, 6), "short"),
    ("documents and build", pytest_part("test/ci test/docs"), "short"),
    ("contract", contract, "short"),
    ("op cases, all devices", cases_everywhere, "all"),
    ("oclgrind, more", lambda r: oclgrind(r, 1), "all"),
]


def sanitized_only(r, san, device):
    """make check SAN=... DEVICE=...: the C suite and the op cases of that build on that device."""
    c_suite(r, r.build, r.sanitized if san else None)
    cases_build(r)
    for d in [device] if device else ["cpu", "opencl"]:
        replay(r, r.build, d)


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
    print(f"{r.passed} passed, {r.failed} failed")
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
