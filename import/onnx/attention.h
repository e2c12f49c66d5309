#ifndef IMPORT_ONNX_ATTENTION_H
#define IMPORT_ONNX_ATTENTION_H
/* Attention, as its ops in ai.onnx and com.microsoft share it. */
#include "import/onnx/node.h"

enum { SCORES_NONE = -1, SCORES_RAW, SCORES_CAPPED, SCORES_BIASED, SCORES_SOFTMAX };

/* q: (B, n_heads, L, head_dim), k: (B, n_kv, T, head_dim), v: (B, n_kv, T, v_dim) */
typedef struct attention_call {
  value *q, *k, *v;
  value *bias;     /* added to the scores, to which it is broadcast; or NULL */
  value *allowed;  /* BOOL, broadcast to the scores: keys that a query sees; NULL: all */
  bool causal;     /* query i sees keys up to i only */
  double scale;    /* 0: 1 / sqrt(head_dim) */
  double softcap;  /* c tanh(score / c); 0: none */
  value *sink;     /* (n_heads): the score of a key without a value; or NULL */
  int scores_kind; /* SCORES_*: which scores are kept */
  value *scores;   /* result: (B, n_heads, L, T) */
} attention_call;

/* Returns (B, n_heads, L, v_dim). Queries that see no key get zeros. */
value *onnx_attend(node *node, attention_call *call);

/* (B, L, n * dim) to (B, n, L, dim), and back */
value *onnx_split_heads(node *node, value *input, int64_t n);
value *onnx_join_heads(node *node, value *input);
/* Positions of queries and keys: query i is at `first` + i, or at offsets[b] + i (offsets: (B),
 * I64). It sees keys up to its position + right and from its position - left on; -1: all. Returns
 * BOOL (L, T) or (B, 1, L, T); NULL if all keys are seen. */
typedef struct attention_span {
  number queries, keys, first;
  value *offsets; /* or NULL */
  int64_t left, right;
} attention_span;
value *onnx_visible(importer *im, const attention_span *span);
value *onnx_both(importer *im, value *left, value *right); /* a and b, where NULL is true */
value *onnx_append(node *node, value *past, value *input); /* past may be NULL; along axis 2 */
/* BOOL (B, 1, 1, n): position j is less than lengths[b] (B) */
value *onnx_before(importer *im, value *lengths, number n);

/* Rotates input: (B, L, n_heads, head_dim). cos, sin: (L, pairs) or (B, L, pairs), of which the
 * first 2 * pairs elements of a head are rotated. */
value *onnx_rotate(node *node, value *input, value *cos, value *sin, bool interleaved);

#endif
