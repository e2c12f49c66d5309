#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H
/* Attention, over a cache, and over caches in pages. */
#include "ops/node.h"

/* q: (*, n_kv * share, n_queries, head_dim), k: (*, n_kv, n_keys, head_dim), v: (*, n_kv, n_keys,
 * v_dim); * has n_batch elements. Head h of q reads head h / share of k and v. */
typedef struct attention_form {
  const bound_tensor *q, *k, *v, *out;
  const bound_tensor *mask; /* NULL: none */
  tensor mask_view;         /* mask as the scores: (*, n_kv * share, n_queries, n_keys) */
  int64_t n_batch, n_kv, share, n_queries, n_keys, head_dim, v_dim;
  bool causal;
  bool empty_nan;       /* a query whose scores are all -inf gets NaN, not 0 */
  double scale, masked; /* masked: the score of a key that a BOOL mask hides */
} attention_form;
void describe_attention(const node *node, attention_form *desc);

/* Rows of new_k and new_v go to the caches; k, v, k_scale and v_scale are the caches with them,
 * n_keys their rows. The rows go there and are attended to `room` at a time: what more would
 * overwrite keys that earlier ones of them see. */
typedef struct attention_cached_form {
  attention_form attention;
  const bound_tensor *new_k, *new_v, *position;
  const bound_tensor *k_scale, *v_scale; /* NULL: none */
  int64_t window, room;                  /* window: 0 for all keys */
  double softcap;                        /* 0: none */
} attention_cached_form;
void describe_attention_cached(const node *node, attention_cached_form *desc);

/* Tokens in pages: k, v, k_scale and v_scale are the pools with the new rows, n_keys what a
 * sequence of the page table has room for. */
typedef struct attention_paged_form {
  attention_cached_form cached;
  const bound_tensor *sequence, *page_table;
  int64_t n_pages, page_rows, n_sequences, most_pages;
} attention_paged_form;
enum { LEAST_PAGE_ROWS = 16, MOST_PAGE_ROWS = 65536 };
void describe_attention_paged(const node *node, attention_paged_form *desc);

#endif
