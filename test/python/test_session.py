"""Session: its arguments, its results, its errors; and the package without torch."""

import base64
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import clave

ROOT = Path(__file__).resolve().parents[2]


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


def twice(dtype=torch.float32, shape=(2, 3), **kw):
    return clave.export(Twice().eval(), (torch.ones(shape, dtype=dtype),), **kw)


@pytest.fixture(scope="module")
def program():
    return twice()


@pytest.fixture(scope="module")
def session(program):
    return clave.Session(program, "cpu")


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "x",
    [
        X,
        np.asfortranarray(X),
        X[::-1, ::-1],
        np.repeat(X, 2, 1)[:, ::2],
        np.broadcast_to(X[0], (2, 3)),
        X.astype(">f4"),
        torch.from_numpy(X),
        torch.from_numpy(X.T.copy()).t(),
        torch.from_numpy(X).requires_grad_(),
        torch.from_numpy(X[0].copy()).expand(2, 3),
        [[1, 2, 3], [4, 5, 6]],
    ],
    ids=lambda x: type(x).__name__,
)
def test_any_strides_in_numpy_and_torch(session, x):
    want = np.asarray(x.detach() if isinstance(x, torch.Tensor) else x, np.float32) * 2
    (got,) = session.run(x)
    assert got.dtype == np.float32 and got.flags.c_contiguous
    np.testing.assert_array_equal(got, want)


def test_results_are_copies(session):
    (first,) = session.run(X)
    session.run(X + 1)
    np.testing.assert_array_equal(first, X * 2)
    first[:] = 0  # writable
    out = session(X)
    assert isinstance(out, torch.Tensor) and torch.equal(out, torch.from_numpy(X * 2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64"])
def test_dtypes(dtype):
    session = clave.Session(twice(getattr(torch, dtype)), "cpu")
    x = X.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    (got,) = session.run(x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x * 2)
    t = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    assert torch.equal(session(t), t * 2) and session(t).dtype == t.dtype


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X.astype(np.float64), "F64.*'x'"),
        (X.astype(np.complex64), "'x'.*complex64"),
        (X[0], r"\(3\).*'x'"),
        (np.zeros((2, 4), np.float32), r"\(2, 4\).*'x'"),
        (np.zeros((1,) * 9, np.float32), "expected a tensor of rank 8 or less, got 9"),
        ("text", "'x'"),
    ],
    ids=["dtype", "complex", "rank", "size", "rank 9", "text"],
)
def test_wrong_inputs_are_named(session, x, message):
    with pytest.raises(clave.Error, match=message) as e:
        session.run(x)
    assert "\n" not in str(e.value)
    np.testing.assert_array_equal(session.run(X)[0], X * 2)


def test_python_numbers_take_the_dtype_that_is_expected_unless_they_would_lose():
    for dtype, value in (("bfloat16", 1.5), ("int8", 3), ("float64", 7)):
        assert clave.Session(twice(getattr(torch, dtype), ()), "cpu").run(value)[0] == value * 2
    with pytest.raises(clave.Error, match="F64"):
        clave.Session(twice(torch.int32, ()), "cpu").run(1.5)


def test_empty_and_scalar_tensors():
    for shape in ((), (0, 3), (1, 1, 1)):
        x = torch.rand(shape)
        same = clave.Session(twice(shape=shape), "cpu").run(x)[0]
        assert same.shape == shape
        np.testing.assert_array_equal(same, x.numpy() * 2)


def test_methods_and_devices_are_named(program, session):
    with pytest.raises(clave.Error, match="method: expected forward, got 'other'"):
        session.run(X, method="other")
    with pytest.raises(clave.Error, match="nosuch"):
        clave.Session(program, "nosuch")
    with pytest.raises(clave.Error, match="99"):
        clave.Session(program, "opencl:99")


def test_devices():
    found = clave.devices()
    assert found[-1]["kind"] == "cpu" and sum(d["is_default"] for d in found) == 1
    assert all(isinstance(d["name"], str) and d["memory"] > 0 for d in found)
    assert [d["index"] for d in found] == [*range(len(found) - 1), -1]


