"""Tables in documents: what was compiled for which vendor's GPUs, how much OpenCL text a driver compiles in the first
run of a model, how long offline compilers need for it here, and an estimate of the time on a phone."""

import collections
import statistics
import sys

import vendor_compilers as compilers
import vendor_programs as programs

sys.path.append(str(programs.ROOT / "bench"))
from process import write_section

PAGE, DEVICES = programs.ROOT / "docs/developers/gpu_compilers.md", programs.ROOT / "docs/reference/devices.md"
# vendor: compiler, beginnings of the profiles' names, what ran
VENDORS = {
    "Intel": ("ocloc with IGC 1.0", ("intel",), "no GPU; Intel's runtime for CPUs"),
    "AMD": ("clang 22", ("amd",), "no"),
    "NVIDIA": ("clang 22, ptxas 13.5", ("nvidia",), "an H100"),
    "Qualcomm, Arm": ("clang 22, to SPIR-V only", ("adreno", "mali"), "no"),
}
PROFILES = ("adreno_740", "mali_g78", "intel_uhd770", "intel_a770", "amd_gfx900", "amd_gfx1100", "nvidia_sm86")
PHONE = "adreno_740"
BACK_ENDS = ("gfx900", "tgllp")  # in place of a phone's back end: a faster and a slower one
# Cores of phones: minimum and maximum seconds for the work that takes one second on the machine of the table.
CORES = {"big core (Cortex-X)": (1.0, 2.0), "Cortex-A76": (2.0, 4.0), "Cortex-A55": (6.0, 12.0)}


def lines_of(program):
    return program.text.count("\n")


def texts_row(profile, name, found, results):
    """Returns the row of a model: its programs' text, before and after preprocessing, and the largest one."""
    after = [results[p.hash, "text"].counts for p in found]
    largest = max(found, key=lines_of)
    size = f"{largest.kernel}: {lines_of(largest)} ({results[largest.hash, 'text'].counts['lines']})"
    lines, bytes_of = sum(map(lines_of, found)), sum(len(p.text) for p in found)
    expanded, tokens = (sum(counts[what] for counts in after) for what in ("lines", "tokens"))
    cells = [profile, name, len(found), f"{lines:,}", f"{bytes_of / 1000:,.0f}", f"{expanded:,}", f"{tokens:,}", size]
    return "| " + " | ".join(map(str, cells)) + " |"


def phone_row(name, found, seconds):
    """Returns the row of a model: seconds of a processor here, and on the cores of phones."""
    least, most = (sum(seconds[p.kernel, target] for p in found) for target in BACK_ENDS)
    slowest = max(found, key=lambda p: seconds[p.kernel, BACK_ENDS[1]]).kernel
    cells = [name, len(found), f"{least:.1f}", f"{most:.1f}"]
    cells += [f"{low * least:.0f} to {high * most:.0f}" for low, high in CORES.values()]
    cells.append(f"{slowest}: {seconds[slowest, BACK_ENDS[1]]:.1f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def means(rows):
    """Returns {(kernel, target): mean seconds} of (program, target, result) rows."""
    of = collections.defaultdict(list)
    for program, target, result in rows:
        of[program.kernel, target].append(result.seconds)
    return {key: statistics.mean(values) for key, values in of.items()}


def table(head, rows):
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows]


def write_compiled(rows):
    """Writes the table of vendors from (program, target, result) rows. Programs with an error are not counted."""
    lines = []
    for vendor, (compiler, names, ran) in VENDORS.items():
        right = [(program, target) for program, target, result in rows if not result.error]
        mine = [(p, target) for p, target in right if compilers.TARGETS[target].profiles[0].startswith(names)]
        targets = ", ".join(f"`{t}`" for t in dict.fromkeys(target for _, target in mine)) or "–"
        profiles = sorted(p.stem for p in (programs.ROOT / "test/imitated_opencl/profiles").glob("*.txt"))
        imitated = ", ".join(f"`{p}`" for p in profiles if p.startswith(names))
        kernels = len({program.kernel for program, _ in mine})
        lines.append(f"| {vendor} | {targets} | {compiler} | {len(mine)}, of {kernels} kernels | {imitated} | {ran} |")
    head = ["vendor", "compiled for", "compiler", "programs", "imitated", "run"]
    write_section(DEVICES, "compiled", table(head, lines))


def write_first_run(rows, compile_pairs, work):
    """Collects the programs of all models on PROFILES in strict precision, and writes two tables.

    rows: (program, target, result) of BACK_ENDS, which have the seconds of kernels. Kernels without a row are compiled.
    compile_pairs: a function that compiles (program, target) pairs and returns results by (hash, target).
    """
    files = programs.model_files(work / "models")
    found = {
        (profile, name): list(programs.of_model(name, file, profile, "strict", work).values())
        for profile in PROFILES
        for name, file in files.items()
    }
    results = compile_pairs([(p, "text") for of in found.values() for p in of])
    seconds = means(rows)
    others = [(p, t) for name in files for p in found[PHONE, name] for t in BACK_ENDS if (p.kernel, t) not in seconds]
    more = compile_pairs(others)
    seconds |= means((p, target, more[p.hash, target]) for p, target in others)
    head = [
        "device",
        "model",
        "programs",
        "lines",
        "kB",
        "lines after preprocessing",
        "tokens",
        "largest, lines (after)",
    ]
    lines = [texts_row(profile, name, of, results) for (profile, name), of in found.items()]
    write_section(PAGE, "texts", table(head, lines))
    head = ["model", "programs", "AMD's back end, s", "Intel's, s", *CORES, "slowest, s"]
    write_section(PAGE, "phones", table(head, [phone_row(name, found[PHONE, name], seconds) for name in files]))
    return 0
