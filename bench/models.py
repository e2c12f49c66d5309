"""The models of bench.py's tables: plain torch modules with the sizes of their papers and seeded random weights, one
row each in MODELS. `make(name)` returns (module in eval mode, its inputs)."""

import dataclasses
import importlib.util
import itertools
import pathlib
import zlib
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

ROOT = pathlib.Path(__file__).resolve().parent.parent


def unit(n_in: int, n_out: int, size: int, stride: int = 1, groups: int = 1, act: Callable = nn.ReLU) -> nn.Sequential:
    """Convolution with padding that keeps the image's size (divided by its stride), batch norm, activation."""
    conv = nn.Conv2d(n_in, n_out, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(n_out), act())


class Residual(nn.Module):
    """act(body(x) + x), with x projected if the body changes its shape."""

    def __init__(self, body: nn.Module, project: nn.Module | None = None, act: Callable = nn.ReLU):
        super().__init__()
        self.body, self.project, self.act = body, project or nn.Identity(), act()
        weaken(body)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.project(x))


def weaken(body: nn.Module) -> None:
    """Marks the last batch norm of a residual body; its weights are small, so activations grow little with depth."""
    [m for m in body.modules() if isinstance(m, nn.BatchNorm2d)][-1].is_last = True


def basic_block(n_in: int, width: int, stride: int) -> tuple[nn.Module, int]:
    return nn.Sequential(unit(n_in, width, 3, stride), unit(width, width, 3, act=nn.Identity)), width


def bottleneck_block(n_in: int, width: int, stride: int) -> tuple[nn.Module, int]:
    n_out = 4 * width
    return nn.Sequential(
        unit(n_in, width, 1), unit(width, width, 3, stride), unit(width, n_out, 1, act=nn.Identity)
    ), n_out


def resnet(block: Callable, depths: tuple[int, ...], width: int = 64, classes: int = 1000) -> nn.Module:
    """He et al. 2015; the stride of a bottleneck is in its 3 x 3, as in torchvision's."""
    layers: list[nn.Module] = [unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    n = width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            stride = 2 if stage and not i else 1
            body, n_out = block(n, width << stage, stride)
            project = unit(n, n_out, 1, stride, act=nn.Identity) if stride > 1 or n != n_out else None
            layers.append(Residual(body, project))
            n = n_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, classes))


