"""Products of codes by the units for matrices of GPUs (kernels_cl/gemm/matmul_dots_mma.cl), which OpenCL C emulates:
the bits are those of the CPU backend, which adds the same integers one by one."""

import shutil

import pytest
import torch
from test_fast_products import ROOT, Product, exported, random_rows, same_bits, stored
from test_gpu_products import UNITS, run

import clave

# m, k, n of forms with codes of 4 and 8 bits, with groups that do not end with a part of 32, with lows, and with
# factors of factors. Tiles, panels and stages are partial.
FORMS = {
    "int4:32": (70, 33, 67),
    "int8": (33, 160, 21),
    "int8:64:zeros": (41, 72, 131),
    "int4:48:zeros:f32": (70, 96, 65),
    "Q4_K": (35, 512, 67),
    "Q6_K": (66, 256, 67),
    "Q2_K": (40, 768, 67),
}
FAST = {"CLAVE_PRECISION": "fast"}


def on_cpu(program, x, monkeypatch):
    monkeypatch.setenv("CLAVE_PRECISION", "fast")
    return clave.Session(program, "cpu").run(x)


def check(program, x, folder, monkeypatch, unit, variant="mma 64", **env):
    want = on_cpu(program, x, monkeypatch)
    env = FAST | {"CLAVE_ASM": f"emulated_{unit}"} | env
    got, said = run(program, torch.from_numpy(x), folder, variant, env, family="dots tile")
    assert all(same_bits(g.numpy(), w) for g, w in zip(got, want, strict=True))
    return said


@pytest.mark.by_turn(12)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", UNITS)
def test_units(unit, form, tmp_path, monkeypatch):
    m, k, n = FORMS[form]
    weight, _ = stored(form, k, n=n)
    program = exported(weight, k, bias=torch.linspace(-2, 2, len(weight.rows)))
    assert "note: " not in check(program, random_rows(m, k), tmp_path, monkeypatch, unit)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("unit", ["mma_sync", "mfma", "dpas_8"])
def test_large_tiles(unit, tmp_path, monkeypatch):
    weight, _ = stored("int4:32:zeros", 96, n=135)
    said = check(exported(weight, 96), random_rows(131, 96), tmp_path, monkeypatch, unit, "mma 128")
    assert "note: " not in said


def test_batches_and_what_follows(tmp_path, monkeypatch):
    """Batches have separate tiles. Steps run on neighbours of a row that one lane computes."""

    class Batches(Product):
        def forward(self, x):
            return torch.relu(super().forward(x.transpose(1, 2)) + 1) * 2

    weight, _ = stored("int8:32", 64)
    x = random_rows(3 * 37, 64).reshape(3, 37, 64).transpose(0, 2, 1).copy()
    module = Batches(64, torch.float32, torch.linspace(-2, 2, 67))
    program = clave.export(module, (torch.from_numpy(x),), quantize=lambda _n, _w: weight, verify=False)
    check(program, x, tmp_path, monkeypatch, "mma_sync")


def test_few_rows_use_no_unit(tmp_path, monkeypatch):
    weight, _ = stored("int4:32", 96)
    check(exported(weight, 96), random_rows(5, 96), tmp_path, monkeypatch, "mma_sync")


@pytest.mark.by_turn(2)
@pytest.mark.parametrize("wrong", ["c[i] += 1 + DOT", "c[i] += no_such_function + DOT"])
def test_a_unit_that_is_wrong(wrong, tmp_path, monkeypatch):
    """The probe of products of bytes detects it, and other kernels run."""
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    header, right = tmp_path / "kernels/support/mma_codes.h", "c[i] += DOT"
    text = header.read_text()
    assert text.count(right) == 1
    header.write_text(text.replace(right, wrong))
    weight, _ = stored("int4:32", 64)
    program, x = exported(weight, 64), random_rows(33, 64)
    said = check(program, x, tmp_path, monkeypatch, "mma_sync", CLAVE_KERNEL_DIR=str(tmp_path / "kernels"))
    assert "the instruction emulated_mma_sync of bytes does not work on" in said
