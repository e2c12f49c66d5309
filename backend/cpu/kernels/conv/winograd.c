/* Winograd's method: out = A' [sum over channels of (B' x B) * (G w G')] A + bias, then epilogue
 * and steps. The image is cut into overlapping tiles. Tiles of a block become factors: n x n
 * matrices (tiles, channels). Each is multiplied by a matrix (channels, outputs) of the weight, and
 * the sums become tiles of outputs. Packed weight: (groups, panels, n * n, channels, nr). Threads
 * have their own blocks, or share one if tiles are few. Loop order: block, panel, tiles, factor. */
#include "backend/cpu/kernels/conv/winograd.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/conv/winograd_kernels.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  LANES = WINOGRAD_LANES,
  MAX_N = WINOGRAD_MAX + 2,
  MAX_FACTORS = MAX_N * MAX_N,
  TAPS = WINOGRAD_SIDE * WINOGRAD_SIDE,
  BLOCK_BYTES = 640 << 10, /* bytes of factors, which stay in the second-level cache */
  MIN_BLOCK = 32,          /* minimum tiles of a block, so that the weight is not read too often */
  MAX_TILES = 32,          /* maximum number of tiles whose sums of a panel stay in the cache */
  MIN_TILES = 6,     /* minimum number of tiles of a task, because each task reads the weight */
  RUN = 16,          /* tiles that one task transforms at once */
  CELLS = 16,        /* outputs that are stored at once */
  DEEP = 64,         /* channels whose weights of a panel stay in the first-level cache */
  WORK = 256 * 1024, /* multiplications that justify waking a thread */
  PACK_GRAIN = 4     /* channels of panels */
};

typedef struct tiling {
  const winograd_args *args;
  winograd_kernel kernel;
  int m, n;
  int64_t rows, columns, tiles; /* tiles per image, along both axes, and of all images */
  int64_t blocks;               /* number of blocks of LANES channels per group */
  int64_t panels;               /* panels of outputs, per group */
  int64_t block;                /* tiles whose factors are in memory */
  int64_t at_once;              /* tiles that are multiplied at once */
  bool shared;                  /* threads share a block */
  int64_t work; /* threads that the work justifies; if a block is shared, the work of a group */
  /* Only for a shared block: */
  float *factors;
  int64_t group, first, count;
} tiling;

/* ---------------------------------------------------------------- sizes */

static int64_t factor_stride(const tiling *tiling) {
  return (tiling->blocks * tiling->block + 1) * LANES;
}
static int64_t sum_stride(const tiling *tiling) {
  return tiling->at_once * tiling->kernel.nr + LANES;
}
static size_t factor_bytes(const tiling *tiling) {
  return (size_t)(tiling->n * tiling->n * factor_stride(tiling)) * sizeof(float);
}
static size_t input_bytes(const tiling *tiling) {
  return (size_t)(tiling->n * (RUN * tiling->m + 2) * LANES) * sizeof(float);
}
static size_t sum_bytes(const tiling *tiling) {
  return (size_t)(tiling->n * tiling->n * sum_stride(tiling)) * sizeof(float);
}
static size_t kernel_winograd_larger(size_t a, size_t b) { return a > b ? a : b; }
/* Returns the scratch bytes of a task. Tasks that compute factors and tasks that multiply them run
 * one after the other in the same memory. */
static size_t kernel_winograd_task_bytes(const tiling *tiling) {
  return kernel_winograd_larger(input_bytes(tiling), sum_bytes(tiling));
}

/* Returns the size of equal shares of n, at most `most` each, whose number is a multiple of
   `of`. */
static int64_t equal_shares(int64_t n, int64_t most, int64_t of) {
  int64_t shares = ceil_div(n, most);
  shares = ceil_div(shares, of) * of;
  return ceil_div(n, shares > 0 ? shares : 1);
}

/* Returns the number of tiles whose factors fit in the second-level caches of n_threads. */
static int64_t max_tiles(const tiling *tiling, int64_t n_threads) {
  int64_t tile_bytes = tiling->n * tiling->n * tiling->blocks * LANES * (int64_t)sizeof(float);
  int64_t most = n_threads * BLOCK_BYTES / (tile_bytes > 0 ? tile_bytes : 1);
  return most < MIN_BLOCK ? MIN_BLOCK : most;
}

