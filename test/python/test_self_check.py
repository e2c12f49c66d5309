"""The self-check: kernels with wrong numbers are found at the first run of a class of sizes, and the CPU backend
replaces them. The faults are planted in copies of the kernels."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import clave

pytestmark = pytest.mark.by_turn(3)
ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")) / "clave"


class Model(torch.nn.Module):
    """An op whose kernel is broken, between two others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tril(x * 2.0).cumsum(1)


def plant(tmp_path: Path, file: str, right: str, wrong: str) -> Path:
    """Copies the kernels and makes one wrong."""
    folder = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels_cl", folder)
    text = (folder / file).read_text()
    assert text.count(right) == 1
    (folder / file).write_text(text.replace(right, wrong))
    return folder


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Returns kernels whose triangle has one diagonal too few."""
    return plant(tmp_path, "triangle.cl", ": j - i <= diagonal;", ": j - i < diagonal;")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "m.clv"
    clave.export(Model(), (torch.zeros(9, 9),)).save(path)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(9, 9)).astype(np.float32))
    return path


@pytest.fixture
def symbolic(tmp_path: Path) -> Path:
    """Exports a triangle, a softmax over columns and one over rows, of an input with dynamic rows and columns."""

    class Sizes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return torch.tril(x), torch.softmax(x, 0), torch.softmax(x, 1)

    path = tmp_path / "symbolic.clv"
    dims = {0: torch.export.Dim("rows", min=2), 1: torch.export.Dim("columns", min=2)}
    clave.export(Sizes(), (torch.zeros(9, 20),), dynamic_shapes=(dims,)).save(path)
    return path


def random(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows + columns))


def settings(folder: Path, kernels: Path, check: str = "on") -> dict[str, str]:
    """Returns the environment; the faults are planted in loops of the kernels for CPUs."""
    cache = folder / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    names = "CLAVE_KERNEL_DIR", "CLAVE_CACHE_DIR", "CLAVE_SELF_CHECK", "CLAVE_DEVICE_CLASS"
    return dict(zip(names, (str(kernels), str(cache), check, "cpu"), strict=True))


def notes(program: Path, kernels: Path, rows: int, columns: int, **env: str) -> str:
    """Returns the notes of a run of `symbolic`; its results are right."""
    x = random(rows, columns)
    np.save(program.parent / "x.npy", x.numpy())
    done = run(program, kernels, **env)
    assert done.returncode == 0, done.stderr
    got = load_file(program.parent / "out.safetensors")
    for i, want in enumerate((torch.tril(x), torch.softmax(x, 0), torch.softmax(x, 1))):
        np.testing.assert_allclose(got[f"output_{i}"], want.numpy(), rtol=1e-5, atol=1e-6)
    return done.stderr


def run(program: Path, kernels: Path, *args: str, check: str = "on", **more: str) -> subprocess.CompletedProcess[str]:
    folder = program.parent
    env = os.environ | settings(folder, kernels, check) | more
    out = folder / "out.safetensors"
    out.unlink(missing_ok=True)
    given = ["--device", "opencl", "--input", f"input_0={folder}/x.npy", "--outputs", out]
    return subprocess.run([TOOL, "run", program, *given, *args], env=env, text=True, capture_output=True)


def result(program: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the result of the last run, and torch's."""
    x = torch.from_numpy(np.load(program.parent / "x.npy"))
    return load_file(program.parent / "out.safetensors")["output_0"], Model()(x).numpy()


def test_wrong_kernels_are_replaced(program: Path, broken: Path) -> None:
    for _ in range(2):  # a wrong kernel is detected again
        done = run(program, broken)
        assert done.returncode == 0
        assert "triangle computes wrong numbers on" in done.stderr, done.stderr
        assert "it runs on the CPU backend" in done.stderr
        np.testing.assert_allclose(*result(program), rtol=1e-5, atol=1e-6)


