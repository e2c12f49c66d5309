/* out[b, h, i] = sum over j of softmax over j of (q[b, h, i] . k[b, g, j] * scale + mask[b, h, i, j]) v[b, g, j]
 *
 * Heads h of q share head g = h / share of k and v; their queries together are the rows r = (h % share) * n_queries + i of g.
 * A work-item takes W rows of one g, a SPLIT of the keys, and V_MAX columns of v; it walks the keys KEYS at a time and keeps
 * per row the running maximum, the sum of exponentials and the sum of weighted values (Dao et al.). With SPLIT these go to
 * `parts` for attention_merge. Lanes beyond the last row repeat it and are not stored.
 * attention_row does the same for one row a work-item, W neighbours of head_dim and v_dim at once: for few rows (decoding).
 * MASK: 0 none, 1 BOOL (true = attend, else the score is `masked`), 2 added. CAUSAL: j <= i. A row of scores -inf gives 0, or
 * with EMPTY_NAN NaN.
 * Q_MAX: head_dim up to it, the queries are kept in private memory; 0: any, read again each time.
 * Private layout: lane = row, one vector per column. */
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
#ifndef KEYS
#define KEYS 8
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#include "vector.h"

DEFINE_SOME(X_TYPE)
#define EACH_KEY _Pragma("unroll") for (int j = 0; j < KEYS; j++)

typedef const __global STORAGE(X_TYPE) *x_pointer;

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

/* Where row r of a group begins in q and mask, and which query it is. */
#define HEAD_OF(r) (group * share + (r) / n_queries)
#define QUERY_OF(r) ((r) % n_queries)

/* exp may not see -INFINITY - -INFINITY: with nothing to attend to so far, any finite number will do. */
#define FINITE(T, m) ((m) == (T)(-INFINITY) ? (T)0 : (m))
/* What sums of `total` exponentials are divided by; of a row without any they are 0, and so is that, or infinite. */
#if EMPTY_NAN
#define INVERSE(T, total) (1 / (total))
#else
#define INVERSE(T, total) ((total) == (T)0 ? (T)0 : 1 / (total))
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

/* scores[j] = the W rows times the key at keys + key_at[j]. */
static inline void score_keys(realw scores[KEYS], x_pointer q, const index_t *q_rows, const realw *query, x_pointer keys,
                              const index_t key_at[KEYS], index_t head_dim) {
  EACH_KEY scores[j] = (realw)0;
  for (index_t from = 0; from < head_dim; from += BLOCK) {
    const index_t end = min(from + BLOCK, head_dim);
    realw sums[KEYS];
    EACH_KEY sums[j] = (realw)0;
    for (index_t d = from; d < end; d++) {
      const realw value = QUERY(d);
      EACH_KEY sums[j] = fma(value, (realw)LOAD(X_TYPE, keys, key_at[j] + d), sums[j]);
    }
    EACH_KEY scores[j] += sums[j];
  }
}

/* A score after the mask; at: of the key in a row of the mask. */
static inline realw mask_score(realw score, const __global STORAGE(MASK_TYPE) *mask, const index_t *mask_rows, index_t at,
                               real masked) {
#if MASK
  real lanes[W];
  TO_LANES(score, lanes);
  for (int l = 0; l < W; l++) {
#if MASK == 1
    if (!mask[mask_rows[l] + at]) lanes[l] = masked;
#else
    lanes[l] += LOAD(MASK_TYPE, mask, mask_rows[l] + at);
#endif
  }
  return FROM_LANES(lanes);
#else
  return score;
#endif
}

static inline real mask_one(real score, const __global STORAGE(MASK_TYPE) *mask, long at, real masked) {
#if MASK == 1
  return mask[at] ? score : masked;
#elif MASK == 2
  return score + LOAD(MASK_TYPE, mask, at);
#else
  return score;
#endif
}

/* Scores become exponentials relative to the new maximum. Returns what the sums so far shrink by. */
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

