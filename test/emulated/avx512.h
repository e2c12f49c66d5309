#ifndef TEST_EMULATED_AVX512_H
#define TEST_EMULATED_AVX512_H
/* The intrinsics of AVX-512 and AMX that kernels of the CPU backend call, in plain C for processors
 * with AVX2. It is included before each kernel (-include) and replaces the compiler's immintrin.h,
 * so that the kernels compile unchanged and use no instruction beyond AVX2. Add an intrinsic here
 * when a kernel begins to call it. Results are those of Intel's manual, except that
 * _mm512_rcp14_ps is exact. */
#define _IMMINTRIN_H_INCLUDED /* the guard of gcc */
#define __IMMINTRIN_H         /* the guard of clang */
/* The later of these headers need the earlier ones. */
/* clang-format off */
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
/* clang-format on */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define KERNEL_EMULATED
#define target(...) /* the attribute of functions that use more than the baseline */

#define VECTOR(bytes, type) typedef type __attribute__((vector_size(bytes), may_alias))
VECTOR(64, float) __m512, f32;
VECTOR(64, double) __m512d, f64;
VECTOR(64, long long) __m512i, i64;
VECTOR(64, uint16_t) __m512bh, u16;
VECTOR(32, uint16_t) __m256bh, u16_half;
VECTOR(64, int8_t) i8;
VECTOR(64, uint8_t) u8;
VECTOR(64, int16_t) i16;
VECTOR(64, int32_t) i32;
VECTOR(64, uint32_t) u32;
VECTOR(16, int8_t) i8_quarter;
VECTOR(16, uint8_t) u8_quarter;
VECTOR(32, uint8_t) u8_half;
VECTOR(32, int8_t) i8_half;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

/* EACH defines a function by the formula for element i of its result. A, B and K are the elements
 * of its arguments and the bit of its mask. */
#define EMULATED static inline __attribute__((unused))
#define EACH(result, name, parameters, elements, formula)                   \
  EMULATED result name parameters {                                         \
    elements r = {0};                                                       \
    for (int i = 0; i < (int)(sizeof r / sizeof r[0]); i++) r[i] = formula; \
    return (result)r;                                                       \
  }
#define AT(elements, x, i) ((elements)(x))[i]
#define A(elements) AT(elements, a, i)
#define B(elements) AT(elements, b, i)
#define K (k >> i & 1)
#define TWO_PS (__m512 a, __m512 b)
#define TWO_SI (__m512i a, __m512i b)

/* ---------------------------------------------------------------- constants, loads and stores */

EMULATED f32 _mm512_setzero_ps(void) { return (f32){0}; }
EMULATED f64 _mm512_setzero_pd(void) { return (f64){0}; }
EMULATED i64 _mm512_setzero_si512(void) { return (i64){0}; }
EACH(f32, _mm512_set1_ps, (float x), f32, x)
EACH(i64, _mm512_set1_epi32, (int x), i32, x)
EACH(i64, _mm512_set1_epi16, (short x), i16, x)
EACH(i64, _mm512_set1_epi8, (char x), i8, (int8_t)x)
#define _mm512_setr_epi32(...) ((i64)(i32){__VA_ARGS__})

#define WHOLE(type, load, store)         \
  EMULATED type load(const void *from) { \
    type r;                              \
    memcpy(&r, from, sizeof r);          \
    return r;                            \
  }                                      \
  EMULATED void store(void *to, type x) { memcpy(to, &x, sizeof x); }
WHOLE(f32, _mm512_loadu_ps, _mm512_storeu_ps)
WHOLE(f32, _mm512_load_ps, _mm512_store_ps)
WHOLE(i64, _mm512_loadu_si512, _mm512_storeu_si512)
WHOLE(i64, _mm512_load_si512, _mm512_store_si512)

/* Elements without a bit in the mask are neither read nor written. */
#define MASKED(type, mask, elements, load, store)                                               \
  EACH(type, load, (mask k, const void *from), elements, K ? ((__typeof__(r[0]) *)from)[i] : 0) \
  EMULATED void store(void *to, mask k, type x) {                                               \
    const elements all = (elements)x;                                                           \
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++)                                 \
      if (K)                                                                                    \
        memcpy((char *)to + i * (int)sizeof all[0], (char *)&x + i * (int)sizeof all[0],        \
               sizeof all[0]);                                                                  \
  }
