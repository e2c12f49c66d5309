/* Sums in several splits, which kernels_cl/gemm/splits.cl adds. */
#include "backend/opencl/ops/splits.h"

#include "backend/opencl/ops/families.h"

enum { MAX_BYTES = 64 << 20 };

/* parameters: number of splits. */
static bool accepts_splits(const void *most, const kernel_variant *variant) {
  return variant->parameters[0] <= *(const int64_t *)most;
}

static const kernel_variant splits_variants[] = {{.name = "rule"},
                                                 {"1", accepts_splits, .parameters = {1}},
                                                 {"2", accepts_splits, .parameters = {2}},
                                                 {"4", accepts_splits, .parameters = {4}},
                                                 {"8", accepts_splits, .parameters = {8}},
                                                 {"16", accepts_splits, .parameters = {16}},
                                                 {"32", accepts_splits, .parameters = {32}}};

int64_t choose_splits(cl_recorder *recorder, const char *family, const tuning_key *key,
                      int64_t work_groups, int64_t work, int64_t most, int64_t elements) {
  enum { MOST = 32 };
  const int64_t wanted = (int64_t)recorder_traits(recorder)->compute_units * work;
  most = min_i64(min_i64(most, MOST), MAX_BYTES / max_i64(elements, 1) / (int64_t)sizeof(double));
  most = max_i64(most, 1);
  const variants all = {.family = family,
                        .rows = splits_variants,
                        .n = sizeof splits_variants / sizeof *splits_variants,
                        .problem = &most};
  const int64_t n = recorder_choose(recorder, &all, key)->parameters[0];
  return n ? n : min_i64(max_i64(wanted / max_i64(work_groups, 1), 1), most);
}

clave_status begin_splits(cl_recorder *recorder, int64_t n_splits, int64_t elements,
                          dtype compute) {
  const size_t size = compute == DTYPE_F64 ? sizeof(double) : sizeof(float);
  return recorder_scratch(recorder, (size_t)(n_splits * elements) * size);
}

clave_status add_splits(cl_recorder *recorder, const node *node, const matmul_desc *desc,
                        int64_t n_splits) {
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "OUT_TYPE", desc->out->tensor.type);
  launch_dtype(&launch, "BIAS_TYPE", desc->bias ? desc->bias->tensor.type : desc->out->tensor.type);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_compute(&launch, desc->out->tensor.type);
  launch_args(&launch, &(add_splits_args){.splits = scratch_arg(0),
                                          .bias = optional_arg(desc->bias),
                                          .bias_batch = strides_arg(&desc->batch_bias),
                                          .bias_m = desc->bias_m,
                                          .bias_n = desc->bias_n,
                                          .out = buffer_arg(desc->out),
                                          .batch_dims = dims_arg(&desc->batch_a),
                                          .items = desc->batches * desc->m * desc->n,
                                          .m_size = desc->m,
                                          .n_size = desc->n,
                                          .n_splits = n_splits,
                                          .alpha = desc->alpha,
                                          .beta = desc->beta});
  launch_epilogue(&launch);
  return launch_items(&launch, desc->batches * desc->m * desc->n);
}
