/* out[b, h, i] = sum over j of softmax over j of (q[b, h, i] . k[b, g, j] * scale + mask[b, h, i,
 * j]) v[b, g, j]
 *
 * Heads h of q share head g = h / share of k and v; their queries together are the rows r = (h %
 * share) * n_queries + i of g. A work-item takes W rows of one g, a SPLIT of the keys, and V_MAX
 * columns of v; it walks the keys KEYS at a time and keeps per row the running maximum, the sum of
 * exponentials and the sum of weighted values (Dao et al.). With SPLIT these go to `parts` for
 * attention_merge. Lanes beyond the last row repeat it and are not stored. attention_row does the
 * same for ROWS rows a work-item, W neighbours of head_dim and v_dim at once: for few rows
 * (decoding). MASK: 0 none, 1 BOOL (true = attend, else the score is `masked`), 2 added. CAUSAL: j
 * <= i. A row of scores -inf gives 0, or with EMPTY_NAN NaN. SOFTCAP: a score s becomes softcap *
 * tanh(s / softcap). CACHED: k and v are caches of n_keys rows of KEY_TYPE, written by
 * attention_store; query i stands at position + skip + i. WINDOWED: it sees the last `window`
 * positions, and position p is row p mod n_keys. I8 rows have factors in k_scale, v_scale. Q_MAX:
 * head_dim up to it, the queries are kept in private memory; 0: any, read again each time. Private
 * layout: lane = row, one vector per column. */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef MASK_TYPE
#define MASK_TYPE BOOL
#endif
#ifndef MASK
#define MASK 0
#endif
#ifndef EMPTY_NAN
#define EMPTY_NAN 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef Q_MAX
#define Q_MAX 64
#endif
#ifndef V_MAX
#define V_MAX 64
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef CACHED
#define CACHED 0
#endif
#ifndef WINDOWED
#define WINDOWED 0
#endif
#ifndef SOFTCAP
#define SOFTCAP 0
#endif
#ifndef KEY_TYPE
#define KEY_TYPE X_TYPE
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef KEYS
#define KEYS 8
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#include "vector.h"

DEFINE_SOME(X_TYPE)
#if PASTE(number_, KEY_TYPE) != PASTE(number_, X_TYPE)
DEFINE_SOME(KEY_TYPE)
#endif
#define MOST_ROWS (ROWS > W ? ROWS : W)
#define EACH_KEY _Pragma("unroll") for (int j = 0; j < KEYS; j++)
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)

typedef const __global STORAGE(X_TYPE) * x_pointer;
typedef const __global STORAGE(KEY_TYPE) * key_pointer;
#define SCALED IS_INT(KEY_TYPE)
/* KEYS keys and values that are not in the compute type become so once, in private memory, not for
 * each column anew. */
#define TILED (W > 1 && Q_MAX > 0 && !IS_F32(KEY_TYPE) && !IS_F64(KEY_TYPE))
#if TILED
typedef const real *tile_pointer;
#define KEY(p, i) (realw)((p)[i])
#else
typedef key_pointer tile_pointer;
#define KEY(p, i) (realw) LOAD(KEY_TYPE, p, i)
#endif

#if W > 1
DEFINE_KEEP(X_TYPE)
/* The first n of the lanes. */
static inline void store_reals(__global real *p, int n, const realw v) {
  real lanes[W];
  vstore16(v, 0, lanes);
  for (int l = 0; l < W && l < n; l++) p[l] = lanes[l];
}
#endif

/* The offset of a batch: strides s0 and s1 are those of rows and heads. */
static inline index_t batch_offset(index_t batch, index8 dims, index8 strides) {
  return strided_offset(batch, dims, strides.s23456701 * (index8)(1, 1, 1, 1, 1, 1, 0, 0));
}

/* The rows of a work-item: where they begin in q, mask and out, and the last key that each may see.
 */
typedef struct some_rows {
  int n;
  index_t q[MOST_ROWS], mask[MOST_ROWS], out[MOST_ROWS], last[MOST_ROWS], least,
      most; /* least, most: of last */
} some_rows;

/* ---------------------------------------------------------------- which keys there are */

/* The keys that someone may see: n of them, key j in row `first` + j, after the last row again in
 * row 0; query i sees those up to before + i. */
typedef struct key_range {
  index_t n, first, before;
} key_range;

