"""Compares ONNX and TFLite files, which clave runs as they are, with onnxruntime and with LiteRT's XNNPACK, and models
that torch exported to ONNX with the same models by clave.export. All use the same number of threads."""

import imported
from models_bench import TURNS, Engines, Row, Table, bench_table, pairs

ONNX, LITERT, EXPORTED = ("onnxruntime",), ("litert",), ("exported",)


def codes(want, got):
    """Returns the largest difference of 8-bit codes, as a part of their range."""
    return max(float(abs(g - w).max()) / 255 for w, g in pairs(want, got))


CODES = {"differ": codes, "tolerance": 3 / 255}  # roundings to neighbouring codes add up over the layers


def onnx(limit, **more):
    return Row(1.0, (None, limit), ONNX, **more)


def tflite(limit, **more):
    return Row(1.1, (None, limit), LITERT, **more)


def exported(limit=1.1):
    return Row(1.03, (None, limit), EXPORTED)


IMPORTED = Table(
    {
        "Silero VAD": onnx(0.6),
        "PP-OCRv4 detection, 640²": onnx(0.85),
        "PP-OCRv4 recognition, 48×320": onnx(1.3),
        "PP-OCR direction, 48×192": onnx(1.35),
        "basic-pitch": onnx(1.15, tolerance=5e-4),  # logarithms of small powers amplify rounding
        "YOLOv8n": onnx(1.2),
        "MiniLM-L6, 128 tokens": onnx(1.0),
        "MobileNetV2 of int8": tflite(1.45, **CODES),
        "MediaPipe back camera": tflite(0.8),
        "MediaPipe front camera": tflite(1.1),
        "MediaPipe short range": tflite(1.1),
        "MediaPipe full range": tflite(1.35),
        "MediaPipe full range, sparse": tflite(1.5),
        "MediaPipe face landmarks": tflite(1.2),
        "MediaPipe iris landmarks": tflite(1.4),
        "basic-pitch, TFLite": tflite(0.6, tolerance=1e-3),
        "micro-wakeword alexa": tflite(5.2, **CODES),
        "micro-wakeword okay_nabu": tflite(4.1, **CODES),
        "ResNet-18": exported(),
        "MobileNetV2": exported(),
        "EfficientNet-B0": exported(),
        "BERT-base, 128 tokens": exported(),
    },
    ONNX,
    tolerance=2e-4,
    judge="torch or the peer",
    most_runs=2000,
)


class Imported(Engines):
    """The engines of one row. "exported" is the CPU backend with the program of clave.export."""

    def export(self):
        file = imported.FILES.get(self.name)
        return imported.write(file, self.folder, self.tool.parent) if file else super().export()

    def program(self, name):
        kind = "clv" if name == "exported" else "tflite" if "litert" in self.peers else "onnx"
        return self.folder / f"model.{kind}"

    def expected(self):
        exported = self.results("torch")
        return exported if exported.exists() else self.results(self.peers[0])


def bench_imported(args, names=None, small=False, turns=TURNS):
    return bench_table(IMPORTED, args, names, small, turns, Imported)
