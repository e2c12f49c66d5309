/* The attention of attention.cl on GPUs that multiply blocks of F16 or BF16 by an instruction
 * (mma.h). A group computes QUERIES rows of one g over a SPLIT of the keys, KEYS at a time (Dao et
 * al.). Each of its sub-groups ("warps") computes MMA_M rows.
 *
 * Queries, keys and values are of MMA_TYPE, or rounded to it if it is BF16. They are staged in
 * local memory in words of two columns, values in words of two keys. Scores are sums in f32. The
 * weights are two terms of MMA_TYPE each, which have nearly the precision of f32; with FAST, they
 * are rounded to one. Blocks of keys that no row may see are skipped. head_dim is at most Q_MAX,
 * v_dim at most V_MAX. */
#define W 1
#define ROWS 1
#define QUERIES 64
#include "attention.h"
#include "fetch.h"
#include "mma.h"
#ifndef MMA_TYPE
#define MMA_TYPE F16
#endif
#define KEYS 32
#define WARPS (QUERIES / MMA_M)
#define GROUP (WARPS * MMA_LANES)
#define PARTS (MMA_LANES / MMA_M) /* work-items that share a row of scores */
#define SHARE (KEYS / PARTS)
#define TERMS (IS_FAST ? 1 : 2)
#ifdef FAST
#define IS_FAST 1
#else
#define IS_FAST 0
#endif
/* Words from one row to the next, chosen for 8 rows in different banks and aligned rows. */
#define ROW_PITCH (Q_MAX / 2 + 4)
#define SCORE_PITCH (KEYS + 4) /* in floats, or in words of two terms */
#define VALUE_PITCH (KEYS / 2 + 4)
#define TILE_WORDS (KEYS * ROW_PITCH > V_MAX * VALUE_PITCH ? KEYS * ROW_PITCH : V_MAX * VALUE_PITCH)

/* Unrolls the loop over the keys of a tile, except on Intel's GPUs: the fragments of two iterations
 * and the sums exceed 256 registers. */
#ifdef cl_intel_subgroups
#define UNROLL_KEYS UNROLL_AT_MOST(1)
#else
#define UNROLL_KEYS UNROLL_MMA
#endif

/* Functions are inlined, because a call would keep the work-item's state in memory. */
#define INLINE static inline __attribute__((always_inline))

/* A group's arrays in local memory. */
typedef struct workspace {
  __local uint *queries, *tile, *scores; /* tile: keys, or columns of values */
  __local float *fades, *totals;         /* (QUERIES), (QUERIES, PARTS) */
  __local index_t *at, *mask, *last;     /* (KEYS): rows of the keys; (QUERIES): see some_rows */
} workspace;

#define WORKER ((int)get_local_id(0))
#define LANE (WORKER % MMA_LANES)
#define WARP_ROW (WORKER / MMA_LANES * MMA_M) /* the warp's first row */
#define OWN_ROW (WARP_ROW + LANE / PARTS)     /* the row whose weights the work-item computes */

/* The state of a work-item: sums of its warp's rows, maximum and total of its own row. */
typedef struct kept {
  float sums[V_MAX / MMA_N][SUMS];
  float largest, total;
} kept;

/* Returns the texel at element d of a row of n elements; elements from n on are 0. */
#define TEXEL_AT(T, p, d, n) \
  fetch_texel((const __global ushort *)((p) + (d)), IS_F32(T), ((n) - (d)) * HALVES(T))

/* Stores the columns of a texel as words. */
static inline void store_texel(uint4 texel, __local uint *to) {
#if IS_F32(X_TYPE)
  const float4 v = as_float4(texel);
  to[0] = pair_BF16(v.x, v.y), to[1] = pair_BF16(v.z, v.w);
#else
  vstore4(texel, 0, to);
#endif
}

/* BF16 queries are multiplied by the power of 2 in the scale, which is exact. Otherwise their
 * products with keys might overflow. */
