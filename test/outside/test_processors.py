"""Other processors: their compilers read every C file, and a compiled program runs under qemu-user.

A name that is defined in one processor's #if and used outside is an error here, and so are conversions that occur only
on 32-bit processors."""

import os
import pathlib
import platform
import shutil
import subprocess

import numpy as np
import pytest
from _environment import without_make

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("CLAVE_BUILD", ROOT / "build")).resolve()
MNIST = ROOT / "examples/mnist"
TOOLS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "armhf": ("arm-linux-gnueabihf-gcc", "qemu-arm"),
    "riscv64": ("riscv64-linux-gnu-gcc", "qemu-riscv64"),
}


@pytest.fixture(params=TOOLS)
def processor(request):
    missing = [t for t in TOOLS[request.param] if not shutil.which(t)]
    if missing:
        pytest.skip(f"no cross compiler or emulator here: {missing[0]} (ci/deps check)")
    return request.param


def run(*words, **more):
    r = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=1200, **more)
    assert r.returncode == 0, f"{words}\n{r.stdout[-2000:]}{r.stderr[-4000:]}"
    return r.stdout + r.stderr


def test_every_file_compiles(processor):
    """Compiles with -Werror, and the CPU kernels to machine code."""
    run("ci/cross", processor, "syntax", cwd=ROOT, env=without_make())


@pytest.mark.by_turn(4)
def test_clang_reads_every_file():
    """Compiles for aarch64 with clang, which has its own intrinsics."""
    if not shutil.which("clang") or not shutil.which(TOOLS["aarch64"][0]):
        pytest.skip("no cross compiler or emulator here: clang (ci/deps check)")
    clang = "clang --target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include"
    run("ci/cross", "aarch64", "syntax", clang, cwd=ROOT, env=without_make())


def emit(folder, *options):
    run(BUILD / "clave", "compile", MNIST / "mnist.clv", "--emit-c", folder, "--dim", "batch=1", *options)
    return folder


def test_a_compiled_program_runs(processor, tmp_path):
    """Runs portable code with few optimisations; its answer has the CPU backend's bits if no product is fused."""
    compiler, emulator = TOOLS[processor]
    folder = emit(tmp_path / "c", "--processor", "portable", "--pack", "--packed-only", "--verify")
    run("make", "-s", "-j2", f"CC={compiler}", "CFLAGS=-O0 -Werror", "LDFLAGS=-static", cwd=folder, env=without_make())
    run(emulator, folder / "model", MNIST / "digits/7.npy", tmp_path / "o.npy")
    assert np.load(tmp_path / "o.npy").argmax() == 7
    if processor != "aarch64":
        assert "verified: 1 outputs" in run(emulator, folder / "model", "--verify")


# ---------------------------------------------------------------- outputs


def headers_of(file):
    return run("readelf", "-lWS", file)


@pytest.mark.parametrize(
    "options",
    [("-o", "exe"), ("-o", "exe", "--arena", "static", "--pack"), ("-o", "libdigit.so", "--shared")],
    ids=" ".join,
)
@pytest.mark.by_turn(3, together="stack")
def test_no_stack_is_executable(tmp_path, options):
    """In any kind of output, the stack's segment is not executable."""
    words = ["compile", MNIST / "mnist.clv", "--dim", "batch=1", "--processor", "portable", "--debug", *options]
    run(BUILD / "clave", *words, cwd=tmp_path)
    stack = [line for line in headers_of(tmp_path / options[1]).splitlines() if "GNU_STACK" in line]
    assert len(stack) == 1 and "RWE" not in stack[0], stack


@pytest.mark.parametrize("options", [("--method", "all"), ("--target", "opencl"), ("--method", "all", "--shared")])
def test_no_stack_of_carried_programs_is_executable(tmp_path, options):
    out = tmp_path / "libdigits.so"
    r = subprocess.run(
        [BUILD / "clave", "compile", MNIST / "mnist.clv", "-o", out, *options], capture_output=True, text=True
    )
    assert r.returncode == 0, r.stderr
    stack = [line for line in headers_of(out).splitlines() if "GNU_STACK" in line]
    assert len(stack) == 1 and "RWE" not in stack[0], stack


def test_objects_for_firmware_have_no_executable_stack(tmp_path):
    run(BUILD / "clave", "compile", MNIST / "mnist.clv", "--dim", "batch=1", "--bare", "-o", tmp_path / "digit.o",
        "--processor", "portable", "--debug")  # fmt: skip
    notes = [line for line in headers_of(tmp_path / "digit.o").splitlines() if ".note.GNU-stack" in line]
    assert len(notes) == 1 and "X" not in notes[0].split("PROGBITS")[1].split()[4:5], notes


# ---------------------------------------------------------------- --march, --processor


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kinds of processors are x86-64's")
def test_march_builds_what_it_has_alone(tmp_path):
    """Kernels for AVX-512 are built for a march that has it; with packed weights the program chooses when it runs."""
    for march, more, built in (("x86-64-v3", [], False), ("x86-64-v4", [], True), ("x86-64-v3", ["--pack"], True)):
        folder = emit(tmp_path / f"{march}{len(more)}", "--march", march, *more)
        flags = next(x for x in (folder / "Makefile").read_text().splitlines() if x.startswith("FLAGS = "))
        words = [*flags.split()[2:], "-c", "-o", "kernel.o", "backend/cpu/kernels/conv/direct_kernels.c"]
        run("gcc", *words, cwd=folder, env=without_make())
        assert ("zmm" in run("objdump", "-d", "kernel.o", cwd=folder)) == built, march


def test_portable_code_has_no_variants(tmp_path):
    """The executable uses none of x86-64's larger registers, and its results equal those of clave on such a
    processor."""
    exe = tmp_path / "digit"
    words = ["compile", MNIST / "mnist.clv", "-o", exe, "--dim", "batch=1", "--processor", "portable"]
    run(BUILD / "clave", *words, "--pack", "--packed-only", "--verify")
    assert "%ymm" not in run("objdump", "-d", exe)
    assert "verified: 1 outputs" in run(exe, "--verify")


@pytest.mark.parametrize(
    "options, message",
    [
        (("--processor", "mips"), '--processor: expected portable, got "mips"'),
        (("--processor", "portable", "--target", "opencl"), "--processor needs a program that is emitted as C code"),
    ],
)
def test_processors_that_are_refused(tmp_path, options, message):
    words = [BUILD / "clave", "compile", MNIST / "mnist.clv", "-o", tmp_path / "x", *options]
    r = subprocess.run(words, capture_output=True, text=True)
    assert r.returncode and message in r.stderr and not (tmp_path / "x").exists(), r.stderr
