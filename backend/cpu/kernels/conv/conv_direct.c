/* Inputs times a packed weight, tile by tile. Rounded ones are copied as words of two channels
 * (pairs.h), row by row of all channels, so that what a tile reads is in few pages. A task is some
 * neighbouring positions by a panel of outputs; its sums, a position's side by side, are turned and
 * stored at the end. */
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
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  BLOCK_K = GEMM_BLOCK_K,
  BLOCK_WORDS = 2 * GEMM_BLOCK_K, /* of rounded ones, whose sums need no short chains */
  MOST_CELLS = 128, /* positions of a task: their sums of a panel stay in the first-level cache */
  LEAST_OUTPUTS = 16,
  MEDIUM_PLANE = 256,     /* of which a deep sum is made no slower */
  DEEP = 256,             /* channels of such a sum, where there are as many outputs or more */
  SMALL_PLANE = 64,       /* positions that fill columns of gemm.c badly */
  WORK = 256 * 1024,      /* multiplications that are worth waking a thread up */
  COPY_WORK = 8 * 1024,   /* elements, the same */
  LARGE_PLANE = 512,      /* outputs: rows of all planes are copied one after the other */
  LARGE_COPY = 16 * 1024, /* elements of a plane */
  TASKS = 4,              /* of a thread, at least, so that all end at about the same time */
  PACK_GRAIN = 1,         /* panels */
  PACK_K = 64,
  MOST_LANES = 32
};

/* Along a dimension, from the first input of the first output to the last of the last. */
static int64_t reach_of(const conv_dim *d) {
  return d->out > 0 && d->kernel > 0 ? conv_dim_reach(d, d->out) : 0;
}

/* A kernel of one element whose inputs are copied as outputs lie: one long row each. Floats are
 * read where they lie unless they are a stride apart, in another line of the cache or page each. */
static bool is_one_row(const conv_args *p) {
  bool copies = conv_is_rounded(p);
  for (int d = 0; d < CONV_DIMS; d++) {
    if (p->dims[d].kernel != 1) return false;
    copies |= p->dims[d].stride > 1;
  }
  return copies;
}

/* Inputs between those that a kernel of one element sees are not copied: how far apart these are.
 */
static int64_t apart(const conv_args *p, int d) {
  const bool skips = conv_is_rounded(p) ? p->dims[d].kernel == 1 : is_one_row(p);
  return skips ? p->dims[d].stride : 1;
}

static bool copies_planes(const conv_args *p) {
  if (conv_is_rounded(p)) return true;
  for (int d = 0; d < CONV_DIMS; d++)
    if (p->dims[d].padding > 0 || reach_of(&p->dims[d]) > p->dims[d].in || apart(p, d) > 1)
      return true;
  return false;
}

/* Wide padding between whose outputs there are few would make large copies. */
static bool has_large_copies(const conv_args *p) {
  double size = 1;
  for (int d = 0; d < CONV_DIMS; d++) size *= (double)reach_of(&p->dims[d]);
  return copies_planes(p) && size > LARGE_COPY + 4 * (double)(in_size(p) + out_size(p));
}

bool conv_is_direct(const conv_args *p) {
  return p->type == DTYPE_F32 && !p->transposed && p->outputs >= LEAST_OUTPUTS &&
         !(p->groups > 1 && p->channels == 1) && !has_large_copies(p);
}

bool conv_suits_direct(const conv_args *p, bool rounds) {
  for (int d = 0; d < CONV_DIMS; d++)
    if (p->dims[d].stride > 1 || p->dims[d].kernel > 1 || p->dims[d].padding > 0) return true;
  const bool deep = p->channels >= DEEP && !rounds && !is_encoded(&p->encoding);
  return out_size(p) < SMALL_PLANE ||
         (out_size(p) < MEDIUM_PLANE && (p->channels > p->outputs || deep));
}

/* ---------------------------------------------------------------- sizes */

