/* Copies a strided tensor of the caller, one contiguous row of the innermost dimension at a time,
 * and converts between bf16 and f32. */
#include "interp/host_copy.h"

#include <string.h>

static void host_copy_row(const char *from, int64_t n, int64_t stride, size_t size, char *to) {
  if (stride == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    memcpy(to + (size_t)i * size, from + i * stride * (int64_t)size, size);
}

void copy_to_contiguous(const tensor *layout, const void *data, void *out) {
  tensor collapsed = *layout;
  if (tensor_numel(&collapsed) == 0) return;
  tensors_collapse(&collapsed, 1);
  size_t size = dtype_size(collapsed.type);
  int outer = collapsed.rank > 0 ? collapsed.rank - 1 : 0;
  int64_t n = collapsed.rank ? collapsed.dims[outer] : 1,
          stride = collapsed.rank ? collapsed.strides[outer] : 1, index[MAX_RANK] = {0};
  const char *from = (const char *)data + collapsed.offset * (int64_t)size;
  char *to = out;
  for (;;) {
    host_copy_row(from, n, stride, size, to);
    to += (size_t)n * size;
    int d = outer - 1;
    for (; d >= 0; d--) {
      from += collapsed.strides[d] * (int64_t)size;
      if (++index[d] < collapsed.dims[d]) break;
      from -= collapsed.dims[d] * collapsed.strides[d] * (int64_t)size;
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
