/* Grid sample: finds the elements and weights of each point, then sums them in each channel.
 * Positions and weights are rounded to float (not for F64) after each operation, as on a device. */
#include "backend/cpu/kernels/grid_sample.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"

enum { MAX_TAPS = 16 };

/* The elements that a point reads: offsets in a channel, -1 outside of x, and their weights. */
typedef struct tap_list {
  int n;
  int64_t offset[MAX_TAPS];
  double weight[MAX_TAPS];
} tap_list;

static double kernel_grid_sample_rounded(const grid_sample_args *args, double v) {
  return args->type == DTYPE_F64 ? v : (double)(float)v;
}

/* NaN selects the first element of a plane and the last one of a volume, as in torch. */
static double clip(const grid_sample_args *args, double v, int64_t size) {
  double last = (double)(size - 1);
  if (isnan(v)) return args->n_dims == 2 ? 0 : last;
  return v < 0 ? 0 : v > last ? last : v;
}

/* Reflects v into the range between the centers (align_corners) or edges of the first and last
 * elements. */
static double kernel_grid_sample_reflect(const grid_sample_args *args, double v, int64_t size) {
  double low = args->align_corners ? 0 : -0.5;
  double period = 2.0 * (double)(args->align_corners ? size - 1 : size);
  if (period == 0) return 0;
  double rest = fmod(fabs(kernel_grid_sample_rounded(args, v - low)), period),
         back = kernel_grid_sample_rounded(args, period - rest);
  return kernel_grid_sample_rounded(args, (rest < back ? rest : back) + low);
}

static double pad_position(const grid_sample_args *args, double v, int64_t size) {
  if (args->padding == KGRID_ZEROS) return v;
  return clip(args,
              args->padding == KGRID_REFLECTION ? kernel_grid_sample_reflect(args, v, size) : v,
              size);
}

/* Converts a coordinate in [-1, 1] to a position in elements. */
static double unnormalize(const grid_sample_args *args, double v, int64_t size) {
  v = kernel_grid_sample_rounded(args, v + 1);
  if (args->align_corners) return kernel_grid_sample_rounded(args, v * (0.5 * (double)(size - 1)));
  return kernel_grid_sample_rounded(
      args, kernel_grid_sample_rounded(args, v * (0.5 * (double)size)) - 0.5);
}

/* Adds a tap at a whole-numbered position. A tap outside of x has weight 0 in a volume. In a plane
 * its element is replaced by 0, and the weight is kept, so that a NaN weight yields NaN. */
static void add_tap(const grid_sample_args *args, const double *at, double weight, tap_list *taps) {
  int64_t offset = 0;
  bool inside = true;
  for (int d = args->n_dims - 1; d >= 0; d--) {
    inside = inside && at[d] >= 0 && at[d] <= (double)(args->in[d] - 1);
    if (inside) offset = offset * args->in[d] + (int64_t)at[d];
  }
  taps->offset[taps->n] = inside ? offset : -1;
  taps->weight[taps->n++] = inside || args->n_dims == 2 ? weight : 0;
}

static void linear_taps(const grid_sample_args *args, const double *position, tap_list *taps) {
  for (int corner = 0; corner < 1 << args->n_dims; corner++) {
    double at[3] = {0}, weight = 1;
    for (int d = 0; d < args->n_dims; d++) {
      double low = floor(position[d]), rest = kernel_grid_sample_rounded(args, position[d] - low);
      bool upper = corner >> d & 1;
      at[d] = upper ? low + 1 : low;
      weight = kernel_grid_sample_rounded(
          args, weight * (upper ? rest : kernel_grid_sample_rounded(args, 1 - rest)));
    }
    add_tap(args, at, weight, taps);
  }
}

static double kernel_grid_sample_cubic_inner(const grid_sample_args *args, double x) {
  const double k = -0.75;
  double v =
      kernel_grid_sample_rounded(args, kernel_grid_sample_rounded(args, (k + 2) * x) - (k + 3));
  return kernel_grid_sample_rounded(
      args, kernel_grid_sample_rounded(args, kernel_grid_sample_rounded(args, v * x) * x) + 1);
}

