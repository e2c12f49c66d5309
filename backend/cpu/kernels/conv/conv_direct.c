/* Direct convolution: out = weight * x + bias per group, followed by the epilogue and steps.
 * The packed weight is (groups, panels, k, nr), where k is channels * taps. Rounded inputs are
 * copied as words of two channels (pairs.h), row by row of all channels, so that a tile reads few
 * pages. A task is some neighbouring positions of a panel; its sums (positions, nr) are transposed
 * and stored at the end. Loop order: image, task (group, panel, positions), block of k, tile. */
#include "backend/cpu/kernels/conv/conv_direct.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/conv/direct_kernels.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  BLOCK_K = GEMM_BLOCK_K,
  BLOCK_WORDS = 2 * GEMM_BLOCK_K, /* words of rounded inputs, which are summed in one chain */
  MAX_CELLS = 128,    /* positions of a task; their sums of a panel stay in the first-level cache */
  MEDIUM_PLANE = 256, /* maximum positions for which deep sums are not slower than by gemm.c */
  DEEP = 256,         /* channels of a deep sum; more channels than outputs also make it deep */
  SMALL_PLANE = 64,   /* with fewer positions, gemm.c leaves many of its columns unused */
  WORK = 256 * 1024,  /* multiplications that justify waking a thread */
  COPY_WORK = 8 * 1024,   /* copied elements that justify waking a thread */
  LARGE_PLANE = 512,      /* minimum outputs for which all planes are copied row by row */
  LARGE_COPY = 16 * 1024, /* elements of a plane */
  TASKS = 4,              /* minimum per thread, so that all threads end at about the same time */
  PACK_GRAIN = 1,         /* panels */
  PACK_K = 64,
  MAX_LANES = 32
};

/* Returns the distance along a dimension from the first input of the first output to the last input
 * of the last one, inclusive. */
static int64_t kernel_conv_direct_reach_of(const conv_dim *dim) {
  return dim->out > 0 && dim->kernel > 0 ? conv_dim_reach(dim, dim->out) : 0;
}

/* True for a kernel of one tap whose inputs are copied in the order of outputs, as one long row per
 * channel. This is done for rounded inputs, and for floats with a stride, because they would be in
 * different cache lines or pages. */
static bool kernel_conv_direct_is_one_row(const conv_args *args) {
  bool copies = conv_is_rounded(args);
  for (int d = 0; d < CONV_DIMS; d++) {
    if (args->dims[d].kernel != 1) return false;
    copies |= args->dims[d].stride > 1;
  }
  return copies;
}

/* Returns the distance between the inputs that are copied. It is not 1 for a kernel of one tap, for
 * which inputs that no output reads are skipped. */
static int64_t input_distance(const conv_args *args, int d) {
  const bool skips =
      conv_is_rounded(args) ? args->dims[d].kernel == 1 : kernel_conv_direct_is_one_row(args);
  return skips ? args->dims[d].stride : 1;
}

static bool copies_planes(const conv_args *args) {
  if (conv_is_rounded(args)) return true;
  for (int d = 0; d < CONV_DIMS; d++)
    if (args->dims[d].padding > 0 ||
        kernel_conv_direct_reach_of(&args->dims[d]) > args->dims[d].in ||
        input_distance(args, d) > 1)
      return true;
  return false;
}

/* True if wide padding around few outputs would make large copies. */
static bool has_large_copies(const conv_args *args) {
  double size = 1;
  for (int d = 0; d < CONV_DIMS; d++) size *= (double)kernel_conv_direct_reach_of(&args->dims[d]);
  return copies_planes(args) && size > LARGE_COPY + 4 * (double)(in_size(args) + out_size(args));
}

bool conv_is_direct(const conv_args *args) {
  return args->type == DTYPE_F32 && !args->transposed &&
         !(args->groups > 1 && args->channels == 1) && !has_large_copies(args);
}

