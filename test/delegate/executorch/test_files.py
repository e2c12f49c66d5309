"""Tests .pte files: damaged ones, weights beside them, profiler events, the C++ application, threads, and ExecuTorch's
test suite for backends."""

import importlib
import importlib.util
import os
import random
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from conftest import ROOT
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from lowering import assert_same, delegates, error_of, load, lower, program_in
from torch import nn

from clave.executorch import ClavePartitioner

SUITE = "executorch.backends.test.suite.operators"
MODELS = "executorch.backends.test.suite.models.test_"
SMALL = ("squeezenet1_1", "shufflenet_v2_x1_0", "mobilenet_v3_small", "mnasnet1_0", "mobilenet_v2")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.down(self.up(x).relu()).softmax(-1)


def attempt(file, x):
    """Loads and runs a file that may be damaged; returns its result, or None on an error."""
    try:
        return Runtime.get().load_program(file).load_method("forward").execute((x,))[0]
    except RuntimeError:
        return None


def test_damaged_files_are_errors():
    """Bytes of program, payload and constants' names change, one at a time: each run is an error or a result."""
    x = torch.rand(2, 8)
    edge, _ = lower(Net(), (x,))
    file = edge.to_executorch().buffer
    (part,), _ = delegates(edge)
    program, payload = program_in(part)[2], part.processed_bytes
    assert file.count(program) == file.count(payload) == 1
    regions = [range(at := file.index(piece), at + len(piece)) for piece in (payload, program)]
    choose, refused = random.Random(0), 0
    for where in [*regions[0], *(choose.choice(regions[1]) for _ in range(400))]:
        damaged = bytearray(file)
        damaged[where] ^= 1 << choose.randrange(8)
        refused += attempt(bytes(damaged), x) is None
    assert refused > len(payload)
    at = regions[1].start
    for size in (0, 1, 7, 40, len(program) // 2):
        assert attempt(file[:at] + bytes(len(program) - size) + file[at + len(program) - size :], x) is None
    assert_same(attempt(file, x), load(edge).execute((x,)), 0)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "not of clave 1"),
        (b"clave 2\nk\nforward\n", "not of clave 1"),
        (b"clave 1\nk\nforward", "not of clave 1"),
        (b"clave 1\nk\n", "not of clave 1"),
        (b"clave 1\nk\nforward\n\n", "not of clave 1"),
        (b"clave 1\n" + b"k" * 5000 + b"\nforward\n", "not of clave 1"),
        (b"clave 1\nclave-0\nforward\n", "has no program clave-0"),
        (b"clave 1\n{key}\nbackward\n", "has no method 'backward'"),
    ],
)
@pytest.mark.by_turn(17)
def test_wrong_payloads_are_named(payload, said):
    edge, _ = lower(Net(), (torch.rand(2, 8),))
    (part,), _ = delegates(edge)
    key = program_in(part)[0].encode()
    part._processed_bytes = payload.replace(b"{key}", key)
    assert said in error_of(lambda: load(edge))


@pytest.mark.by_turn(17)
def test_missing_and_wrong_constants_are_named():
    for wrong in (True, False):
        edge, _ = lower(Net(), (torch.rand(2, 8),))
        store = edge._named_data_store
        name = next(k for k in store.pte_data if "up" in k and "weight" in k)
        if wrong:
            at = store.pte_data[name].buffer_index
            store.buffers[at] = store.buffers[at][:-4]
        else:
            del store.pte_data[name]
        assert f"'{name}'" in error_of(lambda edge=edge: load(edge))


@pytest.mark.by_turn(17)
def test_weights_beside_the_file(tmp_path):
    x, module = torch.rand(2, 8), Net()
    edge, _ = lower(module, (x,), external_data="weights")
    made = edge.to_executorch()
    made.write_tensor_data_to_file(str(tmp_path))
    (tmp_path / "net.pte").write_bytes(made.buffer)
    program = Runtime.get().load_program(tmp_path / "net.pte", data_path=tmp_path / "weights.ptd")
    assert_same(program.load_method("forward").execute((x,)), module(x))
    assert "no constant of this name" in error_of(
        lambda: Runtime.get().load_program(tmp_path / "net.pte").load_method("forward")
    )


@pytest.mark.by_turn(17)
def test_profilers_see_our_nodes(tmp_path):
    from executorch.devtools import Inspector

    x, module = torch.rand(2, 8), Net()
    program = torch.export.export(module.eval(), (x,))
    edge = to_edge_transform_and_lower(program, partitioner=[ClavePartitioner()], generate_etrecord=True)
    made = edge.to_executorch()
    loaded = Runtime.get().load_program(made.buffer, enable_etdump=True, debug_buffer_size=1 << 20)
    assert_same(loaded.load_method("forward").execute((x,)), module(x))
    loaded.write_etdump_result_to_file(str(tmp_path / "etdump"), str(tmp_path / "debug"))
    made.get_etrecord().save(str(tmp_path / "etrecord"))
    inspector = Inspector(etdump_path=str(tmp_path / "etdump"), etrecord=str(tmp_path / "etrecord"))
    events = {e.name: e for block in inspector.event_blocks for e in block.events if e.is_delegated_op}
    assert {"aten_linear_default", "aten_linear_default_1", "run"} <= set(events)
    assert events["aten_linear_default"].op_types == ["aten.linear.default"]
    run, node = events["run"], events["aten_linear_default"]
    assert run.start_time[0] <= node.start_time[0] and 0 < node.perf_data.avg <= run.perf_data.avg


