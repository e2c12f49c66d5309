/* Parameters, masks and caches that the attention kernels share; attention.cl states the formula.
 *   MASK       0 none, 1 BOOL (true = attend, else the score is `masked`), 2 added
 *   CAUSAL     j <= i
 *   EMPTY_NAN  a row of scores -inf yields NaN, else 0
 *   SOFTCAP    a score s is replaced by softcap * tanh(s / softcap)
 *   CACHED     k and v are caches of n_keys rows of KEY_TYPE, written by attention_store; query i
 *              is at position + skip + i. I8 rows have factors in k_scale, v_scale: (batch, n_kv,
 *              n_keys)
 *   PAGED      k and v are pools of pages, (pages, n_kv, 2^page_shift, size), and so are the
 *              factors of I8 rows. Query i is at position[i] of sequence[i], whose keys are in the
 *              pages of row sequence[i] of page_table, (n_sequences, max_pages). n_keys: capacity
 *              of these pages. An invalid position or page is not reported here; another one is
 *              read
 *   BY_TOKEN   the rows of a work-item are heads of one query
 *   WINDOWED   a query sees the last `window` positions, and position p is row p mod n_keys
 *   SPLIT      the results over some of the keys go to splits, for attention_merge: (split, row of
 *              all heads, v_dim + 2), the weighted values, the maximum, the sum of exponentials
 *   ROWS       rows per work-item */
#ifndef ATTENTION_H
#define ATTENTION_H
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef KEY_TYPE
#define KEY_TYPE X_TYPE
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
#ifndef PAGED
#define PAGED 0
#endif
#ifndef BY_TOKEN
#define BY_TOKEN 0
#endif
#ifndef WINDOWED
#define WINDOWED 0
#endif
#ifndef SOFTCAP
#define SOFTCAP 0
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#include "vector.h"
#ifndef ROWS
#define ROWS W
#endif
#define SCALED IS_INT(KEY_TYPE)
/* The keys from a multiple of PAGE_KEYS to the next are in one page. */
#define PAGE_KEYS 16
/* A split begins at a multiple of SPAN_KEYS. */
#ifndef SPAN_KEYS
#define SPAN_KEYS W
#endif

typedef const __global STORAGE(X_TYPE) * x_pointer;
typedef const __global STORAGE(KEY_TYPE) * key_pointer;

/* Returns the last position at which `total` tokens fit. */
static inline long last_position(index_t total, index_t n_rows) {
  return (WINDOWED ? LONG_MAX - n_rows : n_rows) - total;
}

/* Replaces a maximum of -INFINITY by 0, because -INFINITY - -INFINITY is NaN. A row has this
 * maximum until it has a visible key, so any finite number works. */
#define FINITE(T, m) ((m) == (T)(-INFINITY) ? (T)0 : (m))
#if IS_F32(COMPUTE)
#if W == 1
#define AS_INTW as_int
#define AS_REALW as_float
#else
#define AS_INTW as_int16
#define AS_REALW as_float16
#endif
/* Returns exp of x <= 0 or NaN, within 1 ulp; below e^-86 the result is 0. Computed as 2^n e^r, |r|
 * < 0.35, by the polynomial of the CPU backend's attention. */
static inline realw exp_of_negative(const realw x) {
  const realw shifted = FMA(x, (realw)0x1.715476p+0F, (realw)0x1.8p23F),
              n = shifted - (realw)0x1.8p23F;
  const realw r = FMA(n, (realw)0x1.bd0106p-13F, FMA(n, (realw)-0x1.63p-1F, x));
  realw p = (realw)0x1.687b46p-10F;
  p = FMA(p, r, (realw)0x1.123bdcp-7F);
  p = FMA(p, r, (realw)0x1.555b5cp-5F);
  p = FMA(p, r, (realw)0x1.55548ep-3F);
  p = FMA(p, r, (realw)0x1.fffff8p-2F);
  p = FMA(p * r, r, r) + 1;
  const realw power = AS_REALW((AS_INTW(shifted) + 127) << 23);
  return x < -86 ? (realw)0 : p * power;
}
#else
#define exp_of_negative(x) exp(x)
#endif
/* Reciprocal of `total`, the sum of exponentials of a row. For a row without any keys the weighted
 * sums are 0, and the reciprocal is 0 or infinite. */
#if EMPTY_NAN
#define INVERSE(T, total) (1 / (total))
#else
#define INVERSE(T, total) ((total) == (T)0 ? (T)0 : 1 / (total))
#endif
/* Computes tanh by exp, which is faster. Inside of exp only the absolute error matters. */
#if SOFTCAP
#define CAP(score) (softcap - 2 * softcap / (exp((score) * (2 / softcap)) + 1))
#else
#define CAP(score) (score)
#endif

