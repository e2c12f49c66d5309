/* Planes times a weight, where they lie. A task is some columns of an image by some strips of the
 * weight. Rounded planes are packed as words (pairs.h), in panels of the columns of a tile: by the
 * task, or, where several tasks read the same columns, of all images before. */
#include "backend/cpu/kernels/conv/pointwise.h"

#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/pointwise_bf16.h"
#include "backend/cpu/kernels/conv/pointwise_kernels.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  TASK_PANELS = 8,           /* columns of a task, in tiles: a row of them is in few pages */
  CACHED_WEIGHT = 256 << 10, /* bytes that the second-level cache keeps beside planes */
  FEW_STRIPS = 4,
  TASKS = 4,                 /* of a thread, at least, so that all end at about the same time */
  LARGE_PLANE = 512,         /* columns that are cut alone: threads write what they will read */
  LARGE_OUTPUT = 768 * 1024, /* elements of a group of an image, beyond second-level caches */
  TASK_WORK = 32 * 1024,     /* multiplications of a task of few strips, at least */
  WORK = 256 * 1024,         /* multiplications that are worth waking a thread up */
  PACK_WORK = 64 * 1024      /* elements, the same */
};

/* How a convolution is cut. */
typedef struct cutting {
  const conv_part *a;
  const kgemm *g;
  bool tiled;                   /* by AMX */
  pointwise_kernel whole, half; /* by tiles of their columns alone */
  bool asks;                    /* outputs are in memory: pointwise_tile */
  int64_t cells, height, strips;
  int64_t k;            /* elements or words of a column, as they are packed */
  int64_t across, down; /* tasks of an image and group: of columns, and of strips */
  char *words;          /* panels (k, nr) of all images, where tasks share them */
} cutting;

static bool is_rounded(const cutting *c) { return conv_is_rounded(c->a->p); }
/* Whether planes are packed: narrow ones, which take two instructions more for each word, are read
 * as they are where few strips read them. */
static bool packs_words(const cutting *c) {
  return is_rounded(c) && (c->tiled || !is_bf16(c->a->p->x_type) || c->strips > FEW_STRIPS);
}
static bool shares_words(const cutting *c) { return packs_words(c) && c->down > 1; }
static size_t panel_bytes(const cutting *c) {
  return (size_t)(c->k * c->whole.nr) * sizeof(uint32_t);
}
static int64_t panel_count(const cutting *c) { return ceil_div(c->cells, c->whole.nr); }
static size_t shared_bytes(const cutting *c) {
  const int64_t all = c->a->p->images * c->g->batch * panel_count(c);
  return shares_words(c) ? kernel_scratch_size((size_t)all * panel_bytes(c)) : 0;
}
/* Of a task. */
static size_t own_bytes(const cutting *c) {
  const int64_t panels = ceil_div(c->cells / c->whole.nr, c->across) + 1;
  return packs_words(c) && c->down == 1 ? (size_t)panels * panel_bytes(c) : 0;
}
static int64_t task_count(const cutting *c) {
  return c->a->p->images * c->g->batch * c->across * c->down;
}
static int64_t work_of(const cutting *c) {
  return c->a->p->images * c->g->batch * (c->g->m * c->g->k * c->cells / 1024 + 1) / (WORK / 1024);
}

static pointwise_kernel kernel_for(const conv_args *p, bool half) {
  return conv_is_rounded(p) ? pointwise_pairs_kernel_for(half) : pointwise_kernel_for(half);
}

static bool is_own_position(const window *d, const conv_dim *k) {
  return d->taps == 1 && d->stride == 1 && d->origin == 0 && d->count == k->in;
}

bool pointwise_fits(const conv_part *a) {
  const conv_args *p = a->p;
  if (p->type != DTYPE_F32 || p->transposed || !p->is_packed || is_encoded(&p->encoding) ||
      (p->weight_type != DTYPE_F32 && !conv_is_rounded(p)))
    return false;
  for (int d = 0; d < CONV_DIMS; d++)
    if (!is_own_position(&a->d[d], &p->dims[d])) return false;
  return true;
}

bool pointwise_fills_a_tile(const conv_part *a) {
  return cell_count(a) >= kernel_for(a->p, false).nr;
}

