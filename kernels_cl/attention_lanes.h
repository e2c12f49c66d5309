/* Rows in the lanes of vectors, W in each of PARTS, as attention.cl and attention_tiles.cl have
 * them: queries come in, scores are masked, sums go out. */
#ifndef ATTENTION_LANES_H
#define ATTENTION_LANES_H
#include "attention.h"
#define PARTS (ROWS / W)
#define EACH_PART _Pragma("unroll") for (int r = 0; r < PARTS; r++)

#if W > 1
#define LANES16 realw
#include "transpose.h"
DEFINE_SOME(X_TYPE)
DEFINE_KEEP(X_TYPE)
#endif

#if W == 1
#define TO_LANES(v, lanes) (lanes)[0] = (v)
#define FROM_LANES(lanes) (lanes)[0]
#else
#define TO_LANES(v, lanes) vstore16(v, 0, lanes)
#define FROM_LANES(lanes) vload16(0, lanes)
#endif

/* Column d of W rows, times the scale: a score then overflows only where it is too large. */
static inline realw gather_rows(x_pointer q, const index_t *rows, index_t d, real scale) {
  real lanes[W];
  for (int l = 0; l < W; l++) lanes[l] = LOAD(X_TYPE, q, rows[l] + d) * scale;
  return FROM_LANES(lanes);
}

/* All columns of the rows. */
static inline void fill_query(realw query[][PARTS], x_pointer q, const index_t *rows, index_t n,
                              real scale) {
  for (int r = 0; r < PARTS; r++) {
#if W > 1
    for (index_t d = 0; d < n; d += W) {
      realw some[W];
      for (int l = 0; l < W; l++)
        some[l] = LOAD_SOME(X_TYPE, q + rows[r * W + l] + d, n - d) * scale;
      transpose_16(some);
      for (int i = 0; i < W && d + i < n; i++) query[d + i][r] = some[i];
    }
#else
    for (index_t d = 0; d < n; d++) query[d][r] = gather_rows(q, rows, d, scale);
#endif
  }
}

/* The scores of key j in W lanes from `first` on after mask and hiding; at: of the key in a row of
 * the mask; alike: all rows have that of the first. */
static inline realw mask_score(realw score, const __global STORAGE(MASK_TYPE) * mask,
                               const some_rows *rows, int first, bool alike, index_t at, index_t j,
                               index_t window, real masked) {
#if MASK || CAUSAL
  const bool seen = !is_hidden(j, rows->least, window) && !is_hidden(j, rows->most, window);
  if (!MASK && seen) return score;
  if (MASK && seen && alike) return MASK_ALL(score, mask, rows->mask[0] + at, masked);
  real lanes[W];
  TO_LANES(score, lanes);
  for (int l = 0; l < W; l++)
    lanes[l] = is_hidden(j, rows->last[first + l], window)
                   ? (real)(-INFINITY)
                   : mask_one(lanes[l], mask, rows->mask[first + l] + at, masked);
  return FROM_LANES(lanes);
#else
  return score;
#endif
}

/* Lane l of each vector d is column d of row l in out, whose rows are `step` apart. */
static inline void store_rows(__global STORAGE(X_TYPE) * out, const some_rows *rows, index_t step,
                              const realw sums[][PARTS], index_t columns,
                              const realw total[PARTS]) {
  for (int r = 0; r < PARTS; r++) {
    const realw inverse = INVERSE(realw, total[r]);
    const int begin = max(rows->begin - r * W, 0), end = min(rows->n - r * W, W);
    for (index_t d = 0; d < columns; d += W) {
      realw some[W];
      for (int i = 0; i < W; i++) some[i] = sums[min(d + i, columns - 1)][r] * inverse;
#if W > 1
      transpose_16(some);
#endif
      for (int l = begin; l < end; l++)
        STORE_SOME(X_TYPE, out + rows->out[r * W + l] * step + d, columns - d, some[l]);
    }
  }
}

/* The same of unfinished sums, in rows that follow one another. */
static inline void store_parts(__global real *parts, index_t step, const some_rows *rows,
                               const realw sums[][PARTS], index_t columns) {
  for (index_t d = 0; d < columns; d++)
    for (int r = 0; r < PARTS; r++) {
      real lanes[W];
      TO_LANES(sums[d][r], lanes);
      for (int l = max(rows->begin - r * W, 0); l < min(rows->n - r * W, W); l++)
        parts[(r * W + l) * step + d] = lanes[l];
    }
}

/* The sums of a split, and where their columns begin the maxima and totals. */
static inline void store_split(__global real *parts, const some_rows *rows, index_t v_dim,
                               index_t column, index_t columns, const realw sums[][PARTS],
                               const realw largest[PARTS], const realw total[PARTS],
                               bool is_empty) {
  realw ends[2][PARTS];
  EACH_PART ends[0][r] = largest[r];
  EACH_PART ends[1][r] = total[r];
  if (!is_empty) store_parts(parts + column, v_dim + 2, rows, sums, columns);
  if (column == 0) store_parts(parts + v_dim, v_dim + 2, rows, ends, 2);
}
#endif
