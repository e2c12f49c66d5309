/* Strips of depthwise_kernels.c. Include it once per instruction set, after defining
 *   TILE_SET   instruction set of the vectors (tile_vectors.h)
 *   TILE(name)   names of the functions
 *   TILE_ROWS   rows of outputs that are computed at once, at most 4
 *   TILE_EVEN(a, b), TILE_ODD(a, b)   every second element of two vectors
 * Vectors have at most DEPTHWISE_ROW_SLACK floats. */

#include "backend/cpu/kernels/support/tile_vectors.h"

enum { TILE(floats) = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };

TILE_TARGET KERNEL_INLINE void TILE(store)(float *to, TILE_VECTOR v) { memcpy(to, &v, sizeof v); }

/* Loads `vectors` vectors, of which only n floats are needed. Reads nothing from `end` on. */
TILE_TARGET KERNEL_INLINE void TILE(load)(const float *from, const float *end, int64_t n,
                                          int vectors, TILE_VECTOR *to) {
  enum { FLOATS = TILE(floats) };
  float some[2 * FLOATS] = {0};
  if (end - from < vectors * FLOATS) {
    const int64_t n_valid = n < vectors * FLOATS ? n : vectors * FLOATS;
    for (int64_t i = 0; i < n_valid; i++) some[i] = from[i];
    from = some;
  }
  for (int v = 0; v < vectors; v++) to[v] = TILE_LOAD(from + v * FLOATS);
}

/* Copies n floats to `to`, followed by zeros. */
TILE_TARGET KERNEL_INLINE void TILE(copy_row)(const float *from, const float *end, int64_t n,
                                              float *to) {
  enum { FLOATS = TILE(floats) };
  TILE_VECTOR v;
  for (int64_t i = 0; i < n; i += FLOATS) {
    TILE(load)(from + i, end, n - i, 1, &v);
    TILE(store)(to + i, v);
  }
  TILE(store)(to + n, TILE_FILL(0));
}

/* Copies n floats alternately to `even` and `odd`. */
TILE_TARGET KERNEL_INLINE void TILE(deinterleave_row)(const float *from, const float *end,
                                                      int64_t n, float *even, float *odd) {
  enum { FLOATS = TILE(floats) };
  TILE_VECTOR v[2];
  for (int64_t i = 0; 2 * i < n; i += FLOATS) {
    TILE(load)(from + 2 * i, end, n - 2 * i, 2, v);
    TILE(store)(even + i, TILE_EVEN(v[0], v[1]));
    TILE(store)(odd + i, TILE_ODD(v[0], v[1]));
  }
  TILE(store)(even + (n + 1) / 2, TILE_FILL(0));
  TILE(store)(odd + n / 2, TILE_FILL(0));
}

/* Copies the input rows of a strip. down: the stride of rows. */
TILE_TARGET KERNEL_INLINE void TILE(copy_rows)(const depthwise_strip *s, int side, int down,
                                               int stride) {
  const int64_t half = depthwise_half(side, stride, s->columns), pitch = stride * half;
  const int64_t width = (s->columns - 1) * stride + side, left = s->left;
  const int64_t n = s->in_columns < width - left ? s->in_columns : width - left;
  const int64_t reach = depthwise_reach(side, down, s->rows), first = s->row * down - s->top;
  float *to = s->copied;
  for (int64_t i = 0; i < reach; i++, to += pitch) {
    if (first + i < 0 || first + i >= s->in_rows) {
      for (int64_t k = 0; k < pitch; k++) to[k] = 0;
      continue;
    }
    const float *from = s->x + (first + i) * s->in_columns;
    float *other = to + half;
    for (int64_t k = 0; k < (left + 1) / stride; k++) to[k] = 0;
    for (int64_t k = 0; stride == 2 && k < left / 2; k++) other[k] = 0;
    if (stride == 1)
      TILE(copy_row)(from, s->x_end, n, to + left);
    else if (left % 2 == 0)
      TILE(deinterleave_row)(from, s->x_end, n, to + left / 2, other + left / 2);
    else
      TILE(deinterleave_row)(from, s->x_end, n, other + left / 2, to + (left + 1) / 2);
  }
}

/* Adds bias and epilogue to a vector of sums to be stored at `to`, where n floats are left. */
TILE_TARGET KERNEL_INLINE TILE_VECTOR TILE(finish)(const depthwise_strip *s, TILE_VECTOR sum,
                                                   const float *to, int64_t n) {
  sum += TILE_FILL(s->bias);
  if (s->epilogue.added) {
    const float *added = (const float *)s->epilogue.added + (to - s->out);
    TILE_VECTOR more;
    TILE(load)(added, added + n, n, 1, &more);
    sum += more;
  }
  if (s->epilogue.slope) sum = TILE_LEAKY(sum, TILE_FILL(*s->epilogue.slope));
  return TILE_MIN(TILE_FILL(s->epilogue.high), TILE_MAX(TILE_FILL(s->epilogue.low), sum));
}

