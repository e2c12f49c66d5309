/* Records Pool and AdaptivePool. */
#include "ops/pool.h"

#include <string.h>

#include "backend/cpu/kernels/pool.h"
#include "backend/cpu/kernels/reduce.h"
#include "cpu_ops.h"

static clave_status record_pool(cpu_recorder *recorder, const pool_desc *desc, bool adaptive) {
  pool_args args = {.average = desc->average,
                    .adaptive = adaptive,
                    .x = cpu_operand(recorder, desc->x).data,
                    .out = cpu_operand(recorder, desc->out).data,
                    .indices = cpu_operand(recorder, desc->indices).data,
                    .type = desc->type,
                    .x_type = desc->x->tensor.type,
                    .out_type = desc->out->tensor.type,
                    .planes = desc->planes,
                    .count_include_pad = desc->count_include_pad,
                    .divisor = desc->divisor};
  memcpy(args.in, desc->in, sizeof args.in);
  memcpy(args.size, desc->size, sizeof args.size);
  memcpy(args.kernel, desc->kernel, sizeof args.kernel);
  memcpy(args.stride, desc->stride, sizeof args.stride);
  memcpy(args.padding, desc->padding, sizeof args.padding);
  memcpy(args.dilation, desc->dilation, sizeof args.dilation);
  return cpu_launch(recorder, pool, &args);
}

clave_status cpu_pool(cpu_recorder *recorder, const node *node) {
  pool_desc desc;
  describe_pool(node, &desc);
  return record_pool(recorder, &desc, false);
}

static int64_t cpu_pool_volume(const int64_t sizes[SPATIAL_DIMS]) {
  int64_t n = 1;
  for (int i = 0; i < SPATIAL_DIMS; i++) n *= sizes[i];
  return n;
}

/* Records averages of whole planes as a reduction. */
static clave_status record_means(cpu_recorder *recorder, const pool_desc *desc) {
  const int64_t n = cpu_pool_volume(desc->in);
  return cpu_launch(recorder, reduce,
                    &(reduce_args){.kind = KREDUCE_MEAN,
                                   .x = cpu_operand(recorder, desc->x),
                                   .out = cpu_operand(recorder, desc->out),
                                   .kept = {.rank = 1, .dims = {desc->planes}, .strides = {n}},
                                   .over = {.rank = 1, .dims = {n}, .strides = {1}},
                                   .divisor = (double)n});
}

clave_status cpu_adaptive_pool(cpu_recorder *recorder, const node *node) {
  pool_desc desc;
  describe_adaptive_pool(node, &desc);
  return pool_is_mean(&desc) ? record_means(recorder, &desc) : record_pool(recorder, &desc, true);
}
