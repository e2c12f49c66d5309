/* Merges dimensions before a walk. */
#include "backend/cpu/kernels/support/walk.h"

static bool mergeable(int64_t inner_dim, int outer, int inner, int n, int64_t *const *strides) {
  for (int k = 0; k < n; k++)
    if (strides[k][outer] != strides[k][inner] * inner_dim) return false;
  return true;
}

int merge_dims(int rank, int64_t *dims, int n, int64_t *const *strides) {
  int kept = 0;
  for (int d = 0; d < rank; d++) {
    if (dims[d] == 1) continue;
    bool merge = kept > 0 && mergeable(dims[d], kept - 1, d, n, strides);
    int to = merge ? kept - 1 : kept;
    dims[to] = merge ? dims[to] * dims[d] : dims[d];
    for (int k = 0; k < n; k++) strides[k][to] = strides[k][d];
    kept = to + 1;
  }
  return kept;
}
