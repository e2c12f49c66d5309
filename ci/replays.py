"""The parts of ci/check.py that replay the op cases (test/cases), on every device and class of devices (classes.py)."""

import contextlib
import json
import os
import pathlib
import re
import tempfile
import zlib

import classes
import variants

from runner import PYTEST, ROOT, SAN_BUILD, Job, make, tests_in

TSAN_BUILD = "build/tsan"
OCLGRIND = (str(ROOT / "ci/oclgrind"),)
FEW_AND_MANY = (5, 12)  # rows of products: few enough for one work-item's tile on a GPU, and more
PART_BUILD = "build/part"  # its self-check compares only a part of operands of more than 256 bytes


def main_classes(r):
    """Returns the main class of the day, as a list. The ring "all" has both classes."""
    return classes.MAIN if r.everything else [classes.MAIN[zlib.crc32(r.turn.encode()) % len(classes.MAIN)]]


def build_cases(r):
    r.run([".venv/bin/python", "test/cases/build.py", "--out", f"{r.build}/cases"], "test/cases/build.py", timeout=1800)
    r.run([f"{r.build}/test/api/test_builder_cases", f"{r.build}/cases"], name="test_builder_cases")


def replay_job(r, device, *options, build=None, env=(), note=""):
    """Returns a job that replays the op cases on a device. options: of test/replay.c, such as a choice of cases. build:
    the folder of another build. env: further environment variables."""
    build = build or r.build
    sanitized = build != r.build or os.environ.get("SAN")
    env = (r.sanitized if sanitized else {}) | dict(env)
    command = [f"{build}/test/replay", f"{r.build}/cases/index.tsv", "--device", device, "--turn", r.turn, *options]
    return Job(command, env, note)


def replay(r, device, *options, build=None):
    """Replays all op cases on a device, in one process for each CPU."""
    n = os.cpu_count()
    r.run_all([replay_job(r, device, "--part", f"{k}/{n}", *options, build=build) for k in range(n)], timeout=3000)


def replay_classes(r):
    """Replays one in 36 of the op cases on OpenCL as each of the main classes. The ring "all" replays all."""
    n, jobs = os.cpu_count(), []
    for turn, c in enumerate(classes.MAIN):
        parts = [f"{k}/{n}" for k in range(n)] if r.everything else [f"{36 * k + turn}/{36 * n}" for k in range(n)]
        jobs += [replay_job(r, "opencl", "--part", part, env=c.env, note=c.name) for part in parts]
    r.run_all(jobs, timeout=3000)


def replay_checked(r):
    """Replays a sample, and large eigenvalue problems, with a self-check of kernels that makes any difference from the
    CPU backend an error, on a main class. The ring "all" replays all cases on both classes."""
    jobs, parts = [], 1 if r.everything else 72
    for turn, c in enumerate(main_classes(r)):
        env = c.env | {"CLAVE_SELF_CHECK": "strict"}
        for some in (("--part", f"{turn % parts}/{parts}"), ("--only", "linalg/eigh_large")):
            jobs.append(replay_job(r, "opencl", *some, env=env, note=f"self-check, {c.name}"))
    r.run_all(jobs, timeout=3000)


def replay_limited(r, share):
    """Replays one in `share` of the op cases on about half of the limited classes of devices, a different half each
    day. The ring "all" uses all classes."""
    make(r, f"{r.build}/stub/libOpenCL.so.1")
    env = lambda c: classes.environment(c, ROOT / r.build)
    options = "opencl", "--part", f"0/{share}"
    some = [c for c in classes.LIMITED if r.everything or zlib.crc32((r.turn + c.name).encode()) % 2 == 0]
    r.run_all([replay_job(r, *options, *c.replay, env=env(c), note=c.name) for c in some], timeout=3000)


def replay_processors(r):
    """Replays one in 12 of the op cases, and products and convolutions, with the CPU backend's kernels for limited
    processors. The ring "all" replays all cases."""
    n, share = os.cpu_count(), 1 if r.everything else 12
    chosen = [("--part", f"{share * k}/{share * n}") for k in range(n)]
    chosen += [("--only", name) for name in ("encoded/", "matmul/constant", "conv/weights")]
    r.run_all([replay_job(r, "cpu", *some, env=c.env, note=c.name) for c in classes.PROCESSORS for some in chosen])


def replay_cached(r):
    """Replays a sample twice: it builds its kernels, then loads their binaries from the cache on disk."""
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        for what in ("kernels built", "kernels from binaries"):
            r.run_all([replay_job(r, "opencl", "--part", "1/80", env={"CLAVE_CACHE_DIR": cache}, note=what)])


