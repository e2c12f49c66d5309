/* Upsample: per plane, converted once, the sums in float, double (F64) or integers (quantized). */
#include "backend/cpu/kernels/upsample.h"

#include <string.h>

#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"

enum { READS_PER_THREAD = 32 * 1024 };

/* Position o of a dimension reads index[o * n_taps + k] for k < count[o]. */
typedef struct tap_table {
  int64_t in, out, n_taps;
  int64_t *index, *count;
  double *weight; /* exact in the type that sums are made in */
} tap_table;

typedef struct resize {
  const upsample_args *p;
  tap_table dims[UPSAMPLE_DIMS];
  bool twice; /* each element of a row of x, side by side */
} resize;

static int64_t in_size(const upsample_args *p) {
  return p->axes[0].in * p->axes[1].in * p->axes[2].in;
}
static int64_t out_size(const upsample_args *p) {
  return p->axes[0].out * p->axes[1].out * p->axes[2].out;
}

/* One element: the sum over the outer dimension's taps of the sums over the next one's, in this
 * order. The sums begin at -0.0, which adds nothing to any number. */
#define DEFINE_BLEND(NAME, T, ZERO)                                               \
  static T NAME(const resize *r, const T *x, int64_t i, int64_t j, int64_t k) {   \
    const tap_table *a = &r->dims[0], *b = &r->dims[1], *c = &r->dims[2];         \
    const int64_t *ci = c->index + k * c->n_taps;                                 \
    const double *cw = c->weight + k * c->n_taps;                                 \
    T outer = ZERO;                                                               \
    for (int64_t q = 0; q < a->count[i]; q++) {                                   \
      const T *plane = x + a->index[i * a->n_taps + q] * b->in * c->in;           \
      T middle = ZERO;                                                            \
      for (int64_t s = 0; s < b->count[j]; s++) {                                 \
        const T *row = plane + b->index[j * b->n_taps + s] * c->in;               \
        T inner = ZERO;                                                           \
        for (int64_t t = 0; t < c->count[k]; t++) inner += row[ci[t]] * (T)cw[t]; \
        middle += inner * (T)b->weight[j * b->n_taps + s];                        \
      }                                                                           \
      outer += middle * (T)a->weight[i * a->n_taps + q];                          \
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
static void blend_row(const resize *r, const void *x, int64_t i, int64_t j, void *row) {
  const upsample_args *p = r->p;
  int64_t n = p->axes[2].out;
  for (int64_t k = 0; k < n; k++) {
    if (p->precision > 0)
      ((int64_t *)row)[k] = to_byte(blend_i64(r, x, i, j, k), p->precision);
    else if (p->x_type == DTYPE_F64)
      ((double *)row)[k] = blend_f64(r, x, i, j, k);
    else
      ((float *)row)[k] = blend_f32(r, x, i, j, k);
  }
}

static void blend_plane(const void *user, int64_t task, char *scratch) {
  const resize *r = user;
  const upsample_args *p = r->p;
  compute_class c = compute_class_of(p->x_type);
  int64_t rows = p->axes[1].out, n = p->axes[2].out;
  char *row = scratch + in_size(p) * (int64_t)sizeof(double);
  load_row(c, p->x_type, element_at(p->x, p->x_type, task * in_size(p)), 1, in_size(p), scratch);
  for (int64_t i = 0; i < p->axes[0].out * rows; i++) {
    blend_row(r, scratch, i / rows, i % rows, row);
    store_row(c, p->out_type, element_at(p->out, p->out_type, task * out_size(p) + i * n), 1, n,
              row);
  }
}

/* ---------------------------------------------------------------- of x's elements */

#define DEFINE_SPREAD(T)                                                                \
  static void spread_##T(const int64_t *index, bool twice, int64_t n, const void *from, \
                         void *to) {                                                    \
    const T *restrict x = from;                                                         \
    T *restrict y = to;                                                                 \
    if (!twice)                                                                         \
      for (int64_t k = 0; k < n; k++) y[k] = x[index[k]];                               \
    if (twice)                                                                          \
      for (int64_t k = 0; k < n / 2; k++) y[2 * k] = y[2 * k + 1] = x[k];               \
  }
DEFINE_SPREAD(uint8_t)
DEFINE_SPREAD(uint16_t)
DEFINE_SPREAD(uint32_t)
DEFINE_SPREAD(uint64_t)

/* A row of out of one of x. */
static void spread_row(const resize *r, const void *x, void *to) {
  const tap_table *c = &r->dims[2];
  switch (dtype_size(r->p->out_type)) {
    case 1:
      spread_uint8_t(c->index, r->twice, c->out, x, to);
      break;
    case 2:
      spread_uint16_t(c->index, r->twice, c->out, x, to);
      break;
    case 4:
      spread_uint32_t(c->index, r->twice, c->out, x, to);
      break;
    default:
      spread_uint64_t(c->index, r->twice, c->out, x, to);
  }
}

/* Which row of x's planes row i of a plane of out is. */
static int64_t row_under(const resize *r, int64_t i) {
  const tap_table *b = &r->dims[1];
  return r->dims[0].index[i / b->out] * b->in + b->index[i % b->out];
}

/* Rows that are alike are copied; those of x that are of another type than out's are converted in
 * `scratch`. */
static void copy_plane(const void *user, int64_t task, char *scratch) {
  const resize *r = user;
  const upsample_args *p = r->p;
  const int64_t rows = p->axes[0].out * p->axes[1].out, n = p->axes[2].out, in = p->axes[2].in;
  const size_t bytes = (size_t)n * dtype_size(p->out_type);
  int64_t last = -1;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t row = row_under(r, i);
    const void *x = element_at(p->x, p->x_type, task * in_size(p) + row * in);
    char *to = element_at(p->out, p->out_type, task * out_size(p) + i * n);
    if (row == last) {
      memcpy(to, to - bytes, bytes);
      continue;
    }
    last = row;
    if (is_bf16(p->x_type) != is_bf16(p->out_type)) {
      if (p->out_type == DTYPE_BF16)
        narrow_row(x, in, (uint16_t *)(void *)scratch);
      else
        widen_row(x, in, (float *)(void *)scratch);
      x = scratch;
    }
    spread_row(r, x, to);
  }
}

