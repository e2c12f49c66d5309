/* Winograd's method: the image is cut into tiles, which overlap. Those of a block become factors, n
 * x n matrices (tiles, channels); each is multiplied with its matrix (channels, outputs) of the
 * weight, and the sums make tiles of outputs. Threads have blocks of their own, or share one where
 * there are few tiles. */
#include "backend/cpu/kernels/conv/winograd.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/conv/winograd_kernels.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  LANES = WINOGRAD_LANES,
  MOST_N = WINOGRAD_MOST + 2,
  MOST_FACTORS = MOST_N * MOST_N,
  TAPS = WINOGRAD_SIDE * WINOGRAD_SIDE,
  BLOCK_BYTES = 640 << 10, /* of factors: what the second-level cache keeps */
  LEAST_BLOCK = 32,        /* tiles, so that the weight is not read too often */
  PART = 32,               /* tiles whose sums of a panel are in the cache, at most */
  LEAST_PART = 6,          /* tiles for which a weight is worth reading */
  RUN = 16,                /* tiles that one task makes factors of */
  CELLS = 16,              /* outputs that are stored at once */
  DEEP = 64,               /* channels whose weight of a panel the first-level cache keeps */
  WORK = 256 * 1024,       /* multiplications that are worth waking a thread up */
  PACK_GRAIN = 4           /* panels' channels */
};

typedef struct tiling {
  const winograd_args *p;
  winograd_kernel kernel;
  int m, n;
  int64_t rows, columns, tiles; /* tiles of an image, and of all */
  int64_t blocks;               /* of LANES channels */
  int64_t panels;               /* of outputs, of a group */
  int64_t block;                /* tiles whose factors are in memory */
  int64_t part;                 /* tiles that are multiplied at once */
  bool shared;                  /* threads share a block */
  int64_t work;                 /* threads that it is worth, or a group of a shared one */
  /* Of a shared block: */
  float *factors;
  int64_t group, first, count;
} tiling;

/* ---------------------------------------------------------------- sizes */

static int64_t factor_step(const tiling *t) { return (t->blocks * t->block + 1) * LANES; }
static int64_t sum_step(const tiling *t) { return t->part * t->kernel.nr + LANES; }
static size_t factor_bytes(const tiling *t) {
  return (size_t)(t->n * t->n * factor_step(t)) * sizeof(float);
}
static size_t input_bytes(const tiling *t) {
  return (size_t)(t->n * (RUN * t->m + 2) * LANES) * sizeof(float);
}
static size_t sum_bytes(const tiling *t) {
  return (size_t)(t->n * t->n * sum_step(t)) * sizeof(float);
}
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
/* Of a task of either kind: they follow each other. */
static size_t task_bytes(const tiling *t) { return larger(input_bytes(t), sum_bytes(t)); }

/* Equal parts of n, a multiple of `of` in number. */
static int64_t equal_parts(int64_t n, int64_t most, int64_t of) {
  int64_t parts = ceil_div(n, most);
  parts = ceil_div(parts, of) * of;
  return ceil_div(n, parts > 0 ? parts : 1);
}

/* Whose factors the second-level caches of so many threads keep. */
static int64_t most_tiles(const tiling *t, int64_t n_threads) {
  int64_t tile_bytes = t->n * t->n * t->blocks * LANES * (int64_t)sizeof(float);
  int64_t most = n_threads * BLOCK_BYTES / (tile_bytes > 0 ? tile_bytes : 1);
  return most < LEAST_BLOCK ? LEAST_BLOCK : most;
}

/* Few enough that there is a task of a panel for each thread. */
static int64_t most_of_task(const tiling *t, int64_t n_threads) {
  int64_t parts = ceil_div(n_threads, t->panels > 0 ? t->panels : 1);
  int64_t most = ceil_div(t->block, parts);
  return least(PART, most < LEAST_PART ? LEAST_PART : most);
}

static tiling plan_tiling(const kernel_context *ctx, const winograd_args *p) {
  tiling t = {.p = p, .kernel = winograd_kernel_for(p->tile), .m = p->tile, .n = p->tile + 2};
  t.rows = ceil_div(p->out_rows, t.m);
  t.columns = ceil_div(p->out_columns, t.m);
  t.tiles = p->images * t.rows * t.columns;
  t.blocks = ceil_div(p->channels, LANES);
  t.panels = ceil_div(p->outputs, t.kernel.nr);
  int64_t multiplies = t.tiles * t.n * t.n * p->channels * p->outputs;
  t.shared = p->groups * (t.tiles / LEAST_BLOCK) < ctx->n_threads && ctx->n_threads > 1;
  t.work = (t.shared ? 1 : p->groups) * multiplies / WORK;
  t.block = equal_parts(t.tiles, most_tiles(&t, t.shared ? ctx->n_threads : 1),
                        t.shared ? 1 : ctx->n_threads);
  t.part = equal_parts(t.block, t.shared ? most_of_task(&t, ctx->n_threads) : PART, 1);
  return t;
}

