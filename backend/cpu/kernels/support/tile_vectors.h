/* Defines the vectors of tiles (*_tiles.h) for the instruction set TILE_SET, one of the constants
 * below:
 *   TILE_TARGET   target attribute of functions
 *   TILE_VECTOR   vector type
 *   TILE_LOAD(p), TILE_FILL(x)   load, broadcast
 *   TILE_ADD(a, b, sum)   sum + a * b; in *_PAIRS sets, a and b are words of pairs.h
 *   TILE_ADD_FLOATS(a, b, sum)   sum + a * b of floats in every set
 *   TILE_MAX(a, b), TILE_MIN(a, b)   b if either is NaN
 *   TILE_LEAKY(y, slope)   y > 0 ? y : y * slope
 * Include it once per set, after features.h, vec4.h and avx512.h. */

#define TILE_PORTABLE 1
#define TILE_PORTABLE_PAIRS 2
#define TILE_ARM_PAIRS 3
#define TILE_AVX2 4
#define TILE_AVX512 5
#define TILE_AVX512_PAIRS 6

#undef TILE_TARGET
#undef TILE_VECTOR
#undef TILE_LOAD
#undef TILE_FILL
#undef TILE_ADD
#undef TILE_ADD_FLOATS
#undef TILE_MAX
#undef TILE_MIN
#undef TILE_LEAKY

#if TILE_SET <= TILE_ARM_PAIRS
#define TILE_VECTOR vec4
#define TILE_LOAD vec4_load
#define TILE_FILL vec4_fill
#define TILE_ADD_FLOATS(a, b, sum) vec4_add_product(sum, a, b)
#define TILE_MAX vec4_larger
#define TILE_MIN vec4_smaller
#define TILE_LEAKY vec4_leaky
#elif TILE_SET == TILE_AVX2
#define TILE_VECTOR __m256
#define TILE_LOAD _mm256_loadu_ps
#define TILE_FILL _mm256_set1_ps
#define TILE_ADD_FLOATS _mm256_fmadd_ps
#define TILE_MAX _mm256_max_ps
#define TILE_MIN _mm256_min_ps
#define TILE_LEAKY leaky_avx2
#else
#define TILE_VECTOR __m512
#define TILE_LOAD _mm512_loadu_ps
#define TILE_FILL _mm512_set1_ps
#define TILE_ADD_FLOATS _mm512_fmadd_ps
#define TILE_MAX _mm512_max_ps
#define TILE_MIN _mm512_min_ps
#define TILE_LEAKY leaky_avx512
#endif

#if TILE_SET == TILE_PORTABLE
#define TILE_TARGET
#define TILE_ADD TILE_ADD_FLOATS
#elif TILE_SET == TILE_PORTABLE_PAIRS
#define TILE_TARGET
#define TILE_ADD(a, b, sum) vec4_add_pairs(sum, a, b)
#elif TILE_SET == TILE_ARM_PAIRS
#define TILE_TARGET TARGET_ARM_BF16
#define TILE_ADD(a, b, sum) vec4_add_bfdot(sum, a, b)
#elif TILE_SET == TILE_AVX2
#define TILE_TARGET TARGET_AVX2
#define TILE_ADD TILE_ADD_FLOATS
#elif TILE_SET == TILE_AVX512
#define TILE_TARGET TARGET_AVX512
#define TILE_ADD TILE_ADD_FLOATS
#else
#define TILE_TARGET TARGET_AVX512_BF16
#define TILE_ADD(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#endif

#undef TILE_SET
