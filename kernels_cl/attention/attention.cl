/* out[b, h, i] = sum over j of softmax over j of (q[b, h, i] . k[b, g, j] * scale + mask[b, h, i,
 * j]) v[b, g, j]
 *
 * The `share` heads h of q with h / share = g use head g of k and v. Their queries are the rows r =
 * (h % share) * n_queries + i of g. A work-item has ROWS rows of one g, a SPLIT of the keys, and
 * V_MAX columns of v. It walks the keys KEYS at a time and keeps per row the running maximum, the
 * sum of exponentials and the sum of weighted values (Dao et al.). Lanes beyond the last row repeat
 * it and are not stored. attention_row.cl does the same for fewer rows (decoding). Q_MAX: if
 * head_dim is at most Q_MAX, the queries are kept in private memory; 0: any head_dim, queries are
 * read each time. Private layout: lane = row, VECTORS vectors per column. */
#include "attention.h"

/* Rows are the lanes of vectors, W in each of VECTORS vectors. The following functions move
 * queries, masked scores and sums to and from this layout. */
#define VECTORS (ROWS / W)
#define EACH_VECTOR _Pragma("unroll") for (int r = 0; r < VECTORS; r++)

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

/* Returns column d of W rows times the scale. Scaling first avoids overflow of intermediate
 * scores. */
static inline realw gather_rows(x_pointer q, const index_t *rows, index_t d, real scale) {
  real lanes[W];
  for (int l = 0; l < W; l++) lanes[l] = LOAD(X_TYPE, q, rows[l] + d) * scale;
  return FROM_LANES(lanes);
}

