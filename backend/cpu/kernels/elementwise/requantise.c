/* Requantisation of sums of products: everything that follows a convolution of a quantised network,
 * in one pass. A block of a row is converted, computed and stored while it is in the first
 * cache. */
#include "backend/cpu/kernels/elementwise/requantise.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/elementwise/requantise_vectors.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/rows.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

#define FORMULA(name) floats_##name
#define FORMULA_TARGET
#define FORMULA_NUMBER float
#define FORMULA_FILL(x) (x)
#define FORMULA_NEAREST rintf
#define FORMULA_MAX larger_float
#define FORMULA_MIN smaller_float
#define FORMULA_HAS(changes) true /* loops without branches vectorise */
#include "backend/cpu/kernels/elementwise/requantise_formula.h"

/* (n) elements of each term as floats; other may be absent. */
typedef struct floats {
  const float *first, *other;
} floats;

KERNEL_INLINE void kernel_requantise_compute(const floats_numbers *numbers, floats floats,
                                             int64_t n, float *to) {
  const floats_numbers v = *numbers;
  for (int64_t i = 0; i < n; i++)
    to[i] = floats_code(&v, floats.first[i], v.has_other ? floats.other[i] : 0);
}

#if KERNEL_X86
TARGET_AVX2 static void compute_avx2(const floats_numbers *numbers, floats floats, int64_t n,
                                     float *to) {
  kernel_requantise_compute(numbers, floats, n, to);
}
#endif

/* Computes a block of a row; on AVX-512 only the elements after the last whole vector. */
static void compute_block(const floats_numbers *numbers, floats floats, int64_t n, float *to) {
#if KERNEL_X86
  if (cpu_has_avx2()) {
    compute_avx2(numbers, floats, n, to);
    return;
  }
#endif
  kernel_requantise_compute(numbers, floats, n, to);
}

/* Returns elements [at, at + n) of a term as floats, in `block` unless they are stored so. */
static const float *load_term(const requantise_term *term, int64_t at, int64_t n, float *block) {
  const void *from = element_at(term->x, term->type, at);
  if (term->type == DTYPE_F32) return from;
  load_row(COMPUTE_F32, term->type, from, 1, n, block);
  return block;
}

#if KERNEL_X86
/* Computes elements [at, at + n), 16 at a time. Returns how many are left. */
KERNEL_INLINE TARGET_AVX512 int64_t run_vectors(const requantise_args *args, dtype first,
                                                dtype other, int64_t channel, int64_t at,
                                                int64_t n) {
  const requantise_vectors v = requantise_vectors_numbers_of(args, channel);
  const char *a = element_at(args->terms[0].x, first, at),
             *b = v.has_other ? element_at(args->terms[1].x, other, at) : NULL;
  unsigned char *to = element_at(args->out, args->type, at);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 y = v.has_other ? requantise_load(other, element_at(b, other, i)) : v.zero;
    const __m128i codes = requantise_vector(&v, requantise_load(first, element_at(a, first, i)), y);
    _mm_storeu_si128((__m128i *)(void *)(to + i), codes);
  }
  return n - i;
}

static TARGET_AVX512 int64_t run_row_avx512(const requantise_args *args, int64_t channel,
                                            int64_t at) {
  const dtype a = args->terms[0].type, b = args->terms[1].type;
  if (a == DTYPE_I32 && !args->terms[1].x)
    return run_vectors(args, DTYPE_I32, b, channel, at, args->row);
  if (a == DTYPE_F32 && !args->terms[1].x)
    return run_vectors(args, DTYPE_F32, b, channel, at, args->row);
  if (a == DTYPE_U8 && b == DTYPE_U8)
    return run_vectors(args, DTYPE_U8, DTYPE_U8, channel, at, args->row);
  return run_vectors(args, a, b, channel, at, args->row);
}
#endif

/* Computes whole vectors of a row if possible. Returns how many elements are left. */
static int64_t run_whole_vectors(const requantise_args *args, int64_t row) {
#if KERNEL_X86
  if (cpu_has_avx512()) return run_row_avx512(args, row % args->channels, row * args->row);
#endif
  (void)row;
  return args->row;
}

