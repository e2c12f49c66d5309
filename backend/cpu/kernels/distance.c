/* Distances. For floats up to F32, the norms 1, 2 and infinity are computed by tiles of rows, whose
 * terms are added in f32; many Euclidean ones by a matrix product. Others are computed row by row
 * in f64. */
#include "backend/cpu/kernels/distance.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/distance_kernels.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"
#include "base/counts.h"

enum { GRAIN = 16 * 1024, TILES_GRAIN = 8, PACK_GRAIN = 64 };
/* Minimum rows and terms of a product, and its columns per task, a multiple of the panel width. */
enum { PRODUCT_ROWS = 32, PRODUCT_TERMS = 32, PRODUCT_COLUMNS = 256 };

/* ---------------------------------------------------------------- row by row */

/* Returns sum plus the n terms of x - y. */
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

static double kernel_distance_finish(double p, double sum) {
  if (p == 0 || p == 1 || isinf(p)) return sum;
  return p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

static double row_distance(const distance_args *args, int64_t row_a, int64_t row_b) {
  double x[ROW_BLOCK], y[ROW_BLOCK], sum = 0;
  dtype type = args->a.type;
  for (int64_t at = 0; at < args->m; at += ROW_BLOCK) {
    int64_t n = args->m - at < ROW_BLOCK ? args->m - at : ROW_BLOCK;
    load_row(COMPUTE_F64, type, element_at(args->a.data, type, row_a * args->m + at), 1, n, x);
    load_row(COMPUTE_F64, type, element_at(args->b.data, type, row_b * args->m + at), 1, n, y);
    sum = add_terms(args->p, sum, x, y, n);
  }
  return kernel_distance_finish(args->p, sum);
}

static void distance_range(void *ctx, int64_t begin, int64_t end) {
  const distance_args *args = ctx;
  for (int64_t k = begin; k < end; k++) {
    int64_t row = k / args->n_b, batch = row / args->n_a;
    double d = row_distance(args, row, batch * args->n_b + k % args->n_b);
    store_row(COMPUTE_F64, args->out.type, element_at(args->out.data, args->out.type, k), 1, 1, &d);
  }
}

/* ---------------------------------------------------------------- by tiles */

typedef struct tiles {
  const distance_args *args;
  float *b; /* (n_panels, m, DISTANCE_LANES) per batch: columns are rows of b, padded with 0 */
  const float *a; /* (rows of all batches, m): the operand itself, or `widened` */
  float *widened;
  int64_t n_panels, n_groups;   /* per batch; groups of DISTANCE_ROWS rows of a */
  float *squares_a, *squares_b; /* sum of the squares of each row, for the product */
} tiles;

static bool kernel_distance_accepts_tiles(const distance_args *args) {
  const bool usual = args->p == 1 || args->p == 2 || isinf(args->p);
  return usual && compute_type_of(args->a.type) == COMPUTE_F32 && args->n_a >= DISTANCE_ROWS &&
         args->m > 0 && args->n_out > 0;
}

static int64_t batches_of(const distance_args *args) { return args->n_out / args->n_a / args->n_b; }
static int64_t kernel_distance_panels_of(const distance_args *args) {
  return ceil_div(args->n_b, DISTANCE_LANES);
}

static size_t b_bytes(const distance_args *args) {
  return (size_t)(batches_of(args) * kernel_distance_panels_of(args) * args->m * DISTANCE_LANES) *
         sizeof(float);
}
static size_t kernel_distance_a_bytes(const distance_args *args) {
  const bool as_it_is = args->a.type == DTYPE_F32;
  return as_it_is ? 0 : (size_t)(batches_of(args) * args->n_a * args->m) * sizeof(float);
}

static void kernel_distance_pack_panels(void *ctx, int64_t begin, int64_t end) {
  const tiles *tiles = ctx;
  const distance_args *args = tiles->args;
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % tiles->n_panels * DISTANCE_LANES,
                  row = i / tiles->n_panels * args->n_b + first,
                  n = min_i64(DISTANCE_LANES, args->n_b - first);
    float *to = tiles->b + i * args->m * DISTANCE_LANES;
    for (int64_t k = 0; n < DISTANCE_LANES && k < args->m * DISTANCE_LANES; k++) to[k] = 0;
    gemm_pack_strided(COMPUTE_F32, args->b.type,
                      element_at(args->b.data, args->b.type, row * args->m), args->m, 1, n, args->m,
                      DISTANCE_LANES, to);
  }
}

