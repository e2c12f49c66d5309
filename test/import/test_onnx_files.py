"""Models of PyPI packages, which are downloaded and not kept, against onnxruntime."""

import numpy as np
import pytest

import clave

onnxruntime = pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")

SILERO, RAPID, PITCH = "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "basic-pitch==0.4.0"
FILES = {
    "silero_vad.onnx": (SILERO, "input state sr"),
    "silero_vad_16k_op15.onnx": (SILERO, "input state sr"),
    "silero_vad_op18_ifless.onnx": (SILERO, "input state sr"),
    "silero_vad_half.onnx": (SILERO, "input state sr"),
    "ch_PP-OCRv4_det_infer.onnx": (RAPID, ""),
    "ch_PP-OCRv4_rec_infer.onnx": (RAPID, ""),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (RAPID, ""),
    "nmp.onnx": (PITCH, ""),
}
SIZES = {
    "ch_PP-OCRv4_det_infer.onnx": [(1, 3, 64, 96), (1, 3, 96, 64), (1, 3, 160, 224)],
    "ch_PP-OCRv4_rec_infer.onnx": [(1, 3, 48, 64), (2, 3, 48, 104), (3, 3, 48, 320)],
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": [(1, 3, 48, 192), (2, 3, 48, 192), (5, 3, 48, 192)],
    "nmp.onnx": [(1, 43844, 1), (2, 43844, 1), (3, 43844, 1)],
}


def peer(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def check(want, got, tolerance=1e-4):
    for w, g in zip(want, got, strict=True):
        g = np.asarray(g)
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        scale = max(1e-2, float(np.abs(w).max(initial=0)))
        assert np.abs(w.astype(np.float64) - g).max(initial=0) <= tolerance * scale


@pytest.fixture
def model(package):
    """Returns a function from a file's name to its path."""

    def find(name):
        (path,) = package(FILES[name][0]).rglob(name)
        return path

    return find


@pytest.mark.parametrize("name", SIZES)
def test_three_sizes(model, name):
    session, other = clave.Session(clave.from_onnx(model(name)), device="cpu"), peer(model(name))
    rng = np.random.default_rng(5)
    (given,) = other.get_inputs()
    for size in (*SIZES[name], SIZES[name][0]):
        x = rng.standard_normal(size).astype(np.float32) * 0.3
        # nmp takes the logarithm of small powers: onnxruntime itself is 6e-5 from the results in f64, clave 2e-4.
        check(other.run(None, {given.name: x}), session.run(x), 5e-4 if name == "nmp.onnx" else 1e-4)


@pytest.mark.parametrize("name", [n for n in FILES if FILES[n][0] == SILERO])
def test_state_over_100_steps(model, name):
    """The model's state is an input and an output; each runtime gets its own back."""
    session, other = clave.Session(clave.from_onnx(model(name)), device="cpu"), peer(model(name))
    names = [i.name for i in other.get_inputs()]
    rng = np.random.default_rng(7)
    rate = np.array(16000, np.int64)
    states = [np.zeros((2, 1, 128), np.float32)] * 2
    for _ in range(100):
        x = (rng.standard_normal((1, 576)) * 0.2).astype(np.float32)
        given = [{"input": x, "state": s, "sr": rate} for s in states]
        want = other.run(None, {n: given[0][n] for n in names})
        got = session.run(*[given[1][n] for n in names])
        check(want, got, 2e-3 if "half" in name else 1e-4)
        states = [want[1], np.asarray(got[1])]
