"""Changes by a module: buffers and parameters become state, which methods may share."""

import copy

import numpy as np
import pytest
import torch
from _export import Counter, instructions, same
from torch import nn

import clave


def test_mutated_buffers_are_state():
    for start, n_inits in ((0, 0), (5, 1)):
        program = clave.export(Counter(start).eval(), (torch.ones(3),))
        assert program.schema.n_state == 1 and len(program.schema.state_inits) == n_inits
        session = clave.Session(program, "cpu")
        for _ in range(2):
            got = [session.run(np.full(3, x, np.float32))[0][0] for x in (1, 2)]
            assert got == [(start + 1) * 2, (start + 3) * 2]
            session.reset()


class Picks(nn.Module):
    """Adds x[i] to its sum: an index out of range is bad data in a run that changes state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.ones(4))

    def forward(self, x, i):
        self.sum.add_(x[i].sum(0))
        return self.sum * 1, x[i]


@pytest.mark.parametrize("device", ("cpu", "opencl"))
def test_state_after_a_run_that_failed(device):
    """An error before the run leaves the state unchanged. After bad data the state is undefined until a reset, and the
    session stays usable."""
    if device == "opencl" and not any(d["kind"] == "opencl" for d in clave.devices()):
        pytest.skip("no OpenCL device")
    module, x, right = Picks(), torch.rand(3, 4), torch.tensor([2, 0])
    session = clave.Session(clave.export(copy.deepcopy(module), (x, right)), device)
    same(session(x, right), module(x, right))
    with pytest.raises(clave.Error, match="input 0"):
        session.run(x[:, :2], right)
    with pytest.raises(clave.Error, match="F32"):
        session.run(x.long(), right)
    same(session(x, right), module(x, right))
    for _ in range(2):
        with pytest.raises(clave.Error, match="index 7"):
            session.run(x, torch.tensor([1, 7]))
        session.reset()
        fresh = Picks()
        for _ in range(2):
            same(session(x, right), fresh(x, right))


def test_a_changed_parameter_is_state():
    module = nn.Sequential(nn.Embedding(9, 4, max_norm=1.0), nn.Linear(4, 2)).eval()
    rows = [torch.tensor([2, 5, 2]), torch.tensor([8, 5, 0]), torch.tensor([2, 5, 2])]
    session = clave.Session(clave.export(copy.deepcopy(module), (rows[0],)), "cpu")
    for i in rows:
        torch.testing.assert_close(torch.from_numpy(session.run(i)[0]), module(i).detach())


def test_state_starts_as_at_export_whatever_the_module_does_then():
    module = Counter(5).eval()
    session = clave.Session(clave.export(module, (torch.ones(3),)), "cpu")
    module(torch.ones(3))
    session.reset()
    assert session.run(torch.ones(3))[0][0] == 12


class Cache(nn.Module):
    """A cache written in every way that torch functionalises to another op."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x, i):
        self.cache[1] = x[0]
        self.cache[2:4] = x
        self.cache[:, 1:2] += 1
        self.cache[::3] = x
        self.cache.index_copy_(0, i, x)
        self.cache[i, 2] = x[:, 0]
        self.cache[-1] = 7
        self.cache[:, 3].copy_(x[0, 0])
        return self.cache.sum(0), self.cache


def test_partial_updates_of_state():
    module = Cache().eval()
    args = [(torch.randn(2, 4), torch.tensor(i)) for i in ([0, 5], [3, 4], [5, 1])]
    session = clave.Session(clave.export(module, args[0]), "cpu")
    module.cache.zero_()
    for x, i in args:
        same(session(x, i), module(x, i))


def test_a_slice_of_state_is_updated_in_place_not_scattered():
    class Write(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 8, 4))

        def forward(self, x):
            self.cache[:, 2:4] = x
            return self.cache.sum()

    program = clave.export(Write().eval(), (torch.randn(2, 2, 4),))
    (update,) = instructions(program, "SliceUpdate")
    state = program.schema.methods[0].updates[0]
    assert update.op.x == state.state and update.op.out == state.value
    assert (update.op.axis, update.op.start.literal) == (1, 2)


