/* Gathers a strided tensor of the caller, one run of the innermost dimension at a time, and
 * converts between bf16 and f32. */
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

void copy_to_contiguous(const tensor *value, const void *data, void *out) {
  tensor tensor = *value;
  if (tensor_numel(&tensor) == 0) return;
  tensors_collapse(&tensor, 1);
  size_t size = dtype_size(tensor.type);
  int outer = tensor.rank > 0 ? tensor.rank - 1 : 0;
  int64_t n = tensor.rank ? tensor.dims[outer] : 1,
          stride = tensor.rank ? tensor.strides[outer] : 1, index[MAX_RANK] = {0};
  const char *from = (const char *)data + tensor.offset * (int64_t)size;
  char *to = out;
  for (;;) {
    copy_row(from, n, stride, size, to);
    to += (size_t)n * size;
    int d = outer - 1;
    for (; d >= 0; d--) {
      from += tensor.strides[d] * (int64_t)size;
      if (++index[d] < tensor.dims[d]) break;
      from -= tensor.dims[d] * tensor.strides[d] * (int64_t)size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

void widen_bf16(void *data, int64_t n) {
  char *at = data;
  for (int64_t i = n; i-- > 0;) {
    uint16_t bits;
    memcpy(&bits, at + i * (int64_t)sizeof bits, sizeof bits);
    const float x = bf16_to_f32(bits);
    memcpy(at + i * (int64_t)sizeof x, &x, sizeof x);
  }
}

void round_to_bf16(void *data, int64_t n) {
  char *at = data;
  for (int64_t i = 0; i < n; i++) {
    float x;
    memcpy(&x, at + i * (int64_t)sizeof x, sizeof x);
    const uint16_t bits = f32_to_bf16(x);
    memcpy(at + i * (int64_t)sizeof bits, &bits, sizeof bits);
  }
}
