"""Compiles random programs, many at a time. Prints each program whose executable differs from a session in a bit or has
compiler warnings, and `N passed, N failed`.

    programs.py [--jobs J] [--count N]           runs the programs of programs.tar.xz
    programs.py --write [--seed S] [--count N]   exports them anew

Most of the time would go into torch's exports, so the graphs of test/graphs/generate.py were exported once. Their
inputs are made again from their seeds, at the export sizes.

Programs of a batch are one source, in which each has its own names, linked once with the runtime and kernels.
`batch_model` selects the program that runs.
"""

import argparse
import collections
import io
import logging
import multiprocessing as mp
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "graphs"), str(ROOT / "python")]

import torch
from beside import inputs_of
from compiled import Builder, Carried, Refused, bits_of, dims_of, emit, is_scalar, run, same_bits
from generate import make_graph

import clave

ARCHIVE = HERE / "programs.tar.xz"
BATCH, ROOM = 25, 1 << 29
MIN_COMPILED = 0.9  # minimum share of programs that are written out; the others carry the runtime
DEFINED = re.compile(r"^static (?:const )?\w+ \**(\w+)[\[(; ]", re.M)
FLAGS = ("-Dcompiled_model=(*batch_model)",)
MAIN = """
const model_code *batch_model;
int model_main(int argc, char **argv);
int main(int argc, char **argv) {
  if (argc < 2) return 2;
  batch_model = batch[strtol(argv[1], NULL, 10)];
  return model_main(argc - 1, argv + 1);
}
"""


class Program:
    """A program of a batch: its file, the results of a session and its sources."""

    def __init__(self, seed: int, path: pathlib.Path, folder: pathlib.Path):
        self.seed, self.folder = seed, folder
        inputs = inputs_of(make_graph(seed))
        self.want = clave.Session(str(path), device="cpu").run(*inputs)
        given = [x if is_scalar(x) else bits_of(x) for x in inputs]
        self.tensors = [x for x in given if not is_scalar(x)]
        emit(path, folder, *dims_of(path, given))

    def source(self) -> str:
        """Returns model.c; the seed is appended to names that other programs define too."""
        text = (self.folder / "model.c").read_text()
        names = "|".join({*DEFINED.findall(text), "model_weights", "compiled_model"})
        return re.sub(rf"(?<![\w.>\"])({names})\b", rf"\1_{self.seed}", text)

    def weights(self) -> str:
        text = (self.folder / "weights.S").read_text()
        return text.replace("model_weights", f"model_weights_{self.seed}").replace(
            '"weights.bin"', f'"{self.folder}/weights.bin"'
        )

    def verdict(self, exe: pathlib.Path, index: int) -> str:
        """Returns "same" or the difference."""
        try:
            got = run(exe, self.tensors, self.want, str(index))
        except AssertionError as e:
            return str(e)
        other = [i for i, (a, b) in enumerate(zip(got, self.want, strict=True)) if not same_bits(a, b)]
        return f"outputs {other}: other bits than a session's" if other else "same"


def build(builder: Builder, programs: list[Program], folder: pathlib.Path) -> pathlib.Path:
    """Builds an executable of all programs. A shared source is read from the first program that has it."""
    table = ", ".join(f"&compiled_model_{p.seed}" for p in programs)
    parts = [p.source() for p in programs] + [f"static const model_code *const batch[] = {{{table}}};", MAIN]
    (folder / "batch.c").write_text("#include <stdlib.h>\n" + "\n".join(parts))
    (folder / "batch.S").write_text("\n".join(p.weights() for p in programs))
    places = {}
    for p in programs:
        for f in p.folder.rglob("*.c"):
            if f.parent != p.folder and f.name != "start.c":
                places.setdefault(str(f.relative_to(p.folder)), p.folder)
    objects = [builder.shared_object(place, source, FLAGS) for source, place in sorted(places.items())]
    exe = folder / "model"
    headers = [f"-I{p.folder}" for p in programs]
    command = [*builder.command, *headers, "-o", exe, folder / "batch.c", folder / "batch.S", *objects]
    r = subprocess.run([*command, "-lpthread", "-lm"], capture_output=True, text=True)
    assert (r.returncode, r.stderr) == (0, ""), f"{r.stderr[:3000]}"
    return exe


