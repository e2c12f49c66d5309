#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTENTION_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTENTION_H
/* Scaled dot product attention. */
#include "backend/cpu/kernels/attention/attend.h"

/* All operands have last strides 1. */
typedef struct attention_args {
  ktensor q, k, v;
  ktensor mask; /* (*, n_kv * share, n_queries, n_keys), BOOL (true = attend) or float (added), with
                   broadcast dims as stride 0, or absent */
  ktensor out;  /* rows of v_dim */
  attention_sizes sizes;
  bool causal;          /* query i sees the keys up to i */
  bool empty_nan;       /* a query whose scores are all -inf yields NaN, not 0 */
  bool rounds;          /* rounds q, k, weights, v to BF16 if faster: attention_rounds */
  double scale, masked; /* masked: score of a key that a BOOL mask hides */
} attention_args;
KERNEL(attention, attention_args);
bool attention_rounds(const attention_args *args);

/* Stores new row i as row (position + i) mod n_keys of k and v, which are caches of n_keys rows.
 * The query at position p sees the keys at positions (p - window, p], or [0, p] if window is 0.
 * Rows are processed `max_new_rows` at a time, the maximum that does not overwrite keys in use. A
 * row x of an I8 cache is round(x / s), where its scale s is max|x| / 127 or NaN. A position at
 * which the rows do not fit is a fault. */
typedef struct attention_cached_args {
  ktensor q, new_k, new_v;  /* (B, heads, n_queries, size) */
  ktensor position;         /* one I64 */
  ktensor k, v;             /* (B, n_kv, n_keys, size) */
  ktensor k_scale, v_scale; /* (B, n_kv, n_keys) F32, for I8 caches, or absent */
  ktensor sinks;            /* (heads) F32: scores without a value, or absent */
  ktensor out;
  attention_sizes sizes;
  int64_t window, max_new_rows;
  double scale,
      softcap; /* softcap: a score s is replaced by softcap * tanh(s / softcap); 0: none */
} attention_cached_args;
KERNEL(attention_cached, attention_cached_args);

/* Does the same with caches in pages. Token i is at position[i], one of (n_queries) I64, of
 * sequence[i]. Its position p is row p mod R of page page_table[sequence, p / R] of k and v:
 * (pages, n_kv, R, size); k_scale and v_scale: (pages, n_kv, R); n_keys = P * R. An invalid
 * sequence, position or page is a fault, and then nothing is written. */
typedef struct attention_paged_args {
  attention_cached_args cached;
  ktensor sequence, page_table; /* I32 (n_queries), (n_sequences, P) */
  int64_t n_sequences;
} attention_paged_args;
KERNEL(attention_paged, attention_paged_args);

#endif
