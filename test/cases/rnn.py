"""LSTM, GRU, RNN and their cells. Tolerance: each step sums products of up to 20 terms in f32 and applies an
activation. Rounding errors of a step enter the next: a few units per step."""

import torch
from torch import nn
from torch.export import Dim

from describe import BF16, F16, F32, F64, Case, T

TIME, BATCH = Dim("time", min=2, max=64), Dim("batch", min=2, max=16)
TOLERANCE = {F32: 2e-5, F64: 1e-12, F16: 2e-5, BF16: 2e-5}


def close(dtype=F32, state=1.0):
    """Returns the tolerance. 16-bit floats: a state of about `state` is rounded to the dtype at each of six steps."""
    rounding = state * torch.finfo(dtype).eps / 2 if dtype in (F16, BF16) else 0
    return {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype] + rounding, "steps": 1 if rounding else 0}


def made(make, dtype=F32):
    """Returns the module with the same weights every time."""
    torch.manual_seed(3)
    return make().to(dtype)


class Given(nn.Module):
    """A network whose initial states are inputs."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x, *states):
        return self.rnn(x, states if len(states) > 1 else states[0])


def network_cases():
    kinds = {
        "lstm": nn.LSTM,
        "gru": nn.GRU,
        "tanh": nn.RNN,
        "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
    }
    sizes = {"lstm": 0.5, "gru": 1, "tanh": 1, "relu": 1}
    x = [T((7, 3, 5))]
    for name, kind in kinds.items():
        yield Case(name, made(lambda: kind(5, 8)), x, **close())
        deep = made(lambda: kind(5, 6, num_layers=2, bidirectional=True, batch_first=True))
        shapes = ({0: BATCH, 1: TIME},)
        yield Case(f"{name}_deep", deep, [T((3, 7, 5))], other=[T((2, 9, 5))], dynamic_shapes=shapes, **close())
        yield Case(f"{name}_short", made(lambda: kind(5, 6, bias=False, num_layers=2)), [T((3, 2, 5))], **close())
        for dtype in (F64, F16, BF16):
            half = made(lambda: kind(5, 8), dtype)
            yield Case(f"{name}_{str(dtype)[6:]}", half, [T((6, 5, 5), dtype, -4, 4)], **close(dtype, sizes[name]))
    dynamic = ({0: TIME},)
    yield Case(
        "lstm_time",
        made(lambda: nn.LSTM(4, 20)),
        [T((6, 1, 4))],
        other=[T((31, 1, 4))],
        dynamic_shapes=dynamic,
        **close(),
    )
    yield Case("lstm_unbatched", made(lambda: nn.LSTM(4, 6)), [T((6, 4))], **close())
    projected = made(lambda: nn.LSTM(5, 8, num_layers=2, proj_size=3, bidirectional=True))
    yield Case("lstm_projected", projected, x, **close())
    states = [T((2, 3, 8)), T((2, 3, 8))]
    yield Case("lstm_states", Given(made(lambda: nn.LSTM(5, 8, num_layers=2))), [*x, *states], **close())
    yield Case("gru_states", Given(made(lambda: nn.GRU(5, 8, bidirectional=True))), [*x, states[0]], **close())


def cell_cases():
    x, h = T((3, 5)), T((3, 8))
    yield Case("lstm_cell", Given(made(lambda: nn.LSTMCell(5, 8))), [x, h, h], **close())
    yield Case("gru_cell", made(lambda: nn.GRUCell(5, 8)), [x, h], **close())
    yield Case("tanh_cell", made(lambda: nn.RNNCell(5, 8, bias=False)), [x, h], **close())
    yield Case("relu_cell", made(lambda: nn.RNNCell(5, 8, nonlinearity="relu")), [x], **close())


def cases():
    yield from network_cases()
    yield from cell_cases()