typedef struct direct {
  const conv_args *p;
  conv_part part;
  direct_kernel kernel;
  int64_t seen[CONV_DIMS]; /* planes as they are read: what outputs see, or x's own */
  bool copies;
  int64_t strides[CONV_DIMS]; /* of outputs over them */
  int64_t steps[CONV_DIMS];   /* from one of them to the next, in elements as they are read */
  int64_t depth, depth_step;  /* channels of a group, or pairs of them; the same */
  int64_t cells, taps, k, panels;
  int64_t chunk, chunks; /* positions of a task; tasks of a panel */
  int64_t image;
  const float *from; /* planes of the image */
  float *copied;     /* owned by the caller: planes of an image, or words; where `copies` */
  int64_t *offsets;  /* (k) of elements from a position's first input */
} direct;

static int64_t plane_size(const direct *t) { return t->seen[0] * t->seen[1] * t->seen[2]; }
static int64_t copied_planes(const direct *t) { return t->p->groups * t->depth; }

static int64_t depth_of(const conv_args *p) {
  return conv_is_rounded(p) ? pairs_of(p->channels) : p->channels;
}
static direct_kernel kernel_of(const conv_args *p) {
  return conv_is_rounded(p) ? direct_pairs_kernel_for(p->outputs) : direct_kernel_for(p->outputs);
}

/* Where elements are: planes one behind the other, or rows of all channels. */
static void set_steps(direct *t) {
  const bool rows = conv_is_rounded(t->p) && !is_one_row(t->p);
  t->depth_step = rows ? t->seen[2] : plane_size(t);
  t->steps[2] = 1;
  t->steps[1] = t->seen[2] * (rows ? t->depth : 1);
  t->steps[0] = t->seen[1] * t->steps[1];
}

static direct plan(const kernel_context *ctx, const conv_args *p) {
  direct t = {.p = p, .part = {.p = p, .c = COMPUTE_F32}, .copies = copies_planes(p)};
  for (int d = 0; d < CONV_DIMS; d++) {
    t.part.d[d] = whole_window(&p->dims[d]);
    t.seen[d] = t.copies ? ceil_div(reach_of(&p->dims[d]), apart(p, d)) : p->dims[d].in;
    t.strides[d] = p->dims[d].stride / apart(p, d);
  }
  t.kernel = kernel_of(p);
  t.cells = cell_count(&t.part);
  t.taps = tap_count(&t.part);
  t.depth = depth_of(p);
  t.k = t.depth * t.taps;
  set_steps(&t);
  for (int d = 0; d < CONV_DIMS && is_one_row(p); d++)
    t.part.d[d].count = d == CONV_DIMS - 1 ? t.cells : 1;
  t.panels = ceil_div(p->outputs, t.kernel.nr);
  const int64_t tasks = ceil_div(t.cells, MOST_CELLS), wanted = TASKS * ctx->n_threads;
  t.chunks = tasks;
  if (p->groups * t.panels * tasks < wanted && p->groups * t.panels > 0)
    t.chunks = ceil_div(wanted, p->groups * t.panels);
  t.chunk = ceil_div(t.cells, t.chunks > 0 ? t.chunks : 1);
  t.chunks = t.chunk > 0 ? ceil_div(t.cells, t.chunk) : 0;
  return t;
}

/* The positions of a task in whole blocks that are turned at once. */
static int64_t turned_cells(const direct *t) { return round_up(t->chunk, 16); }
static size_t task_bytes(const direct *t) {
  return (size_t)(2 * turned_cells(t) * t->kernel.nr) * sizeof(float);
}
static size_t offset_bytes(const direct *t) {
  return kernel_scratch_size((size_t)(t->k + DIRECT_AHEAD) * sizeof *t->offsets);
}
static size_t copy_bytes(const direct *t) {
  return t->copies ? kernel_scratch_size((size_t)(copied_planes(t) * plane_size(t)) * sizeof(float))
                   : 0;
}
static int64_t task_count(const direct *t) { return t->p->groups * t->panels * t->chunks; }
static int64_t work_of(const direct *t) {
  return t->p->groups * (t->cells * t->k * t->p->outputs / 1024 + 1) / (WORK / 1024);
}
static bool is_empty(const direct *t) {
  return t->p->images * t->p->groups * t->panels * t->cells == 0;
}

