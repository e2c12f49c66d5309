"""The parts of ci/check.py that replay the op cases (test/cases) on every device and class of devices at hand."""

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
FEW_AND_MANY = (5, 12)  # rows of products: of tiles as high as a GPU's work-item takes, and of more
PART_BUILD = "build/part"  # compares operands of more than 256 bytes in part


def main_classes(r):
    """The classes that a part runs on which takes one by turns; ring all: both."""
    return classes.MAIN if r.everything else [classes.MAIN[zlib.crc32(r.turn.encode()) % len(classes.MAIN)]]


def build_cases(r):
    r.run([".venv/bin/python", "test/cases/build.py", "--out", f"{r.build}/cases"], "test/cases/build.py", timeout=1800)
    r.run([f"{r.build}/test/api/test_builder_cases", f"{r.build}/cases"], name="test_builder_cases")


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
    """One in 36 of the op cases on OpenCL as each of the main classes, which by the commit; ring all: all as both."""
    n, jobs = os.cpu_count(), []
    for turn, c in enumerate(classes.MAIN):
        parts = [f"{k}/{n}" for k in range(n)] if r.everything else [f"{36 * k + turn}/{36 * n}" for k in range(n)]
        jobs += [replay_job(r, "opencl", "--part", part, env=c.env, note=c.name) for part in parts]
    r.run_all(jobs, timeout=3000)


def replay_checked(r):
    """A sample, and products whose sums cancel, with kernels of one of the main classes compared with the CPU
    backend's, where any difference is an error. ring all: all, of both."""
    jobs, parts = [], 1 if r.everything else 72
    for turn, c in enumerate(main_classes(r)):
        env = c.env | {"CLAVE_SELF_CHECK": "strict"}
        for some in (("--part", f"{turn % parts}/{parts}"), ("--only", "linalg/eigh_large")):
            jobs.append(replay_job(r, "opencl", *some, env=env, note=f"self-check, {c.name}"))
    r.run_all(jobs, timeout=3000)


def replay_lesser(r, share):
    """One in `share` of the op cases on every other lesser class of devices, which by the commit; ring all: on each."""
    make(r, f"{r.build}/stub/libOpenCL.so.1")
    env = lambda c: classes.environment(c, ROOT / r.build)
    options = "opencl", "--part", f"0/{share}"
    some = [c for c in classes.LESSER if r.everything or zlib.crc32((r.turn + c.name).encode()) % 2 == 0]
    r.run_all([replay_job(r, *options, *c.replay, env=env(c), note=c.name) for c in some], timeout=3000)


def replay_processors(r):
    """One in 12 of the op cases, and products, on the CPU backend as lesser processors have it; ring all: all."""
    n, share = os.cpu_count(), 1 if r.everything else 12
    chosen = [("--part", f"{share * k}/{share * n}") for k in range(n)]
    chosen += [("--only", name) for name in ("encoded/", "matmul/constant", "conv/weights")]
    r.run_all([replay_job(r, "cpu", *some, env=c.env, note=c.name) for c in classes.PROCESSORS for some in chosen])


def replay_cached(r):
    """A sample that builds its kernels, and again from the binaries kept on disk."""
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        for what in ("kernels built", "kernels from binaries"):
            r.run_all([replay_job(r, "opencl", "--part", "1/80", env={"CLAVE_CACHE_DIR": cache}, note=what)])


def replay_warming(r):
    """A sample, and control flow, that the CPU backend answers until the session moves to the device. ring all: all."""
    parts = 1 if r.everything else 160
    chosen = [("--part", f"0/{parts}"), ("--only", "control/")]
    r.run_all([replay_job(r, "opencl", "--warm-up", *options, note="warming up") for options in chosen], timeout=3000)


def forced_rows(r, families):
    """(class, family, variant, op cases) of all of them, in an order that changes with the commit."""
    named = [(f, v, cases) for f, (names, cases) in families.items() for v in names if v != "rule"]
    rows = [(c, *row) for c in classes.MAIN for row in named]
    return sorted(rows, key=lambda t: zlib.crc32(f"{r.turn} {t}".encode()))


def replay_variants(r):
    """Op cases with variants of kernels that no rule takes for their sizes, on OpenCL and, of convolutions and for
    bits, on the CPU backend; which by the commit. ring all: every one."""
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
    """All op cases on the CPU backend, and one in 72 on OpenCL as each of the main classes."""
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
    replay_lesser(r, 4 if r.everything else 300)
    replay_cached(r)
    replay_warming(r)
    replay_variants(r)
    replay(r, "cpu", build=SAN_BUILD)


def replay_in_part(r):
    """A sample with the self-check comparing a part of nearly every op, which it does with large operands only."""
    runner = f"{PART_BUILD}/test/replay"
    make(r, "CFLAGS=-O2 -g1 -DCLAVE_PART_BYTES=256 -DCLAVE_IN_PLACE_BYTES=1", f"BUILD={PART_BUILD}", runner)
    env = {"CLAVE_SELF_CHECK": "strict"}
    jobs = [replay_job(r, "opencl", "--part", f"{k}/4", build=PART_BUILD, env=env, note="in part") for k in range(2)]
    r.run_all(jobs, timeout=3000)


