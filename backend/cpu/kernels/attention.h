#ifndef BACKEND_CPU_KERNELS_ATTENTION_H
#define BACKEND_CPU_KERNELS_ATTENTION_H
/* Scaled dot product attention. */
#include "base/kernel.h"

/* All of one rank >= 3: q (..., n_heads, Lq, head_dim), k (..., n_kv, rows, head_dim), v (...,
 * n_kv, rows, v_dim), last strides 1; mask (..., n_heads, Lq, n_keys) with broadcast dims as stride
 * 0, BOOL (true = attend) or float (added), or NULL; out: rows of v_dim. Head h reads the keys of h
 * / (n_heads / n_kv). Key j is row (first_row + j) mod rows. */
typedef struct attention {
  const ktensor *q, *k, *v, *mask, *out;
  const ktensor *k_scale, *v_scale; /* (..., n_kv, rows, 1) F32, factors of the rows, or NULL */
  int64_t n_keys, first_row;
  bool causal;            /* query i sees keys <= before + i ... */
  int64_t before, window; /* ... and of these the last `window`; 0: all */
  double scale, softcap;  /* softcap: a score s becomes softcap * tanh(s / softcap); 0: none */
  double masked;          /* the score of a key that a BOOL mask hides */
  float empty;            /* 0 or NaN: the weights of a query whose scores are all -inf */
} attention;

bool kernel_attention(const kernel_context *ctx,
                      const attention *p); /* false when scratch memory is out */

/* Rows of x (B, n, L, size) to rows (at + i) mod rows of cache (B, n, rows, size). An I8 cache gets
 * round(x / s), s = max|x| / 127 or NaN, which goes to scale (B, n, rows, 1) F32; else scale is
 * NULL. */
void kernel_attention_store(const kernel_context *ctx, const ktensor *x, int64_t at,
                            const ktensor *cache, const ktensor *scale);

#endif