/* ---------------------------------------------------------------- factors */

/* LANES channels of n neighbouring elements, `plane` apart, to n times LANES; channels from `here`
 * on are zeros. */
static void turn(const float *from, int64_t plane, int64_t here, int64_t n, float *to) {
  float some[8 * 8];
  for (int64_t x = 0; x < n; x += 8) {
    /* the last 8 once more, in part */
    const int64_t at = n >= 8 ? least(x, n - 8) : 0, width = least(8, n);
    for (int h = 0; h < LANES; h += 8) {
      if (here >= h + 8 && width == 8) {
        transpose_8x8(from + h * plane + at, plane, to + at * LANES + h, LANES);
        continue;
      }
      memset(some, 0, sizeof some);
      for (int64_t c = h; c < least(here, h + 8); c++)
        memcpy(some + (c - h) * 8, from + c * plane + at, (size_t)width * sizeof *some);
      for (int64_t i = 0; i < width; i++)
        for (int c = 0; c < 8; c++) to[(at + i) * LANES + h + c] = some[c * 8 + i];
    }
  }
}

/* The same of a row from element `at` of x on. */
static void turn_row(const tiling *t, int64_t at, int64_t plane, int64_t here, int64_t n,
                     float *to) {
  enum { WIDEST = RUN * WINOGRAD_MOST + 2 };
  float wide[LANES * WIDEST];
  if (!is_bf16(t->p->x_type)) {
    turn((const float *)t->p->x + at, plane, here, n, to);
    return;
  }
  for (int64_t c = 0; c < here; c++)
    widen_row((const uint16_t *)t->p->x + at + c * plane, n, wide + c * WIDEST);
  turn(wide, WIDEST, here, n, to);
}

/* What `run` neighbouring tiles see of LANES channels: to (n, width, LANES). */
static void load_inputs(const tiling *t, int64_t plane, int64_t here, int64_t y0, int64_t x0,
                        int64_t width, float *to) {
  const winograd_args *p = t->p;
  int64_t size = p->in_rows * p->in_columns;
  int64_t low = least(width, x0 < 0 ? -x0 : 0), high = least(width, p->in_columns - x0);
  if (high < low) high = low;
  for (int64_t y = y0; y < y0 + t->n; y++, to += width * LANES) {
    if (y < 0 || y >= p->in_rows) {
      memset(to, 0, (size_t)(width * LANES) * sizeof *to);
      continue;
    }
    memset(to, 0, (size_t)(low * LANES) * sizeof *to);
    if (high > low)
      turn_row(t, plane * size + y * p->in_columns + x0 + low, size, here, high - low,
               to + low * LANES);
    memset(to + high * LANES, 0, (size_t)((width - high) * LANES) * sizeof *to);
  }
}

/* Where a tile is. */
typedef struct place {
  int64_t image, row, column;
} place;

static place place_of(const tiling *t, int64_t tile) {
  return (place){tile / (t->rows * t->columns), tile / t->columns % t->rows, tile % t->columns};
}

/* Of tiles [first, first + count), and LANES channels, to where those of the first are. */
static void make_factors(const tiling *t, int64_t group, int64_t channels, int64_t first,
                         int64_t count, float *to, float *inputs) {
  const winograd_args *p = t->p;
  int64_t channel = channels * LANES, here = least(LANES, p->channels - channel);
  for (int64_t n; count > 0; first += n, count -= n) {
    place at = place_of(t, first);
    n = least(least(RUN, count), t->columns - at.column);
    int64_t width = n * t->m + 2, plane = (at.image * p->groups + group) * p->channels + channel;
    load_inputs(t, plane, here, at.row * t->m - p->top, at.column * t->m - p->left, width, inputs);
    for (int64_t i = 0; i < n; i++, to += LANES)
      t->kernel.factors(inputs + i * t->m * LANES, width, to, factor_step(t));
  }
}

/* ---------------------------------------------------------------- outputs */

