/* Packs an encoded b (n, k), or several consecutive ones, as panels of codes. A work-item writes a
 * part of a panel. */
#include "codes.h"
#include "encoded.h"

/* Returns a code as panels store it. */
static inline uint stored_code(float x) {
#if FLOAT_CODES
  return PASTE(encode_, CODE)(x);
#else
  return (uint)((int)x - LEAST);
#endif
}

static inline void store_factor(float v, long i, __global uchar *to) {
#if WIDE_FACTORS
  ((__global float *)to)[i] = v;
#else
  STORE(F16, (__global half *)to, i, v);
#endif
}

__kernel void gemm_codes_pack(ENCODED_PARAMS, __global uchar *packed, const long packed_offset,
                              const long panel_bytes, const index_t n_size, const index_t k_size) {
  const index_t panel = (index_t)get_global_id(0), part = (index_t)get_global_id(1),
                matrix = (index_t)get_global_id(2), panels = (n_size + PANEL - 1) / PANEL;
  __global uchar *block =
      BLOCK_OF(packed + packed_offset + ((long)matrix * panels + panel) * panel_bytes, part);
  codes += (long)matrix * n_size * row_bytes;
  __global uint *words = (__global uint *)(block + part % BLOCK * PART_BYTES);
  for (int lane = 0; lane < PANEL; lane++) {
    const index_t n = panel * PANEL + lane;
    float x[PART];
    code_factors f = factors_of(0, 0);
    if (n < n_size)
      f = split_part(codes + codes_offset + n * row_bytes, part, scales_at, groups, group, x);
    UNROLL_ON_GPU
    for (int i = 0; i < PART; i++)
      if (n >= n_size || part * PART + i >= k_size) x[i] = LEAST;
    UNROLL_ON_GPU
    for (int v = 0; v < VECTORS; v++) {
      uint word = 0;
      UNROLL_ON_GPU
      for (int j = 0; j < CODES; j++) word |= stored_code(x[v * CODES + j]) << (j * CODE_BITS);
      words[v * PANEL + lane] = word;
    }
    UNROLL_ON_GPU
    for (int i = 0; i < SPANS; i++) {
      const int span = (int)(part % BLOCK) * SPANS + i;
      if (span % PERIOD == 0) {
        store_factor(f.d[i], span / PERIOD * PANEL + lane, block + D_AT);
#if HAS_LOWS
        store_factor(f.m[i], span / PERIOD * PANEL + lane, block + M_AT);
#endif
      }
#if HAS_SUBS
      block[S_AT + span * PANEL + lane] = (uchar)f.s[i];
#if HAS_LOWS
      block[L_AT + span * PANEL + lane] = (uchar)f.l[i];
#endif
#endif
    }
  }
}
