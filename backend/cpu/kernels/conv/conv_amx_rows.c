/* Rounded convolutions of few channels by tiles. Rows of an image are copied as words of two
 * neighbours with the padding around them: what an output sees of one are a few of its words. A
 * task packs those of its outputs as a panel, which all strips are multiplied by. */
#include "backend/cpu/kernels/conv/conv_amx_rows.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_sums.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_words.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/narrow.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  MOST_COLUMNS = 128,   /* of a task */
  TASKS = 4,            /* of a thread, at least, so that all end at about the same time */
  WORK = 1024 * 1024,   /* multiplications that are worth waking a thread up */
  COPY_WORK = 8 * 1024, /* elements, the same */
};

typedef struct row_tiles {
  const conv_args *p;
  int64_t slices, height, width; /* of a channel's copy: with padding; words of a row */
  int64_t words;                 /* of a patch, in whole steps */
  conv_cut cut;                  /* a patch is a task, of all strips */
  int64_t image;
  uint32_t *copied; /* (groups, channels, slices, height, width) */
} row_tiles;

/* Elements from a word of a copied row to the next. */
static int64_t word_step(const conv_args *p) { return p->dims[2].stride == 1 ? 1 : 2; }
/* From a pair of a row's elements to the next, and from an output's first to the next output's, in
 * words of a copied row. */
static int64_t pair_step(const row_tiles *t) { return 2 / word_step(t->p); }
static int64_t output_step(const row_tiles *t) { return t->p->dims[2].stride / word_step(t->p); }
static int64_t channel_words(const row_tiles *t) { return t->slices * t->height * t->width; }

static row_tiles plan(const kernel_context *ctx, const conv_args *p) {
  row_tiles t = {.p = p, .words = round_up(conv_rows_words(p), AMX_WORDS)};
  if (out_size(p) > 0) {
    t.slices = conv_dim_reach(&p->dims[0], p->dims[0].out);
    t.height = conv_dim_reach(&p->dims[1], p->dims[1].out);
    t.width = (p->dims[2].out - 1) * output_step(&t) + 1 + (conv_row_words(p) - 1) * pair_step(&t);
  }
  const int64_t slices = at_least(p->groups * p->dims[0].out, 1);
  t.cut = conv_cut_slices(p->dims, MOST_COLUMNS, p->dims[2].out,
                          ceil_div(TASKS * ctx->n_threads, slices));
  return t;
}

static bool is_empty(const row_tiles *t) {
  return t->p->images * t->p->groups * t->p->outputs * out_size(t->p) == 0;
}
static int64_t task_count(const row_tiles *t) {
  return t->p->groups * t->p->dims[0].out * conv_cut_patches(&t->cut);
}
static int64_t work_of(const row_tiles *t) {
  return t->p->groups * out_size(t->p) * t->p->outputs * 2 * t->words / WORK;
}
static size_t copy_bytes(const row_tiles *t) {
  const int64_t words = t->p->groups * t->p->channels * channel_words(t);
  return kernel_scratch_size((size_t)words * sizeof(uint32_t));
}
static int64_t wide_columns(const row_tiles *t) {
  return round_up(t->cut.rows * t->cut.columns, AMX_COLUMNS);
}
static size_t task_bytes(const row_tiles *t) {
  return (size_t)((t->words + 2 * AMX_OUTPUTS) * wide_columns(t)) * sizeof(uint32_t);
}

/* ---------------------------------------------------------------- inputs */

/* Word i of a row, of elements that may be padding. */
static uint32_t word_at(const row_tiles *t, const void *from, int64_t i) {
  const conv_dim *d = &t->p->dims[2];
  const bool narrow = is_narrow(t->p->x_is_narrow);
  uint32_t word = 0;
  for (int64_t half = 0; half < 2; half++) {
    const int64_t at = i * word_step(t->p) + half - d->padding;
    if (at < 0 || at >= d->in) continue;
    const uint16_t bits =
        narrow ? ((const uint16_t *)from)[at] : f32_to_bf16(((const float *)from)[at]);
    word |= (uint32_t)bits << 16 * half;
  }
  return word;
}