/* ---------------------------------------------------------------- rows of a work-item */

/* The n rows of a work-item, all of one group of heads: row `first`, then every `stride`-th. `pair`
 * is the index of the group among the groups of all batches. */
typedef struct place {
  index_t batch, group, pair, n_pairs, first, stride;
  int n;
} place;

/* Returns the rows that work-item `item` of `items` computes. */
static inline place find_place(index_t item, index_t items, index_t share, index_t n_queries,
                               index_t n_kv) {
  const index_t n_rows = share * n_queries;
#if BY_TOKEN
  const index_t blocks = (share + ROWS - 1) / ROWS, group = item / (n_queries * blocks),
                query = item / blocks % n_queries, head = item % blocks * ROWS;
  return (place){.batch = 0,
                 .group = group,
                 .pair = group,
                 .n_pairs = n_kv,
                 .first = head * n_queries + query,
                 .stride = n_queries,
                 .n = (int)min((index_t)ROWS, share - head)};
#else
  const index_t blocks = (n_rows + ROWS - 1) / ROWS, pair = item / blocks,
                first = item % blocks * ROWS;
  return (place){.batch = pair / n_kv,
                 .group = pair % n_kv,
                 .pair = pair,
                 .n_pairs = items / blocks,
                 .first = first,
                 .stride = 1,
                 .n = (int)min((index_t)ROWS, n_rows - first)};
#endif
}

/* Returns the offset of a batch. Strides s0 and s1 are those of rows and heads. */
static inline index_t batch_offset(index_t batch, index8 dims, index8 strides) {
  return strided_offset(batch, dims, strides.s23456701 * (index8)(1, 1, 1, 1, 1, 1, 0, 0));
}

/* Returns the offset of a group of k or v. */
static inline long group_offset(const place *here, index8 dims, index8 strides) {
  return (long)batch_offset(here->batch, dims, strides) + here->group * strides.s1;
}

/* Returns the offset in splits of row r of a work-item. */
static inline long split_offset(const place *here, index_t split, index_t n_rows, index_t r,
                                index_t v_dim) {
  return (long)((split * here->n_pairs + here->pair) * n_rows + here->first + r * here->stride) *
         (v_dim + 2);
}

/* First row of a group in a cache, counted over all groups; PAGED: in a page. */
#define GROUP_ROW (PAGED ? (long)here->group << page_shift : here->pair * (long)n_keys)
/* The factor of an I8 row of a cache; 1 for other types. */
#define FACTOR(scales, row) (SCALED ? scales[scales##_offset + GROUP_ROW + (row)] : 1)

/* ---------------------------------------------------------------- keys */

/* The n keys that at least one query may see. Key j is in row `first` + j, modulo n_rows; query i
 * sees the keys up to before + i. PAGED: key j is in row j of the sequence's pages, and consecutive
 * pages of the pool are `stride` rows apart. */
typedef struct key_range {
  index_t n, first, before;
#if PAGED
  const __global int *pages;
  index_t stride;
  int shift, last_page;
#endif
} key_range;

/* PAGED: the pages and n are set later, for each sequence. */
static inline key_range find_keys(const __global long *position, index_t n_queries, index_t n_keys,
                                  index_t total, index_t skip, index_t window, index_t n_kv,
                                  index_t n_pages, index_t page_shift) {
#if PAGED
  return (key_range){
      .stride = n_kv << page_shift, .shift = (int)page_shift, .last_page = (int)n_pages - 1};
#elif CACHED
  const long at = clamp(*position, 0L, last_position(total, n_keys)) + skip;
  const long first = WINDOWED ? max(at - window + 1, 0L) : 0;
  const index_t before = (index_t)(at - first);
  return (key_range){before + n_queries, (index_t)(first % n_keys), before};
#else
  return (key_range){.n = n_keys};
#endif
}

static inline index_t row_of_key(const key_range *seen, index_t j, index_t n_rows) {
#if PAGED
  const index_t page = clamp(seen->pages[j >> seen->shift], 0, seen->last_page);
  return page * seen->stride + (j & ((1 << seen->shift) - 1));
#else
  const index_t row = seen->first + j;
  return WINDOWED && row >= n_rows ? row - n_rows : row;
#endif
}

/* Sets `at` to the rows of the n keys that begin at `from`, a multiple of n. Keys beyond `end`
 * repeat the last one. */
#define ROWS_OF_KEYS(at, seen, from, end, n, n_rows)                        \
  do {                                                                      \
    const index_t rows_from = PAGED ? row_of_key(seen, from, n_rows) : 0;   \
    for (int j = 0; j < (n); j++)                                           \
      (at)[j] = PAGED ? rows_from + min((index_t)j, (end)-1 - (from))       \
                      : row_of_key(seen, min((from) + j, (end)-1), n_rows); \
  } while (0)