bool conv_suits_direct(const conv_args *args, bool rounds) {
  for (int d = 0; d < CONV_DIMS; d++)
    if (args->dims[d].stride > 1 || args->dims[d].kernel > 1 || args->dims[d].padding > 0)
      return true;
  const bool deep = args->channels >= DEEP && !rounds && !is_encoded(&args->encoding);
  return out_size(args) < SMALL_PLANE ||
         (out_size(args) < MEDIUM_PLANE && (args->channels > args->outputs || deep));
}

/* ---------------------------------------------------------------- sizes */

typedef struct direct {
  const conv_args *args;
  conv_phase phase;
  direct_kernel kernel;
  int64_t seen[CONV_DIMS]; /* sizes of the planes that are read: copies, or x itself */
  bool copies;
  int64_t strides[CONV_DIMS]; /* from an output to the next, in elements of the planes read */
  int64_t steps[CONV_DIMS];   /* elements between neighbours along each dimension */
  int64_t depth, depth_step;  /* channels of a group, or pairs of them; elements between them */
  int64_t cells, taps, k, panels;
  int64_t chunk, chunks; /* positions per task; tasks per panel */
  int64_t image;
  const float *from; /* planes of the current image */
  float *copied;     /* borrowed; if `copies`: planes of an image, as floats or words */
  int64_t *offsets;  /* (k): elements from a position's first input to each input */
} direct;

static int64_t plane_size(const direct *direct) {
  return direct->seen[0] * direct->seen[1] * direct->seen[2];
}
static int64_t copied_planes(const direct *direct) { return direct->args->groups * direct->depth; }

static int64_t kernel_conv_direct_depth_of(const conv_args *args) {
  return conv_is_rounded(args) ? pairs_of(args->channels) : args->channels;
}
static direct_kernel direct_kernel_of(const conv_args *args) {
  return conv_is_rounded(args) ? direct_pairs_kernel_for(args->outputs)
                               : direct_kernel_for(args->outputs);
}

/* Sets the distances between elements: planes follow each other, or else rows of all channels. */
static void set_steps(direct *direct) {
  const bool rows = conv_is_rounded(direct->args) && !kernel_conv_direct_is_one_row(direct->args);
  direct->depth_step = rows ? direct->seen[2] : plane_size(direct);
  direct->steps[2] = 1;
  direct->steps[1] = direct->seen[2] * (rows ? direct->depth : 1);
  direct->steps[0] = direct->seen[1] * direct->steps[1];
}

static direct kernel_conv_direct_plan(const kernel_context *ctx, const conv_args *args) {
  direct direct = {
      .args = args, .phase = {.args = args, .c = COMPUTE_F32}, .copies = copies_planes(args)};
  for (int d = 0; d < CONV_DIMS; d++) {
    direct.phase.d[d] = whole_window(&args->dims[d]);
    direct.seen[d] = direct.copies ? ceil_div(kernel_conv_direct_reach_of(&args->dims[d]),
                                              input_distance(args, d))
                                   : args->dims[d].in;
    direct.strides[d] = args->dims[d].stride / input_distance(args, d);
  }
  direct.kernel = direct_kernel_of(args);
  direct.cells = cell_count(&direct.phase);
  direct.taps = tap_count(&direct.phase);
  direct.depth = kernel_conv_direct_depth_of(args);
  direct.k = direct.depth * direct.taps;
  set_steps(&direct);
  for (int d = 0; d < CONV_DIMS && kernel_conv_direct_is_one_row(args); d++)
    direct.phase.d[d].count = d == CONV_DIMS - 1 ? direct.cells : 1;
  direct.panels = ceil_div(args->outputs, direct.kernel.nr);
  const int64_t tasks = ceil_div(direct.cells, MAX_CELLS), wanted = TASKS * ctx->n_threads;
  direct.chunks = tasks;
  if (args->groups * direct.panels * tasks < wanted && args->groups * direct.panels > 0)
    direct.chunks = ceil_div(wanted, args->groups * direct.panels);
  direct.chunk = ceil_div(direct.cells, direct.chunks > 0 ? direct.chunks : 1);
  direct.chunks = direct.chunk > 0 ? ceil_div(direct.cells, direct.chunk) : 0;
  return direct;
}

