"""Makes the measurements of docs/performance.md and docs/developers/measurements.md, and writes their tables.

Compare only ratios of the same run.

bench.py [--build build] [--only NAME,NAME] [--rows REGEX] [--device opencl] [--rounds N] [--check]. NAME: gemm, gemv,
quantised, overhead, launch, startup, session, delegate, executorch, memory, indexing, attention, models, fast, int8,
imported, works, sweeps, sharing, compiled, limits, tokenizers, llm, sampler, llama, load, export, breakdown. --rows
measures and replaces only the rows that match REGEX. --check writes nothing, and fails if a row exceeds its bound.
"""

import argparse
import os
import pathlib
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = (ROOT / "docs/performance.md", ROOT / "docs/developers/measurements.md")
sys.path.insert(0, str(ROOT / "python"))
if (ROOT / "../shared/data").is_dir():
    os.environ.setdefault("CLAVE_TEST_DATA", str(ROOT / "../shared/data"))  # same default as the tests

from attention_bench import bench_attention
from bounds import BOUNDED, TIMES, is_table, rows_over
from breakdown_bench import bench_breakdown
from compile_bench import bench_compile
from executorch_bench import bench_executorch
from export_bench import bench_export
from imported_bench import bench_imported
from limits_bench import bench_limits
from llama_bench import bench_llama
from llm_bench import bench_llm, bench_sampler
from load_bench import bench_load
from models_bench import bench_fast, bench_int8, bench_models, bench_works
from process import spread, tool, write_section
from sharing_bench import bench_sharing
from sweeps_bench import bench_sweeps
from tokenizers_bench import bench_tokenizers

GEMM_SIZES = [
    *((n, n, n) for n in (1024, 2048)),
    (512, 5632, 2048),
    (197, 1536, 384),  # from ViT-S
    *((m, 4096, 4096) for m in (128, 32, 16, 8, 2)),
]  # M, N, K
GEMV_SIZE = (32000, 2048)
QUANTISED_SIZES = [(4096, 4096), (14336, 4096)]  # N, K
QUANTISED_GEMM = (512, 5632, 2048)  # M, N, K
QUANTISED_BITS = {"int8": 8, "int4:32": 4.5, "Q8_0": 8.5}  # bits per element
LAUNCH_CYCLES = 600  # limit per op on the CPU backend: 0.15 µs at 4 GHz


def page_of(name):
    """Returns the page that has a table's markers."""
    return next(page for page in PAGES if f"<!-- {name} -->" in page.read_text())


def cpu_flags():
    return pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""


def save(path, methods):
    """Exports the methods {name: (module, args)} as one program, unless the file exists. Returns its path."""
    if not path.exists():
        import clave

        path.parent.mkdir(parents=True, exist_ok=True)
        clave.export(
            methods if len(methods) > 1 else methods["forward"][0],
            *(() if len(methods) > 1 else (methods["forward"][1],)),
        ).save(str(path))
    return path


def products(weight_shape, x_shape, dtype):
    """Returns methods "one" and "five": 1 and 5 products with the same constant. Their outputs are the first element of
    each product."""
    import torch

    weight = torch.nn.Parameter(torch.randn(weight_shape).to(dtype), requires_grad=False)

    class Products(torch.nn.Module):
        def __init__(self, count):
            super().__init__()
            self.weight, self.count = weight, count

        def forward(self, x):
            return tuple(torch.nn.functional.linear(x[i], self.weight)[:1, :1] for i in range(self.count))

    x = torch.zeros(5, *x_shape, dtype=dtype)
    return {"one": (Products(1), (x,)), "five": (Products(5), (x,))}


