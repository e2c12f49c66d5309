/* Copies between strided layouts: rows, or square tiles where one side is transposed. */
#include "backend/cpu/kernels/copy.h"

#include <string.h>

#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/walk.h"

enum { TILE = 32, GRAIN = 32 * 1024 /* elements that justify waking a thread */ };

#define COPY_CASE(T)                                                       \
  case sizeof(T): {                                                        \
    const T *x = from;                                                     \
    T *y = to;                                                             \
    for (int64_t i = 0; i < n; i++) y[i * to_stride] = x[i * from_stride]; \
    break;                                                                 \
  }

void copy_row(size_t size, int64_t n, const void *from, int64_t from_stride, void *to,
              int64_t to_stride) {
  if (from_stride == 1 && to_stride == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  switch (size) {
    COPY_CASE(uint8_t)
    COPY_CASE(uint16_t)
    COPY_CASE(uint32_t)
    COPY_CASE(uint64_t)
    default:
      break;
  }
}

void fill_row(size_t size, int64_t n, const void *value, void *to, int64_t to_stride) {
  if (n > 0) copy_row(size, n, value, 0, to, to_stride);
}

typedef struct copy_task {
  size_t size; /* bytes of an element; all strides are in elements */
  int rank;
  int64_t dims[KERNEL_MAX_RANK], from_strides[KERNEL_MAX_RANK], to_strides[KERNEL_MAX_RANK];
  const char *from;
  char *to;
} copy_task;

/* A copy that converts between F32 and BF16. */
typedef struct convert_task {
  copy_task c;
  dtype from, to;
} convert_task;

/* Copies elements [begin, end) in row-major order; rank >= 1. */
static void copy_range(void *ctx, int64_t begin, int64_t end) {
  const copy_task *task = ctx;
  int last = task->rank - 1;
  int64_t row = task->dims[last], column = begin % row, size = (int64_t)task->size;
  walk w = {.rank = last, .dims = task->dims};
  walk_add(&w, task->from_strides);
  walk_add(&w, task->to_strides);
  walk_seek(&w, begin / row);
  for (int64_t at = begin; at < end; walk_next(&w), column = 0) {
    int64_t n = row - column < end - at ? row - column : end - at;
    copy_row(task->size, n, task->from + (w.offset[0] + column * task->from_strides[last]) * size,
             task->from_strides[last],
             task->to + (w.offset[1] + column * task->to_strides[last]) * size,
             task->to_strides[last]);
    at += n;
  }
}

static void convert_row(const convert_task *task, int64_t n, int64_t from, int64_t to) {
  const int64_t stride = task->c.from_strides[task->c.rank - 1],
                to_stride = task->c.to_strides[task->c.rank - 1];
  const void *x = element_at(task->c.from, task->from, from);
  void *y = element_at(task->c.to, task->to, to);
  row_block some;
  if (stride == 1 && to_stride == 1 && task->to == DTYPE_BF16) {
    row_to_bf16(x, n, y);
    return;
  }
  if (stride == 1 && to_stride == 1) {
    widen_row(x, n, y);
    return;
  }
  for (int64_t i = 0, m; i < n; i += m) {
    m = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
    load_row(COMPUTE_F32, task->from, element_at(x, task->from, i * stride), stride, m, &some);
    store_row(COMPUTE_F32, task->to, element_at(y, task->to, i * to_stride), to_stride, m, &some);
  }
}

/* Works like copy_range, for operands of different dtypes. */
static void convert_range(void *ctx, int64_t begin, int64_t end) {
  const convert_task *task = ctx;
  const copy_task *copy_task = &task->c;
  const int last = copy_task->rank - 1;
  const int64_t row = copy_task->dims[last];
  int64_t column = begin % row;
  walk w = {.rank = last, .dims = copy_task->dims};
  walk_add(&w, copy_task->from_strides);
  walk_add(&w, copy_task->to_strides);
  walk_seek(&w, begin / row);
  for (int64_t at = begin, n; at < end; walk_next(&w), column = 0, at += n) {
    n = row - column < end - at ? row - column : end - at;
    convert_row(task, n, w.offset[0] + column * copy_task->from_strides[last],
                w.offset[1] + column * copy_task->to_strides[last]);
  }
}

/* Copies strips of TILE of the second-to-last dimension. x is contiguous along it, so a tile reads
 * whole cache lines however it is written. */
static void copy_strips(void *ctx, int64_t begin, int64_t end) {
  const copy_task *task = ctx;
  int i = task->rank - 2, j = task->rank - 1;
  int64_t strips = (task->dims[i] + TILE - 1) / TILE, size = (int64_t)task->size;
  walk w = {.rank = i, .dims = task->dims};
  walk_add(&w, task->from_strides);
  walk_add(&w, task->to_strides);
  walk_seek(&w, begin / strips);
  for (int64_t at = begin; at < end; at++) {
    int64_t i0 = at % strips * TILE, ni = task->dims[i] - i0 < TILE ? task->dims[i] - i0 : TILE;
    for (int64_t j0 = 0; j0 < task->dims[j]; j0 += TILE) {
      int64_t nj = task->dims[j] - j0 < TILE ? task->dims[j] - j0 : TILE;
      for (int64_t r = i0; r < i0 + ni; r++)
        copy_row(
            task->size, nj,
            task->from +
                (w.offset[0] + r * task->from_strides[i] + j0 * task->from_strides[j]) * size,
            task->from_strides[j],
            task->to + (w.offset[1] + r * task->to_strides[i] + j0 * task->to_strides[j]) * size,
            task->to_strides[j]);
    }
    if ((at + 1) % strips == 0) walk_next(&w);
  }
}

static void swap_i64(int64_t *a, int64_t *b) {
  int64_t c = *a;
  *a = *b;
  *b = c;
}

/* Moves the dimension along which x is contiguous to the second-to-last place, unless it is the
 * last. Returns false if there is no such dimension, or if the last one is short. */
static bool make_tiles(copy_task *task) {
  int last = task->rank - 1;
  if (task->rank < 2 || task->from_strides[last] == 1 || task->dims[last] < 8) return false;
  for (int d = 0; d < last; d++) {
    if (task->from_strides[d] != 1 || task->dims[d] < 8) continue;
    swap_i64(&task->dims[d], &task->dims[last - 1]);
    swap_i64(&task->from_strides[d], &task->from_strides[last - 1]);
    swap_i64(&task->to_strides[d], &task->to_strides[last - 1]);
    return true;
  }
  return false;
}

static void init_task(copy_task *task, size_t size, int rank, const int64_t *dims, const void *from,
                      const int64_t *from_strides, void *to, const int64_t *to_strides) {
  task->size = size;
  task->from = from;
  task->to = to;
  for (int d = 0; d < rank; d++) {
    task->dims[d] = dims[d];
    task->from_strides[d] = from_strides[d];
    task->to_strides[d] = to_strides[d];
  }
  task->rank =
      merge_dims(rank, task->dims, 2, (int64_t *const[]){task->from_strides, task->to_strides});
  if (task->rank > 0) return;
  task->rank = 1;
  task->dims[0] = 1;
  task->from_strides[0] = task->to_strides[0] = 1;
}

void copy_piece(size_t size, int rank, const int64_t *dims, const void *from,
                const int64_t *from_strides, void *to, const int64_t *to_strides) {
  copy_task task;
  init_task(&task, size, rank, dims, from, from_strides, to, to_strides);
  int64_t n = product_of(task.dims, task.rank);
  if (n > 0) copy_range(&task, 0, n);
}

static bool run_copy_kernel(const kernel_context *ctx, const void *args) {
  const copy_args *own = args;
  const ktensor *x = &own->x, *out = &own->out;
  copy_task task;
  init_task(&task, dtype_size(x->type), x->rank, x->dims, x->data, x->strides, out->data,
            out->strides);
  int64_t n = product_of(task.dims, task.rank);
  if (n == 0) return true;
  if (is_bf16(x->type) != is_bf16(out->type)) {
    convert_task both = {task, x->type, out->type};
    ctx->parallel_for(ctx->pool, n, GRAIN, convert_range, &both);
    return true;
  }
  if (!make_tiles(&task)) {
    ctx->parallel_for(ctx->pool, n, GRAIN, copy_range, &task);
    return true;
  }
  int64_t strip = TILE * task.dims[task.rank - 1];
  int64_t strips =
      product_of(task.dims, task.rank - 2) * ((task.dims[task.rank - 2] + TILE - 1) / TILE);
  ctx->parallel_for(ctx->pool, strips, GRAIN / strip + 1, copy_strips, &task);
  return true;
}

const kernel_desc kernel_copy = {.name = "copy",
                                 .run = run_copy_kernel,
                                 .args_size = sizeof(copy_args),
                                 .operands = {OPERAND(copy_args, x), OPERAND(copy_args, out)}};
