/* The attention of attention.cl for few rows. A work-item computes ROWS rows of a group and
 * processes W neighbours of head_dim or v_dim at once, W keys at a time. */
#include "attention.h"
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)

DEFINE_SOME(X_TYPE)
#if PASTE(number_, KEY_TYPE) != PASTE(number_, X_TYPE)
DEFINE_SOME(KEY_TYPE)
#endif
DEFINE_KEEP(X_TYPE)

/* Loads a row of q times the scale and zeroes its sums. */
static inline void load_row(realw *query, realw *sums, x_pointer q, int full, int rest,
                            real scale) {
  for (int c = 0; c <= V_MAX / W; c++) sums[c] = (realw)0;
  for (int c = 0; c < full; c++) query[c] = LOADW(X_TYPE, q + c * W) * scale;
  query[full] = rest ? LOAD_SOME(X_TYPE, q + full * W, rest) * scale : (realw)0;
}

/* scores[r] = the dot product of a key and the vectors of row r. */
static inline void score_key(real scores[ROWS], const realw query[ROWS][Q_MAX / W + 1],
                             key_pointer key, int full, int rest) {
  realw sums[ROWS];
  EACH_ROW sums[r] = (realw)0;
  for (int c = 0; c < full; c++) {
    const realw value = LOADW(KEY_TYPE, key + c * W);
    EACH_ROW sums[r] = FMA(query[r][c], value, sums[r]);
  }
  if (rest) {
    const realw value = LOAD_SOME(KEY_TYPE, key + full * W, rest);
    EACH_ROW sums[r] = FMA(query[r][full], value, sums[r]);
  }
  EACH_ROW scores[r] = fold_add(sums[r]);
}

/* Works like exponentiate of attention.cl, for one row and W keys. Returns the factor `fade`. */
static inline real exponentiate_row(real p[W], real *largest, real *total) {
  real highest = *largest;
  for (int j = 0; j < W; j++) highest = larger(highest, p[j]);
  const real base = FINITE(real, highest), fade = exp(*largest - base);
  const realw weights = exp(vload16(0, p) - base);
  vstore16(weights, 0, p);
  *largest = highest;
  *total = *total * fade + fold_add(weights);
  return fade;
}

/* sums = sums * fade + the sum over j of p[r][j] times row at[j] of values, for `some` keys j. A
 * row of values has `full` whole vectors and `rest` more columns. Rows are read one after the
 * other, because several at once would be too many streams for the memory. */
static inline void add_row_values(realw sums[ROWS][V_MAX / W + 1], real p[ROWS][W],
                                  const real *fade, key_pointer values, index_t stride,
                                  const index_t *at, int some, int full, int rest) {
  for (int c = 0; c <= full; c++) EACH_ROW sums[r][c] *= fade[r];
  for (int j = 0; j < some; j++) {
    key_pointer row = values + at[j] * stride;
    for (int c = 0; c < full; c++) {
      const realw value = LOADW(KEY_TYPE, row + c * W);
      EACH_ROW sums[r][c] = FMA((realw)p[r][j], value, sums[r][c]);
    }
    if (rest) {
      const realw value = LOAD_SOME(KEY_TYPE, row + full * W, rest);
      EACH_ROW sums[r][full] = FMA((realw)p[r][j], value, sums[r][full]);
    }
  }
}

/* Stores a finished row of sums to out. */
static inline void store_row(__global STORAGE(X_TYPE) * out, realw *sums, real inverse, int full,
                             int rest) {
  for (int c = 0; c < full; c++) STOREW(X_TYPE, out + c * W, sums[c] * inverse);
  if (rest) STORE_SOME(X_TYPE, out + full * W, rest, sums[full] * inverse);
}

/* Stores the first n columns of sums, not normalised, to splits, unless there were no keys. */
static inline void store_sums(__global real *to, const realw *sums, index_t n, real largest,
                              real total, bool is_empty) {
  real lanes[W];
  for (index_t c = 0; c * W < n && !is_empty; c++) {
    vstore16(sums[c], 0, lanes);
    for (int l = 0; l < W && c * W + l < n; l++) to[c * W + l] = lanes[l];
  }
  to[n] = largest;
  to[n + 1] = total;
}

/* Stores new_k and new_v, the one new row of a group, to row `row` of its caches. */
static inline void store_token(x_pointer new_k, x_pointer new_v, long row, index_t head_dim,
                               index_t v_dim, key_pointer k, key_pointer v,
                               __global const float *k_scale, __global const float *v_scale) {
  store_columns(new_k, (__global STORAGE(KEY_TYPE) *)k + row * head_dim,
                (__global float *)k_scale + row, 0, head_dim);
  store_columns(new_v, (__global STORAGE(KEY_TYPE) *)v + row * v_dim,
                (__global float *)v_scale + row, 0, v_dim);
}

/* Prefetches rows [n, n + W) of keys and values. The hardware prefetcher does not cross into their
 * page. */
static inline void prefetch_rows(key_pointer keys, key_pointer values, index_t n, index_t k_step,
                                 index_t v_step) {
  const index_t line = 64 / (index_t)sizeof(*keys);
  for (index_t d = 0; d < W * k_step; d += line) PREFETCH(keys + n * k_step + d);
  for (index_t d = 0; d < W * v_step; d += line) PREFETCH(values + n * v_step + d);
}