/* Tasks of columns, at least `wanted` where that is worth it. */
static int64_t columns_cut(const cutting *c, int64_t panels, int64_t wanted) {
  const int64_t worth = c->g->m * c->g->k * c->cells / TASK_WORK;
  return at_least(c->across, least(least(panels, worth), wanted));
}

static cutting cut(const kernel_context *ctx, const conv_part *a, const kgemm *g) {
  cutting c = {.a = a,
               .g = g,
               .tiled = conv_is_tiled(a->p),
               .whole = kernel_for(a->p, false),
               .half = kernel_for(a->p, true),
               .cells = cell_count(a),
               .height = gemm_strip_height(g),
               .k = g->k};
  if (c.tiled) {
    c.height = AMX_OUTPUTS;
    c.k = conv_tiled_words(a->p);
  }
  c.strips = ceil_div(g->m, c.height);
  c.asks = g->m * c.cells >= LARGE_OUTPUT;
  const int64_t panels = c.cells / c.whole.nr, products = a->p->images * g->batch;
  c.across = ceil_div(panels, TASK_PANELS);
  if (c.cells >= LARGE_PLANE && ctx->n_threads > 1) {
    c.down = 1;
    c.across = columns_cut(&c, panels, TASKS * ctx->n_threads);
  } else if (products * c.across < TASKS * ctx->n_threads) {
    const int64_t most = g->m * g->k * c.cells / c.across / TASK_WORK;
    c.down = least(least(c.strips, 2 * TASKS * ctx->n_threads), most);
  }
  if (c.down < 1) c.down = 1;
  if (c.down == 1 && c.across > 1)
    c.across = least(panels, ceil_div(c.across, ctx->n_threads) * ctx->n_threads);
  return c;
}

/* ---------------------------------------------------------------- words */

/* What multiplies the columns from `column` on, and the first of its own: the last ones are made
 * once more where they do not fill a tile. */
static const pointwise_kernel *kernel_at(const cutting *c, int64_t column, int64_t *first) {
  const pointwise_kernel *kernel = c->cells - column <= c->half.nr ? &c->half : &c->whole;
  *first = least(column, c->cells - kernel->nr);
  return kernel;
}

/* Element (channel, column) of a group of an image. */
static const void *plane_at(const cutting *c, int64_t image, int64_t group, int64_t channel,
                            int64_t column) {
  const conv_args *p = c->a->p;
  const int64_t plane = (image * p->groups + group) * p->channels + channel;
  return float_at(p->x, is_bf16(p->x_type), plane * c->cells + column);
}

static void join_panels(const cutting *c, const void *from, int64_t columns, uint32_t *to) {
  const conv_args *p = c->a->p;
  const bool narrow = is_bf16(p->x_type);
  if (c->tiled)
    for (int64_t i = 0; i < columns; i += AMX_COLUMNS, to += c->k * AMX_COLUMNS)
      amx_pack_panel(float_at(from, narrow, i), narrow, c->cells, p->channels, c->k,
                     (int)least(AMX_COLUMNS, columns - i), to);
  else if (narrow)
    bf16_join_panels(from, c->cells, p->channels, columns, c->whole.nr, to);
  else
    pairs_join_panels(from, c->cells, p->channels, columns, c->whole.nr, to);
}

/* Columns [from, to) of a group of an image, in panels; `from` begins one. */
static void pack_columns(const cutting *c, int64_t image, int64_t group, int64_t from, int64_t to,
                         char *panels) {
  const int64_t nr = c->whole.nr, whole = (to - from) / nr * nr;
  int64_t first;
  join_panels(c, plane_at(c, image, group, 0, from), whole, (uint32_t *)(void *)panels);
  if (from + whole == to) return;
  const pointwise_kernel *kernel = kernel_at(c, from + whole, &first);
  join_panels(c, plane_at(c, image, group, 0, first), kernel->nr,
              (uint32_t *)(void *)(panels + whole / nr * (int64_t)panel_bytes(c)));
}

