/* out[b, h, i] = sum over j of softmax over j of (q[b, h, i] . k[b, g, j] * scale + mask[b, h, i, j]) v[b, g, j]
 *
 * Heads h of q share head g = h / share of k and v; their queries together are the rows r = (h % share) * n_queries + i of g.
 * A work-item takes W rows of one g, a SPLIT of the keys, and V_MAX columns of v; it walks the keys KEYS at a time and keeps
 * per row the running maximum, the sum of exponentials and the sum of weighted values (Dao et al.). With SPLIT these go to
 * `parts` for attention_merge. Lanes beyond the last row repeat it and are not stored.
 * attention_row does the same for one row a work-item, W neighbours of head_dim and v_dim at once: for few rows (decoding).
 * MASK: 0 none, 1 BOOL (true = attend), 2 added. CAUSAL: j <= i. A row that may attend to nothing gives 0.
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

/* Column d of the W rows. */
static inline realw gather_rows(x_pointer q, const index_t *rows, index_t d) {
#if W == 1
  return LOAD(X_TYPE, q, rows[0] + d);
#else
  real lanes[W];
  for (int l = 0; l < W; l++) lanes[l] = LOAD(X_TYPE, q, rows[l] + d);
  return vload16(0, lanes);
#endif
}

#if Q_MAX > 0
#define QUERY(d) query[d]
#else
#define QUERY(d) gather_rows(q, q_rows, d)
#endif

/* scores[j] of KEYS keys k + j * step (`some` of them are there). */
#define DOT(scores)                                                                                  \
  EACH_KEY scores[j] = (realw)0;                                                                     \
  for (index_t from = 0; from < head_dim; from += BLOCK) {                                           \
    const index_t end = min(from + BLOCK, head_dim);                                                 \
    realw sums[KEYS];                                                                                \
    EACH_KEY sums[j] = (realw)0;                                                                     \
    for (index_t d = from; d < end; d++) {                                                           \
      const realw value = QUERY(d);                                                                  \
      EACH_KEY sums[j] = fma(value, (realw)LOAD(X_TYPE, keys, key_at[j] + d), sums[j]);     \
    }                                                                                                \
    EACH_KEY scores[j] += sums[j];                                                                   \
  }

#if MASK
static inline realw masked(realw score, const __global STORAGE(MASK_TYPE) *mask, const index_t *mask_rows, index_t at) {
  real lanes[W];
#if W == 1
  lanes[0] = score;
#else
  vstore16(score, 0, lanes);
#endif
  for (int l = 0; l < W; l++) {
#if MASK == 1
    if (!mask[mask_rows[l] + at]) lanes[l] = (real)(-INFINITY);
#else
    lanes[l] += LOAD(MASK_TYPE, mask, mask_rows[l] + at);
#endif
  }
#if W == 1
  return lanes[0];
#else
  return vload16(0, lanes);
#endif
}
#endif

/* Strides of q and mask: s0 row, s1 head, then batch; of k, v: s0 row, s1 head, then batch. batch_dims: innermost first.
 * out (batch, heads, n_queries, v_dim) and parts (split, row of all heads, v_dim + 2) are row-major. */
