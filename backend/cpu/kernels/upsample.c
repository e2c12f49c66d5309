/* Upsample: converts each plane once and sums in float, double (F64) or integers (quantized). */
#include "backend/cpu/kernels/upsample.h"

#include <string.h>

#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"

enum { READS_PER_THREAD = 32 * 1024 };

/* Taps of a dimension: position o reads index[o * n_taps + k] for k < count[o]. */
typedef struct tap_table {
  int64_t in, out, n_taps;
  int64_t *index, *count;
  double *weight; /* exact in the type of the sums */
} tap_table;

typedef struct resize {
  const upsample_args *args;
  tap_table dims[UPSAMPLE_DIMS];
  bool twice; /* each element of a row of x is repeated twice */
} resize;

static int64_t kernel_upsample_in_size(const upsample_args *args) {
  return args->axes[0].in * args->axes[1].in * args->axes[2].in;
}
static int64_t kernel_upsample_out_size(const upsample_args *args) {
  return args->axes[0].out * args->axes[1].out * args->axes[2].out;
}

/* Defines a function that returns one element. It sums, over the taps of the outer dimension, sums
 * over the next one's taps. The sums begin at -0.0, which leaves every number unchanged. */
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

/* Computes one row of out in the compute class. x: the plane. */
static void blend_row(const resize *resize, const void *x, int64_t i, int64_t j, void *row) {
  const upsample_args *args = resize->args;
  int64_t n = args->axes[2].out;
  for (int64_t k = 0; k < n; k++) {
    if (args->precision > 0)
      ((int64_t *)row)[k] = to_byte(blend_i64(resize, x, i, j, k), args->precision);
    else if (args->x_type == DTYPE_F64)
      ((double *)row)[k] = blend_f64(resize, x, i, j, k);
    else
      ((float *)row)[k] = blend_f32(resize, x, i, j, k);
  }
}

static void blend_plane(const void *user, int64_t task, char *scratch) {
  const resize *resize = user;
  const upsample_args *args = resize->args;
  compute_type c = compute_type_of(args->x_type);
  int64_t rows = args->axes[1].out, n = args->axes[2].out;
  char *row = scratch + kernel_upsample_in_size(args) * (int64_t)sizeof(double);
  load_row(c, args->x_type, element_at(args->x, args->x_type, task * kernel_upsample_in_size(args)),
           1, kernel_upsample_in_size(args), scratch);
  for (int64_t i = 0; i < args->axes[0].out * rows; i++) {
    blend_row(resize, scratch, i / rows, i % rows, row);
    store_row(c, args->out_type,
              element_at(args->out, args->out_type, task * kernel_upsample_out_size(args) + i * n),
              1, n, row);
  }
}

/* ---------------------------------------------------------------- copies of x's elements */

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

/* Fills a row of out from a row of x. */
static void spread_row(const resize *r, const void *x, void *to) {
  const tap_table *table = &r->dims[2];
  switch (dtype_size(r->args->out_type)) {
    case 1:
      spread_uint8_t(table->index, r->twice, table->out, x, to);
      break;
    case 2:
      spread_uint16_t(table->index, r->twice, table->out, x, to);
      break;
    case 4:
      spread_uint32_t(table->index, r->twice, table->out, x, to);
      break;
    default:
      spread_uint64_t(table->index, r->twice, table->out, x, to);
  }
}

/* Returns the row of a plane of x that is copied to row i of a plane of out. */
static int64_t row_under(const resize *resize, int64_t i) {
  const tap_table *table = &resize->dims[1];
  return resize->dims[0].index[i / table->out] * table->in + table->index[i % table->out];
}

/* Copies identical rows. Rows of x are converted in `scratch` if out's type differs. */
static void copy_plane(const void *user, int64_t task, char *scratch) {
  const resize *resize = user;
  const upsample_args *args = resize->args;
  const int64_t rows = args->axes[0].out * args->axes[1].out, n = args->axes[2].out,
                in = args->axes[2].in;
  const size_t bytes = (size_t)n * dtype_size(args->out_type);
  int64_t last = -1;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t row = row_under(resize, i);
    const void *x =
        element_at(args->x, args->x_type, task * kernel_upsample_in_size(args) + row * in);
    char *to = element_at(args->out, args->out_type, task * kernel_upsample_out_size(args) + i * n);
    if (row == last) {
      memcpy(to, to - bytes, bytes);
      continue;
    }
    last = row;
    if (is_bf16(args->x_type) != is_bf16(args->out_type)) {
      if (args->out_type == DTYPE_BF16)
        row_to_bf16(x, in, (uint16_t *)(void *)scratch);
      else
        widen_row(x, in, (float *)(void *)scratch);
      x = scratch;
    }
    spread_row(resize, x, to);
  }
}