static void pack_panels(void *ctx, int64_t begin, int64_t end) {
  const cutting *c = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t panels = panel_count(c), product = i / panels;
    const int64_t from = i % panels * c->whole.nr;
    pack_columns(c, product / c->g->batch, product % c->g->batch, from,
                 least(c->cells, from + c->whole.nr), c->words + (size_t)i * panel_bytes(c));
  }
}

static void pack_all(const kernel_context *ctx, cutting *c) {
  const int64_t panels = c->a->p->images * c->g->batch * panel_count(c);
  ctx->parallel_for(ctx->pool, panels, PACK_WORK / (2 * c->g->k * c->whole.nr) + 1, pack_panels, c);
}

/* ---------------------------------------------------------------- products */

/* What a task makes: strips [strip, stop) of columns [from, to). */
typedef struct patch {
  int64_t image, group, strip, stop, from, to;
  char *words; /* panels of its columns, which it packs itself */
} patch;

static patch patch_of(const cutting *c, int64_t task) {
  const int64_t panels = c->cells / c->whole.nr, across = task / c->down % c->across;
  patch t = {.image = task / c->down / c->across / c->g->batch,
             .group = task / c->down / c->across % c->g->batch,
             .strip = task % c->down * c->strips / c->down,
             .stop = (task % c->down + 1) * c->strips / c->down,
             .from = across * panels / c->across * c->whole.nr,
             .to = (across + 1) * panels / c->across * c->whole.nr};
  if (across + 1 == c->across) t.to = c->cells;
  return t;
}

/* The panel of the columns from `column` on. */
static char *panel_at(const cutting *c, const patch *t, int64_t column) {
  const int64_t product = t->image * c->g->batch + t->group;
  if (!shares_words(c))
    return t->words + (column - t->from) / c->whole.nr * (int64_t)panel_bytes(c);
  return c->words + (product * panel_count(c) + column / c->whole.nr) * (int64_t)panel_bytes(c);
}

/* A row of the group's outputs among those of all images. */
static int64_t output_at(const cutting *c, const patch *t, int64_t row) {
  const conv_args *p = c->a->p;
  return (t->image * p->groups + t->group) * p->outputs + row;
}

_Static_assert((int)AMX_COLUMNS == (int)BF16_COLUMNS, "sums of one are stored as the other's");
/* Sums of tiles by AMX, of whose rows there are `rows`. */
static void run_tiled(const cutting *c, const bf16_tile *tile, int rows, int columns) {
  static const int64_t offset = 0;
  _Alignas(64) float sums[AMX_OUTPUTS * AMX_COLUMNS];
  const amx_sums all = {.blocks = c->k / AMX_WORDS,
                        .taps = 1,
                        .a = tile->a,
                        .b = tile->b,
                        .b_step = tile->b_step,
                        .offsets = &offset,
                        .c = sums,
                        .c_step = AMX_COLUMNS,
                        .asks = true};
  amx_sums_run(&all, rows > AMX_OUTPUTS / 2 ? AMX_OUTPUTS : AMX_OUTPUTS / 2, columns);
  bf16_tile_store(tile, rows, columns, sums);
}

static void run_sums(const cutting *c, const bf16_tile *tile, int rows, int columns) {
  if (c->tiled)
    run_tiled(c, tile, rows, columns);
  else
    bf16_tile_run(tile, rows, columns);
}

/* Tiles of words, and those that read, add or write BF16. */
static void run_narrow(const cutting *c, const pointwise_tile *t, int64_t at, int rows,
                       int columns) {
  const conv_args *p = c->a->p;
  bf16_tile tile = {
      .channels = p->channels,
      .a = (const uint32_t *)(const void *)t->a,
      .a_step = t->a_step,
      .b = t->b,
      .b_step = t->b_step,
      .bias = t->bias,
      .added = p->tail.added ? element_at(p->tail.added, p->tail.added_type, at) : NULL,
      .c = element_at(p->out, p->out_type, at),
      .c_step = t->c_step,
      .b_is_planes = !packs_words(c),
      .added_type = p->tail.added_type,
      .c_type = p->out_type,
      .low = t->low,
      .high = t->high};
  if (!is_bf16(p->out_type) || p->steps.head.n_steps == 0) {
    run_sums(c, &tile, rows, columns);
    return;
  }
  _Alignas(64) float sums[AMX_OUTPUTS * BF16_COLUMNS];
  tile.c = sums;
  tile.c_step = columns;
  tile.c_type = DTYPE_F32;
  run_sums(c, &tile, rows, columns);
  bf16_steps(&p->steps, sums, (int64_t)rows * columns);
  narrow_rows(sums, rows, columns, (uint16_t *)p->out + at, t->c_step);
}

