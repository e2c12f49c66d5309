/* Transposed convolutions as products by tiles. A strip is the two columns of 16 outputs, of one
 * row of the kernel; a task some columns of the planes by some strips, for which it packs panels.
 */
#include "backend/cpu/kernels/conv/conv_amx_transposed.h"

#include <string.h>

#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_weight.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/narrow.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  STRIP_OUTPUTS = AMX_OUTPUTS / 2,
  TASK_PANELS = 8,
  TASKS = 4,          /* of a thread, at least, so that all end at about the same time */
  WORK = 1024 * 1024, /* multiplications that are worth waking a thread up */
  PACK_GRAIN = 1      /* strips */
};

bool conv_is_spread(const conv_args *p) {
  const conv_dim *d = p->dims;
  bool apart = d[0].kernel == 1 && d[2].stride == 2 && in_size(p) >= AMX_COLUMNS;
  for (int i = 0; i < CONV_DIMS; i++)
    apart &= d[i].kernel == d[i].stride && d[i].padding == 0 && d[i].dilation == 1 &&
             d[i].out == d[i].in * d[i].stride;
  return p->transposed && p->type == DTYPE_F32 && !is_encoded(&p->encoding) && apart &&
         !conv_is_by_rows(p) && conv_tiles_fit(p->channels, d);
}

/* Of a row of the kernel; of all. */
static int64_t row_strips(const conv_args *p) { return ceil_div(p->outputs, STRIP_OUTPUTS); }
static int64_t strip_count(const conv_args *p) { return p->dims[1].kernel * row_strips(p); }
static int64_t strip_words(const conv_args *p) { return AMX_OUTPUTS * conv_tiled_words(p); }

/* ---------------------------------------------------------------- packing */

size_t spread_tiles_packed_bytes(const conv_args *p) {
  return (size_t)(p->groups * strip_count(p) * strip_words(p)) * sizeof(uint32_t);
}

/* Both columns of a strip's outputs, of a channel. */
static void load_columns(const conv_args *p, int64_t channel, int64_t strip, float *to) {
  const conv_weight all = {p->weight, p->weight_type, p->encoding, conv_weight_row(p)};
  const int64_t y = strip / row_strips(p), first = strip % row_strips(p) * STRIP_OUTPUTS;
  const int64_t outputs = least(STRIP_OUTPUTS, p->outputs - first);
  for (int64_t o = 0; o < outputs; o++)
    conv_weight_load(&all, channel, (first + o) * kernel_size(p) + 2 * y, 2, to + 2 * o);
}

static void pack_strip(const conv_args *p, int64_t group, int64_t strip, uint32_t *to) {
  float even[AMX_OUTPUTS] = {0}, odd[AMX_OUTPUTS] = {0};
  uint32_t words[AMX_OUTPUTS];
  memset(to, 0, (size_t)strip_words(p) * sizeof *to);
  for (int64_t i = 0; i < pairs_of(p->channels); i++) {
    const int64_t channel = group * p->channels + 2 * i;
    const bool pairs = 2 * i + 1 < p->channels;
    load_columns(p, channel, strip, even);
    if (pairs) load_columns(p, channel + 1, strip, odd);
    pairs_join(even, pairs ? odd : NULL, AMX_OUTPUTS, words);
    uint32_t *step = to + i / AMX_WORDS * 2 * AMX_TILE_WORDS + i % AMX_WORDS;
    for (int64_t row = 0; row < AMX_OUTPUTS; row++) step[row * AMX_WORDS] = words[row];
  }
}

typedef struct packing {
  const conv_args *p;
  uint32_t *to;
} packing;

static void pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *k = ctx;
  const int64_t strips = strip_count(k->p);
  for (int64_t i = begin; i < end; i++)
    pack_strip(k->p, i / strips, i % strips, k->to + i * strip_words(k->p));
}

void spread_tiles_pack(const kernel_context *ctx, const conv_args *p, char *to) {
  packing k = {p, (uint32_t *)(void *)to};
  ctx->parallel_for(ctx->pool, p->groups * strip_count(p), PACK_GRAIN, pack_strips, &k);
}