static void run_row(const requantise_args *args, int64_t row) {
  float blocks[2][ROW_BLOCK], codes[ROW_BLOCK];
  const floats_numbers v = floats_numbers_of(args, row % args->channels);
  const int64_t left = run_whole_vectors(args, row);
  for (int64_t i = args->row - left; i < args->row; i += ROW_BLOCK) {
    int64_t n = args->row - i < ROW_BLOCK ? args->row - i : ROW_BLOCK, at = row * args->row + i;
    floats floats = {.first = load_term(&args->terms[0], at, n, blocks[0])};
    if (v.has_other) floats.other = load_term(&args->terms[1], at, n, blocks[1]);
    compute_block(&v, floats, n, codes);
    cast_row(args->type, element_at(args->out, args->type, at), n, codes);
  }
}

/* ---------------------------------------------------------------- sums of other kernels */

#if KERNEL_X86
/* Returns vector i of the other term of a row of sums. */
KERNEL_INLINE TARGET_AVX512 __m512 kernel_requantise_other_at(const requantise_vectors *vectors,
                                                              dtype type, const void *other,
                                                              int i) {
  const int64_t size = type == DTYPE_F32 || type == DTYPE_I32 ? 4 : 1;
  return vectors->has_other ? requantise_load(type, (const char *)other + i * 16 * size)
                            : vectors->zero;
}

/* Computes a row of a tile whose codes are clamped by saturation alone (requantise_saturates). */
KERNEL_INLINE TARGET_AVX512 void kernel_requantise_pack_row(const requantise_vectors *vectors,
                                                            dtype other_type, const int32_t *sums,
                                                            const void *other,
                                                            unsigned char *codes) {
  __m512i whole[REQUANTISE_TILE / 16];
#pragma GCC unroll 4
  for (int i = 0; i < REQUANTISE_TILE / 16; i++)
    whole[i] = requantise_whole(vectors, requantise_load(DTYPE_I32, sums + i * 16),
                                kernel_requantise_other_at(vectors, other_type, other, i));
  _mm512_storeu_si512(codes, requantise_pack(whole));
}

/* other_type: dtype of terms[1], if present; is_plain: result of requantise_is_plain. */
KERNEL_INLINE TARGET_AVX512 void sums_vectors(const requantise_args *args, requantise_vectors v,
                                              bool is_plain, dtype other_type, int64_t channel,
                                              int rows, int n, const int32_t *sums,
                                              const void *const *other,
                                              unsigned char *const *codes) {
  const bool packs = n > REQUANTISE_TILE / 2 && requantise_saturates(args);
  for (int r = 0; r < rows; r++, sums += REQUANTISE_TILE) {
    requantise_vectors_set_channel(&v, args, channel + r);
    if (is_plain) v = requantise_plain(v);
    if (packs) kernel_requantise_pack_row(&v, other_type, sums, other[r], codes[r]);
    for (int i = 0; i * 16 < n && !packs; i++) {
      const __m128i some =
          requantise_vector(&v, requantise_load(DTYPE_I32, sums + i * 16),
                            kernel_requantise_other_at(&v, other_type, other[r], i));
      _mm_storeu_si128((__m128i *)(void *)(codes[r] + i * 16), some);
    }
  }
}

static TARGET_AVX512 void kernel_requantise_sums_avx512(const requantise_args *args,
                                                        int64_t channel, int rows, int n,
                                                        const int32_t *sums,
                                                        const void *const *other,
                                                        unsigned char *const *codes) {
  const dtype t = args->terms[1].type;
  const requantise_vectors v = requantise_vectors_numbers_of(args, channel);
  if (requantise_is_plain(&v))
    sums_vectors(args, v, true, t, channel, rows, n, sums, other, codes);
  else if (t == DTYPE_U8)
    sums_vectors(args, v, false, DTYPE_U8, channel, rows, n, sums, other, codes);
  else
    sums_vectors(args, v, false, t, channel, rows, n, sums, other, codes);
}
#endif

