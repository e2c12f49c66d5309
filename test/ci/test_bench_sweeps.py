"""The tables of doubling sizes and of sessions that share the cores: detection of cliffs and of unfair sharing."""

import argparse
import sys
import threading
import time
import xml.etree.ElementTree as ET

import pytest
import torch


@pytest.fixture(scope="module")
def bench(root):
    """Returns the modules of bench/, by name."""
    sys.path.insert(0, str(root / "bench"))
    import bounds
    import plot
    import sharing_bench
    import sweeps_bench

    return argparse.Namespace(bounds=bounds, plot=plot, sharing=sharing_bench, sweeps=sweeps_bench)


def test_doubled(bench):
    sizes = {name: sweep.sizes for name, sweep in bench.sweeps.SWEEPS.items()}
    assert bench.sweeps.doubled(3, 24) == (3, 6, 12, 24)
    assert sizes["ResNet-18, images"] == (1, 2, 4, 8, 16, 32)
    assert (sizes["a layer of ViT-S, tokens"][0], sizes["a layer of ViT-S, tokens"][-1]) == (16, 4096)


@pytest.mark.parametrize(
    ("units", "growth", "size", "over"),
    [((8, 3, 1, 1.2), "1.20", 8, False), ((8, 3, 4, 1), "1.33", 4, True), ((9, 9, 9, 8), "1.00", 2, False)],
)
def test_a_cliff_is_a_step(bench, units, growth, size, over):
    """Only growth between neighbouring sizes is a cliff, however far a size is above the minimum."""
    head, rule = "| sizes | growth | units | limit |", "|---|---|---|---|"
    line = bench.sweeps.row("images", "cpu", (1, 2, 4, 8), units)
    assert f"| {growth} (at {size}) |" in line
    assert bool(bench.bounds.rows_over("sweeps", [head, rule, line, "", "![a](b.svg)"])) == over


def test_work_of_a_layer(bench):
    """The proportions are those of torch's own count."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    for name, sizes in (("a layer of ViT-S, tokens", (64, 256)), ("two products of 64 rows, columns", (64, 256))):
        sweep, counted = bench.sweeps.SWEEPS[name], []
        for n in sizes:
            module, x = sweep.make(n)
            with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                module(*x)
            counted.append(counter.get_total_flops())
        assert counted[1] / counted[0] == pytest.approx(sweep.units(sizes[1]) / sweep.units(sizes[0]), rel=0.01)


def test_table_and_picture(bench, tmp_path, monkeypatch):
    """Small sweeps, with and without a dynamic size, have a point for each size in each curve."""

    def linear(n):
        return torch.nn.Linear(8, 8).eval().requires_grad_(False), (torch.randn(n, 8),)

    sizes = bench.sweeps.doubled(2, 8)
    sweeps = {
        "open": bench.sweeps.Sweep(sizes, linear, lambda n: n, dynamic=0),
        "own": bench.sweeps.Sweep(sizes, linear, lambda n: n),
    }
    monkeypatch.setattr(bench.sweeps, "SWEEPS", sweeps)
    monkeypatch.setattr(bench.sweeps, "PICTURE", tmp_path / "sweeps.svg")
    monkeypatch.setattr(bench.sweeps, "MIN_S", 1e-5)
    args = argparse.Namespace(device="cpu", idle=False, print=False, rows=None)
    lines = bench.sweeps.bench_sweeps(args, turns=2)
    rows = [bench.bounds.cells(line) for line in lines[2:4]]
    assert [r[0] for r in rows] == ["open 2 to 8, cpu", "own 2 to 8, cpu"] and lines[-1].endswith(
        "(../pictures/sweeps.svg)"
    )
    assert all(min(map(float, r[2].split(", "))) == 1 for r in rows)
    root = ET.fromstring((tmp_path / "sweeps.svg").read_text())
    curves = [e for e in root.iter() if e.tag.endswith("polyline")]
    assert [len(c.attrib["points"].split()) for c in curves] == [3, 3]


def test_axis_of_powers(bench):
    """In the picture, twice the minimum is half way up to four times the minimum."""
    lines = "".join(bench.plot.doubling(0, 0, (1, 2, 4), {"cpu": [4, 2, 1]}))
    h = bench.plot.HEIGHT
    assert f'points="0.0,0.0 {bench.plot.WIDTH / 2:.1f},{h / 2:.1f} {bench.plot.WIDTH:.1f},{h:.1f}"' in lines


def test_shared_fairly_and_not(bench):
    """Each turn runs one, the other, then both. Together, one takes twice as long and the other starves."""
    before = threading.active_count()
    take = lambda beside: lambda: time.sleep(0.01 * (beside if threading.active_count() > before + 1 else 1))
    found = bench.sharing.ratios([take(2), take(8)], duration=0.05, turns=1)
    assert found == pytest.approx([2, 8], rel=0.5)
