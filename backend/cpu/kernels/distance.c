/* Distances, row by row in blocks. */
#include "backend/cpu/kernels/distance.h"

#include <math.h>

#include "backend/cpu/kernels/rows.h"

enum { GRAIN = 16 * 1024 };

/* sum with the terms of x - y, n of each. */
static double add_terms(double p, double sum, const double *x, const double *y, int64_t n) {
  if (p == 1) {
    for (int64_t i = 0; i < n; i++) sum += fabs(x[i] - y[i]);
  } else if (p == 2) {
    for (int64_t i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
  } else if (p == 0) {
    for (int64_t i = 0; i < n; i++) sum += isnan(x[i] - y[i]) ? NAN : x[i] - y[i] != 0;
  } else if (isinf(p)) {
    for (int64_t i = 0; i < n; i++) {
      double d = fabs(x[i] - y[i]);
      sum = isnan(d) || d > sum ? d : sum;
    }
  } else {
    for (int64_t i = 0; i < n; i++) sum += pow(fabs(x[i] - y[i]), p);
  }
  return sum;
}

static double finish(double p, double sum) {
  if (p == 0 || p == 1 || isinf(p)) return sum;
  return p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

static double row_distance(const distance_args *t, int64_t row_a, int64_t row_b) {
  double x[ROW_BLOCK], y[ROW_BLOCK], sum = 0;
  dtype type = t->a.type;
  for (int64_t at = 0; at < t->m; at += ROW_BLOCK) {
    int64_t n = t->m - at < ROW_BLOCK ? t->m - at : ROW_BLOCK;
    load_row(COMPUTE_F64, type, element_at(t->a.data, type, row_a * t->m + at), 1, n, x);
    load_row(COMPUTE_F64, type, element_at(t->b.data, type, row_b * t->m + at), 1, n, y);
    sum = add_terms(t->p, sum, x, y, n);
  }
  return finish(t->p, sum);
}

static void distance_range(void *ctx, int64_t begin, int64_t end) {
  const distance_args *t = ctx;
  for (int64_t k = begin; k < end; k++) {
    int64_t row = k / t->n_b, batch = row / t->n_a;
    double d = row_distance(t, row, batch * t->n_b + k % t->n_b);
    store_row(COMPUTE_F64, t->out.type, element_at(t->out.data, t->out.type, k), 1, 1, &d);
  }
}

static bool distance(const kernel_context *ctx, const void *args) {
  distance_args t = *(const distance_args *)args;
  ctx->parallel_for(ctx->pool, t.n_out, GRAIN / (t.m + 1) + 1, distance_range, &t);
  return true;
}

const kernel_desc kernel_distance = {
    .name = "distance",
    .run = distance,
    .args_size = sizeof(distance_args),
    .operands = {OPERAND(distance_args, a), OPERAND(distance_args, b),
                 OPERAND(distance_args, out)}};