#define IS_BF16_UNIT (KIND(MMA_TYPE) == KIND(BF16))
static inline float power_of(float scale) {
  const float power = as_float(as_uint(scale) & 0x7f800000u);
  return IS_BF16_UNIT && power > 0 && power < INFINITY ? power : 1;
}
static inline uint scale_pair(uint word, float power) {
  return pair_BF16(as_float(word << 16) * power, as_float(word & 0xffff0000u) * power);
}

/* Stages the rows of q; columns beyond head_dim are 0. rows: their offsets in q. */
INLINE void stage_queries(const workspace *memory, x_pointer q, const __local index_t *rows,
                          index_t head_dim, float power) {
  enum { IN_ROW = Q_MAX / VECTOR(X_TYPE) };
  UNROLL_AT_MOST(1) for (int e = WORKER; e < QUERIES * IN_ROW; e += GROUP) {
    const int row = e / IN_ROW, d = e % IN_ROW * VECTOR(X_TYPE);
    const uint4 texel = TEXEL_AT(X_TYPE, q + rows[row], d, head_dim);
    __local uint *to = memory->queries + row * ROW_PITCH + d / 2;
    store_texel(texel, to);
#if IS_BF16_UNIT
    for (int i = 0; i < VECTOR(X_TYPE) / 2; i++) to[i] = scale_pair(to[i], power);
#endif
  }
}

/* Stages `some` keys; others are 0. */
INLINE void stage_keys(const workspace *memory, key_pointer keys, index_t stride, index_t head_dim,
                       int some) {
  enum { IN_ROW = Q_MAX / VECTOR(KEY_TYPE) };
  UNROLL_AT_MOST(1) for (int e = WORKER; e < KEYS * IN_ROW; e += GROUP) {
    const int key = e / IN_ROW, d = e % IN_ROW * VECTOR(KEY_TYPE);
    const uint4 texel =
        TEXEL_AT(KEY_TYPE, keys + memory->at[key] * stride, d, key < some ? head_dim : 0);
    store_texel(texel, memory->tile + key * ROW_PITCH + d / 2);
  }
}

/* Stages the columns of `some` values. Others are 0, because an infinite value times a weight of 0
 * would be NaN. */
INLINE void stage_values(const workspace *memory, key_pointer values, index_t stride, index_t v_dim,
                         int some) {
  enum { IN_ROW = V_MAX / VECTOR(KEY_TYPE) };
  UNROLL_AT_MOST(1) for (int e = WORKER; e < KEYS / 2 * IN_ROW; e += GROUP) {
    const int pair = e / IN_ROW, key = 2 * pair, d = e % IN_ROW * VECTOR(KEY_TYPE);
    const uint4 even = TEXEL_AT(KEY_TYPE, values + memory->at[key] * stride, d,
                                key < some ? v_dim : 0),
                odd = TEXEL_AT(KEY_TYPE, values + memory->at[key + 1] * stride, d,
                               key + 1 < some ? v_dim : 0);
    __local uint *to = memory->tile + d * VALUE_PITCH + pair;
#if IS_F32(KEY_TYPE)
    const float4 x = as_float4(even), y = as_float4(odd);
    to[0] = pair_BF16(x.x, y.x), to[VALUE_PITCH] = pair_BF16(x.y, y.y);
    to[2 * VALUE_PITCH] = pair_BF16(x.z, y.z), to[3 * VALUE_PITCH] = pair_BF16(x.w, y.w);
#else
    store_pairs(even, odd, to, VALUE_PITCH);
#endif
  }
}

