"""Compares compiled programs with the interpreter: a program becomes C, then an executable, and the executable's
results are compared bit by bit with a session's on the CPU backend.

Sources that programs share are compiled once for each compiler, flags and state of the sources, into build/compiled.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import clave

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CLAVE_BUILD", ROOT / "build")).resolve()
# Variables of executables: as in conftest.py, the self-check is off, which may replace kernels by the CPU backend.
ALONE = {"cpu": {}, "opencl": {"CLAVE_SELF_CHECK": "off", "HOME": os.environ.get("HOME", "/")}}
SAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g")
TURN = os.environ.get("CLAVE_TEST_TURN")
LEVEL = "-O0" if TURN and zlib.crc32(TURN.encode()) % 3 else "-O1"  # optimising is slow: only with one commit in three


class Refused(Exception):
    """The error of clave compile for a program that it does not accept."""


def command(*args: Any, **more: Any) -> subprocess.CompletedProcess:
    return subprocess.run([BUILD / "clave", *map(str, args)], capture_output=True, text=True, **more)


def dims_of(program: pathlib.Path, inputs: Sequence[Any], method: str = "") -> list[str]:
    """Returns --dim for each dynamic size and scalar of these inputs."""
    r = command("inspect", program, "--json")
    assert r.returncode == 0, r.stderr
    of = next(m for m in json.loads(r.stdout)["methods"] if method in ("", m["name"]))
    found = {}
    for given, x in zip(of["inputs"], inputs, strict=True):
        if is_scalar(x):
            found[given["name"]] = int(x)
            continue
        for name, n in zip(given["shape"], np.shape(x), strict=True):
            if isinstance(name, str):
                found[name] = n
    return [part for name, n in found.items() for part in ("--dim", f"{name}={n}")]


def is_scalar(x: Any) -> bool:
    """True for a number; tensors are files."""
    return isinstance(x, (bool, int, float))


class Carried(Exception):
    """The reason why clave compile does not write a program out."""


class Builder:
    """Builds executables from emitted sources, with one compiler and additional flags."""

    def __init__(self, compiler: str = "gcc", flags: Sequence[str] = (LEVEL,), all_steps: bool = False):
        """all_steps: elementwise kernels have all steps, not only the program's, so that programs share them."""
        self.all_steps = all_steps
        self.command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fwrapv"]
        self.command += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", *flags]
        sources = (BUILD / "gen/compile_tables.c").read_bytes()  # and headers
        key = hashlib.sha256(" ".join(self.command).encode() + sources).hexdigest()[:16]
        self.objects = BUILD / "compiled" / key
        self.objects.mkdir(parents=True, exist_ok=True)

    def compile(self, folder: pathlib.Path, source: str, to: pathlib.Path, *flags: str) -> None:
        made = to.with_name(f"{to.name}.{os.getpid()}")
        r = subprocess.run(
            [*self.command, *flags, "-I.", "-c", source, "-o", made], cwd=folder, capture_output=True, text=True
        )
        assert r.returncode == 0, r.stderr[:2000]
        assert r.stderr == "", r.stderr[:2000]
        made.replace(to)

    def shared_object(self, folder: pathlib.Path, source: str, flags: Sequence[str]) -> pathlib.Path:
        """Returns the object of a source that all programs share. flags: the program's own, which few sources read."""
        text = (folder / source).read_text()
        own = [f for f in flags if f.removeprefix("-D").split("=")[0] in text]
        key = hashlib.sha256(" ".join([text, *own]).encode()).hexdigest()[:16]
        to = self.objects / f"{source.replace('/', '_')}.{key}.o"
        if not to.exists():
            self.compile(folder, source, to, *own)
        return to

    def build(self, folder: pathlib.Path) -> pathlib.Path:
        own = []
        for source in ("model.c", *sorted(f.name for f in folder.glob("*.S"))):
            own.append(folder / f"{source}.o")
            self.compile(folder, source, own[-1])
        others = sorted(str(f.relative_to(folder)) for f in folder.rglob("*.c") if f != folder / "model.c")
        words = (folder / "Makefile").read_text().split()
        flags = [w for w in words if w.startswith("-D") and w != "-D_GNU_SOURCE"]
        if self.all_steps:
            flags = [f for f in flags if "_STEPS=" not in f]
        shared = [self.shared_object(folder, s, flags) for s in others]
        exe = folder / "model"
        libraries = [w for w in ("-lpthread", "-lm") if w in words]
        subprocess.run([*self.command, "-o", exe, *own, *shared, *libraries], check=True)
        return exe