/* new_k, new_v: NULL if the caches already have their rows. */
static inline void attend_rows(ATTENTION_PARAMS, x_pointer new_k, x_pointer new_v,
                               index8 new_k_strides, index8 new_v_strides) {
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1);
  if (item >= items) return;
  const place at_item = find_place(item, items, share, n_queries, n_kv), *here = &at_item;
  key_range seen = find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window,
                             n_kv, n_pages, page_shift);
  some_rows rows =
      find_rows(here, n_kv, share, n_queries, &seen, q_strides, mask_strides, out_rows);
#if PAGED
  rows = take_sequence(&rows, 0, &seen, position + position_offset, sequence + sequence_offset,
                       page_table + page_table_offset, n_keys, n_sequences, max_pages);
#endif
  const key_span span = find_span(&seen, &rows, split, n_splits, window);
  q += q_offset + batch_offset(here->batch, batch_dims, q_strides);
  mask += mask_offset + (MASK ? batch_offset(here->batch, batch_dims, mask_strides) : 0);
  key_pointer keys = k + k_offset + group_offset(here, batch_dims, k_strides);
  key_pointer values = v + v_offset + group_offset(here, batch_dims, v_strides);
  if (new_k && span.begin < span.end && span.end == seen.n)
    store_token(new_k + here->batch * new_k_strides.s2 + here->group * new_k_strides.s1,
                new_v + here->batch * new_v_strides.s2 + here->group * new_v_strides.s1,
                GROUP_ROW + row_of_key(&seen, seen.n - 1, n_keys), head_dim, v_dim, k + k_offset,
                v + v_offset, k_scale + k_scale_offset, v_scale + v_scale_offset);
  const int q_full = (int)(head_dim / W), q_rest = (int)(head_dim % W), v_full = (int)(v_dim / W),
            v_rest = (int)(v_dim % W);
  realw query[ROWS][Q_MAX / W + 1], sums[ROWS][V_MAX / W + 1];
  real largest[ROWS], total[ROWS], fade[ROWS], p[ROWS][W];
  EACH_ROW largest[r] = (real)(-INFINITY), total[r] = 0;
  EACH_ROW load_row(query[r], sums[r], q + rows.q[r], q_full, q_rest, scale);
  for (index_t from = span.begin; from < span.end; from += W) {
    const int some = (int)min(span.end - from, (index_t)W);
    index_t at[W];
    ROWS_OF_KEYS(at, &seen, from, span.end, some, n_keys);
#if PAGED
    prefetch_rows(keys, values, row_of_key(&seen, min(from + W, span.end - 1), n_keys),
                  k_strides.s0, v_strides.s0);
#endif
    EACH_ROW for (int j = 0; j < W; j++) p[r][j] = (real)(-INFINITY);
    for (int j = 0; j < some; j++) {
      real scores[ROWS];
      const real factor = FACTOR(k_scale, at[j]);
      score_key(scores, query, keys + at[j] * k_strides.s0, q_full, q_rest);
      EACH_ROW if (!is_hidden(from + j, rows.last[r], window)) p[r][j] =
          mask_one(CAP(scores[r] * factor), mask, rows.mask[r] + at[j] * mask_step, masked);
    }
    EACH_ROW fade[r] = exponentiate_row(p[r], &largest[r], &total[r]);
    for (int j = 0; SCALED && j < some; j++) EACH_ROW p[r][j] *= FACTOR(v_scale, at[j]);
    add_row_values(sums, p, fade, values, v_strides.s0, at, some, v_full, v_rest);
  }
  for (int r = 0; r < rows.n; r++) {
#if SPLIT
    store_sums(splits + splits_offset + split_offset(here, split, share * n_queries, r, v_dim),
               sums[r], v_dim, largest[r], total[r], span.begin >= span.end);
#else
    store_row(out + out_offset + rows.out[r] * v_dim, sums[r], INVERSE(real, total[r]), v_full,
              v_rest);
#endif
  }
}

/* Parameters as in attention; items = batches * n_kv * (rows / ROWS, rounded up). */
__kernel void attention_row(ATTENTION_PARAMS) {
  attend_rows(ATTENTION_ARGS, 0, 0, (index8)0, (index8)0);
}

/* Attention with one new row of k and v, which is stored in the caches first. A group has one
 * work-item per split. The work-item whose split contains the new row stores it. The strides of
 * new_k and new_v are ordered like those of k and v. */
__kernel void attention_token(ATTENTION_PARAMS, const __global STORAGE(X_TYPE) * new_k,
                              const long new_k_offset, const __global STORAGE(X_TYPE) * new_v,
                              const long new_v_offset, const index8 new_k_strides,
                              const index8 new_v_strides, FAULT_PARAMS) {
  const long at = position[position_offset];
#if PAGED
  if (!is_placed(at, sequence[sequence_offset], page_table + page_table_offset, n_keys, n_sequences,
                 max_pages, n_pages, page_shift, get_global_id(0) + get_global_id(1) == 0, fault,
                 fault_node))
    return;
#else
  if (at < 0 || at > last_position(out_rows, n_keys)) {
    set_fault(fault, fault_node, FAULT_ROWS, at, out_rows, n_keys);
    return;
  }
#endif
  attend_rows(ATTENTION_ARGS, new_k + new_k_offset, new_v + new_v_offset, new_k_strides,
              new_v_strides);
}
