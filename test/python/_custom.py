"""Shared parts of the tests of custom ops: an op with a right kernel, and programs with it."""

import torch
from _export import Fn

import clave

COUNT = {"n": lambda out: out.numel()}


def custom_op(name, function, fake=None, schema="(Tensor x) -> Tensor"):
    """Registers a torch op in this process."""
    made = torch.library.custom_op(name, function, mutates_args=(), schema=schema)
    made.register_fake(fake or function)
    return made


def wave(x: torch.Tensor, a: float) -> torch.Tensor:
    return torch.tanh(x) * a


WAVE = custom_op(
    "check::wave",
    wave,
    lambda x, a: torch.empty_like(x, memory_format=torch.contiguous_format),
    "(Tensor x, float a) -> Tensor",
)
WAVE_SOURCE = """
/* kernel void is what follows */
float squash(float v) { return tanh(v); }

__kernel void wave(global const float *x, float a, global float *restrict out, long n) {
  const long i = get_global_id(0);
  if (i < n) out[i] = squash(x[i]) * a;
}
"""


def elementwise(source, **more):
    return clave.Kernel(source, grid=lambda out: out.numel(), values=COUNT, **more)


def register_wave(source=WAVE_SOURCE, **more):
    clave.register_op(WAVE, elementwise(source, **more))


def wave_program(**more):
    b = torch.export.Dim("b", max=64)
    module = Fn(lambda x: WAVE(x + 1, 2.0) * 3)
    return clave.export(module, (torch.randn(3, 4),), dynamic_shapes={"args": ({0: b},)}, **more)


def expected_wave(x):
    return torch.tanh(x + 1) * 2 * 3


def session(program, **more):
    return clave.Session(program, "opencl", allow_custom_kernels=True, **more)


def where(s):
    """Returns where the custom ops of a session's first method run, and why."""
    return [(p.where, p.reason) for p in s.placement() if p.op == "custom"]
