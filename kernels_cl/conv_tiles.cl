/* out[n, o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] *
 *     x[n, c, y sy + i dy, x sx + j dx]
 * Convolution of images in float by tiles of pairs (amx.h), for CPUs. conv_tiles_words copies x as
 * planes of words of two channels with the padding around them, of strides those of each phase
 * apart: what neighbouring outputs see of a plane are neighbours in it. A plane is one long row:
 * those between two rows of outputs are computed, too, and left out where sums are stored. Words
 * are in whole tiles, zeros beyond the last, and so are the weight's, which conv_tiles_pack writes:
 * [panel of ROWS outputs][16 words][i][j][ROWS][16]. A work-item makes some rows of STRIP outputs,
 * or a part of one, of few words at a time, whose weights stay in the first-level cache.
 * A transposed convolution whose outputs see one input each is one with a kernel of one element,
 * and outputs for each place of its own kernel, SPREAD of them. One of few channels, BY_ROWS, has a
 * kernel of one element, too, and channels for all that an output sees (conv_tiles_row_words). */
#define B_PACKED 1
#include "common.h"
#include "gemm_tile.h"
#include "narrow.h"
#include "phase_row.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef BY_ROWS
#define BY_ROWS 0
#endif
#ifndef SPREAD
#define SPREAD 1 /* outputs that see an input: a power of two, up to ROWS */
#endif
#ifndef W_TYPE
#define W_TYPE F32
#endif
#define STRIP (2 * ROWS)
#define MOST_COLUMNS 256 /* of a work-item, with those between its rows */
#define PITCH (MOST_COLUMNS + 16)
#define STEPS 9 /* of k at a time */
#define MOST_TAPS 64
#define AHEAD 4 /* steps that weights are asked for ahead of their use */

#if PAIRS
/* Word i of an output's weight: of two channels at a tap, or BY_ROWS of two neighbours. */
static inline float weight_word(const __global STORAGE(W_TYPE) * row, int i, int n, int kernel_x,
                                index_t channel_step) {
  if (!BY_ROWS) return i < WORDS_OF(n) ? WORD_AT(W_TYPE, row, i, channel_step, n) : 0;
  const int each = WORDS_OF(kernel_x);
  return i < n * each ? WORD_AT(W_TYPE, row + i / each * kernel_x, i % each, 1, kernel_x) : 0;
}
#endif

/* items: rows of panels, whose elements are row_step apart, those of their n channels, or BY_ROWS
 * rows, channel_step. all: words. */
__kernel void conv_tiles_pack(const __global STORAGE(W_TYPE) * weight, const long weight_offset,
                              __global float *packed, const long packed_offset, const index_t items,
                              const int n, const int all, const int n_outputs, const int taps,
                              const int kernel_x, const index_t row_step,
                              const index_t channel_step) {
#if PAIRS
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const bool there = item < n_outputs;
  weight += weight_offset + (there ? item * row_step : 0);
  packed += packed_offset + (item / ROWS * ROWS * all * taps + item % ROWS * AMX_SIDE);
  for (int first = 0; first < all; first += AMX_SIDE)
    for (int tap = 0; tap < taps; tap++, packed += ROWS * AMX_SIDE)
      for (int i = 0; i < AMX_SIDE; i++)
        packed[i] = there ? weight_word(weight + tap, first + i, n, kernel_x, channel_step) : 0;
#endif
}

#define SOME 16 /* words of a work-item */

/* items: of images and phases along y, rows of SOME words of all phases along x. Words from one
 * plane to the next are `plane` apart. */
