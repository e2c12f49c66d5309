"""Emitted sources on other processors: cross-compiled by their own Makefile with -Werror, linked statically, run under
qemu-user.

armhf (32-bit pointers) and riscv64 have the bits of the CPU backend with CLAVE_DEVICE_CLASS=portable: the kernels and
the order of their sums are the same, and all processors round IEEE 754 operations alike. aarch64 adds products by fmla,
which rounds once, and has products of bytes that other processors lack. Its floats may differ by rounding, which `clave
verify --reference` measures (docs/howto/verify.md); its integers are equal.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import struct
import subprocess

import numpy as np
import pytest
import torch
from compiled import ROOT, bits_of, command, dims_of, emit, same_bits
from safetensors.torch import load_file, save_file
from test_models import MODELS, noise, saved

import clave

PORTABLE = os.environ | {"CLAVE_DEVICE_CLASS": "portable"}


@dataclasses.dataclass(frozen=True)
class Processor:
    """emulators: commands that emulate different models of the processor."""

    tools: str
    emulators: tuple[str, ...]
    has_portable_bits: bool

    @property
    def compiler(self) -> str:
        return f"{self.tools}-gcc"

    def missing(self) -> list[str]:
        words = [self.compiler, *(e.split()[0] for e in self.emulators)]
        return [w for w in words if not shutil.which(w)]


PROCESSORS = {
    "aarch64": Processor("aarch64-linux-gnu", ("qemu-aarch64 -cpu max", "qemu-aarch64 -cpu cortex-a57"), False),
    "armhf": Processor("arm-linux-gnueabihf", ("qemu-arm",), True),
    "riscv64": Processor("riscv64-linux-gnu", ("qemu-riscv64",), True),
}


def processor_named(name: str) -> Processor:
    missing = PROCESSORS[name].missing()
    if missing:
        pytest.skip(f"no cross compiler or emulator here: {missing[0]} (ci/deps check)")
    return PROCESSORS[name]


@pytest.fixture(params=PROCESSORS)
def processor(request):
    return processor_named(request.param)


@pytest.fixture
def armhf():
    return processor_named("armhf")


def make(folder: pathlib.Path, processor: Processor, *words: str) -> subprocess.CompletedProcess:
    tool = ["make", "-s", f"-j{os.cpu_count()}", f"CC={processor.compiler}"]
    return subprocess.run([*tool, *words], cwd=folder, capture_output=True, text=True)


def build(folder: pathlib.Path, processor: Processor, flags: str = "-O1 -Werror") -> pathlib.Path:
    r = make(folder, processor, f"CFLAGS={flags}", "LDFLAGS=-static")
    assert (r.returncode, r.stderr) == (0, ""), r.stderr[:2000]
    return folder / "model"


def call(emulator: str, *words, **more) -> subprocess.CompletedProcess:
    return subprocess.run([*emulator.split(), *map(str, words)], capture_output=True, text=True, timeout=300, **more)


def good(r: subprocess.CompletedProcess) -> str:
    assert (r.returncode, r.stderr) == (0, ""), r.stderr[:2000]
    return r.stdout


def session_of(program: pathlib.Path, inputs, folder: pathlib.Path) -> dict[str, torch.Tensor]:
    """Writes the inputs to in.safetensors; returns the outputs of the CPU backend, computed as on any processor."""
    save_file({f"input_{i}": x for i, x in enumerate(inputs)}, folder / "in.safetensors")
    words = ["run", program, "--device", "cpu", "--inputs", folder / "in.safetensors"]
    good(command(*words, "--outputs", folder / "want.safetensors", env=PORTABLE))
    return load_file(folder / "want.safetensors")


def hold(processor: Processor, program: pathlib.Path, got: dict, want: dict, folder: pathlib.Path) -> None:
    """Compares outputs with those of session_of."""
    assert {k: (v.dtype, v.shape) for k, v in got.items()} == {k: (v.dtype, v.shape) for k, v in want.items()}
    if processor.has_portable_bits:
        assert [k for k in want if not same_bits(bits_of(got[k]), bits_of(want[k]))] == []
    else:
        save_file(load_file(folder / "in.safetensors") | got, folder / "r.safetensors")
        good(command("verify", program, "--device", "cpu", "--reference", folder / "r.safetensors"))


def check(
    processor: Processor, program: pathlib.Path, inputs, folder: pathlib.Path, *options: str, flags: str = "-O1 -Werror"
) -> None:
    """Builds the program for these inputs and compares a run on each model of the processor with the CPU backend."""
    exe = build(emit(program, folder, *dims_of(program, inputs), *options), processor, flags)
    want = session_of(program, inputs, folder)
    words = [folder / "in.safetensors"] * len(inputs) + [folder / "out.safetensors"] * len(want)
    for emulator in processor.emulators:
        for threads in "1", "3":
            assert good(call(emulator, exe, *words, env=os.environ | {"CLAVE_THREADS": threads})) == ""
            hold(processor, program, load_file(folder / "out.safetensors"), want, folder)


# ---------------------------------------------------------------- executables


@pytest.mark.parametrize("name", ["net", "tiles", "counter", "loop", "steps", "dice", "linear of 16 bits"])
def test_models(tmp_path, processor, name):
    """Convolutions (also with many channels), attention, softmax, norms; state; If, While and a scan; steps of floats
    and integers; random numbers; BF16."""
    module, args = MODELS[name]
    check(processor, saved(tmp_path, module(), *args), args, tmp_path / "c")


def test_open_sizes(tmp_path, processor):
    """One executable runs two batch sizes."""
    module, args = MODELS["net"]
    batch = torch.export.Dim("batch", min=1, max=8)
    program = saved(tmp_path, module(), *args, dynamic_shapes=({0: batch},))
    exe = build(emit(program, tmp_path / "c"), processor)
    for n in (1, 5):
        want = session_of(program, (noise(n, 3, 32, 32),), tmp_path / "c")
        words = [tmp_path / "c/in.safetensors", *[tmp_path / "c/out.safetensors"] * len(want)]
        assert good(call(processor.emulators[0], exe, *words)) == ""
        hold(processor, program, load_file(tmp_path / "c/out.safetensors"), want, tmp_path / "c")


@pytest.mark.parametrize("quantize", ["int4:32", "int8"])
def test_encoded_weights(tmp_path, processor, quantize):
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    x = noise(3, 64)
    check(processor, saved(tmp_path, model, x, quantize=quantize), (x,), tmp_path / "c")


def test_the_example(tmp_path, processor):
    """The example as its Makefile builds it, optimised."""
    digit = torch.from_numpy(np.load(ROOT / "examples/mnist/digits/7.npy"))
    check(processor, ROOT / "examples/mnist/mnist.clv", (digit,), tmp_path / "c", flags="-Werror")
    r = call(processor.emulators[0], tmp_path / "c/model", ROOT / "examples/mnist/digits/7.npy", tmp_path / "o.npy")
    assert good(r) == "" and np.load(tmp_path / "o.npy").argmax() == 7


@pytest.mark.parametrize("options", [("--threads", "0"), ("--arena", "static")], ids=" ".join)
def test_without_a_host(tmp_path, processor, options):
    module, args = MODELS["net"]
    check(processor, saved(tmp_path, module(), *args), args, tmp_path / "c", *options)


def test_results_that_are_kept(tmp_path, processor):
    """Results kept by another processor have the same bits if this one computes portably."""
    module, args = MODELS["net"]
    program = saved(tmp_path, module(), *args)
    good(command("compile", program, "--emit-c", tmp_path / "c", "--verify", env=PORTABLE))
    r = call(processor.emulators[0], build(tmp_path / "c", processor), "--verify")
    if processor.has_portable_bits:
        assert good(r) == "verified: 4 outputs on random inputs are equal to those of clave\n"
    else:
        assert r.returncode == 1 and "differs from the result on the processor that compiled it" in r.stderr


def test_an_index_out_of_range(tmp_path, processor):
    module, args = MODELS["pick"]
    program = saved(tmp_path, module(), *args)
    exe = build(emit(program, tmp_path / "c"), processor)
    np.save(tmp_path / "i.npy", np.array([1, 7, 2]))
    with pytest.raises(clave.Error) as e:
        clave.Session(str(program), device="cpu").run(torch.tensor([1, 7, 2]))
    r = call(processor.emulators[0], exe, tmp_path / "i.npy", tmp_path / "o.npy")
    assert r.returncode == 1 and r.stderr.count("\n") == 1 and not (tmp_path / "o.npy").exists()
    assert r.stderr.strip().removeprefix("model: ") in str(e.value)


# ---------------------------------------------------------------- 32 bits


def test_no_more_memory_than_a_processor_addresses(tmp_path, armhf):
    """model.c is refused by name when it is compiled: offsets would be truncated to 32 bits."""
    rows = torch.export.Dim("rows", max=1 << 28)
    program = saved(tmp_path, torch.nn.Linear(8, 3), noise(4, 8), dynamic_shapes=({0: rows},))
    emit(program, tmp_path / "c", "--dim", f"rows={1 << 27}")
    r = make(tmp_path / "c", armhf, "model.c.o")
    assert r.returncode and "static assertion failed: " in r.stderr, r.stderr[:2000]
    assert "more memory than this processor can address" in r.stderr


def test_sizes_beyond_32_bits(tmp_path, armhf):
    """A size in a file is not reduced modulo 2^32."""
    program = saved(tmp_path, torch.nn.Linear(3, 2), noise(6, 3))
    exe = build(emit(program, tmp_path / "c"), armhf)
    header = json.dumps({"input_0": {"dtype": "F32", "shape": [6 + (1 << 32), 3], "data_offsets": [0, 72]}})
    x = tmp_path / "x.safetensors"
    x.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(72))
    r = call(armhf.emulators[0], exe, x, tmp_path / "o.npy")
    assert r.returncode == 1 and "do not fit its shape" in r.stderr, r.stderr
    x = tmp_path / "x.bin"
    with x.open("wb") as f:
        f.truncate(72 + (1 << 32))
    r = call(armhf.emulators[0], exe, x, tmp_path / "o.npy")
    assert r.returncode == 1 and r.stderr == f"model: {x}: file too large\n" and not (tmp_path / "o.npy").exists()


# ---------------------------------------------------------------- firmware

USE = """#include <stdio.h>
#include "firm/firm.h"
int main(void) {
  static _Alignas(8) const unsigned char x[] = {%(x)s};
%(decl)s  for (int k = 0; k < 3; k++) {
    if (k == 2) firm_reset();
    if (firm_run((const void *)x, %(names)s)) return 1;
%(write)s  }
  return 0;
}
"""


def calls_of(x, want: dict) -> str:
    """Returns a C program that calls the object twice, and once after a reset of the state."""
    names, sizes = [f"y{k}" for k in range(len(want))], [want[f"output_{k}"].nbytes for k in range(len(want))]
    return USE % {
        "x": ", ".join(str(b) for b in bits_of(x).tobytes()),
        "decl": "".join(f"  static _Alignas(8) char {y}[{n}];\n" for y, n in zip(names, sizes, strict=True)),
        "names": ", ".join(f"(void *){y}" for y in names),
        "write": "".join(f"    fwrite({y}, 1, sizeof {y}, stdout);\n" for y in names),
    }


def tensors_of(raw: bytes, like: dict) -> dict:
    found = {}
    for k in range(len(like)):
        w = like[f"output_{k}"]
        found[f"output_{k}"] = torch.frombuffer(bytearray(raw[: w.nbytes]), dtype=w.dtype).reshape(w.shape)
        raw = raw[w.nbytes :]
    return found


@pytest.mark.parametrize("name", ["net", "counter"])
def test_firmware(tmp_path, processor, name):
    """Links an object with a caller. The state counts, which rounds alike on all processors."""
    module, (x,) = MODELS[name]
    program = saved(tmp_path, module(), x)
    want = session_of(program, (x,), tmp_path)
    session = clave.Session(str(program), device="cpu")
    later = [session.run(x) for _ in range(2)][1]
    made = build(emit(program, tmp_path / "firm", "--bare"), processor, "-O1 -Werror -ffreestanding")
    (tmp_path / "use.c").write_text(calls_of(x, want))
    words = [processor.compiler, "-Wall", "-Werror", "-static", "use.c", made, "-lm", "-o", "use"]
    subprocess.run(words, cwd=tmp_path, check=True)
    for emulator in processor.emulators:
        r = subprocess.run([*emulator.split(), tmp_path / "use"], capture_output=True, timeout=300)
        n = sum(w.nbytes for w in want.values())
        first, second, third = (r.stdout[i * n : (i + 1) * n] for i in range(3))
        assert (r.returncode, r.stderr, len(r.stdout), third) == (0, b"", 3 * n, first)
        hold(processor, program, tensors_of(first, want), want, tmp_path)
        assert second == (first if name == "net" else b"".join(w.tobytes() for w in later))