/* Returns the positions of a task, rounded up to the blocks that are transposed at once. */
static int64_t transposed_cells(const direct *direct) { return round_up(direct->chunk, 16); }
static size_t kernel_conv_direct_task_bytes(const direct *direct) {
  return (size_t)(2 * transposed_cells(direct) * direct->kernel.nr) * sizeof(float);
}
static size_t offset_bytes(const direct *direct) {
  return kernel_scratch_size((size_t)(direct->k + DIRECT_AHEAD) * sizeof *direct->offsets);
}
static size_t kernel_conv_direct_copy_bytes(const direct *direct) {
  return direct->copies ? kernel_scratch_size((size_t)(copied_planes(direct) * plane_size(direct)) *
                                              sizeof(float))
                        : 0;
}
static int64_t kernel_conv_direct_task_count(const direct *direct) {
  return direct->args->groups * direct->panels * direct->chunks;
}
static int64_t kernel_conv_direct_work_of(const direct *direct) {
  return direct->args->groups * (direct->cells * direct->k * direct->args->outputs / 1024 + 1) /
         (WORK / 1024);
}
static bool kernel_conv_direct_is_empty(const direct *direct) {
  return direct->args->images * direct->args->groups * direct->panels * direct->cells == 0;
}

/* ---------------------------------------------------------------- inputs */

/* Computes the offset of each channel and tap from a position's first input. */
static void kernel_conv_direct_find_offsets(direct *direct) {
  const conv_args *args = direct->args;
  int64_t tap[CONV_DIMS];
  for (int64_t i = 0; direct->k > 0 && i < direct->taps; i++) {
    split_tap(&direct->phase, i, tap);
    int64_t at = 0;
    for (int d = 0; d < CONV_DIMS; d++) at += tap[d] * args->dims[d].dilation * direct->steps[d];
    direct->offsets[i] = at;
  }
  const int64_t stop = direct->k > 0 ? direct->k + DIRECT_AHEAD : 0;
  for (int64_t at = direct->taps, step = direct->depth_step; at < stop;
       at += direct->taps, step += direct->depth_step)
    for (int64_t i = 0; i < min_i64(direct->taps, stop - at); i++)
      direct->offsets[at + i] = direct->offsets[i] + step;
}

/* Copies a row of a plane from a row of the image; NULL stands for padding. Rounded inputs are
 * joined to words with the row `odd` of the next channel, which may be NULL. */
static void kernel_conv_direct_copy_row(const direct *direct, const void *from, const void *odd,
                                        float *to) {
  const conv_dim *dim = &direct->args->dims[2];
  const int64_t width = direct->seen[2], step = input_distance(direct->args, 2);
  const int64_t left = min_i64(ceil_div(dim->padding, step), width);
  const int64_t stop = from ? min_i64(ceil_div(dim->in + dim->padding, step), width) : left;
  const int64_t n = stop > left ? stop - left : 0, first = left * step - dim->padding;
  memset(to, 0, (size_t)left * sizeof *to);
  const bool bf16 = is_bf16(direct->args->x_type);
  const void *x = from ? float_at(from, bf16, first) : NULL,
             *y = odd ? float_at(odd, bf16, first) : NULL;
  if (n > 0 && conv_is_rounded(direct->args))
    conv_join_row(bf16, x, y, step, n, (uint32_t *)(void *)(to + left));
  else if (step > 1)
    for (int64_t i = 0; i < n; i++) to[left + i] = ((const float *)x)[i * step];
  else if (n > 0)
    memcpy(to + left, x, (size_t)n * sizeof *to);
  memset(to + left + n, 0, (size_t)(width - left - n) * sizeof *to);
}

static int64_t copied_rows(const direct *direct) { return direct->seen[0] * direct->seen[1]; }