def take(seed: int, data: bytes, folder: pathlib.Path) -> tuple[Program | None, str]:
    """Returns the program, or the reason why it is not run."""
    path = folder / f"{seed}.clv"
    path.write_bytes(data)
    try:
        return Program(seed, path, folder / str(seed)), ""
    except Carried:
        return None, "carried"
    except Refused as e:
        return None, f"refused: {e}"
    except clave.Error as e:  # the generator of graphs has changed since the programs were exported
        return None, f"{e}; programs.py --write exports the programs anew"


def quick_folder() -> str | None:
    """Returns a folder in memory with enough space for thousands of executables, if it permits execution, or None."""
    folder = "/dev/shm"
    if not os.access(folder, os.W_OK):
        return None
    found = os.statvfs(folder)
    has_space = found.f_bavail * found.f_frsize >= ROOM
    return folder if has_space and not found.f_flag & os.ST_NOEXEC else None


def check_batch(batch: list[tuple[int, bytes]]) -> list[tuple[int, str]]:
    builder = Builder("gcc", ("-O0",), all_steps=True)
    with tempfile.TemporaryDirectory(prefix="clave-compiled-", dir=quick_folder()) as name:
        folder = pathlib.Path(name)
        taken = [(seed, *take(seed, data, folder)) for seed, data in batch]
        programs = [p for _, p, _ in taken if p]
        found = [(seed, said) for seed, _, said in taken if said]
        try:
            exe = build(builder, programs, folder) if programs else None
        except AssertionError as e:
            return found + [(p.seed, f"its batch is no program: {e}") for p in programs]
        return found + [(p.seed, p.verdict(exe, i)) for i, p in enumerate(programs)]


def read(count: int) -> list[tuple[int, bytes]]:
    with tarfile.open(ARCHIVE) as t:
        names = sorted(t.getnames())[:count]
        return [(int(pathlib.Path(n).stem), t.extractfile(n).read()) for n in names]


def export_one(seed: int) -> tuple[int, bytes] | None:
    from execute import Failure, export
    from oracle import Unfit

    try:
        program, _ = export(make_graph(seed))
    except (Unfit, Failure):
        return None
    with tempfile.TemporaryDirectory() as folder:
        program.save(pathlib.Path(folder) / "m.clv")
        return seed, (pathlib.Path(folder) / "m.clv").read_bytes()


def write(seed: int, count: int, pool: Any) -> None:
    """Writes the first `count` graphs from that seed on that torch exports."""
    found: list = []
    while len(found) < count:
        more = pool.map(export_one, range(seed, seed + count - len(found)), chunksize=5)
        seed += count - len(found)
        found += [f for f in more if f]
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as t:
        for number, data in found:
            info = tarfile.TarInfo(f"{number:06d}.clv")
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def begin() -> None:
    import quick_export

    warnings.filterwarnings("ignore", category=UserWarning)  # torch's warnings about random graphs
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    quick_export.speed_up_export()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seed", type=int, default=100000)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    with mp.get_context("fork").Pool(args.jobs, begin) as pool:
        if args.write:
            write(args.seed, args.count, pool)
            return 0
        all_of = read(args.count)
        batches = [all_of[i : i + BATCH] for i in range(0, len(all_of), BATCH)]
        results = [r for found in pool.imap_unordered(check_batch, batches) for r in found]
    kinds = collections.Counter(said if said in ("same", "carried") else "wrong" for _, said in results)
    for seed, said in sorted(results):
        if said not in ("same", "carried"):
            print(f"graph {seed}: {said}")
    failed = kinds["wrong"] + (kinds["same"] < MIN_COMPILED * len(all_of)) + (len(results) != len(all_of))
    print(f"{dict(kinds)}\n{kinds['same'] + kinds['carried']} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
