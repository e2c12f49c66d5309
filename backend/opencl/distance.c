/* Distances between rows: kernels_cl/distance.cl. */
#include "ops/distance.h"

#include <math.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { KIND_INFINITE = 4, KIND_ANY = 5, CPU_ROWS = 4, CPU_WIDTH = 16 };

static int kind_of(double p) {
  if (p == 0 || p == 1 || p == 2 || p == 3) return (int)p;
  return isinf(p) ? KIND_INFINITE : KIND_ANY;
}

clave_status opencl_distance(cl_recorder *s, const node *n) {
  distance_form f;
  describe_distance(n, &f);
  if (f.n_out == 0) return NULL;
  int kind = kind_of(f.p);
  bool vector = recorder_traits(s)->is_cpu && kind != KIND_ANY; /* PoCL: pow of double16 is wrong */
  int rows = vector ? CPU_ROWS : 1;
  int64_t items = f.n_out / f.n_b * ceil_div(f.n_b, rows);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f.a->t.type);
  launch_compute(&l, f.a->t.type);
  launch_define(&l, "KIND", kind);
  launch_define(&l, "W", vector ? CPU_WIDTH : 1);
  launch_define(&l, "ROWS", rows);
  launch_args(&l, &(distance_rows_args){.a = buffer_arg(f.a),
                                        .b = buffer_arg(f.b),
                                        .out = buffer_arg(f.out),
                                        .items = items,
                                        .n_a = f.n_a,
                                        .n_b = f.n_b,
                                        .m = f.m,
                                        .p = kind == KIND_ANY ? f.p : 0});
  return launch_loops(&l, items, 1, (2 * f.m + 8) * rows);
}
