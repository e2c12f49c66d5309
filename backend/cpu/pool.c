/* Pool and AdaptivePool. */
#include "ops/pool.h"

#include <string.h>

#include "backend/cpu/kernels/pool.h"
#include "backend/cpu/kernels/reduce.h"
#include "cpu_ops.h"

static clave_status record_pool(cpu_recorder *r, const pool_form *f, bool adaptive) {
  pool_args p = {.average = f->average,
                 .adaptive = adaptive,
                 .x = cpu_operand(r, f->x).data,
                 .out = cpu_operand(r, f->out).data,
                 .indices = cpu_operand(r, f->indices).data,
                 .type = f->type,
                 .x_type = f->x->t.type,
                 .out_type = f->out->t.type,
                 .planes = f->planes,
                 .count_include_pad = f->count_include_pad,
                 .divisor = f->divisor};
  memcpy(p.in, f->in, sizeof p.in);
  memcpy(p.size, f->size, sizeof p.size);
  memcpy(p.kernel, f->kernel, sizeof p.kernel);
  memcpy(p.stride, f->stride, sizeof p.stride);
  memcpy(p.padding, f->padding, sizeof p.padding);
  memcpy(p.dilation, f->dilation, sizeof p.dilation);
  return cpu_launch(r, pool, &p);
}

clave_status cpu_pool(cpu_recorder *r, const node *n) {
  pool_form f;
  describe_pool(n, &f);
  return record_pool(r, &f, false);
}

static int64_t volume(const int64_t sizes[SPATIAL_DIMS]) {
  int64_t n = 1;
  for (int i = 0; i < SPATIAL_DIMS; i++) n *= sizes[i];
  return n;
}

/* Averages of whole planes. */
static clave_status record_means(cpu_recorder *r, const pool_form *f) {
  const int64_t n = volume(f->in);
  return cpu_launch(r, reduce,
                    &(reduce_args){.kind = KREDUCE_MEAN,
                                   .x = cpu_operand(r, f->x),
                                   .out = cpu_operand(r, f->out),
                                   .kept = {.rank = 1, .dims = {f->planes}, .strides = {n}},
                                   .over = {.rank = 1, .dims = {n}, .strides = {1}},
                                   .divisor = (double)n});
}

clave_status cpu_adaptive_pool(cpu_recorder *r, const node *n) {
  pool_form f;
  describe_adaptive_pool(n, &f);
  return pool_is_mean(&f) ? record_means(r, &f) : record_pool(r, &f, true);
}