/* A strip by the columns of a tile from `column` on. */
static void run_tile(const cutting *c, const patch *t, int64_t strip, int64_t column) {
  const conv_args *p = c->a->p;
  int64_t first;
  const pointwise_kernel *kernel = kernel_at(c, column, &first);
  const bool words = packs_words(c);
  const int64_t row = strip * c->height, output = t->group * p->outputs + row, k = c->k;
  const int64_t at = output_at(c, t, row) * c->cells + first;
  const pointwise_tile tile = {
      .k = k,
      .a = (const float *)c->g->packed_a + (t->group * c->strips + strip) * c->height * k,
      .a_step = c->height,
      .b = words ? (const float *)(void *)panel_at(c, t, column)
                 : (const float *)plane_at(c, t->image, t->group, 0, first),
      .b_step = words ? c->whole.nr : c->cells,
      .bias = p->bias ? (const float *)p->bias + output : NULL,
      .added = p->tail.added ? (const float *)p->tail.added + at : NULL,
      .c = (float *)p->out + at,
      .c_step = c->cells,
      .low = p->tail.low,
      .high = p->tail.high,
      .asks = c->asks};
  const int rows = (int)least(c->height, c->g->m - row);
  if (c->tiled || is_bf16(p->x_type) || is_bf16(p->out_type) || is_bf16(p->tail.added_type))
    run_narrow(c, &tile, at, rows, kernel->nr);
  else
    kernel->run(&tile, rows);
}

static void run_strips(const cutting *c, const patch *t, int64_t strip, int64_t stop) {
  for (int64_t column = t->from; column < t->to; column += c->whole.nr)
    for (int64_t s = strip; s < stop; s++) run_tile(c, t, s, column);
  const conv_args *p = c->a->p;
  const int64_t row = strip * c->height, rows = least(stop * c->height, c->g->m) - row;
  const int64_t at = output_at(c, t, row) * c->cells + t->from;
  if (!is_bf16(p->out_type))
    steps_in_place(&p->steps, (float *)p->out + at, at, t->to - t->from, rows, c->cells);
}

static void run_patch(const void *user, int64_t task, char *scratch) {
  const cutting *c = user;
  patch t = patch_of(c, task);
  const int64_t weight = (t.stop - t.strip) * c->height * c->k * (int64_t)sizeof(float);
  const int64_t strips = weight <= CACHED_WEIGHT ? t.stop - t.strip : 1;
  t.words = scratch;
  if (packs_words(c) && !shares_words(c)) pack_columns(c, t.image, t.group, t.from, t.to, scratch);
  if (c->tiled) amx_sums_begin();
  for (int64_t s = t.strip; s < t.stop; s += strips) run_strips(c, &t, s, s + strips);
  if (c->tiled) amx_sums_end();
}

static bool is_empty(const cutting *c) { return c->a->p->images * c->g->batch * c->g->m == 0; }

size_t pointwise_bytes(const kernel_context *ctx, const conv_part *a, const kgemm *g) {
  const cutting c = cut(ctx, a, g);
  if (!packs_words(&c) || is_empty(&c)) return 0;
  return shared_bytes(&c) + slots_bytes(ctx, task_count(&c), work_of(&c), own_bytes(&c));
}

void pointwise_run(const kernel_context *ctx, const conv_part *a, const kgemm *g, char *memory) {
  char none = 0;
  cutting c = cut(ctx, a, g);
  if (is_empty(&c)) return;
  c.words = memory;
  if (shares_words(&c)) pack_all(ctx, &c);
  run_slots_in(ctx, task_count(&c), work_of(&c), own_bytes(&c), run_patch, &c,
               memory ? memory + shared_bytes(&c) : &none);
}