/* Computes a vector of outputs in each of `rows` rows. x: the first output's first input. Stores
 * nothing after the end of the strip. */
TILE_TARGET KERNEL_INLINE void TILE(block)(const depthwise_strip *s, const TILE_VECTOR *weight,
                                           const float *x, float *to, int side, int down,
                                           int stride, int rows) {
  enum { FLOATS = TILE(floats) };
  const int64_t half = depthwise_half(side, stride, s->columns), pitch = stride * half;
  const float *end = s->out + s->rows * s->columns;
  TILE_VECTOR sums[TILE_ROWS];
#pragma GCC unroll 4
  for (int y = 0; y < rows; y++) sums[y] = TILE_FILL(0);
#pragma GCC unroll 16
  for (int r = 0; r < (rows - 1) * down + side; r++, x += pitch)
#pragma GCC unroll 5
    for (int j = 0; j < side; j++) {
      const TILE_VECTOR in = TILE_LOAD(x + (stride == 1 ? j : j % 2 * half + j / 2));
#pragma GCC unroll 4
      for (int y = 0; y < rows; y++) {
        const int i = r - y * down;
        if (i >= 0 && i < side) sums[y] = TILE_ADD(weight[i * side + j], in, sums[y]);
      }
    }
#pragma GCC unroll 4
  for (int y = 0; y < rows; y++, to += s->columns) {
    const TILE_VECTOR sum = TILE(finish)(s, sums[y], to, end - to);
    if (end - to >= FLOATS) {
      TILE(store)(to, sum);
    } else {
      float some[FLOATS];
      TILE(store)(some, sum);
      for (int64_t k = 0; k < end - to; k++) to[k] = some[k];
    }
  }
}

/* Computes `rows` rows from row y of the strip on. If a row is not a whole number of vectors, the
 * last one starts earlier. A row shorter than a vector is stored as a whole vector, whose end the
 * next row overwrites. */
TILE_TARGET KERNEL_INLINE void TILE(some_rows)(const depthwise_strip *s, const TILE_VECTOR *weight,
                                               int64_t y, int side, int down, int stride,
                                               int rows) {
  enum { FLOATS = TILE(floats) };
  const float *x = s->copied + y * down * depthwise_pitch(side, stride, s->columns);
  float *to = s->out + y * s->columns;
  const int64_t last = s->columns > FLOATS ? s->columns - FLOATS : 0;
  for (int64_t i = 0;; i = i + FLOATS < last ? i + FLOATS : last) {
    TILE(block)(s, weight, x + i, to + i, side, down, stride, rows);
    if (i == last) break;
  }
}

TILE_TARGET KERNEL_INLINE void TILE(strip)(const depthwise_strip *s, int side, int down,
                                           int stride) {
  TILE_VECTOR weight[DEPTHWISE_MAX_SIDE * DEPTHWISE_MAX_SIDE];
  int64_t y = 0;
  TILE(copy_rows)(s, side, down, stride);
#pragma GCC unroll 25
  for (int t = 0; t < side * side; t++) weight[t] = TILE_FILL(s->weight[t]);
  for (; y + TILE_ROWS <= s->rows; y += TILE_ROWS)
    TILE(some_rows)(s, weight, y, side, down, stride, TILE_ROWS);
  if (y + 2 <= s->rows) {
    TILE(some_rows)(s, weight, y, side, down, stride, 2);
    y += 2;
  }
  if (y < s->rows) TILE(some_rows)(s, weight, y, side, down, stride, 1);
}

TILE_TARGET static void TILE(strip_3_1_1)(const depthwise_strip *s) { TILE(strip)(s, 3, 1, 1); }
TILE_TARGET static void TILE(strip_3_2_1)(const depthwise_strip *s) { TILE(strip)(s, 3, 2, 1); }
TILE_TARGET static void TILE(strip_3_2_2)(const depthwise_strip *s) { TILE(strip)(s, 3, 2, 2); }
TILE_TARGET static void TILE(strip_5_1_1)(const depthwise_strip *s) { TILE(strip)(s, 5, 1, 1); }
TILE_TARGET static void TILE(strip_5_2_1)(const depthwise_strip *s) { TILE(strip)(s, 5, 2, 1); }
TILE_TARGET static void TILE(strip_5_2_2)(const depthwise_strip *s) { TILE(strip)(s, 5, 2, 2); }

static const depthwise_kernel TILE(kernels)[2][3] = {
    {TILE(strip_3_1_1), TILE(strip_3_2_1), TILE(strip_3_2_2)},
    {TILE(strip_5_1_1), TILE(strip_5_2_1), TILE(strip_5_2_2)}};

#undef TILE
#undef TILE_ROWS
#undef TILE_EVEN
#undef TILE_ODD