/* Loads all n columns of the rows. */
static inline void fill_query(realw query[][VECTORS], x_pointer q, const index_t *rows, index_t n,
                              real scale) {
  for (int r = 0; r < VECTORS; r++) {
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

/* Returns the scores of key j for the W lanes from `first` on, after the mask; hidden scores are
 * -INFINITY. at: offset of the key in a row of the mask. alike: all rows share the mask of the
 * first. */
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

/* Stores normalised sums in out, whose rows are `stride` apart: lane l of vector d is column d of
 * row l. */
static inline void store_rows(__global STORAGE(X_TYPE) * out, const some_rows *rows, index_t stride,
                              const realw sums[][VECTORS], index_t columns,
                              const realw total[VECTORS]) {
  for (int r = 0; r < VECTORS; r++) {
    const realw inverse = INVERSE(realw, total[r]);
    const int begin = max(rows->begin - r * W, 0), end = min(rows->n - r * W, W);
    for (index_t d = 0; d < columns; d += W) {
      realw some[W];
      for (int i = 0; i < W; i++) some[i] = sums[min(d + i, columns - 1)][r] * inverse;
#if W > 1
      transpose_16(some);
#endif
      for (int l = begin; l < end; l++)
        STORE_SOME(X_TYPE, out + rows->out[r * W + l] * stride + d, columns - d, some[l]);
    }
  }
}

/* Stores sums that are not normalised to splits, whose rows are consecutive. */
static inline void store_splits(__global real *splits, index_t stride, const some_rows *rows,
                                const realw sums[][VECTORS], index_t columns) {
  for (index_t d = 0; d < columns; d++)
    for (int r = 0; r < VECTORS; r++) {
      real lanes[W];
      TO_LANES(sums[d][r], lanes);
      for (int l = max(rows->begin - r * W, 0); l < min(rows->n - r * W, W); l++)
        splits[(r * W + l) * stride + d] = lanes[l];
    }
}

/* Stores the sums of a split. The work-item of column 0 also stores the maxima and totals. */
static inline void store_split(__global real *splits, const some_rows *rows, index_t v_dim,
                               index_t column, index_t columns, const realw sums[][VECTORS],
                               const realw largest[VECTORS], const realw total[VECTORS],
                               bool is_empty) {
  realw ends[2][VECTORS];
  EACH_VECTOR ends[0][r] = largest[r];
  EACH_VECTOR ends[1][r] = total[r];
  if (!is_empty) store_splits(splits + column, v_dim + 2, rows, sums, columns);
  if (column == 0) store_splits(splits + v_dim, v_dim + 2, rows, ends, 2);
}
#ifndef KEYS
#define KEYS 8
#endif
#define EACH_KEY _Pragma("unroll") for (int j = 0; j < KEYS; j++)

/* KEYS keys and values that are not F32 are converted to private memory, so that this happens once
 * instead of for each column. */
#define TILED (W > 1 && Q_MAX > 0 && !IS_F32(KEY_TYPE))
#if TILED
typedef const real *tile_pointer;
#define KEY(p, at, j, width, i) (realw)((p)[(j) * (width) + (i)])
#else
typedef key_pointer tile_pointer;
#define KEY(p, at, j, width, i) (realw) LOAD(KEY_TYPE, (p) + (at)[j], i)
#endif

#if Q_MAX > 0
#define QUERY(d, r) query[d][r]
#else
#define QUERY(d, r) gather_rows(q, q_rows + (r)*W, d, scale)
#endif

#if TILED
/* Converts the first n columns of the rows at from + at[j]. */
static inline void fill_tile(real *tile, int width, key_pointer from, const index_t at[KEYS],
                             index_t n) {
  for (int j = 0; j < KEYS; j++) {
    key_pointer row = from + at[j];
    index_t d = 0;
    for (; d + W <= n; d += W) vstore16(LOADW(KEY_TYPE, row + d), 0, tile + j * width + d);
    for (; d < n; d++) tile[j * width + d] = LOAD(KEY_TYPE, row, d);
  }
}
#define TILE(name, width, from, at, n) \
  real name[KEYS * width];             \
  fill_tile(name, width, from, at, n)
#else
#define TILE(name, width, from, at, n) const tile_pointer name = from
#endif

/* scores[j] = the scaled rows times the key at keys + key_at[j]. */
static inline void score_keys(realw scores[KEYS][VECTORS], x_pointer q, const index_t *q_rows,
                              const realw query[][VECTORS], tile_pointer keys,
                              const index_t key_at[KEYS], index_t head_dim, real scale) {
  EACH_KEY EACH_VECTOR scores[j][r] = (realw)0;
  for (index_t from = 0; from < head_dim; from += BLOCK) {
    const index_t end = min(from + BLOCK, head_dim);
    realw sums[KEYS][VECTORS];
    EACH_KEY EACH_VECTOR sums[j][r] = (realw)0;
    for (index_t d = from; d < end; d++) {
      realw value[VECTORS];
      EACH_VECTOR value[r] = QUERY(d, r);
      EACH_KEY {
        const realw key = KEY(keys, key_at, j, Q_MAX, d);
        EACH_VECTOR sums[j][r] = FMA(value[r], key, sums[j][r]);
      }
    }
    EACH_KEY EACH_VECTOR scores[j][r] += sums[j][r];
  }
}

/* Replaces scores by their exponentials relative to the new maxima. A NaN score does not change the
 * maximum, but its exponential is NaN. fade: receives the factor of the previous sums. */
static inline void exponentiate(realw p[KEYS][VECTORS], realw largest[VECTORS],
                                realw total[VECTORS], realw fade[VECTORS]) {
  EACH_VECTOR {
    realw highest = largest[r], block = (realw)0;
    EACH_KEY highest = p[j][r] > highest ? p[j][r] : highest;
    const realw base = FINITE(realw, highest);
    fade[r] = exp_of_negative(largest[r] - base);
    EACH_KEY {
      p[j][r] = exp_of_negative(p[j][r] - base);
      block += p[j][r];
    }
    largest[r] = highest;
    total[r] = total[r] * fade[r] + block;
  }
}

/* Adds the weighted values of the first n keys. Other keys are skipped, because 0 times an infinite
 * value is NaN. */
static inline void add_values(realw sums[][VECTORS], const realw p[KEYS][VECTORS],
                              const realw fade[VECTORS], tile_pointer values,
                              const index_t value_at[KEYS], index_t n, index_t columns) {
  for (index_t d = 0; d < columns && n >= KEYS; d++) {
    realw sum[VECTORS];
    EACH_VECTOR sum[r] = sums[d][r] * fade[r];
    EACH_KEY {
      const realw value = KEY(values, value_at, j, V_MAX, d);
      EACH_VECTOR sum[r] = FMA(p[j][r], value, sum[r]);
    }
    EACH_VECTOR sums[d][r] = sum[r];
  }
  for (index_t d = 0; d < columns && n < KEYS; d++) {
    EACH_VECTOR {
      realw sum = sums[d][r] * fade[r];
      EACH_KEY if (j < n) sum = FMA(p[j][r], KEY(values, value_at, j, V_MAX, d), sum);
      sums[d][r] = sum;
    }
  }
}

/* Computes attention of rows of one sequence over the keys of a split. */
static inline void attend(ATTENTION_PARAMS, const place *here, const some_rows *rows,
                          const key_range *seen, index_t split, index_t column) {
  const key_span span = find_span(seen, rows, split, n_splits, window);
  q += q_offset + batch_offset(here->batch, batch_dims, q_strides);
  mask += mask_offset + (MASK ? batch_offset(here->batch, batch_dims, mask_strides) : 0);
  key_pointer keys = k + k_offset + group_offset(here, batch_dims, k_strides);
  key_pointer values = v + v_offset + group_offset(here, batch_dims, v_strides) + column;
  const index_t columns = min(v_dim - column, (index_t)V_MAX);
  const bool alike = mask_strides.s0 == 0 && mask_strides.s1 == 0;
  realw query[Q_MAX + 1][VECTORS], sums[V_MAX][VECTORS], largest[VECTORS], total[VECTORS];
  if (Q_MAX > 0) fill_query(query, q, rows->q, head_dim, scale);
  EACH_VECTOR largest[r] = (realw)(-INFINITY);
  EACH_VECTOR total[r] = (realw)0;
  for (index_t d = 0; d < columns; d++) EACH_VECTOR sums[d][r] = (realw)0;
  for (index_t from = span.begin; from < span.end; from += KEYS) {
    index_t at[KEYS], key_at[KEYS], value_at[KEYS];
    ROWS_OF_KEYS(at, seen, from, span.end, KEYS, n_keys);
    EACH_KEY key_at[j] = at[j] * k_strides.s0;
    EACH_KEY value_at[j] = at[j] * v_strides.s0;
    realw p[KEYS][VECTORS], fade[VECTORS];
    TILE(key_tile, Q_MAX, keys, key_at, head_dim);
    TILE(value_tile, V_MAX, values, value_at, columns);
    score_keys(p, q, rows->q, query, key_tile, key_at, head_dim, scale);
    EACH_KEY EACH_VECTOR {
      const realw score = CAP(p[j][r] * FACTOR(k_scale, at[j]));
      p[j][r] =
          mask_score(score, mask, rows, r * W, alike, at[j] * mask_step, from + j, window, masked);
      if (from + j >= span.end) p[j][r] = (realw)(-INFINITY);
    }
    exponentiate(p, largest, total, fade);
    if (SCALED) EACH_KEY EACH_VECTOR p[j][r] *= FACTOR(v_scale, at[j]);
    add_values(sums, p, fade, value_tile, value_at, span.end - from, columns);
  }
#if SPLIT
  splits += splits_offset + split_offset(here, split, share * n_queries, 0, v_dim);
  store_split(splits, rows, v_dim, column, columns, sums, largest, total, span.begin >= span.end);
#else
  store_rows(out + out_offset + column, rows, v_dim, sums, columns, total);
#endif
}

/* Strides of q, k, v and mask are ordered s0 row, s1 head, then batch. batch_dims: innermost first.
 * out (batch, heads, out_rows, v_dim) and splits (split, row of all heads, v_dim + 2) are
 * row-major. k_scale, v_scale: (batch, n_kv, n_keys). */
__kernel void attention(ATTENTION_PARAMS) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1),
                column = (index_t)get_global_id(2) * V_MAX;
  if (item >= items || column >= v_dim) return;
  const place here = find_place(item, items, share, n_queries, n_kv);
  key_range seen = find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window,
                             n_kv, n_pages, page_shift);
  const some_rows rows =
      find_rows(&here, n_kv, share, n_queries, &seen, q_strides, mask_strides, out_rows);
#if PAGED
  for (int begin = 0; begin < rows.n;) {
    const some_rows some =
        take_sequence(&rows, begin, &seen, position + position_offset, sequence + sequence_offset,
                      page_table + page_table_offset, n_keys, n_sequences, max_pages);
    attend(ATTENTION_ARGS, &here, &some, &seen, split, column);
    begin = some.n;
  }
#else
  attend(ATTENTION_ARGS, &here, &rows, &seen, split, column);
#endif
}
