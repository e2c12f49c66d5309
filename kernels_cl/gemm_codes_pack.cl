/* An encoded b (n, k) as panels of codes. A work-item writes a part of a panel. */
#include "codes.h"
#include "encoded.h"

static inline void store_factor(float v, long i, __global uchar *to) {
#if WIDE_FACTORS
  ((__global float *)to)[i] = v;
#else
  STORE(F16, (__global half *)to, i, v);
#endif
}

__kernel void gemm_codes_pack(ENCODED_PARAMS, __global uchar *packed, const long packed_offset,
                              const long panel_bytes, const long d_at, const long m_at,
                              const long s_at, const long l_at, const index_t period,
                              const index_t n_size) {
  const index_t panel = (index_t)get_global_id(0), part = (index_t)get_global_id(1);
  packed += packed_offset + panel * panel_bytes;
  __global uint *words = (__global uint *)(packed + part * PART_BYTES);
  for (int lane = 0; lane < PANEL; lane++) {
    const index_t n = panel * PANEL + lane;
    float x[PART];
    code_factors f = factors_of(0, 0);
    if (n < n_size)
      f = split_part(codes + codes_offset + n * row_bytes, part, scales_at, groups, group, x);
    else
      for (int i = 0; i < PART; i++) x[i] = LEAST;
    for (int v = 0; v < VECTORS; v++) {
      uint word = 0;
      for (int j = 0; j < CODES; j++)
        word |= (uint)((int)x[v * CODES + j] - LEAST) << (j * CODE_BITS);
      words[v * PANEL + lane] = word;
    }
    if (part % period == 0) {
      store_factor(f.d, part / period * PANEL + lane, packed + d_at);
#if HAS_LOWS
      store_factor(f.m, part / period * PANEL + lane, packed + m_at);
#endif
    }
#if HAS_SUBS
    for (int span = 0; span < SPANS; span++) {
      const long at = (part * SPANS + span) * PANEL + lane;
      packed[s_at + at] = (uchar)f.s[span];
#if HAS_LOWS
      packed[l_at + at] = (uchar)f.l[span];
#endif
    }
#endif
  }
}