static inline void add_values(realw *sums, const realw p[KEYS], realw fade, x_pointer values, const index_t value_at[KEYS],
                              index_t columns) {
  for (index_t d = 0; d < columns; d++) {
    realw sum = sums[d] * fade;
    EACH_KEY sum = fma(p[j], (realw)LOAD(X_TYPE, values, value_at[j] + d), sum);
    sums[d] = sum;
  }
}

/* Lane l of each vector d is element (l, d) of out, whose rows are `step` apart. */
static inline void store_rows(__global STORAGE(X_TYPE) *out, index_t step, int rows, const realw *sums, index_t columns,
                              const realw total) {
  const realw inverse = INVERSE(realw, total);
  for (index_t d = 0; d < columns; d++) {
    real lanes[W];
    TO_LANES(sums[d] * inverse, lanes);
    for (int l = 0; l < rows; l++) STORE(X_TYPE, out, l * step + d, lanes[l]);
  }
}

/* The same of unfinished sums. */
static inline void store_parts(__global real *parts, index_t step, int rows, const realw *sums, index_t columns) {
  for (index_t d = 0; d < columns; d++) {
    real lanes[W];
    TO_LANES(sums[d], lanes);
    for (int l = 0; l < rows; l++) parts[l * step + d] = lanes[l];
  }
}

/* Strides of q and mask: s0 row, s1 head, then batch; of k, v: s0 row, s1 head, then batch. batch_dims: innermost first.
 * out (batch, heads, n_queries, v_dim) and parts (split, row of all heads, v_dim + 2) are row-major. */
__kernel void attention(const __global STORAGE(X_TYPE) *q, const long q_offset, const __global STORAGE(X_TYPE) *k,
                        const long k_offset, const __global STORAGE(X_TYPE) *v, const long v_offset,
                        const __global STORAGE(MASK_TYPE) *mask, const long mask_offset, __global STORAGE(X_TYPE) *out,
                        const long out_offset, __global real *parts, const long parts_offset, const index8 batch_dims,
                        const index8 q_strides, const index8 k_strides, const index8 v_strides, const index8 mask_strides,
                        const index_t mask_step, const index_t items, const index_t n_kv, const index_t share,
                        const index_t n_queries, const index_t n_keys, const index_t head_dim, const index_t v_dim,
                        const index_t split_keys, const real scale, const real masked) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1), column = (index_t)get_global_id(2) * V_MAX;
  if (item >= items || split * split_keys > n_keys || column >= v_dim) return;
  const index_t n_rows = share * n_queries, row_blocks = (n_rows + W - 1) / W, first_row = item % row_blocks * W;
  const index_t group = item / row_blocks % n_kv, batch = item / row_blocks / n_kv, columns = min(v_dim - column, (index_t)V_MAX);
  const int some_rows = (int)min((index_t)W, n_rows - first_row);
  q += q_offset + batch_offset(batch, batch_dims, q_strides);
  mask += mask_offset + (MASK ? batch_offset(batch, batch_dims, mask_strides) : 0);
  x_pointer keys = k + k_offset + batch_offset(batch, batch_dims, k_strides) + group * k_strides.s1;
  x_pointer values = v + v_offset + batch_offset(batch, batch_dims, v_strides) + group * v_strides.s1 + column;
  index_t q_rows[W], mask_rows[W], last_query = 0;
  real query_number[W];
  for (int l = 0; l < W; l++) {
    const index_t r = first_row + min(l, some_rows - 1);
    q_rows[l] = HEAD_OF(r) * q_strides.s1 + QUERY_OF(r) * q_strides.s0;
    mask_rows[l] = HEAD_OF(r) * mask_strides.s1 + QUERY_OF(r) * mask_strides.s0;
    query_number[l] = (real)QUERY_OF(r);
    last_query = max(last_query, QUERY_OF(r));
  }
  realw query[Q_MAX + 1], sums[V_MAX], largest = (realw)(-INFINITY), total = (realw)0;
  for (index_t d = 0; Q_MAX > 0 && d < head_dim; d++) query[d] = gather_rows(q, q_rows, d);
  for (index_t d = 0; d < columns; d++) sums[d] = (realw)0;
  const realw numbers = FROM_LANES(query_number);
  index_t end = min((split + 1) * split_keys, n_keys);
  if (CAUSAL) end = min(end, last_query + 1);
  for (index_t from = split * split_keys; from < end; from += KEYS) {
    index_t key_at[KEYS], value_at[KEYS];
    EACH_KEY key_at[j] = min(from + j, n_keys - 1) * k_strides.s0;
    EACH_KEY value_at[j] = min(from + j, n_keys - 1) * v_strides.s0;
    realw p[KEYS];
    score_keys(p, q, q_rows, query, keys, key_at, head_dim);
    EACH_KEY {
      p[j] = mask_score(p[j] * scale, mask, mask_rows, min(from + j, n_keys - 1) * mask_step, masked);
      if (CAUSAL) p[j] = numbers < (realw)(real)(from + j) ? (realw)(-INFINITY) : p[j];
      if (from + j >= end) p[j] = (realw)(-INFINITY);
    }
    const realw fade = soften(p, &largest, &total);
    add_values(sums, p, fade, values, value_at, columns);
  }
  const index_t row = (batch * n_kv + group) * n_rows + first_row;