/* The last position at which `total` tokens fit. */
static inline long last_position(index_t total, index_t n_rows) {
  return (WINDOWED ? LONG_MAX - n_rows : n_rows) - total;
}

static inline key_range find_keys(const __global long *position, index_t n_queries, index_t n_keys,
                                  index_t total, index_t skip, index_t window) {
#if CACHED
  const long at = clamp(*position, 0L, last_position(total, n_keys)) + skip;
  const long first = WINDOWED ? max(at - window + 1, 0L) : 0;
  const index_t before = (index_t)(at - first);
  return (key_range){before + n_queries, (index_t)(first % n_keys), before};
#else
  return (key_range){n_keys, 0, 0};
#endif
}

static inline index_t row_of_key(const key_range *seen, index_t j, index_t n_rows) {
  const index_t row = seen->first + j;
  return WINDOWED && row >= n_rows ? row - n_rows : row;
}

/* The keys of a split that some of the rows may see. */
static inline index_t find_begin(const some_rows *rows, index_t split, index_t split_keys,
                                 index_t window) {
  const index_t begin = split * split_keys;
  return WINDOWED ? max(begin, rows->least - window + 1) : begin;
}
static inline index_t find_end(const key_range *seen, const some_rows *rows, index_t split,
                               index_t split_keys) {
  return min(min((split + 1) * split_keys, seen->n), rows->most + 1);
}

static inline index_t keys_per_split(index_t n, index_t n_splits) {
  return ((n + n_splits - 1) / n_splits + W - 1) / W * W;
}

/* `lanes` rows of a group from `first` on; those behind its last row repeat that. to: the first
 * head of the batch in out. */
static inline some_rows find_rows(int lanes, index_t first, index_t group, index_t share,
                                  index_t n_queries, const key_range *seen, index8 q_strides,
                                  index8 mask_strides, index_t to, index_t out_rows) {
  some_rows rows;
  const index_t n_rows = share * n_queries;
  rows.n = (int)min((index_t)lanes, n_rows - first);
  rows.least = seen->n;
  rows.most = -1;
  for (int l = 0; l < lanes; l++) {
    const index_t r = first + min(l, rows.n - 1), head = group * share + r / n_queries,
                  query = r % n_queries;
    rows.q[l] = head * q_strides.s1 + query * q_strides.s0;
    rows.mask[l] = head * mask_strides.s1 + query * mask_strides.s0;
    rows.out[l] = (to + head) * out_rows + query;
    rows.last[l] = CAUSAL ? seen->before + query : seen->n - 1;
    rows.least = min(rows.least, rows.last[l]);
    rows.most = max(rows.most, rows.last[l]);
  }
  return rows;
}

/* Whether key j lies outside of what a row may see whose last key is `last`. */
static inline bool is_hidden(index_t j, index_t last, index_t window) {
  return j > last ? true : WINDOWED ? j <= last - window : false;
}

/* ---------------------------------------------------------------- scores */

/* exp may not see -INFINITY - -INFINITY: with nothing to attend to so far, any finite number will
 * do. */
#define FINITE(T, m) ((m) == (T)(-INFINITY) ? (T)0 : (m))
/* What sums of `total` exponentials are divided by; of a row without any they are 0, and so is
 * that, or infinite. */
#if EMPTY_NAN
#define INVERSE(T, total) (1 / (total))
#else
#define INVERSE(T, total) ((total) == (T)0 ? (T)0 : 1 / (total))
#endif
#if SOFTCAP /* by exp, which is faster than tanh; what counts inside of exp is the absolute error \
             */
#define CAP(score) (softcap - 2 * softcap / (exp((score) * (2 / softcap)) + 1))
#else
#define CAP(score) (score)
#endif

#if W == 1
#define TO_LANES(v, lanes) (lanes)[0] = (v)
#define FROM_LANES(lanes) (lanes)[0]
#else
#define TO_LANES(v, lanes) vstore16(v, 0, lanes)
#define FROM_LANES(lanes) vload16(0, lanes)
#endif

/* Column d of the W rows. */
static inline realw gather_rows(x_pointer q, const index_t *rows, index_t d) {
  real lanes[W];
  for (int l = 0; l < W; l++) lanes[l] = LOAD(X_TYPE, q, rows[l] + d);
  return FROM_LANES(lanes);
}

