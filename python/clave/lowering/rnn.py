"""Recurrent networks: lstm, gru, rnn and their cells, as a Scan over the time steps.

One Matmul before the Scan multiplies the inputs of all steps. A step is the product with the hidden state, and the
gates. A few steps are unrolled instead. Formulas: torch.nn.LSTM, GRU, RNN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from clave.builder import Int, Slot
from clave.errors import Unsupported
from clave.lowering.cat import joined
from clave.lowering.control import emit_scan
from clave.lowering.matmul import product
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import insert, reshape, swap
from clave.lowering.slice import flipped, select, slice_
from clave.lowering.steps import compute, opmath, step

WRITTEN_OUT = 4  # up to this many time steps are unrolled


@dataclass(eq=False)
class Weights:
    """The weights of one layer and direction, transposed. ih: (in, gates * hidden), hh: (out, gates * hidden), hr:
    (hidden, out)."""

    ih: Slot
    hh: Slot
    b_ih: Slot | None = None
    b_hh: Slot | None = None
    hr: Slot | None = None


# (carries, the step's products with the inputs, weights) -> the next carries, the first of which is the step's output
Cell = Callable[[Context, list[Slot], Slot, Weights], list[Slot]]


def _parts(c: Context, x: Slot, n: int) -> list[Tensor]:
    """Splits x (batch, n * hidden) into n slices."""
    size = c.sizes.divide(x.shape[1], n)
    ends = [c.sizes.multiply(size, i) for i in range(n + 1)]
    return [slice_(c, x, 1, start, end, size) for start, end in itertools.pairwise(ends)]


def _lstm(c: Context, carries: list[Slot], x: Slot, w: Weights) -> list[Slot]:
    h, cell = carries
    gates = product(c, h, w.hh, x, shape=x.shape, dtype=x.dtype)
    i, f, g, o = _parts(c, gates, 4)
    t = opmath(x.dtype)
    kept = step("mul", t, step("sigmoid", t, f), cell)
    added = step("mul", t, step("sigmoid", t, i), step("tanh", t, g))
    cell = c.tensor(compute(c, step("add", t, kept, added), cell.shape, x.dtype))
    out = step("mul", t, step("sigmoid", t, o), step("tanh", t, cell))
    h = c.tensor(compute(c, out, cell.shape, x.dtype))
    if w.hr is not None:
        h = product(c, h, w.hr, shape=carries[0].shape, dtype=x.dtype)
    return [h, cell]


def _gru(c: Context, carries: list[Slot], x: Slot, w: Weights) -> list[Slot]:
    (h,) = carries
    gates = product(c, h, w.hh, w.b_hh, shape=x.shape, dtype=x.dtype)
    (xr, xz, xn), (hr, hz, hn) = _parts(c, x, 3), _parts(c, gates, 3)
    t = opmath(x.dtype)
    r = step("sigmoid", t, step("add", t, xr, hr))
    z = step("sigmoid", t, step("add", t, xz, hz))
    n = step("tanh", t, step("add", t, xn, step("mul", t, r, hn)))
    new = step("add", t, step("mul", t, step("sub", t, h, n), z), n)
    return [c.tensor(compute(c, new, h.shape, x.dtype))]


def _simple(kind: str) -> Cell:
    def cell(c: Context, carries: list[Slot], x: Slot, w: Weights) -> list[Slot]:
        gates = product(c, carries[0], w.hh, x, shape=x.shape, dtype=x.dtype)
        return [c.tensor(compute(c, step(kind, x.dtype, gates), x.shape, x.dtype))]

    return cell


def _input_bias(c: Context, w: Weights, joined: bool) -> Slot | None:
    """Returns the bias of the inputs. joined: adds the bias of the hidden product, if a step adds both to one sum."""
    if w.b_ih is None or w.b_hh is None or not joined:
        return w.b_ih
    return c.tensor(compute(c, step("add", w.b_ih.dtype, w.b_ih, w.b_hh), w.b_ih.shape, w.b_ih.dtype))


def _over_time(c: Context, cell: Cell, carries: list[Slot], x: Slot, w: Weights) -> tuple[Slot, list[Slot]]:
    """Returns the outputs of all steps, and the last carries. x: (time, batch, gates * hidden)."""
    steps, dtype = x.shape[0], x.dtype
    if isinstance(steps, int) and steps <= WRITTEN_OUT:
        outs = []
        for i in range(steps):
            carries = cell(c, carries, c.tensor(select(c, x, 0, i)), w)
            outs.append(insert(c, carries[0], 0))
        shape = (steps, *carries[0].shape)
        return c.tensor(outs[0]) if steps == 1 else c.emit("Cat", xs=outs, axis=0, shape=shape, dtype=dtype), carries
    with c.body(f"{c.node.name}.step") as body:
        inner = [c.builder.temp(dtype, t.shape) for t in carries]
        now = c.builder.temp(dtype, x.shape[1:])
        body.args = [*inner, now]
        made = cell(c, inner, now, w)
        body.results = [*made, made[0]]
    outs = [*(c.builder.temp(dtype, t.shape) for t in carries), c.builder.temp(dtype, (steps, *carries[0].shape))]
    emit_scan(c, body, carries, [x], outs)
    return outs[-1], outs[:-1]


def _projected(c: Context, x: Slot, w: Weights, bias: Slot | None) -> Slot:
    """Returns the products of the inputs of all steps, x (a, b, in), computed as one matrix."""
    flat = (c.sizes.multiply(x.shape[0], x.shape[1]), x.shape[2])
    size = w.ih.shape[1]
    made = product(c, c.tensor(reshape(c, x, flat)), w.ih, bias, shape=(flat[0], size), dtype=x.dtype)
    return c.tensor(reshape(c, made, (*x.shape[:2], size)))


def _weights(c: Context, params: list[Slot], has_biases: bool, projects: bool) -> list[Weights]:
    """Returns the weights of each layer and direction."""
    each = 2 + 2 * has_biases + projects
    made = []
    for i in range(0, len(params), each):
        ih, hh, *rest = params[i : i + each]
        w = Weights(swap(c, ih, 0, 1), swap(c, hh, 0, 1))
        if has_biases:
            w.b_ih, w.b_hh = rest[:2]
        if projects:
            w.hr = swap(c, rest[-1], 0, 1)
        made.append(w)
    return made


def _network(
    c: Context, cell: Cell, x: Slot, states: list[Slot], weights: list[Weights], layers: int, batch_first: bool
) -> list[Tensor]:
    """Returns the outputs and the last states. x: (time, batch, in), or batch first. states: (layers * directions,
    batch, hidden) each."""
    directions = len(weights) // layers
    ends: list[list[Slot]] = []
    for layer in range(layers):
        outs = []
        for d in range(directions):
            k = layer * directions + d
            gates = _projected(c, x, weights[k], _input_bias(c, weights[k], cell is not _gru))
            gates = swap(c, gates, 0, 1) if batch_first else gates
            carries = [c.tensor(select(c, s, 0, k)) for s in states]
            y, end = _over_time(c, cell, carries, flipped(c, gates, [0]) if d else gates, weights[k])
            outs.append(flipped(c, y, [0]) if d else y)
            ends.append(end)
        x = outs[0] if directions == 1 else joined(c, outs, 2)
        x = swap(c, x, 0, 1) if batch_first else x
    last = [joined(c, [insert(c, end[i], 0) for end in ends], 0) for i in range(len(states))]
    return [x, *last]


@lower("aten.lstm.input")
def lstm(
    c: Context, x: Tensor, hx: list[Tensor], params: list[Slot], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> list[Tensor]:  # fmt: skip
    h, cell = (c.tensor(s) for s in hx)
    projects = len(params) // (num_layers * (1 + bidirectional)) == 3 + 2 * has_biases
    weights = _weights(c, params, has_biases, projects)
    return _network(c, _lstm, c.tensor(x), [h, cell], weights, num_layers, batch_first)


def _recurrent(target: str, cell: Cell) -> None:
    @lower(target)
    def lowering(
        c: Context, x: Tensor, hx: Tensor, params: list[Slot], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> list[Tensor]:  # fmt: skip
        weights = _weights(c, params, has_biases, False)
        return _network(c, cell, c.tensor(x), [c.tensor(hx)], weights, num_layers, batch_first)


def _one_step(c: Context, cell: Cell, x: Tensor, carries: list[Tensor], params: list[Tensor | None]) -> list[Slot]:
    """Runs one step of a cell. x: (batch, in)."""
    ih, hh, *biases = (p if p is None else c.tensor(p) for p in params)
    assert ih is not None and hh is not None
    w = Weights(swap(c, ih, 0, 1), swap(c, hh, 0, 1), *biases)
    x = c.tensor(x)
    shape: tuple[Int, ...] = (x.shape[0], w.ih.shape[1])
    gates = product(c, x, w.ih, _input_bias(c, w, cell is not _gru), shape=shape, dtype=x.dtype)
    return cell(c, [c.tensor(s) for s in carries], gates, w)


def _recurrent_cell(target: str, cell: Cell) -> None:
    @lower(target)
    def lowering(c: Context, x: Tensor, hx: Tensor, *params: Tensor | None) -> Tensor:
        return _one_step(c, cell, x, [hx], list(params))[0]


@lower("aten.lstm_cell.default")
def lstm_cell(c: Context, x: Tensor, hx: list[Tensor], *params: Tensor | None) -> list[Tensor]:
    return list(_one_step(c, _lstm, x, hx, list(params)))


for _name, _cell in {"gru": _gru, "rnn_tanh": _simple("tanh"), "rnn_relu": _simple("relu")}.items():
    _recurrent(f"aten.{_name}.input", _cell)
    _recurrent_cell(f"aten.{_name}_cell.default", _cell)


@lower("aten.lstm.data", "aten.gru.data", "aten.rnn_tanh.data", "aten.rnn_relu.data")
def packed(c: Context, *_: object) -> None:
    raise Unsupported("packed sequences: pass padded ones")