/* ---------------------------------------------------------------- inputs */

/* Of each channel and tap, from where a position's first one is. */
static void find_offsets(direct *t) {
  const conv_args *p = t->p;
  int64_t tap[CONV_DIMS];
  for (int64_t i = 0; t->k > 0 && i < t->taps; i++) {
    split_tap(&t->part, i, tap);
    int64_t at = 0;
    for (int d = 0; d < CONV_DIMS; d++) at += tap[d] * p->dims[d].dilation * t->steps[d];
    t->offsets[i] = at;
  }
  const int64_t stop = t->k > 0 ? t->k + DIRECT_AHEAD : 0;
  for (int64_t at = t->taps, step = t->depth_step; at < stop; at += t->taps, step += t->depth_step)
    for (int64_t i = 0; i < least(t->taps, stop - at); i++)
      t->offsets[at + i] = t->offsets[i] + step;
}

/* A row of a copied plane, of a row of the image from `from` on, NULL: padding; or of words, with
 * the row of the next channel, `odd`, which may be NULL. */
static void copy_row(const direct *t, const void *from, const void *odd, float *to) {
  const conv_dim *d = &t->p->dims[2];
  const int64_t width = t->seen[2], step = apart(t->p, 2);
  const int64_t left = least(ceil_div(d->padding, step), width);
  const int64_t stop = from ? least(ceil_div(d->in + d->padding, step), width) : left;
  const int64_t n = stop > left ? stop - left : 0, first = left * step - d->padding;
  memset(to, 0, (size_t)left * sizeof *to);
  const bool narrow = is_bf16(t->p->x_type);
  const void *x = from ? float_at(from, narrow, first) : NULL,
             *y = odd ? float_at(odd, narrow, first) : NULL;
  if (n > 0 && conv_is_rounded(t->p))
    conv_join_row(narrow, x, y, step, n, (uint32_t *)(void *)(to + left));
  else if (step > 1)
    for (int64_t i = 0; i < n; i++) to[left + i] = ((const float *)x)[i * step];
  else if (n > 0)
    memcpy(to + left, x, (size_t)n * sizeof *to);
  memset(to + left + n, 0, (size_t)(width - left - n) * sizeof *to);
}

static int64_t copied_rows(const direct *t) { return t->seen[0] * t->seen[1]; }

static void copy_plane_row(const direct *t, int64_t plane, int64_t row) {
  const conv_dim *d = t->p->dims;
  const int64_t group = plane / t->depth, i = plane % t->depth, size = in_size(t->p);
  const int64_t channel = conv_is_rounded(t->p) ? 2 * i : i;
  const int64_t from = (t->image * t->p->groups + group) * t->p->channels + channel;
  const int64_t z = row / t->seen[1], y = row % t->seen[1];
  const int64_t at_z = z * apart(t->p, 0) - d[0].padding, at_y = y * apart(t->p, 1) - d[1].padding;
  const bool inside = at_z >= 0 && at_z < d[0].in && at_y >= 0 && at_y < d[1].in;
  const int64_t at = from * size + (at_z * d[1].in + at_y) * d[2].in;
  const bool narrow = is_bf16(t->p->x_type), pairs = channel + 1 < t->p->channels;
  float *to = t->copied + group * t->depth * plane_size(t) + i * t->depth_step;
  copy_row(t, inside ? float_at(t->p->x, narrow, at) : NULL,
           inside && conv_is_rounded(t->p) && pairs ? float_at(t->p->x, narrow, at + size) : NULL,
           to + z * t->steps[0] + y * t->steps[1]);
}

/* Rows of all planes, in an order in which threads take neighbours of what they wrote. */
static void copy_rows(void *ctx, int64_t begin, int64_t end) {
  const direct *t = ctx;
  const int64_t planes = copied_planes(t), rows = copied_rows(t);
  const bool large = t->cells >= LARGE_PLANE;
  for (int64_t i = begin; i < end; i++)
    copy_plane_row(t, large ? i % planes : i / rows, large ? i / planes : i % rows);
}