#if SPLIT
  parts += parts_offset + (split * (items / row_blocks) * n_rows + row) * (v_dim + 2);
  const realw ends[2] = {largest, total};
  store_parts(parts + column, v_dim + 2, some_rows, sums, columns);
  if (column == 0) store_parts(parts + v_dim, v_dim + 2, some_rows, ends, 2);
#else
  store_rows(out + out_offset + row * v_dim + column, v_dim, some_rows, sums, columns, total);
#endif
}

#if W > 1 && Q_MAX > 0
/* The dot product of a key and the query's vectors. */
static inline real score_key(const realw *query, x_pointer key, int full, int rest) {
  realw sum = (realw)0;
  for (int c = 0; c < full; c++) sum = fma(query[c], LOADW(X_TYPE, key + c * W), sum);
  if (rest) sum = fma(query[full], LOAD_SOME(X_TYPE, key + full * W, rest), sum);
  return fold_add(sum);
}

/* sums of `full` whole vectors and one of `rest` columns += p[j] times the values of `some` keys, `step` apart. */
static inline void add_row_values(realw *sums, const real *p, real fade, x_pointer values, index_t step, int some, int full,
                                  int rest) {
  for (int c = 0; c < full; c++) {
    realw sum = sums[c] * fade;
    for (int j = 0; j < some; j++) sum = fma((realw)p[j], LOADW(X_TYPE, values + j * step + c * W), sum);
    sums[c] = sum;
  }
  if (!rest) return;
  realw sum = sums[full] * fade;
  for (int j = 0; j < some; j++) sum = fma((realw)p[j], LOAD_SOME(X_TYPE, values + j * step + full * W, rest), sum);
  sums[full] = sum;
}