/* Returns the maximum tiles per task for which each thread gets a task of a panel. */
static int64_t most_of_task(const tiling *tiling, int64_t n_threads) {
  int64_t shares = ceil_div(n_threads, tiling->panels > 0 ? tiling->panels : 1);
  int64_t most = ceil_div(tiling->block, shares);
  return min_i64(MAX_TILES, most < MIN_TILES ? MIN_TILES : most);
}

static tiling kernel_winograd_plan_tiling(const kernel_context *ctx, const winograd_args *args) {
  tiling tiling = {.args = args,
                   .kernel = winograd_kernel_for(args->tile),
                   .m = args->tile,
                   .n = args->tile + 2};
  tiling.rows = ceil_div(args->out_rows, tiling.m);
  tiling.columns = ceil_div(args->out_columns, tiling.m);
  tiling.tiles = args->images * tiling.rows * tiling.columns;
  tiling.blocks = ceil_div(args->channels, LANES);
  tiling.panels = ceil_div(args->outputs, tiling.kernel.nr);
  int64_t multiplies = tiling.tiles * tiling.n * tiling.n * args->channels * args->outputs;
  tiling.shared = args->groups * (tiling.tiles / MIN_BLOCK) < ctx->n_threads && ctx->n_threads > 1;
  tiling.work = (tiling.shared ? 1 : args->groups) * multiplies / WORK;
  tiling.block = equal_shares(tiling.tiles, max_tiles(&tiling, tiling.shared ? ctx->n_threads : 1),
                              tiling.shared ? 1 : ctx->n_threads);
  tiling.at_once = equal_shares(
      tiling.block, tiling.shared ? most_of_task(&tiling, ctx->n_threads) : MAX_TILES, 1);
  return tiling;
}

/* ---------------------------------------------------------------- factors */

/* Transposes n neighbours of LANES channels, `plane` apart, to (n, LANES). Channels from `valid`
 * on are zeros. */
static void transpose(const float *from, int64_t plane, int64_t valid, int64_t n, float *to) {
  float some[8 * 8];
  for (int64_t x = 0; x < n; x += 8) {
    /* the last 8 overlap the 8 before */
    const int64_t at = n >= 8 ? min_i64(x, n - 8) : 0, width = min_i64(8, n);
    for (int h = 0; h < LANES; h += 8) {
      if (valid >= h + 8 && width == 8) {
        transpose_8x8(from + h * plane + at, plane, to + at * LANES + h, LANES);
        continue;
      }
      memset(some, 0, sizeof some);
      for (int64_t c = h; c < min_i64(valid, h + 8); c++)
        memcpy(some + (c - h) * 8, from + c * plane + at, (size_t)width * sizeof *some);
      for (int64_t i = 0; i < width; i++)
        for (int c = 0; c < 8; c++) to[(at + i) * LANES + h + c] = some[c * 8 + i];
    }
  }
}

/* Like transpose, for a row from element `at` of x on, which may be BF16. */
static void kernel_winograd_transpose_row(const tiling *tiling, int64_t at, int64_t plane,
                                          int64_t valid, int64_t n, float *to) {
  enum { WIDEST = RUN * WINOGRAD_MAX + 2 };
  float wide[LANES * WIDEST];
  if (!is_bf16(tiling->args->x_type)) {
    transpose((const float *)tiling->args->x + at, plane, valid, n, to);
    return;
  }
  for (int64_t c = 0; c < valid; c++)
    widen_row((const uint16_t *)tiling->args->x + at + c * plane, n, wide + c * WIDEST);
  transpose(wide, WIDEST, valid, n, to);
}

/* Loads the inputs of neighbouring tiles, for LANES channels, to (n, width, LANES). */
static void load_inputs(const tiling *tiling, int64_t plane, int64_t valid, int64_t y0, int64_t x0,
                        int64_t width, float *to) {
  const winograd_args *args = tiling->args;
  int64_t size = args->in_rows * args->in_columns;
  int64_t low = min_i64(width, x0 < 0 ? -x0 : 0), high = min_i64(width, args->in_columns - x0);
  if (high < low) high = low;
  for (int64_t y = y0; y < y0 + tiling->n; y++, to += width * LANES) {
    if (y < 0 || y >= args->in_rows) {
      memset(to, 0, (size_t)(width * LANES) * sizeof *to);
      continue;
    }
    memset(to, 0, (size_t)(low * LANES) * sizeof *to);
    if (high > low)
      kernel_winograd_transpose_row(tiling, plane * size + y * args->in_columns + x0 + low, size,
                                    valid, high - low, to + low * LANES);
    memset(to + high * LANES, 0, (size_t)((width - high) * LANES) * sizeof *to);
  }
}