def test_a_session_of_a_path_outlives_its_maker(tmp_path):
    twice().save(tmp_path / "m.clv")
    session = clave.Session(tmp_path / "m.clv", "cpu")
    os.remove(tmp_path / "m.clv")
    np.testing.assert_array_equal(session.run(X)[0], X * 2)
    np.testing.assert_array_equal(clave.Session(twice(), "cpu").run(X)[0], X * 2)


def test_constants_live_as_long_as_the_session():
    def make():
        return clave.Session(clave.export(nn.Linear(64, 64).eval(), (torch.ones(1, 64),)), "cpu")

    sessions = [make() for _ in range(3)]
    junk = [torch.full((64, 64), float("nan")) for _ in range(20)]
    assert all(np.isfinite(s.run(torch.ones(1, 64))[0]).all() for s in sessions) and junk


def test_sessions_in_threads(program):
    wrong = []

    def work(i):
        s = clave.Session(program, "cpu")
        for k in range(20):
            if not np.array_equal(s.run(X + i + k)[0], (X + i + k) * 2):
                wrong.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.parametrize("said", ["fast", "strict"])
def test_precision(said, monkeypatch):
    """A session's own precision takes precedence over the variable's; export verifies in strict precision."""
    torch.manual_seed(0)
    x, module = torch.randn(32, 512), nn.Linear(512, 32)
    monkeypatch.setenv("CLAVE_PRECISION", said)
    program = clave.export(module, (x,), quantize="int8", verify=True)
    asked = {p: clave.Session(program, "cpu", precision=p)(x) for p in (None, "fast", "strict")}
    assert torch.equal(asked[None], asked[said]) and not torch.equal(asked["fast"], asked["strict"])


@pytest.mark.parametrize("spec", ["cpu", "opencl"])
def test_a_device_is_shared_by_sessions_and_outlived_by_them(program, spec):
    device = clave.Device(spec, fallback=False)
    sessions = [
        (clave.Session(p, device), x) for p, x in ((program, X), (program, X + 1), (twice(torch.int8), np.int8(X)))
    ]
    assert all(s.device is device for s, _ in sessions)
    for s, x in sessions * 2:
        np.testing.assert_array_equal(s.run(x)[0], x * 2)
    del device
    np.testing.assert_array_equal(sessions[0][0].run(X)[0], X * 2)


def test_a_device_says_whether_there_is_a_fallback(program):
    with pytest.raises(clave.Error, match="fallback: pass it where the Device is opened"):
        clave.Session(program, clave.Device("cpu"), fallback=False)


class Walk(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total += x + torch.rand(3)
        return self.total.clone()


def test_the_cpu_backend_answers_until_the_device_is_ready():
    """State, and the position of random numbers, move with the session; a second session finds the kernels built."""
    program = clave.export(Walk().eval(), (torch.ones(3),))
    device = clave.Device("opencl", fallback=True)
    session = clave.Session(program, device, seed=5, warm_up="background")
    alone = clave.Session(program, "cpu", seed=5)
    assert session.answered_by is None
    answers, end = [], time.monotonic() + 60
    while answers[-3:] != ["opencl"] * 3 and time.monotonic() < end:
        x = np.float32([1, 2, len(answers)])
        np.testing.assert_array_equal(session.run(x)[0], alone.run(x)[0])
        answers.append(session.answered_by)
        time.sleep(0.002)
    assert answers[0] == "cpu" and answers == sorted(answers) and answers[-1] == "opencl"
    session = clave.Session(program, device, warm_up="background")
    session.run(x)
    assert session.answered_by == "opencl"


def test_warm_up_is_wait_or_background(program):
    session = clave.Session(program, "cpu", fallback=True, warm_up="background")  # nothing to wait for
    np.testing.assert_array_equal(session.run(X)[0], X * 2)
    assert session.answered_by == "cpu"
    with pytest.raises(clave.Error, match="precision: expected 'strict', 'fast' or None, got 'bold'"):
        clave.Session(program, "cpu", precision="bold")
    with pytest.raises(clave.Error, match="warm_up: expected 'wait' or 'background', got 'soon'"):
        clave.Session(program, "cpu", warm_up="soon")
    with pytest.raises(clave.Error, match="the device was opened without fallback"):
        clave.Session(program, "opencl", fallback=False, warm_up="background")


def test_a_device_says_what_it_supports():
    class Net(nn.Module):
        def forward(self, x):
            return torch.softmax(x * 2 + 1, 0), x.t()

    program, device = clave.export(Net(), (torch.ones(2, 3),)), clave.Device("cpu")
    alone = device.supported(program)
    assert [(p.op, p.where) for p in alone if p.op != "copy"] == [
        ("elementwise", "cpu"),
        ("elementwise", "cpu"),
        ("softmax", "cpu"),
        ("permute", "view"),
    ]
    assert all(p.supported and p.reason is None for p in alone)
    assert [p.where for p in device.supported(program, fused=True)].count("fused") == 1
    with pytest.raises(clave.Error, match="method: expected forward, got 'prefill'"):
        device.supported(program, "prefill")
    session = clave.Session(program, device)
    assert session.placement() == device.supported(program, fused=True)
    session.run(np.ones((2, 3), "float32"))
    assert session.placement() == device.supported(program, fused=True)
    with pytest.raises(clave.Error, match="method: expected forward, got 'prefill'"):
        session.placement("prefill")


def python(code, **env):
    merged = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **env}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=merged)


