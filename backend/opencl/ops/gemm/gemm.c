/* The arguments that all GEMM implementations share, and the implementation that supports all
 * operands. matmul.c chooses the implementation. */
#include "backend/opencl/ops/gemm/gemm.h"

void gemm_begin_a(launch *launch, const gemm *gemm) {
  launch_begin(launch, gemm->recorder, gemm->node);
  launch_dtype(launch, "A_TYPE", gemm->desc.a->tensor.type);
  launch_dtype(launch, "OUT_TYPE", gemm->desc.out->tensor.type);
  launch_dtype(launch, "BIAS_TYPE",
               gemm->desc.bias ? gemm->desc.bias->tensor.type : gemm->desc.out->tensor.type);
  launch_define(launch, "HAS_BIAS", gemm->desc.bias != NULL);
  launch_define(launch, "GROUPED", gemm->grouped);
  launch_compute(launch, gemm->desc.out->tensor.type);
}

void gemm_begin(launch *launch, const gemm *gemm) {
  gemm_begin_a(launch, gemm);
  if (gemm_is_encoded(gemm))
    launch_encoding(launch, &gemm->desc.b->tensor.encoding);
  else
    launch_dtype(launch, "B_TYPE", gemm->desc.b->tensor.type);
}

gemm_params gemm_operands(const gemm *gemm) {
  return (gemm_params){.a = gemm->halves ? scratch_arg(0) : buffer_arg(gemm->desc.a),
                       .a_batch = strides_arg(&gemm->desc.batch_a),
                       .a_m = gemm->desc.a_m,
                       .a_k = gemm->desc.a_k,
                       .bias = optional_arg(gemm->desc.bias),
                       .bias_batch = strides_arg(&gemm->desc.batch_bias),
                       .bias_m = gemm->desc.bias_m,
                       .bias_n = gemm->desc.bias_n,
                       .out = buffer_arg(gemm->desc.out),
                       .tiles = gemm->grouped ? scratch_arg(0) : absent_arg(),
                       .batch_dims = dims_arg(&gemm->desc.batch_a),
                       .m_size = gemm->desc.m,
                       .n_size = gemm->desc.n,
                       .k_size = gemm->desc.k,
                       .alpha = gemm->desc.alpha,
                       .beta = gemm->desc.beta};
}

dense_params gemm_dense_at(const gemm *gemm, arg_buffer buffer) {
  return (dense_params){.b = buffer,
                        .b_batch = strides_arg(&gemm->desc.batch_b),
                        .b_k = gemm->desc.b_k,
                        .b_n = gemm->desc.b_n};
}

dense_params gemm_dense(const gemm *gemm) { return gemm_dense_at(gemm, buffer_arg(gemm->desc.b)); }

enum { BLOCK = 4, SIDE = 8 };

int64_t gemm_tile_rows(const gemm *gemm) {
  return recorder_traits(gemm->recorder)->is_cpu ? BLOCK : BLOCK * SIDE;
}

clave_status gemm_tile(const void *product) {
  const gemm *gemm = product;
  launch launch;
  gemm_begin(&launch, gemm);
  launch_args(&launch, &(matmul_args){.gemm = gemm_operands(gemm), .dense = gemm_dense(gemm)});
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)((gemm->desc.n + BLOCK - 1) / BLOCK),
                      (size_t)((gemm->desc.m + BLOCK - 1) / BLOCK), (size_t)gemm->desc.batches};
  size_t side = recorder_traits(gemm->recorder)->is_cpu ? 1 : SIDE, local[3] = {side, side, 1};
  return launch_run(&launch, 3, global, local);
}

tuning_key gemm_key(const gemm *gemm) {
  const matmul_desc *desc = &gemm->desc;
  tuning_key key = recorder_key(gemm->recorder);
  tuning_key_text(&key, "a", dtype_name(desc->a->tensor.type));
  tuning_key_text(&key, "b", dtype_name(desc->b->tensor.type));
  tuning_key_text(&key, "out", dtype_name(desc->out->tensor.type));
  tuning_key_int(&key, "batches", desc->batches);
  tuning_key_int(&key, "m", desc->m);
  tuning_key_int(&key, "n", desc->n);
  tuning_key_int(&key, "k", desc->k);
  tuning_key_text(&key, "order",
                  desc->a_k == 1 ? (desc->b_k == 1 ? "rows-rows" : "rows-columns")
                                 : (desc->b_k == 1 ? "columns-rows" : "columns-columns"));
  tuning_key_int(&key, "constants",
                 (desc->a->is_constant ? 1 : 0) + (desc->b->is_constant ? 2 : 0));
  if (desc->bias) tuning_key_int(&key, "bias", 1);
  return key;
}
