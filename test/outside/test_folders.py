"""Relative paths given before the process changes its folder, and homes that are not writable or do not exist. The
results are right, files stay in the named folder, and at most one note is printed."""

import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import clave

BEGIN = """
    import os
    import numpy as np
    import clave

    x, want = np.load("x.npy"), np.load("want.npy")
    os.mkdir("elsewhere")
"""
END = """
    assert not os.listdir("."), os.listdir(".")
"""


class Weighted(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x):
        return (x * self.weight).softmax(-1)


@pytest.fixture
def folder(root, tmp_path):
    """Makes a working folder with programs whose weights are so large that they are read in place."""
    folder = tmp_path / "work"
    (folder / "parts").mkdir(parents=True)
    torch.manual_seed(0)
    x, module = torch.randn(5, 300, 300), Weighted(torch.randn(300, 300))
    program = clave.export(module, (x,))
    for name in ("m.clv", "parts/m.json"):
        program.save(folder / name)
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "want.npy", module(x).detach().numpy())
    shutil.copy(root / "examples/tinylm/tinylm.clv", folder / "language.clv")
    return folder


def run_python(folder, build, root, env, *scripts):
    """Runs the scripts as one, with the library named by a relative path; returns the output."""
    text = "".join(textwrap.dedent(s) for s in scripts)
    paths = {"CLAVE_LIBRARY": os.path.relpath(build / "libclave.so", folder), "PYTHONPATH": str(root / "python")}
    command = [sys.executable, "-c", text]
    p = subprocess.run(command, cwd=folder, env=paths | env, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, (p.returncode, p.stderr)
    return p.stderr


@pytest.mark.parametrize("when", ["device", "session", "run"])
def test_programs_by_relative_paths(folder, build, root, outsider, when):
    """The process changes its folder after it opens the devices, makes the sessions, or runs them once."""
    steps = {
        "device": """
            programs = [clave.load(name) for name in ("m.clv", "parts/m.json")]
            devices = [clave.Device(name) for name in ("cpu", "opencl")]
        """,
        "session": "sessions = [clave.Session(p, d) for p in programs for d in devices]\n",
        "run": "first = [session(x) for session in sessions]\n",
    }
    moves = {step: 'os.chdir("elsewhere")\n' * (step == when) for step in steps}
    script = [text for step, line in steps.items() for text in (line, moves[step])]
    check = "assert all(np.allclose(got, want, atol=1e-4) for got in [*first, *(session(x) for session in sessions)])\n"
    env = outsider | {"CLAVE_CACHE_DIR": "kept"}
    assert run_python(folder, build, root, env, BEGIN, *script, check, END) == ""
    assert [p for p in (folder / "kept").rglob("*") if p.is_file() and p.stat().st_size]


def test_kernels_by_a_relative_path(folder, build, root, outsider):
    """Kernels are read when they are built."""
    shutil.copytree(root / "kernels_cl", folder / "kernels")
    script = """
    session = clave.Session(clave.load("m.clv"), "opencl")
    os.chdir("elsewhere")
    assert np.allclose(session(x), want, atol=1e-4)
    """
    env = outsider | {"CLAVE_KERNEL_DIR": "kernels", "CLAVE_CACHE_DIR": "off", "CLAVE_HELPER": "off"}
    assert run_python(folder, build, root, env, BEGIN, script, END) == ""


def test_the_library_by_a_relative_path(folder, build, root, outsider):
    """The library starts the `clave` in its own folder, which builds kernels for drivers that build one at a time. The
    file here does not, so the process builds them itself."""
    (folder / "tools").mkdir()
    shutil.copy(build / "libclave.so", folder / "tools")
    (folder / "tools/clave").write_text(f"#!/bin/sh\n: >{folder}/started\n")
    (folder / "tools/clave").chmod(0o755)
    script = """
    platform = clave.devices()[0]["platform"]
    os.chdir("elsewhere")
    assert np.allclose(clave.Session(clave.load("../m.clv"), "opencl")(x), want, atol=1e-4)
    assert os.path.exists("../started") or "Portable Computing Language" not in platform
    """
    env = outsider | {"CLAVE_LIBRARY": "tools/libclave.so", "CLAVE_CACHE_DIR": "off"}
    assert run_python(folder, build, root, env, BEGIN, script, END) == ""


def test_a_language_model_by_a_relative_path(folder, build, root, outsider):
    """Weights are mapped and read while the program runs."""
    script = """
    model = clave.LLM("language.clv", device="cpu")
    os.chdir("elsewhere")
    talk = model.conversation(temperature=0)
    answers = [model.generate("The cat", max_new_tokens=8, temperature=0) for _ in range(2)]
    assert answers[0] == answers[1] and len(answers[0].ids) == 8
    talk.prompt("The cat")
    talk.save("talk.bin")
    os.chdir("..")
    talk = model.conversation(temperature=0).load("elsewhere/talk.bin")
    assert talk.generate(max_new_tokens=8) == answers[0]
    os.remove("elsewhere/talk.bin")
    os.chdir("elsewhere")
    """
    env = outsider | {"CLAVE_CACHE_DIR": "kept"}
    assert run_python(folder, build, root, env, BEGIN, script, END) == ""


def home_of(kind, folder):
    """Returns variables that determine the kernel cache, when none is writable."""
    if kind == "missing":
        return {"HOME": str(folder / "no/home"), "XDG_CACHE_HOME": ""}
    if kind == "unset":
        return {}
    if kind == "a file":
        (folder / "file").write_text("")
        return {"HOME": str(folder / "file"), "XDG_CACHE_HOME": str(folder / "file")}
    if kind == "a full name":
        return {"HOME": "/" + "h" * 5000, "XDG_CACHE_HOME": "/" + "x" * 300}
    return {"HOME": "/proc", "XDG_CACHE_HOME": "/proc/none"}  # read-only for root, too


KINDS = ("missing", "unset", "a file", "a full name", "read-only")


@pytest.mark.parametrize(
    "kind", [k if k == "read-only" else pytest.param(k, marks=pytest.mark.by_turn(4)) for k in KINDS]
)
@pytest.mark.parametrize(
    "helper", [pytest.param({}, marks=pytest.mark.by_turn(5)), {"CLAVE_HELPER": "off"}], ids=["helper", "no helper"]
)
def test_a_home_without_a_cache(folder, build, root, outsider, kind, helper):
    script = """
    for device in ("opencl", "cpu"):
        session = clave.Session(clave.load("m.clv"), device)
        assert np.allclose(session(x), want, atol=1e-4)
    os.chdir("elsewhere")
    """
    env = {k: v for k, v in outsider.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    env |= home_of(kind, folder) | helper
    notes = run_python(folder, build, root, env, BEGIN, script, END)
    assert len(notes.splitlines()) <= 1, notes
