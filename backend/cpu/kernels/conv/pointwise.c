/* Pointwise convolution: out (outputs, columns) = weight * x + bias per image and group, followed
 * by the epilogue and steps, with the planes of x in place. Packed weight: gemm.h's packed a
 * (strips, k, height); tiles of conv_amx_weight.h on AMX. A task is some columns of an image by
 * some strips of the weight. Rounded planes are packed as words (pairs.h), in panels of a tile's
 * columns. The task packs them, or, if several tasks read the same columns, they are packed for all
 * images before. Loop order: strips that fit in the cache, columns, strip. */
#include "backend/cpu/kernels/conv/pointwise.h"

#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/pointwise_bf16.h"
#include "backend/cpu/kernels/conv/pointwise_kernels.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  TASK_PANELS = 8, /* columns of a task, in tiles, so that a row of these columns is in few pages */
  CACHED_WEIGHT = 256 << 10, /* bytes that the second-level cache keeps besides planes */
  FEW_STRIPS = 4,
  TASKS = 4,         /* minimum per thread, so that all threads end at about the same time */
  LARGE_PLANE = 512, /* minimum columns for which tasks are cut along columns alone, so that threads
                        read the data that they wrote */
  LARGE_OUTPUT = 768 * 1024, /* elements per group and image that exceed second-level caches */
  TASK_WORK = 32 * 1024,     /* minimum multiplications of a task with few strips */
  WORK = 256 * 1024,         /* multiplications that justify waking a thread */
  PACK_WORK = 64 * 1024      /* elements that justify waking a thread */
};

/* A convolution cut into tasks. */
typedef struct cutting {
  const conv_phase *a;
  const kgemm *g;
  bool tiled;                   /* uses AMX */
  pointwise_kernel whole, half; /* kernels for a tile's columns, and for half of them */
  bool prefetches;              /* prefetches outputs, which are in no cache: see pointwise_tile */
  int64_t cells, height, strips;
  int64_t k;            /* elements or words per column, as packed */
  int64_t across, down; /* tasks per image and group: along columns, and along strips */
  char *words;          /* panels (k, nr) of all images, if tasks share them */
} cutting;

static bool pointwise_is_rounded(const cutting *cutting) {
  return conv_is_rounded(cutting->a->args);
}
/* True if planes are packed as words. BF16 planes, which need two more instructions per word when
 * read in place, are not packed if few strips read them. */
static bool packs_words(const cutting *cutting) {
  return pointwise_is_rounded(cutting) &&
         (cutting->tiled || !is_bf16(cutting->a->args->x_type) || cutting->strips > FEW_STRIPS);
}
static bool shares_words(const cutting *cutting) {
  return packs_words(cutting) && cutting->down > 1;
}
static size_t pointwise_panel_bytes(const cutting *cutting) {
  return (size_t)(cutting->k * cutting->whole.nr) * sizeof(uint32_t);
}
static int64_t pointwise_panel_count(const cutting *cutting) {
  return ceil_div(cutting->cells, cutting->whole.nr);
}
static size_t pointwise_shared_bytes(const cutting *cutting) {
  const int64_t all = cutting->a->args->images * cutting->g->batch * pointwise_panel_count(cutting);
  return shares_words(cutting) ? kernel_scratch_size((size_t)all * pointwise_panel_bytes(cutting))
                               : 0;
}
/* Returns the scratch bytes per task. */
static size_t own_bytes(const cutting *cutting) {
  const int64_t panels = ceil_div(cutting->cells / cutting->whole.nr, cutting->across) + 1;
  return packs_words(cutting) && cutting->down == 1
             ? (size_t)panels * pointwise_panel_bytes(cutting)
             : 0;
}
static int64_t pointwise_task_count(const cutting *cutting) {
  return cutting->a->args->images * cutting->g->batch * cutting->across * cutting->down;
}
static int64_t pointwise_work_of(const cutting *cutting) {
  return cutting->a->args->images * cutting->g->batch *
         (cutting->g->m * cutting->g->k * cutting->cells / 1024 + 1) / (WORK / 1024);
}