static void copy_image(const kernel_context *ctx, direct *t) {
  ctx->parallel_for(ctx->pool, copied_planes(t) * copied_rows(t),
                    ceil_div(COPY_WORK, at_least(t->seen[2], 1)), copy_rows, t);
}

/* ---------------------------------------------------------------- outputs */

/* The first input of a position. */
static const float *first_input(const direct *t, int64_t group, const int64_t cell[]) {
  const float *at = t->from + group * t->depth * plane_size(t);
  for (int i = 0; i < CONV_DIMS; i++) at += cell[i] * t->strides[i] * t->steps[i];
  return at;
}

/* Neighbouring positions of one row that a tile has, of at most n: as many as all tiles of the row
 * have, about. */
static int64_t tile_rows(const direct *t, int64_t n) {
  const int64_t tiles = ceil_div(n, t->kernel.mr);
  return ceil_div(n, tiles);
}

/* How many outputs of a panel are summed: of the last one half of them, where the others are none.
 */
static int64_t panel_outputs(const direct *t, int64_t panel) {
  const int64_t nr = t->kernel.nr, left = t->p->outputs - panel * nr;
  return t->kernel.run_half && left <= nr / 2 ? nr / 2 : nr;
}

static int64_t block_of(const direct *t) { return conv_is_rounded(t->p) ? BLOCK_WORDS : BLOCK_K; }

/* Sums (cells, outputs) of positions [at, at + n), of kn of k. Each tile asks for its share of the
 * weight that follows, so that none waits for all of it. */
static void add_products(const direct *t, int64_t group, const float *weight, int64_t outputs,
                         int64_t k, int64_t at, int64_t n, float *sums) {
  int64_t cell[CONV_DIMS];
  direct_product product = {.k = least(block_of(t), t->k - k),
                            .offsets = t->offsets + k,
                            .step = t->strides[2],
                            .b = weight + k * t->kernel.nr,
                            .b_step = t->kernel.nr,
                            .adds = k > 0,
                            .asks = t->taps == 1 && !t->copies};
  const int64_t bytes = product.k * product.b_step * (int64_t)sizeof(float);
  product.next = (const char *)product.b + bytes;
  product.next_step = bytes / (product.k * ceil_div(n, t->kernel.mr) + 1) + 1;
  while (n > 0) {
    split_cell(&t->part, at, cell);
    int64_t left = least(n, t->part.d[2].count - cell[2]);
    n -= left;
    for (int64_t rows; left > 0; left -= rows, at += rows, cell[2] += rows) {
      rows = tile_rows(t, left);
      product.x = first_input(t, group, cell);
      product.c = sums;
      (outputs == t->kernel.nr ? t->kernel.run : t->kernel.run_half)(&product, (int)rows);
      sums += rows * outputs;
      product.next += product.k * product.next_step;
    }
  }
}

/* Outputs (outputs, n) with what follows them: where they are stored, or, where that is BF16, in
 * `rows` first. */
static void store_rows(const direct *t, int64_t output, int64_t to, int64_t n, int64_t outputs,
                       const float *sums, float *rows) {
  const conv_args *p = t->p;
  const bool narrow = is_bf16(p->out_type);
  const int64_t step = narrow ? n : t->cells;
  float *out = narrow ? rows : (float *)p->out + to;
  for (int64_t o = 0; o < outputs; o++) {
    const float bias = p->bias ? ((const float *)p->bias)[output + o] : -0.0F;
    conv_tail_row(&p->tail, bias, to + o * t->cells, n, sums + o * turned_cells(t), out + o * step);
  }
  if (!narrow) {
    steps_in_place(&p->steps, out, to, n, outputs, step);
    return;
  }
  bf16_steps(&p->steps, rows, n * outputs);
  narrow_rows(rows, outputs, n, (uint16_t *)p->out + to, t->cells);
}

