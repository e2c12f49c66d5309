/* Padding: kernels_cl/pad.cl. */
#include <string.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

/* The bits of `v` in the dtype, as the kernel's integer of the same size. */
static int64_t value_bits(double v, dtype t) {
  float f = (float)v;
  int32_t f_bits;
  int64_t d_bits;
  memcpy(&f_bits, &f, sizeof f);
  memcpy(&d_bits, &v, sizeof v);
  switch (t) {
    case DTYPE_F32:
      return f_bits;
    case DTYPE_F16:
      return f32_to_f16(f);
    case DTYPE_BF16:
      return f32_to_bf16(f);
    case DTYPE_F64:
      return d_bits;
    case DTYPE_BOOL:
      return v != 0;
    default:
      return (int64_t)v;
  }
}

clave_status opencl_pad(cl_recorder *s, const node *n) {
  const ir_pad *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  int rank = x->t.rank, chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  if (rank == 0) return move_elements(s, n, x, out);
  int64_t before[8] = {0};
  for (int i = 0; i < rank; i++) before[i] = int_of(n, &op->before.items[rank - 1 - i]);
  int64_t row = out->t.dims[rank - 1],
          items = row ? tensor_numel(&out->t) / row * ceil_div(row, chunk) : 0;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(x->t.type));
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "MODE", (int)op->mode);
  launch_args(&l, &(pad_args){.x = buffer_arg(x),
                              .out = buffer_arg(out),
                              .dims = dims_arg(&out->t),
                              .before = index8_arg(before),
                              .sizes = dims_arg(&x->t),
                              .strides = strides_arg(&x->t),
                              .n_dims = rank,
                              .items = items,
                              .value = value_bits(op->value, x->t.type)});
  return launch_loops(&l, items, 1, min_i64(row, chunk));
}