def test_without_fallback_wrong_kernels_are_an_error(program: Path, broken: Path) -> None:
    done = run(program, broken, "--no-fallback")
    assert done.returncode == 1
    assert "the kernels of triangle compute wrong numbers on" in done.stderr
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
    for name, value in settings(program.parent, broken).items():
        monkeypatch.setenv(name, value)
    session = clave.Session(program, device="opencl", fallback=True)
    for seed in range(3):
        x = torch.randn(9, 9, generator=torch.Generator().manual_seed(seed))
        np.testing.assert_allclose(session.run(x)[0], Model()(x).numpy(), rtol=1e-5, atol=1e-6)


class Looped(torch.nn.Module):
    """One command runs in each iteration, each time on other numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros_like(x[0])
        return torch._higher_order_ops.scan(lambda c, row: (torch.tril(c + row), torch.tril(c + row)), zero, x)[1]


def test_each_iteration_of_a_loop_is_right(tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(tmp_path, broken).items():
        monkeypatch.setenv(name, value)
    x = random(4 * 9, 9).view(4, 9, 9)
    session = clave.Session(clave.export(Looped(), (x,)), clave.Device("opencl", fallback=True))
    for _ in range(2):
        torch.testing.assert_close(session(x), Looped()(x), rtol=1e-5, atol=1e-5)


def test_a_session_without_fallback_refuses(program: Path, broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(program.parent, broken).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(clave.Error, match="the kernels of triangle compute wrong numbers on"):
        clave.Session(program, device="opencl", fallback=False).run(torch.zeros(9, 9) + 1)


def test_fast_precision_is_close(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAVE_PRECISION", "fast")
    done = run(program, ROOT / "kernels_cl")
    assert (done.returncode, done.stderr.count("wrong numbers")) == (0, 0)
    np.testing.assert_allclose(*result(program), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "right"), [("CLAVE_PRECISION", "strict or fast"), ("CLAVE_SELF_CHECK", "on, off or strict")]
)
def test_unknown_settings(program: Path, monkeypatch: pytest.MonkeyPatch, name: str, right: str) -> None:
    monkeypatch.setenv(name, "maybe")
    check = "maybe" if name == "CLAVE_SELF_CHECK" else "on"
    done = run(program, ROOT / "kernels_cl", check=check)
    assert done.returncode == 1
    assert f"{name}: expected {right}, got 'maybe'" in done.stderr


def test_strict_is_an_error_in_place_of_a_note(program: Path, broken: Path) -> None:
    done = run(program, broken, check="strict")
    assert done.returncode == 1
    assert "the kernels of triangle compute wrong numbers on" in done.stderr
    assert run(program, ROOT / "kernels_cl", check="strict").returncode == 0


# file, right, wrong, a size that does not show it, one that does (rows, columns), the op
FAULTS = {
    "a loop that stops after its first block": (
        *("softmax.cl", "from < n; from += BLOCK) {", "from < 1; from += BLOCK) {"),
        *((64, 20), (300, 20), "softmax"),
    ),
    "a loop for the rest": (
        *("softmax.cl", "const real r = RESULT(v, m, total);", "const real r = RESULT(v, m, total) + i;"),
        *((9, 32), (9, 37), "softmax"),
    ),
    "the second of two chunks": (
        *("triangle.cl", "keep = UPPER ?", "keep = from ? 1 : UPPER ?"),
        *((9, 64), (9, 65), "triangle"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_class_of_sizes_does_not_prove_another(symbolic: Path, tmp_path: Path, name: str) -> None:
    """The runs are separate processes, with the proofs stored on disk."""
    file, right, wrong, small, large, op = FAULTS[name]
    kernels = plant(tmp_path, file, right, wrong)
    for _ in range(2):
        assert "wrong numbers" not in notes(symbolic, kernels, *small)
    assert f"{op} computes wrong numbers on" in notes(symbolic, kernels, *large)
    assert "wrong numbers" not in notes(symbolic, kernels, *small)


def test_nor_does_it_in_one_session(symbolic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, right, wrong, _, _, _ = FAULTS["a loop that stops after its first block"]
    for name, value in settings(tmp_path, plant(tmp_path, file, right, wrong)).items():
        monkeypatch.setenv(name, value)
    session = clave.Session(symbolic, device="opencl", fallback=True)
    for rows in (64, 300, 64, 700):
        x = random(rows, 20)
        np.testing.assert_allclose(session.run(x)[1], torch.softmax(x, 0).numpy(), rtol=1e-5, atol=1e-6)


def test_one_wrong_element_is_enough(symbolic: Path, tmp_path: Path) -> None:
    kernels = plant(tmp_path, "triangle.cl", "out[j] = keep", "out[j] = keep && !(i == 50 && j == 17)")
    assert "1 of 4096 elements differ" in notes(symbolic, kernels, 64, 64)


def test_wide_indices_are_proven_by_themselves(symbolic: Path, tmp_path: Path) -> None:
    kernels = plant(tmp_path, "triangle.cl", "<= diagonal;", "<= diagonal - WIDE;")
    assert "wrong numbers" not in notes(symbolic, kernels, 9, 20)
    assert "triangle computes wrong numbers on" in notes(symbolic, kernels, 9, 20, CLAVE_DEVICE_CLASS="wide")


def test_large_results_are_compared_in_part(tmp_path: Path) -> None:
    """Only the last 12 of 80 MB are wrong. The op runs again on the CPU backend, in parts."""
    kernels = plant(tmp_path, "triangle.cl", "out[j] = keep", "out[j] = keep && row < 17000")
    x = torch.ones(20, 1000, 1000)
    np.save(tmp_path / "x.npy", x.numpy())
    path = tmp_path / "m.clv"
    clave.export(Triangles(), (x,)).save(path)
    done = run(path, kernels)
    assert done.returncode == 0
    assert "triangle computes wrong numbers on" in done.stderr
    assert np.array_equal(load_file(tmp_path / "out.safetensors")["output_0"], torch.tril(x).numpy())
    assert "elements differ" in done.stderr
    assert "of 20000000 elements" not in done.stderr


class Triangles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tril(x)


class Thresholds(torch.nn.Module):
    """A program that amplifies: a difference in the last bit becomes 1, and tiny differences become large."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.exp(x)
        return (
            torch.floor(y * 7.3),
            torch.sin(y * 1e4),
            torch.log(y) > 0.1,
            (y * 3).to(torch.int32),
            (y - y.mean()).sum(1),
        )


