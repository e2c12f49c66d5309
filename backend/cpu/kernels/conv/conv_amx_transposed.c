/* Gathers words for transposed convolutions, which are products with the planes of x. A strip of
 * the weight has the two columns of the kernel for 16 outputs and one row of the kernel. A task
 * packs some columns of the planes as panels of words of two neighbouring channels. */
#include "backend/cpu/kernels/conv/conv_amx_gather.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/bf16.h"

enum { TASK_PANELS = 8 };

#if KERNEL_X86
/* Stores the outputs of n inputs of a row, interleaving the sums of even and odd columns. */
TARGET_AVX512_BF16 static void interleave(const float *even, const float *odd, float bias,
                                          int64_t n, bool bf16, void *to) {
  enum { LANES = 16 };
  const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                next = _mm512_add_epi32(order, _mm512_set1_epi32(8));
  for (int64_t i = 0; i < n; i += LANES) {
    const uint32_t valid = bits_between(0, min_i64(LANES, n - i)),
                   both = bits_between(0, 2 * min_i64(LANES, n - i));
    const __m512 a = _mm512_maskz_loadu_ps((__mmask16)valid, even + i) + _mm512_set1_ps(bias),
                 b = _mm512_maskz_loadu_ps((__mmask16)valid, odd + i) + _mm512_set1_ps(bias);
    float *out = (float *)to + (bf16 ? i : 2 * i); /* one word per input for BF16, else two */
    if (bf16) {
      const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a)),
                    high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
      _mm512_mask_storeu_epi32(out, (__mmask16)valid,
                               _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
      continue;
    }
    _mm512_mask_storeu_ps(out, (__mmask16)both, _mm512_permutex2var_ps(a, order, b));
    _mm512_mask_storeu_ps(out + LANES, (__mmask16)(both >> LANES),
                          _mm512_permutex2var_ps(a, next, b));
  }
}
#else
static void interleave(const float *even, const float *odd, float bias, int64_t n, bool bf16,
                       void *to) {
  (void)even, (void)odd, (void)bias, (void)n, (void)bf16, (void)to;
}
#endif

/* Returns the columns, 16 or 32, of the panel at `column`; sets *first. Panels may overlap. */
static int columns_at(const conv_args *args, int64_t column, int64_t *first) {
  const int64_t cells = in_size(args);
  const int columns = cells - column <= AMX_COLUMNS / 2 ? AMX_COLUMNS / 2 : AMX_COLUMNS;
  *first = min_i64(column, cells - columns);
  return columns;
}

/* Stores sums (AMX_OUTPUTS, AMX_COLUMNS) of a strip. */
static void conv_amx_transposed_store_tile(const conv_amx *amx, const conv_amx_patch *patch,
                                           int64_t column, const float *sums) {
  const conv_args *args = amx->args;
  const conv_column_pairs pairs = conv_find_column_pairs(args, patch->strip);
  const int64_t width = args->dims[2].in, output = patch->group * args->outputs + pairs.first;
  const bool bf16 = is_bf16(args->out_type);
  int64_t at;
  const int64_t n = columns_at(args, patch->column + column, &at);
  for (int64_t o = 0; o < pairs.outputs; o++, sums += 2 * AMX_COLUMNS) {
    const float bias = args->bias ? ((const float *)args->bias)[output + o] : -0.0F;
    const int64_t plane =
        (patch->image * args->groups * args->outputs + output + o) * out_size(args);
    for (int64_t i = 0, m; i < n; i += m) {
      const int64_t row = (at + i) / width, x = (at + i) % width;
      const int64_t to = plane + (row * args->dims[1].stride + pairs.y) * args->dims[2].out + 2 * x;
      m = min_i64(n - i, width - x);
      interleave(sums + i, sums + AMX_COLUMNS + i, bias, m, bf16,
                 (char *)args->out + (size_t)to * (bf16 ? sizeof(uint16_t) : sizeof(float)));
    }
  }
}

/* A place is some whole panels of columns. The last place also has the remaining columns. */
static void find_place(const conv_amx *amx, int64_t place, conv_amx_patch *patch) {
  const int64_t cells = in_size(amx->args), panels = cells / AMX_COLUMNS;
  patch->rows = 1;
  patch->column = panels * place / amx->places * AMX_COLUMNS;
  patch->columns =
      (place + 1 == amx->places ? cells : panels * (place + 1) / amx->places * AMX_COLUMNS) -
      patch->column;
}

/* Packs panel (panels, words, AMX_COLUMNS). */
static const uint32_t *conv_amx_transposed_pack_panels(const conv_amx *amx,
                                                       const conv_amx_patch *patch,
                                                       uint32_t *panel) {
  const conv_args *args = amx->args;
  const bool bf16 = is_bf16(args->x_type);
  const int64_t x = (patch->image * args->groups + patch->group) * args->channels * in_size(args);
  for (int64_t at = 0; at < patch->columns; at += AMX_COLUMNS) {
    int64_t first;
    const int columns = columns_at(args, patch->column + at, &first);
    amx_pack_panel(float_at(args->x, bf16, x + first), bf16, in_size(args), args->channels,
                   amx->words, columns, panel + at * amx->words);
  }
  return panel;
}

void conv_amx_plan_transposed(conv_amx *amx) {
  const conv_args *args = amx->args;
  const int64_t panels = in_size(args) / AMX_COLUMNS;
  amx->products = args->images * args->groups;
  amx->words = conv_tiled_words(args);
  amx->depth = args->channels;
  amx->places = max_i64(ceil_div(panels, TASK_PANELS), 1);
  amx->strips_first = true;
  amx->find_place = find_place;
  amx->gather = conv_amx_transposed_pack_panels;
  amx->panel_words = (ceil_div(panels, amx->places) + 1) * amx->words * AMX_COLUMNS;
  amx->taps = 1;
  amx->step = amx->sum_stride = AMX_COLUMNS;
  amx->blocks_at_once = amx->words / AMX_WORDS;
  amx->prefetches = true;
  amx->store = conv_amx_transposed_store_tile;
}
