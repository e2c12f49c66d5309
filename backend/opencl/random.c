/* Random tensors: kernels_cl/random.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

clave_status opencl_random(cl_recorder *s, const node *n) {
  const ir_random *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  bool is_int = op->kind == IR_RANDOM_KIND_INTEGER;
  int64_t size = tensor_numel(&out->t), per_block = is_int || out->t.type == DTYPE_F64 ? 2 : 4;
  int64_t low = is_int ? int_of(n, &op->low) : 0, high = is_int ? int_of(n, &op->high) : 0;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "OUT_TYPE", out->t.type);
  launch_compute(&l, out->t.type);
  launch_define(&l, "KIND", (int)op->kind);
  launch_args(&l, &(random_args){.out = buffer_arg(out),
                                 .n = size,
                                 .stream = op->stream,
                                 .low = low,
                                 .range = (int64_t)((uint64_t)high - (uint64_t)low)});
  return launch_loops(&l, ceil_div(size, per_block), 1, 32);
}
