/* h[t] = exp(log_decay[t] * rate) * h[t - 1] + x[t] * b[t], out[t] = the sum over n of h[t] * c[t].
 * A work-item computes one row (n_state) of the state, which belongs to a batch element, head and
 * position in the head. It processes TOKENS tokens at a time, W neighbours of n at a time; W
 * divides n_state. RATE: the rate is an argument, else it is 1. */
#include "common.h"
#ifndef TYPE
#define TYPE F32
#endif
#ifndef RATE
#define RATE 0
#endif
#ifndef TOKENS
#define TOKENS 8
#endif
#include "vector.h"

/* Strides are innermost first. state: (B, n_heads, head_dim, n_state). */
__kernel void ssm_scan(const __global STORAGE(TYPE) * x, const long x_offset,
                       const __global STORAGE(TYPE) * log_decay, const long log_decay_offset,
                       const __global STORAGE(TYPE) * b, const long b_offset,
                       const __global STORAGE(TYPE) * c, const long c_offset,
                       const __global STORAGE(TYPE) * rate, const long rate_offset,
                       __global STORAGE(TYPE) * state, const long state_offset,
                       __global STORAGE(TYPE) * out, const long out_offset, const index8 x_strides,
                       const index8 decay_strides, const index8 b_strides, const index8 c_strides,
                       const index_t items, const index_t length, const index_t n_heads,
                       const index_t share, const index_t head_dim, const index_t n_state) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t p = item % head_dim, head = item / head_dim % n_heads, group = head / share,
                batch = item / head_dim / n_heads, out_stride = n_heads * head_dim;
  x += x_offset + batch * x_strides.s3 + head * x_strides.s1 + p;
  log_decay += log_decay_offset + batch * decay_strides.s2 + head * decay_strides.s0;
  b += b_offset + batch * b_strides.s3 + group * b_strides.s1;
  c += c_offset + batch * c_strides.s3 + group * c_strides.s1;
  state += state_offset + item * n_state;
  out += out_offset + batch * length * out_stride + head * head_dim + p;
  for (index_t from = 0; from < length; from += TOKENS) {
    const int some = (int)(length - from < TOKENS ? length - from : TOKENS);
    real in[TOKENS], exponent[TOKENS];
    realw sum[TOKENS];
    for (int k = 0; k < TOKENS; k++) {
      const index_t t = k < some ? from + k : from;
      in[k] = LOAD(TYPE, x, t * x_strides.s2);
      exponent[k] = LOAD(TYPE, log_decay, t * decay_strides.s1);
      if (!RATE) exponent[k] = exp(exponent[k]);
      sum[k] = (realw)0;
    }
    for (index_t n = 0; n < n_state; n += W) {
      realw h = LOADW(TYPE, state + n);
#if RATE
      const realw r = LOADW(TYPE, rate + rate_offset + head * n_state + n);
#endif
      for (int k = 0; k < TOKENS; k++) {
        if (k >= some) continue;
        const index_t t = from + k;
#if RATE
        h *= exp(exponent[k] * r);
#else
        h *= exponent[k];
#endif
        h += in[k] * LOADW(TYPE, b + t * b_strides.s2 + n);
        sum[k] += h * LOADW(TYPE, c + t * c_strides.s2 + n);
      }
      STOREW(TYPE, state + n, h);
    }
    for (int k = 0; k < some; k++) STORE(TYPE, out, (from + k) * out_stride, fold_add(sum[k]));
  }
}