static pointwise_kernel kernel_for(const conv_args *args, bool half) {
  return conv_is_rounded(args) ? pointwise_pairs_kernel_for(half) : pointwise_kernel_for(half);
}

static bool is_own_position(const window *window, const conv_dim *dim) {
  return window->taps == 1 && window->stride == 1 && window->origin == 0 &&
         window->count == dim->in;
}

bool pointwise_fits(const conv_phase *phase) {
  const conv_args *args = phase->args;
  if (args->type != DTYPE_F32 || args->transposed || !args->is_packed ||
      is_encoded(&args->encoding) || (args->weight_type != DTYPE_F32 && !conv_is_rounded(args)))
    return false;
  for (int d = 0; d < CONV_DIMS; d++)
    if (!is_own_position(&phase->d[d], &args->dims[d])) return false;
  return true;
}

bool pointwise_fills_a_tile(const conv_phase *phase) {
  return cell_count(phase) >= kernel_for(phase->args, false).nr;
}

/* Returns the number of tasks along columns: `wanted` or more if the work justifies it. */
static int64_t columns_cut(const cutting *cutting, int64_t panels, int64_t wanted) {
  const int64_t worth = cutting->g->m * cutting->g->k * cutting->cells / TASK_WORK;
  return max_i64(cutting->across, min_i64(min_i64(panels, worth), wanted));
}

static cutting pointwise_cut(const kernel_context *ctx, const conv_phase *phase,
                             const kgemm *kgemm) {
  cutting cutting = {.a = phase,
                     .g = kgemm,
                     .tiled = conv_is_tiled(phase->args),
                     .whole = kernel_for(phase->args, false),
                     .half = kernel_for(phase->args, true),
                     .cells = cell_count(phase),
                     .height = gemm_strip_height(kgemm),
                     .k = kgemm->k};
  if (cutting.tiled) {
    cutting.height = AMX_OUTPUTS;
    cutting.k = conv_tiled_words(phase->args);
  }
  cutting.strips = ceil_div(kgemm->m, cutting.height);
  cutting.prefetches = kgemm->m * cutting.cells >= LARGE_OUTPUT;
  const int64_t panels = cutting.cells / cutting.whole.nr,
                products = phase->args->images * kgemm->batch;
  cutting.across = ceil_div(panels, TASK_PANELS);
  if (cutting.cells >= LARGE_PLANE && ctx->n_threads > 1) {
    cutting.down = 1;
    cutting.across = columns_cut(&cutting, panels, TASKS * ctx->n_threads);
  } else if (products * cutting.across < TASKS * ctx->n_threads) {
    const int64_t most = kgemm->m * kgemm->k * cutting.cells / cutting.across / TASK_WORK;
    cutting.down = min_i64(min_i64(cutting.strips, 2 * TASKS * ctx->n_threads), most);
  }
  if (cutting.down < 1) cutting.down = 1;
  if (cutting.down == 1 && cutting.across > 1)
    cutting.across = min_i64(panels, ceil_div(cutting.across, ctx->n_threads) * ctx->n_threads);
  return cutting;
}

/* ---------------------------------------------------------------- words */

/* Returns the kernel for the columns from `column` on, and the first column that it computes. If
 * the last columns do not fill a tile, it recomputes some before them. */
static const pointwise_kernel *kernel_at(const cutting *cutting, int64_t column, int64_t *first) {
  const pointwise_kernel *kernel =
      cutting->cells - column <= cutting->half.nr ? &cutting->half : &cutting->whole;
  *first = min_i64(column, cutting->cells - kernel->nr);
  return kernel;
}

/* Returns the address of element (channel, column) of a group of an image. */
static const void *plane_at(const cutting *cutting, int64_t image, int64_t group, int64_t channel,
                            int64_t column) {
  const conv_args *args = cutting->a->args;
  const int64_t plane = (image * args->groups + group) * args->channels + channel;
  return float_at(args->x, is_bf16(args->x_type), plane * cutting->cells + column);
}