/* ---------------------------------------------------------------- products */

typedef struct spread {
  const conv_args *p;
  int64_t cells, panels;
  int64_t across, down; /* tasks of a product: of columns, and of strips */
} spread;

static spread plan(const kernel_context *ctx, const conv_args *p) {
  spread t = {.p = p, .cells = in_size(p), .panels = in_size(p) / AMX_COLUMNS};
  t.across = at_least(ceil_div(t.panels, TASK_PANELS), 1);
  const int64_t tasks = at_least(p->images * p->groups * t.across, 1);
  t.down = least(ceil_div(TASKS * ctx->n_threads, tasks), at_least(strip_count(p), 1));
  return t;
}

static bool is_empty(const spread *t) {
  return t->p->images * t->p->groups * strip_count(t->p) == 0;
}
static int64_t task_count(const spread *t) {
  return t->p->images * t->p->groups * t->across * t->down;
}
static int64_t work_of(const spread *t) {
  return t->p->images * t->p->groups * out_size(t->p) * t->p->outputs * t->p->channels / WORK;
}
static int64_t panel_words(const spread *t) { return conv_tiled_words(t->p) * AMX_COLUMNS; }
static size_t task_bytes(const spread *t) {
  return (size_t)((ceil_div(t->panels, t->across) + 1) * panel_words(t)) * sizeof(uint32_t);
}

#if KERNEL_X86
/* Outputs of n inputs of a row side by side, from sums of their even and odd columns;
 * interleave_narrow: rounded, a word for each input. */
TARGET_AVX512 static void interleave(const float *even, const float *odd, float bias, int64_t n,
                                     float *to) {
  enum { LANES = 16 };
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask16 there = (__mmask16)bits_between(0, least(LANES, n - i));
    const __m512 a = _mm512_maskz_loadu_ps(there, even + i) + _mm512_set1_ps(bias),
                 b = _mm512_maskz_loadu_ps(there, odd + i) + _mm512_set1_ps(bias);
    const int64_t left = 2 * (n - i);
    _mm512_mask_storeu_ps(to + 2 * i, (__mmask16)bits_between(0, least(LANES, left)),
                          _mm512_permutex2var_ps(a, low, b));
    if (left > LANES)
      _mm512_mask_storeu_ps(to + 2 * i + LANES,
                            (__mmask16)bits_between(0, least(LANES, left - LANES)),
                            _mm512_permutex2var_ps(a, high, b));
  }
}

TARGET_AVX512_BF16 static void interleave_narrow(const float *even, const float *odd, float bias,
                                                 int64_t n, uint16_t *to) {
  enum { LANES = 16 };
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask16 there = (__mmask16)bits_between(0, least(LANES, n - i));
    const __m512 a = _mm512_maskz_loadu_ps(there, even + i) + _mm512_set1_ps(bias),
                 b = _mm512_maskz_loadu_ps(there, odd + i) + _mm512_set1_ps(bias);
    const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a)),
                  high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
    _mm512_mask_storeu_epi32(to + 2 * i, there, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}
#else
static void interleave(const float *even, const float *odd, float bias, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i++) to[2 * i] = even[i] + bias, to[2 * i + 1] = odd[i] + bias;
}
static void interleave_narrow(const float *even, const float *odd, float bias, int64_t n,
                              uint16_t *to) {
  for (int64_t i = 0; i < n; i++) {
    to[2 * i] = f32_to_bf16(even[i] + bias);
    to[2 * i + 1] = f32_to_bf16(odd[i] + bias);
  }
}
#endif