def test_running_needs_no_torch(tmp_path):
    class Two(nn.Module):
        def forward(self, x, scale):
            return {"a": x * scale, "b": [x + 1]}

    clave.export(Two().eval(), (torch.ones(3),), {"scale": torch.tensor(2.0)}).save(tmp_path / "m.clv")
    code = f"""
import sys
for name in ("torch", "flatbuffers", "sympy"):
    sys.modules[name] = None
import numpy as np, clave
a, b = clave.Session({str(tmp_path / "m.clv")!r}, "cpu").run(np.ones(3, np.float32), scale=np.float32(2))
print(a, b, len(clave.devices()) > 0)
try:
    clave.export(None)
except clave.Error as e:
    print(e)
"""
    done = python(code)
    assert done.stdout.splitlines()[0] == "[2. 2. 2.] [2. 2. 2.] True", done.stderr
    assert f"pip install '{ROOT / 'python'}[export]'" in done.stdout


def test_a_missing_library_is_an_error_that_says_where_it_was_looked_for():
    done = python(
        "import clave\ntry: clave.devices()\nexcept clave.Error as e: print(e)", CLAVE_LIBRARY="/no/libclave.so"
    )
    assert "/no/libclave.so" in done.stdout and "CLAVE_LIBRARY" in done.stdout, done.stderr


def test_notes_are_warnings_once(tmp_path):
    code = """
import clave, logging
for level in logging.WARNING, logging.DEBUG:
    logging.basicConfig(level=level, format="%(levelname)s %(name)s %(message)s", force=True)
    device = clave.Device()
"""
    done = python(code, OCL_ICD_VENDORS=str(tmp_path), CLAVE_DEVICE="")
    warning, debug = done.stderr.splitlines()
    assert warning.startswith("WARNING clave running on the CPU backend; ")
    assert debug == warning.replace("WARNING", "DEBUG", 1)


def test_import_alone_loads_neither_torch_nor_the_library():
    done = python("import sys, clave; print('torch' in sys.modules)", CLAVE_LIBRARY="/no/libclave.so")
    assert done.stdout.strip() == "False", done.stderr


def test_a_program_carries_a_tokenizer_and_metadata(tmp_path):
    program = twice()
    assert program.tokenizer is None and program.metadata == {}
    ranks = b"".join(base64.b64encode(bytes([b])) + b" %d\n" % b for b in range(256))
    program.set_tokenizer(ranks)
    program.metadata = {"llm": {"max_context": 7}}
    program.save(tmp_path / "m.clv")
    again = clave.load(tmp_path / "m.clv")
    assert again.tokenizer.encode("é!") == [0xC3, 0xA9, 0x21]
    assert again.metadata == {"llm": {"max_context": 7}}
    with pytest.raises(clave.Error, match="not a tokenizer"):
        again.set_tokenizer(b"something else")
    again.set_tokenizer(None)
    assert again.tokenizer is None
    with pytest.raises(clave.Error, match="TOKN"):
        program.save(tmp_path / "m.json")
