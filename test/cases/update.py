"""Slice update and index copy, in place into state and into values: the second run starts from the first's state."""

import torch

from describe import BF16, BOOL, F16, F32, F64, I32, I64, Case, T, name_of


class Module(torch.nn.Module):
    """A module with one buffer, which applies a function to it."""

    def __init__(self, function, buffer):
        super().__init__()
        self.function = function
        self.register_buffer("cache", buffer)

    def forward(self, *args):
        return self.function(self.cache, *args)


def write_slice(cache, x):
    cache[:, 2:5] = x
    return cache * 2, cache.sum(1)


def write_at(cache, x, i):
    cache.index_copy_(1, i, x)
    return cache + 0


def put(cache, x, i):
    cache[:, i] = x
    return cache + 0


def accumulate(cache, x):
    cache.add_(x)
    return cache.clone()


def shift(cache, x):
    cache.copy_(torch.cat([cache[:, 1:], x], 1))
    return cache.sum(1), cache.amax(1)


def read_before_write(cache, x):
    before = cache[:, 2:5] * 1
    cache[:, 2:5] = x
    return before, cache * 1


def overlapping(cache, x):
    """A view that is taken before the write reads the written values, because torch's views share memory."""
    view = cache[0]
    cache[:, 2:5] = x
    return view * 1


def state_cases():
    for dtype in (F32, F16, BF16, F64, I32, I64):
        d = name_of(dtype)
        cache = lambda t=dtype: torch.zeros(3, 7, dtype=t)
        x = T((3, 3), dtype, -9, 9)
        yield Case(
            f"state_slice_{d}",
            Module(write_slice, cache()),
            [x],
            state=True,
            rtol=1e-6,
            atol=1e-5,
        )
        yield Case(f"state_index_copy_{d}", Module(write_at, cache()), [x, T((3,), I64, values=(5, 0, 3))], state=True)
        yield Case(f"state_index_put_{d}", Module(put, cache()), [x, T((3,), I64, values=(5, 0, 3))], state=True)
        yield Case(f"state_accumulate_{d}", Module(accumulate, cache()), [T((3, 7), dtype, -9, 9)], state=True)
        yield Case(
            f"state_shift_{d}",
            Module(shift, cache()),
            [T((3, 1), dtype, -9, 9)],
            state=True,
            rtol=1e-6,
            atol=1e-5,
        )
    for name, f in {"read_before_write": read_before_write, "overlapping": overlapping}.items():
        yield Case(f"state_{name}", Module(f, torch.zeros(3, 7)), [T((3, 3))], state=True, rtol=1e-6)
    yield Case("state_position", Module(counting, torch.zeros((), dtype=I64)), [T((4,))], state=True, rtol=1e-6)


def counting(count, x):
    count.add_(1)
    return x * count, count.clone()


def index_copy_of_itself(y, i):
    return torch.index_copy(y, 0, i, y[:3])


def slice_of_itself(y):
    return torch.slice_scatter(y, y[:, :4], 1, 1, 5)


def select_of_itself(y):
    return torch.slice_scatter(y.t(), y[:3].t(), 1, 1, 4)


def start_of(i):
    i = i.item()
    torch._check(i >= 0)
    torch._check(i < 9)
    return i


def view_kept(x, u):
    """A view is read after an updated copy was made of the tensor that it shows."""
    y = x * 2
    view = y[1:3]
    return torch.slice_scatter(y, u, 1, 2, 5) * 1, view * 3


def value_cases():
    for dtype in (F32, F16, I32, BOOL):
        d = name_of(dtype)
        scatter = lambda x, u: (
            torch.slice_scatter(x, u, 1, 2, 5),
            torch.select_scatter(x, u[:, 0], 1, 3),
            x + 0 if u.dtype is not BOOL else ~x,
        )
        yield Case(f"slice_scatter_{d}", scatter, [T((4, 7), dtype, -9, 9), T((4, 3), dtype, -9, 9)])
        copy = lambda x, i, u: torch.index_copy(x, 0, i, u)
        yield Case(
            f"index_copy_{d}", copy, [T((5, 6), dtype, -9, 9), T((3,), I64, values=(4, 0, 2)), T((3, 6), dtype, -9, 9)]
        )
    # the source of the write is in the same memory, so in place, later elements would read written ones
    yield Case(
        "of_itself",
        lambda x, i: (
            index_copy_of_itself(x * 2, i),
            slice_of_itself(x * 3),
            select_of_itself(x * 4),
        ),
        [T((5, 6)), T((3,), I64, values=(1, 2, 0))],
    )
    # Parts of tensors without other readers: their memory is larger than they are, or in another order.
    of_views = lambda x, u: (
        torch.slice_scatter((x * 2)[1:4], u, 1, 2, 5),
        torch.slice_scatter((x * 3).t(), u.repeat(3, 1)[:7, :2], 1, 1, 3),
        torch.slice_scatter((x * 4)[:, 1:], u[:, :1].repeat(2, 1)[:5], 1, 3, 4),
    )
    yield Case("of_views", of_views, [T((5, 7)), T((3, 3))])
    yield Case("view_kept", view_kept, [T((5, 7)), T((5, 3))])
    inputs = [T((5, 6)), T((2,), I64, values=(4, 1)), T((6, 2))]
    yield Case("index_copy_strided", lambda x, i, u: torch.index_copy(x.t().contiguous().t(), 0, i, u.t()), inputs)
    bad = [T((5, 6)), T((2,), I64, values=(4, 5)), T((2, 6))]
    good = [T((5, 6)), T((2,), I64, values=(4, 1)), T((2, 6))]
    yield Case("error_index_copy", lambda x, i, u: torch.index_copy(x, 0, i, u), bad, other=good, error="out of range")
    # the start index is in a tensor, so it is known only when the program runs
    update = lambda x, u, i: torch.select_scatter(x, u, 0, start_of(i))
    rows = lambda i: [T((5, 3)), T((3,)), T((), I64, values=(i,))]
    yield Case("start_read", update, rows(4), other=rows(0))
    yield Case("error_start", update, rows(5), other=rows(4), error="does not fit axis 0 of size 5")


def cases():
    yield from state_cases()
    yield from value_cases()