__kernel void conv_tiles_words(__global const STORAGE(X_TYPE) * x, const long x_offset,
                               __global float *words, const long words_offset, const index_t items,
                               const int images, const int channels, const int in_rows,
                               const int in_columns, const int pad_y, const int pad_x,
                               const int step_y, const int step_x, const int phases_y,
                               const int phases_x, const int rows, const int columns,
                               const int plane) {
#if PAIRS
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int all = AMX_WHOLE(WORDS_OF(channels)), parts = all / SOME,
            from = (int)(item % parts) * SOME, row = (int)(item / parts % rows),
            phase = (int)(item / parts / rows % phases_y), y = row * step_y + phase - pad_y,
            inside = y >= 0 && y < in_rows;
  const index_t image = item / parts / rows / phases_y, size = (index_t)in_rows * in_columns;
  for (int p = 0; p < phases_x; p++) {
    const phase_row r = phase_row_of(p - pad_x, step_x, inside ? in_columns : 0, columns);
    const index_t first =
        (image * channels + 2 * from) * size + (inside ? y : 0) * in_columns + p - pad_x;
    index_t there = images * channels * size - first;
    x_row in = x + x_offset + first;
    __global float *to = words + words_offset +
                         (((image * phases_y + phase) * phases_x + p) * all + from) * plane +
                         row * columns;
    for (int i = from; i < from + SOME; i++, to += plane, in += 2 * size) {
      const int has_odd = 2 * i + 1 < channels, begin = 2 * i < channels ? r.begin : 0,
                end = 2 * i < channels ? r.end : 0;
      for (int k = 0; k < begin; k++) to[k] = 0;
      join_elements(in, in + size, has_odd, step_x, begin, end, there - (has_odd ? size : 0), to);
      there -= 2 * size;
      for (int k = end; k < columns; k++) to[k] = 0;
    }
  }
#endif
}

#define CHUNK 128 /* words of a row at a time */

/* The same BY_ROWS, of all that outputs see: a plane of words for each two neighbours of a row of
 * the kernel. items: of images, rows of the kernel of all channels, and what fills the last tile,
 * rows of outputs. step_x: 1, or even, up to MOST_TAPS. Of an odd number the last neighbour is 0:
 * an infinity there would make no number of a weight of none. */
__kernel void conv_tiles_row_words(__global const STORAGE(X_TYPE) * x, const long x_offset,
                                   __global float *words, const long words_offset,
                                   const index_t items, const int channels, const int all,
                                   const int in_rows, const int in_columns, const int pad_y,
                                   const int pad_x, const int step_y, const int step_x,
                                   const int kernel_y, const int kernel_x, const int dilation_y,
                                   const int rows, const int columns, const int plane) {
#if PAIRS
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const int each = WORDS_OF(kernel_x), parts = (all + each - 1) / each, row = (int)(item % rows),
            part = (int)(item / rows % parts), channel = part / kernel_y,
            y = row * step_y + part % kernel_y * dilation_y - pad_y,
            pair = step_x == 1 ? 2 : 1, /* words from a neighbour to the next */
      step = max(step_x / 2, 1);        /* from an output to the next */
  const index_t image = item / rows / parts;
  const bool inside = channel < channels && y >= 0 && y < in_rows;
  x += x_offset + ((image * channels + channel) * in_rows + y) * (index_t)in_columns;
  words += words_offset + (image * all + part * each) * plane + row * columns;
  float in[2 * CHUNK + MOST_TAPS + 32], made[CHUNK + MOST_TAPS + 16];
  for (int first = 0; first < columns; first += CHUNK / step) {
    const int n = min(CHUNK / step, columns - first), from = first * step_x - pad_x,
              span = (n - 1) * step_x + kernel_x;
    const int begin = inside ? min(max(-from, 0), span) : span,
              end = inside ? max(min(in_columns - from, span), begin) : span;
    for (int i = 0; i < begin; i++) in[i] = 0;
    for (int i = begin; i < end; i++) in[i] = LOADF(X_TYPE, x, from + i);
    for (int i = end; i < span + 32; i++) in[i] = 0;
    if (step_x > 1)
      for (int i = 0; i < (n - 1) * step + each; i += 8)
        vstore8(as_float8(round_pairs(vload16(0, in + 2 * i))), 0, made + i);
    else
      for (int i = 0; i < n + 2 * each; i += 16)
        vstore16(join_rows(vload16(0, in + i), vload16(0, in + i + 1)), 0, made + i);
    for (int j = 0; j < min(each, all - part * each); j++) {
      const uint mask = 2 * j + 1 < kernel_x ? 0xffffffffu : 0xffffu;
      for (int i = 0; i < n; i++)
        words[j * plane + first + i] = as_float(as_uint(made[i * step + j * pair]) & mask);
    }
  }
#endif
}

