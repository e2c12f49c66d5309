/* Packs words of rows, and stores sums. Rows of a tile are neighbours in sums, columns in out, so
 * sums are transposed. */
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
#define FORMULA_HAS(changes) (changes) /* skips additions of 0, so zeros keep their sign */
#include "backend/cpu/kernels/elementwise/requantise_formula.h"

static int64_t matmul_integer_kernels_place_of(const matmul_integer_args *args,
                                               const out_tile *tile, int row) {
  return (tile->row + row) * args->n + tile->column;
}

static void apply_step(const matmul_integer_args *args, float *values, int64_t n) {
  steps_in_place(&args->steps, values, 0, n, 1, n);
}

/* ---------------------------------------------------------------- for any processor */

static void matmul_integer_kernels_pack_portable(const unsigned char *x, int64_t k, int rows,
                                                 uint32_t flip, uint32_t *to) {
  for (int64_t i = 0; 4 * i < k; i++, to += TILE) {
    const size_t bytes = k - 4 * i < 4 ? (size_t)(k - 4 * i) : 4;
    for (int r = 0; r < rows; r++) {
      uint32_t word = 0;
      memcpy(&word, x + r * k + 4 * i, bytes);
      to[r] = word ^ flip;
    }
  }
}

static float matmul_integer_kernels_other_at(const matmul_integer_args *args, int64_t at) {
  const requantise_term *term = &args->formula.terms[1];
  float x = 0;
  if (term->x) load_row(COMPUTE_F32, term->type, element_at(term->x, term->type, at), 1, 1, &x);
  return x;
}

/* Computes and stores a column. y: (rows), the sums of terms. */
static void finish_column(const matmul_integer_args *args, const column_numbers *numbers,
                          const out_tile *tile, int column, float *y) {
  for (int r = 0; r < tile->rows && args->makes == INTEGER_FLOATS; r++)
    ((float *)args->out)[matmul_integer_kernels_place_of(args, tile, r) + column] =
        column_limited(numbers, y[r]);
  for (int r = 0; r < tile->rows && args->makes == INTEGER_CODES; r++) {
    const float code = column_code_of(numbers, y[r]);
    cast_row(args->formula.type,
             (char *)args->out + matmul_integer_kernels_place_of(args, tile, r) + column, 1, &code);
  }
}

static void store_portable(const matmul_integer_args *args, const out_tile *tile,
                           const out_sums *sums) {
  float y[TILE];
  for (int c = 0; c < tile->columns; c++) {
    const int32_t *of = sums->at + c * sums->column;
    if (args->makes == INTEGER_SUMS) {
      for (int r = 0; r < tile->rows; r++)
        ((int32_t *)args->out)[matmul_integer_kernels_place_of(args, tile, r) + c] =
            of[r * sums->row];
      continue;
    }
    const column_numbers v = column_numbers_of(&args->formula, tile->column + c);
    for (int r = 0; r < tile->rows; r++)
      y[r] = column_sum(&v, (float)of[r * sums->row],
                        matmul_integer_kernels_other_at(
                            args, matmul_integer_kernels_place_of(args, tile, r) + c));
    apply_step(args, y, tile->rows);
    finish_column(args, &v, tile, c, y);
  }
}

/* ---------------------------------------------------------------- AVX-512 */

#if KERNEL_X86
KERNEL_INLINE TARGET_AVX512_VNNI void turn_words(__m512i x[16]) {
  __m512 v[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) v[i] = _mm512_castsi512_ps(x[i]);
  transpose_avx512(v);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) x[i] = _mm512_castps_si512(v[i]);
}

/* Packs at most 16 words of each of 16 rows. valid: mask of the bytes that exist. */
KERNEL_INLINE TARGET_AVX512_VNNI void pack_16(const unsigned char *x, int64_t k, int rows,
                                              __mmask64 valid, int words, __m512i flip,
                                              uint32_t *to) {
  __m512i w[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; r++)
    w[r] = _mm512_maskz_loadu_epi8(valid, x + (r < rows ? r : rows - 1) * k);
  turn_words(w);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++)
    if (i < words) _mm512_storeu_si512(to + i * TILE, _mm512_xor_si512(w[i], flip));
}

