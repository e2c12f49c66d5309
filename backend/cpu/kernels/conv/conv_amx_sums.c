/* Outputs of convolutions from sums that lie with others between their rows. */
#include "backend/cpu/kernels/conv/conv_amx_sums.h"

#include "backend/cpu/kernels/elementwise/narrow_steps.h"
#include "backend/cpu/kernels/gemm/amx_sums.h"
#include "backend/cpu/kernels/support/avx512.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/narrow.h"

/* Sums as they are stored: of each output `rows` of some columns, with those between them. */
typedef struct stored_sums {
  const float *sums; /* outputs are sums_step apart, rows row_step */
  int64_t sums_step, row_step;
  const float *bias; /* (outputs), or NULL */
  const void *added; /* as out, or NULL */
  void *out;         /* (outputs, rows, columns): outputs out_step apart */
  int64_t out_step;
  int64_t outputs, rows, columns;
  bool added_is_narrow, out_is_narrow; /* else F32 */
  float low, high;
} stored_sums;

#if KERNEL_X86
TARGET_AVX512_BF16 KERNEL_INLINE void store_some(const stored_sums *s, const float *from,
                                                 __m512 bias, int64_t at, __mmask16 there) {
  __m512 sum = _mm512_maskz_loadu_ps(there, from) + bias;
  if (s->added && s->added_is_narrow)
    sum += load_narrow_avx512(there, (const uint16_t *)s->added + at);
  else if (s->added)
    sum += _mm512_maskz_loadu_ps(there, (const float *)s->added + at);
  sum = _mm512_min_ps(_mm512_set1_ps(s->high), _mm512_max_ps(_mm512_set1_ps(s->low), sum));
  if (s->out_is_narrow)
    _mm256_mask_storeu_epi16((uint16_t *)s->out + at, there, (__m256i)_mm512_cvtneps_pbh(sum));
  else
    _mm512_mask_storeu_ps((float *)s->out + at, there, sum);
}

TARGET_AVX512_BF16 static void store_sums(const stored_sums *of) {
  enum { LANES = 16 };
  const stored_sums s = *of; /* which no store changes */
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

conv_cut conv_cut_slices(const conv_dim dims[], int64_t most_columns, int64_t row,
                         int64_t row_patches) {
  conv_cut c = {.column_patches = ceil_div(dims[2].out, most_columns)};
  c.columns = ceil_div(dims[2].out, at_least(c.column_patches, 1));
  const int64_t most = at_least(most_columns / at_least(row, 1), 1),
                patches = least(at_least(ceil_div(dims[1].out, most), row_patches), dims[1].out);
  c.rows = ceil_div(dims[1].out, at_least(patches, 1));
  c.row_patches = ceil_div(dims[1].out, at_least(c.rows, 1));
  return c;
}

void conv_cut_place(const conv_cut *c, const conv_dim dims[], int64_t place, conv_patch *k) {
  k->column = place % c->column_patches * c->columns;
  k->row = place / c->column_patches % c->row_patches * c->rows;
  k->z = place / c->column_patches / c->row_patches;
  k->rows = least(c->rows, dims[1].out - k->row);
  k->columns = least(c->columns, dims[2].out - k->column);
}

/* What takes steps before it is rounded is stored in `memory` first. */
void conv_sums_store(const conv_args *p, const conv_patch *k, const float *sums, int64_t step,
                     int64_t row_step, float *memory) {
  const bool narrow = is_narrow(p->out_is_narrow), apart = narrow && p->steps.head.n_steps > 0;
  const int64_t output = k->group * p->outputs + k->strip * AMX_OUTPUTS, cells = out_size(p),
                n = k->rows * k->columns;
  const int64_t to = (k->image * p->groups * p->outputs + output) * cells +
                     (k->z * p->dims[1].out + k->row) * p->dims[2].out + k->column;
  void *out = (char *)p->out + (size_t)to * (narrow ? sizeof(uint16_t) : sizeof(float));
  const bool added_narrow = is_narrow(p->tail.added_is_narrow);
  store_sums(
      &(stored_sums){.sums = sums,
                     .sums_step = step,
                     .row_step = row_step,
                     .bias = p->bias ? (const float *)p->bias + output : NULL,
                     .added = p->tail.added ? narrow_at(p->tail.added, added_narrow, to) : NULL,
                     .out = apart ? memory : out,
                     .out_step = apart ? n : cells,
                     .outputs = k->outputs,
                     .rows = k->rows,
                     .columns = k->columns,
                     .added_is_narrow = added_narrow,
                     .out_is_narrow = narrow && !apart,
                     .low = p->tail.low,
                     .high = p->tail.high});
  if (!narrow) steps_in_place(&p->steps, out, to, n, k->outputs, cells);
  if (!apart) return;
  narrow_steps(&p->steps, memory, n * k->outputs);
  narrow_rows(memory, k->outputs, n, out, cells);
}