def replay_warming(r):
    """Replays a sample, and control flow, on the CPU backend until the session moves to the device. The ring "all"
    replays all cases."""
    parts = 1 if r.everything else 160
    chosen = [("--part", f"0/{parts}"), ("--only", "control/")]
    r.run_all([replay_job(r, "opencl", "--warm-up", *options, note="warming up") for options in chosen], timeout=3000)


def forced_rows(r, families):
    """Returns (class, family, variant, op cases) of all variants, in an order that changes with the day."""
    named = [(f, v, cases) for f, (names, cases) in families.items() for v in names if v != "rule"]
    rows = [(c, *row) for c in classes.MAIN for row in named]
    return sorted(rows, key=lambda t: zlib.crc32(f"{r.turn} {t}".encode()))


def replay_variants(r):
    """Replays op cases with a variant of a kernel that no rule chooses for their sizes: one convolution variant of the
    CPU backend and one variant on OpenCL, different ones each day. Then ci/same_bits.py compares bits of variants. The
    ring "all" replays every variant."""
    tables = [t for t in forced_rows(r, variants.OPENCL) if t[-1] != variants.FAST]
    names, cases = variants.CPU["conv"]
    for variant in names if r.everything else [names[zlib.crc32(r.turn.encode()) % len(names)]]:
        with variants.forced(ROOT / r.build / "clave", "cpu", [("conv", variant)], r.env) as env:
            r.run_all([replay_job(r, "cpu", "--only", f"{cases}tiled", env=env, note=f"conv: {variant}")], timeout=3000)
    for c, family, variant, cases in tables if r.everything else tables[:1]:
        share = (6 if r.everything else 400) if not cases else 1 if r.everything else 32
        only = ("--part", f"0/{share}", *(("--only", cases) if cases else ()))
        with variants.forced(
            ROOT / r.build / "clave", "opencl", [(family, variant)], r.env | c.env | variants.needs(variant)
        ) as env:
            job = replay_job(r, "opencl", *only, env=env, note=f"{c.name}, {family}: {variant}")
            r.run_all([job], timeout=3000)
    some = ("0", "--part", "0/1") if r.everything else ("2", "--part", "0/40")
    bits = [".venv/bin/python", "ci/same_bits.py", r.build, *some, "--turn", r.turn]
    r.run(bits, name="ci/same_bits.py", timeout=3000)


def replay_fixed(r):
    """Replays all op cases on the CPU backend, and one in 72 on OpenCL as each of the main classes."""
    on_opencl = [replay_job(r, "opencl", "--part", "0/72", env=c.env, note=c.name) for c in classes.MAIN]
    r.run_all([replay_job(r, "cpu", "--poison"), *on_opencl])


def replay_all(r):
    if r.is_fixed:
        return replay_fixed(r)
    replay(r, "cpu", "--poison")
    replay(r, "cpu", "--optimize")
    replay_processors(r)
    replay_classes(r)
    replay_checked(r)
    replay_limited(r, 4 if r.everything else 300)
    replay_cached(r)
    replay_warming(r)
    replay_variants(r)
    replay(r, "cpu", build=SAN_BUILD)


def replay_in_part(r):
    """Replays a sample in a build whose self-check compares nearly every op in part, as it otherwise does only for
    large operands."""
    runner = f"{PART_BUILD}/test/replay"
    make(r, "CFLAGS=-O2 -g1 -DCLAVE_PART_BYTES=256 -DCLAVE_IN_PLACE_BYTES=1", f"BUILD={PART_BUILD}", runner)
    env = {"CLAVE_SELF_CHECK": "strict"}
    jobs = [replay_job(r, "opencl", "--part", f"{k}/4", build=PART_BUILD, env=env, note="in part") for k in range(2)]
    r.run_all(jobs, timeout=3000)