def test_a_program_in_c(tmp_path, build):
    """examples/executorch/run_pte runs without Python and equals eager; errors are a message and exit status 1."""
    module = Net().eval()
    x = (torch.arange(16) % 8 / 8).reshape(2, 8)
    edge, _ = lower(module, (x,), device="cpu")
    (tmp_path / "net.pte").write_bytes(edge.to_executorch().buffer)
    command = [build / "run_pte", tmp_path / "net.pte"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"CLAVE_DEVICE": "cpu"}
    done = subprocess.run([*command, "--runs", "2"], capture_output=True, text=True, env=env, check=True)
    sizes, _, numbers = done.stdout.partition(") ")
    assert sizes == "(2, 3"
    assert_same(torch.tensor([float(n) for n in numbers.split()]), module(x).flatten())
    done = subprocess.run([*command, "--device", "opencl:99"], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1 and "unknown device 'opencl:99'" in done.stderr
    (tmp_path / "net.pte").write_bytes(b"no model")
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1 and "ExecuTorch's error" in done.stderr


@pytest.mark.by_turn(17)
def test_without_the_library(tmp_path):
    """Files can be made, and the error names the missing library."""
    program = """
import torch
from executorch.exir import to_edge_transform_and_lower
import clave.executorch as c
exported = torch.export.export(torch.nn.ReLU(), (torch.rand(3),))
edge = to_edge_transform_and_lower(exported, partitioner=[c.ClavePartitioner()])
assert b"ClaveBackend" in edge.to_executorch().buffer
c.register()
"""
    env = os.environ | {"PYTHONPATH": str(ROOT / "python"), "CLAVE_EXECUTORCH_LIBRARY": str(tmp_path / "none.so")}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert "libclave_executorch.so cannot be loaded" in done.stderr.strip().splitlines()[-1]


@pytest.mark.by_turn(17)
def test_threads_load_and_run():
    """Four threads run separate programs, or four methods of one program, which take turns."""
    x, module = torch.rand(2, 8), Net()
    edge, _ = lower(module, (x,))
    file, expected = edge.to_executorch().buffer, module(x).detach()
    program = Runtime.get().load_program(file)
    shared = [program.load_method("forward") for _ in range(4)]

    def work(method):
        for _ in range(5):
            for _ in range(5):
                torch.testing.assert_close(method.execute((x,))[0], expected, rtol=1e-5, atol=1e-5)
            method = Runtime.get().load_program(file).load_method("forward")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, shared)) == [None] * 4


def run_suite(modules, chosen, **env):
    """Runs ExecuTorch's own tests of backends, with ClaveBackend's flows."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "clave_flow", "-W", "ignore", "-rs", "--tb=short"]
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen, "--pyargs", *modules],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path} | env,
        cwd=Path(__file__).parent,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.mark.by_turn(27)
def test_executorchs_own_suite(everything):
    """Runs its tests of operators, in float and in 8 bits by ClaveQuantizer; with each commit, those of one op."""
    folder = Path(importlib.import_module(SUITE).__file__).parent
    names, turn = sorted(f.stem for f in folder.glob("test_*.py")), os.environ.get("CLAVE_TEST_TURN", "")
    chosen = names if everything else [names[zlib.crc32(turn.encode()) % len(names)]]
    run_suite([f"{SUITE}.{name}" for name in chosen], [] if everything else ["-k", "[clave-float32]"])


def run_models(package, chosen):
    """Runs ExecuTorch's own tests of a package's models, in float: each is one delegate and equals eager. Returns the
    last line of the run's output, with the counts."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return run_suite([MODELS + package], ["-k", f"not int8 and ({chosen})"], CLAVE_FLOW_WHOLE="1").splitlines()[-1]


@pytest.mark.by_turn(27)
def test_executorchs_own_models(everything):
    """Runs a small model with each commit. None may be skipped; the suite skips some errors."""
    turn = os.environ.get("CLAVE_TEST_TURN", "")
    small = SMALL[zlib.crc32(turn.encode()) % len(SMALL)]
    said = run_models("torchvision", "test_" if everything else f"{small} and static_shapes")
    assert "skipped" not in said, said


@pytest.mark.by_turn(27)
def test_executorchs_own_models_of_speech(everything):
    """Runs all except WaveRNN, which the suite itself omits."""
    said = run_models("torchaudio", "test_" if everything else "wav2letter and static_shapes")
    assert said.startswith("3 passed, 1 skipped" if everything else "1 passed, "), said
