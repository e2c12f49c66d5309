/* Distances: the usual norms of floats up to F32 by tiles of rows, whose terms are added in f32,
 * many Euclidean ones by a matrix product; else row by row, in f64. */
#include "backend/cpu/kernels/distance.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/distance_kernels.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"

enum { GRAIN = 16 * 1024, TILES_GRAIN = 8, PACK_GRAIN = 64 };
/* Of a product: least sizes, and columns of a task, of whole panels. */
enum { PRODUCT_ROWS = 32, PRODUCT_TERMS = 32, PRODUCT_COLUMNS = 256 };

/* ---------------------------------------------------------------- row by row */

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

/* ---------------------------------------------------------------- by tiles */

typedef struct tiles {
  const distance_args *t;
  float *b;       /* (n_panels, m, DISTANCE_LANES) of each batch: columns are rows of b, 0 beyond */
  const float *a; /* (rows of all batches, m): as they are, or `widened` */
  float *widened;
  int64_t n_panels, n_groups;   /* of DISTANCE_ROWS rows of a, in a batch */
  float *squares_a, *squares_b; /* the sum of each row's squares, where a product is made */
} tiles;

static bool takes_tiles(const distance_args *t) {
  const bool usual = t->p == 1 || t->p == 2 || isinf(t->p);
  return usual && compute_class_of(t->a.type) == COMPUTE_F32 && t->n_a >= DISTANCE_ROWS &&
         t->m > 0 && t->n_out > 0;
}

static int64_t batches_of(const distance_args *t) { return t->n_out / t->n_a / t->n_b; }
static int64_t panels_of(const distance_args *t) { return ceil_div(t->n_b, DISTANCE_LANES); }

static size_t b_bytes(const distance_args *t) {
  return (size_t)(batches_of(t) * panels_of(t) * t->m * DISTANCE_LANES) * sizeof(float);
}
static size_t a_bytes(const distance_args *t) {
  const bool as_it_is = t->a.type == DTYPE_F32;
  return as_it_is ? 0 : (size_t)(batches_of(t) * t->n_a * t->m) * sizeof(float);
}

static void pack_panels(void *ctx, int64_t begin, int64_t end) {
  const tiles *s = ctx;
  const distance_args *t = s->t;
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % s->n_panels * DISTANCE_LANES, row = i / s->n_panels * t->n_b + first,
                  n = least(DISTANCE_LANES, t->n_b - first);
    float *to = s->b + i * t->m * DISTANCE_LANES;
    for (int64_t k = 0; n < DISTANCE_LANES && k < t->m * DISTANCE_LANES; k++) to[k] = 0;
    gemm_pack_strided(COMPUTE_F32, t->b.type, element_at(t->b.data, t->b.type, row * t->m), t->m, 1,
                      n, t->m, DISTANCE_LANES, to);
  }
}

static void widen_rows(void *ctx, int64_t begin, int64_t end) {
  const tiles *s = ctx;
  const distance_args *t = s->t;
  load_row(COMPUTE_F32, t->a.type, element_at(t->a.data, t->a.type, begin * t->m), 1,
           (end - begin) * t->m, s->widened + begin * t->m);
}

static void run_tiles(void *ctx, int64_t begin, int64_t end) {
  const tiles *s = ctx;
  const distance_args *t = s->t;
  const distance_norm norm = t->p == 1   ? DISTANCE_SUM
                             : t->p == 2 ? DISTANCE_EUCLIDEAN
                                         : DISTANCE_LARGEST;
  for (int64_t i = begin; i < end; i++) {
    const int64_t panel = i % s->n_panels, group = i / s->n_panels, batch = group / s->n_groups,
                  first = group % s->n_groups * DISTANCE_ROWS, row = batch * t->n_a + first,
                  rows = least(DISTANCE_ROWS, t->n_a - first), column = panel * DISTANCE_LANES;
    float out[DISTANCE_ROWS * DISTANCE_LANES];
    distance_tile tile = {
        .b = s->b + (batch * s->n_panels + panel) * t->m * DISTANCE_LANES, .m = t->m, .out = out};
    for (int64_t r = 0; r < DISTANCE_ROWS; r++)
      tile.a[r] = s->a + (row + least(r, rows - 1)) * t->m;
    distance_run_tile(norm, &tile);
    for (int64_t r = 0; r < rows; r++)
      store_row(COMPUTE_F32, t->out.type,
                element_at(t->out.data, t->out.type, (row + r) * t->n_b + column), 1,
                least(DISTANCE_LANES, t->n_b - column), out + r * DISTANCE_LANES);
  }
}

