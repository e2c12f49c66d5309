"""Connectionist temporal classification, with the recursion over time steps as a Scan. Formulas: torch.nn.CTCLoss, and
Graves et al., https://www.cs.toronto.edu/~graves/icml_2006.pdf, section 4.1.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from clave import schema
from clave.builder import Int, Slot
from clave.lowering.arange import counting
from clave.lowering.cat import joined
from clave.lowering.control import emit_scan
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import expand, insert, reshape
from clave.lowering.slice import slice_
from clave.lowering.steps import Operand, compute, opmath, slot_as, step

D = schema.DType
K = schema.CumulateKind
PAD = 2  # unreachable states before the first one


def _lengths(c: Context, lengths: Any, n: Int, limit: Int) -> Slot:
    """Returns the lengths (n), i64. They are looked up in a table of `limit` + 1 numbers, so that a length outside of
    [0, limit] is an error of the run."""
    if isinstance(lengths, list):
        lengths = c.constant(torch.tensor(lengths, dtype=torch.int64), "lengths")
    given = reshape(c, slot_as(c, lengths, D.I64), (n,))
    size = c.sizes.add(limit, 1)
    table = counting(c, 0, size)
    return c.emit("IndexSelect", x=table, axis=0, index=given, shape=given.shape, dtype=D.I64)


def _labels(c: Context, targets: Slot, lengths: Slot, most: Int, blank: int) -> Slot:
    """Returns (N, most): each target, followed by blanks. targets: (N, most), or all targets joined."""
    n = lengths.shape[0]
    place = reshape(c, counting(c, 0, most), (1, most))
    column = reshape(c, lengths, (n, 1))
    inside = step("lt", D.I64, place, column)
    if targets.rank == 1:
        ends = c.emit("Cumulate", kind=K.sum, x=lengths, axis=0, shape=(n,), dtype=D.I64)
        at = step("add", D.I64, step("sub", D.I64, reshape(c, ends, (n, 1)), column), place)
        index = c.tensor(compute(c, step("where", D.I64, inside, at, 0), (n, most), D.I64))
        targets = c.emit("IndexSelect", x=targets, axis=0, index=index, shape=(n, most), dtype=D.I64)
    return c.tensor(compute(c, step("where", D.I64, inside, targets, blank), (n, most), D.I64))


def _states(c: Context, labels: Slot, blank: int) -> Slot:
    """Returns (N, 2 S + 1): the S labels with blanks around and between them."""
    n, most = labels.shape
    blanks = Filled(blank, D.I64, (n, most, 1))
    pairs = joined(c, [blanks, insert(c, labels, 2)], 2)
    flat = reshape(c, pairs, (n, c.sizes.multiply(2, most)))
    return joined(c, [flat, Filled(blank, D.I64, (n, 1))], 1)


def _skips(c: Context, states: Slot) -> Slot:
    """Returns (N, L), BOOL: true if a path may come from two states before, because the label differs from the one
    before it."""
    n, size = states.shape
    front = c.tensor(Filled(-1, D.I64, (n, PAD)))
    longer = joined(c, [front, states], 1)
    before = slice_(c, longer, 1, 0, size, size)
    differs = step("ne", D.I64, states, before)
    return c.tensor(compute(c, differs, states.shape, D.BOOL))


def _log_sum(t: schema.DType, *terms: Operand) -> Operand:
    """Returns log(sum(exp(terms))). As in torch, the largest term is subtracted first, unless it is -inf."""
    largest = terms[0]
    for x in terms[1:]:
        largest = step("maximum", t, largest, x)
    largest = step("where", t, step("eq", t, largest, -math.inf), 0.0, largest)
    total: Operand | None = None
    for x in terms:
        e = step("exp", t, step("sub", t, x, largest))
        total = e if total is None else step("add", t, total, e)
    assert total is not None
    return step("add", t, step("log", t, total), largest)


def _alpha(c: Context, before: Slot, scores: Slot, running: Slot, skips: Slot) -> Slot:
    """Returns (N, PAD + L): the log probabilities of all prefixes after one more step. They stay after the last one."""
    t, (n, size) = scores.dtype, scores.shape
    stay, one, two = (slice_(c, before, 1, i, c.sizes.add(i, size), size) for i in (PAD, PAD - 1, PAD - 2))
    reached = _log_sum(t, stay, one, step("where", t, skips, two, -math.inf))
    now = compute(c, step("where", t, running, step("add", t, reached, scores), stay), (n, size), t)
    return joined(c, [Filled(-math.inf, t, (n, PAD)), now], 1)


def _over_time(c: Context, scores: Slot, running: Slot, skips: Slot) -> Slot:
    """Returns the log probabilities of the last prefixes (N, PAD + L). A path begins before state 0. scores: (T, N, L);
    running: (T, N, 1)."""
    _, n, size = scores.shape
    place = reshape(c, counting(c, 0, c.sizes.add(size, PAD)), (1, c.sizes.add(size, PAD)))
    shape = (n, c.sizes.add(size, PAD))
    begin = step("where", scores.dtype, step("eq", D.I64, place, PAD), 0.0, -math.inf)
    first = c.tensor(expand(c, compute(c, begin, place.shape, scores.dtype), shape))
    with c.body(f"{c.node.name}.step") as body:
        body.args = [c.builder.temp(t.dtype, s) for t, s in ((first, shape), (scores, (n, size)), (running, (n, 1)))]
        body.results = [_alpha(c, *body.args, skips)]
    last = c.builder.temp(scores.dtype, shape)
    emit_scan(c, body, [first], [scores, running], [last])
    return last


@lower("aten._ctc_loss.default", "aten._ctc_loss.Tensor")
def ctc_loss(
    c: Context, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int, _: bool
) -> list[Tensor | None]:
    """Returns the negative log likelihoods (N), and None for torch's result for the gradient. log_probs: (T, N, C)."""
    t = opmath(c.dtype(0))
    steps, n, _classes = log_probs.shape
    targets = slot_as(c, targets, D.I64)
    known = isinstance(target_lengths, list) and targets.rank == 1
    most = max(target_lengths, default=0) if known else targets.shape[-1]
    ends = _lengths(c, target_lengths, n, most)
    states = _states(c, _labels(c, targets, ends, most, blank), blank)
    size = states.shape[1]
    index = expand(c, insert(c, states, 0), (steps, n, size))
    scores = c.emit("Gather", x=slot_as(c, log_probs, t), axis=2, index=index, shape=(steps, n, size), dtype=t)
    time = reshape(c, counting(c, 0, steps), (steps, 1, 1))
    over = reshape(c, _lengths(c, input_lengths, n, steps), (1, n, 1))
    running = c.tensor(compute(c, step("lt", D.I64, time, over), (steps, n, 1), D.BOOL))
    last = _over_time(c, scores, running, _skips(c, states))
    doubled = step("mul", D.I64, reshape(c, ends, (n, 1)), 2)
    last_two = step("add", D.I64, doubled, c.constant(torch.tensor([[PAD, PAD - 1]]), "ends"))
    at = c.tensor(compute(c, last_two, (n, 2), D.I64))
    found = c.emit("Gather", x=last, axis=1, index=at, shape=(n, 2), dtype=t)
    final = [reshape(c, slice_(c, found, 1, i, i + 1, 1), (n,)) for i in (0, 1)]
    return [compute(c, step("neg", t, _log_sum(t, *final)), c.shape(0), c.dtype(0)), None]
