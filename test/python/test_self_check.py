"""The self-check: kernels that give wrong numbers are found at their first run, and the CPU backend takes over."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import clave

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")) / "clave"


class Model(torch.nn.Module):
    """A kernel that will be broken between two that are not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tril(x * 2.0).cumsum(1)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Kernels whose triangle keeps the diagonal that it should not."""
    folder = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels_cl", folder)
    text = (folder / "triangle.cl").read_text()
    right = "j - i <= diagonal"
    assert right in text
    (folder / "triangle.cl").write_text(text.replace(right, "j - i < diagonal"))
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "m.clv"
    clave.export(Model(), (torch.zeros(9, 9),)).save(path)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(9, 9)).astype(np.float32))
    return path


def run(program: Path, kernels: Path, *args: str, check: str = "on") -> subprocess.CompletedProcess[str]:
    folder = program.parent
    cache = folder / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    env = os.environ | {
        "CLAVE_KERNEL_DIR": str(kernels),
        "CLAVE_CACHE_DIR": str(cache),
        "CLAVE_SELF_CHECK": check,
    }
    out = folder / "out.safetensors"
    out.unlink(missing_ok=True)
    given = ["--device", "opencl", "--input", f"input_0={folder}/x.npy", "--outputs", out]
    return subprocess.run([TOOL, "run", program, *given, *args], env=env, text=True, capture_output=True)


def result(program: Path) -> tuple[np.ndarray, np.ndarray]:
    """What the last run gave, and what torch gives."""
    x = torch.from_numpy(np.load(program.parent / "x.npy"))
    return load_file(program.parent / "out.safetensors")["output_0"], Model()(x).numpy()


def test_wrong_kernels_are_replaced(program: Path, broken: Path) -> None:
    for _ in range(2):  # what was found wrong is found wrong again
        done = run(program, broken)
        assert done.returncode == 0
        assert "triangle gives wrong numbers on" in done.stderr, done.stderr
        assert "it runs on the CPU backend" in done.stderr
        np.testing.assert_allclose(*result(program), rtol=1e-5, atol=1e-6)


def test_without_fallback_wrong_kernels_are_an_error(program: Path, broken: Path) -> None:
    done = run(program, broken, "--no-fallback")
    assert done.returncode == 1
    assert "the kernels of triangle give wrong numbers on" in done.stderr
    assert not (program.parent / "out.safetensors").exists()


def test_a_binary_kept_by_an_unchecked_run_is_not_trusted(program: Path, broken: Path) -> None:
    done = run(program, broken, check="off")
    assert done.returncode == 0
    assert done.stderr.count("wrong numbers") == 0
    got, want = result(program)
    assert not np.allclose(got, want)
    assert "wrong numbers" in run(program, broken).stderr


def test_right_kernels_pass(program: Path) -> None:
    for _ in range(2):
        done = run(program, ROOT / "kernels_cl")
        assert done.returncode == 0
        assert "wrong numbers" not in done.stderr
        np.testing.assert_allclose(*result(program), rtol=1e-5, atol=1e-6)


def test_later_runs_of_a_session_go_to_the_cpu(program: Path, broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAVE_KERNEL_DIR", str(broken))
    monkeypatch.setenv("CLAVE_CACHE_DIR", "off")
    session = clave.Session(program, device="opencl", fallback=True)
    for seed in range(3):
        x = torch.randn(9, 9, generator=torch.Generator().manual_seed(seed))
        np.testing.assert_allclose(session.run(x)[0], Model()(x).numpy(), rtol=1e-5, atol=1e-6)


def test_a_session_without_fallback_refuses(program: Path, broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAVE_KERNEL_DIR", str(broken))
    monkeypatch.setenv("CLAVE_CACHE_DIR", "off")
    with pytest.raises(clave.Error, match="the kernels of triangle give wrong numbers on"):
        clave.Session(program, device="opencl", fallback=False).run(torch.zeros(9, 9) + 1)


def test_fast_precision_is_close(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAVE_PRECISION", "fast")
    done = run(program, ROOT / "kernels_cl")
    assert (done.returncode, done.stderr.count("wrong numbers")) == (0, 0)
    np.testing.assert_allclose(*result(program), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "right"), [("CLAVE_PRECISION", "strict or fast"), ("CLAVE_SELF_CHECK", "on or off")])
def test_unknown_settings(program: Path, monkeypatch: pytest.MonkeyPatch, name: str, right: str) -> None:
    monkeypatch.setenv(name, "maybe")
    check = "maybe" if name == "CLAVE_SELF_CHECK" else "on"
    done = run(program, ROOT / "kernels_cl", check=check)
    assert done.returncode == 1
    assert f"{name} is 'maybe', not {right}" in done.stderr
