#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H
/* Attention: plain, over a cache, and over caches in pages. */
#include "ops/node.h"

/* q: (*, n_kv * share, n_queries, head_dim), k: (*, n_kv, n_keys, head_dim), v: (*, n_kv, n_keys,
 * v_dim); * has n_batch elements. Head h of q reads head h / share of k and v. */
typedef struct attention_desc {
  const bound_tensor *q, *k, *v, *out;
  const bound_tensor *mask;  /* NULL if absent */
  const bound_tensor *sinks; /* (n_kv * share) F32, scores without a value; NULL if absent */
  tensor mask_view; /* mask broadcast to the scores: (*, n_kv * share, n_queries, n_keys) */
  int64_t n_batch, n_kv, share, n_queries, n_keys, head_dim, v_dim;
  bool causal;
  bool empty_nan;       /* a query whose scores are all -inf yields NaN instead of 0 */
  double scale, masked; /* masked: the score of a key that a BOOL mask hides */
} attention_desc;
void describe_attention(const node *node, attention_desc *desc);

/* Attention over caches: k, v, k_scale and v_scale are the caches after the rows of new_k and new_v
 * are written to them, and n_keys is their row count. At most max_new_rows new rows are processed
 * at a time, because more would overwrite keys that earlier new rows still see. */
typedef struct attention_cached_desc {
  attention_desc attention;
  const bound_tensor *new_k, *new_v, *position;
  const bound_tensor *k_scale, *v_scale; /* NULL if absent */
  int64_t window, max_new_rows;          /* window: keys that a query sees, 0 for all */
  double softcap;                        /* 0 if absent */
} attention_cached_desc;
void describe_attention_cached(const node *node, attention_cached_desc *desc);

/* Attention over pages: k, v, k_scale and v_scale are the page pools after the new rows are written
 * to them. n_keys is the number of rows that one sequence of the page table can hold. */
typedef struct attention_paged_desc {
  attention_cached_desc cached;
  const bound_tensor *sequence, *page_table;
  int64_t n_pages, page_rows, n_sequences, max_pages;
} attention_paged_desc;
enum { MIN_PAGE_ROWS = 16, MAX_PAGE_ROWS = 65536 };
void describe_attention_paged(const node *node, attention_paged_desc *desc);

#endif