#if AMX
/* A work-item's image, strip of outputs, and part of their rows and columns. */
typedef struct share {
  index_t image;
  int strip, down, across;
} share;
static inline share share_of(index_t item, int strips, int down, int across, int strips_first) {
  const int parts = down * across, at = (int)(item % (strips * parts)),
            part = strips_first ? at / strips : at % parts;
  return (share){item / (strips * parts), strips_first ? at % strips : at / parts, part / across,
                 part % across};
}

/* Where a work-item's outputs lie: of `rows` rows `columns`, whose sums are row_step apart. */
typedef struct patch {
  int rows, columns, row_step;
} patch;

/* An output's n sums, without what is between its rows. */
static inline void join_rows_of(const float *sums, const patch *p, float shift,
                                MADE_SPACE float *made) {
  const int n = p->rows * p->columns;
  for (int row = 0; row < p->rows; row++, sums += p->row_step)
    for (int k = 0; k < p->columns; k += 16) {
      const int at = row * p->columns + k;
      const float16 some = vload16(0, sums + k) + shift;
      if (ROUNDS_OUT || at + 16 <= n) { /* what is too much is overwritten, or has room */
        vstore16(some, 0, made + at);
        continue;
      }
      float lanes[16];
      vstore16(some, 0, lanes);
      for (int l = 0; l < min(16, p->columns - k); l++) made[at + l] = lanes[l];
    }
}

/* The same of outputs that see one input each, of which there are spread_y rows and spread_x
 * columns, a row of sums for each. */
static inline void spread_rows_of(const float *sums, const patch *p, int spread_y, int spread_x,
                                  float shift, MADE_SPACE float *made) {
  for (int row = 0; row < p->rows; row++)
    for (int i = 0; i < spread_y; i++, made += p->columns * spread_x) {
      const float *from = sums + i * spread_x * PITCH + row * p->row_step;
      int k = 0;
      for (; spread_x == 2 && k + 16 <= p->columns; k += 16) {
        const float16 even = vload16(0, from + k) + shift,
                      odd = vload16(0, from + PITCH + k) + shift;
        vstore16((float16)(even.s0, odd.s0, even.s1, odd.s1, even.s2, odd.s2, even.s3, odd.s3,
                           even.s4, odd.s4, even.s5, odd.s5, even.s6, odd.s6, even.s7, odd.s7),
                 0, made + 2 * k);
        vstore16((float16)(even.s8, odd.s8, even.s9, odd.s9, even.sa, odd.sa, even.sb, odd.sb,
                           even.sc, odd.sc, even.sd, odd.sd, even.se, odd.se, even.sf, odd.sf),
                 1, made + 2 * k);
      }
      for (; k < p->columns; k++)
        for (int j = 0; j < spread_x; j++) made[k * spread_x + j] = from[j * PITCH + k] + shift;
    }
}

/* Where the words that each tap sees begin. */
static inline void find_offsets(int offsets[MOST_TAPS], int kernel_y, int kernel_x, int dilation_y,
                                int dilation_x, int step_y, int step_x, int phases_x, int phase,
                                int columns) {
  for (int i = 0; i < kernel_y; i++)
    for (int j = 0; j < kernel_x; j++) {
      const int y = i * dilation_y, x = j * dilation_x;
      offsets[i * kernel_x + j] =
          (y % step_y * phases_x + x % step_x) * phase + y / step_y * columns + x / step_x;
    }
}