def test_rounding_is_not_taken_for_wrong_code(tmp_path: Path) -> None:
    x = torch.randn(256, 1024, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "x.npy", x.numpy())
    path = tmp_path / "m.clv"
    clave.export(Thresholds(), (x,), verify=False).save(path)  # sin(1e4 y) magnifies roundings
    done = run(path, ROOT / "kernels_cl", check="strict")
    assert done.returncode == 0, done.stderr


def test_a_threshold_hides_no_wrong_code(tmp_path: Path) -> None:
    right = "step_exp_##S(T a) { return exp(a); }"
    wrong = right.replace("exp(a);", "a > 1.5f && a < 1.502f ? exp(a) * 1.01f : exp(a);")
    kernels = plant(tmp_path, "support/steps.h", right, wrong)
    np.save(tmp_path / "x.npy", np.linspace(-3, 3, 4096, dtype=np.float32).reshape(4, 1024))
    path = tmp_path / "m.clv"
    clave.export(Thresholds(), (torch.zeros(4, 1024),)).save(path)
    done = run(path, kernels, check="strict")
    assert done.returncode == 1
    assert "the kernels of elementwise compute wrong numbers" in done.stderr


def proofs(cache: Path) -> int:
    """Returns the number of proven classes in all binaries."""
    return sum(struct.unpack_from("<Q", f.read_bytes(), 104)[0] for f in cache.glob("*.clbin"))


def test_growing_sizes_meet_few_classes(symbolic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(tmp_path, ROOT / "kernels_cl").items():
        monkeypatch.setenv(name, value)
    session = clave.Session(symbolic, device="opencl")
    for rows in range(130, 250):
        session.run(random(rows, 20))
    del session
    assert 3 <= proofs(tmp_path / "cache") <= 30
