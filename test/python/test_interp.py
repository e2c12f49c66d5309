"""The interpreter's guarantees: state, aliasing, values read back, plans of many sizes, each against eager torch."""

import ctypes

import pytest
import torch
import torch.nn.functional as F

import clave
from clave import _library as L

DEVICES = ["cpu", "opencl"]


def session(module, args, device, **kw):
    return clave.Session(clave.export(module.eval(), args, **kw), device=device)


def check(module, args_list, device, **kw):
    """Runs module and session on each argument tuple; outputs must agree every time."""
    s = session(module, args_list[0], device, **kw)
    for args in args_list:
        want = module(*args)
        want = want if isinstance(want, tuple) else (want,)
        got = s.run(*args)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(torch.from_numpy(g), w)


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.full((3,), 5.0))

    def forward(self, x):
        self.n.add_(x)
        return self.n * 2


def test_state_persists_and_resets(device):
    m = Counter()
    s = session(m, (torch.ones(3),), device)
    for step in (1, 2, 3):
        assert s.run(torch.ones(3))[0].tolist() == [2.0 * (5 + step)] * 3
    s.reset()
    assert s.run(torch.ones(3))[0].tolist() == [12.0] * 3


def test_export_leaves_the_module_alone(device):
    m = Counter()
    session(m, (torch.ones(3),), device)
    assert m.n.tolist() == [5.0] * 3


