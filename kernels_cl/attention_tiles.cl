/* As attention.cl, where AMX's tiles multiply pairs of BF16 (amx.h): the products are of words,
 * what is between them is in f32. attention_tiles_pack makes words of the keys and values of each
 * head, STEP keys at a time, for all of its queries; attention_tiles walks them BLOCK_KEYS at a
 * time for ROWS rows. Packed are of each head
 *   keys    [panel of 16 keys][16 words of head_dim][key][word]
 *   values  [panel of 16 columns][step of 16 words of keys][column][word]
 *   flags   one for each step: some of its values have no number in BF16 but infinity
 * with zeros behind the last of each. Scores and sums are as attention.cl has them, of what has no
 * cache: no window, no softcap, no factors of keys and values. */
#define W 16
#define ROWS 32
#define SPAN_KEYS 32
#include "attention_lanes.h"
#include "pairs.h"
#define B_SPACE __private
#define SUMS_SPACE __private
#include "amx.h"
#define STEP (2 * AMX_SIDE) /* keys of two tiles, columns of head_dim of one */
#define BLOCK_KEYS 128
#define TILE_FLOATS (AMX_SIDE * AMX_SIDE)
#if MASK && PASTE(number_, MASK_TYPE) != PASTE(number_, X_TYPE)
DEFINE_SOME(MASK_TYPE)
#endif
#if PASTE(number_, KEY_TYPE) != PASTE(number_, X_TYPE)
DEFINE_SOME(KEY_TYPE)
#endif

#if AMX
/* Where what is packed of a head begins. */
typedef struct packed_head {
  __global float *keys, *values, *flags;
  index_t key_panel, value_panel; /* floats of one */
} packed_head;

/* backend/opencl/attention.c has their size. */
static inline packed_head find_packed(__global float *packed, index_t pair, index_t n_keys,
                                      index_t head_dim, index_t v_dim) {
  const index_t steps = (n_keys + STEP - 1) / STEP, depth = (head_dim + STEP - 1) / STEP,
                panels = (v_dim + AMX_SIDE - 1) / AMX_SIDE;
  packed_head h = {.key_panel = depth * TILE_FLOATS, .value_panel = steps * TILE_FLOATS};
  h.keys = packed +
           pair * ((long)steps * 2 * h.key_panel + (long)panels * h.value_panel + AMX_WHOLE(steps));
  h.values = h.keys + (long)steps * 2 * h.key_panel;
  h.flags = h.values + (long)panels * h.value_panel;
  return h;
}

/* The bits of magnitudes from here on are those of what is not finite, or of what BF16 has not but
 * infinity for it. */
#define NOT_FINITE 0x7f800000
#define NOT_BF16 0x7f7f8000

/* What is finite and has no number in BF16 becomes the largest that it has: a score that a mask
 * hides must not be infinite or NaN where it is finite in floats. */
static inline realw keep_finite(realw x) {
  const int16 size = as_int16(x) & 0x7fffffff;
  const int16 largest = (as_int16(x) ^ size) | 0x7f7f0000;
  const int16 is_large = (size >= (int16)NOT_BF16) & (size < (int16)NOT_FINITE);
  return is_large ? as_float16(largest) : x;
}

/* n columns of a key to a row of its tiles; n <= 0: zeros. */
static inline void pack_key(key_pointer key, index_t n, index_t depth, __global float *to) {
  for (index_t d = 0; d < depth; d += STEP, to += TILE_FLOATS) {
    const realw low = keep_finite(LOAD_SOME(KEY_TYPE, key + d, n - d)),
                high = keep_finite(LOAD_SOME(KEY_TYPE, key + d + W, n - d - W));
    vstore8(as_float8(round_pairs(low)), 0, to);
    vstore8(as_float8(round_pairs(high)), 1, to);
  }
}

/* The first 16 columns, of which `columns` are there, of n of STEP values, `step` apart, to a tile.
 * The largest magnitude, as bits. */