#if Q_MAX > 0
#define QUERY(d) query[d]
#else
#define QUERY(d) gather_rows(q, q_rows, d)
#endif

#if TILED
/* The first n columns of the rows at from + at[j], and where they are now. */
static inline void fill_tile(real *tile, int width, key_pointer from, index_t at[KEYS], index_t n) {
  for (int j = 0; j < KEYS; j++) {
    key_pointer row = from + at[j];
    index_t d = 0;
    for (; d + W <= n; d += W) vstore16(LOADW(KEY_TYPE, row + d), 0, tile + j * width + d);
    for (; d < n; d++) tile[j * width + d] = LOAD(KEY_TYPE, row, d);
    at[j] = j * width;
  }
}
#endif

/* scores[j] = the W rows times the key at keys + key_at[j]. */
static inline void score_keys(realw scores[KEYS], x_pointer q, const index_t *q_rows,
                              const realw *query, tile_pointer keys, const index_t key_at[KEYS],
                              index_t head_dim) {
  EACH_KEY scores[j] = (realw)0;
  for (index_t from = 0; from < head_dim; from += BLOCK) {
    const index_t end = min(from + BLOCK, head_dim);
    realw sums[KEYS];
    EACH_KEY sums[j] = (realw)0;
    for (index_t d = from; d < end; d++) {
      const realw value = QUERY(d);
      EACH_KEY sums[j] = fma(value, KEY(keys, key_at[j] + d), sums[j]);
    }
    EACH_KEY scores[j] += sums[j];
  }
}

/* A score after the mask; at: of its row and key. */
static inline real mask_one(real score, const __global STORAGE(MASK_TYPE) * mask, long at,
                            real masked) {
#if MASK == 1
  return mask[at] ? score : masked;
#elif MASK == 2
  return score + LOAD(MASK_TYPE, mask, at);
#else
  return score;
#endif
}

/* The scores of key j after mask and hiding; at: of the key in a row of the mask. */
static inline realw mask_score(realw score, const __global STORAGE(MASK_TYPE) * mask,
                               const some_rows *rows, index_t at, index_t j, index_t window,
                               real masked) {
#if MASK || CAUSAL
  if (!MASK && !is_hidden(j, rows->least, window) && !is_hidden(j, rows->most, window))
    return score;
  real lanes[W];
  TO_LANES(score, lanes);
  for (int l = 0; l < W; l++)
    lanes[l] = is_hidden(j, rows->last[l], window)
                   ? (real)(-INFINITY)
                   : mask_one(lanes[l], mask, rows->mask[l] + at, masked);
  return FROM_LANES(lanes);
#else
  return score;
#endif
}

/* Scores become exponentials relative to the new maximum. Returns what the sums so far shrink by.
 */
static inline realw soften(realw p[KEYS], realw *largest, realw *total) {
  realw highest = *largest, block = (realw)0;
  EACH_KEY highest = larger(highest, p[j]);
  const realw base = FINITE(realw, highest), fade = exp(*largest - base);
  EACH_KEY {
    p[j] = exp(p[j] - base);
    block += p[j];
  }
  *largest = highest;
  *total = *total * fade + block;
  return fade;
}

static inline void add_values(realw *sums, const realw p[KEYS], realw fade, tile_pointer values,
                              const index_t value_at[KEYS], index_t columns) {
  for (index_t d = 0; d < columns; d++) {
    realw sum = sums[d] * fade;
    EACH_KEY sum = fma(p[j], KEY(values, value_at[j] + d), sum);
    sums[d] = sum;
  }
}

/* Lane l of each vector d is column d of row l in out, whose rows are `step` apart. */
static inline void store_rows(__global STORAGE(X_TYPE) * out, const some_rows *rows, index_t step,
                              const realw *sums, index_t columns, const realw total) {
  const realw inverse = INVERSE(realw, total);
  for (index_t d = 0; d < columns; d++) {
    real lanes[W];
    TO_LANES(sums[d] * inverse, lanes);
    for (int l = 0; l < rows->n; l++) STORE(X_TYPE, out, rows->out[l] * step + d, lanes[l]);
  }
}

/* The same of unfinished sums, in rows that follow one another. */
static inline void store_parts(__global real *parts, index_t step, int rows, const realw *sums,
                               index_t columns) {
  for (index_t d = 0; d < columns; d++) {
    real lanes[W];
    TO_LANES(sums[d], lanes);
    for (int l = 0; l < rows; l++) parts[l * step + d] = lanes[l];
  }
}

