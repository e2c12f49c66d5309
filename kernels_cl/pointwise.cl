/* out[n, o, p] = bias[o] + sum over c of weight[o, c] * x[n, c, p]
 * Convolution in float with a kernel of one element, for CPUs. The planes of x are rows of a matrix
 * that is read where it lies. The weight is in panels of ROWS outputs, as gemm_pack writes them. A
 * work-item makes `columns_each` positions of some panels: `block` of them, whose inputs stay in
 * the first-level cache, for one panel after the other, ROWS by COLUMNS sums at a time. The last
 * tile of a row begins earlier where it would go beyond the end, and stores what is left. PAIRS:
 * the weight is of words of pairs.h, and those of a block of x are made in local memory, tile by
 * tile: [word][COLUMNS]. AMX: two panels at once, by amx.h, whose sums of a block are in private
 * memory and begin with the bias; words are padded with zeros to whole tiles. X_TYPE and OUT_TYPE
 * are F32, or with PAIRS BF16: the sums of a block stay in private memory then until they are
 * rounded. */
#include "common.h"
#include "gemm_tile.h"
#include "narrow.h"
#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif
#ifndef MOST_BLOCK
#define MOST_BLOCK 256 /* positions of a block, at most */
#endif
#define PITCH (MOST_BLOCK + COLUMNS) /* of sums in private memory, with room before the first */
#if AMX
#define PANELS 2 /* at once */
#define WHOLE_WORDS(words) AMX_WHOLE(words)
#else
#define PANELS 1
#define WHOLE_WORDS(words) (words)
#endif
#if PAIRS
typedef __local const float *x_pointer;
#else
typedef __global const float *x_pointer;
#endif

/* What is multiplied: x from a position on, `x_step` from channel to channel, or word to word; and
 * a panel of the weight, of which each block of DEPTH of them is followed by those of the other
 * panels. */
typedef struct product {
  x_pointer x;
  __global const float *weight;
  index_t x_step;
  int channels, panel, padded; /* padded: outputs of all panels */
} product;

#define EACH_SUM                                   \
  _Pragma("unroll") for (int r = 0; r < ROWS; r++) \
      _Pragma("unroll") for (int v = 0; v < 2; v++) if (v < vectors)

/* ROWS outputs of `vectors` vectors of positions, 1 or 2. */
static inline void sum_channels(floatw sums[ROWS][2], const product *p, const int vectors) {
  x_pointer x = p->x;
  floatw total[ROWS][2];
  for (int k0 = 0; k0 < p->channels; k0 += CHAIN) {
    const int first = k0 / DEPTH * DEPTH, depth = min(DEPTH, p->channels - first),
              n = min(CHAIN, p->channels - k0);
    __global const float *w =
        p->weight + (long)first * p->padded + (long)p->panel * ROWS * depth + (k0 - first) * ROWS;
    EACH_SUM sums[r][v] = (floatw)0;
    for (int k = 0; k < n; k++, x += p->x_step, w += ROWS) {
      floatw in[2];
#pragma unroll
      for (int v = 0; v < 2; v++)
        if (v < vectors) {
          in[v] = vloadw(v, x);
          if (!PAIRS) ASK_FOR(x + (vectors + v) * WIDTH); /* the next tile's */
        }
      EACH_SUM sums[r][v] = ADD_PRODUCT(sums[r][v], (floatw)w[r], in[v]);
    }
    if (k0 > 0) EACH_SUM sums[r][v] += total[r][v];
    if (k0 + CHAIN < p->channels) EACH_SUM total[r][v] = sums[r][v];
  }
}

/* The first `rows` of them, without `skipped` positions, to rows of `out` that are `step` apart. */
static inline void store_sums(const floatw sums[ROWS][2], __global const float *bias,
                              MADE_SPACE float *out, index_t step, int rows, int skipped,
                              const int vectors) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (r >= rows) continue;
    const float shift = HAS_BIAS ? bias[r] : 0;
    MADE_SPACE float *to = out + r * step;
    if (skipped == 0 || ROUNDS_OUT) {
#pragma unroll
      for (int v = 0; v < 2; v++)
        if (v < vectors) vstorew(sums[r][v] + shift, v, to);
    } else {
      float lanes[COLUMNS];
#pragma unroll
      for (int v = 0; v < 2; v++)
        if (v < vectors) vstorew(sums[r][v] + shift, v, lanes);
      for (int l = skipped; l < vectors * WIDTH; l++) to[l] = lanes[l];
    }
  }
}

static inline void make_tile(const product *p, __global const float *bias, MADE_SPACE float *out,
                             index_t step, int rows, int skipped, const int vectors) {
  floatw sums[ROWS][2];
  sum_channels(sums, p, vectors);
  store_sums(sums, bias, out, step, rows, skipped, vectors);
}

/* A tile of positions [at, end): how many it makes, and the first of those that it reads. */
typedef struct tile {
  int width;
  index_t first;
} tile;
static inline tile tile_at(index_t at, index_t end, index_t positions) {
  const int width = end - at <= WIDTH || positions < COLUMNS ? WIDTH : COLUMNS;
  return (tile){width, min(at, positions - width)};
}

#if PAIRS
/* The words of positions [begin, end). */
static inline void pack_words(x_row x, index_t positions, int channels, index_t begin, index_t end,
                              __local float *packed) {
  const int words = WORDS_OF(channels), whole = WHOLE_WORDS(words);
  for (int i = 0; i < whole; i++, x += 2 * positions) {
    const bool has_odd = 2 * i + 1 < channels;
    __local float *to = packed + i * COLUMNS;
    tile t;
    for (index_t at = begin; at < end; at += t.width, to += whole * COLUMNS) {
      t = tile_at(at, end, positions);
      for (int l = 0; l < t.width; l += WIDTH) {
        const x_row even = x + t.first + l;
        vstorew(i < words ? load_words(even, even + positions, has_odd) : (floatw)0, 0, to + l);
      }
    }
  }
}
#endif