/* ---------------------------------------------------------------- by a product */

/* The squares of x, and of y, less twice the products of x and y: as exact as the sum of squared
 * differences unless that is much less than the squares, which takes_products makes unlikely. What
 * is (distance_is_near) is made by tiles. */
static bool takes_products(const distance_args *t) {
  return takes_tiles(t) && t->p == 2 && t->a.type == DTYPE_F32 && t->m >= PRODUCT_TERMS &&
         t->n_a >= PRODUCT_ROWS && t->n_b >= PRODUCT_ROWS;
}

static size_t squares_bytes(const distance_args *t) {
  const size_t bytes = (size_t)(batches_of(t) * (t->n_a + t->n_b)) * sizeof(float);
  return takes_products(t) ? kernel_scratch_size(bytes) : 0;
}

static void add_squares(void *ctx, int64_t begin, int64_t end) {
  const tiles *s = ctx;
  const distance_args *t = s->t;
  const int64_t n = batches_of(t) * t->n_a;
  for (int64_t i = begin; i < end; i++) {
    const float *row =
        i < n ? (const float *)t->a.data + i * t->m : (const float *)t->b.data + (i - n) * t->m;
    s->squares_a[i] = dot_f32(t->m, row, row);
  }
}

static void pack_rows(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                      int64_t kn, int64_t width, void *to) {
  const tiles *s = user;
  const float *row = s->a + (batch * s->t->n_a + lane) * s->t->m + k;
  gemm_pack_strided(COMPUTE_F32, DTYPE_F32, row, s->t->m, 1, lanes, kn, width, to);
}

/* From panels of DISTANCE_LANES columns. */
static void pack_columns(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  enum { AT_ONCE = 8 /* divides the width of all tiles and panels */ };
  const tiles *s = user;
  const float *b = s->b + batch * s->n_panels * s->t->m * DISTANCE_LANES;
  for (int64_t j = 0; j < lanes; j += AT_ONCE) {
    const int64_t column = lane + j, panel = column / DISTANCE_LANES;
    const float *from = b + (panel * s->t->m + k) * DISTANCE_LANES + column % DISTANCE_LANES;
    for (int64_t i = 0; i < kn; i++)
      memcpy((float *)to + i * width + j, from + i * DISTANCE_LANES, AT_ONCE * sizeof(float));
  }
}

static gemm_place place_products(const void *user, int64_t batch) {
  const distance_args *t = ((const tiles *)user)->t;
  return (gemm_place){.c = (float *)t->out.data + batch * t->n_a * t->n_b, .c_step = t->n_b};
}

/* Some rows of a, n of them, with a panel. */
static void run_rows(const tiles *s, int64_t batch, int64_t panel, const int64_t *rows, int n) {
  const distance_args *t = s->t;
  const int64_t column = panel * DISTANCE_LANES;
  float out[DISTANCE_ROWS * DISTANCE_LANES];
  distance_tile tile = {
      .b = s->b + (batch * s->n_panels + panel) * t->m * DISTANCE_LANES, .m = t->m, .out = out};
  for (int r = 0; r < DISTANCE_ROWS; r++) tile.a[r] = s->a + rows[r < n ? r : n - 1] * t->m;
  distance_run_tile(DISTANCE_EUCLIDEAN, &tile);
  for (int r = 0; r < n; r++)
    memcpy((float *)t->out.data + rows[r] * t->n_b + column, out + r * DISTANCE_LANES,
           (size_t)least(DISTANCE_LANES, t->n_b - column) * sizeof(float));
}

/* By tiles, those rows of a panel of which an element is near: whatever the others. */
static void run_near(const tiles *s, int64_t batch, int64_t row, int64_t rows, int64_t panel) {
  const distance_args *t = s->t;
  const int64_t first = batch * t->n_a + row, column = panel * DISTANCE_LANES,
                n = least(DISTANCE_LANES, t->n_b - column);
  const float *squares = s->squares_b + batch * t->n_b + column;
  int64_t near[DISTANCE_ROWS];
  int found = 0;
  for (int64_t i = first; i < first + rows; i++) {
    const float *out = (const float *)t->out.data + i * t->n_b + column;
    bool is_near = false;
    for (int64_t j = 0; j < n; j++)
      is_near |= distance_is_near(s->squares_a[i] + squares[j], out[j]);
    if (is_near) near[found++] = i;
    if (found < DISTANCE_ROWS) continue;
    run_rows(s, batch, panel, near, found);
    found = 0;
  }
  if (found > 0) run_rows(s, batch, panel, near, found);
}

