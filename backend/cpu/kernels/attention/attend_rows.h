#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_ROWS_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_ROWS_H
/* Describes an attention: the rows of queries, keys and values, and the keys that a query may
 * see. */
#include <math.h>

#include "backend/cpu/kernels/support/rows.h"

/* All operands have the same rank >= 3 and last strides 1: q (*, n_kv * share, n_queries,
 * head_dim), k (*, n_kv, n_keys, head_dim), v (*, n_kv, n_keys, v_dim); * has n_batch elements.
 * Head h reads head h / share of k and v. */
typedef struct attention_sizes {
  int64_t n_batch, n_kv, share, n_queries, n_keys, head_dim, v_dim;
} attention_sizes;

/* An attention op, or a piece of an attention op with a cache. Key j is row (first_row + j) mod
 * rows of k and v, or row j mod rows of page j / rows. */
typedef struct attention {
  const ktensor *q, *k, *v, *mask, *out; /* mask: NULL if absent */
  const ktensor *k_scale, *v_scale;      /* factors of the rows, or NULL */
  const float *sinks;    /* (n_kv * share): a score of each head without a value, or NULL */
  attention_sizes sizes; /* n_keys: number of keys up to the last one that a query sees */
  int64_t first_row;
  const int32_t *pages;     /* NULL: k and v are not paged */
  const int64_t *positions; /* positions of the queries; NULL: before + i */
  bool causal;              /* query i sees keys <= before + i ... */
  int64_t before, window;   /* ... and of these the last `window`; 0: all */
  double scale, softcap, masked;
  bool rounds; /* rounds operands of products to BF16 where that is faster (see attend_rounds) */
  float empty; /* 0 or NaN: the weights of a query whose scores are all -inf */
} attention;

static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* A query. Before the mask applies, it may see the keys [from, to). */
typedef struct query_row {
  int64_t head, query, from, to; /* head: flat over (..., n_heads) */
} query_row;
/* Returns row r of a pair. A pair is a batch and a head of k; pairs are counted over all batches.
 * The rows of a pair are all queries of the heads that share its keys. */
query_row find_query(const attention *attention, int64_t pair, int64_t r);
/* Returns the sink of a query's head, a score that has no value; -inf if the model has none. */
static inline float find_sink(const attention *attention, const query_row *row) {
  const int64_t heads = attention->sizes.n_kv * attention->sizes.share;
  return attention->sinks ? attention->sinks[row->head % heads] : -INFINITY;
}
/* Returns the offset of a query's row in q, mask or out. */
int64_t query_offset(const attention *attention, const ktensor *t, const query_row *row);

/* Position of the rows of a head of k or v, and of their scales. */
typedef struct key_rows {
  const ktensor *t, *scale;
  int64_t at, scale_at, first, size; /* offsets of the matrix of the head in t and in scale; row of
                                        key 0; rows of the matrix, or of a page */
  const int32_t *pages;              /* NULL: the rows are contiguous */
} key_rows;
/* Return the rows of the head of k, or of v, that a pair reads. */
key_rows find_keys(const attention *attention, int64_t pair);
key_rows find_values(const attention *attention, int64_t pair);

/* Returns the offset of row j in t, which is rows->t or rows->scale. *n receives the number of
 * contiguous rows from there on. */
static inline int64_t place_row(const key_rows *rows, const ktensor *t, int64_t at, int64_t j,
                                int64_t *n) {
  int64_t row = rows->first + j < rows->size ? rows->first + j : rows->first + j - rows->size,
          page = 0;
  if (rows->pages) {
    page = rows->pages[j / rows->size] * t->strides[0];
    row = j % rows->size;
  }
  *n = rows->size - row;
  return at + page + row * t->strides[t == rows->t ? t->rank - 2 : t->rank - 1];
}

/* Returns n elements in class c, in place if they are stored so, else in `row`. */
static inline const void *row_in_place(compute_type c, dtype t, const void *from, int64_t n,
                                       void *row) {
  if (t == DTYPE_F32 && c == COMPUTE_F32) return from;
  if (t == DTYPE_F64 && c == COMPUTE_F64) return from;
  load_row(c, t, from, 1, n, row);
  return row;
}

/* Returns row j in the compute type, in place if it is stored so, else in `line`. The caller
 * multiplies it by *factor. */
static inline const void *read_row(const key_rows *rows, compute_type c, int64_t j, void *line,
                                   double *factor) {
  int64_t rest, at = place_row(rows, rows->t, rows->at, j, &rest);
  *factor = 1;
  if (rows->scale)
    *factor =
        ((const float *)rows->scale->data)[place_row(rows, rows->scale, rows->scale_at, j, &rest)];
  return row_in_place(c, rows->t->type, element_at(rows->t->data, rows->t->type, at),
                      rows->t->dims[rows->t->rank - 1], line);
}

#endif
