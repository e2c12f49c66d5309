"""Drivers that refuse kernels in a run that has changed its state, so that it cannot be repeated: the CPU backend
computes the refused ops, and state changes once in each run."""

import os
import subprocess
import sys

import pytest
import torch
from torch._higher_order_ops.map import map as mapped

import clave

WAYS = [  # a call by which a driver refuses kernels, and the self-check, which computes them in another way
    ("clBuildProgram", "off"),
    ("clCreateKernel", ""),
    ("clEnqueueNDRangeKernel", "off"),
    ("clEnqueueNDRangeKernel", ""),
]


class Counting(torch.nn.Module):
    """Changes its state, then reads a number, after which it needs a kernel that no earlier op needs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x):
        self.runs += 1
        n = (x > 0).sum().item()
        return self.runs + torch.zeros(n).cumsum(0).sum()


class Late(torch.nn.Module):
    """Changes its state, then a loop's body reads a number from the device."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x):
        self.runs += 1
        rows = mapped(lambda i: x.narrow(0, i.item(), 1).cumsum(0), (x * 0).long()[:3])
        return self.runs + (rows - 1).sum()


class Lookup(torch.nn.Module):
    """Counts its runs, then selects rows by indices, one of which does not exist."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, x):
        self.runs += 1
        return self.runs + self.table(x.long() * 17).sum()


RUNS = """
import sys, clave, numpy
session, seen = clave.Session(sys.argv[1], device="opencl"), []
for _ in range(3):
    try:
        seen.append(float(session.run(numpy.ones(5, "float32"))[0][0]))
    except clave.Error as e:
        seen.append(str(e))
print(seen)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for model in (Counting, Late, Lookup):
        clave.export(model(), (torch.zeros(5),), verify=False).save(str(folder / f"{model.__name__.lower()}.clv"))
    return folder


def run_thrice(program, env):
    env = os.environ | {"CLAVE_CACHE_DIR": "off"} | env
    p = subprocess.run([sys.executable, "-c", RUNS, program], capture_output=True, text=True, env=env, timeout=300)
    assert p.returncode == 0, p.stderr
    return eval(p.stdout)


@pytest.mark.parametrize(("call", "check"), WAYS)
@pytest.mark.parametrize("name", ["counting", "late"])
def test_state_changes_once(programs, stub, name, call, check):
    """A kernel of the last segment, or of a late body, is refused, or all kernels."""
    for text in ("", "cumulate"):
        refused = {"CLAVE_STUB_FAIL_NAME": call, "CLAVE_STUB_FAIL_TEXT": text, "CLAVE_STUB_LOST_AT": "0"}
        seen = run_thrice(programs / f"{name}.clv", stub | refused | {"CLAVE_SELF_CHECK": check})
        assert seen == [1, 2, 3], (text, seen)


def test_every_program_may_be_the_first_that_is_refused(programs, stub):
    for first in (1, 2, 3, 5):  # in both segments
        refused = {"CLAVE_STUB_FAIL_NAME": "clBuildProgram", "CLAVE_STUB_LOST_AT": str(first)}
        assert run_thrice(programs / "counting.clv", stub | refused) == [1, 2, 3], first


@pytest.mark.parametrize(("call", "check"), WAYS)
def test_indices_of_refused_ops(programs, stub, call, check):
    """The CPU backend reports an index out of range in place of the kernel."""
    refused = {"CLAVE_STUB_FAIL_NAME": call, "CLAVE_STUB_LOST_AT": "0", "CLAVE_SELF_CHECK": check}
    for error in run_thrice(programs / "lookup.clv", stub | refused):
        assert str(error).startswith("index 17 out of range"), error
