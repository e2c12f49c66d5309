/* Words of rows, and sums turned to where they are to lie: a tile's rows are neighbours in sums,
 * its columns are neighbours in out. */
#include "backend/cpu/kernels/gemm/matmul_integer_kernels.h"

#include <math.h>

#include "backend/cpu/kernels/elementwise/requantise_vectors.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/rows.h"

enum { TILE = INTEGER_TILE, COLUMNS = INTEGER_COLUMNS };

#define FORMULA(name) column_##name
#define FORMULA_TARGET
#define FORMULA_NUMBER float
#define FORMULA_FILL(x) (x)
#define FORMULA_NEAREST rintf
#define FORMULA_MAX larger_float
#define FORMULA_MIN smaller_float
#define FORMULA_HAS(changes) (changes) /* results of 0 keep their sign: steps add no 0 either */
#include "backend/cpu/kernels/elementwise/requantise_formula.h"

static int64_t place_of(const matmul_integer_args *p, const out_tile *t, int row) {
  return (t->row + row) * p->n + t->column;
}

static void apply_step(const matmul_integer_args *p, float *values, int64_t n) {
  steps_in_place(&p->steps, values, 0, n, 1, n);
}

/* ---------------------------------------------------------------- for any processor */

static void pack_portable(const unsigned char *x, int64_t k, int rows, uint32_t flip,
                          uint32_t *to) {
  for (int64_t i = 0; 4 * i < k; i++, to += TILE) {
    const size_t bytes = k - 4 * i < 4 ? (size_t)(k - 4 * i) : 4;
    for (int r = 0; r < rows; r++) {
      uint32_t word = 0;
      memcpy(&word, x + r * k + 4 * i, bytes);
      to[r] = word ^ flip;
    }
  }
}

static float other_at(const matmul_integer_args *p, int64_t at) {
  const requantise_term *t = &p->formula.terms[1];
  float x = 0;
  if (t->x) load_row(COMPUTE_F32, t->type, element_at(t->x, t->type, at), 1, 1, &x);
  return x;
}

/* y: (rows) of a column, the sums of terms. */
static void finish_column(const matmul_integer_args *p, const column_numbers *v, const out_tile *t,
                          int column, float *y) {
  for (int r = 0; r < t->rows && p->makes == INTEGER_FLOATS; r++)
    ((float *)p->out)[place_of(p, t, r) + column] = column_limited(v, y[r]);
  for (int r = 0; r < t->rows && p->makes == INTEGER_CODES; r++) {
    const float code = column_code_of(v, y[r]);
    cast_row(p->formula.type, (char *)p->out + place_of(p, t, r) + column, 1, &code);
  }
}

static void store_portable(const matmul_integer_args *p, const out_tile *t, const out_sums *sums) {
  float y[TILE];
  for (int c = 0; c < t->columns; c++) {
    const int32_t *of = sums->at + c * sums->column;
    if (p->makes == INTEGER_SUMS) {
      for (int r = 0; r < t->rows; r++)
        ((int32_t *)p->out)[place_of(p, t, r) + c] = of[r * sums->row];
      continue;
    }
    const column_numbers v = column_numbers_of(&p->formula, t->column + c);
    for (int r = 0; r < t->rows; r++)
      y[r] = column_sum(&v, (float)of[r * sums->row], other_at(p, place_of(p, t, r) + c));
    apply_step(p, y, t->rows);
    finish_column(p, &v, t, c, y);
  }
}

/* ---------------------------------------------------------------- AVX-512 */

#if KERNEL_X86
KERNEL_INLINE TARGET_AVX512_VNNI void turn_words(__m512i x[16]) {
  __m512 v[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) v[i] = _mm512_castsi512_ps(x[i]);
  turn_avx512(v);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) x[i] = _mm512_castps_si512(v[i]);
}

/* 16 words at most of each of 16 rows; there: bytes of them that are. */
KERNEL_INLINE TARGET_AVX512_VNNI void pack_16(const unsigned char *x, int64_t k, int rows,
                                              __mmask64 there, int words, __m512i flip,
                                              uint32_t *to) {
  __m512i w[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; r++)
    w[r] = _mm512_maskz_loadu_epi8(there, x + (r < rows ? r : rows - 1) * k);
  turn_words(w);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++)
    if (i < words) _mm512_storeu_si512(to + i * TILE, _mm512_xor_si512(w[i], flip));
}

static TARGET_AVX512_VNNI void pack_vnni(const unsigned char *x, int64_t k, int rows, uint32_t flip,
                                         uint32_t *to) {
  const __m512i all = _mm512_set1_epi32((int)flip);
  for (int r = 0; r < rows; r += 16) {
    const unsigned char *from = x + r * k;
    int64_t i = 0;
    for (; i + 64 <= k; i += 64)
      pack_16(from + i, k, rows - r, ~UINT64_C(0), 16, all, to + i / 4 * TILE + r);
    if (i < k)
      pack_16(from + i, k, rows - r, (UINT64_C(1) << (k - i)) - 1, (int)((k - i + 3) / 4), all,
              to + i / 4 * TILE + r);
  }
}