def bench_gemm(args):
    import torch

    env = {"OPENBLAS_CORETYPE": "SkylakeX"} if "avx512f" in cpu_flags() else {}
    env["OPENBLAS_THREAD_TIMEOUT"] = "4"  # otherwise its threads spin on the cores that our turn needs
    head = ["| GEMM, M×N×K, f32 unless named | clave, GFLOP/s | OpenBLAS, GFLOP/s | ratio |", "|---|---|---|---|"]
    rows = []

    def measure(program, size, what, *precision):
        for device in dict.fromkeys((args.device, "cpu")):
            r = tool(args, "gemm", program, device, *size, args.rounds, *precision, env=env)
            name = f"{'×'.join(map(str, size))}{what}, {device}"
            rows.append(f"| {name} | {r['clave']:.0f} | {r['openblas']:.0f} | {r['ratio']:.2f} |")

    for m, n, k in GEMM_SIZES:
        program = save(args.work / f"gemm_{m}_{n}_{k}.clv", products((n, k), (m, k), torch.float32))
        measure(program, (m, n, k), "")
    for form in QUANTISED_BITS:
        measure(quantised_program(args, form, *QUANTISED_GEMM), QUANTISED_GEMM, f", `{form}` in fast precision", "fast")
    peak = tool(args, "peak", args.rounds)["gflops"]
    return [
        *head,
        *rows,
        "",
        f"One core reaches {peak:.0f} GFLOP/s if all operands are in registers (`build/bench/peak 9`).",
    ]