static inline int pack_values(key_pointer values, index_t step, int n, index_t columns,
                              __global float *to) {
  realw words[AMX_SIDE];
  int16 largest = 0;
  for (int i = 0; i < AMX_SIDE; i++) {
    realw pair[2] = {0, 0};
    for (int h = 0; h < 2 && 2 * i + h < n; h++) {
      pair[h] = LOAD_SOME(KEY_TYPE, values + (2 * i + h) * step, columns);
      const int16 size = as_int16(pair[h]) & 0x7fffffff;
      largest = size > largest ? size : largest;
    }
    words[i] = join_rows(pair[0], pair[1]);
  }
  transpose_16(words);
  for (int i = 0; i < AMX_SIDE; i++) vstore16(words[i], i, to);
  int sizes[W], most = 0;
  vstore16(largest, 0, sizes);
  for (int l = 0; l < W; l++) most = max(most, sizes[l]);
  return most;
}
#endif

/* Parameters as those of attention_tiles. Work-items: (steps of keys, heads of k in all batches).
 */
__kernel void attention_tiles_pack(ATTENTION_PARAMS, __global float *packed,
                                   const long packed_offset) {
#if AMX
  const index_t pair = (index_t)get_global_id(1), from = (index_t)get_global_id(0) * STEP;
  const place head = {.batch = pair / n_kv, .group = pair % n_kv, .pair = pair}, *here = &head;
  const packed_head h = find_packed(packed + packed_offset, pair, n_keys, head_dim, v_dim);
  key_pointer keys = k + k_offset + group_offset(here, batch_dims, k_strides),
              values =
                  v + v_offset + group_offset(here, batch_dims, v_strides) + from * v_strides.s0;
  const int n = (int)min((index_t)STEP, n_keys - from);
  for (int j = 0; j < STEP; j++) {
    __global float *to =
        h.keys + (from + j) / AMX_SIDE * (long)h.key_panel + j % AMX_SIDE * AMX_SIDE;
    pack_key(keys + (from + min(j, n - 1)) * k_strides.s0, j < n ? head_dim : 0, head_dim, to);
  }
  int largest = 0;
  for (index_t d = 0; d < v_dim; d += AMX_SIDE)
    largest = max(largest, pack_values(values + d, v_strides.s0, n, v_dim - d,
                                       h.values + d / AMX_SIDE * (long)h.value_panel +
                                           from / STEP * TILE_FLOATS));
  h.flags[from / STEP] = largest >= NOT_BF16;
#endif
}

#if AMX
/* What a work-item keeps of its rows. */
typedef struct kept {
  realw sums[V_MAX][PARTS], largest[PARTS], total[PARTS];
  int16 last[PARTS]; /* of the keys that each row may see */
} kept;

/* Words of 2 columns of the queries: rows of b. */
static inline void join_query(realw query[][PARTS], index_t head_dim) {
  const index_t whole = (head_dim + STEP - 1) / STEP * STEP;
  for (index_t d = head_dim; d < whole; d++) EACH_PART query[d][r] = (realw)0;
  for (index_t i = 0; i < whole / 2; i++)
    EACH_PART query[i][r] =
        join_rows(keep_finite(query[2 * i][r]), keep_finite(query[2 * i + 1][r]));
}

#if MASK
/* Keys of a mask's row from p on, `step` apart, of n. */
static inline realw load_mask(const __global STORAGE(MASK_TYPE) * p, index_t step, int n) {
  if (step == 1) return LOAD_SOME(MASK_TYPE, p, n);
  real lanes[W];
  for (int j = 0; j < W; j++) lanes[j] = j < n ? LOAD(MASK_TYPE, p, j * step) : (real)0;
  return vload16(0, lanes);
}

/* Scores of n keys, at most W, from key j on, of the rows of part r. */
static inline void mask_keys(realw scores[][PARTS], int r, const __global STORAGE(MASK_TYPE) * mask,
                             const index_t *rows, index_t step, int n, real masked) {
  realw some[W];
  for (int l = 0; l < W; l++) some[l] = load_mask(mask + rows[r * W + l], step, n);
  transpose_16(some);
  for (int j = 0; j < n; j++) {
#if MASK == 1
    scores[j][r] = some[j] != 0 ? scores[j][r] : (realw)masked;
#else
    scores[j][r] += some[j];
#endif
  }
}
#endif