static double kernel_grid_sample_cubic_outer(const grid_sample_args *args, double x) {
  const double k = -0.75;
  double v = kernel_grid_sample_rounded(
      args, kernel_grid_sample_rounded(args, kernel_grid_sample_rounded(args, k * x) - 5 * k) * x);
  return kernel_grid_sample_rounded(
      args,
      kernel_grid_sample_rounded(args, kernel_grid_sample_rounded(args, v + 8 * k) * x) - 4 * k);
}

static void cubic_weights(const grid_sample_args *args, double t, double w[4]) {
  double u = kernel_grid_sample_rounded(args, 1 - t);
  w[0] = kernel_grid_sample_cubic_outer(args, kernel_grid_sample_rounded(args, t + 1));
  w[1] = kernel_grid_sample_cubic_inner(args, t);
  w[2] = kernel_grid_sample_cubic_inner(args, u);
  w[3] = kernel_grid_sample_cubic_outer(args, kernel_grid_sample_rounded(args, u + 1));
}

static void cubic_taps(const grid_sample_args *args, const double *position, tap_list *taps) {
  double w[2][4], low[2];
  for (int d = 0; d < 2; d++) {
    low[d] = floor(position[d]);
    cubic_weights(args, kernel_grid_sample_rounded(args, position[d] - low[d]), w[d]);
  }
  for (int i = 0; i < 4; i++) {
    double y = trunc(pad_position(args, low[1] + i - 1, args->in[1]));
    for (int j = 0; j < 4; j++) {
      double at[2] = {trunc(pad_position(args, low[0] + j - 1, args->in[0])), y};
      add_tap(args, at, kernel_grid_sample_rounded(args, w[0][j] * w[1][i]), taps);
    }
  }
}

static void kernel_grid_sample_find_taps(const grid_sample_args *args, const double *point,
                                         tap_list *taps) {
  double position[3] = {0};
  taps->n = 0;
  for (int d = 0; d < args->n_dims; d++) {
    position[d] = unnormalize(args, point[d], args->in[d]);
    if (args->mode != KGRID_BICUBIC) position[d] = pad_position(args, position[d], args->in[d]);
    if (args->mode == KGRID_NEAREST) position[d] = nearbyint(position[d]);
  }
  if (args->mode == KGRID_BILINEAR) linear_taps(args, position, taps);
  if (args->mode == KGRID_BICUBIC) cubic_taps(args, position, taps);
  if (args->mode == KGRID_NEAREST) add_tap(args, position, 1, taps);
}

static void sample_points(void *ctx, int64_t begin, int64_t end) {
  const grid_sample_args *args = ctx;
  int64_t size = args->in[0] * args->in[1] * args->in[2];
  for (int64_t i = begin; i < end; i++) {
    int64_t n = i / args->points, at = i % args->points;
    double point[3];
    tap_list taps;
    load_row(COMPUTE_F64, args->type, element_at(args->grid, args->type, i * args->n_dims), 1,
             args->n_dims, point);
    kernel_grid_sample_find_taps(args, point, &taps);
    for (int64_t c = n * args->channels; c < (n + 1) * args->channels; c++) {
      double sum = 0, v;
      for (int k = 0; k < taps.n; k++) {
        v = 0;
        if (taps.offset[k] >= 0)
          load_row(COMPUTE_F64, args->type,
                   element_at(args->x, args->type, c * size + taps.offset[k]), 1, 1, &v);
        sum += v * taps.weight[k];
      }
      store_row(COMPUTE_F64, args->type, element_at(args->out, args->type, c * args->points + at),
                1, 1, &sum);
    }
  }
}

static bool grid_sample(const kernel_context *ctx, const void *args) {
  grid_sample_args task = *(const grid_sample_args *)args;
  int64_t grain = 2048 / (task.channels > 0 ? task.channels : 1) + 1;
  ctx->parallel_for(ctx->pool, task.batch * task.points, grain, sample_points, &task);
  return true;
}

const kernel_desc kernel_grid_sample = {
    .name = "grid_sample",
    .run = grid_sample,
    .args_size = sizeof(grid_sample_args),
    .operands = {OPERAND(grid_sample_args, x), OPERAND(grid_sample_args, grid),
                 OPERAND(grid_sample_args, out)}};
