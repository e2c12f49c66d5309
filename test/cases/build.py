"""Builds the op cases: exports each described case and writes torch's expected results (reference.py).

    build.py --out build/cases [--only TEXT] [--share N] [--jobs N] [--list] [--eager] [--replay PATH]

Writes OUT/<family>/<name>.clv, OUT/<family>/<name>.safetensors and a row of OUT/index.tsv for each case. test/replay.c
describes the format of the index. Rows that --only excludes stay. --share builds one case in N, by its name. Prints `N passed, N failed`. A case fails if its
export fails, or if its tolerance would accept zeros, the negated result or a result that is 2 % larger.
"""

import argparse
import copy
import hashlib
import importlib
import multiprocessing
import pathlib
import subprocess
import sys
import time
import warnings
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "python")]

import quick_export
import reference
import safetensors.torch
import torch


class Module(torch.nn.Module):
    """Wraps a plain function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def flat(result):
    """Returns the tensors of a result in order."""
    return list(torch.utils._pytree.tree_leaves(result))


def module_of(case):
    return case.function if isinstance(case.function, torch.nn.Module) else Module(case.function)


def evaluate(case):
    """Returns the data file's tensors: both sets of inputs, and the outputs of three runs on A, B, A."""
    module = module_of(case)
    precise = copy.deepcopy(module) if case.state else module
    tensors = {}
    for run, letter in ((0, "A"), (1, "B")):
        for i, t in enumerate(case.data(run)):
            tensors[f"in.{letter}.{i}"] = t.contiguous()
    for run in range(3 if case.state else 2):
        if case.error and run != 1:
            continue
        results = flat(module(*case.data(run % 2)))
        if not case.own:
            evaluate_in = reference.evaluate_whole if case.whole else reference.evaluate
            results = checked(results, flat(evaluate_in(precise, case.data(run % 2))))
        for i, t in enumerate(results):
            tensors[f"out.{run}.{i}"] = t.detach().contiguous().clone()
    return tensors


def checked(own, precise):
    """Returns the precise results, rounded. Raises ValueError if torch's differ by more than rounding."""
    precise = [p.to(o.dtype) if reference.is_narrow(o) else p for o, p in zip(own, precise, strict=True)]
    for i, (a, b) in enumerate(zip(own, precise, strict=True)):
        if difference := reference.difference(a, b):
            raise ValueError(f"output {i} means something else in f64 ({difference}); see Case.own")
    return precise


def build_case(job):
    """Maps (family, case index, folder, eager only) to (index row, error)."""
    family, i, out, eager = job
    case = cases_of(family)[i]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not eager:
                export_case(case, out / family / f"{case.name}.clv")
            safetensors.torch.save_file(evaluate(case), out / family / f"{case.name}.safetensors")
    except Exception as error:  # any failure is the result of this case
        return None, f"FAIL {family}/{case.name}: {type(error).__name__}: {str(error).strip()[:600]}"
    stem = f"{family}/{case.name}"
    numbers = map(repr, (case.rtol, case.atol, case.steps))
    return "\t".join([stem, f"{stem}.clv", f"{stem}.safetensors", *numbers, case.error]), None


def export_case(case, path):
    import clave

    module = module_of(case)
    # The exporter uses set B if set A is expected to fail.
    args = case.data(1 if case.error else 0)
    program = clave.export(module.eval(), args, dynamic_shapes=case.dynamic_shapes, quantize=case.quantize)
    program.save(str(path))
    for p in module.buffers() if case.state else ():
        p.zero_()


def families():
    return sorted(p.stem for p in HERE.glob("*.py") if p.stem not in ("build", "describe", "reference"))


def cases_of(family):
    """Returns the cases of a family. Modules have the same weights each time."""
    torch.manual_seed(5)
    return list(importlib.import_module(family).cases())


def all_jobs(out, only, eager, share=1):
    names = set()
    for family in families():
        for i, case in enumerate(cases_of(family)):
            assert (family, case.name) not in names, f"two cases are called {family}/{case.name}"
            names.add((family, case.name))
            name = f"{family}/{case.name}"
            if (not only or only in name) and zlib.crc32(name.encode()) % share == 0:
                yield family, i, out, eager


def fingerprint(paths):
    """Returns a hash of the sources, and of torch's version and the CPU's instructions, on which its kernels depend."""
    h = hashlib.sha256(f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()} {sys.version}".encode())
    for p in sorted(paths):
        h.update(str(p).encode() + p.read_bytes())
    return h.hexdigest()


def sources():
    passes = (ROOT / "interp/passes").glob("*.c")
    return [*HERE.glob("*.py"), *(ROOT / "python/clave").rglob("*.py"), *passes, ROOT / "serialize/schema.fbs"]


def print_list(jobs):
    for family, i, _, _ in jobs:
        case = cases_of(family)[i]
        reason = f"torch's own: {case.own}" if case.own else f"whole: {case.whole}" if case.whole else ""
        print(f"{family}/{case.name}\t{reason}".rstrip())


def taken_for_right(replay, index, only):
    """Returns the cases whose tolerance, in replay, would accept zeros, the negated result or a result 2 % larger."""
    if not replay.exists():
        return [f"{replay} is missing; `make tests` builds it"]
    chosen = ["--only", only] if only else []
    run = subprocess.run([replay, index, "--sabotage", *chosen], capture_output=True, text=True)
    return [] if run.returncode == 0 else (run.stdout + run.stderr).splitlines()


def rows_left_out(index, only):
    """An index's rows of cases that are not built anew."""
    rows = index.read_text().splitlines(keepends=True) if only and index.exists() else []
    return [row for row in rows if only not in row.partition("\t")[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/cases")
    parser.add_argument("--only", help="cases whose family/name contains this")
    parser.add_argument("--share", type=int, default=1, help="one case in N, always the same ones")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--list", action="store_true", help="print only names, and why a reference is not op by op")
    parser.add_argument("--eager", action="store_true", help="run only torch: check the descriptions")
    parser.add_argument("--replay", type=pathlib.Path, help="path of build/test/replay, which checks tolerances")
    args = parser.parse_args()
    args.replay = args.replay or args.out.parent / "test/replay"
    begin = time.monotonic()
    jobs = list(all_jobs(args.out, args.only, args.eager, args.share))
    if args.list:
        print_list(jobs)
        return 0
    index, stamp = args.out / "index.tsv", args.out / "stamp"
    mark = fingerprint(sources()) + f" torch {torch.__version__} {args.only} {args.share} {len(jobs)}"
    if stamp.exists() and stamp.read_text() == mark:
        wrong = taken_for_right(args.replay, index, args.only)
        print(*wrong, f"{len(jobs)} cases are up to date\n{len(jobs)} passed, {len(wrong)} failed", sep="\n")
        return 1 if wrong else 0
    for family in families():
        (args.out / family).mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    torch.set_num_threads(1)
    if not args.eager:
        quick_export.speed_up_export()
    kept, rows, errors = rows_left_out(index, args.only), [], []
    with multiprocessing.get_context("fork").Pool(args.jobs) as pool, index.open("w") as file:
        file.writelines(kept)
        for row, error in pool.imap(build_case, jobs, chunksize=4):
            (rows if row else errors).append(row or error)
            print(f"{row}\n" if row else "", end="", file=file, flush=True)
    errors += [] if args.eager else taken_for_right(args.replay, index, args.only)
    print("\n".join(errors))
    print(f"{len(jobs)} cases in {time.monotonic() - begin:.0f} s\n{len(rows)} passed, {len(errors)} failed")
    if not errors and not args.eager:
        stamp.write_text(mark)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
