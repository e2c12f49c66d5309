"""The parts of ci/check.py that are long: all of what `make check-more` runs a little of."""

import os
import shutil
import zlib

import classes

from runner import PYTEST, ROOT, Job, make

PYTHON = ".venv/bin/python"
CROSS = "test/compile/test_cross.py"


def conformance_whole(r):
    """Every sample of torch's operator database, and a few of each op with open sizes, on the CPU backend and on OpenCL
    as each of the main classes; the last one's records, of the machine's own class, are those that
    docs/reference/coverage.md is
    made of."""
    for device, env, note in (("cpu", {}, ""), *(("opencl", c.env, c.name) for c in reversed(classes.MAIN))):
        command = [PYTHON, "test/conformance/run.py", "--device", device, "--jobs", str(os.cpu_count()), "--failures"]
        r.run_all([Job(command, env, note)], timeout=4 * 3600)
        r.run_all([Job([*command, "--open", "--slice", "1"], env, f"{note} open sizes".strip())], timeout=4 * 3600)


def families(r):
    """Models of transformers, diffusers and timm, with packages that .venv does not have; as the machine's own class,
    the last one, also with open sizes and each attention: what docs/reference/coverage.md is made of."""
    r.run(["ci/venv", "families"], name="ci/venv families", timeout=3600)
    python = ".venv-families/bin/python"
    for c in reversed(classes.MAIN):
        more = ["--modes", "fixed,eager,sdpa", "--json", f"{r.build}/families.json"] if c is classes.MAIN[0] else []
        tests = ["test/python/test_families.py", "test/python/test_quantized.py"]
        jobs = [
            Job([python, *PYTEST[1:], *tests], c.env, c.name),
            Job([python, "test/families/run.py", *more], c.env, c.name),
        ]
        r.run_all(jobs, timeout=4 * 3600)


def llama_cpp(r):
    """GGUF files and their vocabularies against llama.cpp, which pip builds in minutes."""
    missing = [tool for tool in ("cmake", "c++") if not shutil.which(tool)]
    if missing:
        return r.skip(f"no llama_cpp: {missing[0]} builds it")
    r.run(["ci/venv", "llama"], name="ci/venv llama", timeout=3600)
    tests = ["test/python/test_gguf_llama_cpp.py", "test/tokenizer/test_gguf_llama_cpp_tokenizer.py"]
    tests += ["test/ci/test_bench_llama.py"]
    return r.run([".venv-llama/bin/python", *PYTEST[1:], *tests], name="llama.cpp")


def fuzzing(r):
    """Each target for a minute, from its corpus on."""
    r.run(["make", "--no-print-directory", "fuzz", "FUZZ_SECONDS=60", "FUZZ_GRAPHS=0"], name="make fuzz", timeout=3600)


def soak(r):
    """Seconds in `make check-more`, minutes in `make check-all`."""
    minutes = "5" if r.everything else "0.07"
    r.run(["ci/soak", r.build, minutes, "cpu", "opencl"], name=f"soak of {minutes} minutes", timeout=4000)


def graphs(r):
    """Random graphs, torch as oracle: always the same up to `make check-more`, 5,000 by day, compiled too, in `make
    check-all`."""
    command = [PYTHON, "test/graphs/run.py", "--seed"]
    if not r.everything:
        command += ["0", "--count", "20" if r.is_fixed else "60", "--every", "6"]
        return r.run(command, name="random graphs", timeout=900)
    seed, share = zlib.crc32(r.turn.encode()) % 2**24, 250  # torch's processes grow: new ones for each share
    for first in range(seed, seed + 5000, share):
        more = [str(first), "--count", str(share), "--compiled"]
        r.run([*command, *more], name=f"random graphs from {first}", timeout=7200)
    return None


def compiled(r):
    """Programs as C beside the interpreter, 500 random ones among them; in
    `make check-all` also on emulated processors, and random graphs (more are in `graphs`) under sanitizers."""
    env = {} if r.everything else {"CLAVE_TEST_TURN": r.turn}
    graphs = [PYTHON, "test/compile/graphs.py", "--count"]
    files = sorted(str(f.relative_to(ROOT)) for f in (ROOT / "test/compile").glob("test_*.py"))
    files.remove(CROSS)
    jobs = [Job([*PYTEST, f], env) for f in files]
    jobs.append(Job([PYTHON, "test/compile/programs.py"]))
    if r.everything:
        r.run(["ci/deps", "cross"], name="ci/deps cross", timeout=1800)
        jobs.append(Job([*PYTEST, CROSS]))
        jobs.append(Job([*graphs, "100"]))
        jobs.append(Job([*graphs, "100", "--compiler", "clang", "--sanitize"]))
    r.run_all(jobs, timeout=7200)


def mutants(r):
    """Planted faults, each of which a test must notice: two by turns in `make check-more`. Use build and build/san."""
    command = [PYTHON, "test/mutants/run.py"]
    r.run([*command, "--check"], name="planted faults, whether all apply")
    command += [] if r.everything else ["--some", "2"]
    r.run(command, name=" ".join(command), timeout=4 * 3600)


def speed(r):
    """The tables of docs/performance.md that have a bound."""
    make(r, "bench-programs")
    r.run(["ci/venv", "bench"], name="ci/venv bench", timeout=3600)
    r.run([PYTHON, "bench/bench.py", "--check", "--build", r.build], name="bench.py --check", timeout=2 * 3600)