/* ---------------------------------------------------------------- tables */

static double quantize(double weight, int precision) {
  double v = weight * (double)(1 << precision);
  return (double)(int)(v < 0 ? v - 0.5 : v + 0.5);
}

static size_t table_bytes(const resample_axis *a) {
  size_t taps = (size_t)(a->out * a->n_taps);
  return taps * (sizeof(int64_t) + sizeof(double)) + (size_t)a->out * sizeof(int64_t);
}

/* A table in memory of table_bytes. */
static tap_table make_table(const resample_axis *a, int precision, char *memory) {
  tap_table t = {.in = a->in, .out = a->out, .n_taps = a->n_taps};
  t.index = (int64_t *)(void *)memory;
  t.count = t.index + a->out * a->n_taps;
  t.weight = (double *)(void *)(t.count + a->out);
  for (int64_t i = 0; i < a->out; i++) {
    double *row = t.weight + i * a->n_taps;
    t.count[i] = resample_taps(a, i, t.index + i * a->n_taps, row);
    for (int64_t k = 0; a->quantized && k < t.count[i]; k++) row[k] = quantize(row[k], precision);
  }
  return t;
}

static bool is_twice(const tap_table *t) {
  bool twice = t->out == 2 * t->in && t->n_taps == 1;
  for (int64_t i = 0; twice && i < t->out; i++) twice = t->index[i] == i / 2;
  return twice;
}

static size_t tables_bytes(const upsample_args *p) {
  size_t bytes = 0;
  for (int d = 0; d < UPSAMPLE_DIMS; d++) bytes += table_bytes(&p->axes[d]);
  return (bytes + 63) / 64 * 64;
}

/* ---------------------------------------------------------------- the kernel */

static int64_t taps_of(const upsample_args *p) {
  return p->axes[0].n_taps * p->axes[1].n_taps * p->axes[2].n_taps;
}

static int64_t upsample_work(const upsample_args *p) {
  return p->planes * (out_size(p) * taps_of(p) + in_size(p)) / READS_PER_THREAD;
}

/* A plane and a row, for a thread. */
static size_t plane_bytes(const upsample_args *p) {
  if (taps_of(p) == 1) return (size_t)p->axes[2].in * sizeof(float);
  return (size_t)(in_size(p) + p->axes[2].out) * sizeof(double);
}

static size_t upsample_scratch(const kernel_context *ctx, const void *args) {
  const upsample_args *p = args;
  return tables_bytes(p) + slots_bytes(ctx, p->planes, upsample_work(p), plane_bytes(p));
}

static bool upsample(const kernel_context *ctx, const void *args) {
  const upsample_args *p = args;
  resize r = {.p = p};
  char *memory = ctx->scratch(ctx->pool, tables_bytes(p));
  if (!memory) return false;
  for (int d = 0; d < UPSAMPLE_DIMS; memory += table_bytes(&p->axes[d]), d++)
    r.dims[d] = make_table(&p->axes[d], p->precision, memory);
  r.twice = is_twice(&r.dims[2]);
  return run_slots(ctx, p->planes, upsample_work(p), plane_bytes(p),
                   taps_of(p) == 1 ? copy_plane : blend_plane, &r);
}

const kernel_desc kernel_upsample = {
    .name = "upsample",
    .run = upsample,
    .scratch = upsample_scratch,
    .args_size = sizeof(upsample_args),
    .operands = {OPERAND(upsample_args, x), OPERAND(upsample_args, out)}};