/* Scores of n keys from key `from` on, which follow each other in the mask. */
static inline void mask_scores(realw scores[][PARTS], const kept *own, const some_rows *rows,
                               const __global STORAGE(MASK_TYPE) * mask, index_t mask_step,
                               index_t from, int n, real masked) {
#if MASK
  for (int j = 0; j < n; j += W)
    for (int r = 0; r < PARTS; r++)
      mask_keys(scores + j, r, mask + (from + j) * mask_step, rows->mask, mask_step, min(W, n - j),
                masked);
#endif
#if CAUSAL
  for (int j = 0; j < n; j++) {
    if (!is_hidden(from + j, rows->least, 0) && !is_hidden(from + j, rows->most, 0)) continue;
    const int16 key = (int16)(int)(from + j);
    EACH_PART scores[j][r] = key > own->last[r] ? (realw)(-INFINITY) : scores[j][r];
  }
#endif
}

/* e^x of x <= 0 or NaN, off by less than 2^-13 of it, as BF16 has 8 digits; of 0 it is 1, from
 * about -126.5 log 2 down it is 0. The polynomial was fitted by weighted least squares at Chebyshev
 * points. */
static inline realw exponential(realw x) {
  const realw y = x * (realw)0x1.715476p+0F, t = y < -127 ? (realw)-127 : y;
  const realw shifted = t + (realw)0x1.8p23F, r = t - (shifted - (realw)0x1.8p23F);
  realw p = fma((realw)0x1.c2a21ap-5F, r, (realw)0x1.f00c4cp-3F);
  p = fma(p, r, (realw)0x1.62f5fap-1F);
  p = fma(p, r, (realw)1);
  return p * as_float16((as_int16(shifted) + 127) << 23);
}

/* Scores of n keys become exponentials relative to the largest so far, and in their memory words of
 * neighbouring ones, with zeros up to a multiple of STEP; or stay floats. fade: what the sums so
 * far shrink by. Maxima pass over NaN, as exponentials do not. */
static inline void soften(realw scores[][PARTS], int n, kept *own, realw fade[PARTS], bool words) {
  realw base[PARTS], more[PARTS], total[PARTS];
  EACH_PART base[r] = total[r] = own->largest[r];
  for (int j = 0; j + 1 < n; j += 2) EACH_PART {
      base[r] = scores[j][r] > base[r] ? scores[j][r] : base[r];
      total[r] = scores[j + 1][r] > total[r] ? scores[j + 1][r] : total[r];
    }
  if (n % 2) EACH_PART base[r] = scores[n - 1][r] > base[r] ? scores[n - 1][r] : base[r];
  EACH_PART {
    const realw largest = total[r] > base[r] ? total[r] : base[r];
    base[r] = FINITE(realw, largest);
    fade[r] = exponential(own->largest[r] - base[r]);
    own->largest[r] = largest;
    total[r] = own->total[r] * fade[r];
    more[r] = (realw)0;
  }
  for (int j = 0; j < n; j += 2) EACH_PART {
      const realw even = exponential(scores[j][r] - base[r]),
                  odd = j + 1 < n ? exponential(scores[j + 1][r] - base[r]) : (realw)0;
      total[r] += even;
      more[r] += odd;
      if (words)
        scores[j / 2][r] = join_rows(even, odd);
      else
        scores[j][r] = even, scores[j + 1][r] = odd;
    }
  EACH_PART own->total[r] = total[r] + more[r];
  for (int i = (n + 1) / 2; words && i % AMX_SIDE; i++) EACH_PART scores[i][r] = (realw)0;
}

/* sums += weights of n keys times their values, `step` apart. */
static inline void add_floats(kept *own, realw weights[][PARTS], key_pointer values, int n,
                              index_t step, index_t v_dim) {
  for (int j = 0; j < n; j++)
    for (index_t d = 0; d < v_dim; d++) {
      const realw value = (realw)(real)LOAD(KEY_TYPE, values, j * step + d);
      EACH_PART own->sums[d][r] = fma(weights[j][r], value, own->sums[d][r]);
    }
}

static inline void fade_sums(kept *own, const realw fade[PARTS], index_t v_dim) {
  for (index_t d = 0; d < v_dim; d++) EACH_PART own->sums[d][r] *= fade[r];
}

