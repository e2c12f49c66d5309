"""Kernels are built once: a program with symbolic sizes runs any shape with the kernels of the first, except variants
by size, of which there are few."""

import os
import subprocess

import pytest
import torch
from torch.export import Dim

import clave


class Block(torch.nn.Module):
    """A part of every family whose kernels could depend on sizes."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
        self.linear = torch.nn.Linear(24, 40)
        self.conv = torch.nn.Conv1d(24, 8, 3, padding=1)

    def forward(self, x):  # (B, L, 24)
        h = torch.nn.functional.gelu(self.linear(self.norm(x)))
        scores = torch.softmax(h @ h.transpose(-1, -2), -1)
        pooled = self.conv(x.transpose(-1, -2)).amax(-1)
        top = torch.sort(h.flatten(1), -1).values[:, :5]
        return (scores @ h).cumsum(1), pooled, top, torch.cat([x, x.flip(1)], 1).mean(-1)


def binaries(cache):
    """Returns {name: (inode, content)} of the kernel binaries on disk: a new one replaces the file."""
    return {p.name: (p.stat().st_ino, p.read_bytes()) for p in cache.rglob("*.clbin")}


def run_shapes(program, module, cache, shortest):
    """Runs 20 shapes on a new device, the smallest and the largest first, each in a session, which stores binaries at
    its end; returns their numbers."""
    device = clave.Device("opencl")
    counts = []
    for i in (size for k in range(10) for size in (k, 19 - k)):
        session = clave.Session(program, device)
        x = torch.randn(1 + i % 7, shortest + 13 * i, 24)
        for ours, want in zip(session(x), module(x), strict=True):
            torch.testing.assert_close(ours, want, rtol=1e-3, atol=1e-4)
        del session
        counts.append(len(binaries(cache)))
    return counts


@pytest.mark.by_turn(3)
def test_20_shapes_build_no_kernel_twice(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("CLAVE_CACHE_DIR", str(tmp_path))
    torch.manual_seed(0)
    module = Block().eval()
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=512)}
    program = clave.export(module, (torch.randn(3, 17, 24),), dynamic_shapes=(sizes,))
    counts = run_shapes(program, module, tmp_path, 2)
    assert counts[0] > 0, "no kernels on disk after the first run"
    variants = 3 * counts[0]  # PoCL compiles for local sizes, of which a kernel has a few, and for large grids
    assert counts[-1] <= variants + 8, "other shapes than long rows and large products have separate kernels"
    built = binaries(tmp_path)
    run_shapes(program, module, tmp_path, 2)
    again = binaries(tmp_path)
    assert [name for name in again if again[name] != built.get(name)] == [], "another device builds kernels"
    more = run_shapes(program, module, tmp_path, 5)
    assert more[-1] - counts[-1] <= 2, "of 20 other shapes two may be the first of a class, not each"


class IntegerMode(torch.nn.Module):
    """Finds kernels whose NaN checks compare an integer with itself."""

    def forward(self, x):
        return torch.mode(x, 1)[0], torch.cummax(x, 1)[0]


def test_building_kernels_prints_nothing(tmp_path, build):
    program = clave.export(IntegerMode(), (torch.arange(6).view(2, 3),))
    program.save(str(tmp_path / "mode.clv"))
    env = os.environ | {"POCL_CACHE_DIR": str(tmp_path), "CLAVE_CACHE_DIR": "off"}
    command = [build / "clave", "bench", tmp_path / "mode.clv", "--device", "opencl", "--runs", "1"]
    p = subprocess.run(command, capture_output=True, text=True, env=env)
    assert p.returncode == 0 and p.stderr == "", p.stderr