def replay_everywhere(r):
    """All devices at hand, the OpenCL backend under sanitizers, the self-check in part."""
    replay(r, "opencl", build=SAN_BUILD)
    replay_in_part(r)
    devices = json.loads(r.output([f"{r.build}/clave", "devices", "--json"]))
    for i in range(1, sum(d["kind"] == "opencl" for d in devices)):
        replay(r, f"opencl:{i}", "--fallback")
    # docs/reference/devices.md has what came of it, and why rusticl gets no kernels for CPUs.
    rusticl = {"CLAVE_DEVICE_CLASS": "gpu", "RUSTICL_ENABLE": "llvmpipe"}
    jobs = [replay_job(r, "opencl:llvmpipe", "--part", "0/5", "--fallback", env=rusticl, note="rusticl")]
    for c in classes.MAIN:
        intel = replay_job(r, "opencl:0")
        jobs.append(Job(["ci/intel_opencl", *intel.command], intel.env | c.env, f"Intel's runtime, {c.name}"))
    pytest, note = ["ci/intel_opencl", *PYTEST], "Intel's runtime"
    # It alone of those at hand has cl_khr_integer_dot_product, and sub-groups.
    jobs.append(Job([*pytest, "test/python/test_fast_products.py", "-k", "every_form or same_bits or khr"], note=note))
    jobs.append(Job([*pytest, "test/python/test_gpu_products.py", "-k", "sums_of_subgroups"], note=note))
    jobs.append(Job([*pytest, "test/examples", "test/fault/test_faults.py"], {"PYTHONPATH": "python"}, note))
    samples = [".venv/bin/python", "test/conformance/run.py", "--device", "opencl", "--slice", "45", "--failures"]
    samples += ["--jobs", "1", "--out", f"{r.build}/conformance-intel"]
    jobs.append(Job(["ci/intel_opencl", *samples], note=note))
    r.run_all(jobs, timeout=4000)


# Models of each processor that qemu emulates: those of aarch64 with all extensions (dot products and matrices of bytes,
# BF16) and with none.
PROCESSORS = {"aarch64": ("max", "cortex-a57"), "armhf": ("max",), "riscv64": ("rv64",)}


def processor_jobs(r, processor, models):
    """The C tests that need no device and start no processes on the first model, those of the backend on each, and
    one in 4 of the op cases on each, others on the next day."""
    build = f"build/{processor}"
    left_out = ["/api/", "test_opencl", "test_process", "test_arguments", "test_loaded_code"]
    # qemu-arm tells a handler of SIGBUS the host's address instead of the guest's (seen with qemu 7.2).
    left_out += ["test_file_guard"] if processor == "armhf" else []
    tests = [t for t in tests_in(build) if not any(name in t for name in left_out)]
    for k, cpu in enumerate(models):
        of_cpu = [t for t in tests if k == 0 or "/backend/" in t]
        commands = [replay_job(r, "cpu", "--part", f"{k}/4", build=build).command, *([t] for t in of_cpu)]
        env = {"CPU": cpu, "CLAVE_DEVICE": "cpu", "CLAVE_TEST_TURN": r.turn}
        yield from (Job(["ci/cross", processor, "run", *c], env, f"{processor} {cpu}") for c in commands)


def processors(r):
    """On other processors, which qemu emulates, on the CPU backend. Where a test takes a sample by the day
    (CLAVE_TEST_TURN), it does so here: emulated processors are ten times as slow, or more."""
    for processor, models in PROCESSORS.items():
        r.run(["ci/cross", processor, "build", "tests"], name=f"ci/cross {processor} build tests", timeout=3600)
        r.run_all(list(processor_jobs(r, processor, models)), timeout=3600)


def emulated(r):
    """The C tests of the CPU backend and one in 8 of the op cases with its kernels for AVX-512 and AMX, whose
    instructions test/emulated has in plain C: on every x86-64 processor with AVX2."""
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        return r.skip("no AVX2 to emulate AVX-512 with")
    make(r, "emulated")
    build = f"{r.build}/emulated"
    jobs = [Job([test], {"CLAVE_TEST_TURN": r.turn}) for test in tests_in(build)]
    return r.run_all([*jobs, replay_job(r, "cpu", "--part", "0/8", build=build)], timeout=3000)


def data_races(r):
    """The C tests, op cases and sessions beside each other under ThreadSanitizer."""
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
    """One in 24 of the small op cases with the kernels of GPUs, which have barriers; fewer with those of CPUs.

    Cases with control flow always: their runs bring other sizes, buffers and arguments to the same kernels; and as a
    CPU products by packed weights, of panels narrower than PoCL's: oclgrind's registers have 4 floats.
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
    """Whether oclgrind sees the variant as this class."""
    pattern, _, of_gpus = variants.SHARING.get(family, ("^$", 0, False))
    return bool(re.search(pattern, variant)) and (c.name == "gpu" or not of_gpus)


def oclgrind_variants(r, tables):
    """The variants whose work-items share what they read or add, where no rule takes them: one, by turns; ring all:
    all. tables: holds the folders of the tables until the jobs have run."""
    tool, jobs = str(ROOT / r.build / "clave"), []
    rows = [row for row in forced_rows(r, variants.OPENCL) if is_sharing(*row[:3])]
    some = [row for row in rows if not variants.needs(row[2])][:1]  # warps in OpenCL C take minutes there
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