def bench_gemv(args):
    import torch

    rows = []
    for dtype, name in ((torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")):
        n, k = GEMV_SIZE
        program = save(args.work / f"gemv_{name}.clv", products((n, k), (1, k), dtype))
        r = tool(args, "gemv", program, args.device, n * k * dtype.itemsize, args.rounds)
        rows.append(f"| {name} {n}×{k} | {r['clave']:.1f} | {r['read_loop']:.1f} | {r['ratio']:.2f} |")
    return ["| GEMV | clave, GB/s | read loop, GB/s | ratio |", "|---|---|---|---|", *rows]


def quantised_program(args, form, m, n, k):
    """Returns a program with the methods of `products` and a weight in the given quantised format, or in f32."""
    path = args.work / f"quantised_{form.replace(':', '_')}_{m}_{n}_{k}.clv"
    if not path.exists():
        import torch

        import clave

        path.parent.mkdir(parents=True, exist_ok=True)
        plain = products((n, k), (m, k), torch.float32)
        clave.export(plain, quantize=None if form == "f32" else form).save(str(path))
    return path


def bench_quantised(args):
    """Compares quantised products in both precisions with f32 products, by the CPU time of all cores, in alternation.
    Products with one row are also compared with a loop that reads as many bytes."""
    rows = []
    for n, k in QUANTISED_SIZES:
        for m in (1, 8, 128):
            programs = {form: quantised_program(args, form, m, n, k) for form in ("f32", *QUANTISED_BITS)}
            for device in ("opencl", "cpu"):
                rows += quantised_rows(args, programs, device, m, n, k)
    head = "| rows × weight, device | encoding | f32, CPU µs | strict/f32 | fast/f32 | fast/strict | read loop/fast |"
    return [head, "|---|---|---|---|---|---|---|", *rows]


def quantised_rows(args, programs, device, m, n, k):
    runs = [(form, precision) for form in QUANTISED_BITS for precision in ("strict", "fast")]
    given = [f"{precision}={programs[form]}" for form, precision in [("f32", "strict"), *runs]]
    quiet = {"OMP_WAIT_POLICY": "passive"}  # the read loop's threads wait without using the processor
    seconds = tool(args, "products", device, args.rounds, n * k, *given, env=quiet)
    plain, read, times = seconds["s"][0], seconds["read_s"], dict(zip(runs, seconds["s"][1:], strict=True))
    for form, bits in QUANTISED_BITS.items():
        strict, fast = times[form, "strict"], times[form, "fast"]
        loop = f"{read * bits / 8 / fast:.2f}" if m == 1 else "–"
        yield (
            f"| {m} × {n}×{k}, {device} | {form} | {1e6 * plain:,.0f} | {strict / plain:.2f} | {fast / plain:.2f} |"
            f" {fast / strict:.2f} | {loop} |"
        )


def softmaxes(args):
    """Exports the program of 1,000 softmaxes of shape (2, 2)."""
    import torch
    import works

    return save(args.work / "overhead.clv", {"forward": (works.chain(works.softmax), (torch.zeros(2, 2),))})


def bench_launch(args):
    """Compares the program of `softmaxes` with as many launches of a small kernel in the same context, without
    clave."""
    program = softmaxes(args)
    runs = [tool(args, "launch", program, args.device, 101) for _ in range(5)]
    ours, own, ratio = (statistics.median(r[k] for r in runs) for k in ("clave_us", "driver_us", "ratio"))
    head = "| launches | clave, µs per op | the driver alone, µs per launch | ratio | limit |"
    return [head, "|---|---|---|---|---|", f"| {args.device} | {ours:.2f} | {own:.2f} | {ratio:.2f} | 1.4 |"]


def bench_overhead(args):
    """Times softmaxes of shape (2, 2) and cumulative sums of one number, which cost little more than their launch. Runs
    several processes, because each is either fast or slow throughout, depending on where its threads are placed."""
    import torch
    import works

    small = softmaxes(args)
    launches = save(args.work / "launches.clv", {"forward": (works.chain(lambda x: x.cumsum(0)), (torch.zeros(1),))})
    rows = []
    for name, program, device, bound in (
        (args.device, small, args.device, 10),
        ("cpu", small, "cpu", 1),
        ("cpu, launch alone", launches, "cpu", None),
    ):
        runs = [tool(args, "run", program, device, 21) for _ in range(7)]
        times = [r["median_us"] / r["nodes"] for r in runs]
        bound = bound or f"{LAUNCH_CYCLES / 1000 / max(r['ghz'] for r in runs):.2f}"
        rows.append(f"| {name} | {spread(times)} | {bound} |")
    head = "| 1,000 small ops | µs per op: median of 7 processes (least to most) | limit |"
    return [head, "|---|---|---|", *rows]


def first_and_whole(command, cache):
    """Returns the seconds to a process's first output and to its end, with caches in the folder."""
    left_out = ("CLAVE_CACHE_DIR", "POCL_CACHE_DIR")
    env = {k: v for k, v in os.environ.items() if k not in left_out} | {"CLAVE_CACHE_DIR": f"{cache}/clave"}
    env |= {"XDG_CACHE_HOME": cache}  # PoCL's own cache
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env) as p:
        first = p.stdout.read(1) and time.monotonic() - begin
        p.stdout.read()
    assert p.returncode == 0 and first, command
    return first, time.monotonic() - begin


def bench_startup(args):
    """Times processes that classify a digit (MNIST) or generate a word (stories260K), with and without kernel cache."""
    mnist, story = ROOT / "examples/mnist", args.build / "stories260k.clv"
    digit = ["run", mnist / "mnist.clv", "--input", f"x={mnist / 'digits/7.npy'}"]
    commands = [("MNIST", digit)]
    if story.exists():
        prompt = args.work / "prompt.ids"
        prompt.parent.mkdir(parents=True, exist_ok=True)
        prompt.write_text("1 403 407 261 378\n")  # "Once upon a time"
        commands.append(("stories260K", ["generate", story, "--prompt-ids", prompt, "--max-new-tokens", "4"]))
    rows = []
    for name, command in commands:
        for device in (args.device, "cpu"):
            whole = [args.build / "clave", *command, "--device", device]
            cold, warm = [], []
            for _ in range(3):
                with tempfile.TemporaryDirectory() as cache:
                    cold.append(first_and_whole(whole, cache))
                    warm += [first_and_whole(whole, cache)[1] for _ in range(6)][2:]
            first, end = (statistics.median(c[i] for c in cold) for i in (0, 1))
            rows.append(f"| {name}, {device} | {statistics.median(warm):.3f} | {first:.2f} | {end:.2f} | 0.3 |")
    head = "| seconds | whole process, kernels cached | first output, nothing cached | whole process, nothing cached |"
    return [head + " limit, cached |", "|---|---|---|---|---|", *rows]


def bench_session(args):
    """Times a second session of a program: its creation and its first run, minus a later run."""
    rows = []
    for name in ("mnist", "tinylm"):
        program = ROOT / "examples" / name / f"{name}.clv"
        for device in (args.device, "cpu"):
            runs = [tool(args, "session", program, device, 51) for _ in range(3)]
            created, first, later, beyond = (
                statistics.median(r[f"{what}_ms"] for r in runs) for what in ("create", "first", "later", "beyond")
            )
            rows.append(f"| {name}, {device} | {created:.3f} | {first:.3f} | {later:.3f} | {beyond:.3f} | 1 |")
    head = "| a second session, ms | creation | first run | later run | creation and first run minus a later run "
    return [head + "| limit |", "|---|---|---|---|---|---|", *rows]


def bench_delegate(args):
    """Times a run through the plugin minus the same run by clave's own functions, in several processes."""
    rows = []
    runs = [tool(args, "delegate", args.build / "libclave_delegate.so", 51) for _ in range(5)]
    for what, key in (("a run", "us"), ("input and output bound, a run", "bound_us")):
        plain, ours = (statistics.median(r[f"{who}_{key}"] for r in runs) for who in ("plain", "delegate"))
        above = statistics.median(r[f"delegate_{key}"] - r[f"plain_{key}"] for r in runs)
        rows.append(f"| {what} | {plain:.2f} | {ours:.2f} | {above:.2f} | 5 |")
    head = "| a softmax of four numbers, µs | clave | through the plugin | difference | limit |"
    return [head, "|---|---|---|---|---|", *rows]


def bench_memory(args):
    """Measures the peak memory of a model with large weights, minus that of a model with small weights and the same
    kernels."""
    import torch

    layers = 6

    def net(width):
        block = lambda: [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.LayerNorm(width)]
        return torch.nn.Sequential(*[m for _ in range(layers) for m in block()]).eval()

    large = save(args.work / "memory_large.clv", {"forward": (net(4096), (torch.zeros(64, 4096),))})
    small = save(args.work / "memory_small.clv", {"forward": (net(64), (torch.zeros(64, 64),))})
    rows = []
    for device in (args.device, "cpu"):
        tool(args, "run", small, device, 1)  # fills the cache of kernels
        a, b = tool(args, "run", large, device, 3), tool(args, "run", small, device, 3)
        weights, beyond = a["constant_mb"], a["peak_rss_mb"] - b["peak_rss_mb"]
        bound = weights + weights / layers + a["arena_mb"] + 50  # a weight exists twice while it is packed
        rows.append(f"| {device} | {weights:.0f} | {a['arena_mb']:.1f} | {beyond:.0f} | {bound:.0f} |")
    head = "| peak memory | weights, MB | arena, MB | more than the small model, MB | limit, MB |"
    return [head, "|---|---|---|---|---|", *rows]


def bench_indexing(args):
    """Times a model of mainly table look-ups, with the normal kernels and with kernels that do not check indices.
    Processes alternate; the mean CPU time is used, because systems that count ticks are off by a tick per process."""
    import torch

    class Tables(torch.nn.Module):
        """26 tables as in a recommendation model; looks up 2,048 rows of 16 numbers in each."""

        def __init__(self):
            super().__init__()
            self.tables = torch.nn.ParameterList(torch.randn(20000, 16) for _ in range(26))
            self.register_buffer("ids", torch.randint(0, 20000, (26, 2048)))
            self.top = torch.nn.Linear(26 * 16, 8)

        def forward(self, x):
            rows = [torch.nn.functional.embedding(i, t) for i, t in zip(self.ids, self.tables, strict=True)]
            return self.top(torch.cat(rows, 1)) + x

    program = save(args.work / "indexing.clv", {"forward": (Tables(), (torch.zeros(8),))})
    unchecked = args.work / "kernels_unchecked"
    shutil.rmtree(unchecked, ignore_errors=True)
    shutil.copytree(ROOT / "kernels_cl", unchecked)
    kernel = (unchecked / "index.cl").read_text()
    (unchecked / "index.cl").write_text("#define CHECK 0\n" + kernel)
    times = {ROOT / "kernels_cl": [], unchecked: []}
    for _ in range(25):
        for folder, taken in times.items():
            begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            tool(args, "run", program, args.device, 101, env={"CLAVE_KERNEL_DIR": str(folder)})
            taken.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin)
    checked, bare = (statistics.mean(t) for t in times.values())
    row = f"| 26 × 2,048 rows of 16 | {checked:.3f} | {bare:.3f} | {checked / bare:.2f} | 1.05 |"
    head = "| 101 runs of table look-ups | checked, CPU s | unchecked, CPU s | ratio | limit |"
    return [head, "|---|---|---|---|---|", row]