MASKED(f32, __mmask16, f32, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps)
MASKED(i64, __mmask16, i32, _mm512_maskz_loadu_epi32, _mm512_mask_storeu_epi32)
MASKED(i64, __mmask32, i16, _mm512_maskz_loadu_epi16, _mm512_mask_storeu_epi16)
MASKED(i64, __mmask64, i8, _mm512_maskz_loadu_epi8, _mm512_mask_storeu_epi8)
MASKED(__m256i, __mmask16, u16_half, _mm256_maskz_loadu_epi16, _mm256_mask_storeu_epi16)
MASKED(__m256i, __mmask32, u8_half, _mm256_maskz_loadu_epi8, _mm256_mask_storeu_epi8)
MASKED(__m128i, __mmask16, u8_quarter, _mm_maskz_loadu_epi8, _mm_mask_storeu_epi8)
EACH(f32, _mm512_mask_mov_ps, (f32 b, __mmask16 k, f32 a), f32, K ? a[i] : b[i])
EACH(f32, _mm512_maskz_mov_ps, (__mmask16 k, f32 a), f32, K ? a[i] : 0)
EACH(i64, _mm512_mask_mov_epi32, (i64 b, __mmask16 k, i64 a), i32, K ? A(i32) : B(i32))
EACH(i64, _mm512_mask_mov_epi16, (i64 b, __mmask32 k, i64 a), i16, K ? A(i16) : B(i16))
EACH(i64, _mm512_mask_mov_epi8, (i64 b, __mmask64 k, i64 a), i8, K ? A(i8) : B(i8))
#define _mm512_mask_loadu_ps(x, k, p) _mm512_mask_mov_ps(x, k, _mm512_maskz_loadu_ps(k, p))
#define _mm512_mask_loadu_epi8(x, k, p) _mm512_mask_mov_epi8(x, k, _mm512_maskz_loadu_epi8(k, p))

/* ---------------------------------------------------------------- floats */

EACH(f32, _mm512_add_ps, TWO_PS, f32, a[i] + b[i])
EACH(f32, _mm512_sub_ps, TWO_PS, f32, a[i] - b[i])
EACH(f32, _mm512_mul_ps, TWO_PS, f32, a[i] * b[i])
EACH(f32, _mm512_max_ps, TWO_PS, f32, a[i] > b[i] ? a[i] : b[i])
EACH(f32, _mm512_min_ps, TWO_PS, f32, a[i] < b[i] ? a[i] : b[i])
EACH(f32, _mm512_rcp14_ps, (f32 a), f32, 1 / a[i])
EACH(f32, _mm512_fmadd_ps, (f32 a, f32 b, f32 c), f32, fmaf(a[i], b[i], c[i]))
#define _mm512_mask3_fmadd_ps(a, b, c, k) _mm512_mask_mov_ps(c, k, _mm512_fmadd_ps(a, b, c))
#define _mm512_mask_sub_ps(x, k, a, b) _mm512_mask_mov_ps(x, k, _mm512_sub_ps(a, b))
#define _mm512_maskz_sub_ps(k, a, b) _mm512_maskz_mov_ps(k, _mm512_sub_ps(a, b))
/* Returns a times 2 to the power of the integer below b. */
EMULATED float scaled(float a, float b) {
  return isnan(b) ? b : ldexpf(a, (int)fminf(fmaxf(floorf(b), -1000), 1000));
}
EACH(f32, _mm512_scalef_ps, TWO_PS, f32, scaled(a[i], b[i]))
#define _mm512_roundscale_ps(x, nearest) emulated_nearest(x)
EACH(f32, emulated_nearest, (f32 a), f32, rintf(a[i]))

EMULATED __mmask16 _mm512_cmp_ps_mask(f32 a, f32 b, int order) {
  int r = 0;
  for (int i = 0; i < 16; i++)
    r |= (order == _CMP_UNORD_Q ? isunordered(a[i], b[i])
          : order == _CMP_EQ_OQ ? a[i] == b[i]
          : order == _CMP_GT_OQ ? a[i] > b[i]
                                : !(a[i] == b[i]) /* _CMP_NEQ_UQ */)
         << i;
  return (__mmask16)r;
}

/* Adds the halves to each other until one element is left. */
#define REDUCE(type, name, elements)                        \
  EMULATED type name(elements a) {                          \
    for (int n = sizeof a / sizeof a[0] / 2; n > 0; n /= 2) \
      for (int i = 0; i < n; i++) a[i] += a[i + n];         \
    return a[0];                                            \
  }
REDUCE(float, _mm512_reduce_add_ps, f32)
REDUCE(double, _mm512_reduce_add_pd, f64)
REDUCE(int, reduce_add_i32, i32)
#define _mm512_reduce_add_epi32(x) reduce_add_i32((i32)(x))
EACH(i64, _mm512_madd_epi16, TWO_SI, i32,
     AT(i16, a, 2 * i) * AT(i16, b, 2 * i) + AT(i16, a, 2 * i + 1) * AT(i16, b, 2 * i + 1))

/* ---------------------------------------------------------------- integers */

