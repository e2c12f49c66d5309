/* out[n, c, y, x] = bias[c] + sum over i, j of weight[c, i, j] *
 *     padded[n, c / multiplier, y stride_y + i dilation_y, x STRIDE + j DILATION]
 * Depthwise convolutions of 8-bit integers for CPUs whose instructions add products of bytes (DOTS
 * is DOTS_AVX512_VNNI): rows of x are read where they lie, with the padding as what a masked load
 * leaves out. Of 16 neighbouring outputs the elements under four taps of a row of the window become
 * words by two shuffles, which a word of the weight is multiplied with. */
#include "add_dots.h"
#include "common.h"
#ifndef SIGNED
#define SIGNED 0
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef OUT_TYPE
#define OUT_TYPE I32
#endif
#ifndef SIDE_Y /* of the window */
#define SIDE_Y 3
#endif
#ifndef SIDE_X
#define SIDE_X 3
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
#ifndef DILATION
#define DILATION 1
#endif
#ifndef ROLLS /* the rows that an output sees are those of the one above, but one */
#define ROLLS 0
#endif
#define LANES 16
#define LOADED 64 /* bytes of x */
#define WORDS ((SIDE_X + 3) / 4)
#define MOST_SUMS 4096
#define FLIP (SIGNED ? 128 : 0)
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < SIDE_Y; r++)
#define EACH_WORD _Pragma("unroll") for (int w = 0; w < WORDS; w++)

#if STRIDE == 1 /* the dwords of x that four outputs see */
#define SPREAD(v) (v).s0123123423453456
#elif STRIDE == 2
#define SPREAD(v) (v).s0123234545676789
#elif STRIDE == 3
#define SPREAD(v) (v).s0123345667899abc
#else
#define SPREAD(v) (v)
#endif

#if DOTS == DOTS_AVX512_VNNI
/* Of each 16 bytes those that `order` names; 0 where it is 128 or more. */
static inline uint16 shuffle_bytes(uint16 x, uint16 order) {
  uint16 to;
  __asm__("vpshufb %2, %1, %0" : "=v"(to) : "v"(x), "v"(order));
  return to;
}
/* The bytes at p that `seen` has bits of, the others as in `around`. */
static inline uint16 load_seen(const __global uchar *p, ulong seen, uint16 around) {
  __asm__("vmovdqu8 (%1), %0 %{%2%}" : "+v"(around) : "r"(p), "Yk"(seen));
  return around;
}
#else
static inline uint16 shuffle_bytes(uint16 x, uint16 order) {
  uint from[LANES], orders[LANES], to[LANES];
  vstore16(x, 0, from);
  vstore16(order, 0, orders);
  for (int i = 0; i < LANES; i++) {
    to[i] = 0;
    for (int j = 0; j < 4; j++) {
      const uint at = orders[i] >> 8 * j & 255u;
      if (at < 128) to[i] |= (from[i / 4 * 4 + at % 16 / 4] >> at % 4 * 8 & 255u) << 8 * j;
    }
  }
  return vload16(0, to);
}
static inline uint16 load_seen(const __global uchar *p, ulong seen, uint16 around) {
  uint words[LANES];
  vstore16(around, 0, words);
  for (int i = 0; i < LOADED; i++)
    if (seen >> i & 1)
      words[i / 4] = (words[i / 4] & ~(255u << i % 4 * 8)) | (uint)p[i] << i % 4 * 8;
  return vload16(0, words);
}
#endif

/* Which bytes word w of taps sees of what four outputs do. */
#define TAP_BYTE(w, j) \
  ((uint)(4 * (w) + (j) < SIDE_X ? (4 * (w) + (j)) * DILATION : 128) << 8 * (j))
static inline uint16 order_of(int w) {
  return (uint16)(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3) * (STRIDE * 0x01010101u) +
         (TAP_BYTE(w, 0) | TAP_BYTE(w, 1) | TAP_BYTE(w, 2) | TAP_BYTE(w, 3));
}

/* The words of a channel's weight; what FLIP makes too much. */
static inline int load_taps(const __global char *weight, uint *taps) {
  int sum = 0;
  EACH_ROW EACH_WORD {
    uint word = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (4 * w + j >= SIDE_X) continue;
      const char tap = weight[r * SIDE_X + 4 * w + j];
      word |= (uint)(uchar)tap << 8 * j;
      sum += tap;
    }
    taps[r * WORDS + w] = word;
  }
  return FLIP * sum;
}

