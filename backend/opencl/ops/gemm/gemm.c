/* The arguments that GEMM implementations share, and the one for any operands. The choice is in
 * matmul.c. */
#include "backend/opencl/ops/gemm/gemm.h"

void gemm_begin_a(launch *l, const gemm *g) {
  launch_begin(l, g->s, g->node);
  launch_dtype(l, "A_TYPE", g->f.a->t.type);
  launch_dtype(l, "OUT_TYPE", g->f.out->t.type);
  launch_dtype(l, "BIAS_TYPE", g->f.bias ? g->f.bias->t.type : g->f.out->t.type);
  launch_define(l, "HAS_BIAS", g->f.bias != NULL);
  launch_define(l, "GROUPED", g->grouped);
  launch_compute(l, g->f.out->t.type);
}

void gemm_begin(launch *l, const gemm *g) {
  gemm_begin_a(l, g);
  if (gemm_is_encoded(g))
    launch_encoding(l, &g->f.b->t.encoding);
  else
    launch_dtype(l, "B_TYPE", g->f.b->t.type);
}

gemm_params gemm_operands(const gemm *g) {
  return (gemm_params){.a = buffer_arg(g->f.a),
                       .a_batch = strides_arg(&g->f.batch_a),
                       .a_m = g->f.a_m,
                       .a_k = g->f.a_k,
                       .bias = optional_arg(g->f.bias),
                       .bias_batch = strides_arg(&g->f.batch_bias),
                       .bias_m = g->f.bias_m,
                       .bias_n = g->f.bias_n,
                       .out = buffer_arg(g->f.out),
                       .tiles = g->grouped ? scratch_arg(0) : absent_arg(),
                       .batch_dims = dims_arg(&g->f.batch_a),
                       .m_size = g->f.m,
                       .n_size = g->f.n,
                       .k_size = g->f.k,
                       .alpha = g->f.alpha,
                       .beta = g->f.beta};
}

dense_params gemm_dense_at(const gemm *g, arg_buffer b) {
  return (dense_params){
      .b = b, .b_batch = strides_arg(&g->f.batch_b), .b_k = g->f.b_k, .b_n = g->f.b_n};
}

dense_params gemm_dense(const gemm *g) { return gemm_dense_at(g, buffer_arg(g->f.b)); }

enum { BLOCK = 4, SIDE = 8 };

int64_t gemm_tile_rows(const gemm *g) {
  return recorder_traits(g->s)->is_cpu ? BLOCK : BLOCK * SIDE;
}

clave_status gemm_tile(const void *product) {
  const gemm *g = product;
  launch l;
  gemm_begin(&l, g);
  launch_args(&l, &(matmul_args){.gemm = gemm_operands(g), .dense = gemm_dense(g)});
  launch_epilogue(&l);
  size_t global[3] = {(size_t)((g->f.n + BLOCK - 1) / BLOCK),
                      (size_t)((g->f.m + BLOCK - 1) / BLOCK), (size_t)g->f.batches};
  size_t side = recorder_traits(g->s)->is_cpu ? 1 : SIDE, local[3] = {side, side, 1};
  return launch_run(&l, 3, global, local);
}

tuning_key gemm_key(const gemm *g) {
  const matmul_form *f = &g->f;
  tuning_key k = recorder_key(g->s);
  tuning_key_text(&k, "a", dtype_name(f->a->t.type));
  tuning_key_text(&k, "b", dtype_name(f->b->t.type));
  tuning_key_text(&k, "out", dtype_name(f->out->t.type));
  tuning_key_int(&k, "batches", f->batches);
  tuning_key_int(&k, "m", f->m);
  tuning_key_int(&k, "n", f->n);
  tuning_key_int(&k, "k", f->k);
  tuning_key_text(&k, "order",
                  f->a_k == 1 ? (f->b_k == 1 ? "rows-rows" : "rows-columns")
                              : (f->b_k == 1 ? "columns-rows" : "columns-columns"));
  tuning_key_int(&k, "constants", (f->a->is_constant ? 1 : 0) + (f->b->is_constant ? 2 : 0));
  if (f->bias) tuning_key_int(&k, "bias", 1);
  return k;
}