/* The position of a tile. */
typedef struct place {
  int64_t image, row, column;
} place;

static place kernel_winograd_place_of(const tiling *tiling, int64_t tile) {
  return (place){tile / (tiling->rows * tiling->columns), tile / tiling->columns % tiling->rows,
                 tile % tiling->columns};
}

/* Computes factors of tiles [first, first + count) for LANES channels. to: factors of the first
 * tile. */
static void kernel_winograd_make_factors(const tiling *tiling, int64_t group, int64_t channels,
                                         int64_t first, int64_t count, float *to, float *inputs) {
  const winograd_args *args = tiling->args;
  int64_t channel = channels * LANES, valid = min_i64(LANES, args->channels - channel);
  for (int64_t n; count > 0; first += n, count -= n) {
    place at = kernel_winograd_place_of(tiling, first);
    n = min_i64(min_i64(RUN, count), tiling->columns - at.column);
    int64_t width = n * tiling->m + 2,
            plane = (at.image * args->groups + group) * args->channels + channel;
    load_inputs(tiling, plane, valid, at.row * tiling->m - args->top,
                at.column * tiling->m - args->left, width, inputs);
    for (int64_t i = 0; i < n; i++, to += LANES)
      tiling->kernel.factors(inputs + i * tiling->m * LANES, width, to, factor_stride(tiling));
  }
}

/* ---------------------------------------------------------------- outputs */

/* The part of a tile that is inside the image. at: index in out of its first output. */
typedef struct patch {
  int64_t at, rows, columns;
} patch;

static patch kernel_winograd_patch_of(const winograd_args *args, int64_t m, const place *at,
                                      int64_t output) {
  int64_t y = at->row * m, x = at->column * m;
  int64_t plane = at->image * args->groups * args->outputs + output;
  return (patch){(plane * args->out_rows + y) * args->out_columns + x,
                 min_i64(m, args->out_rows - y), min_i64(m, args->out_columns - x)};
}

