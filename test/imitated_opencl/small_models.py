"""Models that use the kernels of GPUs, small enough to be exported in a second each."""

import pathlib
import sys

import torch
from torch import Tensor, nn

import clave

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import models

FEW, MANY = 1, 40  # rows of products


class Decoder(nn.Module):
    """A transformer layer, run for a prompt and for one token."""

    def __init__(self, size: int = 256):
        super().__init__()
        self.layer = models.Encoder(size, 4, True, 1e-5)
        self.head = nn.Linear(size, 4 * size)

    def forward(self, prompt: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(self.layer(prompt)), self.head(self.layer(token))


class Everything(nn.Module):
    """A convolution, attention, and products in f32, f16 and int8."""

    def __init__(self, size: int = 64):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.wide, self.codes = nn.Linear(size, size), nn.Linear(size, size)
        self.narrow = nn.Linear(size, size, dtype=torch.float16)

    def forward(self, image: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        heads = self.wide(rows).unflatten(1, (2, -1)).transpose(0, 1)[None]
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads)[0].transpose(0, 1).flatten(1)
        return self.conv(image), self.narrow(attended.half()), self.codes(attended), self.codes(attended[:1])


def resnet() -> tuple[nn.Module, tuple[Tensor, ...], str | None]:
    return models.resnet(models.basic_block, (1, 1, 1, 1)), (torch.randn(1, 3, 224, 224),), None


def vit() -> tuple[nn.Module, tuple[Tensor, ...], str | None]:
    return models.ViT(layers=1), (torch.randn(1, 3, 224, 224),), None


def decoder(quantize: str | None = None) -> tuple[nn.Module, tuple[Tensor, ...], str | None]:
    return Decoder(), (torch.randn(1, MANY, 256), torch.randn(1, FEW, 256)), quantize


def everything() -> tuple[nn.Module, tuple[Tensor, ...], object]:
    quantize = lambda name, _: "int8" if name.startswith("codes") else None
    return Everything(), (torch.randn(1, 3, 32, 32), torch.randn(64, 64)), quantize


MODELS = {
    "resnet": resnet,
    "vit": vit,
    "llm": decoder,
    "llm, int4": lambda: decoder("int4:32"),
    "everything": everything,
}


def export(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes the program of a model. Returns its path."""
    torch.manual_seed(1)
    module, inputs, quantize = MODELS[name]()
    path = folder / f"{name.replace(', ', '_')}.clv"
    clave.export(module.eval(), inputs, quantize=quantize, verify=False).save(path)
    return path
