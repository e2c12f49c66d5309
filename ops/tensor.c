/* Tensor types and layouts: contiguity, broadcasting, and collapsing dimensions for iteration. */
#include "ops/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Strides of empty tensors are never used, so their product may wrap. */
static int64_t mul_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

int64_t tensor_numel(const tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == 0) return 0;
    n = mul_wrapping(n, t->dims[i]);
  }
  return n;
}

static int64_t count(const tensor *t, int from, int to) {
  tensor part = {.rank = to - from};
  memcpy(part.dims, t->dims + from, (size_t)(to - from) * sizeof *t->dims);
  return tensor_numel(&part);
}
int64_t tensor_row(const tensor *t) { return count(t, t->encoding.axis, t->rank); }
int64_t tensor_rows(const tensor *t) { return count(t, 0, t->encoding.axis); }

/* Its elements fit in int64_t, as plain ones were checked to. */
static bool encoded_bytes(const tensor *t, size_t *out) {
  int64_t row = tensor_row(t);
  *out = encoding_row_bytes(&t->encoding, row);
  return (*out || !row) && mul_size(*out, (uint64_t)tensor_rows(t), out);
}

tensor tensor_stored(const tensor *t) {
  if (!t->encoding.kind) return *t;
  tensor s = {.type = DTYPE_U8, .rank = t->encoding.axis + 1};
  memcpy(s.dims, t->dims, sizeof s.dims);
  s.dims[s.rank - 1] = (int64_t)encoding_row_bytes(&t->encoding, tensor_row(t));
  tensor_set_contiguous(&s);
  return s;
}

bool tensor_bytes(const tensor *t, size_t *out) {
  if (t->encoding.kind) return encoded_bytes(t, out);
  *out = dtype_size(t->type);
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] < 0 || !mul_size(*out, (uint64_t)t->dims[i], out)) return false;
  }
  return true;
}

void tensor_set_contiguous(tensor *t) {
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    t->strides[i] = stride;
    stride = mul_wrapping(stride, t->dims[i] > 1 ? t->dims[i] : 1);
  }
  t->offset = 0;
}

bool tensor_is_contiguous(const tensor *t) {
  if (tensor_numel(t) == 0) return true;
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->dims[i] == 1) continue;
    if (t->strides[i] != stride) return false;
    stride = mul_wrapping(stride, t->dims[i]);
  }
  return true;
}

bool tensor_same_view(const tensor *a, const tensor *b) {
  const size_t n = (size_t)a->rank;
  return a->type == b->type && a->rank == b->rank && a->offset == b->offset &&
         memcmp(a->dims, b->dims, n * sizeof *a->dims) == 0 &&
         memcmp(a->strides, b->strides, n * sizeof *a->strides) == 0;
}

bool tensor_rows_contiguous(const tensor *t) {
  return t->rank == 0 || t->dims[t->rank - 1] <= 1 || t->strides[t->rank - 1] == 1;
}

const char *tensor_shape_text(const tensor *t, char *buf, int size) {
  if (size <= 0) return buf;
  size_t room = (size_t)size, used = 0;
  buf[0] = '\0';
  for (int i = 0; i <= t->rank && used < room; i++) {
    const char *before = i == 0 ? "(" : i < t->rank ? ", " : "";
    int n;
    if (i == t->rank)
      n = snprintf(buf + used, room - used, "%s)", before);
    else if (t->dims[i] == DIM_UNKNOWN)
      n = snprintf(buf + used, room - used, "%s?", before);
    else
      n = snprintf(buf + used, room - used, "%s%lld", before, (long long)t->dims[i]);
    if (n < 0) break;
    used += (size_t)n;
  }
  return buf;
}

/* Can dimension `inner` be walked as a continuation of `outer` in every tensor? */
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

void tensor_broadcast(const tensor *x, int rank, const int64_t *shape, tensor *out) {
  tensor t = *x;
  t.rank = rank;
  for (int i = 0; i < rank; i++) {
    int from = i - (rank - x->rank);
    bool repeats = from < 0 || (x->dims[from] == 1 && shape[i] != 1);
    t.dims[i] = shape[i];
    t.strides[i] = repeats ? 0 : x->strides[from];
  }
  *out = t;
}