EACH(i64, _mm512_and_si512, TWO_SI, i64, a[i] & b[i])
EACH(i64, _mm512_or_si512, TWO_SI, i64, a[i] | b[i])
EACH(i64, _mm512_xor_si512, TWO_SI, i64, a[i] ^ b[i])
EACH(i64, _mm512_add_epi32, TWO_SI, u32, A(u32) + B(u32))
EACH(i64, _mm512_sub_epi32, TWO_SI, u32, A(u32) - B(u32))
EACH(i64, _mm512_add_epi16, TWO_SI, u16, (uint16_t)(A(u16) + B(u16)))
EACH(i64, _mm512_slli_epi32, (i64 a, int n), u32, A(u32) << n)
EACH(i64, _mm512_srli_epi32, (i64 a, int n), u32, A(u32) >> n)
EACH(i64, _mm512_srli_epi16, (i64 a, int n), u16, A(u16) >> n)
EACH(i64, _mm512_srai_epi16, (i64 a, int n), i16, A(i16) >> n)
EACH(i64, _mm512_sllv_epi32, TWO_SI, u32, B(u32) < 32 ? A(u32) << B(u32) : 0)
EACH(i64, _mm512_max_epi32, TWO_SI, i32, A(i32) > B(i32) ? A(i32) : B(i32))
EACH(i64, _mm512_max_epi16, TWO_SI, i16, A(i16) > B(i16) ? A(i16) : B(i16))
#define _mm512_mask_add_epi32(x, k, a, b) _mm512_mask_mov_epi32(x, k, _mm512_add_epi32(a, b))
#define _mm512_mask_or_epi32(x, k, a, b) _mm512_mask_mov_epi32(x, k, _mm512_or_si512(a, b))

/* Looks each bit up in the table, by the bits of a, b and c. */
EMULATED i64 _mm512_ternarylogic_epi32(i64 a, i64 b, i64 c, int table) {
  i64 r = {0};
  for (int i = 0; i < 8; i++)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}

#define COMPARE(mask, name, elements, formula)                                     \
  EMULATED mask name TWO_SI {                                                      \
    mask r = 0;                                                                    \
    for (int i = 0; i < 8 * (int)sizeof r; i++) r |= (mask)((mask)(formula) << i); \
    return r;                                                                      \
  }
COMPARE(__mmask16, _mm512_cmpge_epi32_mask, i32, A(i32) >= B(i32))
COMPARE(__mmask16, _mm512_cmplt_epi32_mask, i32, A(i32) < B(i32))
COMPARE(__mmask32, _mm512_cmpgt_epi16_mask, i16, A(i16) > B(i16))

/* Adds the products of four bytes to each sum; the bytes of b are signed. */
EMULATED i64 _mm512_dpbusd_epi32(i64 sums, i64 a, i64 b) {
  i32 r = (i32)sums;
  for (int i = 0; i < 64; i++) r[i / 4] += A(u8) * B(i8);
  return (i64)r;
}

/* ---------------------------------------------------------------- conversions */

#define _mm512_castpd_ps(x) ((f32)(x))
#define _mm512_castps_pd(x) ((f64)(x))
#define _mm512_castps_si512(x) ((i64)(x))
#define _mm512_castsi512_ps(x) ((f32)(x))
EACH(__m256, _mm512_castps512_ps256, (f32 a), __m256, a[i])
EACH(__m128i, _mm512_castsi512_si128, (i64 a), __m128i, a[i])
EACH(i64, _mm512_castsi128_si512, (__m128i a), i64, i < 2 ? a[i] : 0)
EACH(__m256d, _mm512_extractf64x4_pd, (f64 a, int half), __m256d, a[i + 4 * half])
EACH(i64, _mm512_cvtepu16_epi32, (__m256i a), i32, A(u16_half))
EACH(i64, _mm512_cvtepi8_epi16, (__m256i a), i16, A(i8_half))
EACH(i64, _mm512_cvtepu8_epi16, (__m256i a), i16, A(u8_half))
EACH(i64, _mm512_cvtepu8_epi32, (__m128i a), i32, A(u8_quarter))
EACH(i64, _mm512_cvtepi8_epi32, (__m128i a), i32, A(i8_quarter))
EACH(__m256i, _mm512_cvtepi32_epi16, (i64 a), u16_half, (uint16_t)A(u32))
EACH(__m128i, _mm512_cvtepi32_epi8, (i64 a), u8_quarter, (uint8_t)A(u32))
EACH(__m128i, _mm512_cvtusepi32_epi8, (i64 a), u8_quarter, (uint8_t)(A(u32) > 255 ? 255 : A(u32)))
EACH(f32, _mm512_cvtepi32_ps, (i64 a), f32, (float)A(i32))
EACH(f64, _mm512_cvtps_pd, (__m256 a), f64, (double)a[i])
EACH(f32, _mm512_cvtph_ps, (__m256i a), f32, _cvtsh_ss(A(u16_half)))
EMULATED int32_t integer_of(float x) { return fabsf(x) < 0x1p31F ? (int32_t)x : INT32_MIN; }
EACH(i64, _mm512_cvttps_epi32, (f32 a), i32, integer_of(a[i]))
#define _mm512_cvt_roundps_epi32(x, nearest) _mm512_cvttps_epi32(emulated_nearest(x))