/* sums (n, nr), which become (nr, n) in `turned`, as outputs of a panel, or of half of one. */
static void store_sums(const direct *t, int64_t group, int64_t panel, int64_t at, int64_t n,
                       float *sums, float *turned) {
  const conv_args *p = t->p;
  const int64_t nr = panel_outputs(t, panel), width = turned_cells(t), first = panel * t->kernel.nr;
  const int64_t output = group * p->outputs + first, outputs = least(nr, p->outputs - first);
  const int64_t to = (t->image * p->groups * p->outputs + output) * t->cells + at;
  const turned_outputs turned_out = {.tail = &p->tail,
                                     .bias = p->bias ? (const float *)p->bias + output : NULL,
                                     .sums = sums,
                                     .lanes = nr,
                                     .n = n,
                                     .outputs = outputs,
                                     .out = p->out,
                                     .at = to,
                                     .step = t->cells};
  if (!is_bf16(p->out_type) && conv_tail_turned(&turned_out)) {
    steps_in_place(&p->steps, (float *)p->out + to, to, n, outputs, t->cells);
    return;
  }
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t o = 0; o < nr; o += 8)
      transpose_8x8(sums + i * nr + o, nr, turned + o * width + i, width);
  store_rows(t, output, to, n, outputs, turned, sums);
}

static void run_task(const void *user, int64_t task, char *scratch) {
  const direct *t = user;
  const int64_t chunk = task % t->chunks, panel = task / t->chunks % t->panels,
                group = task / t->chunks / t->panels;
  const int64_t at = chunk * t->chunk, n = least(t->chunk, t->cells - at), nr = t->kernel.nr;
  const float *weight = (const float *)t->p->packed + (group * t->panels + panel) * t->k * nr;
  float *sums = (float *)(void *)scratch, *turned = sums + turned_cells(t) * nr;
  if (t->k == 0) memset(sums, 0, (size_t)(n * nr) * sizeof *sums);
  const int64_t outputs = panel_outputs(t, panel);
  for (int64_t k = 0; k < t->k; k += block_of(t))
    add_products(t, group, weight, outputs, k, at, n, sums);
  store_sums(t, group, panel, at, n, sums, turned);
}

/* ---------------------------------------------------------------- the kernel */

static size_t slot_bytes(const kernel_context *ctx, const direct *t) {
  return slots_bytes(ctx, task_count(t), work_of(t), task_bytes(t));
}

static size_t direct_scratch(const kernel_context *ctx, const void *args) {
  if (conv_is_tiled(args)) return conv_amx_scratch(ctx, args);
  const direct t = plan(ctx, args);
  return is_empty(&t) ? 0 : offset_bytes(&t) + copy_bytes(&t) + slot_bytes(ctx, &t);
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
  direct t = plan(ctx, args);
  t.offsets = (int64_t *)(void *)memory;
  t.copied = (float *)(void *)(memory + offset_bytes(&t));
  char *slots = memory + offset_bytes(&t) + copy_bytes(&t);
  find_offsets(&t);
  for (t.image = 0; t.image < t.p->images; t.image++) {
    t.from = t.copied;
    if (t.copies)
      copy_image(ctx, &t);
    else
      t.from = (const float *)t.p->x + t.image * t.p->groups * t.p->channels * plane_size(&t);
    run_slots_in(ctx, task_count(&t), work_of(&t), task_bytes(&t), run_task, &t, slots);
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
                 OPERAND(conv_args, out), OPERAND(conv_args, tail.added),
                 OPERAND(conv_args, steps.inputs[1]), OPERAND(conv_args, steps.inputs[2])}};

/* ---------------------------------------------------------------- packing */

typedef struct packing {
  const conv_args *p;
  int64_t nr, panels, k;
  float *to; /* (groups, panels, k, nr) */
} packing;

static packing packing_of(const conv_args *p) {
  const int64_t nr = kernel_of(p).nr;
  return (packing){
      .p = p, .nr = nr, .panels = ceil_div(p->outputs, nr), .k = depth_of(p) * kernel_size(p)};
}