def emit(program: pathlib.Path, folder: pathlib.Path, *options: str) -> pathlib.Path:
    """Writes the sources to `folder`. Raises Refused if compile fails, Carried if the program is not written out."""
    r = command("compile", program, "--emit-c", folder, *options)
    if r.returncode:
        assert not folder.exists(), f"something was left behind; {r.stderr}"
        assert r.stderr.startswith("clave: ") and r.stderr.count("\n") == 1, r.stderr
        raise Refused(r.stderr)
    if "embeds the runtime" in r.stderr:
        raise Carried(r.stderr)
    return folder


def given(folder: pathlib.Path, i: int, x: Any) -> str:
    """Returns an input as an argument of the executable: a file, or a number."""
    if is_scalar(x):
        return str(x).lower()
    (folder / f"in{i}.bin").write_bytes(np.ascontiguousarray(bits_of(x)).tobytes())
    return str(folder / f"in{i}.bin")


def run(
    exe: pathlib.Path, inputs: Sequence[Any], like: Sequence[np.ndarray], *options: str, **more: Any
) -> list[np.ndarray]:
    """Returns the outputs, as arrays with the dtypes and shapes of `like`."""
    folder = exe.parent
    outs = [folder / f"out{i}.bin" for i in range(len(like))]
    words = [given(folder, i, x) for i, x in enumerate(inputs)]
    r = subprocess.run([exe, *options, *words, *outs], capture_output=True, text=True, timeout=120, **more)
    assert (r.returncode, r.stdout) == (0, ""), r.stderr[:3000]
    raw = [f.read_bytes() for f in outs]
    for b, w in zip(raw, like, strict=True):
        assert len(b) == w.nbytes, f"{len(b)} bytes, not {w.nbytes}"
    return [np.frombuffer(b, w.dtype).reshape(w.shape) for b, w in zip(raw, like, strict=True)]


def refusal(exe: pathlib.Path, inputs: Sequence[Any], n_outputs: int, *options: str) -> str:
    """Returns the line with which an executable ends that writes nothing."""
    outs = [exe.parent / f"refused{i}.bin" for i in range(n_outputs)]
    words = [given(exe.parent, i, x) for i, x in enumerate(inputs)]
    r = subprocess.run([exe, *options, *words, *outs], capture_output=True, text=True, timeout=120)
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (1, "", 1), r.stderr[:3000]
    assert not any(f.exists() for f in outs)
    return r.stderr


def bits_of(x: Any) -> np.ndarray:
    """Returns an array that numpy can write: the bytes of a torch tensor if numpy lacks its dtype."""
    if not isinstance(x, torch.Tensor):
        return np.asarray(x)
    if x.dtype == torch.bfloat16 or "float8" in str(x.dtype):
        return x.contiguous().view(torch.uint8 if x.itemsize == 1 else torch.int16).numpy()
    return x.numpy()


def compare_carried(
    program: pathlib.Path, exe: pathlib.Path, inputs: Sequence[Any], *options: str, device: str = "cpu", **more: Any
) -> None:
    """Compares a run of an executable that carries its program, in a nearly empty environment, with a run of a session
    on that device bit by bit; more: options of the session's run."""
    want = [np.asarray(w) for w in clave.Session(str(program), device=device).run(*inputs, **more)]
    for i, (a, b) in enumerate(zip(run(exe, inputs, want, *options, env=ALONE[device]), want, strict=True)):
        assert same_bits(a, b), f"output {i}: other bits than a session's"


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """True if the bits are the same, or both are NaN: which NaN a sum of two returns is the compiler's choice."""
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "biu":
        return False
    one, other = a.astype(np.float64), b.astype(np.float64)
    return bool(np.all(np.isnan(one) == np.isnan(other))) and np.array_equal(
        np.where(np.isnan(one), 0, a).tobytes(), np.where(np.isnan(other), 0, b).tobytes()
    )


def compare(
    builder: Builder, program: pathlib.Path, inputs: Sequence[Any], folder: pathlib.Path, *options: str
) -> None:
    """Compares a run of the executable with one of a session bit by bit. Raises Refused if it is not compiled."""
    want = clave.Session(str(program), device="cpu").run(*inputs)
    given = [x if is_scalar(x) else bits_of(x) for x in inputs]
    emit(program, folder, *dims_of(program, given))
    got = run(builder.build(folder), [x for x in given if not is_scalar(x)], want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert same_bits(a, b), f"output {i}: other bits than a session's"