/* The sums of n columns of one or two panels. */
static inline void sum_columns(float *sums, tiles *t, int blocks, int n) {
  const __global float *a = t->a;
  B_SPACE const float *b = t->b;
  const int some = max(STEPS / t->taps, 1);
  amx_begin();
  for (int block = 0; block < blocks; block += some) {
    t->a = a + (index_t)block * t->taps * ROWS * AMX_SIDE;
    for (int at = 0; at < n; at += 2 * AMX_SIDE) {
      t->is_half = n - at <= AMX_SIDE;
      t->lines = at == 0 ? ROWS : 0;
      t->next = t->a + AHEAD * ROWS * AMX_SIDE;
      t->b = b + block * AMX_SIDE * t->b_row + at;
      multiply_tiles(t, min(some, blocks - block) * AMX_SIDE, sums + at, PITCH, block == 0);
    }
  }
  amx_end();
}
#endif

/* all: words. items: images, of which words has those from first_image of out on, strips and parts
 * of outputs, the strips of a part (strips_first) or the parts of a strip side by side. plane,
 * columns: words of a plane, and of a row of it. spread_y, spread_x: 1, or of a transposed
 * convolution, whose kernel has one tap then, outputs that see an input. n_rows: of the weight. */
__kernel void conv_tiles(__global const float *words, const long words_offset,
                         __global const float *weight, const long weight_offset,
                         __global const float *bias, const long bias_offset,
                         __global STORAGE(OUT_TYPE) * out, const long out_offset,
                         const index_t items, const int all, const int n_rows, const int kernel_y,
                         const int kernel_x, const int dilation_y, const int dilation_x,
                         const int step_y, const int step_x, const int phases_y, const int phases_x,
                         const int columns, const int plane, const int out_rows,
                         const int out_columns, const int spread_y, const int spread_x,
                         const int rows_each, const int columns_each, const int strips_first,
                         const int first_image) {
#if AMX
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const share m =
      share_of(item, (n_rows + STRIP - 1) / STRIP, (out_rows + rows_each - 1) / rows_each,
               (out_columns + columns_each - 1) / columns_each, strips_first);
  const int row = m.down * rows_each, column = m.across * columns_each, first = m.strip * STRIP,
            n = min(STRIP, n_rows - first), spread = spread_y * spread_x,
            taps = kernel_y * kernel_x;
  const index_t positions = (index_t)out_rows * out_columns * spread;
  const patch p = {min(rows_each, out_rows - row), min(columns_each, out_columns - column),
                   columns};
  int offsets[MOST_TAPS];
  float sums[STRIP * PITCH];
  find_offsets(offsets, kernel_y, kernel_x, dilation_y, dilation_x, step_y, step_x, phases_x,
               all * plane, columns);
  tiles t = {.a = weight + weight_offset + (index_t)first * all * taps,
             .a_panel = ROWS * all * taps,
             .panels = n > ROWS ? 2 : 1,
             .b_row = plane,
             .b = words + words_offset + m.image * phases_y * phases_x * all * plane +
                  row * columns + column,
             .taps = taps,
             .offsets = offsets};
  sum_columns(sums, &t, all / AMX_SIDE, (p.rows - 1) * columns + p.columns);
#if ROUNDS_OUT
  float room[SPREAD * MOST_COLUMNS + 16];
#endif
  for (int r = 0; r < n; r += spread) {
    const int output = (first + r) / spread;
    const index_t number = ((first_image + m.image) * (n_rows / spread) + output) * positions +
                           row * out_columns * spread + column;
    const float shift = HAS_BIAS ? bias[bias_offset + output] : 0;
    out_row y = out + out_offset + number;
#if ROUNDS_OUT
    float *made = room;
#else
    __global float *made = y;
#endif
#if SPREAD > 1
    spread_rows_of(sums + r * PITCH, &p, spread_y, spread_x, shift, made);
#else
    join_rows_of(sums + r * PITCH, &p, shift, made);
#endif
    FINISH(y, made, number, p.rows * p.columns * spread);
  }
#endif
}
