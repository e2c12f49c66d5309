/* Convolutions by AMX: gathers words of x, multiplies tiles of them with the weight and stores the
 * sums. The plan (conv_amx_gather.h) has what differs between the three ways to gather. */
#include "backend/cpu/kernels/conv/conv_amx.h"

#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  TASKS = 4,           /* per thread at least, so that all threads end at about the same time */
  WORK = 1024 * 1024,  /* multiplications that are worth waking a thread up */
  COPY_WORK = 8 * 1024 /* copied elements that are worth it */
};

bool conv_amx_takes_transposed(const conv_args *p) {
  const conv_dim *d = p->dims;
  bool apart = d[0].kernel == 1 && d[2].stride == 2 && in_size(p) >= AMX_COLUMNS;
  for (int i = 0; i < CONV_DIMS; i++)
    apart &= d[i].kernel == d[i].stride && d[i].padding == 0 && d[i].dilation == 1 &&
             d[i].out == d[i].in * d[i].stride;
  return p->transposed && p->type == DTYPE_F32 && !is_encoded(&p->encoding) && apart &&
         !conv_is_by_rows(p) && conv_tiles_fit(p->channels, d);
}

/* Cuts slices of outputs into patches of several whole rows or of a part of one row. A slice has at
 * least `least_patches` one below the other if it has as many rows. */
static void cut_slices(conv_amx *t, int64_t least_patches) {
  const conv_dim *d = t->p->dims;
  t->column_patches = ceil_div(d[2].out, t->most_columns);
  t->columns = ceil_div(d[2].out, at_least(t->column_patches, 1));
  const int64_t most_rows = at_least(t->most_columns / at_least(t->row_step, 1), 1),
                patches = least(at_least(ceil_div(d[1].out, most_rows), least_patches), d[1].out);
  t->rows = ceil_div(d[1].out, at_least(patches, 1));
  t->row_patches = ceil_div(d[1].out, at_least(t->rows, 1));
  t->places = d[0].out * t->row_patches * t->column_patches;
  t->sum_step = round_up((t->rows - 1) * t->row_step + t->columns, AMX_COLUMNS);
}

static void find_patch(const conv_amx *t, int64_t place, conv_amx_patch *k) {
  const conv_dim *d = t->p->dims;
  k->column = place % t->column_patches * t->columns;
  k->row = place / t->column_patches % t->row_patches * t->rows;
  k->z = place / t->column_patches / t->row_patches;
  k->rows = least(t->rows, d[1].out - k->row);
  k->columns = least(t->columns, d[2].out - k->column);
}

static conv_amx plan(const kernel_context *ctx, const conv_args *p) {
  conv_amx t = {.p = p, .products = p->groups, .strips = conv_tiled_strips(p)};
  const int64_t tasks = TASKS * ctx->n_threads;
  if (p->transposed) {
    conv_amx_plan_transposed(&t);
    const int64_t parts = ceil_div(tasks, at_least(t.products * t.places, 1));
    t.strip_parts = least(parts, at_least(t.strips, 1));
    return t;
  }
  (conv_is_by_rows(p) ? conv_amx_plan_rows : conv_amx_plan_planes)(&t);
  cut_slices(&t, ceil_div(tasks, at_least(p->groups * t.strip_parts * p->dims[0].out, 1)));
  if (t.step > 0) return t;
  t.step = t.sum_step;
  t.panel_words = t.words * t.step;
  return t;
}

static bool is_empty(const conv_args *p) {
  return p->images * p->groups * p->outputs * out_size(p) == 0;
}
static int64_t task_count(const conv_amx *t) { return t->products * t->strip_parts * t->places; }
static int64_t work_of(const conv_amx *t) {
  return t->products * out_size(t->p) * t->p->outputs * t->depth / WORK;
}
static size_t copy_bytes(const conv_amx *t) {
  return kernel_scratch_size((size_t)t->copied_words * sizeof(uint32_t));
}
/* A task has a panel, sums, and memory for store. */
static size_t task_bytes(const conv_amx *t) {
  const int64_t sums = AMX_OUTPUTS * (t->sum_step + t->rows * t->columns);
  return (size_t)(t->panel_words + sums) * sizeof(float);
}

