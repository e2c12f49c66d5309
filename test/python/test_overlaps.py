"""Inputs and outputs that share memory: the module's own result, or an error by name with nothing changed."""

import ctypes
import itertools
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

import clave
from clave import _library as L
from clave import _tensors

DEVICES = ("cpu", "opencl")
BIND_OUTPUT = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)


class Reads(nn.Module):
    def forward(self, x, y):
        return x * 2 + y


class ChangesX(nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        return x + y


class ChangesY(nn.Module):
    def forward(self, x, y):
        y.add_(x)
        return x - y


class ChangesBoth(nn.Module):
    def forward(self, x, y):
        x.add_(1)
        y.mul_(3)
        return x * y


MODULES = {Reads: (), ChangesX: ("x",), ChangesY: ("y",), ChangesBoth: ("x", "y")}

# name: two views of 4 elements over one tensor of 16
PAIRS = {
    "apart": lambda t: (t[:4], t[4:8]),
    "next to each other, backwards": lambda t: (t[4:8], t[:4]),
    "one view twice": lambda t: (t[2:6],) * 2,
    "one place": lambda t: (t[2:6], t[2:6]),
    "slices, one byte range ahead": lambda t: (t[:4], t[3:7]),
    "slices, one byte range behind": lambda t: (t[3:7], t[:4]),
    "every other": lambda t: (t[:8:2], t[1:8:2]),
    "every other and a slice": lambda t: (t[:8:2], t[4:8]),
    "every other and what lies between": lambda t: (t[:16:4], t[1:16:4]),
    "broadcast, in the other": lambda t: (t[:4], t[1:2].expand(4)),
    "broadcast, apart": lambda t: (t[:4], t[8:9].expand(4)),
    "broadcast first": lambda t: (t[8:9].expand(4), t[:4]),
    "of a window": lambda t: (t.as_strided((4,), (3,), 0), t.as_strided((4,), (3,), 1)),
}


def addresses(x):
    return [x.data_ptr() + i * x.stride(0) * 4 + b for i in range(4) for b in range(4)]


def must_refuse(x, y, changed):
    own = {"x": addresses(x), "y": addresses(y)}
    shared = changed and set(own["x"]) & set(own["y"])
    return bool(shared) or any(len(set(own[name])) < 16 for name in changed)


@pytest.fixture(scope="module")
def sessions():
    one = torch.ones(4)
    programs = {m: clave.export(m(), (one, one.clone())) for m in MODULES}
    return {(m, d): clave.Session(p, d) for m, p in programs.items() for d in DEVICES}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ("torch", "numpy", "run"))
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_inputs_that_share_memory(sessions, module, pair, kind, device):
    session, mine, theirs = sessions[module, device], torch.arange(16.0), torch.arange(16.0)
    x, y = PAIRS[pair](theirs)
    given = (x, y) if kind == "torch" else (x.numpy(), y.numpy())
    call = session.run if kind == "run" else session
    if must_refuse(x, y, MODULES[module]):
        with pytest.raises(clave.Error, match="is changed in place: expected"):
            call(*given)
        assert torch.equal(theirs, torch.arange(16.0))
        return
    want = module()(*PAIRS[pair](mine))
    got = call(*given)
    assert torch.equal(torch.as_tensor(got[0] if kind == "run" else got), want)
    assert torch.equal(theirs, torch.arange(16.0) if kind == "run" else mine)


@pytest.mark.parametrize("pick", (lambda a: (a[:4][::-1], a[4:8]), lambda a: (a[4:8], a[:4][::-1])))
def test_reversed_arrays_that_are_apart(sessions, pick):
    mine, theirs = np.arange(16, dtype=np.float32), np.arange(16, dtype=np.float32)
    x, y = pick(mine)
    want = (x * 2) + y
    x *= 2
    assert np.array_equal(sessions[ChangesX, "cpu"](*pick(theirs)).numpy(), want)
    assert np.array_equal(theirs, mine)
    with pytest.raises(clave.Error, match="input 'x' is changed in place: expected memory of its own"):
        sessions[ChangesX, "cpu"](theirs[:4], theirs[:4][::-1])


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.broadcast_to(np.float32(1), (4,)), "the array is read-only"),
        ([1.0, 2.0, 3.0, 4.0], "expected a torch tensor or a numpy array, got list"),
        (1.0, "expected a torch tensor or a numpy array, got float"),
    ],
    ids=("broadcast", "list", "number"),
)
def test_inputs_that_cannot_be_changed_are_refused_before_the_run(sessions, x, said):
    with pytest.raises(clave.Error, match=f"input 'x' is changed in place.*{said}"):
        sessions[ChangesX, "cpu"](x, torch.ones(4))


def test_state_is_left_alone_by_what_is_refused():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n.add_(1)
            x.add_(self.n)
            return self.n * 1

    session = clave.Session(clave.export(Counts().eval(), (torch.ones(4),)), "cpu")
    locked = np.ones(4, np.float32)
    locked.flags.writeable = False
    with torch.inference_mode():
        of_inference = torch.ones(4)
    for x in (locked, of_inference):
        with pytest.raises(clave.Error, match="changed in place"):
            session(x)
    assert session(torch.ones(4)).item() == 1


