/* Upsample: the tables of taps, computed once for each dimension. */
#include "ops/upsample.h"

#include "backend/cpu/kernels/upsample.h"
#include "backend/cpu/kernels/walk.h"
#include "cpu_ops.h"

static const int64_t no_index[1] = {0}, one_tap[1] = {1};
static const double no_weight[1] = {1};

static double quantize(double weight, int precision) {
  double v = weight * (double)(1 << precision);
  return (double)(int)(v < 0 ? v - 0.5 : v + 0.5);
}

/* The table of one dimension in scratch memory; false when that is out. */
static bool fill_table(const kernel_context *k, const upsample_axis *a, int *precision,
                       upsample_table *t) {
  int64_t n = a->out * a->n_taps;
  int64_t *index = k->scratch(k->pool, (size_t)n * sizeof *index);
  int64_t *count = k->scratch(k->pool, (size_t)a->out * sizeof *count);
  double *weight = k->scratch(k->pool, (size_t)n * sizeof *weight);
  if (!index || !count || !weight) return false;
  if (a->quantized) *precision = upsample_precision(a, index, weight);
  for (int64_t i = 0; i < a->out; i++) {
    double *row = weight + i * a->n_taps;
    count[i] = upsample_taps(a, i, index + i * a->n_taps, row);
    for (int64_t tap = 0; a->quantized && tap < count[i]; tap++)
      row[tap] = quantize(row[tap], *precision);
  }
  *t = (upsample_table){a->in, a->out, a->n_taps, index, count, weight};
  return true;
}

/* A dimension that an op for one at a time leaves alone. */
static bool fill_identity(const kernel_context *k, int64_t size, upsample_table *t) {
  int64_t *index = k->scratch(k->pool, (size_t)size * sizeof *index);
  int64_t *count = k->scratch(k->pool, (size_t)size * sizeof *count);
  double *weight = k->scratch(k->pool, (size_t)size * sizeof *weight);
  if (!index || !count || !weight) return false;
  for (int64_t i = 0; i < size; i++) {
    index[i] = i;
    count[i] = 1;
    weight[i] = 1;
  }
  *t = (upsample_table){size, size, 1, index, count, weight};
  return true;
}

clave_status cpu_upsample(cpu_stream *s, const node *n) {
  const ir_upsample *op = n->instruction->op;
  const tensor *x = &n->tensors[op->x].t, *out = &n->tensors[op->out].t;
  int spatial = x->rank - 2;
  upsample p = {.x = cpu_tensor(n, op->x).data,
                .y = cpu_tensor(n, op->out).data,
                .type = x->type,
                .planes = x->dims[0] * x->dims[1],
                .copies = op->mode <= IR_UPSAMPLE_MODE_NEAREST_EXACT};
  bool same = true;
  for (int d = 0; d < 3 - spatial; d++)
    p.dims[d] = (upsample_table){1, 1, 1, no_index, one_tap, no_weight};
  for (int d = 0; d < spatial; d++) {
    upsample_axis a = upsample_axis_of(op, x, out, d);
    bool alone = (a.antialias || a.quantized) && a.in == a.out;
    upsample_table *t = &p.dims[3 - spatial + d];
    if (!(alone ? fill_identity(&s->kernel, a.in, t) : fill_table(&s->kernel, &a, &p.precision, t)))
      return cpu_done(false);
    same = same && alone;
  }
  p.copies = p.copies || same;
  return cpu_done(kernel_upsample(&s->kernel, &p));
}