/* Finds the patch of a task and its first strip. Returns the strip after its last one. */
static int64_t find_task(const conv_amx *t, int64_t task, conv_amx_patch *k) {
  const int64_t product = task / (t->strip_parts * t->places),
                in_product = task % (t->strip_parts * t->places);
  const int64_t n = t->strips_first ? t->strip_parts : t->places, slow = in_product / n,
                fast = in_product % n;
  const int64_t part = t->strips_first ? fast : slow, place = t->strips_first ? slow : fast;
  *k = (conv_amx_patch){.image = t->image + product / t->p->groups,
                        .group = product % t->p->groups,
                        .strip = t->strips * part / t->strip_parts};
  (t->find_place ? t->find_place : find_patch)(t, place, k);
  return t->strips * (part + 1) / t->strip_parts;
}

/* Computes sums (AMX_OUTPUTS, sum_step) of a strip and n columns of x, in passes over some blocks.
 */
static void multiply(const conv_amx *t, const conv_amx_patch *k, const uint32_t *x, int64_t n,
                     float *sums) {
  const int64_t blocks = t->words / AMX_WORDS;
  const uint32_t *weight =
      (const uint32_t *)t->p->packed + (k->group * t->strips + k->strip) * conv_strip_words(t->p);
  const bool whole = t->store || k->outputs > AMX_OUTPUTS / 2;
  amx_sums s = {.taps = t->taps, .b_step = t->step, .offsets = t->offsets, .c_step = t->sum_step};
  for (int64_t block = 0; block < blocks; block += t->blocks_at_once) {
    s.blocks = least(t->blocks_at_once, blocks - block);
    s.a = weight + block * t->taps * 2 * AMX_TILE_WORDS;
    s.adds = block > 0;
    for (int64_t at = 0; at < n; at += AMX_COLUMNS) {
      s.asks = t->asks && at == 0;
      s.b = x + block * AMX_WORDS * t->step + at;
      s.c = sums + at;
      amx_sums_run(&s, whole ? AMX_OUTPUTS : AMX_OUTPUTS / 2,
                   n - at > AMX_COLUMNS / 2 ? AMX_COLUMNS : AMX_COLUMNS / 2);
    }
  }
}

/* ---------------------------------------------------------------- stored sums */

/* Sums of `rows` rows of each output. There may be other sums between two rows. */
typedef struct stored_sums {
  const float *sums; /* outputs are sums_step apart, rows row_step */
  int64_t sums_step, row_step;
  const float *bias; /* (outputs), or NULL */
  const void *added; /* as out, or NULL */
  void *out;         /* (outputs, rows, columns): outputs out_step apart */
  int64_t out_step;
  int64_t outputs, rows, columns;
  bool added_is_bf16, out_is_bf16; /* else F32 */
  float low, high;
} stored_sums;

#if KERNEL_X86
TARGET_AVX512_BF16 KERNEL_INLINE void store_some(const stored_sums *s, const float *from,
                                                 __m512 bias, int64_t at, __mmask16 there) {
  __m512 sum = _mm512_maskz_loadu_ps(there, from) + bias;
  if (s->added && s->added_is_bf16)
    sum += load_narrow_avx512(there, (const uint16_t *)s->added + at);
  else if (s->added)
    sum += _mm512_maskz_loadu_ps(there, (const float *)s->added + at);
  sum = _mm512_min_ps(_mm512_set1_ps(s->high), _mm512_max_ps(_mm512_set1_ps(s->low), sum));
  if (s->out_is_bf16)
    _mm256_mask_storeu_epi16((uint16_t *)s->out + at, there, (__m256i)_mm512_cvtneps_pbh(sum));
  else
    _mm512_mask_storeu_ps((float *)s->out + at, there, sum);
}

TARGET_AVX512_BF16 static void store_sums(const stored_sums *of) {
  enum { LANES = 16 };
  const stored_sums s = *of; /* a copy that no store can change */
  for (int64_t o = 0; o < s.outputs; o++) {
    const __m512 bias = _mm512_set1_ps(s.bias ? s.bias[o] : -0.0F);
    for (int64_t row = 0; row < s.rows; row++) {
      const float *from = s.sums + o * s.sums_step + row * s.row_step;
      const int64_t at = o * s.out_step + row * s.columns;
      int64_t i = 0;
      for (; i + LANES <= s.columns; i += LANES) store_some(&s, from + i, bias, at + i, 0xffff);
      if (i < s.columns)
        store_some(&s, from + i, bias, at + i, (__mmask16)bits_between(0, s.columns - i));
    }
  }
}
#else
static void store_sums(const stored_sums *of) { (void)of; }
#endif