/* Keys [begin, end). */
typedef struct key_span {
  index_t begin, end;
} key_span;

/* The rows of a work-item: their offsets in q, mask and out, the last key that each may see, and
 * the least and greatest of these. PAGED: only rows [begin, n), of one sequence, see keys. */
typedef struct some_rows {
  int begin, n;
  index_t q[ROWS], mask[ROWS], out[ROWS], last[ROWS];
  index_t least, most;
#if PAGED
  index_t query[ROWS];
#endif
} some_rows;

/* Returns the keys of a split that at least one of the rows may see. */
static inline key_span find_span(const key_range *seen, const some_rows *rows, index_t split,
                                 index_t n_splits, index_t window) {
  const index_t block = PAGED ? PAGE_KEYS : SPAN_KEYS,
                split_keys = ((seen->n + n_splits - 1) / n_splits + block - 1) / block * block,
                begin = split * split_keys;
  const index_t from = WINDOWED ? max(begin, rows->least - window + 1) : begin;
  return (key_span){
      .begin = PAGED ? from / PAGE_KEYS * PAGE_KEYS : from,
      .end = min(min(begin + split_keys, seen->n), rows->most + 1),
  };
}

/* Returns the rows of a work-item; rows beyond the last repeat the last. out_rows: rows per head of
 * out. */
static inline some_rows find_rows(const place *here, index_t n_kv, index_t share, index_t n_queries,
                                  const key_range *seen, index8 q_strides, index8 mask_strides,
                                  index_t out_rows) {
  some_rows rows;
  const index_t heads_before = here->batch * n_kv * share;
  rows.begin = 0;
  rows.n = here->n;
  rows.least = seen->n;
  rows.most = -1;
  for (int l = 0; l < ROWS; l++) {
    const index_t r = here->first + min(l, rows.n - 1) * here->stride, query = r % n_queries,
                  head = here->group * share + r / n_queries;
    rows.q[l] = head * q_strides.s1 + query * q_strides.s0;
    rows.mask[l] = head * mask_strides.s1 + query * mask_strides.s0;
    rows.out[l] = (heads_before + head) * out_rows + query;
    rows.last[l] = CAUSAL ? seen->before + query : seen->n - 1;
    rows.least = min(rows.least, rows.last[l]);
    rows.most = max(rows.most, rows.last[l]);
#if PAGED
    rows.query[l] = query;
#endif
  }
  return rows;
}

#if PAGED
/* Returns `all` limited to the rows from `begin` on that belong to the same sequence as row
 * `begin`, and sets the pages and n of `seen` to those of this sequence. */
static inline some_rows take_sequence(const some_rows *all, int begin, key_range *seen,
                                      const __global long *position, const __global int *sequence,
                                      const __global int *page_table, index_t n_keys,
                                      index_t n_sequences, index_t max_pages) {
  some_rows rows = *all;
  const int of = clamp(sequence[rows.query[begin]], 0, (int)n_sequences - 1);
  rows.begin = begin;
  rows.n = begin;
  rows.least = n_keys;
  rows.most = -1;
  for (int l = begin; l < all->n && sequence[rows.query[l]] == sequence[rows.query[begin]]; l++)
    rows.n++;
  for (int l = 0; l < ROWS; l++) {
    const int with = l < all->n ? l : all->n - 1;
    const bool mine = with >= begin && with < rows.n;
    rows.last[l] = mine ? (index_t)clamp(position[rows.query[l]], 0L, (long)n_keys - 1) : -1;
    if (mine) {
      rows.least = min(rows.least, rows.last[l]);
      rows.most = max(rows.most, rows.last[l]);
    }
  }
  seen->pages = page_table + of * (long)max_pages;
  seen->n = rows.most + 1;
  return rows;
}
#endif

#ifdef QUERIES
/* The rows of a group of work-items, which are numbered from `first` on. */
#if PAGED
/* Returns the end of the rows from `begin` on, of n, that belong to the sequence of row `begin`.
 * Sets their least and greatest last key, and the pages and n of `seen`. */