static void sums_row(const requantise_args *args, int64_t channel, int n, const int32_t *sums,
                     const void *other, unsigned char *codes) {
  float blocks[2][REQUANTISE_TILE], values[REQUANTISE_TILE];
  const floats_numbers v = floats_numbers_of(args, channel);
  load_row(COMPUTE_F32, DTYPE_I32, sums, 1, n, blocks[0]);
  if (v.has_other) load_row(COMPUTE_F32, args->terms[1].type, other, 1, n, blocks[1]);
  compute_block(&v, (floats){blocks[0], blocks[1]}, n, values);
  cast_row(args->type, codes, n, values);
}

void requantise_sums(const requantise_args *args, int64_t channel, int rows, int n,
                     const int32_t *sums, const void *const *other, unsigned char *const *codes) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    kernel_requantise_sums_avx512(args, channel, rows, n, sums, other, codes);
    return;
  }
#endif
  for (int r = 0; r < rows; r++)
    sums_row(args, channel + r, n, sums + (int64_t)r * REQUANTISE_TILE, other[r], codes[r]);
}

/* ---------------------------------------------------------------- one element per channel */

#if KERNEL_X86
/* Returns a factor of the channels in the mask. */
TARGET_AVX512_VNNI KERNEL_INLINE __m512 channel_factors(const requantise_factor *factor,
                                                        int64_t channel, __mmask16 some) {
  return factor->of_channel ? _mm512_maskz_loadu_ps(some, factor->of_channel + channel)
                            : _mm512_set1_ps(factor->number);
}

TARGET_AVX512_VNNI static void channels_avx512(const requantise_args *args, int64_t channel, int n,
                                               const int32_t *sums, const void *other,
                                               unsigned char *codes) {
  const __mmask16 some = (__mmask16)(0xffff >> (REQUANTISE_CHANNELS - n));
  requantise_vectors v = requantise_vectors_numbers_of(args, channel);
  for (int t = 0; t < (v.has_other ? 2 : 1); t++) {
    v.terms[t].scale = channel_factors(&args->terms[t].scale, channel, some);
    v.terms[t].bias = channel_factors(&args->terms[t].bias, channel, some);
  }
  const __m512 x = requantise_load_some(DTYPE_I32, sums, some),
               y = v.has_other ? requantise_load_some(args->terms[1].type, other, some) : v.zero;
  _mm_mask_storeu_epi8(codes, some, requantise_vector(&v, x, y));
}
#endif

void requantise_channels(const requantise_args *args, int64_t channel, int n, const int32_t *sums,
                         const void *other, unsigned char *codes) {
#if KERNEL_X86
  if (cpu_has_avx512_vnni()) {
    channels_avx512(args, channel, n, sums, other, codes);
    return;
  }
#endif
  float values[REQUANTISE_CHANNELS], others[REQUANTISE_CHANNELS] = {0};
  if (other) load_row(COMPUTE_F32, args->terms[1].type, other, 1, n, others);
  for (int i = 0; i < n; i++) {
    const floats_numbers v = floats_numbers_of(args, channel + i);
    values[i] = floats_code(&v, (float)sums[i], others[i]);
  }
  cast_row(args->type, codes, n, values);
}

/* ---------------------------------------------------------------- the kernel */

static void kernel_requantise_run_rows(void *ctx, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++) run_row(ctx, row);
}

static bool requantise(const kernel_context *ctx, const void *args) {
  requantise_args own = *(const requantise_args *)args;
  if (own.row > 0)
    ctx->parallel_for(ctx->pool, own.images * own.channels, GRAIN / own.row + 1,
                      kernel_requantise_run_rows, &own);
  return true;
}

const kernel_desc kernel_requantise = {
    .name = "requantise",
    .run = requantise,
    .args_size = sizeof(requantise_args),
    .operands = {
        OPERAND(requantise_args, terms[0].x), OPERAND(requantise_args, terms[0].scale.of_channel),
        OPERAND(requantise_args, terms[0].bias.of_channel), OPERAND(requantise_args, terms[1].x),
        OPERAND(requantise_args, terms[1].scale.of_channel),
        OPERAND(requantise_args, terms[1].bias.of_channel), OPERAND(requantise_args, out)}};
