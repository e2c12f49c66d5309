"""The tool for Windows under wine against the tool of this system: results of runs are equal byte by byte. The part
"Windows" of ci/check.py builds both, and alone runs this folder."""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MNIST = "examples/mnist/mnist.clv"
WINDOWS = ("ci/cross", "windows", "run", "build/windows/clave.exe")
TALK = ("generate", "examples/tinylm/tinylm.clv", "--device", "cpu", "--prompt", "ROMEO:", "--max-new-tokens", "20")


def run(*command, code=0):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300)
    assert done.returncode == code, done.stderr.decode()
    return done


def on_both(*words):
    """Returns the standard output of the tool on Windows, which is equal to that of this system."""
    out, wanted = (run(*tool, *words).stdout for tool in (WINDOWS, ("build/clave",)))
    assert out == wanted
    return out


def test_inspect():
    assert b"15 nodes" in on_both("inspect", MNIST)


def test_generate():
    assert len(on_both(*TALK)) > 20


@pytest.mark.parametrize("name", ["plain", "\u00e4\u6587 x"])
def test_run(tmp_path, name):
    """Files whose names are not ASCII are read and written; backslashes separate folders, too."""
    model, image = tmp_path / f"{name}.clv", np.arange(28 * 28, dtype=np.float32).reshape(1, 1, 28, 28) % 7 / 7
    shutil.copy(ROOT / MNIST, model)
    np.save(tmp_path / "x.npy", image)
    results = []
    for tool, program in ((WINDOWS, str(model).replace("/", "\\")), (("build/clave",), str(model))):
        out = tmp_path / f"{name}{len(results)}.safetensors"
        run(*tool, "run", program, "--input", f"x={tmp_path}/x.npy", "--outputs", str(out), "--device", "cpu")
        results.append(out.read_bytes())
    assert results[0] == results[1]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".clv", ".npy", ".safetensors", ".safetensors"]


def test_doctor():
    """Devices are checked in the process itself, as this build starts no programs."""
    report = json.loads(run(*WINDOWS, "doctor", "--device", "cpu", "--json").stdout)
    assert report["problems"] == []
    assert report["isolation"]["how"] in ("marks on disk", "off")
    assert len(report["devices"]) == 1


def test_no_compiler(tmp_path):
    """Programs cannot be compiled to executables."""
    done = run(*WINDOWS, "compile", MNIST, "-o", str(tmp_path / "mnist.exe"), code=1)
    assert b"this build of clave starts no other programs" in done.stderr