KERNEL_INLINE TARGET_AVX512_VNNI __m512 factor_of_columns(const requantise_factor *f,
                                                          int64_t column, __mmask16 some) {
  return f->of_channel ? _mm512_maskz_loadu_ps(some, f->of_channel + column)
                       : _mm512_set1_ps(f->number);
}

/* The numbers of 16 columns. */
KERNEL_INLINE TARGET_AVX512_VNNI requantise_vectors numbers_of_columns(const requantise_args *p,
                                                                       int64_t column,
                                                                       __mmask16 some) {
  requantise_vectors v = requantise_vectors_numbers_of(p, column);
  for (int k = 0; k < 2; k++) {
    v.terms[k].scale = factor_of_columns(&p->terms[k].scale, column, some);
    v.terms[k].bias = factor_of_columns(&p->terms[k].bias, column, some);
  }
  return v;
}

KERNEL_INLINE TARGET_AVX512_VNNI void finish_row(const matmul_integer_args *p,
                                                 const requantise_vectors *v, int64_t at,
                                                 __mmask16 some, __m512 y) {
  if (p->makes == INTEGER_FLOATS) {
    _mm512_mask_storeu_ps((float *)p->out + at, some, requantise_vectors_limited(v, y));
    return;
  }
  const __m128i codes = _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(requantise_vectors_code_of(v, y)));
  _mm512_mask_storeu_epi8((char *)p->out + at, some, _mm512_castsi128_si512(codes));
}

KERNEL_INLINE TARGET_AVX512_VNNI __m512 sum_of_row(const matmul_integer_args *p,
                                                   const requantise_vectors *v, int64_t at,
                                                   __mmask16 some, __m512i sums) {
  const requantise_term *t = &p->formula.terms[1];
  const __m512 other =
      v->has_other ? requantise_load_some(t->type, element_at(t->x, t->type, at), some) : v->zero;
  return requantise_vectors_sum(v, _mm512_cvtepi32_ps(sums), other);
}

/* 16 rows of a tile at most. */
KERNEL_INLINE TARGET_AVX512_VNNI void store_rows(const matmul_integer_args *p,
                                                 const requantise_vectors *v, const out_tile *t,
                                                 __mmask16 some, const __m512i x[16]) {
  _Alignas(64) float y[16][COLUMNS];
  const bool has_step = p->steps.head.n_steps > 0;
  for (int r = 0; r < t->rows; r++) {
    const int64_t at = place_of(p, t, r);
    const __m512 sum = sum_of_row(p, v, at, some, x[r]);
    if (has_step)
      _mm512_store_ps(y[r], sum);
    else
      finish_row(p, v, at, some, sum);
  }
  if (!has_step) return;
  apply_step(p, y[0], t->rows * COLUMNS);
  for (int r = 0; r < t->rows; r++) finish_row(p, v, place_of(p, t, r), some, _mm512_load_ps(y[r]));
}

/* 16 columns of `rows` rows from r on, of 16 or fewer; columns that lie side by side are turned. */
KERNEL_INLINE TARGET_AVX512_VNNI void load_rows(const out_sums *sums, int64_t r, int rows,
                                                __m512i x[16]) {
  if (sums->column == 1) {
    for (int i = 0; i < rows; i++) x[i] = _mm512_loadu_si512(sums->at + (r + i) * sums->row);
    return;
  }
#pragma GCC unroll 16
  for (int c = 0; c < 16; c++) x[c] = _mm512_loadu_si512(sums->at + c * sums->column + r);
  turn_words(x);
}

static TARGET_AVX512_VNNI void store_vnni(const matmul_integer_args *p, const out_tile *t,
                                          const out_sums *sums) {
  const __mmask16 some = (__mmask16)((1u << t->columns) - 1);
  const bool has_formula = p->makes != INTEGER_SUMS;
  requantise_vectors v = {0};
  if (has_formula) v = numbers_of_columns(&p->formula, t->column, some);
  for (int r = 0; r < t->rows; r += 16) {
    const out_tile rows = {t->row + r, t->column, t->rows - r < 16 ? t->rows - r : 16, t->columns};
    __m512i x[16];
    load_rows(sums, r, rows.rows, x);
    if (has_formula)
      store_rows(p, &v, &rows, some, x);
    else
      for (int i = 0; i < rows.rows; i++)
        _mm512_mask_storeu_epi32((int32_t *)p->out + place_of(p, &rows, i), some, x[i]);
  }
}
#endif

integer_rows choose_integer_rows(void) {
#if KERNEL_X86
  if (cpu_has_avx512_vnni()) return (integer_rows){pack_vnni, store_vnni};
#endif
  return (integer_rows){pack_portable, store_portable};
}