/* Returns x, or 0 if it is subnormal, as BF16 instructions read operands and store results. */
EMULATED float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }
EMULATED float from_bf16(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float r;
  memcpy(&r, &bits, sizeof r);
  return flushed(r);
}
EMULATED uint16_t to_bf16(float x) {
  uint32_t bits;
  x = flushed(x);
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(isnan(x) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
EACH(__m256bh, _mm512_cvtneps_pbh, (f32 a), u16_half, to_bf16(a[i]))
EACH(__m512bh, _mm512_cvtne2ps_pbh, TWO_PS, u16, to_bf16(i < 16 ? b[i] : a[i - 16]))
/* Adds the odd products first. */
EMULATED f32 _mm512_dpbf16_ps(f32 sums, __m512bh a, __m512bh b) {
  for (int i = 0; i < 32; i++)
    sums[i / 2] = flushed(fmaf(from_bf16(a[i ^ 1]), from_bf16(b[i ^ 1]), flushed(sums[i / 2])));
  return sums;
}

/* ---------------------------------------------------------------- permutations */

EACH(f32, _mm512_permutex2var_ps, (f32 a, i64 b, f32 c), f32, (B(i32) & 16 ? c : a)[B(i32) & 15])
EACH(i64, _mm512_permutex2var_epi16, (i64 a, i64 b, i64 c), u16,
     AT(u16, B(u16) & 32 ? c : a, B(u16) & 31))
EACH(f32, _mm512_permutexvar_ps, (i64 b, f32 a), f32, a[B(i32) & 15])
EACH(i64, _mm512_permutexvar_epi32, (i64 b, i64 a), i32, AT(i32, a, B(i32) & 15))
EACH(i64, _mm512_permutexvar_epi16, (i64 b, i64 a), u16, AT(u16, a, B(u16) & 31))
EACH(i64, _mm512_shuffle_epi8, TWO_SI, u8, B(i8) < 0 ? 0 : AT(u8, a, (i & ~15) + (B(u8) & 15)))
EACH(f32, _mm512_shuffle_f32x4, (f32 a, f32 b, int order), f32,
     (i < 8 ? a : b)[4 * (order >> i / 4 * 2 & 3) + i % 4])

/* Interleaves the lower or upper halves of each block of n elements (16 bytes) of a and b. */
#define TURNS(elements, n, upper) \
  AT(elements, i % 2 ? b : a, i / n * n + upper * (n / 2) + i % n / 2)
EACH(f32, _mm512_unpacklo_ps, TWO_PS, f32, TURNS(f32, 4, 0))
EACH(f32, _mm512_unpackhi_ps, TWO_PS, f32, TURNS(f32, 4, 1))
EACH(f64, _mm512_unpacklo_pd, (f64 a, f64 b), f64, TURNS(f64, 2, 0))
EACH(f64, _mm512_unpackhi_pd, (f64 a, f64 b), f64, TURNS(f64, 2, 1))
EACH(i64, _mm512_unpacklo_epi16, TWO_SI, u16, TURNS(u16, 8, 0))
EACH(i64, _mm512_unpackhi_epi16, TWO_SI, u16, TURNS(u16, 8, 1))
EACH(i64, _mm512_unpacklo_epi8, TWO_SI, u8, TURNS(u8, 16, 0))
EACH(i64, _mm512_unpackhi_epi8, TWO_SI, u8, TURNS(u8, 16, 1))

/* Narrows elements with saturation. In each 16 bytes, the elements of a precede those of b. */
EMULATED int clamped(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
#define BOTH(elements, n) AT(elements, i / n % 2 ? b : a, i / (2 * n) * n + i % n)
EACH(i64, _mm512_packs_epi32, TWO_SI, i16, (int16_t)clamped(BOTH(i32, 4), INT16_MIN, INT16_MAX))
EACH(i64, _mm512_packus_epi16, TWO_SI, u8, (uint8_t)clamped(BOTH(i16, 8), 0, UINT8_MAX))

#undef A
#undef B

/* ---------------------------------------------------------------- tiles (amx.c) */

void _tile_loadconfig(const void *configuration);
void _tile_release(void);
void _tile_zero(int to);
void _tile_loadd(int to, const void *from, int64_t step);
void _tile_stored(int from, void *to, int64_t step);
void _tile_dpbf16ps(int to, int a, int b);
void _tile_dpbssd(int to, int a, int b);
void _tile_dpbsud(int to, int a, int b);
void _tile_dpbusd(int to, int a, int b);

#endif