static void widen_rows(void *ctx, int64_t begin, int64_t end) {
  const tiles *tiles = ctx;
  const distance_args *args = tiles->args;
  load_row(COMPUTE_F32, args->a.type, element_at(args->a.data, args->a.type, begin * args->m), 1,
           (end - begin) * args->m, tiles->widened + begin * args->m);
}

static void kernel_distance_run_tiles(void *ctx, int64_t begin, int64_t end) {
  const tiles *tiles = ctx;
  const distance_args *args = tiles->args;
  const distance_norm norm = args->p == 1   ? DISTANCE_SUM
                             : args->p == 2 ? DISTANCE_EUCLIDEAN
                                            : DISTANCE_LARGEST;
  for (int64_t i = begin; i < end; i++) {
    const int64_t panel = i % tiles->n_panels, group = i / tiles->n_panels,
                  batch = group / tiles->n_groups, first = group % tiles->n_groups * DISTANCE_ROWS,
                  row = batch * args->n_a + first, rows = min_i64(DISTANCE_ROWS, args->n_a - first),
                  column = panel * DISTANCE_LANES;
    float out[DISTANCE_ROWS * DISTANCE_LANES];
    distance_tile tile = {
        .b = tiles->b + (batch * tiles->n_panels + panel) * args->m * DISTANCE_LANES,
        .m = args->m,
        .out = out};
    for (int64_t r = 0; r < DISTANCE_ROWS; r++)
      tile.a[r] = tiles->a + (row + min_i64(r, rows - 1)) * args->m;
    distance_run_tile(norm, &tile);
    for (int64_t r = 0; r < rows; r++)
      store_row(COMPUTE_F32, args->out.type,
                element_at(args->out.data, args->out.type, (row + r) * args->n_b + column), 1,
                min_i64(DISTANCE_LANES, args->n_b - column), out + r * DISTANCE_LANES);
  }
}

/* ---------------------------------------------------------------- by a product */

/* True if |x|^2 + |y|^2 - 2 xy is used. It is as exact as the sum of squared differences unless
 * this sum is much smaller than the squares. These conditions make that unlikely. Such distances
 * (distance_is_near) are recomputed by tiles. */
static bool kernel_distance_accepts_products(const distance_args *args) {
  return kernel_distance_accepts_tiles(args) && args->p == 2 && args->a.type == DTYPE_F32 &&
         args->m >= PRODUCT_TERMS && args->n_a >= PRODUCT_ROWS && args->n_b >= PRODUCT_ROWS;
}

static size_t squares_bytes(const distance_args *args) {
  const size_t bytes = (size_t)(batches_of(args) * (args->n_a + args->n_b)) * sizeof(float);
  return kernel_distance_accepts_products(args) ? kernel_scratch_size(bytes) : 0;
}

static void add_squares(void *ctx, int64_t begin, int64_t end) {
  const tiles *tiles = ctx;
  const distance_args *args = tiles->args;
  const int64_t n = batches_of(args) * args->n_a;
  for (int64_t i = begin; i < end; i++) {
    const float *row = i < n ? (const float *)args->a.data + i * args->m
                             : (const float *)args->b.data + (i - n) * args->m;
    tiles->squares_a[i] = dot_f32(args->m, row, row);
  }
}

static void kernel_distance_pack_rows(const void *user, int64_t batch, int64_t lane, int64_t lanes,
                                      int64_t k, int64_t kn, int64_t width, void *to) {
  const tiles *tiles = user;
  const float *row = tiles->a + (batch * tiles->args->n_a + lane) * tiles->args->m + k;
  gemm_pack_strided(COMPUTE_F32, DTYPE_F32, row, tiles->args->m, 1, lanes, kn, width, to);
}