/* Row r of a group: as attention, with items = batches * n_kv * rows. W keys at a time. */
__kernel void attention_row(const __global STORAGE(X_TYPE) *q, const long q_offset, const __global STORAGE(X_TYPE) *k,
                            const long k_offset, const __global STORAGE(X_TYPE) *v, const long v_offset,
                            const __global STORAGE(MASK_TYPE) *mask, const long mask_offset,
                            __global STORAGE(X_TYPE) *out, const long out_offset, __global real *parts,
                            const long parts_offset, const index8 batch_dims, const index8 q_strides,
                            const index8 k_strides, const index8 v_strides, const index8 mask_strides,
                            const index_t mask_step, const index_t items, const index_t n_kv, const index_t share,
                            const index_t n_queries, const index_t n_keys, const index_t head_dim, const index_t v_dim,
                            const index_t split_keys, const real scale, const real masked) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1);
  if (item >= items || split * split_keys > n_keys) return;
  const index_t n_rows = share * n_queries, r = item % n_rows, group = item / n_rows % n_kv, batch = item / n_rows / n_kv;
  q += q_offset + batch_offset(batch, batch_dims, q_strides) + HEAD_OF(r) * q_strides.s1 + QUERY_OF(r) * q_strides.s0;
  x_pointer keys = k + k_offset + batch_offset(batch, batch_dims, k_strides) + group * k_strides.s1;
  x_pointer values = v + v_offset + batch_offset(batch, batch_dims, v_strides) + group * v_strides.s1;
  const index_t mask_row = batch_offset(batch, batch_dims, mask_strides) + HEAD_OF(r) * mask_strides.s1 + QUERY_OF(r) * mask_strides.s0;
  const int q_full = (int)(head_dim / W), q_rest = (int)(head_dim % W), v_full = (int)(v_dim / W), v_rest = (int)(v_dim % W);
  realw query[Q_MAX / W + 1], sums[V_MAX / W + 1];
  for (int c = 0; c < q_full; c++) query[c] = LOADW(X_TYPE, q + c * W);
  query[q_full] = q_rest ? LOAD_SOME(X_TYPE, q + q_full * W, q_rest) : (realw)0;
  for (int c = 0; c <= v_full; c++) sums[c] = (realw)0;
  real largest = (real)(-INFINITY), total = 0;
  index_t end = min((split + 1) * split_keys, n_keys);
  if (CAUSAL) end = min(end, QUERY_OF(r) + 1);
  for (index_t from = split * split_keys; from < end; from += W) {
    const int some = (int)min(end - from, (index_t)W);
    real lanes[W], highest = largest;
    for (int j = 0; j < W; j++) lanes[j] = (real)(-INFINITY);
    for (int j = 0; j < some; j++) {
      const real score = score_key(query, keys + (from + j) * k_strides.s0, q_full, q_rest) * scale;
      lanes[j] = mask_one(score, mask, mask_offset + mask_row + (from + j) * mask_step, masked);
      highest = larger(highest, lanes[j]);
    }
    const real base = FINITE(real, highest), fade = exp(largest - base);
    const realw p = exp(vload16(0, lanes) - base);
    vstore16(p, 0, lanes);
    largest = highest;
    total = total * fade + fold_add(p);
    add_row_values(sums, lanes, fade, values + from * v_strides.s0, v_strides.s0, some, v_full, v_rest);
  }
#if SPLIT
  parts += parts_offset + (split * items + item) * (v_dim + 2);
  for (int c = 0; c <= v_full; c++) store_reals(parts + c * W, (int)v_dim - c * W, sums[c]);
  parts[v_dim] = largest;
  parts[v_dim + 1] = total;
#else
  out += out_offset + item * v_dim;
  for (int c = 0; c <= v_full; c++) sums[c] *= INVERSE(real, total);
  for (int c = 0; c < v_full; c++) STOREW(X_TYPE, out + c * W, sums[c]);
  if (v_rest) STORE_SOME(X_TYPE, out + v_full * W, v_rest, sums[v_full]);
#endif
}
#endif

/* A work-item joins the splits of one row. */
__kernel void attention_merge(const __global real *parts, const long parts_offset, __global STORAGE(X_TYPE) *out,
                              const long out_offset, const index_t n_rows, const index_t v_dim, const index_t n_splits) {
  const index_t r = (index_t)get_global_id(0);
  if (r >= n_rows) return;
  const index_t width = v_dim + 2, part = n_rows * width;
  const __global real *row = parts + parts_offset + r * width;
  real largest = (real)(-INFINITY), total = 0;
  for (index_t s = 0; s < n_splits; s++) largest = larger(largest, row[s * part + v_dim]);
  const real base = FINITE(real, largest);
  for (index_t s = 0; s < n_splits; s++) total += row[s * part + v_dim + 1] * exp(row[s * part + v_dim] - base);
  const real inverse = INVERSE(real, total);
  for (index_t d = 0; d < v_dim; d++) {
    real sum = 0;
    for (index_t s = 0; s < n_splits; s++) sum += row[s * part + d] * exp(row[s * part + v_dim] - base);
    STORE(X_TYPE, out, out_offset + r * v_dim + d, sum * inverse);
  }
}
