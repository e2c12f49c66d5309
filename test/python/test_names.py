"""Instructions and constants have the names of the modules from which they come, whatever passes do with them."""

import re
import subprocess

import pytest
import torch
from torch import nn

import clave


class Block(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.c1 = nn.Sequential(
            nn.Conv2d(channels, out, 3, padding=1),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )

    def forward(self, x):
        return torch.relu(self.c1(x)) * 2 + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.u1, self.u2 = Block(3, 8), Block(8, 8)
        self.head, self.norm = nn.Linear(8, 4), nn.LayerNorm(4)

    def forward(self, x):
        y = self.u2(self.u1(x)).mean((2, 3))
        return self.norm(self.head(y)), *y.topk(2)


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.table = nn.Embedding(11, 16)

    def forward(self, ids):
        return self.encoder(self.table(ids)) @ self.table.weight.T


class Recurs(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(4, 5, bidirectional=True), nn.Sequential(nn.Linear(10, 3), nn.Softmax(-1))

    def forward(self, x):
        return self.out(self.rnn(x)[0])


class Folds(nn.Module):
    """Constants that passes compute, and products that they join."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.register_buffer("mask", torch.ones(8))

    def forward(self, x):
        return self.q(x) + self.k(x) * (self.mask * 2 + 1) - self.v(x)


class Clash(nn.Module):
    """Modules whose paths equal the names of other calls."""

    def __init__(self):
        super().__init__()
        self.topk = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        self.add = nn.Sigmoid()

    def forward(self, x):
        values, at = x.topk(2)
        return self.topk[1](self.topk[0](values)) + self.add(values) + at


MODELS = {
    "net": (Net, lambda: torch.randn(2, 3, 8, 8)),
    "attention": (Attends, lambda: torch.tensor([[1, 5, 0]])),
    "recurrent": (Recurs, lambda: torch.randn(3, 2, 4)),
    "folded": (Folds, lambda: torch.randn(2, 8)),
    "clash": (Clash, lambda: torch.randn(2, 8)),
}


def exported(name):
    torch.manual_seed(0)
    make, example = MODELS[name]
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_var.uniform_(0.5, 2)
            part.running_mean.uniform_(-1, 1)
    return module, clave.export(module, (example(),))


@pytest.mark.parametrize("name", MODELS)
def test_names_begin_with_the_path_of_a_module(name):
    module, program = exported(name)
    paths = [path for path, _ in module.named_modules() if path]
    tensors = [n for n, _ in (*module.named_parameters(remove_duplicate=False), *module.named_buffers())]
    places = clave.Session(program, device="cpu").placement()
    nodes = {p.name for p in places if p.op not in ("none",)}
    outside = {n for n in nodes if not any(n == path or n.startswith(f"{path}.") for path in paths)}
    assert {n for n in outside if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", n)} == set()
    for n in (*nodes, *(c.name for c in program.schema.constants)):
        assert not n.startswith("_") and "native_" not in n, n
    for c in program.schema.constants:
        known = c.name.startswith((*paths, *tensors)) or c.name.removesuffix(".folded") in nodes
        assert known or re.fullmatch(r"(c_)?lifted_tensor_\d+", c.name), c.name


def test_a_folded_norm_has_its_own_path():
    names = {p.name for p in clave.Session(exported("net")[1], device="cpu").placement()}
    assert {"u1.c1.1", "u1.c1.4", "u2.c1.1", "u2.c1.4", "head", "norm", "topk"} <= names


def test_the_first_node_that_differs_has_its_path(build, tmp_path):
    """The names in a reference file also find the first node that differs."""
    import clave.reference

    module, program = exported("clash")
    example = (torch.linspace(-1, 1, 16).view(2, 8),)
    program.save(tmp_path / "m.clv")
    found = clave.reference.reference(module, example)
    assert {"node.topk", "node.topk.1"} <= set(found) and len({k for k in found if k.startswith("node.topk")}) >= 4
    clave.reference.write(tmp_path / "r.safetensors", found)
    command = [
        build / "clave",
        "verify",
        tmp_path / "m.clv",
        "--reference",
        tmp_path / "r.safetensors",
        "--device",
        "cpu",
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr + run.stdout
