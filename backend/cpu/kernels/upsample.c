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

/* Returns the number of pairs of taps of the outer dimensions. */
static int64_t kernel_upsample_pairs(const upsample_args *args) {
  return args->axes[0].n_taps * args->axes[1].n_taps;
}

/* Defines functions for one type of sums. Sums begin at -0.0, which leaves every number unchanged:
 * SUM_ROW sums over the taps of the last dimension, and ADD_ROW adds weight * row to sums. */
#define DEFINE_BLEND(T, ZERO, SUM_ROW, ADD_ROW)                                                   \
  static void SUM_ROW(const tap_table *table, const T *restrict x, T *restrict sums) {            \
    const int64_t *index = table->index;                                                          \
    const double *weight = table->weight;                                                         \
    for (int64_t k = 0; k < table->out; k++, index += table->n_taps, weight += table->n_taps) {   \
      T sum = ZERO;                                                                               \
      for (int64_t t = 0; t < table->count[k]; t++) sum += x[index[t]] * (T)weight[t];            \
      sums[k] = sum;                                                                              \
    }                                                                                             \
  }                                                                                               \
  static void ADD_ROW(T *restrict sums, const T *restrict row, T weight, bool first, int64_t n) { \
    if (first)                                                                                    \
      for (int64_t k = 0; k < n; k++) sums[k] = ZERO + row[k] * weight;                           \
    if (!first)                                                                                   \
      for (int64_t k = 0; k < n; k++) sums[k] += row[k] * weight;                                 \
  }
DEFINE_BLEND(float, -0.0F, sum_row_f32, add_row_f32)
DEFINE_BLEND(double, -0.0, sum_row_f64, add_row_f64)
DEFINE_BLEND(int64_t, 0, sum_row_i64, add_row_i64)

/* Buffers of one thread for a plane, in the compute class. */
typedef struct blending {
  const resize *resize;
  char *x;              /* the plane */
  char *kept;           /* sums over the last dimension's taps, one row for each pair of taps */
  int64_t *kept_row;    /* the row of x of each kept row, or -1 */
  char *middle, *outer; /* sums over the taps of the next dimensions */
} blending;

static size_t size_of_sum(const upsample_args *args) {
  return args->precision > 0 || args->x_type == DTYPE_F64 ? sizeof(double) : sizeof(float);
}

/* Returns the sums over the last dimension's taps of a row of x. Neighbouring rows of out read the
 * same ones. */
static const char *row_of_sums(const blending *blending, int64_t plane, int64_t row) {
  const upsample_args *args = blending->resize->args;
  const tap_table *dims = blending->resize->dims;
  const int64_t slot = plane % dims[0].n_taps * dims[1].n_taps + row % dims[1].n_taps,
                from = plane * dims[1].in + row;
  const size_t size = size_of_sum(args);
  char *sums = blending->kept + (size_t)(slot * dims[2].out) * size;
  const char *x = blending->x + (size_t)(from * dims[2].in) * size;
  if (blending->kept_row[slot] == from) return sums;
  blending->kept_row[slot] = from;
  if (args->precision > 0)
    sum_row_i64(&dims[2], (const int64_t *)(const void *)x, (int64_t *)(void *)sums);
  else if (args->x_type == DTYPE_F64)
    sum_row_f64(&dims[2], (const double *)(const void *)x, (double *)(void *)sums);
  else
    sum_row_f32(&dims[2], (const float *)(const void *)x, (float *)(void *)sums);
  return sums;
}

static void upsample_add_row(const upsample_args *args, char *sums, const char *row, double weight,
                             bool first) {
  const int64_t n = args->axes[2].out;
  const void *from = row;
  void *to = sums;
  if (args->precision > 0)
    add_row_i64(to, from, (int64_t)weight, first, n);
  else if (args->x_type == DTYPE_F64)
    add_row_f64(to, from, weight, first, n);
  else
    add_row_f32(to, from, (float)weight, first, n);
}

static int64_t to_byte(int64_t sum, int precision) {
  int64_t v = (sum + ((int64_t)1 << (precision - 1))) >> precision;
  return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* Computes one row of out in the compute class: sums, over the taps of the outer dimension, of sums
 * over the next one's taps. Returns the row. */
static char *blend_row(const blending *blending, int64_t i, int64_t j) {
  const upsample_args *args = blending->resize->args;
  const tap_table *a = &blending->resize->dims[0], *b = &blending->resize->dims[1];
  const int64_t *rows = b->index + j * b->n_taps;
  const bool is_flat = a->n_taps == 1;
  for (int64_t q = 0; q < a->count[i]; q++) {
    for (int64_t s = 0; s < b->count[j]; s++)
      upsample_add_row(args, blending->middle,
                       row_of_sums(blending, a->index[i * a->n_taps + q], rows[s]),
                       b->weight[j * b->n_taps + s], s == 0);
    if (!is_flat)
      upsample_add_row(args, blending->outer, blending->middle, a->weight[i * a->n_taps + q],
                       q == 0);
  }
  char *row = is_flat ? blending->middle : blending->outer;
  for (int64_t k = 0; args->precision > 0 && k < args->axes[2].out; k++)
    ((int64_t *)(void *)row)[k] = to_byte(((int64_t *)(void *)row)[k], args->precision);
  return row;
}

static void blend_plane(const void *user, int64_t task, char *scratch) {
  const resize *resize = user;
  const upsample_args *args = resize->args;
  const compute_type c = compute_type_of(args->x_type);
  const int64_t rows = args->axes[1].out, n = args->axes[2].out,
                pairs = kernel_upsample_pairs(args);
  const int64_t at = task * kernel_upsample_out_size(args);
  blending blending = {.resize = resize, .kept_row = (int64_t *)(void *)scratch};
  blending.middle = scratch + (size_t)pairs * sizeof(int64_t);
  blending.outer = blending.middle + (size_t)n * sizeof(double);
  blending.kept = blending.outer + (size_t)n * sizeof(double);
  blending.x = blending.kept + (size_t)(pairs * n) * sizeof(double);
  for (int64_t k = 0; k < pairs; k++) blending.kept_row[k] = -1;
  load_row(c, args->x_type, element_at(args->x, args->x_type, task * kernel_upsample_in_size(args)),
           1, kernel_upsample_in_size(args), blending.x);
  for (int64_t i = 0; i < args->axes[0].out * rows; i++)
    store_row(c, args->out_type, element_at(args->out, args->out_type, at + i * n), 1, n,
              blend_row(&blending, i / rows, i % rows));
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

/* Returns the bytes of a plane, of kept rows and of two rows of sums, for a thread. */
static size_t kernel_upsample_plane_bytes(const upsample_args *args) {
  if (kernel_upsample_taps_of(args) == 1) return (size_t)args->axes[2].in * sizeof(float);
  const int64_t pairs = kernel_upsample_pairs(args);
  return (size_t)(kernel_upsample_in_size(args) + pairs + (pairs + 2) * args->axes[2].out) *
         sizeof(double);
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