class Swap(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        a = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(a + x)
        return self.a + 0, self.b + 0


def test_states_swap(device):
    s = session(Swap(), (torch.ones(4),), device)
    m = Swap()
    for _ in range(5):
        want = m(torch.ones(4))
        got = s.run(torch.ones(4))
        assert [g.tolist() for g in got] == [w.tolist() for w in want]


class Cache(torch.nn.Module):
    """Writes into a cache in place, and may read the old value afterwards."""

    def __init__(self, read_old):
        super().__init__()
        self.read_old = read_old
        self.register_buffer("k", torch.zeros(2, 8, 3))

    def forward(self, x, pos):
        old = self.k.clone() if self.read_old else None
        self.k.index_copy_(1, pos, x)
        total = self.k.sum(1)
        return (total, old.sum(1)) if self.read_old else (total,)


@pytest.mark.parametrize("read_old", [False, True])
def test_cache_updates_in_place(device, read_old):
    args = [(torch.randn(2, 1, 3), torch.tensor([p])) for p in (0, 1, 2, 7, 7)]
    s = session(Cache(read_old), args[0], device)
    m = Cache(read_old)
    for a in args:
        for g, w in zip(s.run(*a), m(*a), strict=True):
            torch.testing.assert_close(torch.from_numpy(g), w)


def test_a_bad_index_names_node_value_and_range(device):
    s = session(Cache(False), (torch.randn(2, 1, 3), torch.tensor([0])), device)
    with pytest.raises(clave.Error, match=r"index 8 out of range \[0, 7\].*index_copy"):
        s.run(torch.randn(2, 1, 3), torch.tensor([8]))
    s.reset()
    assert s.run(torch.ones(2, 1, 3), torch.tensor([3]))[0].tolist() == [[1.0] * 3] * 2


X = torch.arange(15.0).reshape(5, 3)
INDEXED = {  # by index: (a call, its smallest and largest index, the instruction at fault)
    "embedding": (lambda i: F.embedding(i, X), 0, 4, "index_select, embedding"),
    "embedding_max_norm": (lambda i: F.embedding(i, X.clone(), max_norm=1.0), 0, 4, "index_select, embedding_renorm"),
    "embedding_bag": (lambda i: F.embedding_bag(i[None], X), 0, 4, "embedding_bag, embedding_bag.*"),
    "index_select": (lambda i: X.index_select(1, i), 0, 2, "index_select, index_select"),
    "gather": (lambda i: X.gather(0, i[:, None]), 0, 4, "gather, gather"),
    "take": (lambda i: X.take(i), -15, 14, "index, take"),
    "index": (lambda i: X[:, i], -3, 2, "index, index"),
    "two_indices": (lambda i: X[i, i * 0], -5, 4, "index, index"),
    "index_put": (lambda i: X.index_put((i,), X[:4]), -5, 4, "scatter, index_put"),
    "index_put_two": (lambda i: X.index_put((i, i * 0), X[:4, 0]), -5, 4, "ravel_index, index_put"),
    "scatter": (lambda i: X.scatter(0, i[:, None], X), 0, 4, "scatter, scatter"),
    "scatter_reduce": (lambda i: X.scatter_reduce(0, i[:, None], X, "amax"), 0, 4, "scatter, scatter_reduce"),
    "index_add": (lambda i: X.index_add(0, i, X[:4]), 0, 4, "scatter, index_add"),
    "put": (lambda i: X.put(i, X[:4, 0]), -15, 14, "scatter, put"),
}


class Indexed(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.call = INDEXED[name][0]

    def forward(self, i):
        return self.call(i)


@pytest.mark.parametrize("name", INDEXED)
def test_every_bad_index_names_node_value_and_range(device, name):
    _, low, high, at = INDEXED[name]
    good = torch.tensor([0, 2, 1, 0])
    s = session(Indexed(name), (good,), device)
    for bad in (high + 1, 2**40, low - 1, -(2**62)):
        with pytest.raises(clave.Error, match=rf"index {bad} out of range \[{low}, {high}\].*\({at}\)"):
            s.run(torch.tensor([0, bad, 1, 0]))
        torch.testing.assert_close(torch.from_numpy(s.run(good)[0]), Indexed(name)(good))


class Sizes(torch.nn.Module):
    def forward(self, x, y):
        z = torch.cat([x, y], 0)
        return z.transpose(0, 1).reshape(-1) * z.shape[0], x[1:].flip(0) * y.shape[0]


def test_twenty_sizes_twice(device):
    n, k = torch.export.Dim("n", min=4, max=100), torch.export.Dim("k", min=2, max=100)
    sizes = [(a, b) for a in (7, 4, 5, 64, 100) for b in (5, 2, 33, 99)]
    args = [(torch.randn(a, 6), torch.randn(b, 6)) for a, b in sizes]
    check(Sizes(), args + args, device, dynamic_shapes=({0: n}, {0: k}))


def test_a_size_that_contradicts_another_is_refused(device):
    n = torch.export.Dim("n", min=2, max=100)

    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    s = session(Add(), (torch.randn(4, 2), torch.randn(4, 2)), device, dynamic_shapes=({0: n}, {0: n}))
    with pytest.raises(clave.Error, match=r"5.*4|4.*5"):
        s.run(torch.randn(4, 2), torch.randn(5, 2))


class Item(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return (x * 2)[:k] + 1, x.sum() * k


def test_a_value_read_back_decides_sizes(device):
    x = torch.randn(9, 4)
    check(Item(), [(x, torch.tensor(k)) for k in (3, 9, 1, 3, 0)], device)


class Views(torch.nn.Module):
    def forward(self, x):
        a, b = x.split([2, 3], dim=1)
        c = a.transpose(0, 1).unsqueeze(0).expand(3, 2, 4)
        d = c.permute(2, 0, 1).reshape(4, 6)
        return c, d, b[::2, 1:].flip(1), x, x.t().contiguous().view(-1)


def test_views_and_outputs(device):
    check(Views(), [(torch.randn(4, 5),), (torch.randn(4, 5),)], device)


class Empty(torch.nn.Module):
    def forward(self, x):
        return x[:0] * 2, x[:0].sum(0), torch.cat([x[:0], x])


def test_empty_tensors(device):
    check(Empty(), [(torch.randn(3, 4),)], device)


class Long(torch.nn.Module):
    """More steps than one fused node may have, with a value used twice in the middle."""

    def forward(self, x):
        y = x
        for i in range(100):
            y = (y + i) * 0.5
        z = y.sin()
        return z + z * y


def test_long_elementwise_chains(device):
    check(Long(), [(torch.randn(5, 7),)], device)


def test_two_sessions_share_a_program(device):
    p = clave.export(Counter().eval(), (torch.ones(3),))
    a, b = clave.Session(p, device=device), clave.Session(p, device=device)
    assert a.run(torch.ones(3))[0][0] == 12 and a.run(torch.ones(3))[0][0] == 14
    assert b.run(torch.ones(3))[0][0] == 12


class Endless(torch.nn.Module):
    """A loop that never ends, with a step in its body or without."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, go, x):
        body = (lambda go, x: (go.clone(), x + 1)) if self.step else (lambda go, x: (go.clone(), x.clone()))
        return torch._higher_order_ops.while_loop(lambda go, x: go.clone(), body, (go, x))[1]


@pytest.mark.parametrize("step", [True, False])
def test_a_run_can_be_cancelled(device, step):
    asked = 0

    @ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
    def cancel(_):
        nonlocal asked
        asked += 1
        return asked > 100

    args = (torch.tensor(True), torch.zeros(3))
    s = session(Endless(step), args, device, verify=False)  # the module never ends either
    options = L.SessionOptions(size=ctypes.sizeof(L.SessionOptions), cancel=ctypes.cast(cancel, ctypes.c_void_p))
    owners = (s.program.handle, s.device.handle)
    pointers = [o.pointer for o in owners]
    s._handle = L.Handle(
        "clave_session_create", "clave_session_destroy", *pointers, ctypes.byref(options), keep=(*owners, cancel)
    )
    with pytest.raises(clave.Cancelled, match="cancelled"):
        s.run(*args)
    assert asked == 101
