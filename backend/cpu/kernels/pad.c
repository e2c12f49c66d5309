/* Pad: finds the source row of each output row, copies it and fills or maps its ends. */
#include "backend/cpu/kernels/pad.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

/* Returns the source index of position i (counted from x's own start) in a dimension of `size` > 0,
 * or -1 for the pad value. */
static int64_t source_index(kpad_mode mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == KPAD_CONSTANT) return -1;
  if (mode == KPAD_CIRCULAR) return (i % size + size) % size;
  if (mode == KPAD_REFLECT) i = i < 0 ? -i : 2 * (size - 1) - i;
  return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* Finds the offset of the row of x at walk's outer index; false if the whole row is the pad
 * value. */
static bool source_row(const pad_args *args, const walk *walk, int64_t *offset) {
  *offset = 0;
  for (int d = 0; d < walk->rank; d++) {
    int64_t i = source_index(args->mode, walk->index[d] - args->before[d], args->x.dims[d]);
    if (i < 0) return false;
    *offset += i * args->x.strides[d];
  }
  return true;
}

/* Writes elements [from, to) of an output row, which are outside of x. */
static void pad_ends(const pad_args *args, const char *row, int64_t from, int64_t to, char *out) {
  int last = args->x.rank - 1;
  int64_t size = (int64_t)dtype_size(args->x.type);
  if (args->mode == KPAD_CONSTANT) {
    fill_row((size_t)size, to - from, &args->value, out + from * size, 1);
    return;
  }
  for (int64_t i = from; i < to; i++) {
    int64_t k = source_index(args->mode, i - args->before[last], args->x.dims[last]);
    copy_row((size_t)size, 1, row + k * args->x.strides[last] * size, 1, out + i * size, 1);
  }
}

static int64_t clamp_i64(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

static void kernel_pad_rows(void *ctx, int64_t begin, int64_t end) {
  const pad_args *args = ctx;
  int last = args->x.rank - 1;
  int64_t n = args->out.dims[last], before = args->before[last],
          size = (int64_t)dtype_size(args->x.type);
  int64_t first = clamp_i64(before, 0, n), stop = clamp_i64(before + args->x.dims[last], first, n);
  walk w = {.rank = last, .dims = args->out.dims};
  walk_seek(&w, begin);
  for (int64_t r = begin; r < end; r++, walk_next(&w)) {
    char *out = (char *)args->out.data + r * n * size;
    int64_t offset;
    if (!source_row(args, &w, &offset)) {
      fill_row((size_t)size, n, &args->value, out, 1);
      continue;
    }
    const char *row = (const char *)args->x.data + offset * size;
    int64_t stride = args->x.strides[last];
    pad_ends(args, row, 0, first, out);
    if (stop > first)
      copy_row((size_t)size, stop - first, row + (first - before) * stride * size, stride,
               out + first * size, 1);
    pad_ends(args, row, stop, n, out);
  }
}

static bool run_pad_kernel(const kernel_context *ctx, const void *args) {
  pad_args own = *(const pad_args *)args;
  int64_t n = ktensor_numel(&own.out);
  if (n == 0) return true;
  if (ktensor_numel(&own.x) == 0) { /* only padding */
    fill_row(dtype_size(own.x.type), n, &own.value, own.out.data, 1);
    return true;
  }
  int64_t row = own.out.dims[own.out.rank - 1];
  ctx->parallel_for(ctx->pool, n / row, 16 * 1024 / row + 1, kernel_pad_rows, &own);
  return true;
}

const kernel_desc kernel_pad = {.name = "pad",
                                .run = run_pad_kernel,
                                .args_size = sizeof(pad_args),
                                .operands = {OPERAND(pad_args, x), OPERAND(pad_args, out)}};
