"""clave bench --breakdown: its rows add up, count the work, and are equal in tables, JSON, pictures and traces."""

import json
import os
import pathlib
import xml.etree.ElementTree as ElementTree

import pytest

DEVICES = ["cpu", "opencl"]
CPU_INFO = pathlib.Path("/proc/cpuinfo")
FLAGS = CPU_INFO.read_text().split() if CPU_INFO.exists() else []
LESS = ("avx512", "avx2", "portable")  # processor classes without AMX
TILES = "amx_bf16" in FLAGS and os.environ.get("CLAVE_DEVICE_CLASS") not in LESS


@pytest.fixture
def inputs(tool):
    """Returns inputs x: (3, 4), scale 2."""
    return ("--input", "x=[[1,2,3,4],[1,2,3,4],[4,3,2,1]]", "--input", "scale=2")


def breakdown(tool, program, *args):
    flags = ("--runs", "3", "--warmup", "1", "--breakdown", "--json")
    return json.loads(tool.good("bench", program, *flags, *args))["breakdown"]


@pytest.mark.parametrize("device", DEVICES)
def test_rows_add_up_to_the_run(tool, program, inputs, device):
    b = breakdown(tool, program, "--device", device, *inputs)
    rows = [r["ms"] for r in b["nodes"]]
    assert b["runs"] == 3 and b["between_ms"] > 0 and rows == sorted(rows, reverse=True)
    assert b["clock_ms"] > 0.5 * b["run_ms"]
    for kind in ("nodes", "ops"):
        assert sum(r["ms"] for r in b[kind]) + b["between_ms"] == pytest.approx(b["run_ms"])
        assert sum(r["share"] for r in b[kind]) == pytest.approx(1 - b["between_ms"] / b["run_ms"])


@pytest.mark.parametrize("device", DEVICES)
def test_rows_count_by_the_sizes_of_the_run(tool, program, inputs, device):
    """x * scale is 1 step, softmax 5 operations, argmax 1, for each of n * 4 elements."""
    for args, n in (((), 1), (("--dim", "batch=5"), 5), (inputs, 3)):
        rows = {r["op"]: r for r in breakdown(tool, program, "--device", device, *args)["nodes"]}
        assert {op: r["flop"] for op, r in rows.items()} == {
            "elementwise": 4 * n,
            "softmax": 20 * n,
            "arg_reduce": 4 * n,
        }
        assert {op: r["bytes"] for op, r in rows.items()} == {
            "elementwise": 32 * n,
            "softmax": 32 * n,
            "arg_reduce": 24 * n,
        }
        assert rows["softmax"]["shapes"] == f"F32 [{n}, 4] -> F32 [{n}, 4]"
        assert all(r["times"] == 1 and r["dtype"] == "F32" and r["kind"] == "node" for r in rows.values())


def test_ops_are_sums_of_their_nodes(tool, root):
    b = breakdown(tool, root / "examples/mnist/mnist.clv", "--dim", "batch=2")
    assert {r["op"]: r["times"] for r in b["ops"]} == {"conv": 3, "pool": 3, "matmul": 2}
    for op in b["ops"]:
        parts = [r for r in b["nodes"] if r["op"] == op["op"]]
        for key in ("times", "ms", "flop", "bytes", "compute_ms", "memory_ms"):
            assert op[key] == pytest.approx(sum(r[key] for r in parts))
        limits = [max(r["compute_ms"], r["memory_ms"]) for r in parts]
        assert op["percent_of_limit"] == pytest.approx(100 * sum(limits) / op["ms"])


def test_rates_follow_from_time_and_peaks(tool, program, inputs):
    b = breakdown(tool, program, *inputs)
    (peak,) = b["peaks"]
    assert peak["dtype"] == "F32" and peak["gflop_s"] > 0 and peak["gb_s"] > 0
    for r in b["nodes"]:
        assert r["device"] == peak["device"]
        assert r["gflop_s"] == pytest.approx(r["flop"] / r["ms"] / 1e6)
        assert r["gb_s"] == pytest.approx(r["bytes"] / r["ms"] / 1e6)
        assert r["compute_ms"] == pytest.approx(r["flop"] / peak["gflop_s"] / 1e6)
        assert r["memory_ms"] == pytest.approx(r["bytes"] / peak["gb_s"] / 1e6)
        larger = max(r["compute_ms"], r["memory_ms"])
        assert r["percent_of_limit"] == pytest.approx(100 * larger / r["ms"])
        assert r["limit"] == ("compute" if r["compute_ms"] > r["memory_ms"] else "memory")


def test_peaks_in_fast_precision(tool, program, inputs, monkeypatch):
    """Rounded weights are constants, also in measured peaks, because AMX multiplies those several times as fast."""
    best = {"strict": 0, "fast": 0}
    for precision in ("strict", "fast") * 4:  # runs alternate, because a busy machine disturbs them
        monkeypatch.setenv("CLAVE_PRECISION", precision)
        peaks = breakdown(tool, program, "--device", "cpu", *inputs)["peaks"]
        best[precision] = max([best[precision]] + [p["gflop_s"] for p in peaks if p["dtype"] == "F32"])
    assert best["strict"] > 0
    assert best["fast"] > (2 if TILES else 0) * best["strict"]


