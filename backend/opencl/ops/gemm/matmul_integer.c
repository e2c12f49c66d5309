/* Integer products: kernels_cl/gemm/matmul_integer.cl. */
#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"
#include "ops/matmul.h"

enum { COLUMNS = 4 }; /* columns per work-item, as in kernels_cl/gemm/matmul_integer.cl */

clave_status opencl_matmul_integer(cl_recorder *recorder, const node *node) {
  integer_matmul_desc desc;
  launch launch;
  describe_matmul_integer(node, &desc);
  if (desc.m == 0 || desc.n == 0) return NULL;
  if (desc.n > INT32_MAX / 2 || desc.k > INT32_MAX / 2)
    return UNSUPPORTED("integer products with 2^30 columns or more");
  const bound_tensor sums = op_result(recorder, desc.out);
  const int64_t blocks = ceil_div(desc.n, COLUMNS), items = desc.m * blocks;
  launch_begin(&launch, recorder, node);
  launch_define(&launch, "SIGNED", desc.a->tensor.type == DTYPE_I8);
  launch_define(&launch, "HAS_BIAS", desc.bias != NULL);
  launch_args(&launch, &(matmul_integer_args){.a = buffer_arg(desc.a),
                                              .b = buffer_arg(desc.b),
                                              .bias = optional_arg(desc.bias),
                                              .out = buffer_arg(&sums),
                                              .items = items,
                                              .blocks = blocks,
                                              .n_size = desc.n,
                                              .k_size = desc.k});
  launch_epilogue_of_result(&launch);
  return launch_loops(&launch, items, 1, COLUMNS * desc.k);
}
