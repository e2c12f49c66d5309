"""Custom ops: their kernels on OpenCL devices, their references on the CPU backend."""

import torch

import clave
from describe import F16, F32, Case, T, name_of, ulps


def _register(name, schema, function, fake, *kernels):
    op = torch.library.custom_op(f"cases::{name}", function, mutates_args=(), schema=schema)
    op.register_fake(fake)
    clave.register_op(op, *kernels)
    return op


_SWISH = """
#ifdef HALF
#define LOAD(i) vload_half(i, x)
#define STORE(v, i) vstore_half(v, i, out)
#else
#define LOAD(i) x[i]
#define STORE(v, i) out[i] = v
#endif
kernel void swish(global const x_type *x, float beta, global out_type *out, long n) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const float v = LOAD(i);
  STORE(v / (1.0f + exp(-beta * v)), i);
}
"""
_ROWS = """
kernel void rows(global const float *x, int columns, int shift, global float *total, global int *count,
                 local float *partial) {
  const int row = get_group_id(0), lane = get_local_id(0), lanes = get_local_size(0);
  float sum = 0.0f;
  for (int i = lane; i < columns; i += lanes) sum += x[(long)row * columns + i];
  partial[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = lanes / 2; step > 0; step /= 2) {
    if (lane < step) partial[lane] += partial[lane + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) total[row] = partial[0];
  if (lane == 0) count[row] = columns + shift;
}
"""


def _swish(name, half):
    size = lambda out: out.numel()
    return _register(
        name,
        "(Tensor x, float beta) -> Tensor",
        lambda x, beta: x * torch.sigmoid(beta * x),
        lambda x, beta: x.new_empty(x.shape),
        clave.Kernel(("#define HALF\n" if half else "") + _SWISH, grid=size, values={"n": size}),
    )


def cases():
    swish = {F32: _swish("swish", False), F16: _swish("swish_half", True)}
    rows = _register(
        "rows",
        "(Tensor x, int shift) -> (Tensor total, Tensor count)",
        lambda x, shift: (x.sum(1), torch.full((x.shape[0],), x.shape[1] + shift, dtype=torch.int32)),
        lambda x, shift: (x.new_empty(x.shape[0]), x.new_empty(x.shape[0], dtype=torch.int32)),
        clave.Kernel(
            _ROWS,
            grid=lambda x: x.shape[0] * 16,
            local=16,
            values={"columns": lambda x: x.shape[1]},
            local_memory={"partial": 16},
        ),
    )
    for dtype, op in swish.items():
        yield Case(
            f"swish_{name_of(dtype)}", lambda x, op=op: op(x, 1.5), [T((5, 7), dtype)], rtol=ulps(dtype, 32), steps=3
        )
    yield Case("strided", lambda x: swish[F32](x.t()[1:, ::2], -0.5), [T((6, 5))], rtol=ulps(F32, 32))
    yield Case("empty", lambda x: swish[F32](x, 1.0), [T((0, 3))])

    def of_rows(x):
        total, count = rows(x * 2, 3)
        return total.sort()[0], total.view(3, 3).mT.contiguous(), count.cumsum(0), count + 1

    yield Case("rows", of_rows, [T((9, 37))], rtol=ulps(F32, 16), atol=1e-5)
