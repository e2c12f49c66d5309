/* Products of integers: kernels_cl/gemm/matmul_integer.cl. */
#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"
#include "ops/matmul.h"

enum { COLUMNS = 4 }; /* of a work-item, as in kernels_cl/gemm/matmul_integer.cl */

clave_status opencl_matmul_integer(cl_recorder *s, const node *n) {
  integer_matmul_form f;
  launch l;
  describe_matmul_integer(n, &f);
  if (f.m == 0 || f.n == 0) return NULL;
  if (f.n > INT32_MAX / 2 || f.k > INT32_MAX / 2)
    return UNSUPPORTED("products of integers of 2^30 columns or more");
  const bound_tensor sums = op_result(s, f.out);
  const int64_t blocks = ceil_div(f.n, COLUMNS), items = f.m * blocks;
  launch_begin(&l, s, n);
  launch_define(&l, "SIGNED", f.a->t.type == DTYPE_I8);
  launch_define(&l, "HAS_BIAS", f.bias != NULL);
  launch_args(&l, &(matmul_integer_args){.a = buffer_arg(f.a),
                                         .b = buffer_arg(f.b),
                                         .bias = optional_arg(f.bias),
                                         .out = buffer_arg(&sums),
                                         .items = items,
                                         .blocks = blocks,
                                         .n_size = f.n,
                                         .k_size = f.k});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, COLUMNS * f.k);
}