static inline float kernel_winograd_widened(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Adds epilogue.added to cells (m, m). */
static void kernel_winograd_add_tile(const tiling *tiling, const patch *of, float *cells) {
  const winograd_args *args = tiling->args;
  const float *from = (const float *)args->epilogue.added + of->at;
  const uint16_t *bf16 = (const uint16_t *)args->epilogue.added + of->at;
  for (int64_t i = 0; i < of->rows; i++, cells += tiling->m) {
    if (!is_bf16(args->epilogue.added_type)) {
      for (int64_t x = 0; x < of->columns; x++) cells[x] += from[x];
      from += args->out_columns;
      continue;
    }
    if (of->columns == 4)
      for (int x = 0; x < 4; x++) cells[x] += kernel_winograd_widened(bf16[x]);
    else
      for (int64_t x = 0; x < of->columns; x++) cells[x] += kernel_winograd_widened(bf16[x]);
    bf16 += args->out_columns;
  }
}

static void store_bf16_tile(const tiling *tiling, const patch *of, const uint16_t *cells) {
  uint16_t *to = (uint16_t *)tiling->args->out + of->at;
  for (int64_t i = 0; i < of->rows; i++, to += tiling->args->out_columns, cells += tiling->m) {
    if (of->columns == 4)
      memcpy(to, cells, 4 * sizeof *to);
    else
      memcpy(to, cells, (size_t)of->columns * sizeof *to);
  }
}

static void kernel_winograd_store_tile(const tiling *tiling, const patch *of, const float *cells) {
  float *to = (float *)tiling->args->out + of->at;
  for (int64_t i = 0; i < of->rows; i++, to += tiling->args->out_columns, cells += tiling->m) {
    if (of->columns == 4)
      memcpy(to, cells, 4 * sizeof *to);
    else if (of->columns == 2)
      memcpy(to, cells, 2 * sizeof *to);
    else
      memcpy(to, cells, (size_t)of->columns * sizeof *to);
  }
}

/* Stores cells (LANES, CELLS) of n tiles of outputs [output, output + valid). */
static void kernel_winograd_store_cells(const tiling *tiling, int64_t first, int64_t n,
                                        int64_t output, int64_t valid, float *cells) {
  const winograd_args *args = tiling->args;
  const conv_epilogue *epilogue = &args->epilogue;
  const conv_epilogue limits = {.low = epilogue->low, .high = epilogue->high};
  const int64_t stride = (int64_t)tiling->m * tiling->m;
  const bool has_limits =
      limits.low > conv_epilogue_none.low || limits.high < conv_epilogue_none.high;
  for (int64_t k = 0; epilogue->added && k < n; k++) {
    const place at = kernel_winograd_place_of(tiling, first + k);
    for (int64_t lane = 0; lane < valid; lane++) {
      const patch of = kernel_winograd_patch_of(args, tiling->m, &at, output + lane);
      kernel_winograd_add_tile(tiling, &of, cells + lane * CELLS + k * stride);
    }
  }
  if (has_limits) conv_epilogue_row(&limits, -0.0F, 0, 0, valid * CELLS, cells, cells);
  uint16_t bf16[LANES * CELLS];
  if (is_bf16(args->out_type)) {
    bf16_steps(&args->steps, cells, valid * CELLS);
    row_to_bf16(cells, valid * CELLS, bf16);
  } else {
    steps_in_place(&args->steps, cells, 0, valid * CELLS, 1, 0);
  }
  for (int64_t k = 0; k < n; k++) {
    const place at = kernel_winograd_place_of(tiling, first + k);
    for (int64_t lane = 0; lane < valid; lane++) {
      const patch of = kernel_winograd_patch_of(args, tiling->m, &at, output + lane);
      if (is_bf16(args->out_type))
        store_bf16_tile(tiling, &of, bf16 + lane * CELLS + k * stride);
      else
        kernel_winograd_store_tile(tiling, &of, cells + lane * CELLS + k * stride);
    }
  }
}

/* Loads the inputs (n, n) of a tile from the plane that starts at element `plane` of x. */
static void load_tile(const tiling *tiling, const place *at, int64_t plane, double *to) {
  const winograd_args *args = tiling->args;
  int64_t y0 = at->row * tiling->m - args->top, x0 = at->column * tiling->m - args->left;
  for (int64_t y = y0; y < y0 + tiling->n; y++)
    for (int64_t x = x0; x < x0 + tiling->n; x++) {
      bool inside = y >= 0 && y < args->in_rows && x >= 0 && x < args->in_columns;
      const int64_t i = plane + y * args->in_columns + x;
      *to++ = !inside                 ? 0
              : is_bf16(args->x_type) ? (double)bf16_to_f32(((const uint16_t *)args->x)[i])
                                      : (double)((const float *)args->x)[i];
    }
}

/* Loads the 3x3 kernel of an output and a channel. */
static void load_taps(const winograd_args *args, int64_t output, int64_t channel, float *to) {
  const conv_weight all = {args->weight, args->weight_type, args->encoding, args->channels * TAPS};
  conv_weight_load(&all, output, channel * TAPS, TAPS, to);
}

/* Adds one channel to the sums (m, m). */
KERNEL_INLINE void add_taps(int m, const float *weight, const double *inputs, double *sums) {
  for (int tap = 0; tap < TAPS; tap++) {
    const double w = (double)weight[tap], *from = inputs + tap / WINOGRAD_SIDE * (m + 2);
    for (int i = 0; i < m * m; i++)
      sums[i] += w * from[i / m * (m + 2) + i % m + tap % WINOGRAD_SIDE];
  }
}

/* Computes cells (m, m, LANES) of a tile directly from the inputs, for the wanted ones of outputs
 * [output, output + LANES). */
static void compute_directly(const tiling *tiling, const place *at, int64_t output,
                             const bool *wanted, float *cells) {
  const winograd_args *args = tiling->args;
  double inputs[MAX_FACTORS], sums[LANES][WINOGRAD_MAX * WINOGRAD_MAX] = {{0}};
  int64_t size = args->in_rows * args->in_columns, group = output / args->outputs;
  int64_t x = (at->image * args->groups + group) * args->channels * size;
  for (int64_t c = 0; c < args->channels; c++, x += size) {
    load_tile(tiling, at, x, inputs);
    for (int lane = 0; lane < LANES; lane++) {
      if (!wanted[lane]) continue;
      float weight[TAPS];
      load_taps(args, output + lane, c, weight);
      if (tiling->m == 2)
        add_taps(2, weight, inputs, sums[lane]);
      else
        add_taps(4, weight, inputs, sums[lane]);
    }
  }
  for (int lane = 0; lane < LANES; lane++) {
    if (!wanted[lane]) continue;
    double bias = args->bias ? (double)((const float *)args->bias)[output + lane] : 0;
    for (int i = 0; i < tiling->m * tiling->m; i++)
      cells[i * LANES + lane] = (float)(sums[lane][i] + bias);
  }
}

static bool winograd_cells_are_finite(const float *check) {
  int others = 0;
  for (int lane = 0; lane < LANES; lane++) others |= check[lane] - check[lane] != 0;
  return !others;
}

/* Recomputes outputs that are not finite directly, in tiles [first, first + count). check: the sum
 * of each output's cells. Winograd's method would spread an infinite input over the whole tile. */
static void recompute_outputs(const tiling *tiling, int64_t first, int64_t count, int64_t output,
                              int64_t valid, const float *check, float *cells) {
  const int n_cells = tiling->m * tiling->m;
  if (winograd_cells_are_finite(check)) return;
  for (int64_t tile = first; tile < first + count; tile++, cells += n_cells * LANES) {
    const place at = kernel_winograd_place_of(tiling, tile);
    bool wanted[LANES];
    for (int lane = 0; lane < LANES; lane++) {
      float sum = 0;
      for (int i = 0; i < n_cells; i++) sum += cells[i * LANES + lane];
      wanted[lane] = lane < valid && sum - sum != 0;
    }
    compute_directly(tiling, &at, output, wanted, cells);
  }
}

/* Stores outputs [output, output + valid), transformed from sums. sums: of the first tile. */
static void finish_tiles(const tiling *tiling, int64_t first, int64_t count, int64_t output,
                         int64_t valid, const float *sums) {
  const winograd_args *args = tiling->args;
  float cells[CELLS * LANES], transposed[LANES * CELLS], bias[LANES] = {0};
  int64_t n_cells = (int64_t)tiling->m * tiling->m, at_once = CELLS / n_cells;
  if (args->bias) memcpy(bias, (const float *)args->bias + output, (size_t)valid * sizeof *bias);
  for (int64_t i = 0; i < count; i += at_once) {
    int64_t n = min_i64(at_once, count - i);
    float check[LANES] = {0};
    for (int64_t k = 0; k < n; k++)
      tiling->kernel.outputs(sums + (i + k) * tiling->kernel.nr, sum_stride(tiling), bias,
                             cells + k * n_cells * LANES, check);
    recompute_outputs(tiling, first + i, n, output, valid, check, cells);
    for (int h = 0; h < 4; h++)
      transpose_8x8(cells + h / 2 * 8 * LANES + h % 2 * 8, LANES,
                    transposed + h % 2 * 8 * CELLS + h / 2 * 8, CELLS);
    kernel_winograd_store_cells(tiling, first + i, n, output, valid, transposed);
  }
}

/* Multiplies one factor of a panel: sums (count, nr) of tiles [at, at + count) of a block. */
static void multiply_factor(const tiling *tiling, const float *factors, int64_t at, int64_t count,
                            const float *weight, float *sums) {
  int64_t nr = tiling->kernel.nr, strips = ceil_div(count, tiling->kernel.mr);
  int64_t height = ceil_div(count, strips), stride = tiling->block * LANES;
  for (int64_t k = 0; k < tiling->args->channels; k += DEEP)
    for (int64_t i = 0; i < count; i += height) {
      const winograd_product product = {.k = min_i64(DEEP, tiling->args->channels - k),
                                        .a = factors + k / LANES * stride + (at + i) * LANES,
                                        .a_stride = stride,
                                        .b = weight + k * nr,
                                        .c = sums + i * nr,
                                        .adds = k > 0};
      tiling->kernel.multiply(&product, (int)min_i64(height, count - i));
    }
}

/* Computes a panel of outputs for tiles [at, at + count) of the block that starts at `first`. */
static void kernel_winograd_make_outputs(const tiling *tiling, int64_t group, int64_t panel,
                                         int64_t first, int64_t at, int64_t count,
                                         const float *factors, float *sums) {
  const winograd_args *args = tiling->args;
  int64_t nr = tiling->kernel.nr, n_factors = (int64_t)tiling->n * tiling->n;
  const float *weight = (const float *)args->packed +
                        (group * tiling->panels + panel) * n_factors * args->channels * nr;
  for (int64_t i = 0; i < n_factors; i++)
    multiply_factor(tiling, factors + i * factor_stride(tiling), at, count,
                    weight + i * args->channels * nr, sums + i * sum_stride(tiling));
  for (int64_t o = panel * nr; o < min_i64((panel + 1) * nr, args->outputs); o += LANES)
    finish_tiles(tiling, first + at, count, group * args->outputs + o,
                 min_i64(LANES, args->outputs - o), sums + o - panel * nr);
}

/* ---------------------------------------------------------------- a block for each thread */

static void kernel_winograd_run_block(const void *user, int64_t task, char *scratch) {
  const tiling *tiling = user;
  int64_t of_group = ceil_div(tiling->tiles, tiling->block), group = task / of_group;
  int64_t first = task % of_group * tiling->block,
          count = min_i64(tiling->block, tiling->tiles - first);
  float *factors = (float *)(void *)scratch,
        *rest = (float *)(void *)(scratch + factor_bytes(tiling));
  for (int64_t c = 0; c < tiling->blocks; c++)
    kernel_winograd_make_factors(tiling, group, c, first, count,
                                 factors + c * tiling->block * LANES, rest);
  for (int64_t panel = 0; panel < tiling->panels; panel++)
    for (int64_t at = 0; at < count; at += tiling->at_once)
      kernel_winograd_make_outputs(tiling, group, panel, first, at,
                                   min_i64(tiling->at_once, count - at), factors, rest);
}

/* ---------------------------------------------------------------- a block for all threads */

static void run_factors(const void *user, int64_t task, char *scratch) {
  const tiling *tiling = user;
  int64_t runs = ceil_div(tiling->count, RUN), at = task % runs * RUN, channels = task / runs;
  kernel_winograd_make_factors(
      tiling, tiling->group, channels, tiling->first + at, min_i64(RUN, tiling->count - at),
      tiling->factors + (channels * tiling->block + at) * LANES, (float *)(void *)scratch);
}

static void run_outputs(const void *user, int64_t task, char *scratch) {
  const tiling *tiling = user;
  int64_t shares = ceil_div(tiling->count, tiling->at_once), at = task % shares * tiling->at_once;
  kernel_winograd_make_outputs(tiling, tiling->group, task / shares, tiling->first, at,
                               min_i64(tiling->at_once, tiling->count - at), tiling->factors,
                               (float *)(void *)scratch);
}

static size_t kernel_winograd_shared_bytes(const kernel_context *ctx, const tiling *tiling) {
  int64_t factors = tiling->blocks * ceil_div(tiling->block, RUN);
  int64_t outputs = tiling->panels * ceil_div(tiling->block, tiling->at_once);
  return kernel_scratch_size(factor_bytes(tiling)) +
         slots_bytes(ctx, factors > outputs ? factors : outputs, tiling->work,
                     kernel_winograd_task_bytes(tiling));
}

static void kernel_winograd_run_shared(const kernel_context *ctx, tiling *tiling, char *memory) {
  char *slots = memory + kernel_scratch_size(factor_bytes(tiling));
  tiling->factors = (float *)(void *)memory;
  for (tiling->group = 0; tiling->group < tiling->args->groups; tiling->group++)
    for (tiling->first = 0; tiling->first < tiling->tiles; tiling->first += tiling->block) {
      tiling->count = min_i64(tiling->block, tiling->tiles - tiling->first);
      run_slots_in(ctx, tiling->blocks * ceil_div(tiling->count, RUN), tiling->work,
                   kernel_winograd_task_bytes(tiling), run_factors, tiling, slots);
      run_slots_in(ctx, tiling->panels * ceil_div(tiling->count, tiling->at_once), tiling->work,
                   kernel_winograd_task_bytes(tiling), run_outputs, tiling, slots);
    }
}

/* ---------------------------------------------------------------- the kernel */

static int64_t block_tasks(const tiling *tiling) {
  return tiling->args->groups * ceil_div(tiling->tiles, tiling->block);
}

static size_t winograd_scratch(const kernel_context *ctx, const void *args) {
  const tiling tiling = kernel_winograd_plan_tiling(ctx, args);
  if (tiling.tiles == 0 || tiling.panels == 0) return 0;
  if (tiling.shared) return kernel_winograd_shared_bytes(ctx, &tiling);
  return slots_bytes(ctx, block_tasks(&tiling), tiling.work,
                     factor_bytes(&tiling) + kernel_winograd_task_bytes(&tiling));
}

static bool winograd(const kernel_context *ctx, const void *args) {
  tiling tiling = kernel_winograd_plan_tiling(ctx, args);
  size_t bytes = winograd_scratch(ctx, args);
  char *memory = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes == 0) return true;
  if (!memory) return false;
  if (tiling.shared)
    kernel_winograd_run_shared(ctx, &tiling, memory);
  else
    run_slots_in(ctx, block_tasks(&tiling), tiling.work,
                 factor_bytes(&tiling) + kernel_winograd_task_bytes(&tiling),
                 kernel_winograd_run_block, &tiling, memory);
  return true;
}

