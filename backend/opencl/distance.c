/* Distances between rows: kernels_cl/distance.cl. */
#include <math.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { KIND_INFINITE = 4, KIND_ANY = 5, CPU_ROWS = 4, CPU_WIDTH = 16 };

static int kind_of(double p) {
  if (p == 0 || p == 1 || p == 2 || p == 3) return (int)p;
  return isinf(p) ? KIND_INFINITE : KIND_ANY;
}

clave_status opencl_distance(cl_recorder *s, const node *n) {
  const ir_distance *op = n->instruction->op;
  const bound_tensor *a = &n->tensors[op->a], *b = &n->tensors[op->b], *out = &n->tensors[op->out];
  int rank = a->t.rank, kind = kind_of(op->p);
  bool vector = recorder_traits(s)->is_cpu && kind != KIND_ANY; /* PoCL: pow of double16 is wrong */
  int rows = vector ? CPU_ROWS : 1;
  int64_t m = a->t.dims[rank - 1], n_b = b->t.dims[rank - 2];
  if (tensor_numel(&out->t) == 0) return NULL;
  int64_t items = tensor_numel(&out->t) / n_b * ceil_div(n_b, rows);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", a->t.type);
  launch_compute(&l, a->t.type);
  launch_define(&l, "KIND", kind);
  launch_define(&l, "W", vector ? CPU_WIDTH : 1);
  launch_define(&l, "ROWS", rows);
  launch_args(&l, &(distance_rows_args){.a = buffer_arg(a),
                                        .b = buffer_arg(b),
                                        .out = buffer_arg(out),
                                        .items = items,
                                        .n_a = a->t.dims[rank - 2],
                                        .n_b = n_b,
                                        .m = m,
                                        .p = kind == KIND_ANY ? op->p : 0});
  return launch_loops(&l, items, 1, (2 * m + 8) * rows);
}
