#include "attention.h"

/* A work-item joins the splits of one row. Those without keys have written no sums. */
__kernel void attention_merge(const __global real *parts, const long parts_offset,
                              __global STORAGE(X_TYPE) * out, const long out_offset,
                              const index_t n_rows, const index_t v_dim, const index_t n_splits,
                              const index_t n_queries, const index_t out_rows) {
  const index_t r = (index_t)get_global_id(0);
  if (r >= n_rows) return;
  const index_t width = v_dim + 2, part = n_rows * width;
  const __global real *row = parts + parts_offset + r * width;
  real largest = (real)(-INFINITY), total = 0;
  for (index_t s = 0; s < n_splits; s++) largest = larger(largest, row[s * part + v_dim]);
  const real base = FINITE(real, largest);
  for (index_t s = 0; s < n_splits; s++)
    total += row[s * part + v_dim + 1] * exp(row[s * part + v_dim] - base);
  const real inverse = INVERSE(real, total);
  const long to = out_offset + (r / n_queries * out_rows + r % n_queries) * v_dim;
  for (index_t d = 0; d < v_dim; d++) {
    real sum = 0;
    for (index_t s = 0; s < n_splits; s++) {
      const real weight = exp(row[s * part + v_dim] - base);
      if (weight != 0) sum += row[s * part + d] * weight;
    }
    STORE(X_TYPE, out, to + d, sum * inverse);
  }
}