/* Copies row `row` of a plane, which has one channel, or words of two channels. */
static void copy_plane_row(const direct *direct, int64_t plane, int64_t row) {
  const conv_dim *dim = direct->args->dims;
  const int64_t group = plane / direct->depth, i = plane % direct->depth,
                size = in_size(direct->args);
  const int64_t channel = conv_is_rounded(direct->args) ? 2 * i : i;
  const int64_t from =
      (direct->image * direct->args->groups + group) * direct->args->channels + channel;
  const int64_t z = row / direct->seen[1], y = row % direct->seen[1];
  const int64_t at_z = z * input_distance(direct->args, 0) - dim[0].padding,
                at_y = y * input_distance(direct->args, 1) - dim[1].padding;
  const bool inside = at_z >= 0 && at_z < dim[0].in && at_y >= 0 && at_y < dim[1].in;
  const int64_t at = from * size + (at_z * dim[1].in + at_y) * dim[2].in;
  const bool bf16 = is_bf16(direct->args->x_type), pairs = channel + 1 < direct->args->channels;
  float *to = direct->copied + group * direct->depth * plane_size(direct) + i * direct->depth_step;
  kernel_conv_direct_copy_row(direct, inside ? float_at(direct->args->x, bf16, at) : NULL,
                              inside && conv_is_rounded(direct->args) && pairs
                                  ? float_at(direct->args->x, bf16, at + size)
                                  : NULL,
                              to + z * direct->steps[0] + y * direct->steps[1]);
}

/* Copies rows of all planes, in an order in which threads later read what they wrote. */
static void kernel_conv_direct_copy_rows(void *ctx, int64_t begin, int64_t end) {
  const direct *direct = ctx;
  const int64_t planes = copied_planes(direct), rows = copied_rows(direct);
  const bool large = direct->cells >= LARGE_PLANE;
  for (int64_t i = begin; i < end; i++)
    copy_plane_row(direct, large ? i % planes : i / rows, large ? i / planes : i % rows);
}

static void copy_image(const kernel_context *ctx, direct *direct) {
  ctx->parallel_for(ctx->pool, copied_planes(direct) * copied_rows(direct),
                    ceil_div(COPY_WORK, max_i64(direct->seen[2], 1)), kernel_conv_direct_copy_rows,
                    direct);
}

/* ---------------------------------------------------------------- outputs */

/* Returns the first input of a position. */
static const float *first_input(const direct *direct, int64_t group, const int64_t cell[]) {
  const float *at = direct->from + group * direct->depth * plane_size(direct);
  for (int i = 0; i < CONV_DIMS; i++) at += cell[i] * direct->strides[i] * direct->steps[i];
  return at;
}

/* Returns the number of positions of the next tile, if n positions of a row are left. All tiles of
 * a row have about the same number. */
static int64_t kernel_conv_direct_tile_rows(const direct *direct, int64_t n) {
  const int64_t tiles = ceil_div(n, direct->kernel.mr);
  return ceil_div(n, tiles);
}

/* Returns how many outputs of a panel are summed: all, or half of the last panel if that
 * suffices. */
static int64_t panel_outputs(const direct *direct, int64_t panel) {
  const int64_t nr = direct->kernel.nr, left = direct->args->outputs - panel * nr;
  return direct->kernel.run_half && left <= nr / 2 ? nr / 2 : nr;
}

static int64_t kernel_conv_direct_block_of(const direct *direct) {
  return conv_is_rounded(direct->args) ? BLOCK_WORDS : BLOCK_K;
}

/* Adds the products of kn of k to the sums (cells, outputs) of positions [at, at + n). Each tile
 * prefetches its share of the next part of the weight, so that no tile waits for all of it. */
