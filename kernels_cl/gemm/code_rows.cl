/* out[p] = row index[p] of an encoded table that is also the b of matrix products. It is read from
 * the panels of gemm_codes_pack.cl if they exist, else from the stored rows. Both return the same
 * bits, because these encodings have no zero points. A work-item decodes 32 elements. An index out
 * of range is reported and replaced by 0. */
#include "codes.h"
#include "encoded.h"
#include "picked.h"
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif

static inline float load_code(uint code) {
#if FLOAT_CODES
  return PASTE(decode_, CODE)(code);
#else
  return (float)((int)code + LEAST);
#endif
}

static inline float load_factor(__global const uchar *from, int i) {
#if WIDE_FACTORS
  return ((__global const float *)from)[i];
#else
  return LOADF(F16, (__global const half *)from, i);
#endif
}

/* Loads the factors of part `within` of a block, as gemm_codes_pack.cl has stored them. */
static inline code_factors load_factors(__global const uchar *block, int within, int lane) {
  code_factors f = scale_of(0);
  for (int half16 = 0; half16 < 2; half16++) {
    const int span = within * SPANS + (SPANS == 2 ? half16 : 0);
    f.d[half16] = load_factor(block + D_AT, span / PERIOD * PANEL + lane);
#if HAS_LOWS
    f.m[half16] = load_factor(block + M_AT, span / PERIOD * PANEL + lane);
#endif
#if HAS_SUBS
    f.s[half16] = (char)block[S_AT + span * PANEL + lane];
#if HAS_LOWS
    f.l[half16] = (char)block[L_AT + span * PANEL + lane];
#endif
#endif
  }
  return f;
}

static inline void decode_column(__global const uchar *panel, index_t part, int lane, float *x) {
  __global const uchar *block = BLOCK_OF(panel, part);
  const int within = (int)(part % BLOCK);
  __global const uint *words = (__global const uint *)(block + within * PART_BYTES) + lane;
  for (int v = 0; v < VECTORS; v++) {
    const uint word = words[v * PANEL];
    for (int j = 0; j < CODES; j++)
      x[v * CODES + j] = load_code(word >> (j * CODE_BITS) & ((1u << CODE_BITS) - 1));
  }
  const code_factors f = load_factors(block, within, lane);
  apply_factors(&f, x);
}

__kernel void code_rows(ENCODED_PARAMS, CODES_PARAMS, __global const STORAGE(INDEX_TYPE) * index,
                        const long index_offset, const index8 index_dims,
                        const index8 index_strides, __global STORAGE(OUT_TYPE) * out,
                        const long out_offset, const index_t rows, const index_t row_size,
                        const index_t items, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t p = item / parts, part = item % parts;
  const long row = picked_row(index + index_offset + strided_offset(p, index_dims, index_strides),
                              rows, fault, fault_node);
  float x[PART];
  if (IS_ABSENT(b))
    decode_part(codes + codes_offset + row * row_bytes, part, scales_at, groups, group, x);
  else
    decode_column(b + b_offset + row / PANEL * panel_bytes, part, (int)(row % PANEL), x);
  const int n = (int)min((index_t)PART, row_size - part * PART);
  out += out_offset + (long)p * row_size + part * PART;
  for (int i = 0; i < n; i++) STORE(OUT_TYPE, out, i, x[i]);
}