/* Strides of q and mask: s0 row, s1 head, then batch; of k, v: s0 row, s1 head, then batch.
 * batch_dims: innermost first. out (batch, heads, out_rows, v_dim) and parts (split, row of all
 * heads, v_dim + 2) are row-major. k_scale, v_scale: (batch, n_kv, n_keys). */
__kernel void attention(const __global STORAGE(X_TYPE) * q, const long q_offset,
                        const __global STORAGE(KEY_TYPE) * k, const long k_offset,
                        const __global STORAGE(KEY_TYPE) * v, const long v_offset,
                        const __global STORAGE(MASK_TYPE) * mask, const long mask_offset,
                        __global STORAGE(X_TYPE) * out, const long out_offset, __global real *parts,
                        const long parts_offset, const __global float *k_scale,
                        const long k_scale_offset, const __global float *v_scale,
                        const long v_scale_offset, const __global long *position,
                        const long position_offset, const index8 batch_dims, const index8 q_strides,
                        const index8 k_strides, const index8 v_strides, const index8 mask_strides,
                        const index_t mask_step, const index_t items, const index_t n_kv,
                        const index_t share, const index_t n_queries, const index_t n_keys,
                        const index_t head_dim, const index_t v_dim, const index_t n_splits,
                        const index_t out_rows, const index_t skip, const index_t window,
                        const real scale, const real masked, const real softcap) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1),
                column = (index_t)get_global_id(2) * V_MAX;
  if (item >= items || column >= v_dim) return;
  const index_t n_rows = share * n_queries, row_blocks = (n_rows + W - 1) / W,
                first_row = item % row_blocks * W;
  const index_t pair = item / row_blocks, group = pair % n_kv, batch = pair / n_kv;
  const index_t columns = min(v_dim - column, (index_t)V_MAX), first_head = batch * n_kv * share;
  const key_range seen =
      find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window);
  const some_rows rows = find_rows(W, first_row, group, share, n_queries, &seen, q_strides,
                                   mask_strides, first_head, out_rows);
  q += q_offset + batch_offset(batch, batch_dims, q_strides);
  mask += mask_offset + (MASK ? batch_offset(batch, batch_dims, mask_strides) : 0);
  key_pointer keys =
      k + k_offset + batch_offset(batch, batch_dims, k_strides) + group * k_strides.s1;
  key_pointer values =
      v + v_offset + batch_offset(batch, batch_dims, v_strides) + group * v_strides.s1 + column;
  realw query[Q_MAX + 1], sums[V_MAX], largest = (realw)(-INFINITY), total = (realw)0;
  for (index_t d = 0; Q_MAX > 0 && d < head_dim; d++) query[d] = gather_rows(q, rows.q, d);
  for (index_t d = 0; d < columns; d++) sums[d] = (realw)0;
  const index_t split_keys = keys_per_split(seen.n, n_splits),
                begin = find_begin(&rows, split, split_keys, window);
  const index_t end = find_end(&seen, &rows, split, split_keys);
  for (index_t from = begin; from < end; from += KEYS) {
    index_t at[KEYS], key_at[KEYS], value_at[KEYS];
    EACH_KEY at[j] = row_of_key(&seen, min(from + j, end - 1), n_keys);
    EACH_KEY key_at[j] = at[j] * k_strides.s0;
    EACH_KEY value_at[j] = at[j] * v_strides.s0;
    realw p[KEYS];
#if TILED
    real key_tile[KEYS * Q_MAX], value_tile[KEYS * V_MAX];
    fill_tile(key_tile, Q_MAX, keys, key_at, head_dim);
    fill_tile(value_tile, V_MAX, values, value_at, columns);
#else
    const tile_pointer key_tile = keys, value_tile = values;
#endif
    score_keys(p, q, rows.q, query, key_tile, key_at, head_dim);
    EACH_KEY {
      const realw score =
          CAP(p[j] * (SCALED ? scale * k_scale[k_scale_offset + pair * n_keys + at[j]] : scale));
      p[j] = mask_score(score, mask, &rows, at[j] * mask_step, from + j, window, masked);
      if (from + j >= end) p[j] = (realw)(-INFINITY);
    }
    const realw fade = soften(p, &largest, &total);
    if (SCALED) EACH_KEY p[j] *= v_scale[v_scale_offset + pair * n_keys + at[j]];
    add_values(sums, p, fade, value_tile, value_at, columns);
  }