static void join_panels(const cutting *cutting, const void *from, int64_t columns, uint32_t *to) {
  const conv_args *args = cutting->a->args;
  const bool bf16 = is_bf16(args->x_type);
  if (cutting->tiled)
    for (int64_t i = 0; i < columns; i += AMX_COLUMNS, to += cutting->k * AMX_COLUMNS)
      amx_pack_panel(float_at(from, bf16, i), bf16, cutting->cells, args->channels, cutting->k,
                     (int)min_i64(AMX_COLUMNS, columns - i), to);
  else if (bf16)
    bf16_join_panels(from, cutting->cells, args->channels, columns, cutting->whole.nr, to);
  else
    pairs_join_panels(from, cutting->cells, args->channels, columns, cutting->whole.nr, to);
}

/* Packs columns [from, to) of a group of an image as panels. `from` is the start of a panel. */
static void pointwise_pack_columns(const cutting *cutting, int64_t image, int64_t group,
                                   int64_t from, int64_t to, char *panels) {
  const int64_t nr = cutting->whole.nr, whole = (to - from) / nr * nr;
  int64_t first;
  join_panels(cutting, plane_at(cutting, image, group, 0, from), whole, (uint32_t *)(void *)panels);
  if (from + whole == to) return;
  const pointwise_kernel *kernel = kernel_at(cutting, from + whole, &first);
  join_panels(cutting, plane_at(cutting, image, group, 0, first), kernel->nr,
              (uint32_t *)(void *)(panels + whole / nr * (int64_t)pointwise_panel_bytes(cutting)));
}

static void pointwise_pack_panels(void *ctx, int64_t begin, int64_t end) {
  const cutting *cutting = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t panels = pointwise_panel_count(cutting), product = i / panels;
    const int64_t from = i % panels * cutting->whole.nr;
    pointwise_pack_columns(cutting, product / cutting->g->batch, product % cutting->g->batch, from,
                           min_i64(cutting->cells, from + cutting->whole.nr),
                           cutting->words + (size_t)i * pointwise_panel_bytes(cutting));
  }
}

static void pointwise_pack_all(const kernel_context *ctx, cutting *cutting) {
  const int64_t panels =
      cutting->a->args->images * cutting->g->batch * pointwise_panel_count(cutting);
  ctx->parallel_for(ctx->pool, panels, PACK_WORK / (2 * cutting->g->k * cutting->whole.nr) + 1,
                    pointwise_pack_panels, cutting);
}

/* ---------------------------------------------------------------- products */

/* The outputs of a task: strips [strip, stop), columns [from, to). */
typedef struct patch {
  int64_t image, group, strip, stop, from, to;
  char *words; /* panels of its columns, if the task packs them */
} patch;

static patch pointwise_patch_of(const cutting *cutting, int64_t task) {
  const int64_t panels = cutting->cells / cutting->whole.nr,
                across = task / cutting->down % cutting->across;
  patch patch = {.image = task / cutting->down / cutting->across / cutting->g->batch,
                 .group = task / cutting->down / cutting->across % cutting->g->batch,
                 .strip = task % cutting->down * cutting->strips / cutting->down,
                 .stop = (task % cutting->down + 1) * cutting->strips / cutting->down,
                 .from = across * panels / cutting->across * cutting->whole.nr,
                 .to = (across + 1) * panels / cutting->across * cutting->whole.nr};
  if (across + 1 == cutting->across) patch.to = cutting->cells;
  return patch;
}

/* Returns the panel of the columns from `column` on. */
static char *panel_at(const cutting *cutting, const patch *patch, int64_t column) {
  const int64_t product = patch->image * cutting->g->batch + patch->group;
  if (!shares_words(cutting))
    return patch->words +
           (column - patch->from) / cutting->whole.nr * (int64_t)pointwise_panel_bytes(cutting);
  return cutting->words + (product * pointwise_panel_count(cutting) + column / cutting->whole.nr) *
                              (int64_t)pointwise_panel_bytes(cutting);
}