# ---------------------------------------------------------------- memory of other owners


@pytest.mark.parametrize("device", DEVICES)
def test_views_into_results_of_earlier_runs(sessions, device):
    """The caller owns a result: later runs may read it, or change it in place, but write nothing else over it."""
    mine = theirs = None
    for module in (Reads, ChangesX, ChangesY, ChangesBoth, Reads):
        for pair in (PAIRS["next to each other, backwards"], PAIRS["apart"]) if mine is not None else (None,):
            x, y = pair(mine) if pair else (torch.arange(4.0), torch.ones(4))
            want = module()(x, y)
            x, y = pair(theirs) if pair else (torch.arange(4.0), torch.ones(4))
            got = sessions[module, device](x, y)
            assert torch.equal(got, want)
            assert mine is None or torch.equal(theirs, mine)
        mine, theirs = torch.cat([want, want + 1]), torch.cat([got, got + 1])
    kept = sessions[Reads, device](theirs[:4], theirs[4:])
    before = kept.clone()
    again = sessions[Reads, device](kept, kept.flip(0))
    assert torch.equal(kept, before)
    assert torch.equal(again, before * 2 + before.flip(0))


class Owns(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0), requires_grad=False)
        self.register_buffer("n", torch.ones(4))

    def forward(self, x, y):
        self.n.add_(x)
        y.mul_(2)
        return self.weight * x + self.n, self.n * y


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", ("weight", "n"))
@pytest.mark.parametrize("second", ("weight", "n"))
def test_the_modules_own_tensors_as_inputs(first, second, device):
    """A session has its own weights and state: a module's tensors are inputs like any others."""
    net = Owns().eval()
    other = Owns().eval()
    session = clave.Session(clave.export(net, (torch.ones(4), torch.ones(4)), verify=False), device)
    x, y = getattr(net, first), getattr(net, second)
    if first == second:
        with pytest.raises(clave.Error, match="is changed in place: expected memory of its own"):
            session(x, y)
        return
    for _ in range(3):
        mine = x.clone(), y.clone()
        want = other(*mine)
        got = session(x, y)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
        assert torch.equal(x, mine[0])
        assert torch.equal(y, mine[1])


def flip(x, begun, over, values):
    a = x.numpy()
    begun.set()
    while not over.is_set():
        for at in range(0, len(a), 97):
            for value in values:
                a[at] = value


class Doubles(nn.Module):
    def forward(self, x):
        return x * 2


class Picks(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.arange(64000.0).reshape(1000, 64))

    def forward(self, i):
        zeros = torch.zeros(1000)
        return self.rows[i], self.rows.index_select(0, i), zeros.scatter(0, i, 1.0), zeros.index_add(0, i, i * 0.5)


@pytest.mark.by_turn(9)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("module", "x", "values"),
    [(Doubles, torch.ones(1 << 16), (2.0, 1.0)), (Picks, torch.zeros(5000, dtype=torch.int64), (10**12, -(10**12), 0))],
    ids=("values", "indices"),
)
def test_memory_that_another_process_writes_during_runs(module, x, values, device):
    """Results are of values that were present, or an error names an index; nothing else is read."""
    session = clave.Session(clave.export(module().eval(), (x.clone(),)), device)
    x = x.clone().share_memory_()
    context = torch.multiprocessing.get_context("fork" if device == "cpu" else "spawn")
    begun, over = context.Event(), context.Event()
    writer = context.Process(target=flip, args=(x, begun, over, values), daemon=True)
    writer.start()
    try:
        assert begun.wait(120)
        for _ in range(40):
            try:
                got = session.run(x)
            except clave.Error as e:
                assert module is Picks and "out of range" in str(e), e
            else:
                assert module is Picks or set(np.unique(got[0])) <= {2.0, 4.0}
    finally:
        over.set()
        writer.join(60)
    x.fill_(1)
    want = module()(x)
    got = session.run(x)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(got, [want] if module is Doubles else want, strict=True))


# ---------------------------------------------------------------- the C library


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y, x - y


class Swap(nn.Module):
    """Results that are inputs, unchanged."""

    def forward(self, x, y):
        return y, x


class Mixed(nn.Module):
    def forward(self, x, y):
        return y * 2, x.reshape(2, -1)


class Loop(nn.Module):
    """A size depends on data: the run is planned in two parts."""

    def forward(self, x, y):
        return torch.nonzero(y > 3).float().sum() + x, x


def bind(session, memory, at, n, index, output):
    library = L.library()
    address = memory.ctypes.data + at * 4
    if output:
        library.clave_session_bind_output.restype = ctypes.c_void_p
        library.clave_session_bind_output.argtypes = BIND_OUTPUT
        L.call("clave_session_bind_output", session._handle.pointer, b"forward", index, address, n * 4)
        return
    view, _ = _tensors.of_numpy(memory[at : at + n])
    L.call("clave_session_bind_input", session._handle.pointer, b"forward", index, ctypes.byref(view))


