"""Torch models through both of torch's ONNX exporters, against torch and against clave.export."""

import io
import warnings

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import clave

pytest.importorskip("onnxscript", reason="no onnxscript is installed")
F = nn.functional


class Residual(nn.Module):
    """Inverted residuals with squeeze and excitation, as in mobile vision models."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.wide = nn.Sequential(nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24), nn.ReLU6())
        self.deep = nn.Sequential(nn.Conv2d(24, 24, 5, 1, 2, groups=24), nn.BatchNorm2d(24), nn.SiLU())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.ReLU(), nn.Conv2d(6, 24, 1))
        self.narrow = nn.Sequential(nn.Conv2d(24, 8, 1), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.deep(self.wide(x))
        y = self.narrow(y * F.hardsigmoid(self.squeeze(y)))
        x = F.max_pool2d(x + y, 3, 2, 1)
        return self.head(x.mean((2, 3))).softmax(-1)


class Upscale(nn.Module):
    """A small U-Net: strided, transposed and resized."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, 2, 1), nn.ConvTranspose2d(6, 6, 2, 2)
        self.norm, self.out = nn.GroupNorm(2, 6), nn.Conv2d(9, 2, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        y = F.leaky_relu(self.up(self.norm(self.down(x))), 0.1)
        y = torch.cat([x, y], 1)
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(y)[:, :, ::2, 1:]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(6, 5, 2, bidirectional=True), nn.GRU(10, 4, batch_first=False)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        z, last = self.gru(y)
        return z, h, last.cumsum(-1)


class Attended(nn.Module):
    """A transformer's encoder with a mask and an embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids, keep):
        y = self.layers(self.embed(ids), src_key_padding_mask=keep == 0)
        return y * keep[..., None], y.topk(3)[0], torch.where(keep > 0, ids, -1)


class Scattered(nn.Module):
    """Index ops, and sizes that are computed from sizes."""

    def forward(self, x, index):
        y = x.gather(1, index.clamp(0, x.shape[1] - 1)).reshape(x.shape[0] * 2, -1)
        z = torch.zeros_like(x).scatter_add(1, index, x[:, : index.shape[1]])
        z = z.masked_fill(z > 1, 0.5).tril().roll(1, 0)
        return y.pow(2).sum(0, keepdim=True), z, x.flip(1)[:, ::2], torch.arange(x.shape[1]) * 2


def bert():
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    return transformers.BertModel(config, add_pooling_layer=False)


class Hidden(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids, keep):
        return self.inner(ids, keep)[0]


ids = lambda b, n: (torch.randint(0, 50, (b, n)), (torch.arange(n) < n - torch.arange(b)[:, None]).long())
# torch writes sizes of the first arguments into these
FIXED = {("recurrent", True), ("attended", False)}
B, N, H, W = "b", "n", "h", "w"
MODELS = {  # module, arguments by sizes, open sizes of each argument, other sizes
    "residual": (
        Residual,
        lambda b, h, w: (torch.randn(b, 3, h, w),),
        ({0: B, 2: H, 3: W},),
        [(2, 32, 48), (3, 64, 32)],
    ),
    "upscale": (Upscale, lambda b, h, w: (torch.randn(b, 3, h, w),), ({0: B, 2: H, 3: W},), [(2, 16, 24), (1, 32, 8)]),
    "recurrent": (Recurrent, lambda n, b: (torch.randn(n, b, 6),), ({0: N, 1: B},), [(7, 2), (4, 3)]),
    "attended": (Attended, ids, ({0: B, 1: N},) * 2, [(2, 9), (3, 5)]),
    "scattered": (
        Scattered,
        lambda b, n: (torch.randn(b, n), torch.randint(0, 4, (b, 4))),
        ({0: B, 1: N}, {0: B}),
        [(4, 6), (2, 9)],
    ),
    "bert": (lambda: Hidden(bert()), ids, ({0: B, 1: N},) * 2, [(2, 9), (3, 5)]),
}


def exported(module, args, open_sizes, dynamo):
    """Returns the bytes of the model that torch exports."""
    names = [f"in_{i}" for i in range(len(args))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            dims = {d: torch.export.Dim(d, min=2, max=512) for sizes in open_sizes for d in sizes.values()}
            shapes = tuple({axis: dims[d] for axis, d in sizes.items()} for sizes in open_sizes)
            made = torch.onnx.export(module, args, dynamo=True, dynamic_shapes=shapes, verbose=False)
            return made.model_proto.SerializeToString()
        file = io.BytesIO()
        axes = dict(zip(names, open_sizes, strict=True))
        torch.onnx.export(module, args, file, dynamo=False, input_names=names, dynamic_axes=axes, opset_version=17)
        return file.getvalue()


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "script"])
@pytest.mark.parametrize("name", MODELS)
def test_torch(name, dynamo):
    make, arguments, open_sizes, sizes = MODELS[name]
    torch.manual_seed(3)
    module = make().eval()
    session = clave.Session(clave.from_onnx(exported(module, arguments(*sizes[0]), open_sizes, dynamo)), device="cpu")
    for size in (*sizes, sizes[0]) if (name, dynamo) not in FIXED else sizes[:1]:
        args = arguments(*size)
        with torch.no_grad():
            want = module(*args)
        got = session.run(*args)
        for w, g in zip(want if isinstance(want, tuple) else (want,), got, strict=True):
            assert str(w.dtype).removeprefix("torch.") == str(g.dtype) and tuple(w.shape) == g.shape
            np.testing.assert_allclose(g, w.numpy(), 1e-4, 1e-5)