/* Returns the index of a group's output row among those of all images. */
static int64_t output_at(const cutting *cutting, const patch *patch, int64_t row) {
  const conv_args *args = cutting->a->args;
  return (patch->image * args->groups + patch->group) * args->outputs + row;
}

_Static_assert((int)AMX_COLUMNS == (int)BF16_COLUMNS, "sums of one are stored as the other's");
/* Computes a tile on AMX, with `rows` valid rows. */
static void run_tiled(const cutting *cutting, const bf16_tile *tile, int rows, int columns) {
  static const int64_t offset = 0;
  _Alignas(64) float sums[AMX_OUTPUTS * AMX_COLUMNS];
  const amx_sums all = {.blocks = cutting->k / AMX_WORDS,
                        .taps = 1,
                        .a = tile->a,
                        .b = tile->b,
                        .b_stride = tile->b_stride,
                        .offsets = &offset,
                        .c = sums,
                        .c_stride = AMX_COLUMNS,
                        .prefetches = true};
  amx_sums_run(&all, rows > AMX_OUTPUTS / 2 ? AMX_OUTPUTS : AMX_OUTPUTS / 2, columns);
  bf16_tile_store(tile, rows, columns, sums);
}

static void run_sums(const cutting *cutting, const bf16_tile *tile, int rows, int columns) {
  if (cutting->tiled)
    run_tiled(cutting, tile, rows, columns);
  else
    bf16_tile_run(tile, rows, columns);
}

/* Computes a tile of words, or one that reads, adds or writes BF16. */
static void pointwise_run_bf16(const cutting *cutting, const pointwise_tile *pointwise_tile,
                               int64_t at, int rows, int columns) {
  const conv_args *args = cutting->a->args;
  bf16_tile tile = {.channels = args->channels,
                    .a = (const uint32_t *)(const void *)pointwise_tile->a,
                    .a_stride = pointwise_tile->a_stride,
                    .b = pointwise_tile->b,
                    .b_stride = pointwise_tile->b_stride,
                    .bias = pointwise_tile->bias,
                    .added = args->epilogue.added
                                 ? element_at(args->epilogue.added, args->epilogue.added_type, at)
                                 : NULL,
                    .c = element_at(args->out, args->out_type, at),
                    .c_stride = pointwise_tile->c_stride,
                    .b_is_planes = !packs_words(cutting),
                    .added_type = args->epilogue.added_type,
                    .c_type = args->out_type,
                    .low = pointwise_tile->low,
                    .high = pointwise_tile->high};
  if (!is_bf16(args->out_type) || args->steps.head.n_steps == 0) {
    run_sums(cutting, &tile, rows, columns);
    return;
  }
  _Alignas(64) float sums[AMX_OUTPUTS * BF16_COLUMNS];
  tile.c = sums;
  tile.c_stride = columns;
  tile.c_type = DTYPE_F32;
  run_sums(cutting, &tile, rows, columns);
  bf16_steps(&args->steps, sums, (int64_t)rows * columns);
  rows_to_bf16(sums, rows, columns, (uint16_t *)args->out + at, pointwise_tile->c_stride);
}

