"""The OpenCL programs that drivers of GPUs would compile: those of a few models and of a sample of the op cases, as an
imitated device (test/imitated_opencl) receives them."""

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CLAVE_BUILD") or ROOT / "build")
PRECISIONS = ("strict", "fast")
SHARE = 120  # one in so many op cases is in the sample
HEAVY = re.compile(r"attention|conv|dots|gem[mv]|matmul|winograd_products")  # kernels that compute sums of products

# name: the runs of the model, each with its sizes of dynamic dimensions
MODELS = {
    "ResNet-18": [()],
    "ViT-S/16": [()],
    "MobileNetV2": [()],
    "LLM, f32": [("--dim", "length=1"), ("--dim", "length=64")],
    "LLM, int4": [("--dim", "length=1"), ("--dim", "length=64")],
}
# Programs differ by the sizes of a layer, not by the number of layers, so two layers of a model of 110 M parameters are
# enough.
LLAMA = {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 2}


@dataclasses.dataclass(frozen=True)
class Program:
    """An OpenCL program: the path of its text, its compiler options and the text."""

    path: pathlib.Path
    options: str
    text: str

    @property
    def kernel(self):
        """Returns the name of the first kernel, or "none"."""
        found = re.search(r"^__kernel\s+(?:__attribute__\(\(.*?\)\)\)?\s+)*void\s+(\w+)\(", self.text, re.M)
        return found[1] if found else "none"

    @property
    def hash(self):
        return hashlib.sha256(f"{self.options}\n{self.text}".encode()).hexdigest()[:24]


def read_program(path):
    options, _, text = path.read_text(errors="replace").partition("\n")
    return Program(path, options.removeprefix("// OPTIONS: ").strip(), text)


def export_llama(kind):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import clave
    from clave.llm import use_kv_cache

    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**LLAMA, num_attention_heads=12, tie_word_embeddings=True)).eval()
    shapes = ({1: torch.export.Dim("length", min=1, max=512)}, None)
    example = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    quantize = "int4:32" if kind == "int4" else None
    return clave.export(use_kv_cache(model, 512), example, dynamic_shapes=shapes, quantize=quantize)


def export_model(name):
    if name.startswith("LLM"):
        return export_llama(name.split(", ")[1])
    import models

    import clave

    return clave.export(*models.make(name))


def model_files(work):
    """Returns {name: path} of the models' program files, and writes those that do not exist."""
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "test")]
    work.mkdir(parents=True, exist_ok=True)
    files = {name: work / (re.sub(r"\W+", "_", name).lower() + ".clv") for name in MODELS}
    for name, path in files.items():
        if not path.exists():
            export_model(name).save(str(path))
    return files


def without_clblast():
    """Returns a folder whose libclblast.so.1 has no function of CLBlast, so that products use clave's own kernels."""
    library = BUILD / "vendor/without_clblast/libclblast.so.1"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        library.symlink_to((BUILD / "imitated/libOpenCL.so.1").resolve())
    return library.parent


def run_imitated(profile, precision, out, commands):
    """Runs commands on an imitated device. Returns the programs that it was given, by hash; they are files in out.

    An op that the device refuses runs on the CPU backend. Commands fail, because no kernel computes anything.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    env = os.environ | {
        "LD_LIBRARY_PATH": f"{BUILD / 'imitated'}:{without_clblast()}",
        "CLAVE_IMITATED_PROFILE": str(ROOT / f"test/imitated_opencl/profiles/{profile}.txt"),
        "CLAVE_IMITATED_PROGRAMS": str(out),
        "CLAVE_PRECISION": precision,
        "CLAVE_CACHE_DIR": "off",
        "CLAVE_SELF_CHECK": "off",
        "CLAVE_HELPER": "off",
    }
    for command in commands:
        p = subprocess.run([*map(str, command), "--device", "opencl:0"], env=env, capture_output=True, text=True)
        if p.returncode < 0:
            raise RuntimeError(f"{command[0]}: signal {-p.returncode} on {profile}\n{p.stderr[-500:]}")
    return {p.hash: p for p in map(read_program, sorted(out.glob("*.cl")))}


def of_model(name, file, profile, precision, work):
    """Returns the programs of a model, by hash."""
    out = work / "programs" / profile / precision / file.stem
    bench = [BUILD / "clave", "bench", file, "--runs", "1", "--warmup", "0"]
    programs = run_imitated(profile, precision, out, [[*bench, *sizes] for sizes in MODELS[name]])
    if not programs:
        raise RuntimeError(f"{name}: no program was built on {profile}")
    return programs


def chosen(programs, whole=True):
    """Returns the first and the last program of each heavy kernel, and if `whole` is true one of each other kernel.

    The options decide the order, so that an edit of a kernel does not change the choice."""
    kernels = {}
    for p in sorted(programs, key=lambda p: (p.options, p.hash)):
        if whole or HEAVY.match(p.kernel):
            kernels.setdefault(p.kernel, []).append(p)
    for kernel, found in kernels.items():
        yield found[0]
        if len(found) > 1 and HEAVY.match(kernel):
            yield found[-1]


def build_cases(work):
    """Builds the op cases of the sample. Their names decide which they are, so a new case replaces none."""
    command = [sys.executable, ROOT / "test/cases/build.py", "--out", work, "--share", str(SHARE)]
    p = subprocess.run([*command, "--replay", BUILD / "test/replay"], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"test/cases/build.py --share {SHARE} failed\n{p.stdout[-1000:]}{p.stderr[-1000:]}")


def of_cases(profile, precision, work):
    """Returns the programs of the op cases in the sample, by hash."""
    index = work / "cases/index.tsv"
    replay = [[BUILD / "test/replay", index, "--fallback"]]
    return run_imitated(profile, precision, work / "programs" / profile / precision / "cases", replay)