__kernel void attention(const __global STORAGE(X_TYPE) *q, const long q_offset, const __global STORAGE(X_TYPE) *k,
                        const long k_offset, const __global STORAGE(X_TYPE) *v, const long v_offset,
                        const __global STORAGE(MASK_TYPE) *mask, const long mask_offset, __global STORAGE(X_TYPE) *out,
                        const long out_offset, __global real *parts, const long parts_offset, const index8 batch_dims,
                        const index8 q_strides, const index8 k_strides, const index8 v_strides, const index8 mask_strides,
                        const index_t mask_step, const index_t items, const index_t n_kv, const index_t share,
                        const index_t n_queries, const index_t n_keys, const index_t head_dim, const index_t v_dim,
                        const index_t split_keys, const real scale) {
  index_t item = (index_t)get_global_id(0);
  const index_t split = (index_t)get_global_id(1), column = (index_t)get_global_id(2) * V_MAX;
  if (item >= items || split * split_keys > n_keys || column >= v_dim) return;
  const index_t n_rows = share * n_queries, row_blocks = (n_rows + W - 1) / W;
  const index_t first_row = item % row_blocks * W;
  const int some_rows = (int)min((index_t)W, n_rows - first_row);
  item /= row_blocks;
  const index_t group = item % n_kv, batch = item / n_kv;
  q += q_offset + batch_offset(batch, batch_dims, q_strides);
  const index_t columns = min(v_dim - column, (index_t)V_MAX);
  x_pointer keys = k + k_offset + batch_offset(batch, batch_dims, k_strides) + group * k_strides.s1;
  x_pointer values = v + v_offset + batch_offset(batch, batch_dims, v_strides) + group * v_strides.s1 + column;
#if MASK
  mask += mask_offset + batch_offset(batch, batch_dims, mask_strides);
  index_t mask_rows[W];
#endif
  index_t q_rows[W];
  real query_number[W];
  index_t last_query = 0;
  for (int l = 0; l < W; l++) {
    const index_t r = first_row + min(l, some_rows - 1);
    const index_t head = group * share + r / n_queries, i = r % n_queries;
    q_rows[l] = head * q_strides.s1 + i * q_strides.s0;
#if MASK
    mask_rows[l] = head * mask_strides.s1 + i * mask_strides.s0;
#endif
    query_number[l] = (real)i;
    last_query = max(last_query, i);
  }
#if Q_MAX > 0
  realw query[Q_MAX];
  for (index_t d = 0; d < head_dim; d++) query[d] = gather_rows(q, q_rows, d);
#endif
#if W == 1
  const realw numbers = query_number[0];
#else
  const realw numbers = vload16(0, query_number);
#endif
  realw sums[V_MAX];
  for (index_t d = 0; d < columns; d++) sums[d] = (realw)0;
  realw largest = (realw)(-INFINITY), total = (realw)0;
  index_t end = min((split + 1) * split_keys, n_keys);
  if (CAUSAL) end = min(end, last_query + 1);
  for (index_t from = split * split_keys; from < end; from += KEYS) {
    index_t key_at[KEYS], value_at[KEYS];
    EACH_KEY key_at[j] = min(from + j, n_keys - 1) * k_strides.s0;
    EACH_KEY value_at[j] = min(from + j, n_keys - 1) * v_strides.s0;
    realw p[KEYS];
    DOT(p)
    realw highest = largest;
    EACH_KEY {
      p[j] *= scale;
#if MASK
      p[j] = masked(p[j], mask, mask_rows, min(from + j, n_keys - 1) * mask_step);
#endif
      if (CAUSAL) p[j] = numbers < (realw)(real)(from + j) ? (realw)(-INFINITY) : p[j];
      if (from + j >= end) p[j] = (realw)(-INFINITY);
      highest = larger(highest, p[j]);
    }
    /* Nothing to attend to so far: any finite number will do. */
    const realw base = highest == (realw)(-INFINITY) ? (realw)0 : highest;
    const realw fade = exp(largest - base);
    largest = highest;
    realw block = (realw)0;
    EACH_KEY {
      p[j] = exp(p[j] - base);
      block += p[j];
    }
    total = total * fade + block;
    for (index_t d = 0; d < columns; d++) {
      realw sum = sums[d] * fade;
      EACH_KEY sum = fma(p[j], (realw)LOAD(X_TYPE, values, value_at[j] + d), sum);
      sums[d] = sum;
    }
  }
#if SPLIT
  parts += parts_offset + ((split * (items / row_blocks) + batch * n_kv + group) * n_rows + first_row) * (v_dim + 2);
#else
  out += out_offset + ((batch * n_kv + group) * n_rows + first_row) * v_dim;
  const realw inverse = total == (realw)0 ? (realw)0 : 1 / total;
#endif
  for (index_t d = 0; d < columns; d++) {
#if SPLIT
    const realw result = sums[d];
#else
    const realw result = sums[d] * inverse;
#endif
    real lanes[W];
#if W == 1
    lanes[0] = result;
#else
    vstore16(result, 0, lanes);
#endif
#if SPLIT
    for (int l = 0; l < some_rows; l++) parts[l * (v_dim + 2) + column + d] = lanes[l];
#else
    for (int l = 0; l < some_rows; l++) STORE(X_TYPE, out, l * v_dim + column + d, lanes[l]);
#endif
  }
#if SPLIT
  if (column == 0) {
    real lanes[2 * W];
#if W == 1
    lanes[0] = largest;
    lanes[1] = total;
#else
    vstore16(largest, 0, lanes);
    vstore16(total, 1, lanes);
#endif
    for (int l = 0; l < some_rows; l++) {
      parts[l * (v_dim + 2) + v_dim] = lanes[l];
      parts[l * (v_dim + 2) + v_dim + 1] = lanes[W + l];
    }
  }
#endif
}

#if W > 1 && Q_MAX > 0
/* Row r of a group: as attention, with items = batches * n_kv * rows. W keys at a time. */
__kernel void attention_row(const __global STORAGE(X_TYPE) *q, const long q_offset, const __global STORAGE(X_TYPE) *k,
                            const long k_offset, const __global STORAGE(X_TYPE) *v, const long v_offset,
                            const __global STORAGE(MASK_TYPE) *mask, const long mask_offset,
                            __global STORAGE(X_TYPE) *out, const long out_offset, __global real *parts,
                            const long parts_offset, const index8 batch_dims, const index8 q_strides,
                            const index8 k_strides, const index8 v_strides, const index8 mask_strides,
                            const index_t mask_step, const index_t items, const index_t n_kv, const index_t share,
                            const index_t n_queries, const index_t n_keys, const index_t head_dim, const index_t v_dim,
                            const index_t split_keys, const real scale) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1);
  if (item >= items || split * split_keys > n_keys) return;
  const index_t n_rows = share * n_queries, row = item % n_rows, group = item / n_rows % n_kv, batch = item / n_rows / n_kv;
  const index_t head = group * share + row / n_queries, i = row % n_queries;
  q += q_offset + batch_offset(batch, batch_dims, q_strides) + head * q_strides.s1 + i * q_strides.s0;
  x_pointer keys = k + k_offset + batch_offset(batch, batch_dims, k_strides) + group * k_strides.s1;
  x_pointer values = v + v_offset + batch_offset(batch, batch_dims, v_strides) + group * v_strides.s1;