def aligned(n):
    raw = np.empty(n + 1024, np.float32)
    start = -raw.ctypes.data % 4096 // 4
    return raw[start : start + n]


N = {"copied": 256, "in place": 32768}
# The places of x, y and the two results, in quarters of their size.
PLACES = [p for p in itertools.product((0, 4), (4, 8, 5), (0, 1, 4, 12), (4, 5, 8, 16)) if abs(p[2] - p[3]) >= 4]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", N)
@pytest.mark.parametrize("module", (Sum, Swap, Mixed, Loop), ids=lambda m: m.__name__)
def test_results_over_inputs(module, size, device):
    """A bound result equals an unbound one, wherever the inputs are."""
    n = N[size]
    one = torch.ones(n)
    session = clave.Session(clave.export(module().eval(), (one, one.clone())), device)
    for x, y, first, second in PLACES:
        memory = aligned(n * 5)
        memory[:] = np.arange(n * 5, dtype=np.float32) % 1000
        at = [k * n // 4 for k in (x, y, first, second)]
        want = module()(*(torch.tensor(memory[k : k + n]) for k in at[:2]))
        for index in (0, 1):
            bind(session, memory, at[index], n, index, False)
            bind(session, memory, 0, n, index, True)
            L.call("clave_session_bind_output", session._handle.pointer, b"forward", index, None, 0)
        for index in (0, 1):
            bind(session, memory, at[2 + index], n, index, True)
        L.call("clave_session_run", session._handle.pointer, b"forward")
        for w, k in zip(want, at[2:], strict=True):
            assert np.array_equal(memory[k : k + n], w.numpy().ravel()), (x, y, first, second)


def test_results_over_results_and_constants_are_refused():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(16))

        def forward(self, x, y):
            return x * self.w, y

    net = Weighted().eval()
    session = clave.Session(clave.export(net, (torch.ones(16), torch.ones(16))), "cpu")
    memory = aligned(64)
    bind(session, memory, 0, 16, 0, True)
    with pytest.raises(clave.Error, match=r"outputs 0 .* and 1 .* overlap"):
        bind(session, memory, 15, 16, 1, True)
    found = L.Tensor()
    L.call("clave_program_constant", session.program.handle.pointer, 0, ctypes.byref(found))
    kept = np.ctypeslib.as_array(ctypes.cast(found.data, ctypes.POINTER(ctypes.c_float)), (16,))
    with pytest.raises(clave.Error, match="expected separate memory, got the memory of constant 'w'"):
        bind(session, kept, 8, 16, 0, True)


def last_result(session, index):
    found = L.Tensor()
    L.call("clave_session_output", session._handle.pointer, b"forward", index, ctypes.byref(found))
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_inputs_of_the_next_run(device):
    """Results are read in place, in memory that the run replaces when they grow."""

    class Grows(nn.Module):
        def forward(self, x, y):
            return torch.cat([x, y]) + 1, x * 2

    n = torch.export.Dim("n", min=2, max=1 << 20)
    one = torch.ones(8)
    program = clave.export(Grows().eval(), (one, torch.ones(4096)), dynamic_shapes=({0: n}, None))
    session = clave.Session(program, device)
    x, y = torch.arange(20000.0), torch.arange(4096.0)
    bind(session, x.numpy(), 0, len(x), 0, False)
    bind(session, y.numpy(), 0, len(y), 1, False)
    for _ in range(12):
        L.call("clave_session_run", session._handle.pointer, b"forward")
        x = torch.cat([x, y]) + 1
        found = last_result(session, 0)
        assert np.array_equal(_tensors.to_numpy(found), x.numpy())
        L.call("clave_session_bind_input", session._handle.pointer, b"forward", 0, ctypes.byref(found))


def test_functions_of_a_compiled_library(tmp_path, build):
    one = torch.ones(16)
    clave.export(Mixed().eval(), (one, one.clone())).save(tmp_path / "m.clv")
    command = [build / "clave", "compile", tmp_path / "m.clv", "-o", tmp_path / "libm.so", "--shared", "--threads", "0"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(tmp_path / "libm.so")
    library.m_create.restype, library.m_error.restype = ctypes.c_void_p, ctypes.c_char_p
    library.m_error.argtypes, library.m_run.argtypes = (ctypes.c_void_p,), (ctypes.c_void_p,) * 5
    model = library.m_create(1)
    for x, y, first, second in ((0, 16, 0, 16), (0, 16, 16, 0), (0, 8, 4, 20), (0, 0, 8, 24), (0, 16, 32, 40)):
        memory = np.arange(64, dtype=np.float32)
        want = Mixed()(*(torch.tensor(memory[k : k + 16]) for k in (x, y)))
        status = library.m_run(model, *(memory.ctypes.data + 4 * k for k in (x, y, first, second)))
        if abs(first - second) < 16:
            assert status and b"outputs: expected separate memory" in library.m_error(model)
            continue
        assert not status
        for w, k in zip(want, (first, second), strict=True):
            assert np.array_equal(memory[k : k + 16], w.numpy().ravel())