/* Packs columns of b from panels of DISTANCE_LANES columns. */
static void kernel_distance_pack_columns(const void *user, int64_t batch, int64_t lane,
                                         int64_t lanes, int64_t k, int64_t kn, int64_t width,
                                         void *to) {
  enum { AT_ONCE = 8 /* rows at once; divides the width of all tiles and panels */ };
  const tiles *tiles = user;
  const float *b = tiles->b + batch * tiles->n_panels * tiles->args->m * DISTANCE_LANES;
  for (int64_t j = 0; j < lanes; j += AT_ONCE) {
    const int64_t column = lane + j, panel = column / DISTANCE_LANES;
    const float *from = b + (panel * tiles->args->m + k) * DISTANCE_LANES + column % DISTANCE_LANES;
    for (int64_t i = 0; i < kn; i++)
      memcpy((float *)to + i * width + j, from + i * DISTANCE_LANES, AT_ONCE * sizeof(float));
  }
}

static gemm_place place_products(const void *user, int64_t batch) {
  const distance_args *args = ((const tiles *)user)->args;
  return (gemm_place){.c = (float *)args->out.data + batch * args->n_a * args->n_b,
                      .c_stride = args->n_b};
}

/* Computes the distances of n given rows of a to a panel, by tiles. */
static void kernel_distance_run_rows(const tiles *tiles, int64_t batch, int64_t panel,
                                     const int64_t *rows, int n) {
  const distance_args *args = tiles->args;
  const int64_t column = panel * DISTANCE_LANES;
  float out[DISTANCE_ROWS * DISTANCE_LANES];
  distance_tile tile = {
      .b = tiles->b + (batch * tiles->n_panels + panel) * args->m * DISTANCE_LANES,
      .m = args->m,
      .out = out};
  for (int r = 0; r < DISTANCE_ROWS; r++) tile.a[r] = tiles->a + rows[r < n ? r : n - 1] * args->m;
  distance_run_tile(DISTANCE_EUCLIDEAN, &tile);
  for (int r = 0; r < n; r++)
    memcpy((float *)args->out.data + rows[r] * args->n_b + column, out + r * DISTANCE_LANES,
           (size_t)min_i64(DISTANCE_LANES, args->n_b - column) * sizeof(float));
}

/* Recomputes by tiles all distances of the rows that have a near distance in a panel. */
static void run_near(const tiles *tiles, int64_t batch, int64_t row, int64_t rows, int64_t panel) {
  const distance_args *args = tiles->args;
  const int64_t first = batch * args->n_a + row, column = panel * DISTANCE_LANES,
                n = min_i64(DISTANCE_LANES, args->n_b - column);
  const float *squares = tiles->squares_b + batch * args->n_b + column;
  int64_t near[DISTANCE_ROWS];
  int found = 0;
  for (int64_t i = first; i < first + rows; i++) {
    const float *out = (const float *)args->out.data + i * args->n_b + column;
    bool is_near = false;
    for (int64_t j = 0; j < n; j++)
      is_near |= distance_is_near(tiles->squares_a[i] + squares[j], out[j]);
    if (is_near) near[found++] = i;
    if (found < DISTANCE_ROWS) continue;
    kernel_distance_run_rows(tiles, batch, panel, near, found);
    found = 0;
  }
  if (found > 0) kernel_distance_run_rows(tiles, batch, panel, near, found);
}

static void finish_products(const void *user, int64_t batch, int64_t row, int64_t rows,
                            int64_t column, int64_t columns) {
  const tiles *tiles = user;
  const distance_args *args = tiles->args;
  const float *squares = tiles->squares_b + batch * args->n_b + column;
  bool are_near = false;
  for (int64_t i = batch * args->n_a + row; i < batch * args->n_a + row + rows; i++)
    are_near |= distance_of_products(tiles->squares_a[i], squares, columns,
                                     (float *)args->out.data + i * args->n_b + column);
  for (int64_t j = 0; are_near && j < columns; j += DISTANCE_LANES)
    run_near(tiles, batch, row, rows, (column + j) / DISTANCE_LANES);
}

