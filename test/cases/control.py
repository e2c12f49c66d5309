"""cond, while_loop, scan, map; nested control flow; bodies with views, state, symbolic sizes, and values read from
data. The second set of inputs runs other branches and other numbers of steps."""

import dataclasses

import torch
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from describe import BOOL, F16, F32, F64, I32, I64, Case, T

N = Dim("n", min=1, max=100)
TOL = {"rtol": 1e-5, "atol": 1e-5}


def batch(*axes):
    """Returns the dynamic dimension N of each tensor, at these axes."""
    return (tuple({a: N} if a is not None else None for a in axes),)


class Gate(torch.nn.Module):
    """Branches read parameters. A buffer is changed outside of the branch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda v: self.a(v).relu(), lambda v: self.b(v) + self.total, (x,))
        self.total.add_(y.sum(0))
        return y, self.total * 1


def cond_cases():
    def values(x, y):
        """Branches return several results: computed, passed through, views, or the same twice, of several dtypes."""
        n = x.shape[0]
        then = lambda x, y: (x * 2 + y, y.clone(), x[0].clone(), (x > 0).int(), y.t().clone())
        other = lambda x, y: (y - x, x + 0.0, y[n - 1] * 1, (y > 0).int(), x.t() * 3)
        return torch.cond(x[0, 0] > 0, then, other, (x, y))

    yes, no = T((5, 4), low=0.5), T((5, 4), high=-0.5)
    yield Case("cond", values, [yes, T((5, 4))], other=[no, T((5, 4))], **TOL)
    yield Case(
        "cond_dynamic",
        values,
        [yes, T((5, 4))],
        other=[T((9, 4), high=-0.5), T((9, 4))],
        dynamic_shapes=batch(0, 0),
        **TOL,
    )
    by_size = lambda x: torch.cond(x.shape[0] > 6, lambda x: x.cos().sum(0), lambda x: x.sum(0) * 2, (x,))
    yield Case("cond_size", by_size, [T((3, 4))], other=[T((9, 4))], dynamic_shapes=batch(0), **TOL)
    by_item = lambda x, f: (
        torch.cond(x.sum().item() > 3, lambda x: x + 1, lambda x: x * 2, (x,)),
        torch.cond(f.any().item(), lambda x: x - 1, lambda x: x / 2, (x,)),
    )
    yield Case("cond_item", by_item, [yes, T((3,), BOOL)], other=[no, T((3,), BOOL, values=(False,))], **TOL)

    def nested(x):
        inner = lambda x: torch.cond(x.min() > -1, lambda x: x.exp(), lambda x: x.sin(), (x,))
        return torch.cond(x.sum() > 0, inner, lambda x: inner(x * 0.5) - 1, (x,)) + x

    yield Case("cond_nested", nested, [T((4, 3), low=0)], other=[T((4, 3), high=0)], **TOL)
    yield Case("cond_state", Gate(), [T((3, 6), low=0)], other=[T((3, 6), high=0)], state=True, **TOL)
    both = lambda x: [torch.cond(p, lambda x: x * 2, lambda x: x * 3, (x,)) for p in ((x > 1).all(), (x < 9).all())]
    for dtype in (F16, F64, I32):
        yield Case(f"cond_{str(dtype)[6:]}", both, [T((7,), dtype)], other=[T((7,), dtype, low=2, high=3)], **TOL)
    yield Case("cond_empty", both, [T((0, 3))], **TOL)

    def kept(x, u):
        """Returns a result, of which the same body also makes an updated copy."""
        twice, thrice = lambda x, u: (x * 2, u * 3), lambda x, u: (x * 3, u * 2)
        part = lambda x, u: (x, torch.slice_scatter(x, u, 0, 1, 3))
        then, other = lambda x, u: part(*twice(x, u)), lambda x, u: part(*thrice(x, u))
        return torch.cond(x.sum() > 0, then, other, (x, u))

    yield Case("cond_kept", kept, [T((5, 4), low=0), T((2, 4))], other=[T((5, 4), high=0), T((2, 4))], **TOL)


def while_cases():
    def power(x, n):
        """The carries are computed, swapped, unchanged and counted."""
        step = lambda i, a, b, c: (i + 1, b.clone(), a + c, c.clone())
        return while_loop(lambda i, a, b, c: i < n, step, (torch.zeros((), dtype=I64), x.sin(), x * 2, x.cos()))

    args = [T((4, 3)), T((), I64, values=(5,))]
    yield Case("while", power, args, other=[args[0], T((), I64, values=(2,))], **TOL)
    yield Case("while_none", power, [args[0], T((), I64, values=(0,))], other=args, **TOL)
    halve = lambda x: while_loop(lambda x: x.abs().max() > 0.1, lambda x: x / 2, (x,))
    yield Case("while_data", halve, [T((3, 5))], other=[T((6, 5), high=90)], dynamic_shapes=batch(0), **TOL)

    def fill(buffer, x):
        """Changes a tensor in place, one row per step, at a position that the host must read."""

        def step(i, buffer):
            row = x * i
            return i + 1, buffer.index_copy(0, i.reshape(1), row.reshape(1, -1))

        return while_loop(lambda i, b: i < b.shape[0], step, (torch.zeros((), dtype=I64), buffer))[1]

    yield Case(
        "while_fill", fill, [T((6, 3)), T((3,))], other=[T((9, 3)), T((3,))], dynamic_shapes=batch(0, None), **TOL
    )

    def newton(x):
        """Has a loop in a loop, and a branch in the inner loop."""
        z = x.abs()

        def inner(i, y):
            y = torch.cond(y.sum() > 0, lambda y: 0.5 * (y + z / (y + 1)), lambda y: y + 0.25, (y,))
            return i + 1, y

        def outer(k, y):
            return k + 1, while_loop(lambda i, y: i < 3, inner, (torch.zeros((), dtype=I64), y.clone()))[1]

        return while_loop(lambda k, y: k < 4, outer, (torch.zeros((), dtype=I64), x.clone()))

    yield Case("while_nested", newton, [T((8,))], **TOL)
    counted = lambda x: while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * i + x[i]), (0, x[0].clone()))[1]
    yield Case("while_int", counted, [T((5, 3))], **TOL)
    collatz = lambda n: while_loop(
        lambda n, k: n > 1, lambda n, k: (torch.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1), (n, torch.zeros_like(n))
    )
    yield Case("while_collatz", collatz, [T((), I64, values=(7,))], other=[T((), I64, values=(27,))])


def scan_cases():
    w = torch.linspace(-1, 1, 9).reshape(3, 3)

    def recur(x, h):
        def step(h, x):
            h = torch.tanh(h @ w + x)
            return h, h.clone()

        return scan(step, h, x)

    rnn = [T((6, 2, 3)), T((2, 3))]
    long = [T((11, 2, 3)), T((2, 3))]
    yield Case("scan", recur, rnn, other=long, dynamic_shapes=batch(0, None), **TOL)
    reverse = lambda x, h: scan(lambda c, x: (c + x, c * x), h, x, dim=2, reverse=True)
    yield Case(
        "scan_reverse", reverse, [T((2, 3, 5)), T((2, 3))], other=[T((2, 3, 8)), T((2, 3))],
        dynamic_shapes=batch(2, None), **TOL,
    )  # fmt: skip

    def many(x, y, n):
        """Has several carries and stacked results: integers, unchanged tensors, views, and the same tensor twice."""

        def step(carry, xs):
            a, b, n = carry
            x, y = xs
            c = a * 0.5 + x
            return (b.clone(), c, n + 1), (c.clone(), y[:, 1].clone(), n.clone(), x.t() * 1, w * 1, x > b)

        return scan(step, (x[0] * 1, x[1] * 1, n), (x, y))

    yield Case(
        "scan_many", many, [T((4, 2, 3)), T((4, 3, 2)), T((), I32)], other=[T((7, 2, 3)), T((7, 3, 2)), T((), I32)],
        dynamic_shapes=batch(0, 0, None), **TOL,
    )  # fmt: skip

    def nested(x):
        """Scans over scans, with a branch."""

        def row(total, x):
            total = torch.cond(x > 0, lambda t, x: t + x, lambda t, x: t * 0.5, (total, x))
            return total, total.clone()

        def rows(total, x):
            end, y = scan(row, total, x)
            return end, y.clone()

        return scan(rows, torch.zeros(()), x)

    yield Case("scan_nested", nested, [T((3, 5))], other=[T((6, 5))], dynamic_shapes=batch(0), **TOL)
    strided = lambda x: scan(lambda c, x: (c + x.sum(), x[1:] * c), torch.ones(()), x.transpose(0, 1)[::2].flip(0))
    yield Case("scan_strided", strided, [T((4, 7))], **TOL)
    one = lambda x: scan(lambda c, x: (c * x, c + x), torch.ones(3), x)
    yield Case("scan_one", one, [T((1, 3))], **TOL)


def outside_cases():
    def outside(x):
        """Every step writes a row of its own copy of a tensor from outside the body."""
        y = x * 2

        def step(total, row):
            new = torch.slice_scatter(y, row[None], 0, 1, 2)
            return total + new.sum(), new * 1

        return scan(step, torch.zeros(()), x[:3] * 1)

    yield Case("scan_outside", outside, [T((4, 5))], **TOL)


def map_cases():
    affine = lambda x, y: mapped(lambda x, y: torch.relu(x @ y) + x[:1].sum(), x, y)
    yield Case(
        "map", affine, [T((5, 2, 3)), T((3, 4))], other=[T((2, 2, 3)), T((3, 4))], dynamic_shapes=batch(0, None), **TOL
    )
    pairs = lambda x, y: mapped(lambda xy, s: (xy[0] + xy[1], xy[0].clone(), xy[1].sum() * s), (x, y), x[0, 0].clone())
    yield Case("map_pairs", pairs, [T((4, 3)), T((4, 3))], **TOL)

    def picked(x, i):
        """Each step selects its row by an index that the host reads."""
        return mapped(lambda i: x.narrow(0, i.item(), 1).squeeze(0) * 2, i)

    yield Case("map_item", picked, [T((5, 3)), T((4,), I64, 0, 4)], **TOL)
    lookup = lambda x, i: mapped(lambda i: x[i.reshape(1)] * 2, i)
    out_of_range = [T((5, 3)), T((2,), I64, values=(1, 5))]
    yield Case(
        "map_range", lookup, out_of_range, other=[T((5, 3)), T((2,), I64, 0, 4)], error="index 5 out of range", **TOL
    )


def cases():
    for family in (cond_cases, while_cases, scan_cases, outside_cases, map_cases):
        for case in family():
            yield dataclasses.replace(case, own="torch's control flow refuses to run where each op is seen")
