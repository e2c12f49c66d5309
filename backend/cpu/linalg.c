/* Records Linalg, TriangularSolve, PivotOrder. */
#include "ops/linalg.h"

#include "backend/cpu/kernels/linalg/linalg.h"
#include "cpu_ops.h"

static const klinalg_kind kinds[] = {
    [IR_LINALG_KIND_LU] = KLINALG_LU,   [IR_LINALG_KIND_CHOLESKY] = KLINALG_CHOLESKY,
    [IR_LINALG_KIND_QR] = KLINALG_QR,   [IR_LINALG_KIND_EIGH] = KLINALG_EIGH,
    [IR_LINALG_KIND_SVD] = KLINALG_SVD, [IR_LINALG_KIND_EXP] = KLINALG_EXP,
};

clave_status cpu_linalg(cpu_recorder *recorder, const node *node) {
  linalg_desc desc;
  describe_linalg(node, &desc);
  if (desc.batches == 0) return NULL;
  return cpu_launch(recorder, linalg,
                    &(linalg_args){.kind = kinds[desc.kind],
                                   .upper = desc.upper,
                                   .x = cpu_operand(recorder, desc.x),
                                   .out = cpu_operand(recorder, desc.out),
                                   .b = cpu_operand(recorder, desc.b),
                                   .c = cpu_operand(recorder, desc.c),
                                   .info = cpu_operand(recorder, desc.info),
                                   .batches = desc.batches,
                                   .m = desc.m,
                                   .n = desc.n});
}

clave_status cpu_triangular_solve(cpu_recorder *recorder, const node *node) {
  triangular_solve_desc desc;
  describe_triangular_solve(node, &desc);
  if (desc.batches == 0) return NULL;
  return cpu_launch(recorder, triangular_solve,
                    &(triangular_solve_args){.a = cpu_operand(recorder, desc.a),
                                             .b = cpu_operand(recorder, desc.b),
                                             .out = cpu_operand(recorder, desc.out),
                                             .batches = desc.batches,
                                             .m = desc.m,
                                             .n = desc.n,
                                             .upper = desc.upper,
                                             .unit = desc.unit});
}

clave_status cpu_pivot_order(cpu_recorder *recorder, const node *node) {
  pivot_order_desc desc;
  describe_pivot_order(node, &desc);
  return cpu_launch(recorder, pivot_order,
                    &(pivot_order_args){.pivots = cpu_operand(recorder, desc.pivots),
                                        .out = cpu_operand(recorder, desc.out),
                                        .batches = desc.batches,
                                        .k = desc.k,
                                        .m = desc.m});
}