class Excite(nn.Module):
    """Hu et al. 2017: multiplies each channel by a gate computed from all channel means."""

    def __init__(self, channels: int, reduced: int):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        means = nn.functional.silu(self.reduce(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.expand(means))


def inverted_residual(
    n_in: int, n_out: int, stride: int, expand: int, size: int = 3, act: Callable = nn.ReLU6, excite: bool = False
) -> nn.Module:
    hidden = n_in * expand
    first = [unit(n_in, hidden, 1, act=act)] if expand > 1 else []
    middle = [unit(hidden, hidden, size, stride, hidden, act), *([Excite(hidden, n_in // 4)] if excite else [])]
    body = nn.Sequential(*first, *middle, unit(hidden, n_out, 1, act=nn.Identity))
    return Residual(body, act=nn.Identity) if stride == 1 and n_in == n_out else body


# expansion, channels, repetitions, stride of the first repetition
MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(stages: tuple = MOBILENET, head: int = 1280, classes: int = 1000) -> nn.Module:
    """Sandler et al. 2018."""
    layers, n = [unit(3, 32, 3, 2, act=nn.ReLU6)], 32
    for expand, n_out, repeats, stride in stages:
        for i in range(repeats):
            layers.append(inverted_residual(n, n_out, stride if i == 0 else 1, expand))
            n = n_out
    layers.append(unit(n, head, 1, act=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(head, classes))


# kernel size, followed by the columns of MOBILENET
EFFICIENTNET = (
    *((3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2)),
    *((5, 6, 112, 3, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1)),
)


def efficientnet(stages: tuple = EFFICIENTNET, head: int = 1280, classes: int = 1000) -> nn.Module:
    """Tan and Le 2019: B0."""
    layers, n = [unit(3, 32, 3, 2, act=nn.SiLU)], 32
    for size, expand, n_out, repeats, stride in stages:
        for i in range(repeats):
            layers.append(inverted_residual(n, n_out, stride if i == 0 else 1, expand, size, nn.SiLU, excite=True))
            n = n_out
    layers.append(unit(n, head, 1, act=nn.SiLU))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(head, classes))


class Attention(nn.Module):
    def __init__(self, size: int, heads: int, key_bias: bool = True):
        super().__init__()
        self.heads = heads
        self.query, self.value, self.out = (nn.Linear(size, size) for _ in range(3))
        self.key = nn.Linear(size, size, bias=key_bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x: (batch, tokens, size); mask: (batch, 1, 1, tokens), true where a token is attended to."""
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        parts = (split(project(x)) for project in (self.query, self.key, self.value))
        return self.out(scaled_dot_product_attention(*parts, attn_mask=mask).transpose(1, 2).flatten(2))


def mlp(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))


class Encoder(nn.Module):
    """A transformer layer: norms before its parts (ViT) or after them (BERT)."""

    def __init__(self, size: int, heads: int, norm_first: bool, eps: float, key_bias: bool = True):
        super().__init__()
        self.attention, self.mlp, self.norm_first = Attention(size, heads, key_bias), mlp(size), norm_first
        self.norm1, self.norm2 = nn.LayerNorm(size, eps), nn.LayerNorm(size, eps)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class ViT(nn.Module):
    """Dosovitskiy et al. 2020, with a class token; size S as in Touvron et al. 2020."""

    def __init__(
        self, size: int = 384, heads: int = 6, layers: int = 12, image: int = 224, patch: int = 16, classes: int = 1000
    ):
        super().__init__()
        self.patches = nn.Conv2d(3, size, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, size))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, size))
        self.layers = nn.Sequential(*[Encoder(size, heads, True, 1e-6) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(size, 1e-6), nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


class Bert(nn.Module):
    """Devlin et al. 2018: the encoder with its pooler."""

    def __init__(self, size: int = 768, heads: int = 12, layers: int = 12, words: int = 30522, positions: int = 512):
        super().__init__()
        self.words, self.kinds = nn.Embedding(words, size), nn.Embedding(2, size)
        self.positions = nn.Embedding(positions, size)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.layers = nn.ModuleList(Encoder(size, heads, False, 1e-12) for _ in range(layers))
        self.pooler = nn.Linear(size, size)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """ids, mask: (batch, tokens), i64; the mask is 0 for padding."""
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.positions(at) + self.kinds(torch.zeros_like(ids)))
        attended = mask.bool()[:, None, None, :]
        for layer in self.layers:
            x = layer(x, attended)
        return x, torch.tanh(self.pooler(x[:, 0]))


class WhisperEncoder(nn.Module):
    """Radford et al. 2022, size tiny."""

    def __init__(self, size: int = 384, heads: int = 6, layers: int = 4, mels: int = 80, positions: int = 1500):
        super().__init__()
        self.stem = nn.Sequential(
            *(nn.Conv1d(mels, size, 3, padding=1), nn.GELU()),
            *(nn.Conv1d(size, size, 3, 2, 1), nn.GELU()),
        )
        self.positions = nn.Parameter(torch.zeros(positions, size))
        self.layers = nn.Sequential(*[Encoder(size, heads, True, 1e-5, key_bias=False) for _ in range(layers)])
        self.norm = nn.LayerNorm(size, 1e-5)

    def forward(self, mels: Tensor) -> Tensor:
        """mels: (batch, mels, 2 x positions), a spectrogram."""
        return self.norm(self.layers(self.stem(mels).transpose(1, 2) + self.positions))


def group_unit(n_in: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.GroupNorm(4, n_out), nn.SiLU())


def transposed(n_in: int, n_out: int) -> nn.Module:
    return nn.ConvTranspose2d(n_in, n_out, 2, 2)


def upsampled(n_in: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(n_in, n_out, 3, padding=1))


class UNet(nn.Module):
    """Ronneberger et al. 2015, with padded convolutions: a class for each pixel. It has batch norms and transposed
    convolutions or, as in diffusion models, group norms and convolutions of upsampled images."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512, 1024), classes: int = 2, groups: bool = False):
        super().__init__()
        one, enlarge = (group_unit, upsampled) if groups else (lambda a, b: unit(a, b, 3), transposed)
        double = lambda a, b: nn.Sequential(one(a, b), one(b, b))
        pairs = list(itertools.pairwise(widths))
        self.first, self.pool = double(3, widths[0]), nn.MaxPool2d(2)
        self.down = nn.ModuleList(double(a, b) for a, b in pairs)
        self.up = nn.ModuleList(enlarge(b, a) for a, b in reversed(pairs))
        self.join = nn.ModuleList(double(2 * a, a) for a, _ in reversed(pairs))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(self.pool(levels[-1])))
        x = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([levels.pop(), up(x)], 1))
        return self.head(x)


def fan_in(m: nn.Module) -> int:
    """Returns the number of terms per result of the module (windows of transposed convolutions do not overlap here)."""
    return m.weight.shape[0] if isinstance(m, nn.ConvTranspose2d) else m.weight[0].numel()


def fill(m: nn.Module) -> None:
    """Sets weights that preserve the scale of activations. Statistics of batch norms differ from the defaults 0 and
    1."""
    if isinstance(m, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
        gain = 1 if isinstance(m, nn.Linear) else 2
        m.weight.normal_(0, (gain / fan_in(m)) ** 0.5)
        if m.bias is not None:
            m.bias.normal_(0, 0.1)
    elif isinstance(m, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
        scale = 0.3 if getattr(m, "is_last", False) else 1.0
        m.weight.uniform_(0.8 * scale, 1.2 * scale)
        m.bias.normal_(0, 0.1)
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.8, 1.2)
    elif isinstance(m, nn.Embedding):
        m.weight.normal_()
    elif isinstance(m, ViT):
        m.class_token.normal_()
        m.positions.normal_(0, 0.5)
    elif isinstance(m, WhisperEncoder):
        m.positions.normal_(0, 0.5)


def picture(size: int, channels: int = 3) -> Callable:
    return lambda: (torch.randn(1, channels, size, size),)


def text(length: int, words: int) -> Callable:
    """Returns a function that makes `length` tokens, an eighth of them padding."""

    def inputs() -> tuple[Tensor, Tensor]:
        return torch.randint(words, (1, length)), (torch.arange(length) < length * 7 // 8).long()[None]

    return inputs


@dataclasses.dataclass(frozen=True)
class Model:
    """build, inputs: the measured size; small, small_inputs: fewer and narrower layers for tests."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    small: Callable[[], nn.Module] | None = None
    small_inputs: Callable[[], tuple[Tensor, ...]] | None = None


def mnist() -> nn.Module:
    """Returns the network of examples/mnist."""
    spec = importlib.util.spec_from_file_location("mnist_model", ROOT / "examples/mnist/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Net()


MODELS = {
    "MNIST": Model(mnist, picture(28, 1), mnist, picture(28, 1)),
    "ResNet-18": Model(
        lambda: resnet(basic_block, (2, 2, 2, 2)), picture(224), lambda: resnet(basic_block, (1, 1), 8, 5), picture(32)
    ),
    "ResNet-50": Model(
        lambda: resnet(bottleneck_block, (3, 4, 6, 3)),
        picture(224),
        lambda: resnet(bottleneck_block, (2, 1), 8, 5),
        picture(32),
    ),
    "MobileNetV2": Model(
        mobilenet_v2, picture(224), lambda: mobilenet_v2(((1, 8, 1, 1), (6, 12, 2, 2)), 16, 5), picture(32)
    ),
    "EfficientNet-B0": Model(
        efficientnet, picture(224), lambda: efficientnet(((3, 1, 8, 1, 1), (5, 6, 12, 2, 2)), 16, 5), picture(32)
    ),
    "ViT-S/16": Model(ViT, picture(224), lambda: ViT(24, 2, 2, 32, 8, 5), picture(32)),
    "BERT-base, 128 tokens": Model(Bert, text(128, 30522), lambda: Bert(24, 2, 2, 50, 32), text(16, 50)),
    "Whisper-tiny encoder": Model(
        WhisperEncoder,
        lambda: (torch.randn(1, 80, 3000),),
        lambda: WhisperEncoder(24, 2, 2, 8, 10),
        lambda: (torch.randn(1, 8, 20),),
    ),
    "UNet": Model(UNet, picture(256), lambda: UNet((8, 12, 16), 2), picture(32)),
    "UNet, group norms": Model(
        lambda: UNet(groups=True), picture(256), lambda: UNet((8, 12, 16), 2, groups=True), picture(32)
    ),
}


def make(name: str, small: bool = False) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(name, MODELS[name], small)


def seeded(name: str, model: Model, small: bool = False) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns (module in eval mode, inputs), with the same weights and inputs each time."""
    torch.manual_seed(zlib.crc32(name.encode()))
    module = (model.small if small else model.build)().eval().requires_grad_(False)
    with torch.no_grad():
        module.apply(fill)
    return module, (model.small_inputs if small else model.inputs)()