/* n words from element `at` of a row on. */
static void join_words(const row_tiles *t, const void *from, int64_t at, int64_t n, uint32_t *to) {
  const bool narrow = is_narrow(t->p->x_is_narrow);
  const void *even = narrow_at(from, narrow, at);
  if (t->p->dims[2].stride == 1)
    conv_join_row(narrow, even, narrow_at(from, narrow, at + 1), 1, n, to);
  else if (narrow)
    memcpy(to, even, (size_t)n * sizeof *to);
  else
    pairs_round(even, n, to);
}

static void copy_row(const row_tiles *t, const void *from, uint32_t *to) {
  const conv_dim *d = &t->p->dims[2];
  const int64_t step = word_step(t->p), begin = least(ceil_div(d->padding, step), t->width),
                last = d->in + d->padding - 2; /* where a word begins whose halves are both there */
  const int64_t end = at_least(least(last < 0 ? 0 : last / step + 1, t->width), begin);
  for (int64_t i = 0; i < begin; i++) to[i] = word_at(t, from, i);
  if (end > begin) join_words(t, from, begin * step - d->padding, end - begin, to + begin);
  for (int64_t i = end; i < t->width; i++) to[i] = word_at(t, from, i);
}

static void copy_rows(void *ctx, int64_t begin, int64_t end) {
  const row_tiles *t = ctx;
  const conv_args *p = t->p;
  const conv_dim *d = p->dims;
  for (int64_t i = begin; i < end; i++) {
    const int64_t y = i % t->height - d[1].padding, z = i / t->height % t->slices - d[0].padding,
                  channel = t->image * p->groups * p->channels + i / t->height / t->slices;
    const int64_t at = (channel * d[0].in * d[1].in + z * d[1].in + y) * d[2].in;
    uint32_t *to = t->copied + i * t->width;
    if (z < 0 || z >= d[0].in || y < 0 || y >= d[1].in)
      memset(to, 0, (size_t)t->width * sizeof *to);
    else
      copy_row(t, narrow_at(p->x, is_narrow(p->x_is_narrow), at), to);
  }
}

static void copy_image(const kernel_context *ctx, row_tiles *t) {
  ctx->parallel_for(ctx->pool, t->p->groups * t->p->channels * t->slices * t->height,
                    ceil_div(COPY_WORK, 2 * t->width), copy_rows, t);
}

#if KERNEL_X86
/* Those bits of n words that `keep` has. Rows of a panel are short. */
TARGET_AVX512 static void copy_words(const uint32_t *from, int64_t n, uint32_t keep, uint32_t *to) {
  enum { LANES = 16 };
  const __m512i bits = _mm512_set1_epi32((int)keep);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    _mm512_storeu_si512(to + i, _mm512_and_si512(bits, _mm512_loadu_si512(from + i)));
  const __mmask16 rest = (__mmask16)bits_between(0, n - i);
  _mm512_mask_storeu_epi32(to + i, rest,
                           _mm512_and_si512(bits, _mm512_maskz_loadu_epi32(rest, from + i)));
}
#else
static void copy_words(const uint32_t *from, int64_t n, uint32_t keep, uint32_t *to) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i] & keep;
}
#endif

/* The words that outputs of a row see of a row of the kernel, one row of them for each pair. Of an
 * odd number the last one has zeros: an infinity there would make no number of a weight of none. */
static void pack_row(const row_tiles *t, const uint32_t *from, int64_t columns, uint32_t *to) {
  const int64_t kernel = t->p->dims[2].kernel, step = output_step(t), next = pair_step(t),
                wide = wide_columns(t);
  for (int64_t i = 0; i < kernel; i += 2, from += next, to += wide) {
    const uint32_t keep = i + 1 < kernel ? UINT32_MAX : 0xffff;
    if (step == 1) copy_words(from, columns, keep, to);
    for (int64_t j = 0; step > 1 && j < columns; j++) to[j] = from[j * step] & keep;
  }
}