/* scores = the warp's rows times all keys, then masks them and writes them to local memory. */
INLINE void score_keys(const workspace *memory, const __global STORAGE(MASK_TYPE) * mask,
                       index_t mask_step, index_t from, index_t end, index_t window,
                       index_t head_dim, float scale, float masked, float softcap) {
  float scores[KEYS / MMA_N][SUMS] = {{0}};
  const int words = (int)((head_dim + 15) / 16) * MMA_WORDS;
  for (int w = 0; w < words; w += MMA_WORDS) {
    const a_fragment x = load_a(memory->queries + WARP_ROW * ROW_PITCH + w, ROW_PITCH, LANE);
    UNROLL_MMA
    for (int j = 0; j < KEYS / MMA_N; j++) {
      const b_fragment y = load_b(memory->tile + j * MMA_N * ROW_PITCH + w, ROW_PITCH, LANE);
      MULTIPLY(MMA_TYPE, scores[j], x, y, LANE);
    }
  }
  UNROLL_MMA
  for (int i = 0; i < KEYS / MMA_N * SUMS; i++) {
    const int row = WARP_ROW + SUM_ROW(LANE, i % SUMS),
              key = i / SUMS * MMA_N + SUM_COLUMN(LANE, i % SUMS);
    const float score = CAP(scores[i / SUMS][i % SUMS] * scale);
    const bool hidden = from + key >= end || is_hidden(from + key, memory->last[row], window);
    memory->scores[row * SCORE_PITCH + key] = as_uint(
        hidden ? -INFINITY
               : mask_one(score, mask, memory->mask[row] + memory->at[key] * mask_step, masked));
  }
}

/* Computes the weights of the work-item's share of its row, relative to the new maximum. */
INLINE void exponentiate(float weights[SHARE], const workspace *memory, kept *state) {
  const __local uint *row = memory->scores + OWN_ROW * SCORE_PITCH,
                     *own = row + LANE % PARTS * SHARE;
  float highest = state->largest;
  UNROLL_AT_MOST(8) for (int i = 0; i < KEYS; i++) highest = larger(highest, as_float(row[i]));
  const float base = FINITE(float, highest), fade = exp(state->largest - base);
  float sum = 0;
  UNROLL_MMA
  for (int i = 0; i < SHARE; i++) {
    weights[i] = exp(as_float(own[i]) - base);
    sum += weights[i];
  }
  state->largest = highest;
  state->total = state->total * fade + sum;
  if (LANE % PARTS == 0) memory->fades[OWN_ROW] = fade;
}

#define TERM_F16 0xffffe000u /* 11 bits of a significand */
#define TERM_BF16 0xffff0000u
/* Returns the first term of a weight: less than the weight, so that the second is positive, too. An
 * infinite value times either is then infinite, not NaN. */
static inline float first_term(float weight) {
  return as_float(as_uint(weight * 0x1.ffp-1f) & PASTE(TERM_, MMA_TYPE));
}

INLINE void write_weights(const float weights[SHARE], const workspace *memory) {
  __local uint *to = memory->scores + OWN_ROW * SCORE_PITCH + LANE % PARTS * SHARE / 2;
  UNROLL_MMA
  for (int i = 0; i < SHARE; i += 2) {
#ifdef FAST
    to[i / 2] = PASTE(pair_, MMA_TYPE)(weights[i], weights[i + 1]);
#else
    const float even = first_term(weights[i]), odd = first_term(weights[i + 1]);
    to[i / 2] = PASTE(pair_, MMA_TYPE)(even, odd);
    to[i / 2 + KEYS / 2] = PASTE(pair_, MMA_TYPE)(weights[i] - even, weights[i + 1] - odd);
#endif
  }
}

/* sums = sums * fades + the weights times the values. */
INLINE void add_values(kept *state, const workspace *memory) {
  UNROLL_MMA
  for (int i = 0; i < V_MAX / MMA_N * SUMS; i++)
    state->sums[i / SUMS][i % SUMS] *= memory->fades[WARP_ROW + SUM_ROW(LANE, i % SUMS)];
  const __local uint *weights = memory->scores + WARP_ROW * SCORE_PITCH;
  UNROLL_KEYS
  for (int w = 0; w < KEYS / 2; w += MMA_WORDS) {
    a_fragment x[TERMS];
    UNROLL_MMA
    for (int t = 0; t < TERMS; t++) x[t] = load_a(weights + t * KEYS / 2 + w, SCORE_PITCH, LANE);
    UNROLL_MMA
    for (int j = 0; j < V_MAX / MMA_N; j++) {
      const b_fragment y = load_b(memory->tile + j * MMA_N * VALUE_PITCH + w, VALUE_PITCH, LANE);
      UNROLL_MMA
      for (int t = 0; t < TERMS; t++) MULTIPLY(MMA_TYPE, state->sums[j], x[t], y, LANE);
    }
  }
}

