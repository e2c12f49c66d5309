/* Inputs of X_TYPE and results of OUT_TYPE that are F32, or BF16 in memory alone. Results of BF16
 * are made as floats in private memory (MADE_SPACE):
 *   ROUND_RESULT(y, from, first, n)  n of them from `from` on, the first of which is number `first`
 *                      in out, become what the node's epilogue makes of them, rounded to nearest,
 *                      from y on
 *   FINISH(y, from, first, n)  that, or of results of F32, which are made in place, EPILOGUE */
#ifndef NARROW_H
#define NARROW_H
#include "pairs.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE F32
#endif
#define ROUNDS_OUT IS_BF16(OUT_TYPE)
#if ROUNDS_OUT
#define MADE_SPACE __private
#define FINISH(y, from, first, n) ROUND_RESULT(y, from, first, n)
#else
#define MADE_SPACE __global
#define FINISH(y, from, first, n) EPILOGUE(from, first, n)
#endif
typedef const __global STORAGE(X_TYPE) * x_row;
typedef __global STORAGE(OUT_TYPE) * out_row;

/* 16 elements of BF16 anywhere: PoCL's vload16 and vstore16 go one by one. */
typedef ushort16 __attribute__((aligned(2))) any_ushort16;
typedef float16 __attribute__((aligned(4))) any_float16;
#define LOAD_16(p) (*(const __global any_ushort16 *)(p))

#if IS_BF16(X_TYPE)
/* Two neighbours in each lane. */
static inline uint16 load_two(x_row p) {
  return (uint16)(as_uint8(LOAD_16(p)), as_uint8(LOAD_16(p + 16)));
}
/* 16 neighbours as floats. */
#define LOAD_FLOATS(p) as_float16(convert_uint16(LOAD_16(p)) << 16)
#else
#define LOAD_FLOATS(p) vload16(0, p)
#endif

#if ROUNDS_OUT
static inline void round_16(out_row to, const float *from) {
  const float16 v = *(const any_float16 *)from;
#if PAIRS
  *(__global any_ushort16 *)to = round_pairs(v);
#else
  STORE16F(BF16, to, v);
#endif
}

/* n neighbours: the last vector covers some of the one before again. */
static inline void round_row(out_row to, const float *from, int n) {
  for (int k = 0; k < n && n >= 16; k += 16) {
    const int at = min(k, n - 16);
    round_16(to + at, from + at);
  }
  for (int k = 0; k < n && n < 16; k++) to[k] = float_to_bf16(from[k]);
}
#endif
#ifndef ROUND_RESULT
#define ROUND_RESULT(y, from, first, n) round_row(y, from, n)
#endif

#if PAIRS
/* 16 words of two rows of X_TYPE, of which there is the second or not. */
static inline float16 load_words(x_row even, x_row odd, int has_odd) {
#if IS_BF16(X_TYPE)
  const uint16 low = convert_uint16(LOAD_16(even));
  return as_float16(has_odd ? low | convert_uint16(LOAD_16(odd)) << 16 : low);
#else
  return join_rows(vload16(0, even), has_odd ? vload16(0, odd) : (float16)0);
#endif
}

/* The same of every second element, of 32. */
static inline float16 load_second_words(x_row even, x_row odd, int has_odd) {
#if IS_BF16(X_TYPE)
  const uint16 low = load_two(even) & 0xffffu;
  return as_float16(has_odd ? low | load_two(odd) << 16 : low);
#else
  const float16 low = (float16)(vload16(0, even).even, vload16(1, even).even),
                high = (float16)(vload16(0, odd).even, vload16(1, odd).even);
  return join_rows(low, has_odd ? high : (float16)0);
#endif
}

/* Words [k, stop) of two rows, of which there is the second or not, `step` elements apart, the last
 * of them with `there` elements from itself on. */
static inline void join_elements(x_row even, x_row odd, int has_odd, int step, int k, int stop,
                                 index_t there, __global float *to) {
  const bool fits = step == 1 && stop - k >= 16;
  if (!has_odd) odd = even;
  for (; k < stop; k += 16) {
    const int n = min(16, stop - k), at = fits ? min(k, stop - 16) : k;
    float16 made;
    if (fits || (step == 1 && there - k >= 16)) {
      made = load_words(even + at, odd + at, has_odd);
    } else if (step == 2 && there - 2 * k >= 32) {
      made = load_second_words(even + 2 * k, odd + 2 * k, has_odd);
    } else {
      float some[2][16] = {{0}};
      for (int l = 0; l < n; l++) some[0][l] = LOADF(X_TYPE, even, (k + l) * step);
      for (int l = 0; l < n; l++) some[1][l] = LOADF(X_TYPE, odd, (k + l) * step);
      made = join_rows(vload16(0, some[0]), has_odd ? vload16(0, some[1]) : (float16)0);
    }
    if (fits) {
      vstore16(made, 0, to + at);
    } else {
      float some[16];
      vstore16(made, 0, some);
      for (int l = 0; l < n; l++) to[k + l] = some[l];
    }
  }
}
#endif
#endif
