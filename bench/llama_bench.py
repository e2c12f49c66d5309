"""Compares language models in GGUF files with llama.cpp on the same files and cores. Each engine runs in separate
processes, in alternation. On a busy machine, each has one thread and CPU time counts, because llama.cpp's threads spin
while they wait for a thread that is not scheduled."""

import itertools
import os
import pathlib
import statistics

from process import measured, spread, tool, wanted

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv-llama/bin/python"  # has llama-cpp-python
MISSING = ["Not measured: needs ci/requirements-llama.txt: ci/venv llama"]
TURNS, NEW_TOKENS = 5, 16  # turns for requested rows; one turn if all rows run
NAMES = ("110 M", "1.1 B")
LONG = 2048  # second context length for new tokens, beside the first of the lengths
PRECISIONS = ("strict", "fast")


def lengths(name, kind):
    """Returns the lengths of prompts in tokens."""
    return (32,) if name == "small" else (128, 512, 2048) if kind == "F16" else (128, 512)


# Tolerances of logits relative to llama.cpp's, in strict and in fast precision. llama.cpp rounds operands of quantised
# weights to 8 bits, as fast precision does in other groups, and some operands of F16 weights to f16, where fast
# precision multiplies pairs of BF16.
TOLERANCE = {"F16": (0.01, 0.05), "Q8_0": (0.1, 0.1), "Q4_0": (0.1, 0.1), "Q4_K": (0.1, 0.1)}
# Targets of tokens per second relative to llama.cpp's, in strict and in fast precision.
AIMS = {
    "F16": {"prefill": "1.1; 2.0", "decode": "1.0"},
    "Q8_0": {"prefill": "–; 2.2", "decode": "–; 1.0"},
    "Q4_0": {"prefill": "–; 1.7", "decode": "–; 1.2"},
    "Q4_K": {"prefill": "–; 1.7", "decode": "–; 1.2"},
}


class Engines:
    """The engines for one file: clave by (device, precision), llama.cpp as "llama"."""

    def __init__(self, args, name, kind):
        import llama_files

        self.args, self.name, self.kind = args, name, kind
        self.n_vocab, self.context = llama_files.SHAPES[name][-1], llama_files.CONTEXT
        self.file, self.program = llama_files.files(args.work, name, kind)
        self.devices = list(dict.fromkeys((args.device, "cpu")))
        self.ours = list(itertools.product(self.devices, PRECISIONS))
        self.lengths = lengths(name, kind)
        self.threads = len(os.sched_getaffinity(0)) if args.idle else 1
        self.time = "s" if args.idle else "core_s"

    def run(self, engine):
        """Returns {"first", "prefill N", "decode N": {"s", "core_s"}, "peak_rss_mb", "logits"} of a process."""
        import numpy as np

        logits, threads, lengths = self.args.work / "llama_logits", str(self.threads), self.lengths
        env = {"CLAVE_BENCH_LOGITS": str(logits), "CLAVE_THREADS": threads, "POCL_MAX_PTHREAD_COUNT": threads}
        if engine == "llama":
            numbers = (self.n_vocab, self.context, threads, NEW_TOKENS, LONG, *lengths)
            found = measured([PYTHON, ROOT / "bench/llama_engine.py", self.file, *numbers], env)
        else:
            found = tool(self.args, "decoder", self.program, *engine, NEW_TOKENS, LONG, *lengths, env=env)
        return found | {"logits": np.fromfile(logits, "f")}

    def turns(self, count):
        return [{e: self.run(e) for e in (*self.ours, "llama")} for _ in range(count)]


def difference(turns, engine):
    """Returns the distance of an engine's logits from llama.cpp's, relative to their norm."""
    import numpy as np

    theirs = turns[0]["llama"]["logits"]
    return float(np.linalg.norm(turns[0][engine]["logits"] - theirs) / np.linalg.norm(theirs))


def ratio(turns, engine, what, time):
    """Returns the ratio of speeds: llama.cpp's time over ours within each turn."""
    return spread([t["llama"][what][time] / t[engine][what][time] for t in turns])


def speed_rows(engines, turns):
    most = dict(zip(PRECISIONS, TOLERANCE[engines.kind], strict=True))
    good = {e: difference(turns, e) <= most[e[1]] for e in engines.ours}
    for kind, n in (*(("prefill", n) for n in engines.lengths), ("decode", engines.lengths[0]), ("decode", LONG)):
        what = f"{kind} {n}"
        speed = (n if kind == "prefill" else 1) / statistics.median(t["llama"][what][engines.time] for t in turns)
        for device in engines.devices:
            shown = " | ".join(
                ratio(turns, (device, p), what, engines.time) if good[device, p] else "nan" for p in PRECISIONS
            )
            aim = AIMS[engines.kind][kind]
            yield f"| {engines.name} {engines.kind}, {what} | {device} | {speed:.1f} | {shown} | {aim} |"


def other_row(engines, turns):
    """Compares logits, memory, and the extra time of the first prompt over a later one."""
    prompt = f"prefill {engines.lengths[0]}"
    all_of = lambda show: " | ".join(show(e) for e in ((engines.devices[0], "fast"), ("cpu", "fast"), "llama"))
    later = lambda e: statistics.median(t[e]["first"][engines.time] - t[e][prompt][engines.time] for t in turns)
    peak = lambda e: f"{statistics.median(t[e]['peak_rss_mb'] for t in turns):.0f}"
    errors = "; ".join(f"{difference(turns, ('cpu', p)):.4f}" for p in PRECISIONS)
    size = engines.file.stat().st_size / 1e6
    loads = all_of(lambda e: f"{later(e):.2f}")
    return f"| {engines.name} {engines.kind} | {size:.0f} | {all_of(peak)} | {loads} | {errors} |"


def tables(args, rows, others):
    unit = "all cores, by the clock" if args.idle else "one thread each, by processor time"
    first, second = args.device, "cpu"
    return [
        f"| model, weights, work: {unit} | device | llama.cpp, tokens/s "
        "| strict relative to llama.cpp: median (least to most) | fast relative to llama.cpp | aim, strict; fast |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"| model, weights | file, MB | peak memory, MB: {first} | {second} | llama.cpp "
        f"| first prompt minus a later one, s: {first} | {second} | llama.cpp "
        "| difference of the logits from llama.cpp's, strict; fast |",
        "|---|---|---|---|---|---|---|---|---|",
        *others,
    ]


def bench_llama(args, names=NAMES, kinds=tuple(AIMS), turns=None):
    if not PYTHON.exists():
        return MISSING
    rows, others = [], []
    turns = turns or (TURNS if args.rows else 1)
    for name, kind in itertools.product(names, kinds):
        if not wanted(args, f"{name} {kind}"):
            continue
        engines = Engines(args, name, kind)
        measures = engines.turns(turns)
        found = list(speed_rows(engines, measures))
        rows += found
        others.append(other_row(engines, measures))
        print("\n".join([*found, others[-1]]), flush=True)
    return tables(args, rows, others)
