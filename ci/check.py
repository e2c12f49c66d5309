"""Runs a ring of the project's tests: quick, check, more or all, each of which includes the rings before it. Parts of a
ring run side by side. Prints a time for each part and `N passed, N failed`.

Environment:
    BUILD: the build folder (default build).
    SAN, DEVICE: sanitizers and a device; with either, only the C suite and the op cases run.
    CLAVE_TEST_DATA: the folder of outside test data (default ../shared/data).

A run of the ring "all" that is stopped can be started again: it skips the commands that passed at the same commit.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import long
import replays
from replays import main_classes

from runner import PYTEST, RINGS, ROOT, SAN_BUILD, Job, Runner, make, tests_in

SAN = "address,undefined"


def pairs(r, build, env):
    """Returns the C tests that compare the OpenCL backend with the CPU backend, as jobs.

    They run on one main class of devices, with a 20th of the cases (a 60th in the rings quick and check) that differs
    each day. The ring "all" runs all cases on both classes.
    """
    env = env | {"CLAVE_TEST_SHARE": "1" if r.everything else "60" if r.is_fixed else "20", "CLAVE_TEST_TURN": r.turn}
    return [Job([b], env | c.env, c.name) for c in main_classes(r) for b in tests_in(build) if "test_opencl" in b]


def c_suite(r, build, env=None, with_pairs=True):
    """Runs the C tests. env: variables in addition to those of the runner."""
    more = (
        {"CLAVE_TEST_SEQUENCES": "100000", "CLAVE_TEST_RUNS": "1000"} if r.everything else {"CLAVE_TEST_TURN": r.turn}
    )
    others = [Job([b], (env or {}) | more) for b in tests_in(build) if "test_opencl" not in b]
    r.run_all([*(pairs(r, build, env or {}) if with_pairs else []), *others])


def c_plain(r):
    """Runs the plain C tests. The rings quick and more leave out `pairs`, which more runs in the sanitized suite."""
    c_suite(r, r.build, with_pairs=r.ring in ("check", "all"))


def c_sanitized(r):
    make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "tests", f"{SAN_BUILD}/clave")
    c_suite(r, SAN_BUILD, r.sanitized)


def conformance(r):
    """Runs a few of torch's own samples: of every 12th op on the CPU backend, and of every 60th op with open sizes and
    on OpenCL, where building the kernels takes most of the time. `make conformance` runs all samples."""
    command = [".venv/bin/python", "test/conformance/run.py", "--failures", "--jobs", str(max(1, os.cpu_count() // 2))]
    jobs = [Job([*command, "--device", "opencl", "--slice", "60"], c.env, c.name) for c in main_classes(r)]
    jobs += [Job([*command, "--device", "cpu", "--slice", "12"]), Job([*PYTEST, "test/conformance"])]
    jobs += [Job([*command, "--device", "cpu", "--slice", "60", "--open"])]
    r.run_all(jobs, timeout=1500)


def pytest_part(*folders, sanitized=False, by_class=False, drawn=True):
    """Returns a part that runs pytest, with one process for each argument, side by side.

    folders: folders or files, separated by blanks, then optionally "-k EXPRESSION"; the slowest argument comes first.
    sanitized: uses the sanitized build. by_class: runs on each main class of devices that the run draws. drawn: runs
    the sample of the day, except in the ring "all".
    """

    def files(argument):
        paths, _, names = argument.partition(" -k ")
        found = [str(f.relative_to(ROOT)) for a in paths.split() for f in sorted(ROOT.glob(a))]
        return [*found, *(["-k", names] if names else [])]

    def run(r):
        if sanitized:
            make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "tests")
        base = (r.sanitized if sanitized else {}) | ({"CLAVE_TEST_TURN": r.turn} if drawn and not r.everything else {})
        rows = [(base | c.env, c.name) for c in main_classes(r)] if by_class else [(base, "")]
        r.run_all([Job([*PYTEST, *files(f)], env, note) for env, note in rows for f in folders], timeout=3000)

    return run


def in_turn(r, names, turns):
    """Returns about one in `turns` of the names, a different choice each day. The ring "all" returns all names."""
    return [n for n in names if r.everything or zlib.crc32((r.turn + n).encode()) % turns == 0]


def fuzz_corpora(r):
    """Runs every fuzz target on the inputs of its corpora, on the CPU backend, and some programs on OpenCL, too."""
    make(r, f"SAN={SAN}", f"BUILD={SAN_BUILD}", "fuzz-replays")
    inputs = lambda kind: [str(f) for d in ("corpus", "found") if (f := ROOT / "test/fuzz" / d / kind).exists()]
    targets = [s.stem for s in sorted((ROOT / "test/fuzz").glob("fuzz_*.c"))]
    env = r.sanitized | {"CLAVE_DEVICE": "cpu"}
    jobs = [Job([f"{SAN_BUILD}/fuzz/replay_{t}", *inputs(t.removeprefix("fuzz_"))], env) for t in targets]
    programs = in_turn(r, [str(f.relative_to(ROOT)) for f in sorted((ROOT / "test/fuzz/found/run").iterdir())], 24)
    env = r.sanitized | {"CLAVE_DEVICE": "opencl"}
    halves = filter(None, (programs[n::2] for n in range(2)))
    jobs += [Job([f"{SAN_BUILD}/fuzz/replay_fuzz_run", *half], env, "OpenCL") for half in halves]
    r.run_all(jobs, timeout=3000)


def executorch(r):
    """Builds and tests the backend for ExecuTorch, in an environment with ExecuTorch's wheel. The ring "all" runs all
    of its tests and ExecuTorch's own tests of backends."""
    code, output = r.attempt(["ci/venv", "executorch"], None, 600)
    if code:
        return r.skip(f"no wheel of executorch: {(output.strip().splitlines() or ['ci/venv failed'])[-1]}")
    make(r, "executorch")
    command = [".venv-executorch/bin/python", *PYTEST[1:], "-W", "ignore", "test/delegate/executorch"]
    return r.run(command, name="ExecuTorch", env={} if r.everything else {"CLAVE_TEST_TURN": r.turn}, timeout=3 * 3600)