BENCHES = {
    "gemm": bench_gemm,
    "gemv": bench_gemv,
    "quantised": bench_quantised,
    "overhead": bench_overhead,
    "launch": bench_launch,
    "startup": bench_startup,
    "session": bench_session,
    "delegate": bench_delegate,
    "executorch": bench_executorch,
    "memory": bench_memory,
    "indexing": bench_indexing,
    "attention": bench_attention,
    "models": bench_models,
    "fast": bench_fast,
    "int8": bench_int8,
    "imported": bench_imported,
    "works": bench_works,
    "sweeps": bench_sweeps,
    "sharing": bench_sharing,
    "compiled": bench_compile,
    "limits": bench_limits,
    "tokenizers": bench_tokenizers,
    "llm": bench_llm,
    "sampler": bench_sampler,
    "llama": bench_llama,
    "load": bench_load,
    "export": bench_export,
    "breakdown": bench_breakdown,
}


def wait_until_idle(seconds):
    """Waits, with a limit, until other work leaves the cores idle: ratios on a busy machine mean little."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = busy_time()
        time.sleep(5)
        if busy_time() - before < 0.1 * 5 * os.cpu_count():
            return True
        print("the machine is busy; waiting", flush=True)
    return False


def busy_time():
    """Returns the busy seconds of all cores since the machine started."""
    user, nice, system = (int(n) for n in pathlib.Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def machine(args):
    model = re.search(r"model name\s*: (.*)", cpu_flags())
    devices = subprocess.run([args.build / "clave", "devices"], capture_output=True, text=True).stdout
    default = next((line.strip() for line in devices.splitlines() if "*" in line or "default" in line), "")
    default = re.sub(r"\s+", " ", default)
    cpu = model[1] if model else platform.processor()
    state = "" if args.idle else "; while other work ran on the machine"
    return [f"{cpu}, {len(os.sched_getaffinity(0))} cores; {default}; {time.strftime('%Y-%m-%d')}{state}"]


def check(args, name):
    """Reports rows of a table that exceed their bound in each of three attempts. Returns True if no row does."""
    over = {}
    for attempt in range(3):
        lines = BENCHES[name](args)
        print("\n".join([f"== {name}", *lines]), flush=True)
        if not is_table(lines):
            print(f"skipped: {name}: {lines[0]}")
            return True
        now = rows_over(name, lines)
        over = {row: what for row, what in now.items() if attempt == 0 or row in over}
        if not over:
            return True
    unsure = name in TIMES and not args.idle
    for row, what in over.items():
        print(f"{'not judged, other work runs on the machine' if unsure else 'FAIL'}: {name}, {row}: {what}")
    return unsure


def check_all(args, names):
    """Prints `N passed, N failed` for tables."""
    good = [check(args, name) for name in names]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


def pattern(text):
    try:
        return re.compile(text)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {e}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", help="tables, separated by commas")
    parser.add_argument(
        "--rows",
        type=pattern,
        help="measure only the matching rows (models, fast, int8, imported, works, sweeps, llama); others stay",
    )
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--wait", type=float, default=60, help="seconds to wait for an idle machine")
    parser.add_argument("--print", action="store_true", help="write no page")
    parser.add_argument("--check", action="store_true", help="exit 1 if a row exceeds its limit")
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.work, args.print = args.build / "bench/programs", args.print or args.check
    tables = BOUNDED if args.check else BENCHES
    names = args.only.split(",") if args.only else list(tables)
    if unknown := [name for name in names if name not in tables]:
        parser.error(f"--only: no table{' with bounds' if args.check else ''} is named {', '.join(unknown)}")
    args.idle = wait_until_idle(args.wait)
    if args.check:
        return check_all(args, names)
    for name in names:
        lines = BENCHES[name](args)
        print("\n".join([f"== {name}", *lines]), flush=True)
        if not args.print:
            write_section(page_of(name), name, lines, some=bool(args.rows))
    if not args.print:
        write_section(page_of("machine"), "machine", machine(args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