#if SPLIT
  parts +=
      parts_offset + ((split * (items / row_blocks) + pair) * n_rows + first_row) * (v_dim + 2);
  const realw ends[2] = {largest, total};
  if (begin < end) store_parts(parts + column, v_dim + 2, rows.n, sums, columns);
  if (column == 0) store_parts(parts + v_dim, v_dim + 2, rows.n, ends, 2);
#else
  store_rows(out + out_offset + column, &rows, v_dim, sums, columns, total);
#endif
}

#if W > 1 && Q_MAX > 0
/* A row of q, and no sums yet. */
static inline void load_row(realw *query, realw *sums, x_pointer q, int full, int rest) {
  for (int c = 0; c <= V_MAX / W; c++) sums[c] = (realw)0;
  for (int c = 0; c < full; c++) query[c] = LOADW(X_TYPE, q + c * W);
  query[full] = rest ? LOAD_SOME(X_TYPE, q + full * W, rest) : (realw)0;
}

/* scores[r] = the dot product of a key and the vectors of row r. */
static inline void score_key(real scores[ROWS], const realw query[ROWS][Q_MAX / W + 1],
                             key_pointer key, int full, int rest) {
  realw sums[ROWS];
  EACH_ROW sums[r] = (realw)0;
  for (int c = 0; c < full; c++) {
    const realw value = LOADW(KEY_TYPE, key + c * W);
    EACH_ROW sums[r] = fma(query[r][c], value, sums[r]);
  }
  if (rest) {
    const realw value = LOAD_SOME(KEY_TYPE, key + full * W, rest);
    EACH_ROW sums[r] = fma(query[r][full], value, sums[r]);
  }
  EACH_ROW scores[r] = fold_add(sums[r]);
}

/* As soften, for one row and its scores of W keys. */
static inline real soften_row(real p[W], real *largest, real *total) {
  real highest = *largest;
  for (int j = 0; j < W; j++) highest = larger(highest, p[j]);
  const real base = FINITE(real, highest), fade = exp(*largest - base);
  const realw weights = exp(vload16(0, p) - base);
  vstore16(weights, 0, p);
  *largest = highest;
  *total = *total * fade + fold_add(weights);
  return fade;
}

/* sums of `full` whole vectors and one of `rest` columns = sums * fade + p[r][j] times the values
 * of `some` keys at values + value_at[j]. Value by value: many rows at once are too many streams
 * for the memory. */
static inline void add_row_values(realw sums[ROWS][V_MAX / W + 1], real p[ROWS][W],
                                  const real *fade, key_pointer values, const index_t *value_at,
                                  int some, int full, int rest) {
  for (int c = 0; c <= full; c++) EACH_ROW sums[r][c] *= fade[r];
  for (int j = 0; j < some; j++) {
    key_pointer row = values + value_at[j];
    for (int c = 0; c < full; c++) {
      const realw value = LOADW(KEY_TYPE, row + c * W);
      EACH_ROW sums[r][c] = fma((realw)p[r][j], value, sums[r][c]);
    }
    if (rest) {
      const realw value = LOAD_SOME(KEY_TYPE, row + full * W, rest);
      EACH_ROW sums[r][full] = fma((realw)p[r][j], value, sums[r][full]);
    }
  }
}

/* A finished row of sums to out. */
static inline void store_row(__global STORAGE(X_TYPE) * out, realw *sums, real inverse, int full,
                             int rest) {
  for (int c = 0; c < full; c++) STOREW(X_TYPE, out + c * W, sums[c] * inverse);
  if (rest) STORE_SOME(X_TYPE, out + full * W, rest, sums[full] * inverse);
}

/* ROWS rows of a group: as attention, with items = batches * n_kv * (rows / ROWS, rounded up). W
 * keys at a time. */