static void add_products(const direct *direct, int64_t group, const float *weight, int64_t outputs,
                         int64_t k, int64_t at, int64_t n, float *sums) {
  int64_t cell[CONV_DIMS];
  direct_product product = {.k = min_i64(kernel_conv_direct_block_of(direct), direct->k - k),
                            .offsets = direct->offsets + k,
                            .step = direct->strides[2],
                            .b = weight + k * direct->kernel.nr,
                            .b_stride = direct->kernel.nr,
                            .adds = k > 0,
                            .prefetches = direct->taps == 1 && !direct->copies};
  const int64_t bytes = product.k * product.b_stride * (int64_t)sizeof(float);
  product.next = (const char *)product.b + bytes;
  product.next_stride = bytes / (product.k * ceil_div(n, direct->kernel.mr) + 1) + 1;
  while (n > 0) {
    split_cell(&direct->phase, at, cell);
    int64_t left = min_i64(n, direct->phase.d[2].count - cell[2]);
    n -= left;
    for (int64_t rows; left > 0; left -= rows, at += rows, cell[2] += rows) {
      rows = kernel_conv_direct_tile_rows(direct, left);
      product.x = first_input(direct, group, cell);
      product.c = sums;
      (outputs == direct->kernel.nr ? direct->kernel.run : direct->kernel.run_half)(&product,
                                                                                    (int)rows);
      sums += rows * outputs;
      product.next += product.k * product.next_stride;
    }
  }
}

/* Stores outputs (outputs, n) with bias, epilogue and steps; computed in `rows` if out is BF16. */
static void kernel_conv_direct_store_rows(const direct *direct, int64_t output, int64_t to,
                                          int64_t n, int64_t outputs, const float *sums,
                                          float *rows) {
  const conv_args *args = direct->args;
  const bool bf16 = is_bf16(args->out_type);
  const int64_t step = bf16 ? n : direct->cells;
  float *out = bf16 ? rows : (float *)args->out + to;
  for (int64_t o = 0; o < outputs; o++) {
    const float bias = args->bias ? ((const float *)args->bias)[output + o] : -0.0F;
    conv_epilogue_row(&args->epilogue, bias, output + o, to + o * direct->cells, n,
                      sums + o * transposed_cells(direct), out + o * step);
  }
  if (!bf16) {
    steps_in_place(&args->steps, out, to, n, outputs, step);
    return;
  }
  bf16_steps(&args->steps, rows, n * outputs);
  rows_to_bf16(rows, outputs, n, (uint16_t *)args->out + to, direct->cells);
}

/* Stores sums (n, nr) of a panel, or of half of one. transposed: memory for (nr, n) transposed
 * sums. */
static void kernel_conv_direct_store_sums(const direct *direct, int64_t group, int64_t panel,
                                          int64_t at, int64_t n, float *sums, float *transposed) {
  const conv_args *args = direct->args;
  const int64_t nr = panel_outputs(direct, panel), width = transposed_cells(direct),
                first = panel * direct->kernel.nr;
  const int64_t output = group * args->outputs + first,
                outputs = min_i64(nr, args->outputs - first);
  const int64_t to = (direct->image * args->groups * args->outputs + output) * direct->cells + at;
  const transposed_outputs transposed_out = {
      .epilogue = &args->epilogue,
      .bias = args->bias ? (const float *)args->bias + output : NULL,
      .slope = args->epilogue.slope ? args->epilogue.slope + output : NULL,
      .sums = sums,
      .lanes = nr,
      .n = n,
      .outputs = outputs,
      .out = args->out,
      .at = to,
      .step = direct->cells};
  if (!is_bf16(args->out_type) && conv_epilogue_transposed(&transposed_out)) {
    steps_in_place(&args->steps, (float *)args->out + to, to, n, outputs, direct->cells);
    return;
  }
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t o = 0; o < nr; o += 8)
      transpose_8x8(sums + i * nr + o, nr, transposed + o * width + i, width);
  kernel_conv_direct_store_rows(direct, output, to, n, outputs, transposed, sums);
}

static void kernel_conv_direct_run_task(const void *user, int64_t task, char *scratch) {
  const direct *direct = user;
  const int64_t chunk = task % direct->chunks, panel = task / direct->chunks % direct->panels,
                group = task / direct->chunks / direct->panels;
  const int64_t at = chunk * direct->chunk, n = min_i64(direct->chunk, direct->cells - at),
                nr = direct->kernel.nr;
  const float *weight =
      (const float *)direct->args->packed + (group * direct->panels + panel) * direct->k * nr;
  float *sums = (float *)(void *)scratch, *transposed = sums + transposed_cells(direct) * nr;
  if (direct->k == 0) memset(sums, 0, (size_t)(n * nr) * sizeof *sums);
  const int64_t outputs = panel_outputs(direct, panel);
  for (int64_t k = 0; k < direct->k; k += kernel_conv_direct_block_of(direct))
    add_products(direct, group, weight, outputs, k, at, n, sums);
  kernel_conv_direct_store_sums(direct, group, panel, at, n, sums, transposed);
}