/* Returns the total of the work-item's row over all its work-items. */
INLINE float join_totals(const kept *state, const workspace *memory) {
  float total = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  memory->totals[OWN_ROW * PARTS + LANE % PARTS] = state->total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int part = 0; part < PARTS; part++) total += memory->totals[OWN_ROW * PARTS + part];
  return total;
}

/* Sets row and d to the row in the group and the column of item i of the warp's sums. */
#define SUM_AT(i, row, d)                               \
  const int row = WARP_ROW + SUM_ROW(LANE, (i) % SUMS); \
  const index_t d = (i) / SUMS * MMA_N + SUM_COLUMN(LANE, (i) % SUMS)

/* Stores the results of rows [begin, end). to_row: their rows of out. */
INLINE void store_rows(const kept *state, const workspace *memory, const __local index_t *to_row,
                       int begin, int end, index_t v_dim, __global STORAGE(X_TYPE) * out) {
  const float total = join_totals(state, memory);
  if (LANE % PARTS == 0) memory->fades[OWN_ROW] = INVERSE(float, total);
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL_MMA
  for (int i = 0; i < V_MAX / MMA_N * SUMS; i++) {
    SUM_AT(i, row, d);
    if (row < begin || row >= end || d >= v_dim) continue;
    STORE(X_TYPE, out, to_row[row] * v_dim + d,
          state->sums[i / SUMS][i % SUMS] * memory->fades[row]);
  }
}

/* Stores rows [begin, end) of a split: the sums (if the split has keys), the maximum and the total.
 * to: the group's first row. */
INLINE void store_splits(const kept *state, const workspace *memory, int begin, int end,
                         index_t v_dim, bool has_keys, __global float *to) {
  const float total = join_totals(state, memory);
  UNROLL_MMA
  for (int i = 0; i < V_MAX / MMA_N * SUMS; i++) {
    SUM_AT(i, row, d);
    if (!has_keys || row < begin || row >= end || d >= v_dim) continue;
    to[row * (v_dim + 2) + d] = state->sums[i / SUMS][i % SUMS];
  }
  if (LANE % PARTS != 0 || OWN_ROW < begin || OWN_ROW >= end) return;
  to[OWN_ROW * (v_dim + 2) + v_dim] = state->largest;
  to[OWN_ROW * (v_dim + 2) + v_dim + 1] = total;
}

/* Computes attention of the group's rows [rows->begin, rows->n), all of one sequence, over the keys
 * of a split. out_rows: rows of out. */