__kernel void attention_row(
    const __global STORAGE(X_TYPE) * q, const long q_offset, const __global STORAGE(KEY_TYPE) * k,
    const long k_offset, const __global STORAGE(KEY_TYPE) * v, const long v_offset,
    const __global STORAGE(MASK_TYPE) * mask, const long mask_offset,
    __global STORAGE(X_TYPE) * out, const long out_offset, __global real *parts,
    const long parts_offset, const __global float *k_scale, const long k_scale_offset,
    const __global float *v_scale, const long v_scale_offset, const __global long *position,
    const long position_offset, const index8 batch_dims, const index8 q_strides,
    const index8 k_strides, const index8 v_strides, const index8 mask_strides,
    const index_t mask_step, const index_t items, const index_t n_kv, const index_t share,
    const index_t n_queries, const index_t n_keys, const index_t head_dim, const index_t v_dim,
    const index_t n_splits, const index_t out_rows, const index_t skip, const index_t window,
    const real scale, const real masked, const real softcap) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1);
  if (item >= items) return;
  const index_t n_rows = share * n_queries, row_blocks = (n_rows + ROWS - 1) / ROWS,
                first_row = item % row_blocks * ROWS;
  const index_t pair = item / row_blocks, group = pair % n_kv, batch = pair / n_kv,
                first_head = batch * n_kv * share;
  const key_range seen =
      find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window);
  const some_rows rows = find_rows(ROWS, first_row, group, share, n_queries, &seen, q_strides,
                                   mask_strides, first_head, out_rows);
  q += q_offset + batch_offset(batch, batch_dims, q_strides);
  mask += mask_offset + (MASK ? batch_offset(batch, batch_dims, mask_strides) : 0);
  key_pointer keys =
      k + k_offset + batch_offset(batch, batch_dims, k_strides) + group * k_strides.s1;
  key_pointer values =
      v + v_offset + batch_offset(batch, batch_dims, v_strides) + group * v_strides.s1;
  const int q_full = (int)(head_dim / W), q_rest = (int)(head_dim % W), v_full = (int)(v_dim / W),
            v_rest = (int)(v_dim % W);
  realw query[ROWS][Q_MAX / W + 1], sums[ROWS][V_MAX / W + 1];
  real largest[ROWS], total[ROWS], fade[ROWS], p[ROWS][W];
  EACH_ROW largest[r] = (real)(-INFINITY), total[r] = 0;
  EACH_ROW load_row(query[r], sums[r], q + rows.q[r], q_full, q_rest);
  const index_t split_keys = keys_per_split(seen.n, n_splits),
                begin = find_begin(&rows, split, split_keys, window);
  const index_t end = find_end(&seen, &rows, split, split_keys);
  for (index_t from = begin; from < end; from += W) {
    const int some = (int)min(end - from, (index_t)W);
    index_t value_at[W];
    EACH_ROW for (int j = 0; j < W; j++) p[r][j] = (real)(-INFINITY);
    for (int j = 0; j < some; j++) {
      const index_t at = row_of_key(&seen, from + j, n_keys);
      const real factor = SCALED ? scale * k_scale[k_scale_offset + pair * n_keys + at] : scale;
      real scores[ROWS];
      value_at[j] = at * v_strides.s0;
      score_key(scores, query, keys + at * k_strides.s0, q_full, q_rest);
      EACH_ROW if (!is_hidden(from + j, rows.last[r], window)) p[r][j] =
          mask_one(CAP(scores[r] * factor), mask, rows.mask[r] + at * mask_step, masked);
    }
    EACH_ROW fade[r] = soften_row(p[r], &largest[r], &total[r]);
    for (int j = 0; SCALED && j < some; j++)
      EACH_ROW p[r][j] *=
          v_scale[v_scale_offset + pair * n_keys + row_of_key(&seen, from + j, n_keys)];
    add_row_values(sums, p, fade, values, value_at, some, v_full, v_rest);
  }
  for (int r = 0; r < rows.n; r++) {
#if SPLIT
    __global real *to =
        parts + parts_offset +
        ((split * (items / row_blocks) + pair) * n_rows + first_row + r) * (v_dim + 2);
    for (int c = 0; begin < end && c <= v_full; c++)
      store_reals(to + c * W, (int)v_dim - c * W, sums[r][c]);
    to[v_dim] = largest[r];
    to[v_dim + 1] = total[r];
#else
    store_row(out + out_offset + rows.out[r] * v_dim, sums[r], INVERSE(real, total[r]), v_full,
              v_rest);
#endif
  }
}
#endif

