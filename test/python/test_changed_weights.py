"""Weights that change after the export: results are those of the exported weights, or an error by name, never a mix."""

import gc

import numpy as np
import pytest
import torch
from torch import nn

import clave

WIDE = 96  # weights with more elements than a check of samples reads


class Net(nn.Module):
    """A packed weight, a weight read in place, a tied one, a buffer, and a weight over numpy's memory."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.embedding = nn.Embedding(WIDE, WIDE)
        self.first = nn.Linear(WIDE, WIDE)
        self.norm = nn.LayerNorm(WIDE)
        self.last = nn.Linear(WIDE, WIDE, bias=False)
        for p in self.parameters():
            p.data.copy_(torch.randn(p.shape, generator=generator))
        self.last.weight = self.embedding.weight
        self.array = np.linspace(0, 1, WIDE, dtype=np.float32)
        self.backed = nn.Parameter(torch.from_numpy(self.array))
        self.register_buffer("shift", torch.linspace(1, 2, WIDE))

    def forward(self, ids):
        return self.last(self.norm(self.first(self.embedding(ids))) * self.backed) + self.shift


def step(net):
    net(IDS).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()


def load(net):
    net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})


def write_one(net):
    net.first.weight.detach().numpy()[WIDE // 2, 5] += 1


def swap_rows(net):
    w = net.first.weight.detach().numpy()
    w[[1, 2]] = w[[2, 1]]


def replace_data(net):
    for p in net.parameters():
        p.data = p.data * 2


def replace_parameter(net):
    net.first.weight = nn.Parameter(net.first.weight * 2)
    net.shift = net.shift * 2


# name: (a change of the module, True if it writes to the exported memory)
CHANGES = {
    "an optimizer's step": (step, True),
    "load_state_dict": (load, True),
    "in place": (lambda net: [p.detach().mul_(2) for p in net.parameters()], True),
    "by .data": (lambda net: net.first.weight.data.mul_(2), True),
    "one element by .data": (lambda net: net.first.weight.data[3, 7].add_(1), True),
    "one element by numpy": (write_one, True),
    "rows that change places": (swap_rows, True),
    "a tied weight": (lambda net: net.last.weight.data.mul_(2), True),
    "a bias": (lambda net: net.first.bias.data.mul_(2), True),
    "a norm": (lambda net: net.norm.weight.data.add_(1), True),
    "a buffer": (lambda net: net.shift.add_(1), True),
    "numpy's memory": (lambda net: net.array.__imul__(2), True),
    "other data": (replace_data, False),
    "other parameters": (replace_parameter, False),
}
IDS = torch.arange(8)


def exported(**options):
    net = Net().eval()
    with torch.no_grad():
        return net, clave.export(net, (IDS,), **options), net(IDS).clone()


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CHANGES)
def test_changes_before_a_session_or_a_file(name, tmp_path):
    change, writes = CHANGES[name]
    net, program, want = exported()
    change(net)
    if writes:
        for use in (
            lambda: clave.Session(program, "cpu"),
            lambda: program.save(tmp_path / "m.clv"),
            lambda: clave.Device("cpu").pack(program),
        ):
            with pytest.raises(clave.Error, match=r"was changed after clave\.export took it"):
                use()
        assert not list(tmp_path.iterdir())
        return
    program.save(tmp_path / "m.clv")
    for p in (program, tmp_path / "m.clv"):
        close(clave.Session(p, "cpu")(IDS), want)


@pytest.mark.parametrize("device", ("cpu", pytest.param("opencl", marks=pytest.mark.by_turn(20))))
@pytest.mark.parametrize("when", ("before the first run", "between runs", "packed ahead"))
@pytest.mark.parametrize("name", CHANGES)
def test_changes_under_a_session(name, when, device, tmp_path):
    """The session has its own weights, and so have all later sessions of the program and its files."""
    net, program, want = exported()
    if when == "packed ahead":
        clave.Device(device).pack(program)
    session = clave.Session(program, device) if when != "packed ahead" else None
    if when == "between runs":
        close(session(IDS), want)
    CHANGES[name][0](net)
    session = session or clave.Session(program, device)
    close(session(IDS), want)
    close(session(IDS), want)
    close(clave.Session(program, device, fused=False)(IDS), want)
    program.save(tmp_path / "m.clv")
    close(clave.Session(tmp_path / "m.clv", device)(IDS), want)


def test_a_module_that_is_gone():
    net, program, want = exported()
    session = clave.Session(program, "cpu")
    del net
    gc.collect()
    close(session(IDS), want)


def test_methods_that_share_weights():
    net = Net().eval()
    with torch.no_grad():
        want = net(IDS).clone()
    program = clave.export({"one": (net, (IDS,)), "other": (net, (IDS,))})
    session = clave.Session(program, "cpu")
    close(session(IDS, method="one"), want)
    load(net)
    close(session(IDS, method="other"), want)


def test_programs_of_programs():
    """A program made from another has its own weights, too, whichever of them had a session first."""
    net, program, want = exported(passes=())
    made = program.optimized()
    first = clave.Session(made, "cpu")
    load(net)
    close(first(IDS), want)
    with pytest.raises(clave.Error, match=r"was changed after clave\.export took it"):
        clave.Session(program, "cpu")
    net, program, want = exported(passes=())
    first = clave.Session(program, "cpu")
    load(net)
    close(first(IDS), want)
    close(clave.Session(program.optimized(), "cpu")(IDS), want)


def test_quantised_weights():
    net, program, _ = exported(quantize="int8")
    want = clave.Session(clave.export(Net().eval(), (IDS,), quantize="int8"), "cpu")(IDS)
    session = clave.Session(program, "cpu")
    load(net)
    assert torch.equal(session(IDS), want)


def test_large_programs_are_looked_at_in_places(monkeypatch):
    """Samples are spread over each weight, so that a change of most of it is detected."""
    from clave import constants

    monkeypatch.setattr(constants, "WHOLE_BYTES", 1000)
    net, program, _ = exported()
    net.first.weight.data.mul_(2)
    with pytest.raises(clave.Error, match=r"'first.weight' was changed"):
        clave.Session(program, "cpu")


def test_weights_moved_into_shared_memory():
    """torch moves the module's tensor to other memory, whose address the program does not have."""
    net, x = torch.nn.Linear(64, 64).eval(), torch.randn(2, 64)
    program = clave.export(net, (x,))
    net.share_memory()
    with pytest.raises(clave.Error, match=r"was changed after clave\.export took it"):
        clave.Session(program, device="cpu")
    other = clave.export(net, (x,))
    torch.testing.assert_close(clave.Session(other, device="cpu")(x), net(x))
