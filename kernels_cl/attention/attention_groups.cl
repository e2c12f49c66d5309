/* The attention of attention.cl for devices with many work-items. A group of SIDE x SIDE work-items
 * computes QUERIES rows of one g over a SPLIT of the keys, KEYS at a time (Dao et al.). Queries are
 * kept in local memory. Keys (by DEPTH columns) and values (by STEP rows) are staged there once for
 * all rows.
 *
 * A work-item computes the scores of ROWS rows and four keys. Of these rows it keeps the maximum,
 * its own part of the sum of exponentials, and every SIDE-th four columns of the weighted values.
 * Blocks of keys that no row may see are skipped. head_dim is at most Q_MAX, v_dim at most
 * V_MAX. */
#ifndef W
#define W 1
#endif
#define SIDE 8
#ifndef QUERIES
#define QUERIES 32
#endif
#define ROWS (QUERIES / SIDE)
#include "attention.h"
#include "quads.h"
#define WORKERS (SIDE * SIDE)
#define KEYS (4 * SIDE)
#define DEPTH 32
#define STEP (DEPTH * KEYS / V_MAX)
#define QUADS (V_MAX / 4 / SIDE) /* quads per work-item */
/* Distances between columns, which put neighbours of a row or of a column into different banks. */
#define QUERY_PITCH (QUERIES + 1)
#define KEY_PITCH (KEYS + 1)
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)
#define EACH_QUAD _Pragma("unroll") for (int c = 0; c < QUADS; c++)

/* A group's arrays in local memory. */
typedef struct workspace {
  __local real *queries; /* (Q_MAX, QUERY_PITCH), times the scale; 0 beyond head_dim */
  __local real *tile;    /* (DEPTH, KEY_PITCH) of keys, or (STEP, V_MAX) of values */
  __local real *weights; /* (KEYS, QUERIES) */
  __local real *ends;    /* (QUERIES, SIDE) */
  __local index_t *at;   /* (KEYS): rows of the keys */
} workspace;

/* The state that a work-item keeps for its rows. */
typedef struct kept {
  real4 sums[ROWS][QUADS];
  real largest[ROWS], total[ROWS];
} kept;

/* Position of the work-item, and its first row within the group. */
#define WORKER ((int)get_local_id(0))
#define TEAM_LANE (WORKER % SIDE)
#define FIRST_ROW (WORKER / SIDE * ROWS)

/* Stages the rows from `first` on; rows beyond the last repeat the last. */
static inline void stage_queries(const workspace *m, x_pointer q, index_t first, index_t n_rows,
                                 index_t head, index_t n_queries, index_t head_step,
                                 index_t row_step, index_t head_dim, real scale) {
  UNROLL_AT_MOST(1) for (int row = 0; row < QUERIES; row++) {
    const index_t r = min(first + row, n_rows - 1);
    x_pointer from = q + (head + r / n_queries) * head_step + r % n_queries * row_step;
    for (int d = WORKER; d < Q_MAX; d += WORKERS)
      m->queries[d * QUERY_PITCH + row] = d < head_dim ? LOAD(X_TYPE, from, d) * scale : (real)0;
  }
}

/* Stages columns [column, column + DEPTH) of `some` keys; other elements are 0. */
static inline void stage_keys(const workspace *m, key_pointer keys, index_t stride, index_t column,
                              index_t head_dim, int some) {
  UNROLL_AT_MOST(1) for (int e = WORKER; e < KEYS * DEPTH / 4; e += WORKERS) {
    const int key = e / (DEPTH / 4), d = e % (DEPTH / 4) * 4;
    const index_t left = key < some ? head_dim - column - d : 0;
    const real4 four = LOAD_QUAD(KEY_TYPE, keys + m->at[key] * stride + column + d, left);
    __local real *to = m->tile + d * KEY_PITCH + key;
    to[0] = four.s0;
    to[KEY_PITCH] = four.s1;
    to[2 * KEY_PITCH] = four.s2;
    to[3 * KEY_PITCH] = four.s3;
  }
}

