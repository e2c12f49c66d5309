#ifndef IMPORT_EMIT_DECODER_H
#define IMPORT_EMIT_DECODER_H
/* Emits ops of decoders, the graphs of language models. */
#include "import/emit.h"

/* Rotates the first elements of the last axis by the angles whose cos and sin (..., n) are given in
 * input's dtype: 2 n elements, the pairs (2i, 2i + 1) if `interleaved`, else (i, i + n). */
value *emit_rope(importer *im, value *input, value *cos, value *sin, bool interleaved);

/* Attention of L new tokens over caches, into which their keys and values are written. */
typedef struct cached_attention {
  value *q, *k, *v;     /* (1, n_heads, L, head_dim), (1, n_kv, L, head_dim), (1, n_kv, L, v_dim) */
  value *position;      /* I64, rank 0: the position of the first new token */
  value *keys, *values; /* state: (1, n_kv, rows, head_dim or v_dim) */
  value *key_scales, *value_scales; /* state of I8 caches: (1, n_kv, rows), F32; otherwise NULL */
  value *sinks;   /* (n_heads) F32, a score of each head without a value; NULL: none */
  int64_t window; /* tokens that a token sees, itself included; 0: all before it */
  double scale;   /* 0: 1 / sqrt(head_dim) */
  double softcap; /* c tanh(score / c); 0: none */
} cached_attention;
/* Returns (1, n_heads, L, v_dim). Replaces the four members of state by the state after the run,
 * which the caller makes the new state (clave_builder_update). */
value *emit_cached_attention(importer *im, cached_attention *call);

#endif
