"""A steady run: the same session with the same sizes again. Such a run allocates, creates and packs nothing. Its thread
waits for the device once, after all work is enqueued."""

import json
import os
import subprocess

import pytest
import safetensors.torch
import torch
from test_faults import Net, binary

import clave

RUNS = 5
MADE = ("Buffer", "SubBuffer", "Kernel", "ProgramWithSource", "ProgramWithBinary", "CommandQueue", "UserEvent")
NEVER = [f"clCreate{what}" for what in MADE]
NEVER += ["clBuildProgram", "clEnqueueCopyBuffer", "clEnqueueMapBuffer", "clWaitForEvents"]
LOOP = "recurrent"  # in which each step sets the arguments that change


class Ordered(torch.nn.Module):
    def forward(self, x):
        return x.sort(-1)[0] + x.topk(3).values.sum(), torch.nn.functional.pad(x.cumsum(1), (1, 1))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.LSTM(6, 8, 2, batch_first=True)

    def forward(self, x):
        return self.layers(x)[0]


# name: (module, inputs, export options, True if the first run on OpenCL packs weights)
PROGRAMS = {
    "a little of everything": (Net, lambda: (torch.randn(1, 3, 8, 8), torch.arange(8)), {}, True),
    "winograd": (lambda: torch.nn.Conv2d(64, 64, 3, padding=1), lambda: (torch.randn(1, 64, 12, 12),), {}, False),
    "codes": (lambda: torch.nn.Linear(64, 64), lambda: (torch.randn(3, 64),), {"quantize": "int4:32"}, True),
    "recurrent": (Recurrent, lambda: (torch.randn(2, 5, 6),), {}, True),
    "ordered": (Ordered, lambda: (torch.randn(4, 33),), {}, False),
}


@pytest.fixture(scope="module", params=[pytest.param(n, marks=pytest.mark.by_turn(4)) for n in PROGRAMS])
def program(request, tmp_path_factory):
    """Returns (name, program, data file, number of inputs, number of outputs, True if weights are packed)."""
    torch.manual_seed(3)
    make, inputs, more, packs = PROGRAMS[request.param]
    folder, module, x = tmp_path_factory.mktemp("steady"), make().eval().requires_grad_(False), inputs()
    clave.export(module, x, **more).save(folder / "p.clv")
    safetensors.torch.save_file({f"in.A.{i}": t for i, t in enumerate(x)}, folder / "data.safetensors")
    result = module(*x)
    outputs = len(result) if type(result) is tuple else 1
    return request.param, folder / "p.clv", folder / "data.safetensors", len(x), outputs, packs


def measure(build, program, device, env):
    runner = binary(build, "run_steady", sanitized=False)
    command = [runner, *program[1:3], device, str(RUNS)]
    p = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(p.stdout)


def test_on_the_cpu_backend(build, program):
    """There are no new pages and no waits: the system never puts the single thread to sleep."""
    found = measure(build, program, "cpu", {})
    assert {k: found[k] for k in ("allocations", "faults", "waits")} == {"allocations": 0, "faults": 0, "waits": 0}


@pytest.mark.parametrize("device_class", ["cpu", pytest.param("gpu", marks=pytest.mark.by_turn(8))])
def test_on_opencl(build, stub, program, device_class):
    """An input is one write, an output one read, and one more read reports an index out of range."""
    name, _, _, inputs, outputs, packs = program
    found = measure(build, program, "opencl", stub | {"CLAVE_DEVICE_CLASS": device_class})
    assert found["allocations"] == 0
    assert {f: found[f] for f in NEVER} == dict.fromkeys(NEVER, 0)
    assert (found["clSetKernelArg"] == 0) == (name != LOOP)
    assert found["clFinish"] == 1
    assert found["clEnqueueWriteBuffer"] <= inputs and found["clEnqueueReadBuffer"] <= outputs + 1
    launches, first = found["clEnqueueNDRangeKernel"], found["first clEnqueueNDRangeKernel"]
    assert 0 < launches < first if packs and device_class == "cpu" else 0 < launches <= first