/* A work-item joins the splits of one row. Those without keys have written no sums. */
__kernel void attention_merge(const __global real *parts, const long parts_offset,
                              __global STORAGE(X_TYPE) * out, const long out_offset,
                              const index_t n_rows, const index_t v_dim, const index_t n_splits,
                              const index_t n_queries, const index_t out_rows) {
  const index_t r = (index_t)get_global_id(0);
  if (r >= n_rows) return;
  const index_t width = v_dim + 2, part = n_rows * width;
  const __global real *row = parts + parts_offset + r * width;
  real largest = (real)(-INFINITY), total = 0;
  for (index_t s = 0; s < n_splits; s++) largest = larger(largest, row[s * part + v_dim]);
  const real base = FINITE(real, largest);
  for (index_t s = 0; s < n_splits; s++)
    total += row[s * part + v_dim + 1] * exp(row[s * part + v_dim] - base);
  const real inverse = INVERSE(real, total);
  const long to = out_offset + (r / n_queries * out_rows + r % n_queries) * v_dim;
  for (index_t d = 0; d < v_dim; d++) {
    real sum = 0;
    for (index_t s = 0; s < n_splits; s++) {
      const real weight = exp(row[s * part + v_dim] - base);
      if (weight != 0) sum += row[s * part + d] * weight;
    }
    STORE(X_TYPE, out, to + d, sum * inverse);
  }
}

/* ---------------------------------------------------------------- writing to the cache */

#if CACHED
/* A row, or of a float cache `chunk` columns of it, becomes a row of the cache. */
static inline void store_columns(x_pointer x, __global STORAGE(KEY_TYPE) * to,
                                 __global float *scale, index_t begin, index_t end) {
#if SCALED
  real largest = 0;
  for (index_t d = begin; d < end; d++) largest = larger(largest, fabs(LOAD(X_TYPE, x, d)));
  const real factor = largest / 127;
  *scale = factor;
  for (index_t d = begin; d < end; d++) {
    const real value = factor > 0 ? rint(LOAD(X_TYPE, x, d) / factor) : 0;
    STORE(KEY_TYPE, to, d, isnan(value) ? 0 : clamp(value, (real)-127, (real)127));
  }
#else
  for (index_t d = begin; d < end; d++) STORE(KEY_TYPE, to, d, LOAD(X_TYPE, x, d));
#endif
}

/* x: k for second index 0, v for 1. items: batch, head, new row, chunk of columns. Strides of k and
 * v as in attention. */
__kernel void attention_store(const __global STORAGE(X_TYPE) * k, const long k_offset,
                              const __global STORAGE(X_TYPE) * v, const long v_offset,
                              __global STORAGE(KEY_TYPE) * key_cache, const long key_cache_offset,
                              __global STORAGE(KEY_TYPE) * value_cache,
                              const long value_cache_offset, __global float *k_scale,
                              const long k_scale_offset, __global float *v_scale,
                              const long v_scale_offset, const __global long *position,
                              const long position_offset, const index8 k_strides,
                              const index8 v_strides, const index_t items, const index_t n_chunks,
                              const index_t chunk, const index_t n_kv, const index_t n_new,
                              const index_t n_keys, const index_t head_dim, const index_t v_dim,
                              const index_t total, const index_t skip, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  const bool is_value = get_global_id(1) > 0;
  if (item >= items) return;
  const long at = position[position_offset];
  if (at < 0 || at > last_position(total, n_keys)) {
    set_fault(fault, fault_node, FAULT_ROWS, at, total, n_keys);
    return;
  }
  const index_t i = item / n_chunks % n_new, head = item / n_chunks / n_new, group = head % n_kv,
                batch = head / n_kv;
  const index8 strides = is_value ? v_strides : k_strides;
  const index_t size = is_value ? v_dim : head_dim, begin = item % n_chunks * chunk;
  const long row = head * (long)n_keys + (at + skip + i) % n_keys;
  x_pointer x = is_value ? v + v_offset : k + k_offset;
  __global STORAGE(KEY_TYPE) *to =
      is_value ? value_cache + value_cache_offset : key_cache + key_cache_offset;
  __global float *scale = is_value ? v_scale + v_scale_offset : k_scale + k_scale_offset;
  x += batch * strides.s2 + group * strides.s1 + i * strides.s0;
  store_columns(x, to + row * size, scale + row, begin, min(begin + chunk, size));
}
#endif