def replay_everywhere(r):
    """Replays op cases on every OpenCL device of the machine, on rusticl and on Intel's runtime, on the OpenCL backend
    under sanitizers, and with the self-check in part."""
    replay(r, "opencl", build=SAN_BUILD)
    replay_in_part(r)
    devices = json.loads(r.output([f"{r.build}/clave", "devices", "--json"]))
    for i in range(1, sum(d["kind"] == "opencl" for d in devices)):
        replay(r, f"opencl:{i}", "--fallback")
    # docs/reference/devices.md has the results, and the reason why rusticl does not run the kernels for CPUs.
    rusticl = {"CLAVE_DEVICE_CLASS": "gpu", "RUSTICL_ENABLE": "llvmpipe"}
    jobs = [replay_job(r, "opencl:llvmpipe", "--part", "0/5", "--fallback", env=rusticl, note="rusticl")]
    for c in classes.MAIN:
        intel = replay_job(r, "opencl:0")
        jobs.append(Job(["ci/intel_opencl", *intel.command], intel.env | c.env, f"Intel's runtime, {c.name}"))
    pytest, note = ["ci/intel_opencl", *PYTEST], "Intel's runtime"
    # Only Intel's implementation, among those tested, has cl_khr_integer_dot_product and sub-groups.
    jobs.append(Job([*pytest, "test/python/test_fast_products.py", "-k", "every_form or same_bits or khr"], note=note))
    jobs.append(Job([*pytest, "test/python/test_gpu_products.py", "-k", "sums_of_subgroups"], note=note))
    jobs.append(Job([*pytest, "test/examples", "test/fault/test_faults.py"], {"PYTHONPATH": "python"}, note))
    samples = [".venv/bin/python", "test/conformance/run.py", "--device", "opencl", "--slice", "45", "--failures"]
    samples += ["--jobs", "1", "--out", f"{r.build}/conformance-intel"]
    jobs.append(Job(["ci/intel_opencl", *samples], note=note))
    r.run_all(jobs, timeout=4000)


# Models of each processor that qemu emulates. The two of aarch64 have all extensions (dot products and matrix products
# of bytes, BF16) and no extension.
PROCESSORS = {"aarch64": ("max", "cortex-a57"), "armhf": ("max",), "riscv64": ("rv64",)}


def processor_jobs(r, processor, models):
    """Yields jobs of a processor. The first model runs the C tests that need no device and start no process, the others
    only the tests of the CPU backend. Each model replays another one in 4 of the op cases."""
    build = f"build/{processor}"
    left_out = ["/api/", "test_opencl", "test_process", "test_arguments", "test_loaded_code"]
    # qemu-arm passes a handler of SIGBUS the host's address instead of the guest's (seen with qemu 7.2).
    left_out += ["test_file_guard"] if processor == "armhf" else []
    tests = [t for t in tests_in(build) if not any(name in t for name in left_out)]
    for k, cpu in enumerate(models):
        of_cpu = [t for t in tests if k == 0 or "/backend/" in t]
        commands = [replay_job(r, "cpu", "--part", f"{k}/4", build=build).command, *([t] for t in of_cpu)]
        env = {"CPU": cpu, "CLAVE_DEVICE": "cpu", "CLAVE_TEST_TURN": r.turn}
        yield from (Job(["ci/cross", processor, "run", *c], env, f"{processor} {cpu}") for c in commands)


def processors(r):
    """Runs C tests and op cases on the CPU backend of other processors, which qemu emulates. Tests that draw a sample
    of the day (CLAVE_TEST_TURN) do so in every ring, because emulated processors are at least ten times slower."""
    for processor, models in PROCESSORS.items():
        r.run(["ci/cross", processor, "build", "tests"], name=f"ci/cross {processor} build tests", timeout=3600)
        r.run_all(list(processor_jobs(r, processor, models)), timeout=3600)


def windows(r):
    """Runs the C tests that need nothing of POSIX, one in 40 of the op cases on the CPU backend, one in 400 on OpenCL
    and the tool on Windows, which wine imitates. Wine's OpenCL.dll passes the calls to this system's drivers."""
    build, some = "build/windows", {"CLAVE_TEST_SHARE": "20", "CLAVE_TEST_TURN": r.turn}
    r.run(["ci/cross", "windows", "build", "all", "tests"], name="ci/cross windows build all tests", timeout=3600)
    runner = f"{build}/test/replay.exe"
    jobs = [Job(["ci/cross", "windows", "run", test], some | {"CLAVE_DEVICE": "cpu"}) for test in tests_in(build)]
    for device, parts in (("cpu", 40), ("opencl", 400)):
        replayed = replay_job(r, device, "--part", f"0/{parts}").command[1:]
        jobs.append(Job(["ci/cross", "windows", "run", runner, *replayed], note=f"wine, {device}"))
    r.run_all([*jobs, Job([*PYTEST, "test/windows"])], timeout=3600)


def android(r):
    """Compiles library and tool for Android, and looks up the functions that they need in Android's libraries."""
    r.run(["ci/android"], name="ci/android", timeout=3600)


