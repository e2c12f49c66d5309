/* The attention of attention.cl for few rows on devices with many work-items. A group of WORKERS
 * computes ROWS rows of one g, which share all loads, over a SPLIT of the keys, KEYS at a time.
 * First, SHARERS neighbouring work-items compute the scores of one key, four columns each. Then
 * eight work-items per row turn scores into weights. Then each work-item sums four columns of the
 * values, of every SLICES-th key. */
#ifndef W
#define W 1
#endif
#include "attention.h"
#include "quads.h"
#define WORKERS 64
#define KEYS WORKERS
#define SHARERS 8 /* work-items per key, and per row */
#define QUADS (V_MAX / 4)
#define SLICES (WORKERS / QUADS)
#define PITCH (SHARERS + 1) /* puts neighbouring keys into different banks */
#define WORKER ((int)get_local_id(0))
#define ROW (WORKER / SHARERS) /* row of this work-item; may be beyond the last */
#define SHARER (WORKER % SHARERS)
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)

/* A group's arrays in local memory. */
typedef struct workspace {
  __local real *queries; /* (ROWS, Q_MAX), times the scale; 0 beyond head_dim */
  __local real *shares;  /* (ROWS, KEYS, PITCH) of scores, or (SLICES, ROWS, V_MAX) of sums */
  __local real *weights; /* (ROWS, KEYS) */
  __local real *ends;    /* (ROWS, SHARERS) */
  __local real *fade;    /* (ROWS) */
  __local index_t *at;   /* (KEYS): rows of the keys */
} workspace;
#define RESERVE_LOCAL(m)                                                   \
  __local real m##_queries[ROWS * Q_MAX], m##_shares[ROWS * KEYS * PITCH], \
      m##_weights[ROWS * KEYS], m##_ends[ROWS * SHARERS], m##_fade[ROWS];  \
  __local index_t m##_at[KEYS];                                            \
  const workspace m = {m##_queries, m##_shares, m##_weights, m##_ends, m##_fade, m##_at}

static inline void stage_queries(const workspace *m, x_pointer q, const some_rows *rows,
                                 index_t head_dim, real scale) {
  for (int r = 0; r < ROWS; r++)
    for (int d = WORKER; d < Q_MAX; d += WORKERS)
      m->queries[r * Q_MAX + d] = d < head_dim ? LOAD(X_TYPE, q, rows->q[r] + d) * scale : (real)0;
}

/* Multiplies the rows by the first `some` keys over the work-item's share of the columns. */
static inline void share_scores(const workspace *m, key_pointer keys, index_t stride,
                                index_t head_dim, int some) {
  for (int key = ROW; key < some; key += WORKERS / SHARERS) {
    key_pointer row = keys + m->at[key] * stride;
    real4 sums[ROWS];
    EACH_ROW sums[r] = (real4)0;
    for (int d = 4 * SHARER; d < head_dim; d += 4 * SHARERS) {
      const real4 four = LOAD_QUAD(KEY_TYPE, row + d, head_dim - d);
      EACH_ROW sums[r] = FMA(vload4(0, m->queries + r * Q_MAX + d), four, sums[r]);
    }
    EACH_ROW m->shares[(r * KEYS + key) * PITCH + SHARER] =
        (sums[r].s0 + sums[r].s1) + (sums[r].s2 + sums[r].s3);
  }
}

/* Adds up the score of the work-item's key, which is -INFINITY for a missing or invisible key. */
static inline void join_scores(const workspace *m, const some_rows *rows,
                               const __global STORAGE(MASK_TYPE) * mask, index_t mask_step,
                               index_t from, int some, index_t window, real factor, real masked,
                               real softcap) {
  EACH_ROW {
    real score = (real)(-INFINITY);
    if (WORKER < some && !is_hidden(from + WORKER, rows->last[r], window)) {
      const __local real *shares = m->shares + (r * KEYS + WORKER) * PITCH;
      score = ((shares[0] + shares[1]) + (shares[2] + shares[3])) +
              ((shares[4] + shares[5]) + (shares[6] + shares[7]));
      score =
          mask_one(CAP(score * factor), mask, rows->mask[r] + m->at[WORKER] * mask_step, masked);
    }
    m->weights[r * KEYS + WORKER] = score;
  }
}

/* Replaces the scores of row ROW by weights relative to the new maximum, by eight work-items. */
static inline void exponentiate(const workspace *m, real *largest, real *total) {
  __local real *weights = m->weights + ROW * KEYS, *ends = m->ends + ROW * SHARERS;
  real highest = *largest;
  if (ROW < ROWS) {
    for (int j = SHARER; j < KEYS; j += SHARERS) highest = larger(highest, weights[j]);
    ends[SHARER] = highest;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (ROW < ROWS) {
    for (int t = 0; t < SHARERS; t++) highest = larger(highest, ends[t]);
    const real base = FINITE(real, highest), fade = exp(*largest - base);
    real sum = 0;
    for (int j = SHARER; j < KEYS; j += SHARERS) {
      const real p = exp(weights[j] - base);
      weights[j] = p;
      sum += p;
    }
    *largest = highest;
    *total = *total * fade + sum;
    if (SHARER == 0) m->fade[ROW] = fade;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

/* Adds four columns of the weighted values, over the keys of the work-item's slice. factors: scales
 * of the rows of values, or NULL. */
static inline void add_values(real4 sums[ROWS], const workspace *m, key_pointer values,
                              index_t stride, index_t v_dim, int some,
                              const __global float *factors) {
  const index_t d = 4 * (WORKER % QUADS);
  EACH_ROW sums[r] *= m->fade[r];
  for (int j = WORKER / QUADS; j < some && d < v_dim; j += SLICES) {
    real4 four = LOAD_QUAD(KEY_TYPE, values + m->at[j] * stride + d, v_dim - d);
    if (SCALED) four *= factors[m->at[j]];
    EACH_ROW sums[r] = FMA((real4)m->weights[r * KEYS + j], four, sums[r]);
  }
}

/* Returns the sum of column d of a row over all slices. */
static inline real join_slices(const workspace *m, int r, index_t d) {
  real sum = 0;
  for (int slice = 0; slice < SLICES; slice++) sum += m->shares[(slice * ROWS + r) * V_MAX + d];
  return sum;
}
/* Returns the sum of a row's exponentials. */
static inline real join_totals(const workspace *m, int r) {
  const __local real *ends = m->ends + r * SHARERS;
  return ((ends[0] + ends[1]) + (ends[2] + ends[3])) + ((ends[4] + ends[5]) + (ends[6] + ends[7]));
}

/* Writes the sums, totals and maxima of the work-items to local memory. */
static inline void put_together(const workspace *m, const real4 sums[ROWS], real largest,
                                real total) {
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ROW vstore4(sums[r], 0,
                   m->shares + (WORKER / QUADS * ROWS + r) * V_MAX + 4 * (WORKER % QUADS));
  if (ROW < ROWS) m->ends[ROW * SHARERS + SHARER] = total;
  if (ROW < ROWS && SHARER == 0) m->fade[ROW] = largest;
  barrier(CLK_LOCAL_MEM_FENCE);
}

/* The rows of a group and the keys that they see. */
typedef struct view {
  place here;
  key_range seen;
  some_rows rows;
  key_span span;
} view;
static inline view find_view(ATTENTION_PARAMS) {
  view at;
  at.here = find_place((index_t)get_group_id(0), items, share, n_queries, n_kv);
  at.seen = find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window, n_kv,
                      n_pages, page_shift);
  at.rows =
      find_rows(&at.here, n_kv, share, n_queries, &at.seen, q_strides, mask_strides, out_rows);
#if PAGED
  at.rows =
      take_sequence(&at.rows, 0, &at.seen, position + position_offset, sequence + sequence_offset,
                    page_table + page_table_offset, n_keys, n_sequences, max_pages);
#endif
  at.span = find_span(&at.seen, &at.rows, (index_t)get_group_id(1), n_splits, window);
  return at;
}

static inline void attend(ATTENTION_PARAMS, const view *w, const workspace *m) {
  const place *here = &w->here;
  const some_rows *rows = &w->rows;
  const key_span span = w->span;
  mask += mask_offset + (MASK ? batch_offset(here->batch, batch_dims, mask_strides) : 0);
  key_pointer keys = k + k_offset + group_offset(here, batch_dims, k_strides);
  key_pointer values = v + v_offset + group_offset(here, batch_dims, v_strides);
  const __global float *factors = SCALED ? v_scale + v_scale_offset + GROUP_ROW : v_scale;
  real4 sums[ROWS];
  real largest = (real)(-INFINITY), total = 0;
  EACH_ROW sums[r] = (real4)0;
  stage_queries(m, q + q_offset + batch_offset(here->batch, batch_dims, q_strides), rows, head_dim,
                scale);
  for (index_t from = span.begin; from < span.end; from += KEYS) {
    const int some = (int)min(span.end - from, (index_t)KEYS);
    barrier(CLK_LOCAL_MEM_FENCE);
    m->at[WORKER] = row_of_key(&w->seen, from + min(WORKER, some - 1), n_keys);
    barrier(CLK_LOCAL_MEM_FENCE);
    share_scores(m, keys, k_strides.s0, head_dim, some);
    barrier(CLK_LOCAL_MEM_FENCE);
    join_scores(m, rows, mask, mask_step, from, some, window, FACTOR(k_scale, m->at[WORKER]),
                masked, softcap);
    barrier(CLK_LOCAL_MEM_FENCE);
    exponentiate(m, &largest, &total);
    add_values(sums, m, values, v_strides.s0, v_dim, some, factors);
  }
  put_together(m, sums, largest, total);
  EACH_ROW {
    if (r >= rows->n) continue;
#if SPLIT
    __global real *to = splits + splits_offset +
                        split_offset(here, (index_t)get_group_id(1), share * n_queries, r, v_dim);
    for (index_t d = WORKER; d < v_dim && span.begin < span.end; d += WORKERS)
      to[d] = join_slices(m, r, d);
    if (WORKER == 0) to[v_dim] = m->fade[r];
    if (WORKER == 1) to[v_dim + 1] = join_totals(m, r);
#else
    const real inverse = INVERSE(real, join_totals(m, r));
    for (index_t d = WORKER; d < v_dim; d += WORKERS)
      STORE(X_TYPE, out + out_offset, rows->out[r] * v_dim + d, join_slices(m, r, d) * inverse);
#endif
  }
}

/* Parameters as in attention; items = groups = batches * n_kv * (rows / ROWS, rounded up). */
__kernel void attention_team(ATTENTION_PARAMS) {
  RESERVE_LOCAL(m);
  const view w = find_view(ATTENTION_ARGS);
  attend(ATTENTION_ARGS, &w, &m);
}

/* Stores new_k and new_v, the one new row of a group, to row `row` of its caches. An I8 row is
 * stored by one work-item because of its scale. */
static inline void store_token(x_pointer new_k, x_pointer new_v, long row, index_t head_dim,
                               index_t v_dim, key_pointer k, key_pointer v,
                               __global const float *k_scale, __global const float *v_scale) {
  __global STORAGE(KEY_TYPE) *key = (__global STORAGE(KEY_TYPE) *)k + row * head_dim,
                             *value = (__global STORAGE(KEY_TYPE) *)v + row * v_dim;
  __global float *key_factor = (__global float *)k_scale + row,
                 *value_factor = (__global float *)v_scale + row;
#if SCALED
  if (WORKER == 0) store_columns(new_k, key, key_factor, 0, head_dim);
  if (WORKER == 1) store_columns(new_v, value, value_factor, 0, v_dim);
#else
  for (index_t d = WORKER; d < head_dim; d += WORKERS)
    store_columns(new_k, key, key_factor, d, d + 1);
  for (index_t d = WORKER; d < v_dim; d += WORKERS)
    store_columns(new_v, value, value_factor, d, d + 1);
#endif
}

/* Attention with one new row of k and v, which is stored in the caches first. A group of heads has
 * one work-group per split. The work-group whose split contains the new row stores it. The strides
 * of new_k and new_v are ordered like those of k and v. */
__kernel void attention_team_token(ATTENTION_PARAMS, const __global STORAGE(X_TYPE) * new_k,
                                   const long new_k_offset, const __global STORAGE(X_TYPE) * new_v,
                                   const long new_v_offset, const index8 new_k_strides,
                                   const index8 new_v_strides, FAULT_PARAMS) {
  RESERVE_LOCAL(m);
  view w = find_view(ATTENTION_ARGS);
  const place *here = &w.here;
  const long at = position[position_offset];
#if PAGED
  bool placed = true; /* the same for all work-items; only the first one checks the earlier pages */
  for (int all = get_global_id(0) + get_global_id(1) == 0; all >= 0; all--)
    placed = is_placed(at, sequence[sequence_offset], page_table + page_table_offset, n_keys,
                       n_sequences, max_pages, n_pages, page_shift, all, fault, fault_node);
#else
  const bool placed = at >= 0 && at <= last_position(out_rows, n_keys);
  if (!placed) set_fault(fault, fault_node, FAULT_ROWS, at, out_rows, n_keys);
#endif
  if (!placed) w.span.end = w.span.begin;
  if (w.span.begin < w.span.end && w.span.end == w.seen.n)
    store_token(
        new_k + new_k_offset + here->batch * new_k_strides.s2 + here->group * new_k_strides.s1,
        new_v + new_v_offset + here->batch * new_v_strides.s2 + here->group * new_v_strides.s1,
        GROUP_ROW + row_of_key(&w.seen, w.seen.n - 1, n_keys), head_dim, v_dim, k + k_offset,
        v + v_offset, k_scale + k_scale_offset, v_scale + v_scale_offset);
  barrier(CLK_GLOBAL_MEM_FENCE);
  attend(ATTENTION_ARGS, &w, &m);
}