/* ---------------------------------------------------------------- tables */

static double kernel_upsample_quantize(double weight, int precision) {
  double v = weight * (double)(1 << precision);
  return (double)(int)(v < 0 ? v - 0.5 : v + 0.5);
}

static size_t kernel_upsample_table_bytes(const resample_axis *axis) {
  size_t taps = (size_t)(axis->out * axis->n_taps);
  return taps * (sizeof(int64_t) + sizeof(double)) + (size_t)axis->out * sizeof(int64_t);
}

/* Returns a table in `memory`, of kernel_upsample_table_bytes bytes. */
static tap_table make_table(const resample_axis *axis, int precision, char *memory) {
  tap_table table = {.in = axis->in, .out = axis->out, .n_taps = axis->n_taps};
  table.index = (int64_t *)(void *)memory;
  table.count = table.index + axis->out * axis->n_taps;
  table.weight = (double *)(void *)(table.count + axis->out);
  for (int64_t i = 0; i < axis->out; i++) {
    double *row = table.weight + i * axis->n_taps;
    table.count[i] = resample_taps(axis, i, table.index + i * axis->n_taps, row);
    for (int64_t k = 0; axis->quantized && k < table.count[i]; k++)
      row[k] = kernel_upsample_quantize(row[k], precision);
  }
  return table;
}

static bool is_twice(const tap_table *table) {
  bool twice = table->out == 2 * table->in && table->n_taps == 1;
  for (int64_t i = 0; twice && i < table->out; i++) twice = table->index[i] == i / 2;
  return twice;
}

static size_t tables_bytes(const upsample_args *args) {
  size_t bytes = 0;
  for (int d = 0; d < UPSAMPLE_DIMS; d++) bytes += kernel_upsample_table_bytes(&args->axes[d]);
  return (bytes + 63) / 64 * 64;
}

/* ---------------------------------------------------------------- the kernel */

static int64_t kernel_upsample_taps_of(const upsample_args *args) {
  return args->axes[0].n_taps * args->axes[1].n_taps * args->axes[2].n_taps;
}

static int64_t upsample_work(const upsample_args *args) {
  return args->planes *
         (kernel_upsample_out_size(args) * kernel_upsample_taps_of(args) +
          kernel_upsample_in_size(args)) /
         READS_PER_THREAD;
}

/* Returns the bytes of a plane and a row, for a thread. */
static size_t kernel_upsample_plane_bytes(const upsample_args *args) {
  if (kernel_upsample_taps_of(args) == 1) return (size_t)args->axes[2].in * sizeof(float);
  return (size_t)(kernel_upsample_in_size(args) + args->axes[2].out) * sizeof(double);
}

static size_t upsample_scratch(const kernel_context *ctx, const void *args) {
  const upsample_args *own = args;
  return tables_bytes(own) +
         slots_bytes(ctx, own->planes, upsample_work(own), kernel_upsample_plane_bytes(own));
}

static bool upsample(const kernel_context *ctx, const void *args) {
  const upsample_args *own = args;
  resize resize = {.args = own};
  char *memory = ctx->scratch(ctx->pool, tables_bytes(own));
  if (!memory) return false;
  for (int d = 0; d < UPSAMPLE_DIMS; memory += kernel_upsample_table_bytes(&own->axes[d]), d++)
    resize.dims[d] = make_table(&own->axes[d], own->precision, memory);
  resize.twice = is_twice(&resize.dims[2]);
  return run_slots(ctx, own->planes, upsample_work(own), kernel_upsample_plane_bytes(own),
                   kernel_upsample_taps_of(own) == 1 ? copy_plane : blend_plane, &resize);
}

const kernel_desc kernel_upsample = {
    .name = "upsample",
    .run = upsample,
    .scratch = upsample_scratch,
    .args_size = sizeof(upsample_args),
    .operands = {OPERAND(upsample_args, x), OPERAND(upsample_args, out)}};
