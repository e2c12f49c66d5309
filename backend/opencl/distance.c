/* Distances between rows: kernels_cl/distance.cl. */
#include <math.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { KIND_INFINITE = 3, KIND_ANY = 4 };

static int kind_of(double p) {
  if (p == 0 || p == 1 || p == 2) return (int)p;
  return isinf(p) ? KIND_INFINITE : KIND_ANY;
}

clave_status opencl_distance(cl_stream *s, const node *n) {
  const ir_distance *op = n->instruction->op;
  const bound_tensor *a = &n->tensors[op->a], *b = &n->tensors[op->b], *out = &n->tensors[op->out];
  int rank = a->t.rank, kind = kind_of(op->p);
  int64_t items = tensor_numel(&out->t), m = a->t.dims[rank - 1];
  launch l;
  launch_begin(&l, s, n, "distance", "distance_rows");
  launch_dtype(&l, "TYPE", a->t.type);
  launch_compute(&l, a->t.type);
  launch_define(&l, "KIND", kind);
  launch_buffer(&l, a);
  launch_buffer(&l, b);
  launch_buffer(&l, out);
  launch_int(&l, items);
  launch_int(&l, a->t.dims[rank - 2]);
  launch_int(&l, b->t.dims[rank - 2]);
  launch_int(&l, m);
  launch_float(&l, kind == KIND_ANY ? op->p : 0);
  return launch_loops(&l, items, 1, 2 * m + 8);
}
