/* Pad: per output row, the source row it comes from, then filled or mapped ends around a straight
 * copy. */
#include "backend/cpu/kernels/pad.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/walk.h"

typedef struct pad_task {
  const ktensor *x, *out;
  const int64_t *before;
  kpad_mode mode;
  const void *value;
  size_t size;
} pad_task;

/* The index in a dimension of `size` > 0 that stands at i (i counted from x's own start); -1: the
 * pad value. */
static int64_t source_index(kpad_mode mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == KPAD_CONSTANT) return -1;
  if (mode == KPAD_CIRCULAR) return (i % size + size) % size;
  if (mode == KPAD_REFLECT) i = i < 0 ? -i : 2 * (size - 1) - i;
  return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* Offset of the row of x at the outer index of `w`; false if the whole row is the pad value. */
static bool source_row(const pad_task *t, const walk *w, int64_t *offset) {
  *offset = 0;
  for (int d = 0; d < w->rank; d++) {
    int64_t i = source_index(t->mode, w->index[d] - t->before[d], t->x->dims[d]);
    if (i < 0) return false;
    *offset += i * t->x->strides[d];
  }
  return true;
}

/* Elements [from, to) of an output row that lie outside of x. */
static void pad_ends(const pad_task *t, const char *row, int64_t from, int64_t to, char *out) {
  int last = t->x->rank - 1;
  int64_t size = (int64_t)t->size;
  if (t->mode == KPAD_CONSTANT) {
    fill_row(t->size, to - from, t->value, out + from * size, 1);
    return;
  }
  for (int64_t i = from; i < to; i++) {
    int64_t k = source_index(t->mode, i - t->before[last], t->x->dims[last]);
    copy_row(t->size, 1, row + k * t->x->strides[last] * size, 1, out + i * size, 1);
  }
}

static int64_t clamp_i64(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

static void pad_rows(void *ctx, int64_t begin, int64_t end) {
  const pad_task *t = ctx;
  int last = t->x->rank - 1;
  int64_t n = t->out->dims[last], before = t->before[last], size = (int64_t)t->size;
  int64_t first = clamp_i64(before, 0, n), stop = clamp_i64(before + t->x->dims[last], first, n);
  walk w = {.rank = last, .dims = t->out->dims};
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w)) {
    char *out = (char *)t->out->data + r * n * size;
    int64_t offset;
    if (!source_row(t, &w, &offset)) {
      fill_row(t->size, n, t->value, out, 1);
      continue;
    }
    const char *row = (const char *)t->x->data + offset * size;
    int64_t stride = t->x->strides[last];
    pad_ends(t, row, 0, first, out);
    if (stop > first)
      copy_row(t->size, stop - first, row + (first - before) * stride * size, stride,
               out + first * size, 1);
    pad_ends(t, row, stop, n, out);
  }
}

void kernel_pad(const kernel_context *ctx, const ktensor *x, const int64_t *before, kpad_mode mode,
                const void *value, const ktensor *out) {
  pad_task t = {.x = x,
                .out = out,
                .before = before,
                .mode = mode,
                .value = value,
                .size = dtype_size(x->type)};
  int64_t n = ktensor_numel(out);
  if (n == 0) return;
  if (ktensor_numel(x) == 0 || x->rank == 0) { /* nothing but padding, or nothing to pad */
    fill_row(t.size, n, x->rank == 0 ? x->data : value, out->data, 1);
    return;
  }
  int64_t row = out->dims[out->rank - 1];
  ctx->parallel_for(ctx->pool, n / row, 16 * 1024 / row + 1, pad_rows, &t);
}
