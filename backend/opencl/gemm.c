/* The arguments that GEMM implementations share, and the one for any operands. matmul.c chooses. */
#include "backend/opencl/gemm.h"

void gemm_begin(launch *l, const gemm *g) {
  launch_begin(l, g->s, g->node);
  launch_dtype(l, "A_TYPE", g->a->t.type);
  launch_dtype(l, "B_TYPE", g->b->t.type);
  launch_dtype(l, "OUT_TYPE", g->out->t.type);
  launch_dtype(l, "BIAS_TYPE", g->bias ? g->bias->t.type : g->out->t.type);
  launch_define(l, "HAS_BIAS", g->bias != NULL);
  launch_compute(l, g->out->t.type);
}

gemm_params gemm_operands(const gemm *g) {
  return (gemm_params){.a = buffer_arg(g->a),
                       .a_batch = strides_arg(&g->batch_a),
                       .a_m = g->a_m,
                       .a_k = g->a_k,
                       .b = buffer_arg(g->b),
                       .b_batch = strides_arg(&g->batch_b),
                       .b_k = g->b_k,
                       .b_n = g->b_n,
                       .bias = optional_arg(g->bias),
                       .bias_batch = strides_arg(&g->batch_bias),
                       .bias_m = g->bias_m,
                       .bias_n = g->bias_n,
                       .out = buffer_arg(g->out),
                       .batch_dims = dims_arg(&g->batch_a),
                       .m_size = g->m,
                       .n_size = g->n,
                       .k_size = g->k,
                       .alpha = g->alpha,
                       .beta = g->beta};
}

clave_status gemm_tile(const gemm *g) {
  enum { BLOCK = 4, SIDE = 8 };
  launch l;
  gemm_begin(&l, g);
  launch_args(&l, &(matmul_args){.gemm = gemm_operands(g)});
  size_t global[3] = {(size_t)((g->n + BLOCK - 1) / BLOCK), (size_t)((g->m + BLOCK - 1) / BLOCK),
                      (size_t)g->batches};
  size_t side = recorder_traits(g->s)->is_cpu ? 1 : SIDE, local[3] = {side, side, 1};
  return launch_run(&l, 3, global, local);
}