/* Computes one tile: a strip of outputs by the columns from `column` on. */
static void pointwise_run_tile(const cutting *cutting, const patch *patch, int64_t strip,
                               int64_t column) {
  const conv_args *args = cutting->a->args;
  int64_t first;
  const pointwise_kernel *kernel = kernel_at(cutting, column, &first);
  const bool words = packs_words(cutting);
  const int64_t row = strip * cutting->height, output = patch->group * args->outputs + row,
                k = cutting->k;
  const int64_t at = output_at(cutting, patch, row) * cutting->cells + first;
  const pointwise_tile tile = {
      .k = k,
      .a = (const float *)cutting->g->packed_a +
           (patch->group * cutting->strips + strip) * cutting->height * k,
      .a_stride = cutting->height,
      .b = words ? (const float *)(void *)panel_at(cutting, patch, column)
                 : (const float *)plane_at(cutting, patch->image, patch->group, 0, first),
      .b_stride = words ? cutting->whole.nr : cutting->cells,
      .bias = args->bias ? (const float *)args->bias + output : NULL,
      .added = args->epilogue.added ? (const float *)args->epilogue.added + at : NULL,
      .slope = args->epilogue.slope ? args->epilogue.slope + output : NULL,
      .c = (float *)args->out + at,
      .c_stride = cutting->cells,
      .low = args->epilogue.low,
      .high = args->epilogue.high,
      .prefetches = cutting->prefetches};
  const int rows = (int)min_i64(cutting->height, cutting->g->m - row);
  if (cutting->tiled || is_bf16(args->x_type) || is_bf16(args->out_type) ||
      is_bf16(args->epilogue.added_type))
    pointwise_run_bf16(cutting, &tile, at, rows, kernel->nr);
  else
    kernel->run(&tile, rows);
}

static void pointwise_run_strips(const cutting *cutting, const patch *patch, int64_t strip,
                                 int64_t stop) {
  for (int64_t column = patch->from; column < patch->to; column += cutting->whole.nr)
    for (int64_t s = strip; s < stop; s++) pointwise_run_tile(cutting, patch, s, column);
  const conv_args *args = cutting->a->args;
  const int64_t row = strip * cutting->height,
                rows = min_i64(stop * cutting->height, cutting->g->m) - row;
  const int64_t at = output_at(cutting, patch, row) * cutting->cells + patch->from;
  if (!is_bf16(args->out_type))
    steps_in_place(&args->steps, (float *)args->out + at, at, patch->to - patch->from, rows,
                   cutting->cells);
}

static void run_patch(const void *user, int64_t task, char *scratch) {
  const cutting *cutting = user;
  patch patch = pointwise_patch_of(cutting, task);
  const int64_t weight =
      (patch.stop - patch.strip) * cutting->height * cutting->k * (int64_t)sizeof(float);
  const int64_t strips = weight <= CACHED_WEIGHT ? patch.stop - patch.strip : 1;
  patch.words = scratch;
  if (packs_words(cutting) && !shares_words(cutting))
    pointwise_pack_columns(cutting, patch.image, patch.group, patch.from, patch.to, scratch);
  if (cutting->tiled) amx_sums_begin();
  for (int64_t s = patch.strip; s < patch.stop; s += strips)
    pointwise_run_strips(cutting, &patch, s, s + strips);
  if (cutting->tiled) amx_sums_end();
}

static bool pointwise_is_empty(const cutting *cutting) {
  return cutting->a->args->images * cutting->g->batch * cutting->g->m == 0;
}

size_t pointwise_bytes(const kernel_context *ctx, const conv_phase *phase, const kgemm *kgemm) {
  const cutting cutting = pointwise_cut(ctx, phase, kgemm);
  if (!packs_words(&cutting) || pointwise_is_empty(&cutting)) return 0;
  return pointwise_shared_bytes(&cutting) + slots_bytes(ctx, pointwise_task_count(&cutting),
                                                        pointwise_work_of(&cutting),
                                                        own_bytes(&cutting));
}

void pointwise_run(const kernel_context *ctx, const conv_phase *phase, const kgemm *kgemm,
                   char *memory) {
  char none = 0;
  cutting cutting = pointwise_cut(ctx, phase, kgemm);
  if (pointwise_is_empty(&cutting)) return;
  cutting.words = memory;
  if (shares_words(&cutting)) pointwise_pack_all(ctx, &cutting);
  run_slots_in(ctx, pointwise_task_count(&cutting), pointwise_work_of(&cutting),
               own_bytes(&cutting), run_patch, &cutting,
               memory ? memory + pointwise_shared_bytes(&cutting) : &none);
}