/* sums (AMX_OUTPUTS, AMX_COLUMNS) of n inputs of a product from cell `at` on. */
static void store_sums(const spread *t, int64_t product, int64_t strip, int64_t at, int64_t n,
                       const float *sums) {
  const conv_args *p = t->p;
  const int64_t first = strip % row_strips(p) * STRIP_OUTPUTS, y = strip / row_strips(p),
                width = p->dims[2].in, group = product % p->groups;
  for (int64_t o = 0; o < least(STRIP_OUTPUTS, p->outputs - first); o++) {
    const float *even = sums + 2 * o * AMX_COLUMNS, *odd = even + AMX_COLUMNS;
    const float bias = p->bias ? ((const float *)p->bias)[group * p->outputs + first + o] : -0.0F;
    const int64_t plane = (product * p->outputs + first + o) * out_size(p);
    for (int64_t i = 0, m; i < n; i += m) {
      const int64_t row = (at + i) / width, x = (at + i) % width;
      const int64_t to = plane + (row * p->dims[1].stride + y) * p->dims[2].out + 2 * x;
      m = least(n - i, width - x);
      if (is_narrow(p->out_is_narrow))
        interleave_narrow(even + i, odd + i, bias, m, (uint16_t *)p->out + to);
      else
        interleave(even + i, odd + i, bias, m, (float *)p->out + to);
    }
  }
}

/* Columns of a panel from `column` on: 16 or 32, the first of which may be those of the panel
 * before. */
static int columns_at(const spread *t, int64_t column, int64_t *first) {
  const int columns = t->cells - column <= AMX_COLUMNS / 2 ? AMX_COLUMNS / 2 : AMX_COLUMNS;
  *first = least(column, t->cells - columns);
  return columns;
}

static void run_tile(const spread *t, int64_t product, int64_t strip, int64_t column,
                     const uint32_t *panel) {
  static const int64_t offset = 0;
  _Alignas(64) float sums[AMX_OUTPUTS * AMX_COLUMNS];
  const int64_t group = product % t->p->groups;
  int64_t first;
  const int columns = columns_at(t, column, &first);
  amx_sums_run(&(amx_sums){.blocks = conv_tiled_words(t->p) / AMX_WORDS,
                           .taps = 1,
                           .a = (const uint32_t *)t->p->packed +
                                (group * strip_count(t->p) + strip) * strip_words(t->p),
                           .b = panel,
                           .b_step = AMX_COLUMNS,
                           .offsets = &offset,
                           .c = sums,
                           .c_step = AMX_COLUMNS,
                           .asks = true},
               AMX_OUTPUTS, columns);
  store_sums(t, product, strip, first, columns, sums);
}

static void run_task(const void *user, int64_t task, char *scratch) {
  const spread *t = user;
  const conv_args *p = t->p;
  const int64_t down = task % t->down, across = task / t->down % t->across,
                product = task / t->down / t->across, strips = strip_count(p);
  const int64_t from = t->panels * across / t->across * AMX_COLUMNS,
                to = across + 1 == t->across ? t->cells
                                             : t->panels * (across + 1) / t->across * AMX_COLUMNS;
  const bool narrow = is_narrow(p->x_is_narrow);
  const int64_t x = product * p->channels * t->cells;
  uint32_t *panels = (uint32_t *)(void *)scratch;
  for (int64_t at = from; at < to; at += AMX_COLUMNS) {
    int64_t first;
    const int columns = columns_at(t, at, &first);
    amx_pack_panel(narrow_at(p->x, narrow, x + first), narrow, t->cells, p->channels,
                   conv_tiled_words(p), columns,
                   panels + (at - from) / AMX_COLUMNS * panel_words(t));
  }
  amx_sums_begin();
  for (int64_t s = strips * down / t->down; s < strips * (down + 1) / t->down; s++)
    for (int64_t at = from; at < to; at += AMX_COLUMNS)
      run_tile(t, product, s, at, panels + (at - from) / AMX_COLUMNS * panel_words(t));
  amx_sums_end();
}

size_t spread_tiles_scratch(const kernel_context *ctx, const conv_args *p) {
  const spread t = plan(ctx, p);
  return is_empty(&t) ? 0 : slots_bytes(ctx, task_count(&t), work_of(&t), task_bytes(&t));
}

void spread_tiles_run(const kernel_context *ctx, const conv_args *p, char *memory) {
  const spread t = plan(ctx, p);
  run_slots_in(ctx, task_count(&t), work_of(&t), task_bytes(&t), run_task, &t, memory);
}
