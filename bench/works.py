"""The works of bench.py's table `works`: recurrent layers, single ops, many small ops, one row each in WORKS, as in
models.py."""

from collections.abc import Callable

import torch
from models import Model
from torch import Tensor, nn


class Function(nn.Module):
    """Wraps a function of tensors as a module."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.function(*args)


def op(function: Callable, sizes: tuple, small_sizes: tuple) -> Model:
    """Returns a model of a function with normally distributed inputs of these sizes."""
    made = lambda of: lambda: tuple(torch.randn(s) for s in of)
    build = lambda: Function(function)
    return Model(build, made(sizes), build, made(small_sizes))


def chain(function: Callable, n: int = 1000) -> nn.Module:
    """Repeats an op n times, without fusion between repetitions."""

    def run(x: Tensor) -> Tensor:
        for _ in range(n):
            x = function(x)
        return x

    return Function(run)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def recurrent(kind: Callable, batch: int) -> Model:
    """Returns a model of two recurrent layers of 512 units over 64 steps of 256 numbers."""
    return Model(
        lambda: kind(256, 512, 2, batch_first=True),
        lambda: (torch.randn(batch, 64, 256),),
        lambda: kind(6, 8, 2, batch_first=True),
        lambda: (torch.randn(batch, 5, 6),),
    )


def drawn(shape: tuple[int, ...]) -> Callable:
    """Returns a function that draws normal numbers. It also returns its input, because a program needs one."""
    return lambda x: (torch.randn(shape), x + 1)


def drawing(shape: tuple[int, ...]) -> Model:
    """Returns a model that draws normal numbers. Its small version has the full size, because fewer numbers say little
    about their distribution."""
    build, inputs = lambda: Function(drawn(shape)), lambda: (torch.randn(1),)
    return Model(build, inputs, build, inputs)


MATRIX, SMALL = (1024, 1024), (7, 33)
WORKS = {
    "LSTM, batch 1": recurrent(nn.LSTM, 1),
    "LSTM, batch 16": recurrent(nn.LSTM, 16),
    "GRU, batch 1": recurrent(nn.GRU, 1),
    "GRU, batch 16": recurrent(nn.GRU, 16),
    "1,000 softmaxes of 2×2": Model(
        lambda: chain(softmax), lambda: (torch.randn(2, 2),), lambda: chain(softmax, 10), lambda: (torch.randn(2, 2),)
    ),
    "randn of 1,024×1,024": drawing(MATRIX),
    "median of rows of 1,024×1,024": op(lambda x: x.median(-1), (MATRIX,), (SMALL,)),
    "topk, 50 of rows of 64×32,000": op(lambda x: x.topk(50), ((64, 32000),), ((3, 77),)),
    "cdist, 1,024 by 1,024 of 64": op(torch.cdist, ((1024, 64), (1024, 64)), ((9, 5), (7, 5))),
    "sort of rows of 1,024×1,024": op(lambda x: x.sort(dim=-1, stable=True), (MATRIX,), (SMALL,)),
    "sort of 1,048,576": op(lambda x: x.sort(stable=True), ((1 << 20,),), ((1000,),)),
}