/* panel (words, wide columns) */
static void pack_panel(const row_tiles *t, const conv_patch *k, uint32_t *panel) {
  const conv_args *p = t->p;
  const conv_dim *d = p->dims;
  const int64_t wide = wide_columns(t), own = conv_rows_words(p);
  uint32_t *to = panel;
  for (int64_t i = 0; i < p->channels * d[0].kernel * d[1].kernel; i++) {
    const int64_t y = i % d[1].kernel * d[1].dilation,
                  z = i / d[1].kernel % d[0].kernel * d[0].dilation + k->z * d[0].stride;
    const uint32_t *slice =
        t->copied + (k->group * p->channels + i / d[1].kernel / d[0].kernel) * channel_words(t) +
        z * t->height * t->width + k->column * output_step(t);
    for (int64_t row = 0; row < k->rows; row++)
      pack_row(t, slice + ((k->row + row) * d[1].stride + y) * t->width, k->columns,
               to + row * k->columns);
    to += conv_row_words(p) * wide;
  }
  memset(to, 0, (size_t)((t->words - own) * wide) * sizeof *to);
}

/* ---------------------------------------------------------------- outputs */

static void sum_strip(const row_tiles *t, const conv_patch *k, const uint32_t *panel, float *sums) {
  static const int64_t offset = 0;
  const int64_t n = k->rows * k->columns, strips = conv_tiled_strips(t->p);
  const int outputs = k->outputs > AMX_OUTPUTS / 2 ? AMX_OUTPUTS : AMX_OUTPUTS / 2;
  amx_sums s = {
      .blocks = t->words / AMX_WORDS,
      .taps = 1,
      .a = (const uint32_t *)t->p->packed + (k->group * strips + k->strip) * conv_strip_words(t->p),
      .b_step = wide_columns(t),
      .offsets = &offset,
      .c_step = wide_columns(t)};
  for (int64_t at = 0; at < n; at += AMX_COLUMNS) {
    s.b = panel + at;
    s.c = sums + at;
    amx_sums_run(&s, outputs, n - at > AMX_COLUMNS / 2 ? AMX_COLUMNS : AMX_COLUMNS / 2);
  }
}

static void run_task(const void *user, int64_t task, char *scratch) {
  const row_tiles *t = user;
  const int64_t places = t->p->dims[0].out * conv_cut_patches(&t->cut);
  conv_patch k = {.image = t->image, .group = task / places};
  conv_cut_place(&t->cut, t->p->dims, task % places, &k);
  uint32_t *panel = (uint32_t *)(void *)scratch;
  float *sums = (float *)(void *)(panel + t->words * wide_columns(t)),
        *memory = sums + AMX_OUTPUTS * wide_columns(t);
  pack_panel(t, &k, panel);
  amx_sums_begin();
  for (k.strip = 0; k.strip < conv_tiled_strips(t->p); k.strip++) {
    k.outputs = least(AMX_OUTPUTS, t->p->outputs - k.strip * AMX_OUTPUTS);
    sum_strip(t, &k, panel, sums);
    conv_sums_store(t->p, &k, sums, wide_columns(t), k.columns, memory);
  }
  amx_sums_end();
}

/* ---------------------------------------------------------------- the kernel */

size_t row_tiles_scratch(const kernel_context *ctx, const conv_args *p) {
  const row_tiles t = plan(ctx, p);
  if (is_empty(&t)) return 0;
  return copy_bytes(&t) + slots_bytes(ctx, task_count(&t), work_of(&t), task_bytes(&t));
}

void row_tiles_run(const kernel_context *ctx, const conv_args *p, char *memory) {
  row_tiles t = plan(ctx, p);
  t.copied = (uint32_t *)(void *)memory;
  for (t.image = 0; t.image < p->images; t.image++) {
    copy_image(ctx, &t);
    run_slots_in(ctx, task_count(&t), work_of(&t), task_bytes(&t), run_task, &t,
                 memory + copy_bytes(&t));
  }
}