const kernel_desc kernel_winograd = {
    .name = "winograd",
    .run = winograd,
    .scratch = winograd_scratch,
    .args_size = sizeof(winograd_args),
    .steps = OPERAND(winograd_args, steps),
    .operands = {OPERAND(winograd_args, x), OPERAND(winograd_args, weight),
                 OPERAND(winograd_args, packed), OPERAND(winograd_args, bias),
                 OPERAND(winograd_args, out), OPERAND(winograd_args, epilogue.added)}};

/* ---------------------------------------------------------------- packing */

typedef struct packing {
  const winograd_args *args;
  int64_t nr, panels;
  float *to; /* (groups, panels, n * n, channels, nr) */
} packing;

static size_t kernel_winograd_packed_bytes(const winograd_args *args) {
  int64_t nr = winograd_kernel_for(args->tile).nr, n = args->tile + 2;
  return (size_t)(args->groups * ceil_div(args->outputs, nr) * n * n * args->channels * nr) *
         sizeof(float);
}

/* Loads the kernels (3, 3, LANES) of a channel and LANES outputs, only `valid` of which exist. */
static void load_kernels(const winograd_args *args, int64_t output, int64_t valid, int64_t channel,
                         double *to) {
  memset(to, 0, TAPS * LANES * sizeof *to);
  for (int64_t i = 0; i < valid; i++) {
    float from[TAPS];
    load_taps(args, output + i, channel, from);
    for (int64_t tap = 0; tap < TAPS; tap++) to[tap * LANES + i] = (double)from[tap];
  }
}