#if MASK
  mask += mask_offset + batch_offset(batch, batch_dims, mask_strides) + head * mask_strides.s1 + i * mask_strides.s0;
#endif
  const int q_full = (int)(head_dim / W), q_rest = (int)(head_dim % W), v_full = (int)(v_dim / W), v_rest = (int)(v_dim % W);
  realw query[Q_MAX / W + 1], sums[V_MAX / W + 1];
  for (int c = 0; c < q_full; c++) query[c] = LOADW(X_TYPE, q + c * W);
  query[q_full] = q_rest ? LOAD_SOME(X_TYPE, q + q_full * W, q_rest) : (realw)0;
  for (int c = 0; c <= v_full; c++) sums[c] = (realw)0;
  real largest = (real)(-INFINITY), total = 0;
  index_t end = min((split + 1) * split_keys, n_keys);
  if (CAUSAL) end = min(end, i + 1);
  for (index_t from = split * split_keys; from < end; from += W) {
    const int some = (int)min(end - from, (index_t)W);
    real lanes[W];
    for (int j = 0; j < W; j++) lanes[j] = (real)(-INFINITY);
    for (int j = 0; j < some; j++) {
      x_pointer key = keys + (from + j) * k_strides.s0;
      realw dot_lanes = (realw)0;
      for (int c = 0; c < q_full; c++) dot_lanes = fma(query[c], LOADW(X_TYPE, key + c * W), dot_lanes);
      if (q_rest) dot_lanes = fma(query[q_full], LOAD_SOME(X_TYPE, key + q_full * W, q_rest), dot_lanes);
      lanes[j] = fold_add(dot_lanes) * scale;
#if MASK == 1
      if (!mask[(from + j) * mask_step]) lanes[j] = (real)(-INFINITY);
#elif MASK == 2
      lanes[j] += LOAD(MASK_TYPE, mask, (from + j) * mask_step);
#endif
    }
    real highest = largest;
    for (int j = 0; j < W; j++) highest = larger(highest, lanes[j]);
    const real base = highest == (real)(-INFINITY) ? (real)0 : highest; /* as above */
    const real fade = exp(largest - base);
    largest = highest;
    const realw p = exp(vload16(0, lanes) - base);
    vstore16(p, 0, lanes);
    total = total * fade + fold_add(p);
    for (int c = 0; c < v_full; c++) {
      realw sum = sums[c] * fade;
      for (int j = 0; j < some; j++) sum = fma((realw)lanes[j], LOADW(X_TYPE, values + (from + j) * v_strides.s0 + c * W), sum);
      sums[c] = sum;
    }
    if (v_rest) {
      realw sum = sums[v_full] * fade;
      for (int j = 0; j < some; j++)
        sum = fma((realw)lanes[j], LOAD_SOME(X_TYPE, values + (from + j) * v_strides.s0 + v_full * W, v_rest), sum);
      sums[v_full] = sum;
    }
  }
#if SPLIT
  parts += parts_offset + (split * items + item) * (v_dim + 2);
  for (int c = 0; c <= v_full; c++) store_reals(parts + c * W, (int)v_dim - c * W, sums[c]);
  parts[v_dim] = largest;
  parts[v_dim + 1] = total;
#else
  out += out_offset + item * v_dim;
  const real inverse = total == 0 ? (real)0 : 1 / total;
  for (int c = 0; c < v_full; c++) STOREW(X_TYPE, out + c * W, sums[c] * inverse);
  if (v_rest) STORE_SOME(X_TYPE, out + v_full * W, v_rest, sums[v_full] * inverse);
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
  const real base = largest == (real)(-INFINITY) ? (real)0 : largest;
  for (index_t s = 0; s < n_splits; s++) total += row[s * part + v_dim + 1] * exp(row[s * part + v_dim] - base);
  const real inverse = total == 0 ? (real)0 : 1 / total;
  for (index_t d = 0; d < v_dim; d++) {
    real sum = 0;
    for (index_t s = 0; s < n_splits; s++) sum += row[s * part + d] * exp(row[s * part + v_dim] - base);
    STORE(X_TYPE, out, out_offset + r * v_dim + d, sum * inverse);
  }
}
