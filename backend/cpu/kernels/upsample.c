/* Upsample: per plane, converted once, the sums in float, double (F64) or integers (quantized). */
#include "backend/cpu/kernels/upsample.h"

#include <string.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/slots.h"

enum { READS_PER_THREAD = 32 * 1024 };

static int64_t in_size(const upsample *p) { return p->dims[0].in * p->dims[1].in * p->dims[2].in; }
static int64_t out_size(const upsample *p) {
  return p->dims[0].out * p->dims[1].out * p->dims[2].out;
}

/* One element: the sum over the outer dimension's taps of the sums over the next one's, in this
 * order. The sums begin at -0.0, which adds nothing to any number. */
#define DEFINE_BLEND(NAME, T, ZERO)                                               \
  static T NAME(const upsample *p, const T *x, int64_t i, int64_t j, int64_t k) { \
    const upsample_table *a = &p->dims[0], *b = &p->dims[1], *c = &p->dims[2];    \
    const int64_t *ci = c->index + k * c->n_taps;                                 \
    const double *cw = c->weight + k * c->n_taps;                                 \
    T outer = ZERO;                                                               \
    for (int64_t r = 0; r < a->count[i]; r++) {                                   \
      const T *plane = x + a->index[i * a->n_taps + r] * b->in * c->in;           \
      T middle = ZERO;                                                            \
      for (int64_t s = 0; s < b->count[j]; s++) {                                 \
        const T *row = plane + b->index[j * b->n_taps + s] * c->in;               \
        T inner = ZERO;                                                           \
        for (int64_t t = 0; t < c->count[k]; t++) inner += row[ci[t]] * (T)cw[t]; \
        middle += inner * (T)b->weight[j * b->n_taps + s];                        \
      }                                                                           \
      outer += middle * (T)a->weight[i * a->n_taps + r];                          \
    }                                                                             \
    return outer;                                                                 \
  }
DEFINE_BLEND(blend_f32, float, -0.0F)
DEFINE_BLEND(blend_f64, double, -0.0)
DEFINE_BLEND(blend_i64, int64_t, 0)

static int64_t to_byte(int64_t sum, int precision) {
  int64_t v = (sum + ((int64_t)1 << (precision - 1))) >> precision;
  return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* One row of out in the compute class; x: the plane. */
static void blend_row(const upsample *p, const void *x, int64_t i, int64_t j, void *row) {
  int64_t n = p->dims[2].out;
  for (int64_t k = 0; k < n; k++) {
    if (p->precision > 0)
      ((int64_t *)row)[k] = to_byte(blend_i64(p, x, i, j, k), p->precision);
    else if (p->type == DTYPE_F64)
      ((double *)row)[k] = blend_f64(p, x, i, j, k);
    else
      ((float *)row)[k] = blend_f32(p, x, i, j, k);
  }
}

static void blend_plane(const void *user, int64_t task, char *scratch) {
  const upsample *p = user;
  compute_class c = compute_class_of(p->type);
  int64_t rows = p->dims[1].out, n = p->dims[2].out;
  char *row = scratch + in_size(p) * (int64_t)sizeof(double);
  load_row(c, p->type, element_at(p->x, p->type, task * in_size(p)), 1, in_size(p), scratch);
  for (int64_t r = 0; r < p->dims[0].out * rows; r++) {
    blend_row(p, scratch, r / rows, r % rows, row);
    store_row(c, p->type, element_at(p->y, p->type, task * out_size(p) + r * n), 1, n, row);
  }
}

/* Row (plane, i, j) of out, whose elements are x's. */
static void copy_row_of(const upsample *p, int64_t task, int64_t r) {
  const upsample_table *b = &p->dims[1], *c = &p->dims[2];
  int64_t from = task * p->dims[0].in + p->dims[0].index[r / b->out];
  from = (from * b->in + b->index[r % b->out]) * c->in;
  size_t size = dtype_size(p->type);
  char *to = element_at(p->y, p->type, task * out_size(p) + r * c->out);
  for (int64_t k = 0; k < c->out; k++)
    memcpy(to + (size_t)k * size, element_at(p->x, p->type, from + c->index[k]), size);
}

static void copy_plane(const void *user, int64_t task, char *scratch) {
  const upsample *p = user;
  (void)scratch;
  for (int64_t r = 0; r < p->dims[0].out * p->dims[1].out; r++) copy_row_of(p, task, r);
}

bool kernel_upsample(const kernel_context *ctx, const upsample *p) {
  int64_t taps = p->dims[0].n_taps * p->dims[1].n_taps * p->dims[2].n_taps;
  int64_t work = p->planes * (out_size(p) * taps + in_size(p)) / READS_PER_THREAD;
  size_t scratch = p->copies ? 0 : (size_t)(in_size(p) + p->dims[2].out) * sizeof(double);
  return run_slots(ctx, p->planes, work, scratch, p->copies ? copy_plane : blend_plane, p);
}
