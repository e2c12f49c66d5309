/* Gathers a caller's strided tensor, a run of the innermost dimension at a time. */
#include "interp/host_copy.h"

#include <string.h>

static void copy_row(const char *from, int64_t n, int64_t stride, size_t size, char *to) {
  if (stride == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    memcpy(to + (size_t)i * size, from + i * stride * (int64_t)size, size);
}

void copy_to_contiguous(const tensor *x, const void *data, void *out) {
  tensor t = *x;
  if (tensor_numel(&t) == 0) return;
  tensors_collapse(&t, 1);
  size_t size = dtype_size(t.type);
  int outer = t.rank > 0 ? t.rank - 1 : 0;
  int64_t n = t.rank ? t.dims[outer] : 1, stride = t.rank ? t.strides[outer] : 1,
          index[MAX_RANK] = {0};
  const char *from = (const char *)data + t.offset * (int64_t)size;
  char *to = out;
  for (;;) {
    copy_row(from, n, stride, size, to);
    to += (size_t)n * size;
    int d = outer - 1;
    for (; d >= 0; d--) {
      from += t.strides[d] * (int64_t)size;
      if (++index[d] < t.dims[d]) break;
      from -= t.dims[d] * t.strides[d] * (int64_t)size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