def test_tables_say_what_json_says(tool, program, inputs):
    text = tool.good("bench", program, "--runs", "3", "--breakdown", "--nodes", "2", *inputs)
    plain, ops, nodes = text.split("\n\n")
    assert "median_ms" in plain and "peaks of " in ops and "GFLOP/s in F32" in ops
    lines = ops.splitlines()
    assert lines[2].split() == ["op", "times", "ms", "%", "GFLOP", "GFLOP/s", "MB", "GB/s", "%", "of", "limit", "limit"]
    assert {line.split()[0] for line in lines[3:6]} == {"softmax", "elementwise", "arg_reduce"}
    assert lines[6].strip().startswith("between kernels") and lines[7].strip().startswith("the run")
    shares = [float(line.split()[3]) for line in lines[3:6]] + [float(lines[6].split()[3])]
    assert sum(shares) == pytest.approx(100, abs=0.3) and lines[7].split()[-1] == "100.0"
    assert nodes.startswith("the 2 slowest of 3 nodes") and len(nodes.splitlines()) == 4
    assert all("[3, 4]" in line for line in nodes.splitlines()[2:])
    none = tool.good("bench", program, "--runs", "1", "--breakdown", "--nodes", "0", *inputs)
    assert "slowest" not in none and "the run" in none


def test_a_roofline_has_a_dot_for_each_node(tool, program, inputs):
    tool.good("bench", program, "--runs", "2", "--breakdown", "--svg", "r.svg", *inputs)
    root = ElementTree.parse(tool.folder / "r.svg").getroot()
    name = lambda tag: f"{{http://www.w3.org/2000/svg}}{tag}"
    titles = [t.text for c in root.iter(name("circle")) for t in c.iter(name("title"))]
    assert len(titles) == 3 and all("% of the run" in t and "of its limit: " in t for t in titles)
    assert any("softmax" in t and "F32 [3, 4] -> F32 [3, 4]" in t for t in titles)
    assert any("p.json, forward, on cpu" in (t.text or "") for t in root.iter(name("text")))
    roofs = [e for e in root.iter(name("line")) if e.get("class") == "roof"]
    assert len(roofs) == 2 and any("GFLOP/s F32" in (t.text or "") for t in root.iter(name("text")))
    width, height = float(root.get("width")), float(root.get("height"))
    for c in root.iter(name("circle")):
        assert 0 <= float(c.get("cx")) <= width and 0 <= float(c.get("cy")) <= height


@pytest.mark.parametrize("device", DEVICES)
def test_traces_say_what_was_done(tool, program, inputs, device):
    """Traces of clave run have FLOP, bytes and rates; traces of a breakdown also have the share of the limit."""
    tool.good("run", program, "--profile", "run.json", "--device", device, *inputs)
    breakdown(tool, program, "--profile", "bench.json", "--device", device, *inputs)
    for file, has_limit in (("run.json", False), ("bench.json", True)):
        events = [e for e in json.loads((tool.folder / file).read_text()) if e.get("cat") == "op"]
        assert len(events) == 3
        for e in events:
            did = e["args"]
            assert ("percent_of_limit" in did) == ("limit" in did) == has_limit
            assert did["gflop_s"] == pytest.approx(did["flop"] / e["dur"] / 1e3, rel=0.02, abs=1e-3)
            assert did["gb_s"] == pytest.approx(did["bytes"] / e["dur"] / 1e3, rel=0.02, abs=1e-3)
        assert {e["name"]: e["args"]["flop"] for e in events}["softmax"] == 60
        assert {e["name"]: e["args"]["shapes"] for e in events}["softmax"] == "F32 [3, 4] -> F32 [3, 4]"


def test_peaks_are_measured_for_what_is_computed(tool):
    """F64 has its own peak; I32 has no peak and uses that of F32."""
    for dtype, want in (("F64", ["F32", "F64"]), ("I32", ["F32"])):
        operand = {"source": "input", "index": 0}
        steps = [{"kind": "add", "dtype": dtype, "operands": [operand, operand]}]
        op = {"inputs": [{"idx": 0}], "out": {"idx": 1}, "steps": steps}
        shape = [{"literal": 64}]
        program = {
            "version": 1,
            "n_inputs": 1,
            "n_outputs": 1,
            "tensors": [{"name": n, "dtype": dtype, "shape": shape} for n in "xy"],
            "chains": [{"instructions": [{"op_type": "Elementwise", "op": op, "name": "add"}]}],
            "methods": [
                {
                    "name": "forward",
                    "inputs": [{"name": "x", "tensor": {"idx": 0}}],
                    "outputs": [{"name": "y", "tensor": {"idx": 1}}],
                }
            ],
        }
        (tool.folder / "add.json").write_text(json.dumps(program))
        b = breakdown(tool, "add.json")
        assert [p["dtype"] for p in b["peaks"]] == want
        assert b["nodes"][0]["dtype"] == dtype and b["nodes"][0]["compute_ms"] > 0


def test_what_does_not_go_together(tool, program):
    for flag, file in (("--svg", "r.svg"), ("--profile", "t.json")):
        assert f"{flag} needs --breakdown" in tool.bad(2, "bench", program, flag, file)
        assert not (tool.folder / file).exists()
    assert "none/r.svg" in tool.bad(1, "bench", program, "--breakdown", "--svg", "none/r.svg")
    sizes = "--dim sets generated inputs"
    assert sizes in tool.bad(2, "bench", program, "--input", "x=[[1,2,3,4]]", "--dim", "batch=1")
    assert "no open size and no scalar input has this name" in tool.bad(1, "bench", program, "--dim", "size=3")
    assert tool.bad(1, "bench", program, "--dim", "batch=2", "--dim", "batch=3") == "--dim batch is given twice"
    assert "integer from 0 to" in tool.bad(2, "bench", program, "--breakdown", "--nodes", "-1")