/* ---------------------------------------------------------------- the kernel */

static size_t kernel_conv_direct_slot_bytes(const kernel_context *ctx, const direct *direct) {
  return slots_bytes(ctx, kernel_conv_direct_task_count(direct), kernel_conv_direct_work_of(direct),
                     kernel_conv_direct_task_bytes(direct));
}

static size_t direct_scratch(const kernel_context *ctx, const void *args) {
  if (conv_is_tiled(args)) return conv_amx_scratch(ctx, args);
  const direct direct = kernel_conv_direct_plan(ctx, args);
  return kernel_conv_direct_is_empty(&direct)
             ? 0
             : offset_bytes(&direct) + kernel_conv_direct_copy_bytes(&direct) +
                   kernel_conv_direct_slot_bytes(ctx, &direct);
}

static bool run_direct(const kernel_context *ctx, const void *args) {
  const size_t bytes = direct_scratch(ctx, args);
  char *memory = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes == 0) return true;
  if (!memory) return false;
  if (conv_is_tiled(args)) {
    conv_amx_run(ctx, args, memory);
    return true;
  }
  direct direct = kernel_conv_direct_plan(ctx, args);
  direct.offsets = (int64_t *)(void *)memory;
  direct.copied = (float *)(void *)(memory + offset_bytes(&direct));
  char *slots = memory + offset_bytes(&direct) + kernel_conv_direct_copy_bytes(&direct);
  kernel_conv_direct_find_offsets(&direct);
  for (direct.image = 0; direct.image < direct.args->images; direct.image++) {
    direct.from = direct.copied;
    if (direct.copies)
      copy_image(ctx, &direct);
    else
      direct.from = (const float *)direct.args->x + direct.image * direct.args->groups *
                                                        direct.args->channels * plane_size(&direct);
    run_slots_in(ctx, kernel_conv_direct_task_count(&direct), kernel_conv_direct_work_of(&direct),
                 kernel_conv_direct_task_bytes(&direct), kernel_conv_direct_run_task, &direct,
                 slots);
  }
  return true;
}

const kernel_desc kernel_conv_direct = {
    .name = "conv_direct",
    .run = run_direct,
    .scratch = direct_scratch,
    .args_size = sizeof(conv_args),
    .steps = OPERAND(conv_args, steps),
    .operands = {OPERAND(conv_args, x), OPERAND(conv_args, bias), OPERAND(conv_args, packed),
                 OPERAND(conv_args, out), OPERAND(conv_args, epilogue.added),
                 OPERAND(conv_args, epilogue.slope), OPERAND(conv_args, steps.inputs[1]),
                 OPERAND(conv_args, steps.inputs[2])}};

/* ---------------------------------------------------------------- packing */

typedef struct packing {
  const conv_args *args;
  int64_t nr, panels, k;
  float *to; /* (groups, panels, k, nr) */
} packing;

static packing packing_of(const conv_args *args) {
  const int64_t nr = direct_kernel_of(args).nr;
  return (packing){.args = args,
                   .nr = nr,
                   .panels = ceil_div(args->outputs, nr),
                   .k = kernel_conv_direct_depth_of(args) * kernel_size(args)};
}

static size_t kernel_conv_direct_packed_bytes(const packing *packing) {
  return (size_t)(packing->args->groups * packing->panels * packing->k * packing->nr) *
         sizeof(float);
}