static size_t packed_bytes(const packing *k) {
  return (size_t)(k->p->groups * k->panels * k->k * k->nr) * sizeof(float);
}

/* Words [at, at + n) of an output: an element of the kernel in two channels each. */
static void load_words(const conv_args *p, const conv_weight *all, int64_t row, int64_t at,
                       int64_t n, uint32_t *to) {
  const int64_t taps = kernel_size(p);
  float x[2 * PACK_K];
  for (int64_t m; n > 0; at += m, n -= m, to += m) {
    const int64_t even = at / taps * 2 * taps + at % taps;
    const bool ends = even + taps >= all->row;
    m = least(n, taps - at % taps);
    conv_weight_load(all, row, even, m, x);
    if (!ends) conv_weight_load(all, row, even + taps, m, x + PACK_K);
    pairs_join(x, ends ? NULL : x + PACK_K, m, to);
  }
}

/* The same of a kernel of one element: neighbours. */
static void load_neighbours(const conv_weight *all, int64_t row, int64_t at, int64_t n,
                            uint32_t *to) {
  float x[2 * PACK_K];
  const int64_t m = least(2 * n, all->row - 2 * at);
  conv_weight_load(all, row, 2 * at, m, x);
  if (m < 2 * n) x[m] = 0;
  pairs_round(x, n, to);
}

/* Elements, or words, of k of an output. */
static void load_output(const packing *k, int64_t row, int64_t at, int64_t n, float *to) {
  const conv_args *p = k->p;
  const conv_weight all = {p->weight, p->weight_type, p->encoding, p->channels * kernel_size(p)};
  if (!conv_is_rounded(p))
    conv_weight_load(&all, row, at, n, to);
  else if (kernel_size(p) == 1)
    load_neighbours(&all, row, at, n, (uint32_t *)(void *)to);
  else
    load_words(p, &all, row, at, n, (uint32_t *)(void *)to);
}

/* Some of k of a panel's outputs at a time. */
static void pack_panel(const packing *k, int64_t first, int64_t lanes, float *to) {
  float some[MOST_LANES * PACK_K];
  for (int64_t at = 0; at < k->k; at += PACK_K) {
    const int64_t n = least(PACK_K, k->k - at);
    for (int64_t lane = 0; lane < lanes; lane++)
      load_output(k, first + lane, at, n, some + lane * PACK_K);
    gemm_pack_strided(COMPUTE_F32, DTYPE_F32, some, PACK_K, 1, lanes, n, k->nr, to + at * k->nr);
  }
}

static void pack_panels(void *ctx, int64_t begin, int64_t end) {
  const packing *k = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t group = i / k->panels, first = i % k->panels * k->nr;
    const int64_t lanes = least(k->nr, k->p->outputs - first);
    float *to = k->to + i * k->k * k->nr;
    if (lanes < k->nr) memset(to, 0, (size_t)(k->k * k->nr) * sizeof *to);
    pack_panel(k, group * k->p->outputs + first, lanes, to);
  }
}

static size_t pack_scratch(const kernel_context *ctx, const void *args) {
  const packing k = packing_of(args);
  (void)ctx;
  return kernel_scratch_size(conv_is_tiled(args) ? conv_amx_packed_bytes(args) : packed_bytes(&k));
}

static bool pack(const kernel_context *ctx, const void *args) {
  packing k = packing_of(args);
  char *to = ctx->scratch(ctx->pool, pack_scratch(ctx, args));
  if (!to) return false;
  if (conv_is_tiled(args)) {
    conv_amx_pack(ctx, args, to);
    return true;
  }
  k.to = (float *)(void *)to;
  ctx->parallel_for(ctx->pool, k.p->groups * k.panels, PACK_GRAIN, pack_panels, &k);
  return true;
}

const kernel_desc kernel_conv_direct_pack = {.name = "conv_direct_pack",
                                             .run = pack,
                                             .scratch = pack_scratch,
                                             .args_size = sizeof(conv_args),
                                             .operands = {OPERAND(conv_args, weight)}};