INLINE void attend(ATTENTION_PARAMS, const place *here, const some_rows *rows,
                   const key_range *seen, const workspace *memory, const __local index_t *to_row) {
  const index_t split = (index_t)get_group_id(1);
  const key_span span = find_span(seen, rows, split, n_splits, window);
  mask += mask_offset + (MASK ? batch_offset(here->batch, batch_dims, mask_strides) : 0);
  key_pointer keys = k + k_offset + group_offset(here, batch_dims, k_strides);
  key_pointer values = v + v_offset + group_offset(here, batch_dims, v_strides);
  kept own;
  own.largest = -INFINITY;
  own.total = 0;
  UNROLL_MMA
  for (int i = 0; i < V_MAX / MMA_N * SUMS; i++) own.sums[i / SUMS][i % SUMS] = 0;
  for (index_t from = span.begin; from < span.end; from += KEYS) {
    const int some = (int)min(span.end - from, (index_t)KEYS);
    float weights[SHARE];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (WORKER < KEYS) memory->at[WORKER] = row_of_key(seen, from + min(WORKER, some - 1), n_keys);
    barrier(CLK_LOCAL_MEM_FENCE);
    stage_keys(memory, keys, k_strides.s0, head_dim, some);
    barrier(CLK_LOCAL_MEM_FENCE);
    score_keys(memory, mask, mask_step, from, span.end, window, head_dim, scale / power_of(scale),
               masked, softcap);
    barrier(CLK_LOCAL_MEM_FENCE);
    stage_values(memory, values, v_strides.s0, v_dim, some);
    exponentiate(weights, memory, &own);
    barrier(CLK_LOCAL_MEM_FENCE);
    write_weights(weights, memory);
    barrier(CLK_LOCAL_MEM_FENCE);
    add_values(&own, memory);
  }
#if SPLIT
  store_splits(&own, memory, rows->begin, rows->n, v_dim, span.begin < span.end,
               splits + splits_offset + split_offset(here, split, share * n_queries, 0, v_dim));
#else
  store_rows(&own, memory, to_row, rows->begin, rows->n, v_dim, out + out_offset);
#endif
}

/* Parameters as in attention; items = groups = batches * n_kv * (rows / QUERIES, rounded up). */
__kernel void attention_mma(ATTENTION_PARAMS) {
  __local __attribute__((aligned(16))) uint queries[QUERIES * ROW_PITCH], tile[TILE_WORDS],
      scores[QUERIES * SCORE_PITCH];
  __local float fades[QUERIES], totals[QUERIES * PARTS];
  __local index_t at[KEYS], mask_at[QUERIES], last[QUERIES], q_at[QUERIES], to_row[QUERIES];
  const workspace memory = {queries, tile, scores, fades, totals, at, mask_at, last};
  const index_t n_rows = share * n_queries, blocks = (n_rows + QUERIES - 1) / QUERIES,
                pair = (index_t)get_group_id(0) / blocks,
                first = (index_t)get_group_id(0) % blocks * QUERIES,
                n = min((index_t)QUERIES, n_rows - first);
  place here = {.batch = pair / n_kv,
                .group = pair % n_kv,
                .pair = pair,
                .n_pairs = items / blocks,
                .first = min(first + WORKER % QUERIES, n_rows - 1),
                .stride = 1,
                .n = 1};
  key_range seen = find_keys(position + position_offset, n_queries, n_keys, out_rows, skip, window,
                             n_kv, n_pages, page_shift);
  some_rows rows =
      find_rows(&here, n_kv, share, n_queries, &seen, q_strides, mask_strides, out_rows);
  if (WORKER < QUERIES) {
    q_at[WORKER] = rows.q[0];
    mask_at[WORKER] = rows.mask[0];
    last[WORKER] = rows.last[0];
    to_row[WORKER] = rows.out[0];
  }
  here.first = first;
  barrier(CLK_LOCAL_MEM_FENCE);
  stage_queries(&memory, q + q_offset + batch_offset(here.batch, batch_dims, q_strides), q_at,
                head_dim, power_of(scale));
#if PAGED
  for (index_t begin = 0; begin < n;) {
    const index_t end = select_sequence(
        &rows, begin, n, first, n_queries, &seen, position + position_offset,
        sequence + sequence_offset, page_table + page_table_offset, n_keys, n_sequences, max_pages);
    const bool is_seen = WORKER >= begin && WORKER < end;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (WORKER < QUERIES)
      last[WORKER] =
          is_seen ? (index_t)clamp(position[position_offset + rows.query[0]], 0L, (long)n_keys - 1)
                  : -1;
    rows.begin = (int)begin;
    rows.n = (int)end;
    attend(ATTENTION_ARGS, &here, &rows, &seen, &memory, to_row);
    begin = end;
  }
#else
  bound_rows(&rows, &seen, first, n, n_queries);
  rows.begin = 0;
  rows.n = (int)n;
  attend(ATTENTION_ARGS, &here, &rows, &seen, &memory, to_row);
#endif
}
