"""Start-up time of a large language model: the time of the first prompt minus a later one, with weights packed at
start and with packed weights in the file."""

import os
import statistics
import subprocess

from process import tool

NAME, KIND, PROMPT, TURNS = "1.1 B", "Q4_0", 32, 5
AT_RUN_TIME, FROM_FILE = 1.0, 0.1  # limits in seconds
HEAD = ["| time from opening a model to its first answer minus that of a later answer | s | limit |", "|---|---|---|"]


def beyond(args, program, device):
    """Returns the time of the first prompt minus the time of a later one: wall seconds, or on a busy machine CPU
    seconds per core. The first process is a warm-up."""
    time, cores = ("s", 1) if args.idle else ("core_s", len(os.sched_getaffinity(0)))
    runs = [tool(args, "decoder", program, device, "fast", 1, 0, PROMPT) for _ in range(TURNS + 1)][1:]
    return statistics.median((r["first"][time] - r[f"prefill {PROMPT}"][time]) / cores for r in runs)


def rows_of(args, what, program, device):
    packed = args.work / "load_packed.clv"
    pack = [args.build / "clave", "convert", program, packed, "--pack", device]
    try:
        subprocess.run(pack, check=True, env=os.environ | {"CLAVE_PRECISION": "fast"})
        found = [(AT_RUN_TIME, "packed at run time", program), (FROM_FILE, "from a packed file", packed)]
        for bound, how, file in found:
            yield f"| {what}, {how}, {device} | {beyond(args, file, device):.2f} | {bound} |"
    finally:
        packed.unlink(missing_ok=True)  # as large as the program


def bench_load(args, name=NAME, kind=KIND):
    import llama_files

    program = llama_files.files(args.work, name, kind)[1]
    devices = dict.fromkeys((args.device, "cpu"))
    return [*HEAD, *(row for device in devices for row in rows_of(args, f"{name} {kind}", program, device))]