/* Scores of n keys from the tiles of the first on. */
static inline void score_keys(realw scores[][PARTS], const realw query[][PARTS],
                              const packed_head *h, index_t from, int n, index_t head_dim) {
  const int words = (int)(h->key_panel / AMX_SIDE);
  for (int j = 0; j < n; j += STEP) {
    const tiles t = {.a = h->keys + (from + j) / AMX_SIDE * (long)h->key_panel,
                     .a_panel = h->key_panel,
                     .panels = n - j > AMX_SIDE ? 2 : 1,
                     .b_row = ROWS,
                     .b = (const float *)query};
    multiply_tiles(&t, words, (float *)scores[j], ROWS, true);
  }
}

static inline void add_values(kept *own, const realw weights[][PARTS], const packed_head *h,
                              index_t from, int n, index_t v_dim) {
  for (index_t d = 0; d < v_dim; d += STEP) {
    const tiles t = {
        .a = h->values + d / AMX_SIDE * (long)h->value_panel + from / STEP * TILE_FLOATS,
        .a_panel = h->value_panel,
        .panels = v_dim - d > AMX_SIDE ? 2 : 1,
        .b_row = ROWS,
        .b = (const float *)weights};
    multiply_tiles(&t, AMX_WHOLE((n + 1) / 2), (float *)own->sums[d], ROWS, false);
  }
}

static inline void begin_rows(kept *own, const some_rows *rows, index_t v_dim) {
  int lanes[W];
  for (int r = 0; r < PARTS; r++) {
    for (int l = 0; l < W; l++) lanes[l] = (int)rows->last[r * W + l];
    own->last[r] = vload16(0, lanes);
    own->largest[r] = (realw)(-INFINITY);
    own->total[r] = (realw)0;
  }
  for (index_t d = 0; d < AMX_WHOLE(v_dim); d++) EACH_PART own->sums[d][r] = (realw)0;
}
#endif

/* packed: as attention_tiles_pack left it. The rest is as attention has it. */
__kernel void attention_tiles(ATTENTION_PARAMS, __global float *packed, const long packed_offset) {
#if AMX
  const index_t item = (index_t)get_global_id(0), split = (index_t)get_global_id(1);
  if (item >= items) return;
  const place head = find_place(item, items, share, n_queries, n_kv), *here = &head;
  const key_range seen = find_keys(position + position_offset, n_queries, n_keys, out_rows, skip,
                                   window, n_kv, n_pages, page_shift);
  const some_rows rows =
      find_rows(here, n_kv, share, n_queries, &seen, q_strides, mask_strides, out_rows);
  const key_span span = find_span(&seen, &rows, split, n_splits, window);
  const packed_head h = find_packed(packed + packed_offset, here->pair, n_keys, head_dim, v_dim);
  key_pointer values = v + v_offset + group_offset(here, batch_dims, v_strides);
  mask += mask_offset + (MASK ? batch_offset(here->batch, batch_dims, mask_strides) : 0);
  realw query[Q_MAX][PARTS], scores[BLOCK_KEYS][PARTS];
  kept own;
  begin_rows(&own, &rows, v_dim);
  fill_query(query, q + q_offset + batch_offset(here->batch, batch_dims, q_strides), rows.q,
             head_dim, scale);
  join_query(query, head_dim);
  amx_begin();
  for (index_t from = span.begin / STEP * STEP; from < span.end; from += BLOCK_KEYS) {
    const int n = (int)min((index_t)BLOCK_KEYS, span.end - from);
    bool words = true;
    for (int j = 0; j < n; j += STEP) words = words && h.flags[(from + j) / STEP] == 0;
    realw fade[PARTS];
    score_keys(scores, query, &h, from, n, head_dim);
    mask_scores(scores, &own, &rows, mask, mask_step, from, n, masked);
    soften(scores, n, &own, fade, words);
    fade_sums(&own, fade, v_dim);
    if (words)
      add_values(&own, scores, &h, from, n, v_dim);
    else
      add_floats(&own, scores, values + from * v_strides.s0, n, v_strides.s0, v_dim);
  }
  amx_end();
#if SPLIT
  parts += parts_offset + part_offset(here, split, share * n_queries, 0, v_dim);
  store_split(parts, &rows, v_dim, 0, v_dim, own.sums, own.largest, own.total,
              span.begin >= span.end);
#else
  store_rows(out + out_offset, &rows, v_dim, own.sums, v_dim, own.total);
#endif
#endif
}