/* Packs the factors of a channel of a panel. */
static void pack_channel(const packing *packing, int64_t panel, int64_t channel) {
  const winograd_args *args = packing->args;
  int64_t n_factors = (int64_t)(args->tile + 2) * (args->tile + 2);
  int64_t group = panel / packing->panels, first = panel % packing->panels * packing->nr;
  float *to = packing->to + (panel * n_factors * args->channels + channel) * packing->nr;
  double kernels[TAPS * LANES];
  float factors[MAX_FACTORS * LANES];
  for (int64_t lane = 0; lane < packing->nr; lane += LANES) {
    int64_t left = args->outputs - first - lane, valid = left < 0 ? 0 : min_i64(LANES, left);
    load_kernels(args, group * args->outputs + first + lane, valid, channel, kernels);
    winograd_weight(args->tile, kernels, factors);
    for (int64_t i = 0; i < n_factors; i++)
      memcpy(to + i * args->channels * packing->nr + lane, factors + i * LANES, LANES * sizeof *to);
  }
}

static void pack_channels(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  for (int64_t i = begin; i < end; i++)
    pack_channel(packing, i / packing->args->channels, i % packing->args->channels);
}

static size_t kernel_winograd_pack_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  return kernel_scratch_size(kernel_winograd_packed_bytes(args));
}

static bool run_winograd_pack(const kernel_context *ctx, const void *args) {
  const winograd_args *own = args;
  packing packing = {.args = own, .nr = winograd_kernel_for(own->tile).nr};
  packing.to = ctx->scratch(ctx->pool, kernel_winograd_packed_bytes(own));
  packing.panels = ceil_div(own->outputs, packing.nr);
  if (!packing.to) return false;
  ctx->parallel_for(ctx->pool, own->groups * packing.panels * own->channels, PACK_GRAIN,
                    pack_channels, &packing);
  return true;
}

const kernel_desc kernel_winograd_pack = {.name = "winograd_pack",
                                          .run = run_winograd_pack,
                                          .scratch = kernel_winograd_pack_scratch,
                                          .args_size = sizeof(winograd_args),
                                          .operands = {OPERAND(winograd_args, weight)}};
