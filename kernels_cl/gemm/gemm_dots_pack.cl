/* Packs rows of a in tiles of dots.h. A work-item writes a part of one row. */
#include "dots.h"
#ifndef A_TYPE
#define A_TYPE F32
#endif
#ifndef A_ORDER
#define A_ORDER 1 /* 1: k is contiguous */
#endif

static inline int largest_of(int16 x) {
  const int8 a = max(x.lo, x.hi);
  const int4 b = max(a.lo, a.hi);
  const int2 c = max(b.lo, b.hi);
  return max(c.x, c.y);
}
static inline int sum_of(int16 x) {
  const int8 a = x.lo + x.hi;
  const int4 b = a.lo + a.hi;
  return b.x + b.y + b.z + b.w;
}

/* Returns x / y, where x and y are the bits of normal numbers. The result is correctly rounded if
 * it is normal; a GPU's own division may not be. */
static inline float quotient(uint x, uint y) {
  const ulong a = (ulong)(x & 0x7fffffu | 0x800000u) << 26, b = y & 0x7fffffu | 0x800000u,
              q = a / b;
  return ldexp((float)((uint)q << 1 | (q * b != a)), (int)(x >> 23) - (int)(y >> 23) - 27);
}

static inline int span_sum(int sum, float scale) {
  return BY_ROWS ? sum : HAS_LOWS ? as_int(scale * (float)sum) : LEAST * sum;
}

/* Stores 16 q as words of a tile. */
static inline void store_words(int16 q, __global int *to) {
  const char16 x = convert_char16(q);
#if CODE_BITS == 8
  const int4 words = as_int4(x);
#else
  const int4 words = (int4)(as_int(x.s0246), as_int(x.s1357), as_int(x.s8ace), as_int(x.s9bdf));
#endif
  to[0] = words.x;
  to[WORD_STEP] = words.y;
  to[2 * WORD_STEP] = words.z;
  to[3 * WORD_STEP] = words.w;
}

/* Rounds x0 and x1, a part of row m of a tile, as base/rounded.c does. to: the tile's first word.
 */
static inline void store_part(float16 x0, float16 x1, __global int *to, int m) {
  const int16 size0 = as_int16(x0) & 0x7fffffff, size1 = as_int16(x1) & 0x7fffffff;
  const int largest = largest_of(max(size0, size1)), infinity = 0x7f800000;
  const uint limit = as_uint(127.0f);
  float scale = quotient((uint)largest, limit), inverse = quotient(limit, (uint)largest);
  if (scale < 0x1p-126f) scale = inverse = 0;
  int16 q0 = 0, q1 = 0;
  if (largest < infinity) {
    q0 = convert_int16(rint(x0 * inverse));
    q1 = convert_int16(rint(x1 * inverse));
  } else {
    scale = NAN;
  }
  store_words(q0, to + m * ROW_STEP);
  store_words(q1, to + m * ROW_STEP + WORDS / 2 * WORD_STEP);
  to += WORDS * M + m;
  to[0] = as_int(scale);
#if SPANS == 1
  to[M] = span_sum(sum_of(q0 + q1), scale);
#else
  to[M] = span_sum(sum_of(q0), scale);
  to[2 * M] = span_sum(sum_of(q1), scale);
#endif
}

__kernel void gemm_dots_pack(__global const STORAGE(A_TYPE) * a, const long a_offset,
                             const index8 a_batch, const index_t a_m, const index_t a_k,
                             __global int *packed, const long packed_offset,
                             const index8 batch_dims, const index_t m_size, const index_t k_size,
                             const index_t parts, const __global long *row_tiles,
                             const long row_tiles_offset) {
  const index_t tile = (index_t)get_global_id(0), part = (index_t)get_global_id(1),
                z = (index_t)get_global_id(2), n_tiles = (m_size + M - 1) / M;
#if GROUPED
  const __global long *of_rows = row_tiles + row_tiles_offset + 3 * (long)z;
  const index_t rows = (index_t)of_rows[1];
  a += a_offset + (index_t)of_rows[0] * a_m;
#else
  const index_t rows = m_size;
  a += a_offset + strided_offset(z, batch_dims, a_batch);
#endif
  packed += packed_offset + ((long)z * n_tiles + tile) * parts * TILE_WORDS;
  if (part >= parts) return;
  for (int m = 0; m < M; m++) {
    const index_t row = tile * M + m, k = part * PART;
    const int n = row < rows ? (int)min((index_t)PART, k_size - k) : 0;
    float16 x0, x1;
    if (A_ORDER && n == PART) {
      x0 = LOAD16F(A_TYPE, a + row * a_m + k);
      x1 = LOAD16F(A_TYPE, a + row * a_m + k + 16);
    } else {
      float x[PART];
      UNROLL_ON_GPU
      for (int i = 0; i < PART; i++) x[i] = i < n ? LOADF(A_TYPE, a, row * a_m + (k + i) * a_k) : 0;
      x0 = vload16(0, x);
      x1 = vload16(1, x);
    }
    store_part(x0, x1, packed + (long)part * TILE_WORDS, m);
  }
}