class Store(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.register_buffer("memory", torch.zeros(n))
        self.weight = nn.Parameter(torch.arange(1.0, n + 1))


class Put(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.store = store

    def forward(self, x):
        self.store.memory.copy_(x * self.store.weight)
        return x


class Scaled(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.store = store

    def forward(self, x, k):
        return x * k + x * 2 + self.store.memory.sum().to(x.dtype)


class Get(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.kept = store

    def forward(self, scale):
        return self.kept.memory * self.kept.weight * scale


SCALE = torch.tensor(2.0)


def put_and_get(program, x):
    """Returns the values read before and after a write."""
    session = clave.Session(program, "cpu")
    before = session.run(SCALE, method="get")[0]
    session.run(x, method="put")
    return before.tolist(), session.run(SCALE, method="get")[0].tolist()


@pytest.mark.parametrize("graphs", [False, True])
def test_methods_share_the_tensors_of_a_module(graphs):
    """The name in each method does not matter; this holds also for graphs that torch.export made of the same module."""
    store, x = Store(), torch.tensor([3.0, 4.0, 5.0])
    methods = {"put": (Put(store).eval(), (x,)), "get": (Get(store).eval(), (SCALE,))}
    if graphs:
        methods = {name: torch.export.export(*entry) for name, entry in methods.items()}
    program = clave.export(methods)
    assert program.schema.n_state == 1 and len(program.schema.constants) == 1
    assert put_and_get(program, x) == ([0, 0, 0], [6, 32, 90])


def test_methods_alike_are_captured_once(monkeypatch):
    """Methods agree in module, kinds of inputs, numbers and dynamic sizes; names and values of examples may differ."""
    calls, real = [], clave.trace.capture
    monkeypatch.setattr(clave.trace, "capture", lambda *a: calls.append(a[1]) or real(*a))
    store, batch = Store(), torch.export.Dim("batch", max=8)
    m, other = Scaled(store).eval(), Scaled(store).eval()
    x, open_batch = torch.ones(2, 3), ({0: batch}, None)
    methods = {
        "a": (m, (x, 2.0)),
        "b": (m, (x * 5, 2.0)),
        "three": (m, (x, 3.0)),
        "other": (other, (x, 2.0)),
        "half": (m, (x.half(), 2.0)),
        "open": (m, (x, 2.0), None, open_batch),
        "open2": (m, (x + 1, 2.0), {}, open_batch),
    }
    program = clave.export(methods, input_names={"b": ["y"]}, verify=True)
    assert len(calls) == 5
    session = clave.Session(program, "cpu")
    assert session(y=x, method="b").tolist() == (x * 4).tolist()
    assert session(torch.ones(5, 3), method="open2").tolist() == (torch.ones(5, 3) * 4).tolist()
    assert session(x, method="three").tolist() == (x * 5).tolist()


@pytest.mark.parametrize("n", [3, 4])
def test_two_modules_have_two_states(n):
    """The states have one name and one shape, or two; equal constants are still stored once."""
    x = torch.tensor([3.0, 4.0, 5.0])
    methods = {"put": (Put(Store()).eval(), (x,)), "get": (Put(Store(n)).eval(), (torch.ones(n),))}
    program = clave.export(methods)
    assert program.schema.n_state == 2 and len(program.schema.constants) == (1 if n == 3 else 2)
    names = [t.name for t in program.schema.tensors if t.name.startswith("store.memory")]
    assert names == ["store.memory", "store.memory.2"]
    counters = {name: (Counter(0).eval(), (torch.ones(3),)) for name in "ab"}
    session = clave.Session(clave.export(counters), "cpu")
    for name, module in zip("aab", (counters["a"][0], counters["a"][0], counters["b"][0]), strict=True):
        same(session(torch.ones(3), method=name), module(torch.ones(3)))


def test_state_that_only_has_a_name_in_common_is_refused_of_graphs():
    graphs = {name: torch.export.export(Counter(0).eval(), (torch.ones(3),)) for name in "ab"}
    with pytest.raises(clave.Error, match=r"'total' is not one tensor in methods 'a', 'b'.*pass the modules"):
        clave.export(graphs)


def test_state_that_overlaps_other_memory_is_refused():
    store, part = Store(), Store()
    part.memory = store.memory[1:].view(2)
    part.weight = nn.Parameter(torch.ones(2))
    methods = {"put": (Put(store).eval(), (torch.ones(3),)), "get": (Get(part).eval(), (SCALE,))}
    with pytest.raises(clave.Error, match=r"'kept.memory' and 'store.memory' share memory .* is changed"):
        clave.export(methods)