/* Loads words [at, at + n) of an output: each joins one tap of two channels. */
static void kernel_conv_direct_load_words(const conv_args *args, const conv_weight *all,
                                          int64_t row, int64_t at, int64_t n, uint32_t *to) {
  const int64_t taps = kernel_size(args);
  float x[2 * PACK_K];
  for (int64_t m; n > 0; at += m, n -= m, to += m) {
    const int64_t even = at / taps * 2 * taps + at % taps;
    const bool ends = even + taps >= all->row;
    m = min_i64(n, taps - at % taps);
    conv_weight_load(all, row, even, m, x);
    if (!ends) conv_weight_load(all, row, even + taps, m, x + PACK_K);
    pairs_join(x, ends ? NULL : x + PACK_K, m, to);
  }
}

/* Works like kernel_conv_direct_load_words, for one tap: a word is two neighbouring weights. */
static void load_neighbours(const conv_weight *all, int64_t row, int64_t at, int64_t n,
                            uint32_t *to) {
  float x[2 * PACK_K];
  const int64_t m = min_i64(2 * n, all->row - 2 * at);
  conv_weight_load(all, row, 2 * at, m, x);
  if (m < 2 * n) x[m] = 0;
  pairs_round(x, n, to);
}

/* Loads elements, or words, [at, at + n) of an output's row. */
static void load_output(const packing *packing, int64_t row, int64_t at, int64_t n, float *to) {
  const conv_args *args = packing->args;
  const conv_weight all = {args->weight, args->weight_type, args->encoding,
                           args->channels * kernel_size(args)};
  if (!conv_is_rounded(args))
    conv_weight_load(&all, row, at, n, to);
  else if (kernel_size(args) == 1)
    load_neighbours(&all, row, at, n, (uint32_t *)(void *)to);
  else
    kernel_conv_direct_load_words(args, &all, row, at, n, (uint32_t *)(void *)to);
}

/* Packs a panel, PACK_K elements of k at a time. */
static void kernel_conv_direct_pack_panel(const packing *packing, int64_t first, int64_t lanes,
                                          float *to) {
  float some[MAX_LANES * PACK_K];
  for (int64_t at = 0; at < packing->k; at += PACK_K) {
    const int64_t n = min_i64(PACK_K, packing->k - at);
    for (int64_t lane = 0; lane < lanes; lane++)
      load_output(packing, first + lane, at, n, some + lane * PACK_K);
    gemm_pack_strided(COMPUTE_F32, DTYPE_F32, some, PACK_K, 1, lanes, n, packing->nr,
                      to + at * packing->nr);
  }
}

static void kernel_conv_direct_pack_panels(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t group = i / packing->panels, first = i % packing->panels * packing->nr;
    const int64_t lanes = min_i64(packing->nr, packing->args->outputs - first);
    float *to = packing->to + i * packing->k * packing->nr;
    if (lanes < packing->nr) memset(to, 0, (size_t)(packing->k * packing->nr) * sizeof *to);
    kernel_conv_direct_pack_panel(packing, group * packing->args->outputs + first, lanes, to);
  }
}

static size_t kernel_conv_direct_pack_scratch(const kernel_context *ctx, const void *args) {
  const packing packing = packing_of(args);
  (void)ctx;
  return kernel_scratch_size(conv_is_tiled(args) ? conv_amx_packed_bytes(args)
                                                 : kernel_conv_direct_packed_bytes(&packing));
}

static bool run_conv_direct_pack(const kernel_context *ctx, const void *args) {
  packing packing = packing_of(args);
  char *to = ctx->scratch(ctx->pool, kernel_conv_direct_pack_scratch(ctx, args));
  if (!to) return false;
  if (conv_is_tiled(args)) {
    conv_amx_pack(ctx, args, to);
    return true;
  }
  packing.to = (float *)(void *)to;
  ctx->parallel_for(ctx->pool, packing.args->groups * packing.panels, PACK_GRAIN,
                    kernel_conv_direct_pack_panels, &packing);
  return true;
}

const kernel_desc kernel_conv_direct_pack = {.name = "conv_direct_pack",
                                             .run = run_conv_direct_pack,
                                             .scratch = kernel_conv_direct_pack_scratch,
                                             .args_size = sizeof(conv_args),
                                             .operands = {OPERAND(conv_args, weight)}};
