/* Products of matrices. */
#include "ops/matmul.h"

#include "backend/cpu/kernels/matmul.h"
#include "cpu_ops.h"

clave_status cpu_matmul(cpu_recorder *r, const node *n) {
  matmul_form f;
  describe_matmul(n, &f);
  return cpu_launch(r, matmul,
                    &(matmul_args){.a = cpu_operand(r, f.a).data,
                                   .b = cpu_operand(r, f.b).data,
                                   .bias = cpu_operand(r, f.bias).data,
                                   .out = cpu_operand(r, f.out).data,
                                   .type = f.out->t.type,
                                   .m = f.m,
                                   .n = f.n,
                                   .k = f.k,
                                   .batches = f.batches,
                                   .a_m = f.a_m,
                                   .a_k = f.a_k,
                                   .b_k = f.b_k,
                                   .b_n = f.b_n,
                                   .bias_m = f.bias_m,
                                   .bias_n = f.bias_n,
                                   .a_batch = cpu_layout(&f.batch_a),
                                   .b_batch = cpu_layout(&f.batch_b),
                                   .bias_batch = cpu_layout(&f.batch_bias),
                                   .alpha = f.alpha,
                                   .beta = f.beta});
}

clave_status cpu_grouped_matmul(cpu_recorder *r, const node *n) {
  grouped_matmul_form f;
  describe_grouped_matmul(n, &f);
  return cpu_launch(r, grouped_matmul,
                    &(grouped_matmul_args){.a = cpu_operand(r, f.a),
                                           .b = cpu_operand(r, f.b),
                                           .ends = cpu_operand(r, f.ends),
                                           .out = cpu_operand(r, f.out)});
}
