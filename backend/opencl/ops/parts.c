/* Split sums; kernels_cl/gemm/parts.cl adds the parts. */
#include "backend/opencl/ops/parts.h"

#include "backend/opencl/ops/families.h"

enum { MOST_BYTES = 64 << 20 };

/* parameters: number of parts. */
static bool takes_parts(const void *most, const kernel_variant *variant) {
  return variant->parameters[0] <= *(const int64_t *)most;
}

static const kernel_variant parts_variants[] = {{.name = "rule"},
                                                {"1", takes_parts, .parameters = {1}},
                                                {"2", takes_parts, .parameters = {2}},
                                                {"4", takes_parts, .parameters = {4}},
                                                {"8", takes_parts, .parameters = {8}},
                                                {"16", takes_parts, .parameters = {16}},
                                                {"32", takes_parts, .parameters = {32}}};

int64_t choose_parts(cl_recorder *recorder, const char *family, const tuning_key *key,
                     int64_t groups, int64_t work, int64_t most, int64_t elements) {
  enum { MOST = 32 };
  const int64_t wanted = (int64_t)recorder_traits(recorder)->compute_units * work;
  most = min_i64(min_i64(most, MOST), MOST_BYTES / max_i64(elements, 1) / (int64_t)sizeof(double));
  most = max_i64(most, 1);
  const variants all = {.family = family,
                        .rows = parts_variants,
                        .n = sizeof parts_variants / sizeof *parts_variants,
                        .problem = &most};
  const int64_t n = recorder_choose(recorder, &all, key)->parameters[0];
  return n ? n : min_i64(max_i64(wanted / max_i64(groups, 1), 1), most);
}

clave_status begin_parts(cl_recorder *recorder, int64_t n_parts, int64_t elements, dtype compute) {
  const size_t size = compute == DTYPE_F64 ? sizeof(double) : sizeof(float);
  return recorder_scratch(recorder, (size_t)(n_parts * elements) * size);
}

clave_status add_parts(cl_recorder *recorder, const node *node, const matmul_desc *desc,
                       int64_t n_parts) {
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "OUT_TYPE", desc->out->tensor.type);
  launch_dtype(&launch, "BIAS_TYPE", desc->bias ? desc->bias->tensor.type : desc->out->tensor.type);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_compute(&launch, desc->out->tensor.type);
  launch_args(&launch, &(add_parts_args){.parts = scratch_arg(0),
                                         .bias = optional_arg(desc->bias),
                                         .bias_batch = strides_arg(&desc->batch_bias),
                                         .bias_m = desc->bias_m,
                                         .bias_n = desc->bias_n,
                                         .out = buffer_arg(desc->out),
                                         .batch_dims = dims_arg(&desc->batch_a),
                                         .items = desc->batches * desc->m * desc->n,
                                         .m_size = desc->m,
                                         .n_size = desc->n,
                                         .n_parts = n_parts,
                                         .alpha = desc->alpha,
                                         .beta = desc->beta});
  launch_epilogue(&launch);
  return launch_items(&launch, desc->batches * desc->m * desc->n);
}
