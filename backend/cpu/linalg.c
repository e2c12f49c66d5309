/* Linalg, TriangularSolve, PivotOrder. */
#include "ops/linalg.h"

#include "backend/cpu/kernels/linalg/linalg.h"
#include "cpu_ops.h"

static const klinalg_kind kinds[] = {
    [IR_LINALG_KIND_LU] = KLINALG_LU,   [IR_LINALG_KIND_CHOLESKY] = KLINALG_CHOLESKY,
    [IR_LINALG_KIND_QR] = KLINALG_QR,   [IR_LINALG_KIND_EIGH] = KLINALG_EIGH,
    [IR_LINALG_KIND_SVD] = KLINALG_SVD, [IR_LINALG_KIND_EXP] = KLINALG_EXP,
};

clave_status cpu_linalg(cpu_recorder *r, const node *n) {
  linalg_form f;
  describe_linalg(n, &f);
  if (f.batches == 0) return NULL;
  return cpu_launch(r, linalg,
                    &(linalg_args){.kind = kinds[f.kind],
                                   .upper = f.upper,
                                   .x = cpu_operand(r, f.x),
                                   .out = cpu_operand(r, f.out),
                                   .b = cpu_operand(r, f.b),
                                   .c = cpu_operand(r, f.c),
                                   .info = cpu_operand(r, f.info),
                                   .batches = f.batches,
                                   .m = f.m,
                                   .n = f.n});
}

clave_status cpu_triangular_solve(cpu_recorder *r, const node *n) {
  triangular_solve_form f;
  describe_triangular_solve(n, &f);
  if (f.batches == 0) return NULL;
  return cpu_launch(r, triangular_solve,
                    &(triangular_solve_args){.a = cpu_operand(r, f.a),
                                             .b = cpu_operand(r, f.b),
                                             .out = cpu_operand(r, f.out),
                                             .batches = f.batches,
                                             .m = f.m,
                                             .n = f.n,
                                             .upper = f.upper,
                                             .unit = f.unit});
}

clave_status cpu_pivot_order(cpu_recorder *r, const node *n) {
  pivot_order_form f;
  describe_pivot_order(n, &f);
  return cpu_launch(r, pivot_order,
                    &(pivot_order_args){.pivots = cpu_operand(r, f.pivots),
                                        .out = cpu_operand(r, f.out),
                                        .batches = f.batches,
                                        .k = f.k,
                                        .m = f.m});
}
