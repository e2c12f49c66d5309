/* The arguments that GEMM implementations share, and the one for any operands. matmul.c chooses. */
#include "backend/opencl/gemm.h"

void gemm_begin(launch *l, const gemm *g, const char *stem, const char *kernel) {
  launch_begin(l, g->s, g->node, stem, kernel);
  launch_dtype(l, "A_TYPE", g->a->t.type);
  launch_dtype(l, "B_TYPE", g->b->t.type);
  launch_dtype(l, "OUT_TYPE", g->out->t.type);
  launch_dtype(l, "BIAS_TYPE", g->bias ? g->bias->t.type : g->out->t.type);
  launch_define(l, "HAS_BIAS", g->bias != NULL);
  launch_compute(l, g->out->t.type);
}

void gemm_push_operands(launch *l, const gemm *g) {
  launch_buffer(l, g->a);
  launch_strides(l, &g->batch_a);
  launch_int(l, g->a_m);
  launch_int(l, g->a_k);
  launch_buffer(l, g->b);
  launch_strides(l, &g->batch_b);
  launch_int(l, g->b_k);
  launch_int(l, g->b_n);
  if (g->bias)
    launch_buffer(l, g->bias);
  else
    launch_absent(l);
  launch_strides(l, &g->batch_bias);
  launch_int(l, g->bias_m);
  launch_int(l, g->bias_n);
  launch_buffer(l, g->out);
  launch_dims(l, &g->batch_a);
  launch_int(l, g->m);
  launch_int(l, g->n);
  launch_int(l, g->k);
  launch_float(l, g->alpha);
  launch_float(l, g->beta);
}

clave_status gemm_tile(const gemm *g) {
  enum { BLOCK = 4, SIDE = 8 };
  launch l;
  gemm_begin(&l, g, "matmul", "matmul");
  gemm_push_operands(&l, g);
  size_t global[3] = {(size_t)((g->n + BLOCK - 1) / BLOCK), (size_t)((g->m + BLOCK - 1) / BLOCK),
                      (size_t)g->batches};
  size_t side = recorder_traits(g->s)->is_cpu ? 1 : SIDE, local[3] = {side, side, 1};
  return launch_run(&l, 3, global, local);
}