static kgemm products_of(const tiles *tiles) {
  const distance_args *args = tiles->args;
  return (kgemm){.c = COMPUTE_F32,
                 .batch = batches_of(args),
                 .m = args->n_a,
                 .n = args->n_b,
                 .k = args->m,
                 .pack_a = kernel_distance_pack_rows,
                 .pack_b = kernel_distance_pack_columns,
                 .place = place_products,
                 .finish = finish_products,
                 .user = tiles,
                 .cut = {.columns = PRODUCT_COLUMNS}};
}

static void distance_by_products(const kernel_context *ctx, tiles *tiles, char *memory) {
  const distance_args *args = tiles->args;
  const int64_t batches = batches_of(args);
  const kgemm kgemm = products_of(tiles);
  tiles->squares_a = (float *)(void *)memory;
  tiles->squares_b = tiles->squares_a + batches * args->n_a;
  ctx->parallel_for(ctx->pool, batches * (args->n_a + args->n_b), GRAIN / args->m + 1, add_squares,
                    tiles);
  gemm_run(ctx, &kgemm, memory + squares_bytes(args));
}

/* ---------------------------------------------------------------- all by panels of b */

static size_t products_bytes(const kernel_context *ctx, const distance_args *args) {
  const tiles tiles = {.args = args};
  const kgemm kgemm = products_of(&tiles);
  return kernel_distance_accepts_products(args) ? squares_bytes(args) + gemm_bytes(ctx, &kgemm) : 0;
}
static size_t kernel_distance_panel_bytes(const distance_args *args) {
  return kernel_scratch_size(b_bytes(args) + kernel_distance_a_bytes(args));
}

/* Packs b and computes all distances by tiles or by a product. Returns false if scratch memory is
 * exhausted. */
static bool distance_by_tiles(const kernel_context *ctx, const distance_args *args) {
  char *scratch =
      ctx->scratch(ctx->pool, kernel_distance_panel_bytes(args) + products_bytes(ctx, args));
  if (!scratch) return false;
  tiles tiles = {.args = args,
                 .b = (float *)(void *)scratch,
                 .a = args->a.data,
                 .n_panels = kernel_distance_panels_of(args),
                 .n_groups = ceil_div(args->n_a, DISTANCE_ROWS)};
  const int64_t batches = batches_of(args);
  if (kernel_distance_a_bytes(args) > 0) {
    tiles.a = tiles.widened = (float *)(void *)(scratch + b_bytes(args));
    ctx->parallel_for(ctx->pool, batches * args->n_a, PACK_GRAIN, widen_rows, &tiles);
  }
  ctx->parallel_for(ctx->pool, batches * tiles.n_panels, PACK_GRAIN / DISTANCE_LANES,
                    kernel_distance_pack_panels, &tiles);
  if (kernel_distance_accepts_products(args))
    distance_by_products(ctx, &tiles, scratch + kernel_distance_panel_bytes(args));
  else
    ctx->parallel_for(ctx->pool, batches * tiles.n_groups * tiles.n_panels, TILES_GRAIN,
                      kernel_distance_run_tiles, &tiles);
  return true;
}

/* ---------------------------------------------------------------- the kernel */

static size_t distance_scratch(const kernel_context *ctx, const void *args) {
  const distance_args *own = args;
  return kernel_distance_accepts_tiles(own)
             ? kernel_scratch_size(kernel_distance_panel_bytes(own) + products_bytes(ctx, own))
             : 0;
}

static bool distance(const kernel_context *ctx, const void *args) {
  distance_args own = *(const distance_args *)args;
  if (kernel_distance_accepts_tiles(&own)) return distance_by_tiles(ctx, &own);
  ctx->parallel_for(ctx->pool, own.n_out, GRAIN / (own.m + 1) + 1, distance_range, &own);
  return true;
}

const kernel_desc kernel_distance = {
    .name = "distance",
    .run = distance,
    .scratch = distance_scratch,
    .args_size = sizeof(distance_args),
    .operands = {OPERAND(distance_args, a), OPERAND(distance_args, b),
                 OPERAND(distance_args, out)}};
