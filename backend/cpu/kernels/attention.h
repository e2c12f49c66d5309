#ifndef BACKEND_CPU_KERNELS_ATTENTION_H
#define BACKEND_CPU_KERNELS_ATTENTION_H
/* Scaled dot product attention. */
#include "base/kernel.h"

/* All of one rank >= 3: q (..., n_heads, Lq, head_dim), k (..., n_kv, Lk, head_dim), v (..., n_kv,
 * Lk, v_dim), last strides 1; mask (..., n_heads, Lq, Lk) with broadcast dims as stride 0, BOOL
 * (true = attend) or float (added), or NULL; out: contiguous. Head h reads the keys of h / (n_heads
 * / n_kv). */
typedef struct attention {
  const ktensor *q, *k, *v, *mask, *out;
  bool causal; /* query i sees keys <= i */
  double scale;
  double masked; /* the score of a key that a BOOL mask hides */
  float empty;   /* 0 or NaN: the weights of a query whose scores are all -inf */
} attention;

bool kernel_attention(const kernel_context *ctx,
                      const attention *p); /* false when scratch memory is out */

#endif