/* The outputs of a tile that lie in the image: element `at` of out is the first. */
typedef struct patch {
  int64_t at, rows, columns;
} patch;

static patch patch_of(const winograd_args *p, int64_t m, const place *at, int64_t output) {
  int64_t y = at->row * m, x = at->column * m;
  int64_t plane = at->image * p->groups * p->outputs + output;
  return (patch){(plane * p->out_rows + y) * p->out_columns + x, least(m, p->out_rows - y),
                 least(m, p->out_columns - x)};
}

static inline float widened(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* cells: (m, m) */
static void add_tile(const tiling *t, const patch *of, float *cells) {
  const winograd_args *p = t->p;
  const float *from = (const float *)p->tail.added + of->at;
  const uint16_t *narrow = (const uint16_t *)p->tail.added + of->at;
  for (int64_t i = 0; i < of->rows; i++, cells += t->m) {
    if (!is_bf16(p->tail.added_type)) {
      for (int64_t x = 0; x < of->columns; x++) cells[x] += from[x];
      from += p->out_columns;
      continue;
    }
    if (of->columns == 4)
      for (int x = 0; x < 4; x++) cells[x] += widened(narrow[x]);
    else
      for (int64_t x = 0; x < of->columns; x++) cells[x] += widened(narrow[x]);
    narrow += p->out_columns;
  }
}

static void store_narrow_tile(const tiling *t, const patch *of, const uint16_t *cells) {
  uint16_t *to = (uint16_t *)t->p->out + of->at;
  for (int64_t i = 0; i < of->rows; i++, to += t->p->out_columns, cells += t->m) {
    if (of->columns == 4)
      memcpy(to, cells, 4 * sizeof *to);
    else
      memcpy(to, cells, (size_t)of->columns * sizeof *to);
  }
}

static void store_tile(const tiling *t, const patch *of, const float *cells) {
  float *to = (float *)t->p->out + of->at;
  for (int64_t i = 0; i < of->rows; i++, to += t->p->out_columns, cells += t->m) {
    if (of->columns == 4)
      memcpy(to, cells, 4 * sizeof *to);
    else if (of->columns == 2)
      memcpy(to, cells, 2 * sizeof *to);
    else
      memcpy(to, cells, (size_t)of->columns * sizeof *to);
  }
}

/* cells: (LANES, CELLS), of n tiles of outputs [output, output + here). */
static void store_cells(const tiling *t, int64_t first, int64_t n, int64_t output, int64_t here,
                        float *cells) {
  const winograd_args *p = t->p;
  const conv_tail *tail = &p->tail;
  const conv_tail limits = {.low = tail->low, .high = tail->high};
  const int64_t step = (int64_t)t->m * t->m;
  const bool has_limits = limits.low > conv_tail_none.low || limits.high < conv_tail_none.high;
  for (int64_t k = 0; tail->added && k < n; k++) {
    const place at = place_of(t, first + k);
    for (int64_t lane = 0; lane < here; lane++) {
      const patch of = patch_of(p, t->m, &at, output + lane);
      add_tile(t, &of, cells + lane * CELLS + k * step);
    }
  }
  if (has_limits) conv_tail_row(&limits, -0.0F, 0, here * CELLS, cells, cells);
  uint16_t narrow[LANES * CELLS];
  if (is_bf16(p->out_type)) {
    bf16_steps(&p->steps, cells, here * CELLS);
    narrow_row(cells, here * CELLS, narrow);
  } else {
    steps_in_place(&p->steps, cells, 0, here * CELLS, 1, 0);
  }
  for (int64_t k = 0; k < n; k++) {
    const place at = place_of(t, first + k);
    for (int64_t lane = 0; lane < here; lane++) {
      const patch of = patch_of(p, t->m, &at, output + lane);
      if (is_bf16(p->out_type))
        store_narrow_tile(t, &of, narrow + lane * CELLS + k * step);
      else
        store_tile(t, &of, cells + lane * CELLS + k * step);
    }
  }
}

/* The inputs (n, n) of a tile in the plane from element `plane` of x on. */
static void load_tile(const tiling *t, const place *at, int64_t plane, double *to) {
  const winograd_args *p = t->p;
  int64_t y0 = at->row * t->m - p->top, x0 = at->column * t->m - p->left;
  for (int64_t y = y0; y < y0 + t->n; y++)
    for (int64_t x = x0; x < x0 + t->n; x++) {
      bool inside = y >= 0 && y < p->in_rows && x >= 0 && x < p->in_columns;
      const int64_t i = plane + y * p->in_columns + x;
      *to++ = !inside              ? 0
              : is_bf16(p->x_type) ? (double)bf16_to_f32(((const uint16_t *)p->x)[i])
                                   : (double)((const float *)p->x)[i];
    }
}

/* The kernel of a channel of an output. */
static void load_taps(const winograd_args *p, int64_t output, int64_t channel, float *to) {
  const conv_weight all = {p->weight, p->weight_type, p->encoding, p->channels * TAPS};
  conv_weight_load(&all, output, channel * TAPS, TAPS, to);
}

/* Sums (m, m) of a channel. */
KERNEL_INLINE void add_taps(int m, const float *weight, const double *inputs, double *sums) {
  for (int tap = 0; tap < TAPS; tap++) {
    const double w = (double)weight[tap], *from = inputs + tap / WINOGRAD_SIDE * (m + 2);
    for (int i = 0; i < m * m; i++)
      sums[i] += w * from[i / m * (m + 2) + i % m + tap % WINOGRAD_SIDE];
  }
}

/* Of outputs [output, output + LANES) of a tile those that are wanted, from the inputs themselves:
 * cells (m, m, LANES). */
static void compute_directly(const tiling *t, const place *at, int64_t output, const bool *wanted,
                             float *cells) {
  const winograd_args *p = t->p;
  double inputs[MOST_FACTORS], sums[LANES][WINOGRAD_MOST * WINOGRAD_MOST] = {{0}};
  int64_t size = p->in_rows * p->in_columns, group = output / p->outputs;
  int64_t x = (at->image * p->groups + group) * p->channels * size;
  for (int64_t c = 0; c < p->channels; c++, x += size) {
    load_tile(t, at, x, inputs);
    for (int lane = 0; lane < LANES; lane++) {
      if (!wanted[lane]) continue;
      float weight[TAPS];
      load_taps(p, output + lane, c, weight);
      if (t->m == 2)
        add_taps(2, weight, inputs, sums[lane]);
      else
        add_taps(4, weight, inputs, sums[lane]);
    }
  }
  for (int lane = 0; lane < LANES; lane++) {
    if (!wanted[lane]) continue;
    double bias = p->bias ? (double)((const float *)p->bias)[output + lane] : 0;
    for (int i = 0; i < t->m * t->m; i++) cells[i * LANES + lane] = (float)(sums[lane][i] + bias);
  }
}

static bool are_finite(const float *check) {
  int others = 0;
  for (int lane = 0; lane < LANES; lane++) others |= check[lane] - check[lane] != 0;
  return !others;
}

/* Tiles [first, first + count) whose cells have been added up in `check`: what is infinite or no
 * number is so only where the inputs are. */
static void mend(const tiling *t, int64_t first, int64_t count, int64_t output, int64_t here,
                 const float *check, float *cells) {
  const int n_cells = t->m * t->m;
  if (are_finite(check)) return;
  for (int64_t tile = first; tile < first + count; tile++, cells += n_cells * LANES) {
    const place at = place_of(t, tile);
    bool wanted[LANES];
    for (int lane = 0; lane < LANES; lane++) {
      float sum = 0;
      for (int i = 0; i < n_cells; i++) sum += cells[i * LANES + lane];
      wanted[lane] = lane < here && sum - sum != 0;
    }
    compute_directly(t, &at, output, wanted, cells);
  }
}

/* Of outputs [output, output + LANES) of a group, `here` of which there are. sums: the first
 * tile's. */
static void finish_tiles(const tiling *t, int64_t first, int64_t count, int64_t output,
                         int64_t here, const float *sums) {
  const winograd_args *p = t->p;
  float cells[CELLS * LANES], turned[LANES * CELLS], bias[LANES] = {0};
  int64_t n_cells = (int64_t)t->m * t->m, at_once = CELLS / n_cells;
  if (p->bias) memcpy(bias, (const float *)p->bias + output, (size_t)here * sizeof *bias);
  for (int64_t i = 0; i < count; i += at_once) {
    int64_t n = least(at_once, count - i);
    float check[LANES] = {0};
    for (int64_t k = 0; k < n; k++)
      t->kernel.outputs(sums + (i + k) * t->kernel.nr, sum_step(t), bias,
                        cells + k * n_cells * LANES, check);
    mend(t, first + i, n, output, here, check, cells);
    for (int h = 0; h < 4; h++)
      transpose_8x8(cells + h / 2 * 8 * LANES + h % 2 * 8, LANES,
                    turned + h % 2 * 8 * CELLS + h / 2 * 8, CELLS);
    store_cells(t, first + i, n, output, here, turned);
  }
}

/* One factor of a panel: sums (count, nr) of tiles [at, at + count) of a block. */
static void multiply_factor(const tiling *t, const float *factors, int64_t at, int64_t count,
                            const float *weight, float *sums) {
  int64_t nr = t->kernel.nr, strips = ceil_div(count, t->kernel.mr);
  int64_t height = ceil_div(count, strips), step = t->block * LANES;
  for (int64_t k = 0; k < t->p->channels; k += DEEP)
    for (int64_t i = 0; i < count; i += height) {
      const winograd_product product = {.k = least(DEEP, t->p->channels - k),
                                        .a = factors + k / LANES * step + (at + i) * LANES,
                                        .a_step = step,
                                        .b = weight + k * nr,
                                        .c = sums + i * nr,
                                        .adds = k > 0};
      t->kernel.multiply(&product, (int)least(height, count - i));
    }
}

/* A panel of outputs of a group, of tiles [at, at + count) of the block that begins at tile
 * `first`.
 */
static void make_outputs(const tiling *t, int64_t group, int64_t panel, int64_t first, int64_t at,
                         int64_t count, const float *factors, float *sums) {
  const winograd_args *p = t->p;
  int64_t nr = t->kernel.nr, n_factors = (int64_t)t->n * t->n;
  const float *weight =
      (const float *)p->packed + (group * t->panels + panel) * n_factors * p->channels * nr;
  for (int64_t i = 0; i < n_factors; i++)
    multiply_factor(t, factors + i * factor_step(t), at, count, weight + i * p->channels * nr,
                    sums + i * sum_step(t));
  for (int64_t o = panel * nr; o < least((panel + 1) * nr, p->outputs); o += LANES)
    finish_tiles(t, first + at, count, group * p->outputs + o, least(LANES, p->outputs - o),
                 sums + o - panel * nr);
}

/* ---------------------------------------------------------------- a block for each thread */

static void run_block(const void *user, int64_t task, char *scratch) {
  const tiling *t = user;
  int64_t of_group = ceil_div(t->tiles, t->block), group = task / of_group;
  int64_t first = task % of_group * t->block, count = least(t->block, t->tiles - first);
  float *factors = (float *)(void *)scratch, *rest = (float *)(void *)(scratch + factor_bytes(t));
  for (int64_t c = 0; c < t->blocks; c++)
    make_factors(t, group, c, first, count, factors + c * t->block * LANES, rest);
  for (int64_t panel = 0; panel < t->panels; panel++)
    for (int64_t at = 0; at < count; at += t->part)
      make_outputs(t, group, panel, first, at, least(t->part, count - at), factors, rest);
}

/* ---------------------------------------------------------------- a block for all threads */

static void run_factors(const void *user, int64_t task, char *scratch) {
  const tiling *t = user;
  int64_t runs = ceil_div(t->count, RUN), at = task % runs * RUN, channels = task / runs;
  make_factors(t, t->group, channels, t->first + at, least(RUN, t->count - at),
               t->factors + (channels * t->block + at) * LANES, (float *)(void *)scratch);
}

static void run_outputs(const void *user, int64_t task, char *scratch) {
  const tiling *t = user;
  int64_t parts = ceil_div(t->count, t->part), at = task % parts * t->part;
  make_outputs(t, t->group, task / parts, t->first, at, least(t->part, t->count - at), t->factors,
               (float *)(void *)scratch);
}

static size_t shared_bytes(const kernel_context *ctx, const tiling *t) {
  int64_t factors = t->blocks * ceil_div(t->block, RUN);
  int64_t outputs = t->panels * ceil_div(t->block, t->part);
  return kernel_scratch_size(factor_bytes(t)) +
         slots_bytes(ctx, factors > outputs ? factors : outputs, t->work, task_bytes(t));
}

static void run_shared(const kernel_context *ctx, tiling *t, char *memory) {
  char *slots = memory + kernel_scratch_size(factor_bytes(t));
  t->factors = (float *)(void *)memory;
  for (t->group = 0; t->group < t->p->groups; t->group++)
    for (t->first = 0; t->first < t->tiles; t->first += t->block) {
      t->count = least(t->block, t->tiles - t->first);
      run_slots_in(ctx, t->blocks * ceil_div(t->count, RUN), t->work, task_bytes(t), run_factors, t,
                   slots);
      run_slots_in(ctx, t->panels * ceil_div(t->count, t->part), t->work, task_bytes(t),
                   run_outputs, t, slots);
    }
}

/* ---------------------------------------------------------------- the kernel */

static int64_t block_tasks(const tiling *t) { return t->p->groups * ceil_div(t->tiles, t->block); }

static size_t winograd_scratch(const kernel_context *ctx, const void *args) {
  const tiling t = plan_tiling(ctx, args);
  if (t.tiles == 0 || t.panels == 0) return 0;
  if (t.shared) return shared_bytes(ctx, &t);
  return slots_bytes(ctx, block_tasks(&t), t.work, factor_bytes(&t) + task_bytes(&t));
}

static bool winograd(const kernel_context *ctx, const void *args) {
  tiling t = plan_tiling(ctx, args);
  size_t bytes = winograd_scratch(ctx, args);
  char *memory = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes == 0) return true;
  if (!memory) return false;
  if (t.shared)
    run_shared(ctx, &t, memory);
  else
    run_slots_in(ctx, block_tasks(&t), t.work, factor_bytes(&t) + task_bytes(&t), run_block, &t,
                 memory);
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
                 OPERAND(winograd_args, out), OPERAND(winograd_args, tail.added)}};