static void finish_products(const void *user, int64_t batch, int64_t row, int64_t rows,
                            int64_t column, int64_t columns) {
  const tiles *s = user;
  const distance_args *t = s->t;
  const float *squares = s->squares_b + batch * t->n_b + column;
  bool are_near = false;
  for (int64_t i = batch * t->n_a + row; i < batch * t->n_a + row + rows; i++)
    are_near |= distance_of_products(s->squares_a[i], squares, columns,
                                     (float *)t->out.data + i * t->n_b + column);
  for (int64_t j = 0; are_near && j < columns; j += DISTANCE_LANES)
    run_near(s, batch, row, rows, (column + j) / DISTANCE_LANES);
}

static kgemm products_of(const tiles *s) {
  const distance_args *t = s->t;
  return (kgemm){.c = COMPUTE_F32,
                 .batch = batches_of(t),
                 .m = t->n_a,
                 .n = t->n_b,
                 .k = t->m,
                 .pack_a = pack_rows,
                 .pack_b = pack_columns,
                 .place = place_products,
                 .finish = finish_products,
                 .user = s,
                 .cut = {.columns = PRODUCT_COLUMNS}};
}

static void distance_by_products(const kernel_context *ctx, tiles *s, char *memory) {
  const distance_args *t = s->t;
  const int64_t batches = batches_of(t);
  const kgemm g = products_of(s);
  s->squares_a = (float *)(void *)memory;
  s->squares_b = s->squares_a + batches * t->n_a;
  ctx->parallel_for(ctx->pool, batches * (t->n_a + t->n_b), GRAIN / t->m + 1, add_squares, s);
  gemm_run(ctx, &g, memory + squares_bytes(t));
}

/* ---------------------------------------------------------------- all by panels of b */

static size_t products_bytes(const kernel_context *ctx, const distance_args *t) {
  const tiles s = {.t = t};
  const kgemm g = products_of(&s);
  return takes_products(t) ? squares_bytes(t) + gemm_bytes(ctx, &g) : 0;
}
static size_t panel_bytes(const distance_args *t) {
  return kernel_scratch_size(b_bytes(t) + a_bytes(t));
}

static bool distance_by_tiles(const kernel_context *ctx, const distance_args *t) {
  char *scratch = ctx->scratch(ctx->pool, panel_bytes(t) + products_bytes(ctx, t));
  if (!scratch) return false;
  tiles s = {.t = t,
             .b = (float *)(void *)scratch,
             .a = t->a.data,
             .n_panels = panels_of(t),
             .n_groups = ceil_div(t->n_a, DISTANCE_ROWS)};
  const int64_t batches = batches_of(t);
  if (a_bytes(t) > 0) {
    s.a = s.widened = (float *)(void *)(scratch + b_bytes(t));
    ctx->parallel_for(ctx->pool, batches * t->n_a, PACK_GRAIN, widen_rows, &s);
  }
  ctx->parallel_for(ctx->pool, batches * s.n_panels, PACK_GRAIN / DISTANCE_LANES, pack_panels, &s);
  if (takes_products(t))
    distance_by_products(ctx, &s, scratch + panel_bytes(t));
  else
    ctx->parallel_for(ctx->pool, batches * s.n_groups * s.n_panels, TILES_GRAIN, run_tiles, &s);
  return true;
}

/* ---------------------------------------------------------------- the kernel */

static size_t distance_scratch(const kernel_context *ctx, const void *args) {
  const distance_args *t = args;
  return takes_tiles(t) ? kernel_scratch_size(panel_bytes(t) + products_bytes(ctx, t)) : 0;
}

static bool distance(const kernel_context *ctx, const void *args) {
  distance_args t = *(const distance_args *)args;
  if (takes_tiles(&t)) return distance_by_tiles(ctx, &t);
  ctx->parallel_for(ctx->pool, t.n_out, GRAIN / (t.m + 1) + 1, distance_range, &t);
  return true;
}

const kernel_desc kernel_distance = {
    .name = "distance",
    .run = distance,
    .scratch = distance_scratch,
    .args_size = sizeof(distance_args),
    .operands = {OPERAND(distance_args, a), OPERAND(distance_args, b),
                 OPERAND(distance_args, out)}};