static TARGET_AVX512_VNNI void matmul_integer_kernels_pack_vnni(const unsigned char *x, int64_t k,
                                                                int rows, uint32_t flip,
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

KERNEL_INLINE TARGET_AVX512_VNNI __m512 factor_of_columns(const requantise_factor *factor,
                                                          int64_t column, __mmask16 some) {
  return factor->of_channel ? _mm512_maskz_loadu_ps(some, factor->of_channel + column)
                            : _mm512_set1_ps(factor->number);
}

/* Returns the factors of 16 columns. */
KERNEL_INLINE TARGET_AVX512_VNNI requantise_vectors numbers_of_columns(const requantise_args *args,
                                                                       int64_t column,
                                                                       __mmask16 some) {
  requantise_vectors v = requantise_vectors_numbers_of(args, column);
  for (int k = 0; k < 2; k++) {
    v.terms[k].scale = factor_of_columns(&args->terms[k].scale, column, some);
    v.terms[k].bias = factor_of_columns(&args->terms[k].bias, column, some);
  }
  return v;
}

KERNEL_INLINE TARGET_AVX512_VNNI void finish_row(const matmul_integer_args *args,
                                                 const requantise_vectors *vectors, int64_t at,
                                                 __mmask16 some, __m512 y) {
  if (args->makes == INTEGER_FLOATS) {
    _mm512_mask_storeu_ps((float *)args->out + at, some, requantise_vectors_limited(vectors, y));
    return;
  }
  const __m128i codes =
      _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(requantise_vectors_code_of(vectors, y)));
  _mm512_mask_storeu_epi8((char *)args->out + at, some, _mm512_castsi128_si512(codes));
}

KERNEL_INLINE TARGET_AVX512_VNNI __m512 sum_of_row(const matmul_integer_args *args,
                                                   const requantise_vectors *vectors, int64_t at,
                                                   __mmask16 some, __m512i sums) {
  const requantise_term *term = &args->formula.terms[1];
  const __m512 other =
      vectors->has_other
          ? requantise_load_some(term->type, element_at(term->x, term->type, at), some)
          : vectors->zero;
  return requantise_vectors_sum(vectors, _mm512_cvtepi32_ps(sums), other);
}

/* Stores at most 16 rows of a tile. */
KERNEL_INLINE TARGET_AVX512_VNNI void matmul_integer_kernels_store_rows(
    const matmul_integer_args *args, const requantise_vectors *vectors, const out_tile *tile,
    __mmask16 some, const __m512i x[16]) {
  _Alignas(64) float y[16][COLUMNS];
  const bool has_step = args->steps.head.n_steps > 0;
  for (int r = 0; r < tile->rows; r++) {
    const int64_t at = matmul_integer_kernels_place_of(args, tile, r);
    const __m512 sum = sum_of_row(args, vectors, at, some, x[r]);
    if (has_step)
      _mm512_store_ps(y[r], sum);
    else
      finish_row(args, vectors, at, some, sum);
  }
  if (!has_step) return;
  apply_step(args, y[0], tile->rows * COLUMNS);
  for (int r = 0; r < tile->rows; r++)
    finish_row(args, vectors, matmul_integer_kernels_place_of(args, tile, r), some,
               _mm512_load_ps(y[r]));
}

/* Loads 16 columns of at most 16 rows, from row r on, transposed if columns are not neighbours. */
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

static TARGET_AVX512_VNNI void store_vnni(const matmul_integer_args *args, const out_tile *tile,
                                          const out_sums *sums) {
  const __mmask16 some = (__mmask16)((1u << tile->columns) - 1);
  const bool has_formula = args->makes != INTEGER_SUMS;
  requantise_vectors v = {0};
  if (has_formula) v = numbers_of_columns(&args->formula, tile->column, some);
  for (int r = 0; r < tile->rows; r += 16) {
    const out_tile rows = {tile->row + r, tile->column, tile->rows - r < 16 ? tile->rows - r : 16,
                           tile->columns};
    __m512i x[16];
    load_rows(sums, r, rows.rows, x);
    if (has_formula)
      matmul_integer_kernels_store_rows(args, &v, &rows, some, x);
    else
      for (int i = 0; i < rows.rows; i++)
        _mm512_mask_storeu_epi32(
            (int32_t *)args->out + matmul_integer_kernels_place_of(args, &rows, i), some, x[i]);
  }
}
#endif

integer_rows choose_integer_rows(void) {
#if KERNEL_X86
  if (cpu_has_avx512_vnni()) return (integer_rows){matmul_integer_kernels_pack_vnni, store_vnni};
#endif
  return (integer_rows){matmul_integer_kernels_pack_portable, store_portable};
}