/* Stages values [first, first + STEP). Values from `some` on and columns beyond v_dim are 0,
 * because an infinite value times a weight of 0 would be NaN. */
static inline void stage_values(const workspace *m, key_pointer values, index_t stride,
                                index_t v_dim, int first, int some) {
  UNROLL_AT_MOST(1) for (int e = WORKER; e < STEP * V_MAX / 4; e += WORKERS) {
    const int key = first + e / (V_MAX / 4), d = e % (V_MAX / 4) * 4;
    const index_t left = key < some ? v_dim - d : 0;
    vstore4(LOAD_QUAD(KEY_TYPE, values + m->at[key] * stride + d, left), e, m->tile);
  }
}

/* scores = the work-item's rows times its four keys. */
static inline void score_keys(real4 scores[ROWS], const workspace *m, key_pointer keys,
                              index_t stride, index_t head_dim, int some) {
  EACH_ROW scores[r] = (real4)0;
  for (index_t column = 0; column < head_dim; column += DEPTH) {
    stage_keys(m, keys, stride, column, head_dim, some);
    barrier(CLK_LOCAL_MEM_FENCE);
    const __local real *query = m->queries + column * QUERY_PITCH + FIRST_ROW,
                       *key = m->tile + 4 * TEAM_LANE;
    UNROLL_AT_MOST(2)
    for (int d = 0; d < DEPTH; d++, query += QUERY_PITCH, key += KEY_PITCH) {
      const real4 four = vload4(0, key);
      EACH_ROW scores[r] = FMA((real4)query[r], four, scores[r]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

/* Writes the scores' weights, relative to the new maxima, to local memory and rescales the sums. */
static inline void exponentiate(real4 scores[ROWS], const workspace *m, kept *k,
                                const real4 factors) {
  EACH_ROW m->ends[(FIRST_ROW + r) * SIDE + TEAM_LANE] =
      larger(larger(scores[r].s0, scores[r].s1), larger(scores[r].s2, scores[r].s3));
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ROW {
    const __local real *ends = m->ends + (FIRST_ROW + r) * SIDE;
    real highest = k->largest[r];
    for (int t = 0; t < SIDE; t++) highest = larger(highest, ends[t]);
    const real base = FINITE(real, highest), fade = exp(k->largest[r] - base);
    real4 p = exp(scores[r] - base);
    k->largest[r] = highest;
    k->total[r] = k->total[r] * fade + ((p.s0 + p.s1) + (p.s2 + p.s3));
    EACH_QUAD k->sums[r][c] *= fade;
    if (SCALED) p *= factors;
    __local real *to = m->weights + 4 * TEAM_LANE * QUERIES + FIRST_ROW + r;
    to[0] = p.s0;
    to[QUERIES] = p.s1;
    to[2 * QUERIES] = p.s2;
    to[3 * QUERIES] = p.s3;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

static inline void add_values(kept *k, const workspace *m, key_pointer values, index_t stride,
                              index_t v_dim, int some) {
  for (int first = 0; first < some; first += STEP) {
    stage_values(m, values, stride, v_dim, first, some);
    barrier(CLK_LOCAL_MEM_FENCE);
    const __local real *weights = m->weights + first * QUERIES + FIRST_ROW, *value = m->tile;
    UNROLL_AT_MOST(2)
    for (int j = 0; j < STEP; j++, weights += QUERIES, value += V_MAX) {
      EACH_QUAD {
        const real4 four = vload4(TEAM_LANE + c * SIDE, value);
        EACH_ROW k->sums[r][c] = FMA((real4)weights[r], four, k->sums[r][c]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

/* Replaces each total by the sum over all work-items of the row. */
static inline void join_totals(kept *k, const workspace *m) {
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ROW m->ends[(FIRST_ROW + r) * SIDE + TEAM_LANE] = k->total[r];
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ROW {
    const __local real *ends = m->ends + (FIRST_ROW + r) * SIDE;
    k->total[r] =
        ((ends[0] + ends[1]) + (ends[2] + ends[3])) + ((ends[4] + ends[5]) + (ends[6] + ends[7]));
  }
}

/* Stores the work-item's columns of a row as `real` in splits. store_row: as X_TYPE in out. */
static inline void store_splits(__global real *to, const real4 sums[QUADS], index_t v_dim) {
  EACH_QUAD {
    real lanes[4];
    vstore4(sums[c], 0, lanes);
    const index_t d = 4 * (TEAM_LANE + c * SIDE);
#pragma unroll
    for (int l = 0; l < 4; l++)
      if (d + l < v_dim) to[d + l] = lanes[l];
  }
}
static inline void store_row(__global STORAGE(X_TYPE) * to, const real4 sums[QUADS], index_t v_dim,
                             real inverse) {
  EACH_QUAD {
    real lanes[4];
    vstore4(sums[c] * inverse, 0, lanes);
    const index_t d = 4 * (TEAM_LANE + c * SIDE);
#pragma unroll
    for (int l = 0; l < 4; l++)
      if (d + l < v_dim) STORE(X_TYPE, to, d + l, lanes[l]);
  }
}

/* Applies factors, softcap and mask to the work-item's scores. Hidden scores become -INFINITY. */
static inline void mask_scores(real4 scores[ROWS], const some_rows *rows, const workspace *m,
                               const __global STORAGE(MASK_TYPE) * mask, index_t mask_step,
                               index_t from, index_t end, index_t window, real masked, real softcap,
                               const real4 factors) {
  EACH_ROW {
    real lanes[4];
    vstore4(scores[r] * factors, 0, lanes);
#pragma unroll
    for (int l = 0; l < 4; l++) {
      const int key = 4 * TEAM_LANE + l;
      const bool hidden = from + key >= end || is_hidden(from + key, rows->last[r], window);
      lanes[l] =
          hidden ? (real)(-INFINITY)
                 : mask_one(CAP(lanes[l]), mask, rows->mask[r] + m->at[key] * mask_step, masked);
    }
    scores[r] = vload4(0, lanes);
  }
}

#define FACTORS(scales)                                                                   \
  (real4)(FACTOR(scales, m->at[4 * TEAM_LANE]), FACTOR(scales, m->at[4 * TEAM_LANE + 1]), \
          FACTOR(scales, m->at[4 * TEAM_LANE + 2]), FACTOR(scales, m->at[4 * TEAM_LANE + 3]))

/* Computes attention of rows [rows->begin, rows->n) of a work-item, all of one sequence, over the
 * keys of a split. */
static inline void attend(ATTENTION_PARAMS, const place *here, const some_rows *rows,
                          const key_range *seen, const workspace *m) {
  const index_t split = (index_t)get_group_id(1);
  const key_span span = find_span(seen, rows, split, n_splits, window);
  mask += mask_offset + (MASK ? batch_offset(here->batch, batch_dims, mask_strides) : 0);
  key_pointer keys = k + k_offset + group_offset(here, batch_dims, k_strides);
  key_pointer values = v + v_offset + group_offset(here, batch_dims, v_strides);
  kept own;
  EACH_ROW {
    own.largest[r] = (real)(-INFINITY);
    own.total[r] = 0;
    EACH_QUAD own.sums[r][c] = (real4)0;
  }
  for (index_t from = span.begin; from < span.end; from += KEYS) {
    const int some = (int)min(span.end - from, (index_t)KEYS);
    if (WORKER < KEYS) m->at[WORKER] = row_of_key(seen, from + min(WORKER, some - 1), n_keys);
    barrier(CLK_LOCAL_MEM_FENCE);
    real4 scores[ROWS];
    score_keys(scores, m, keys, k_strides.s0, head_dim, some);
    mask_scores(scores, rows, m, mask, mask_step, from, span.end, window, masked, softcap,
                SCALED ? FACTORS(k_scale) : (real4)1);
    exponentiate(scores, m, &own, SCALED ? FACTORS(v_scale) : (real4)1);
    add_values(&own, m, values, v_strides.s0, v_dim, some);
  }
  join_totals(&own, m);
  EACH_ROW {
    if (r < rows->begin || r >= rows->n) continue;
#if SPLIT
    __global real *to =
        splits + splits_offset + split_offset(here, split, share * n_queries, r, v_dim);
    if (span.begin < span.end) store_splits(to, own.sums[r], v_dim);
    if (TEAM_LANE == 0) to[v_dim] = own.largest[r];
    if (TEAM_LANE == 0) to[v_dim + 1] = own.total[r];
#else
    store_row(out + out_offset + rows->out[r] * v_dim, own.sums[r], v_dim,
              INVERSE(real, own.total[r]));
#endif
  }
}

#if PAGED
/* Selects the rows among [begin, n) of the group that belong to the sequence of row `begin`. Other
 * rows see no keys. end: that of select_sequence. */
static inline void take_block(some_rows *rows, index_t begin, index_t end, index_t n_keys,
                              const __global long *position) {
  for (int r = 0; r < ROWS; r++)
    rows->last[r] = FIRST_ROW + r < begin || FIRST_ROW + r >= end
                        ? -1
                        : (index_t)clamp(position[rows->query[r]], 0L, (long)n_keys - 1);
  rows->begin = clamp((int)begin - FIRST_ROW, 0, ROWS);
  rows->n = clamp((int)end - FIRST_ROW, 0, ROWS);
}
#endif

/* Parameters as in attention; items = groups = batches * n_kv * (rows / QUERIES, rounded up). */
__kernel void attention_groups(ATTENTION_PARAMS) {
  __local real queries[Q_MAX * QUERY_PITCH], tile[DEPTH * KEY_PITCH], weights[KEYS * QUERIES],
      ends[QUERIES * SIDE];
  __local index_t at[KEYS];
  const workspace m = {queries, tile, weights, ends, at};
  const index_t n_rows = share * n_queries, blocks = (n_rows + QUERIES - 1) / QUERIES,
                pair = (index_t)get_group_id(0) / blocks,
                first = (index_t)get_group_id(0) % blocks * QUERIES,
                n = min((index_t)QUERIES, n_rows - first);
  const place here = {.batch = pair / n_kv,
                      .group = pair % n_kv,
                      .pair = pair,
                      .n_pairs = items / blocks,
                      .first = min(first + FIRST_ROW, n_rows - 1),
                      .stride = 1,
                      .n = max(min((int)n - FIRST_ROW, ROWS), 1)};
  key_range seen = find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window,
                             n_kv, n_pages, page_shift);
  some_rows rows =
      find_rows(&here, n_kv, share, n_queries, &seen, q_strides, mask_strides, out_rows);
  stage_queries(&m, q + q_offset + batch_offset(here.batch, batch_dims, q_strides), first, n_rows,
                here.group * share, n_queries, q_strides.s1, q_strides.s0, head_dim, scale);
#if PAGED
  for (index_t begin = 0; begin < n;) {
    const index_t end = select_sequence(
        &rows, begin, n, first, n_queries, &seen, position + position_offset,
        sequence + sequence_offset, page_table + page_table_offset, n_keys, n_sequences, max_pages);
    take_block(&rows, begin, end, n_keys, position + position_offset);
    attend(ATTENTION_ARGS, &here, &rows, &seen, &m);
    begin = end;
  }
#else
  bound_rows(&rows, &seen, first, n, n_queries);
  rows.n = clamp((int)n - FIRST_ROW, 0, ROWS);
  attend(ATTENTION_ARGS, &here, &rows, &seen, &m);
#endif
}
