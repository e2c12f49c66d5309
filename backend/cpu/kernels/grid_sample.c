/* Grid sample: per point the elements it reads and their weights, then their sum in each channel.
 * Positions and weights are rounded to float (F64: not) after each operation, as on a device. */
#include "backend/cpu/kernels/grid_sample.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"

enum { MAX_TAPS = 16 };

/* What a point reads: offsets in a channel, -1 where there is nothing. */
typedef struct tap_list {
  int n;
  int64_t offset[MAX_TAPS];
  double weight[MAX_TAPS];
} tap_list;

static double rounded(const grid_sample_args *p, double v) {
  return p->type == DTYPE_F64 ? v : (double)(float)v;
}

/* NaN: the first element of a plane, the last one of a volume, as in torch. */
static double clip(const grid_sample_args *p, double v, int64_t size) {
  double last = (double)(size - 1);
  if (isnan(v)) return p->n_dims == 2 ? 0 : last;
  return v < 0 ? 0 : v > last ? last : v;
}

/* Folds v into the range between the first and the last element's centers (align_corners) or edges.
 */
static double reflect(const grid_sample_args *p, double v, int64_t size) {
  double low = p->align_corners ? 0 : -0.5;
  double period = 2.0 * (double)(p->align_corners ? size - 1 : size);
  if (period == 0) return 0;
  double rest = fmod(fabs(rounded(p, v - low)), period), back = rounded(p, period - rest);
  return rounded(p, (rest < back ? rest : back) + low);
}

static double pad_position(const grid_sample_args *p, double v, int64_t size) {
  if (p->padding == KGRID_ZEROS) return v;
  return clip(p, p->padding == KGRID_REFLECTION ? reflect(p, v, size) : v, size);
}

/* From [-1, 1] to elements. */
static double unnormalize(const grid_sample_args *p, double v, int64_t size) {
  v = rounded(p, v + 1);
  if (p->align_corners) return rounded(p, v * (0.5 * (double)(size - 1)));
  return rounded(p, rounded(p, v * (0.5 * (double)size)) - 0.5);
}

/* Adds a tap at whole-numbered positions. In a volume what lies outside has no weight, in a plane
 * it is 0: a weight of NaN shows in a plane only. */
static void add_tap(const grid_sample_args *p, const double *at, double weight, tap_list *taps) {
  int64_t offset = 0;
  bool inside = true;
  for (int d = p->n_dims - 1; d >= 0; d--) {
    inside = inside && at[d] >= 0 && at[d] <= (double)(p->in[d] - 1);
    if (inside) offset = offset * p->in[d] + (int64_t)at[d];
  }
  taps->offset[taps->n] = inside ? offset : -1;
  taps->weight[taps->n++] = inside || p->n_dims == 2 ? weight : 0;
}

static void linear_taps(const grid_sample_args *p, const double *position, tap_list *taps) {
  for (int corner = 0; corner < 1 << p->n_dims; corner++) {
    double at[3] = {0}, weight = 1;
    for (int d = 0; d < p->n_dims; d++) {
      double low = floor(position[d]), rest = rounded(p, position[d] - low);
      bool upper = corner >> d & 1;
      at[d] = upper ? low + 1 : low;
      weight = rounded(p, weight * (upper ? rest : rounded(p, 1 - rest)));
    }
    add_tap(p, at, weight, taps);
  }
}

static double cubic_inner(const grid_sample_args *p, double x) {
  const double k = -0.75;
  double v = rounded(p, rounded(p, (k + 2) * x) - (k + 3));
  return rounded(p, rounded(p, rounded(p, v * x) * x) + 1);
}

static double cubic_outer(const grid_sample_args *p, double x) {
  const double k = -0.75;
  double v = rounded(p, rounded(p, rounded(p, k * x) - 5 * k) * x);
  return rounded(p, rounded(p, rounded(p, v + 8 * k) * x) - 4 * k);
}

static void cubic_weights(const grid_sample_args *p, double t, double w[4]) {
  double u = rounded(p, 1 - t);
  w[0] = cubic_outer(p, rounded(p, t + 1));
  w[1] = cubic_inner(p, t);
  w[2] = cubic_inner(p, u);
  w[3] = cubic_outer(p, rounded(p, u + 1));
}

static void cubic_taps(const grid_sample_args *p, const double *position, tap_list *taps) {
  double w[2][4], low[2];
  for (int d = 0; d < 2; d++) {
    low[d] = floor(position[d]);
    cubic_weights(p, rounded(p, position[d] - low[d]), w[d]);
  }
  for (int i = 0; i < 4; i++) {
    double y = trunc(pad_position(p, low[1] + i - 1, p->in[1]));
    for (int j = 0; j < 4; j++) {
      double at[2] = {trunc(pad_position(p, low[0] + j - 1, p->in[0])), y};
      add_tap(p, at, rounded(p, w[0][j] * w[1][i]), taps);
    }
  }
}

static void find_taps(const grid_sample_args *p, const double *point, tap_list *taps) {
  double position[3] = {0};
  taps->n = 0;
  for (int d = 0; d < p->n_dims; d++) {
    position[d] = unnormalize(p, point[d], p->in[d]);
    if (p->mode != KGRID_BICUBIC) position[d] = pad_position(p, position[d], p->in[d]);
    if (p->mode == KGRID_NEAREST) position[d] = nearbyint(position[d]);
  }
  if (p->mode == KGRID_BILINEAR) linear_taps(p, position, taps);
  if (p->mode == KGRID_BICUBIC) cubic_taps(p, position, taps);
  if (p->mode == KGRID_NEAREST) add_tap(p, position, 1, taps);
}

static void sample_points(void *ctx, int64_t begin, int64_t end) {
  const grid_sample_args *p = ctx;
  int64_t size = p->in[0] * p->in[1] * p->in[2];
  for (int64_t i = begin; i < end; i++) {
    int64_t n = i / p->points, at = i % p->points;
    double point[3];
    tap_list taps;
    load_row(COMPUTE_F64, p->type, element_at(p->grid, p->type, i * p->n_dims), 1, p->n_dims,
             point);
    find_taps(p, point, &taps);
    for (int64_t c = n * p->channels; c < (n + 1) * p->channels; c++) {
      double sum = 0, v;
      for (int k = 0; k < taps.n; k++) {
        v = 0;
        if (taps.offset[k] >= 0)
          load_row(COMPUTE_F64, p->type, element_at(p->x, p->type, c * size + taps.offset[k]), 1, 1,
                   &v);
        sum += v * taps.weight[k];
      }
      store_row(COMPUTE_F64, p->type, element_at(p->out, p->type, c * p->points + at), 1, 1, &sum);
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
