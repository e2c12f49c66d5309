#include "attention.h"

/* Joins the splits of `chunk` neighbouring elements of a row per work-item. A split without keys
 * has not written any sums. items: rows * n_chunks. SINKS: each head has a further score. */
__kernel void attention_merge(const __global real *splits, const long splits_offset,
                              __global STORAGE(X_TYPE) * out, const long out_offset,
                              const __global float *sinks, const long sinks_offset,
                              const index_t n_heads, const index_t items, const index_t n_chunks,
                              const index_t chunk, const index_t v_dim, const index_t n_splits,
                              const index_t n_queries, const index_t out_rows) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t r = item / n_chunks, first = item % n_chunks * chunk, width = v_dim + 2,
                split_size = items / n_chunks * width;
  const __global real *row = splits + splits_offset + r * width;
  real largest = (real)(-INFINITY), total = 0;
  for (index_t s = 0; s < n_splits; s++) largest = larger(largest, row[s * split_size + v_dim]);
#if SINKS
  const real sink = sinks[sinks_offset + r / n_queries % n_heads];
  largest = larger(largest, sink);
#endif
  const real base = FINITE(real, largest);
  for (index_t s = 0; s < n_splits; s++)
    total += row[s * split_size + v_dim + 1] * exp(row[s * split_size + v_dim] - base);
#if SINKS
  total += exp(sink - base);
#endif
  const real inverse = INVERSE(real, total);
  const long to = out_offset + (r / n_queries * out_rows + r % n_queries) * v_dim;
  for (index_t d = first; d < min(first + chunk, v_dim); d++) {
    real sum = 0;
    for (index_t s = 0; s < n_splits; s++) {
      const real weight = exp(row[s * split_size + v_dim] - base);
      if (weight != 0) sum += row[s * split_size + d] * weight;
    }
    STORE(X_TYPE, out, to + d, sum * inverse);
  }
}
