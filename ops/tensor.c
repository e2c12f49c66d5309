/* Types and layouts of tensors: contiguity, broadcasting, collapsing of dimensions. */
#include "ops/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Strides of empty tensors are never used, so their product may wrap. */
static int64_t mul_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

int64_t tensor_numel(const tensor *tensor) {
  int64_t n = 1;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] == 0) return 0;
    n = mul_wrapping(n, tensor->dims[i]);
  }
  return n;
}

static int64_t tensor_count(const tensor *value, int from, int to) {
  tensor part = {.rank = to - from};
  memcpy(part.dims, value->dims + from, (size_t)(to - from) * sizeof *value->dims);
  return tensor_numel(&part);
}
int64_t tensor_row(const tensor *tensor) {
  return tensor_count(tensor, tensor->encoding.axis, tensor->rank);
}
int64_t tensor_rows(const tensor *tensor) { return tensor_count(tensor, 0, tensor->encoding.axis); }

/* Cannot overflow int64_t, because the check of plain tensors comes first. */
static bool encoded_bytes(const tensor *tensor, size_t *out) {
  int64_t row = tensor_row(tensor);
  *out = encoding_row_bytes(&tensor->encoding, row);
  return (*out || !row) && mul_size(*out, (uint64_t)tensor_rows(tensor), out);
}

tensor tensor_stored(const tensor *coded) {
  if (!coded->encoding.kind) return *coded;
  tensor bytes = {.type = DTYPE_U8, .rank = coded->encoding.axis + 1};
  memcpy(bytes.dims, coded->dims, sizeof bytes.dims);
  bytes.dims[bytes.rank - 1] = (int64_t)encoding_row_bytes(&coded->encoding, tensor_row(coded));
  tensor_set_contiguous(&bytes);
  return bytes;
}

bool tensor_bytes(const tensor *tensor, size_t *out) {
  if (tensor->encoding.kind) return encoded_bytes(tensor, out);
  *out = dtype_size(tensor->type);
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] < 0 || !mul_size(*out, (uint64_t)tensor->dims[i], out)) return false;
  }
  return true;
}

void tensor_set_contiguous(tensor *tensor) {
  int64_t stride = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    tensor->strides[i] = stride;
    stride = mul_wrapping(stride, tensor->dims[i] > 1 ? tensor->dims[i] : 1);
  }
  tensor->offset = 0;
}

bool tensor_is_contiguous(const tensor *tensor) {
  if (tensor_numel(tensor) == 0) return true;
  int64_t stride = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->dims[i] == 1) continue;
    if (tensor->strides[i] != stride) return false;
    stride = mul_wrapping(stride, tensor->dims[i]);
  }
  return true;
}

bool tensor_same_view(const tensor *left, const tensor *right) {
  const size_t n = (size_t)left->rank;
  return left->type == right->type && left->rank == right->rank && left->offset == right->offset &&
         memcmp(left->dims, right->dims, n * sizeof *left->dims) == 0 &&
         memcmp(left->strides, right->strides, n * sizeof *left->strides) == 0;
}

bool tensor_rows_contiguous(const tensor *tensor) {
  return tensor->rank == 0 || tensor->dims[tensor->rank - 1] <= 1 ||
         tensor->strides[tensor->rank - 1] == 1;
}

const char *tensor_shape_text(const tensor *tensor, char *buf, int size) {
  if (size <= 0) return buf;
  size_t capacity = (size_t)size, used = 0;
  buf[0] = '\0';
  for (int i = 0; i <= tensor->rank && used < capacity; i++) {
    const char *before = i == 0 ? "(" : i < tensor->rank ? ", " : "";
    int n;
    if (i == tensor->rank)
      n = snprintf(buf + used, capacity - used, "%s)", before);
    else if (tensor->dims[i] == DIM_UNKNOWN)
      n = snprintf(buf + used, capacity - used, "%s?", before);
    else
      n = snprintf(buf + used, capacity - used, "%s%lld", before, (long long)tensor->dims[i]);
    if (n < 0) break;
    used += (size_t)n;
  }
  return buf;
}

/* True if dimension `inner` continues `outer` without a gap in every tensor. */
static bool can_merge(const tensor *ts, int n, int outer, int inner) {
  for (int k = 0; k < n; k++) {
    if (ts[k].strides[outer] != mul_wrapping(ts[k].strides[inner], ts[k].dims[inner])) return false;
  }
  return true;
}

void tensors_collapse(tensor *ts, int n) {
  if (n == 0) return;
  if (tensor_numel(&ts[0]) == 0) {
    for (int k = 0; k < n; k++) {
      ts[k].rank = 1;
      ts[k].dims[0] = 0;
      ts[k].strides[0] = 1;
    }
    return;
  }
  int rank = ts[0].rank, kept = 0; /* dimensions [0, kept) are done; kept - 1 may still grow */
  for (int i = 0; i < rank; i++) {
    if (ts[0].dims[i] == 1) continue;
    bool merge = kept > 0 && can_merge(ts, n, kept - 1, i);
    int to = merge ? kept - 1 : kept++;
    for (int k = 0; k < n; k++) {
      ts[k].dims[to] = merge ? ts[k].dims[to] * ts[k].dims[i] : ts[k].dims[i];
      ts[k].strides[to] = ts[k].strides[i];
    }
  }
  for (int k = 0; k < n; k++) ts[k].rank = kept;
}

void tensor_broadcast(const tensor *input, int rank, const int64_t *shape, tensor *out) {
  tensor tensor = *input;
  tensor.rank = rank;
  for (int i = 0; i < rank; i++) {
    int from = i - (rank - input->rank);
    bool repeats = from < 0 || (input->dims[from] == 1 && shape[i] != 1);
    tensor.dims[i] = shape[i];
    tensor.strides[i] = repeats ? 0 : input->strides[from];
  }
  *out = tensor;
}