/* Of 16 outputs, the first of which sees element `first` of a row: which bytes are in the row. */
static inline ulong seen_bytes(int first, int in_columns) {
  const int begin = max(-first, 0), end = min(in_columns - first, LOADED);
  return begin >= end ? 0 : ~0ul >> (LOADED - (end - begin)) << begin;
}

/* What rows of outputs see of a plane, and where that begins. */
typedef struct view {
  const __global uchar *x; /* row 0, the first column that is seen */
  ulong seen;
  int in_rows, in_columns, top, stride_y, dilation_y, padding;
} view;

static inline void read_row(const view *v, int row, uint16 seen[WORDS]) {
  const bool is_inside = row >= 0 && row < v->in_rows;
  const uint16 bytes =
      load_seen(v->x + (is_inside ? row : 0) * (long)v->in_columns, is_inside ? v->seen : 0,
                (uint16)((uint)(v->padding & 255) * 0x01010101u)) ^
      (uint)FLIP * 0x01010101u;
  const uint16 spread = SPREAD(bytes);
  EACH_WORD seen[w] = shuffle_bytes(spread, order_of(w));
}

/* sums: of LANES columns of `rows` rows, `pitch` apart; first: the first row of outputs. */
static inline void sum_columns(const view *v, const uint *taps, int begin, int first, int rows,
                               int pitch, int *sums) {
  uint16 seen[SIDE_Y][WORDS];
  for (int y = 0; y < rows; y++, sums += pitch) {
    const int top = (first + y) * v->stride_y - v->top;
    int16 sum = begin;
    EACH_ROW {
      if (ROLLS && y > 0 && r + 1 < SIDE_Y)
        EACH_WORD seen[r][w] = seen[r + 1][w];
      else
        read_row(v, top + r * v->dilation_y, seen[r]);
    }
    EACH_ROW EACH_WORD sum = add_dots(sum, seen[r][w], (int)taps[r * WORDS + w]);
    vstore16(sum, 0, sums);
  }
}

/* x: (images, channels / multiplier, in_rows, in_columns), weight: (channels, SIDE_Y, SIDE_X),
 * bias: (channels), out: (images, channels, out_rows, out_columns). items = images * channels *
 * blocks of rows; block * out_columns <= MOST_SUMS. */
__kernel void conv_depthwise_integer(const __global uchar *x, const long x_offset,
                                     const __global char *weight, const long weight_offset,
                                     const __global int *bias, const long bias_offset,
                                     __global STORAGE(OUT_TYPE) * out, const long out_offset,
                                     const index_t items, const int channels, const int multiplier,
                                     const int block, const int in_rows, const int in_columns,
                                     const int out_rows, const int out_columns, const int top,
                                     const int left, const int stride_y, const int dilation_y,
                                     const int padding) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int blocks = (out_rows + block - 1) / block, first = (int)(item % blocks) * block,
            rows = min(block, out_rows - first);
  const index_t plane = item / blocks, image = plane / channels;
  const int channel = (int)(plane % channels);
  int sums[MOST_SUMS + LANES];
  uint taps[SIDE_Y * WORDS];
  const int less = load_taps(weight + weight_offset + channel * (SIDE_Y * SIDE_X), taps),
            begin = (HAS_BIAS ? bias[bias_offset + channel] : 0) - less;
  x += x_offset +
       (image * (channels / multiplier) + channel / multiplier) * (index_t)(in_rows * in_columns);
  /* From the last on: what is beyond the end of a row is written over. */
  for (int c = (out_columns - 1) / LANES * LANES; c >= 0; c -= LANES) {
    const int from = c * STRIDE - left;
    const view v = {
        x + from, seen_bytes(from, in_columns), in_rows, in_columns, top, stride_y, dilation_y,
        padding};
    sum_columns(&v, taps, begin, first, rows, out_columns, sums + c);
  }
  const index_t at = (plane * out_rows + first) * (index_t)out_columns;
  STORE_RESULT(out + out_offset + at, sums, at, rows * out_columns);
}