def contract(r):
    script = ROOT / "../shared/contract/check.py"
    if not script.exists():
        return r.skip("no ../shared/contract here")
    parts = (ROOT / "ci/contract-parts").read_text().split()
    return r.run([".venv/bin/python", str(script), "--clave", r.build, "--only", ",".join(parts)], name="contract")


def packages(r):
    """Tests make install, dist, deb and the wheel in clean environments, adding an op by its guide, and the site."""
    r.run(["ci/deps", "packages"], name="ci/deps packages", timeout=1800)
    pytest_part("test/packages")(r)
    r.run(["ci/venv", "docs"], name="ci/venv docs", timeout=1800)
    r.run([".venv-docs/bin/python", "docs/site.py", f"{r.build}/site"], name="docs/site.py")
    r.run([".venv-docs/bin/python", "test/docs/browse.py", f"{r.build}/site"], name="test/docs/browse.py")


def documents_and_build(r):
    """Tests the scripts of ci/, the documents and the graphs. ci/gpu_first_run times a model with bench/decoder."""
    make(r, f"{r.build}/bench/decoder")
    pytest_part("test/ci", "test/docs", "test/graphs")(r)


def lint(r):
    r.run(["ci/lint", r.build], name="ci/lint")


def smoke(r):
    """Runs the programs of `make demo`, and one family of op cases on both backends."""
    make(r, f"{r.build}/demo")
    run = lambda name, *command: r.run([f"{r.build}/{name}", *command], name=" ".join((name, *command)))
    run("demo", "examples/mnist/mnist.clv", "examples/mnist/digits/7.pgm")
    run("clave", "generate", "examples/tinylm/tinylm.clv", "--prompt", "ROMEO:", "--max-new-tokens", "20")
    command = [".venv/bin/python", "test/cases/build.py", "--out", f"{r.build}/smoke", "--only", "softmax/"]
    r.run(command, name="test/cases/build.py --only softmax/")
    for device in ("cpu", "opencl"):
        run("test/replay", f"{r.build}/smoke/index.tsv", "--device", device)


PYTHON_AND_TEXT = pytest_part(
    "test/python/test_[a-g]*.py",
    "test/python/test_[h-o]*.py",
    "test/python/test_[p-z]*.py",
    "test/llm",
    "test/tokenizer test/jinja test/cli test/examples",
    by_class=True,
)
# Tests of the commands and the code in the README and the tutorials.
PROMISES = pytest_part(
    "test/docs/test_commands.py -k README or tutorials or exist or links",
    *(f"test/python/test_{name}.py" for name in ("export", "session", "command_line", "package", "refusals")),
    "test/cli/test_commands.py test/jinja test/tokenizer",
    drawn=False,
)
IMPORTERS = pytest_part(
    "test/import/test_onnx_nodes.py -k cpu",
    "test/import/test_onnx_errors.py test/import/test_onnx_control.py",
    drawn=False,
)
IMPORTED_MODELS = pytest_part(
    "test/import/test_onnx_[o-z]*.py test/import/test_t*.py",
    "test/import/test_onnx_[a-n]*.py test/import/test_[gi]*.py",
)
IMITATED = pytest_part("test/imitated_opencl -k strict", "test/imitated_opencl -k not strict")
FAULTS = pytest_part(
    "test/fault -k allocation", "test/fault test/imitated_opencl/test_answers.py -k not allocation", sanitized=True
)
CASES, SANITIZED = "torch's answers", "sanitized C suite"