/* Where a panel's sums are made: rows `step` apart, which begin at position `origin`. */
typedef struct place {
  MADE_SPACE float *rows;
  index_t step, origin;
} place;

#if AMX
/* Sums of positions [begin, end) of some panels; x: the words from `begin` on. A tile of few
 * positions has others, too, of which nothing is kept. */
static inline void make_tiles(const product *p, int panels, x_pointer x, const float *start,
                              float *sums, index_t positions, index_t begin, index_t end) {
  tile t;
  for (index_t at = begin; at < end; at += t.width, x += p->channels * COLUMNS) {
    t = tile_at(at, end, positions);
    for (int k0 = 0; k0 < p->channels; k0 += DEPTH) {
      const int depth = min(DEPTH, p->channels - k0), each = ROWS * depth;
      const tiles some = {.a = p->weight + (long)k0 * p->padded + (long)p->panel * each,
                          .a_panel = each,
                          .panels = panels,
                          .b_row = COLUMNS,
                          .b = x + k0 * COLUMNS,
                          .start = start};
      multiply_tiles(&some, depth, sums + (t.first - begin), PITCH, k0 == 0);
    }
  }
}

/* What sums of some outputs begin with, for multiply_tiles. */
static inline const float *start_sums(__global const float *bias, int outputs, float16 *start) {
  for (int r = 0; HAS_BIAS && r < PANELS * ROWS; r++)
    start[r] = (float16)(r < outputs ? bias[r] : 0);
  return HAS_BIAS ? (const float *)start : 0;
}

/* Where n of a row's results are made: there, or, where they are rounded later, in place. */
static inline MADE_SPACE float *place_row(float *sums, out_row out, index_t n) {
#if ROUNDS_OUT
  return sums;
#else
  for (index_t i = 0; i < n; i++) out[i] = sums[i];
  return out;
#endif
}
#endif

/* Positions [begin, end) of a panel's outputs; x: at position 0, or the words from `begin` on. */
static inline void make_positions(product *p, x_pointer x, __global const float *bias,
                                  const place *out, index_t positions, int rows, index_t begin,
                                  index_t end) {
  tile t;
  for (index_t at = begin; at < end; at += t.width) {
    t = tile_at(at, end, positions);
#if PAIRS
    p->x = x;
    x += p->channels * COLUMNS;
#else
    p->x = x + t.first;
#endif
    const int skipped = (int)(at - t.first);
    MADE_SPACE float *to = out->rows + (t.first - out->origin);
    if (t.width == WIDTH)
      make_tile(p, bias, to, out->step, rows, skipped, 1);
    else
      make_tile(p, bias, to, out->step, rows, skipped, 2);
  }
}

/* Global ids: positions, panels, images. positions >= WIDTH; columns_each is a multiple of block,
 * block of COLUMNS. */
__kernel void conv_pointwise(__global const STORAGE(X_TYPE) * x, const long x_offset,
                             __global const float *weight, const long weight_offset,
                             __global const float *bias, const long bias_offset,
                             __global STORAGE(OUT_TYPE) * out, const long out_offset,
                             const int channels, const int n_outputs, const index_t positions,
                             const index_t columns_each, const index_t block, const int panels_each,
                             __local float *words) {
  const index_t from = (index_t)get_global_id(0) * columns_each,
                to = min(from + columns_each, positions), z = (index_t)get_global_id(2);
  const int panels = (n_outputs + ROWS - 1) / ROWS, first = (int)get_global_id(1) * panels_each,
            last = min(first + panels_each, panels);
  product p = {.weight = weight + weight_offset,
               .x_step = PAIRS ? COLUMNS : positions,
               .channels = WHOLE_WORDS(WORDS_OF(channels)),
               .padded = panels * ROWS};
  x += x_offset + z * channels * positions;
  bias += bias_offset;
  out += out_offset + z * n_outputs * positions;
#if ROUNDS_OUT || AMX
  float sums[PANELS * ROWS * PITCH + COLUMNS] __attribute__((aligned(64)));
#endif
  amx_begin();
  for (index_t begin = from; begin < to; begin += block) {
    const index_t end = min(begin + block, to);
#if PAIRS
    pack_words(x, positions, channels, begin, end, words);
    const x_pointer from = words;
#else
    const x_pointer from = x;
#endif
    for (p.panel = first; p.panel < last; p.panel += PANELS) {
      const int output = p.panel * ROWS, rows = min(PANELS * ROWS, n_outputs - output);
      const out_row row = out + (index_t)output * positions;
#if AMX
      float16 start[PANELS * ROWS];
      make_tiles(&p, min(PANELS, last - p.panel), words, start_sums(bias + output, rows, start),
                 sums + COLUMNS, positions, begin, end);
      for (int r = 0; r < rows; r++) {
        out_row y = row + r * positions + begin;
        MADE_SPACE float *from = place_row(sums + COLUMNS + r * PITCH, y, end - begin);
        FINISH(y, from, (z * n_outputs + output + r) * positions + begin, end - begin);
      }
#else
#if ROUNDS_OUT
      const place made = {sums + COLUMNS, PITCH, begin};
#else
      const place made = {row, positions, 0};
#endif
      make_positions(&p, from, bias + output, &made, positions, rows, begin, end);
      for (int r = 0; r < rows; r++) {
        MADE_SPACE float *from = made.rows + r * made.step + (begin - made.origin);
        FINISH(row + r * positions + begin, from, (z * n_outputs + output + r) * positions + begin,
               end - begin);
      }
#endif
    }
  }
  amx_end();
}