/* ---------------------------------------------------------------- packing */

typedef struct packing {
  const winograd_args *p;
  int64_t nr, panels;
  float *to; /* (groups, panels, n * n, channels, nr) */
} packing;

static size_t packed_bytes(const winograd_args *p) {
  int64_t nr = winograd_kernel_for(p->tile).nr, n = p->tile + 2;
  return (size_t)(p->groups * ceil_div(p->outputs, nr) * n * n * p->channels * nr) * sizeof(float);
}

/* The kernels (3, 3, LANES) of a channel and LANES outputs, `here` of which there are. */
static void load_kernels(const winograd_args *p, int64_t output, int64_t here, int64_t channel,
                         double *to) {
  memset(to, 0, TAPS * LANES * sizeof *to);
  for (int64_t i = 0; i < here; i++) {
    float from[TAPS];
    load_taps(p, output + i, channel, from);
    for (int64_t tap = 0; tap < TAPS; tap++) to[tap * LANES + i] = (double)from[tap];
  }
}

/* The factors of a channel of a panel. */
static void pack_channel(const packing *k, int64_t panel, int64_t channel) {
  const winograd_args *p = k->p;
  int64_t n_factors = (int64_t)(p->tile + 2) * (p->tile + 2);
  int64_t group = panel / k->panels, first = panel % k->panels * k->nr;
  float *to = k->to + (panel * n_factors * p->channels + channel) * k->nr;
  double kernels[TAPS * LANES];
  float factors[MOST_FACTORS * LANES];
  for (int64_t lane = 0; lane < k->nr; lane += LANES) {
    int64_t left = p->outputs - first - lane, here = left < 0 ? 0 : least(LANES, left);
    load_kernels(p, group * p->outputs + first + lane, here, channel, kernels);
    winograd_weight(p->tile, kernels, factors);
    for (int64_t i = 0; i < n_factors; i++)
      memcpy(to + i * p->channels * k->nr + lane, factors + i * LANES, LANES * sizeof *to);
  }
}

static void pack_channels(void *ctx, int64_t begin, int64_t end) {
  const packing *k = ctx;
  for (int64_t i = begin; i < end; i++) pack_channel(k, i / k->p->channels, i % k->p->channels);
}

static size_t pack_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  return kernel_scratch_size(packed_bytes(args));
}

static bool pack(const kernel_context *ctx, const void *args) {
  const winograd_args *p = args;
  packing k = {.p = p, .nr = winograd_kernel_for(p->tile).nr};
  k.to = ctx->scratch(ctx->pool, packed_bytes(p));
  k.panels = ceil_div(p->outputs, k.nr);
  if (!k.to) return false;
  ctx->parallel_for(ctx->pool, p->groups * k.panels * p->channels, PACK_GRAIN, pack_channels, &k);
  return true;
}

const kernel_desc kernel_winograd_pack = {.name = "winograd_pack",
                                          .run = pack,
                                          .scratch = pack_scratch,
                                          .args_size = sizeof(winograd_args),
                                          .operands = {OPERAND(winograd_args, weight)}};