# name, function, the first ring that runs the part, names of the parts that must have ended before it starts
PARTS = [
    ("lint", lint, "quick", []),
    ("C suite", c_plain, "quick", []),
    ("smoke", smoke, "quick", []),
    (SANITIZED, c_sanitized, "more", []),
    (CASES, replays.build_cases, "check", []),
    ("promises", PROMISES, "check", []),
    ("python and text", PYTHON_AND_TEXT, "more", []),
    ("compiled programs", long.compiled, "more", []),
    ("ExecuTorch", executorch, "more", []),
    ("planted faults", long.mutants, "more", [CASES, SANITIZED, "ExecuTorch"]),
    ("documents and build", documents_and_build, "more", ["ExecuTorch"]),
    ("outside", pytest_part("test/outside"), "more", []),
    ("importers", IMPORTERS, "check", []),
    ("imported models", IMPORTED_MODELS, "more", []),
    ("op cases", replays.replay_all, "check", [CASES, SANITIZED]),
    ("emulated instructions", replays.emulated, "more", [CASES]),
    ("conformance", conformance, "more", []),
    ("faults", FAULTS, "more", [CASES, SANITIZED]),
    ("random graphs", long.graphs, "check", []),
    ("imitated devices", IMITATED, "check", [CASES]),
    ("oclgrind", replays.oclgrind, "more", [CASES]),
    ("contract", contract, "check", []),
    ("soak", long.soak, "more", []),
    ("fuzz corpora", fuzz_corpora, "more", ["planted faults"]),
    ("data races", replays.data_races, "all", []),
    ("other processors", replays.processors, "all", []),
    ("Windows", replays.windows, "all", []),
    ("Android", replays.android, "all", []),
    ("op cases everywhere", replays.replay_everywhere, "all", []),
    ("whole conformance", long.conformance_whole, "all", []),
    ("model families", long.families, "all", []),
    ("llama.cpp", long.llama_cpp, "all", []),
    ("GPU compilers", long.gpu_compilers, "all", []),
    ("fuzzing", long.fuzzing, "all", []),
    ("packages", packages, "all", []),
    ("speed", long.speed, "all", []),
]


def sanitized_only(r, san, device):
    """Runs `make check SAN=... DEVICE=...`: the C suite and the op cases of a build on a device."""
    c_suite(r, r.build, r.sanitized if san else None)
    replays.build_cases(r)
    for d in [device] if device else ["cpu", "opencl"]:
        replays.replay(r, d, "--fallback")


def choose(args):
    """Returns (name, function, names of parts that must have ended before) of each part to run.

    The parts of the ring "all" run one after the other, because some of them measure time.
    """
    san, device = os.environ.get("SAN"), os.environ.get("DEVICE")
    if san or device:
        name = f"C suite and op cases ({san or 'plain'}, {device or 'all devices'})"
        return [(name, lambda r: sanitized_only(r, san, device), [])]
    names = [name for name, *_ in PARTS]
    is_wanted = lambda name: any(w == name if w in names else w in name for w in args.only.split(","))
    rings = RINGS[: RINGS.index(args.ring) + 1]
    rows = [row for row in PARTS if (is_wanted(row[0]) if args.only else row[2] in rings)]
    return [(name, f, names[: names.index(name)] if args.ring == "all" else after) for name, f, _, after in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ring", choices=RINGS, help='default: "check", or with --only "more"')
    parser.add_argument("--only", help="names of parts, or pieces of names, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the parts, and the first ring that runs each")
    args = parser.parse_args()
    args.ring = args.ring or ("more" if args.only else "check")
    if args.list:
        print("\n".join(f"{ring:6} {name}" for name, _, ring, _ in PARTS))
        return 0
    os.chdir(ROOT)
    home = tempfile.mkdtemp(prefix="clave-check-")
    r = Runner(os.environ.get("BUILD") or "build", home, args.ring)
    begin = time.monotonic()
    try:
        r.part("build", lambda r: make(r, "all", "tests"))
        if r.everything:
            r.resume()
        if not r.failed:
            r.side_by_side(choose(args))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(r.times(time.monotonic() - begin))
    print(r.close_skips())
    print(f"{r.passed} passed, {r.failed} failed")
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