def emulated(r):
    """Runs the C tests of the CPU backend and one in 8 of the op cases with the kernels for AVX-512 and AMX, on any
    x86-64 processor with AVX2. test/emulated implements their instructions in plain C."""
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        return r.skip("no AVX2 to emulate AVX-512 with")
    make(r, "emulated")
    build = f"{r.build}/emulated"
    jobs = [Job([test], {"CLAVE_TEST_TURN": r.turn}) for test in tests_in(build)]
    return r.run_all([*jobs, replay_job(r, "cpu", "--part", "0/8", build=build)], timeout=3000)


def data_races(r):
    """Runs the C tests, op cases and concurrent sessions under ThreadSanitizer."""
    make(r, "SAN=thread", f"BUILD={TSAN_BUILD}", "tests")
    env = r.sanitized | {"CLAVE_THREADS": "4"}
    jobs = [Job([test], env) for test in tests_in(TSAN_BUILD)]
    jobs += [replay_job(r, "cpu", build=TSAN_BUILD, env=env)]
    jobs += [replay_job(r, "opencl", "--part", "0/20", build=TSAN_BUILD, env=env)]
    jobs += [replay_job(r, "opencl", "--warm-up", "--part", "1/40", build=TSAN_BUILD, env=env)]
    stub = classes.environment(classes.DeviceClass("stub OpenCL", classes.STUB), ROOT / r.build)
    jobs += [Job([f"{TSAN_BUILD}/test/api/test_clients"], env | stub, "stub OpenCL")]
    soak = [f"{TSAN_BUILD}/test/soak", "--seconds", "20", "--scratch"]
    jobs += [Job([*soak, f"{r.home}/talk-{device}", "--device", device], env) for device in ("cpu", "opencl")]
    r.run_all(jobs, timeout=1800)


def oclgrind(r):
    """Replays small op cases under oclgrind: one in 24 with the kernels of GPUs, which have barriers, and one in 72
    with those of CPUs.

    Every run includes the cases with control flow as a GPU, because they run the same kernels with other sizes, buffers
    and arguments. It also includes products by packed weights as a CPU: oclgrind's vectors have 4 floats, so their
    panels are narrower than with PoCL.
    """
    n, jobs = os.cpu_count(), []
    for c in reversed(classes.MAIN):
        parts = n if r.everything else 24 * n if c.name == "gpu" else 72 * n
        chosen = [("--part", f"{k}/{parts}") for k in range(n)]
        if not r.everything:
            chosen.append(("--only", "control/" if c.name == "gpu" else "matmul/constant"))
        for cases in chosen:
            job = replay_job(r, "opencl:0", "--small", "20000", "--fallback", *cases)
            jobs.append(Job([*OCLGRIND, *job.command], job.env | c.env, f"oclgrind, {c.name}"))
    with contextlib.ExitStack() as tables:
        r.run_all(jobs + oclgrind_variants(r, tables), timeout=4000)


def is_sharing(c, family, variant):
    """True if oclgrind runs the variant on this class."""
    pattern, _, of_gpus = variants.SHARING.get(family, ("^$", 0, False))
    return bool(re.search(pattern, variant)) and (c.name == "gpu" or not of_gpus)


def oclgrind_variants(r, tables):
    """Returns jobs that force a variant whose work-items share the memory that they read or add to: one a day, or in
    the ring "all" every one. tables: keeps the folders of the tuning tables until the jobs have run."""
    tool, jobs = str(ROOT / r.build / "clave"), []
    rows = [row for row in forced_rows(r, variants.OPENCL) if is_sharing(*row[:3])]
    some = [row for row in rows if not variants.needs(row[2])][:1]  # warps in OpenCL C take minutes under oclgrind
    for c, family, variant, cases in rows if r.everything else some:
        env = r.env | c.env | variants.needs(variant)
        forced = variants.forced(tool, "opencl:0", [(family, variant)], env, OCLGRIND)
        env, note = tables.enter_context(forced), f"oclgrind, {c.name}, {family}: {variant}"
        if cases == variants.FAST:
            env |= {"CLAVE_PRECISION": "fast"}
            programs = [f"{r.build}/cases/encoded/rows_{n}.clv" for n in FEW_AND_MANY]
            commands = [[tool, "bench", p, "--device", "opencl:0", "--runs", "1"] for p in programs]
        else:
            share = variants.SHARING[family][1]
            part = f"0/{max(1, share // 6) if r.everything else share}"
            some = ("--small", "20000", "--fallback", "--part", part, "--only", cases)
            commands = [replay_job(r, "opencl:0", *some).command]
        jobs += [Job([*OCLGRIND, *command], env, note) for command in commands]
    return jobs