static inline index_t select_sequence(some_rows *rows, index_t begin, index_t n, index_t first,
                                      index_t n_queries, key_range *seen,
                                      const __global long *position, const __global int *sequence,
                                      const __global int *page_table, index_t n_keys,
                                      index_t n_sequences, index_t max_pages) {
  const int named = sequence[(first + begin) % n_queries];
  index_t end = begin;
  rows->least = n_keys;
  rows->most = -1;
  for (; end < n && sequence[(first + end) % n_queries] == named; end++) {
    const index_t last = (index_t)clamp(position[(first + end) % n_queries], 0L, (long)n_keys - 1);
    rows->least = min(rows->least, last);
    rows->most = max(rows->most, last);
  }
  seen->pages = page_table + clamp(named, 0, (int)n_sequences - 1) * (long)max_pages;
  seen->n = rows->most + 1;
  return end;
}
#else
/* Sets the least and greatest last key of n rows. */
static inline void bound_rows(some_rows *rows, const key_range *seen, index_t first, index_t n,
                              index_t n_queries) {
  const index_t last = first + n - 1;
  const bool one_head = first / n_queries == last / n_queries;
  if (!CAUSAL) return;
  rows->least = seen->before + (one_head ? first % n_queries : 0);
  rows->most = seen->before + (one_head ? last % n_queries : n_queries - 1);
}
#endif
#endif

/* True if a row whose last key is `last` may not see key j. */
static inline bool is_hidden(index_t j, index_t last, index_t window) {
  return j > last ? true : WINDOWED ? j <= last - window : false;
}

/* Returns a score after the mask is applied. at: its offset in the mask. */
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

/* Applies the mask to the scores of several rows that share a mask row. */
#if MASK == 1
#define MASK_ALL(score, mask, at, masked) ((mask)[at] ? (score) : (realw)(masked))
#elif MASK == 2
#define MASK_ALL(score, mask, at, masked) ((score) + (realw)LOAD(MASK_TYPE, mask, at))
#else
#define MASK_ALL(score, mask, at, masked) (score)
#endif

/* ---------------------------------------------------------------- new rows */

/* True if a token's position and page (`all`: pages up to it) are valid; else reports a fault. */
static inline bool is_placed(long position, int sequence, const __global int *page_table,
                             index_t n_keys, index_t n_sequences, index_t max_pages,
                             index_t n_pages, index_t page_shift, bool all, FAULT_PARAMS) {
  if (sequence < 0 || sequence >= n_sequences) {
    set_fault(fault, fault_node, FAULT_INDEX, sequence, 0, n_sequences - 1);
    return false;
  }
  if (position < 0 || position >= n_keys) {
    set_fault(fault, fault_node, FAULT_ROWS, position, 1, n_keys);
    return false;
  }
  const index_t last = (index_t)(position >> page_shift);
  for (index_t i = all ? 0 : last; i <= last; i++) {
    const int page = page_table[sequence * (long)max_pages + i];
    if (page >= 0 && page < n_pages) continue;
    set_fault(fault, fault_node, FAULT_INDEX, page, 0, n_pages - 1);
    return false;
  }
  return true;
}

/* Stores columns [begin, end) of a row to a row of the cache. A row of an I8 cache is rounded as a
 * whole, and its factor is stored in *scale. */
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

/* Parameters of the attention kernels. ATTENTION_ARGS passes them on. */
#define ATTENTION_PARAMS                                                                          \
  const __global STORAGE(X_TYPE) * q, const long q_offset, const __global STORAGE(KEY_TYPE) * k,  \
      const long k_offset, const __global STORAGE(KEY_TYPE) * v, const long v_offset,             \
      const __global STORAGE(MASK_TYPE) * mask, const long mask_offset,                           \
      __global STORAGE(X_TYPE) * out, const long out_offset, __global real *splits,               \
      const long splits_offset, const __global float *k_scale, const long k_scale_offset,         \
      const __global float *v_scale, const long v_scale_offset, const __global long *position,    \
      const long position_offset, const index8 batch_dims, const index8 q_strides,                \
      const index8 k_strides, const index8 v_strides, const index8 mask_strides,                  \
      const index_t mask_step, const index_t items, const index_t n_kv, const index_t share,      \
      const index_t n_queries, const index_t n_keys, const index_t head_dim, const index_t v_dim, \
      const index_t n_splits, const index_t out_rows, const index_t skip, const index_t window,   \
      const real scale, const real masked, const real softcap, const __global int *sequence,      \
      const long sequence_offset, const __global int *page_table, const long page_table_offset,   \
      const index_t n_sequences, const index_t max_pages, const index_t n_pages,                  \
      const index_t page_shift

#define ATTENTION_ARGS                                                                            \
  q, q_offset, k, k_offset, v, v_offset, mask, mask_offset, out, out_offset, splits,              \
      splits_offset, k_scale, k_scale_offset, v_scale, v_scale_offset, position, position_offset, \
      batch_dims, q_strides, k_strides, v_strides, mask_strides, mask_step, items, n_kv, share,   \
      n_queries, n_keys, head_dim, v_dim, n_splits, out_rows, skip, window, scale, masked,        \
      softcap, sequence, sequence_offset, page_table, page_table_offset, n_sequences, max_pages,  \
      n_pages, page_shift

#endif
