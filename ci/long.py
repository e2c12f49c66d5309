"""The long parts of ci/check.py. `make check-more` runs a small share of some of them."""

import os
import shutil
import zlib

import classes

from runner import PYTEST, ROOT, Job, make

PYTHON = ".venv/bin/python"
CROSS = "test/compile/test_cross.py"


def conformance_whole(r):
    """Runs every sample of torch's operator database, and a few of each op with open sizes, on the CPU backend and on
    OpenCL as each of the main classes. docs/reference/coverage.md is made from the records of the last run, which has
    the class "cpu"."""
    for device, env, note in (("cpu", {}, ""), *(("opencl", c.env, c.name) for c in reversed(classes.MAIN))):
        command = [PYTHON, "test/conformance/run.py", "--device", device, "--jobs", str(os.cpu_count()), "--failures"]
        r.run_all([Job(command, env, note)], timeout=4 * 3600)
        r.run_all([Job([*command, "--open", "--slice", "1"], env, f"{note} open sizes".strip())], timeout=4 * 3600)


def families(r):
    """Runs models of transformers, diffusers and timm, with packages that .venv does not have, on each main class. The
    last run, with the class "cpu", also covers open sizes and each implementation of attention, for
    docs/reference/coverage.md."""
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
    """Compares GGUF files and their vocabularies with llama.cpp, which pip builds in minutes."""
    missing = [tool for tool in ("cmake", "c++") if not shutil.which(tool)]
    if missing:
        return r.skip(f"no llama_cpp: building it needs {missing[0]}")
    r.run(["ci/venv", "llama"], name="ci/venv llama", timeout=3600)
    tests = ["test/python/test_gguf_llama_cpp.py", "test/tokenizer/test_gguf_llama_cpp_tokenizer.py"]
    tests += ["test/ci/test_bench_llama.py"]
    return r.run([".venv-llama/bin/python", *PYTEST[1:], *tests], name="llama.cpp")


def gpu_compilers(r):
    """Compiles kernels by offline compilers for GPUs, and compares scratch and registers with committed bounds."""
    r.run([PYTHON, "ci/vendor_compile", "--check"], name="ci/vendor_compile --check", timeout=3600)


def fuzzing(r):
    """Fuzzes each target for a minute, starting from its corpus."""
    r.run(["make", "--no-print-directory", "fuzz", "FUZZ_SECONDS=60", "FUZZ_GRAPHS=0"], name="make fuzz", timeout=3600)


def soak(r):
    """Runs the soak test: for seconds in `make check-more`, for minutes in `make check-all`."""
    minutes = "5" if r.everything else "0.07"
    r.run(["ci/soak", r.build, minutes, "cpu", "opencl"], name=f"soak of {minutes} minutes", timeout=4000)


def graphs(r):
    """Compares random graphs with torch. `make check-all` runs 5,000 graphs of the day, compiled, too; the other rings
    run the same few graphs each time."""
    command = [PYTHON, "test/graphs/run.py", "--seed"]
    if not r.everything:
        command += ["0", "--count", "20" if r.is_fixed else "60", "--every", "6"]
        return r.run(command, name="random graphs", timeout=900)
    seed, share = zlib.crc32(r.turn.encode()) % 2**24, 250  # torch's memory grows, so each share has its own process
    for first in range(seed, seed + 5000, share):
        more = [str(first), "--count", str(share), "--compiled"]
        r.run([*command, *more], name=f"random graphs from {first}", timeout=7200)
    return None


def compiled(r):
    """Compares programs compiled to C with the interpreter, 500 random programs among them. `make check-all` also runs
    emulated processors, and compiles random graphs with gcc, and with clang under sanitizers."""
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
    """Plants faults, each of which a test must notice: all in `make check-all`, two a day in `make check-more`. Uses
    the folders build and build/san."""
    command = [PYTHON, "test/mutants/run.py"]
    r.run([*command, "--check"], name="planted faults, whether all apply")
    command += [] if r.everything else ["--some", "2"]
    r.run(command, name=" ".join(command), timeout=4 * 3600)


def speed(r):
    """Measures the rows of docs/performance.md that have a bound."""
    make(r, "bench-programs")
    r.run(["ci/venv", "bench"], name="ci/venv bench", timeout=3600)
    r.run([PYTHON, "bench/bench.py", "--check", "--build", r.build], name="bench.py --check", timeout=2 * 3600)