/* Stores a patch of a strip with bias, tail and steps. Outputs that take steps before they are
 * rounded are stored in `memory` (outputs, rows, columns) first. */
static void store(const conv_amx *t, const conv_amx_patch *k, const float *sums, float *memory) {
  const conv_args *p = t->p;
  const bool bf16 = is_bf16(p->out_type), apart = bf16 && p->steps.head.n_steps > 0;
  const int64_t output = k->group * p->outputs + k->strip * AMX_OUTPUTS, cells = out_size(p),
                n = k->rows * k->columns;
  const int64_t to = (k->image * p->groups * p->outputs + output) * cells +
                     (k->z * p->dims[1].out + k->row) * p->dims[2].out + k->column;
  void *out = (char *)p->out + (size_t)to * (bf16 ? sizeof(uint16_t) : sizeof(float));
  const bool added_bf16 = is_bf16(p->tail.added_type);
  store_sums(&(stored_sums){.sums = sums,
                            .sums_step = t->sum_step,
                            .row_step = t->row_step,
                            .bias = p->bias ? (const float *)p->bias + output : NULL,
                            .added = p->tail.added ? float_at(p->tail.added, added_bf16, to) : NULL,
                            .out = apart ? memory : out,
                            .out_step = apart ? n : cells,
                            .outputs = k->outputs,
                            .rows = k->rows,
                            .columns = k->columns,
                            .added_is_bf16 = added_bf16,
                            .out_is_bf16 = bf16 && !apart,
                            .low = p->tail.low,
                            .high = p->tail.high});
  if (!bf16) steps_in_place(&p->steps, out, to, n, k->outputs, cells);
  if (!apart) return;
  bf16_steps(&p->steps, memory, n * k->outputs);
  narrow_rows(memory, k->outputs, n, out, cells);
}

/* ---------------------------------------------------------------- the kernel */

static void run_task(const void *user, int64_t task, char *scratch) {
  const conv_amx *t = user;
  conv_amx_patch k;
  const int64_t end = find_task(t, task, &k), n = (k.rows - 1) * t->row_step + k.columns;
  uint32_t *panel = (uint32_t *)(void *)scratch;
  float *sums = (float *)(void *)(panel + t->panel_words);
  const uint32_t *x = t->gather(t, &k, panel);
  amx_sums_begin();
  for (; k.strip < end; k.strip++) {
    if (!t->store) {
      k.outputs = least(AMX_OUTPUTS, t->p->outputs - k.strip * AMX_OUTPUTS);
      multiply(t, &k, x, n, sums);
      store(t, &k, sums, sums + AMX_OUTPUTS * t->sum_step);
    }
    for (int64_t at = 0; t->store && at < n; at += AMX_COLUMNS) {
      multiply(t, &k, x + at * t->words, least(AMX_COLUMNS, n - at), sums);
      t->store(t, &k, at, sums);
    }
  }
  amx_sums_end();
}

size_t conv_amx_scratch(const kernel_context *ctx, const conv_args *p) {
  const conv_amx t = plan(ctx, p);
  if (is_empty(p)) return 0;
  return copy_bytes(&t) + slots_bytes(ctx, task_count(&t), work_of(&t), task_bytes(&t));
}

void conv_amx_run(const kernel_context *ctx, const conv_args *p, char *memory) {
  conv_amx t = plan(ctx, p);
  t.copied = (uint32_t *)(void *)memory;
  /* If nothing is copied, the tasks of all images run together. */
  for (t.image = 0; t.image < p->images; t.image += t.products / p->groups) {
    if (t.copy_rows)
      ctx->parallel_for(ctx->pool, t.copied_rows, ceil_div(COPY_WORK, at_least(2 * t.row_words, 1)),
                        t.copy_rows, &t);
    run_slots_in(ctx, task_count(&t), work_of(&t), task_bytes(&t), run_task, &t,
                 memory + copy_bytes(&t));
  }
}
