/* Reductions: walks the reduced dimensions of each output in blocks. If outputs are contiguous in
 * memory and their elements are not, it reduces a row of outputs at once. */
#include "backend/cpu/kernels/reduce.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/accumulators.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/walk.h"

enum {
  GRAIN = 16 * 1024,       /* elements that justify waking a thread */
  SPLIT_OUTPUTS = 16,      /* split: fewer outputs than this, */
  SPLIT_SIZE = 128 * 1024, /* minimum elements of a chunk */
  SPLIT_CHUNKS =
      64 /* chunks, at most; a function of sizes only, so results do not depend on threads */
};

/* The kept or the reduced dimensions of x; rank 1 at least. */
typedef struct axes {
  int rank;
  int64_t dims[KERNEL_MAX_RANK], strides[KERNEL_MAX_RANK], n;
} axes;

typedef struct reduce_task {
  kreduce_kind kind;
  compute_type c; /* COMPUTE_F64 or COMPUTE_I64 */
  const ktensor *x, *out;
  axes kept, reduced;
  double divisor;
  int64_t chunk, n_chunks; /* chunks of a split reduction */
  accumulator *partial;    /* (kept.n, n_chunks) */
  bool minimum;            /* for arg_reduce */
} reduce_task;

static axes kernel_reduce_make_axes(const klayout *from) {
  axes axes = {.rank = from->rank, .n = product_of(from->dims, from->rank)};
  memcpy(axes.dims, from->dims, sizeof axes.dims);
  memcpy(axes.strides, from->strides, sizeof axes.strides);
  if (axes.rank == 0) { /* one element, as a row of size 1 */
    axes.rank = 1;
    axes.dims[0] = 1;
  }
  return axes;
}

/* Returns the element offset in x of output `k`. */
static int64_t output_offset(const axes *kept, int64_t k) {
  int64_t offset = 0;
  for (int d = kept->rank - 1; d >= 0; k /= kept->dims[d], d--)
    offset += k % kept->dims[d] * kept->strides[d];
  return offset;
}

/* Reads the elements [at, stop) of the axes from offset `base` on, up to ROW_BLOCK; returns how
 * many. */
static int64_t gather_block(const reduce_task *task, const axes *axes, int64_t base, int64_t at,
                            int64_t stop, void *block) {
  int last = axes->rank - 1;
  int64_t row = axes->dims[last], column = at % row,
          n = stop - at < ROW_BLOCK ? stop - at : ROW_BLOCK;
  walk w = {.rank = last, .dims = axes->dims};
  walk_add(&w, axes->strides);
  walk_seek(&w, at / row);
  for (int64_t done = 0; done < n; walk_next(&w), column = 0) {
    int64_t m = row - column < n - done ? row - column : n - done;
    int64_t offset = base + w.offset[0] + column * axes->strides[last];
    load_row(task->c, task->x->type, element_at(task->x->data, task->x->type, offset),
             axes->strides[last], m, (char *)block + done * 8);
    done += m;
  }
  return n;
}

/* True if the task sums contiguous floats. */
static bool is_float_sum(const reduce_task *task) {
  return (task->kind == KREDUCE_SUM || task->kind == KREDUCE_MEAN) &&
         (task->x->type == DTYPE_F32 || task->x->type == DTYPE_BF16) && task->reduced.rank == 1 &&
         task->reduced.strides[0] == 1;
}

/* Returns the sum of elements [at, at + n) of x, F32 or BF16. */
static double kernel_reduce_sum_neighbours(const reduce_task *task, int64_t at, int64_t n) {
  if (task->x->type == DTYPE_F32) return accumulate_floats((const float *)task->x->data + at, n);
  return bf16_sum((const uint16_t *)task->x->data + at, n);
}

static accumulator reduce_range(const reduce_task *task, int64_t k, int64_t begin, int64_t end) {
  row_block block;
  accumulator accumulator = accumulator_start(task->kind);
  int64_t base = output_offset(&task->kept, k);
  if (is_float_sum(task)) {
    accumulator.f = kernel_reduce_sum_neighbours(task, base + begin, end - begin);
    accumulator.n = end - begin;
    return accumulator;
  }
  for (int64_t at = begin; at < end;) {
    int64_t n = gather_block(task, &task->reduced, base, at, end, &block);
    accumulate_block(task->kind, task->c, &accumulator, &block, n);
    at += n;
  }
  return accumulator;
}

static void store_output(const reduce_task *task, int64_t k, const accumulator *accumulator) {
  accumulator_store(task->kind, task->c, accumulator, task->divisor, task->out->type,
                    element_at(task->out->data, task->out->type, k));
}

static void reduce_outputs(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *task = ctx;
  for (int64_t k = begin; k < end; k++) {
    accumulator accumulator = reduce_range(task, k, 0, task->reduced.n);
    store_output(task, k, &accumulator);
  }
}

/* Reduces outputs [begin, end) in rows of up to ROW_BLOCK along the last kept dimension. */
static void reduce_lanes(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *task = ctx;
  int last = task->kept.rank - 1;
  int64_t row = task->kept.dims[last], stride = task->kept.strides[last];
  row_block block;
  accumulator accumulator[ROW_BLOCK];
  for (int64_t k = begin; k < end;) {
    int64_t n = row - k % row < end - k ? row - k % row : end - k;
    if (n > ROW_BLOCK) n = ROW_BLOCK;
    for (int64_t i = 0; i < n; i++) accumulator[i] = accumulator_start(task->kind);
    int64_t base = output_offset(&task->kept, k);
    walk w = {.rank = task->reduced.rank, .dims = task->reduced.dims};
    walk_add(&w, task->reduced.strides);
    walk_seek(&w, 0);
    for (int64_t r = 0; r < task->reduced.n; r++, walk_next(&w)) {
      load_row(task->c, task->x->type, element_at(task->x->data, task->x->type, base + w.offset[0]),
               stride, n, &block);
      accumulate_lanes(task->kind, task->c, accumulator, &block, n);
    }
    for (int64_t i = 0; i < n; i++) store_output(task, k + i, &accumulator[i]);
    k += n;
  }
}

static void reduce_chunks(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *task = ctx;
  for (int64_t k = begin; k < end; k++) {
    int64_t from = k % task->n_chunks * task->chunk, to = from + task->chunk;
    task->partial[k] =
        reduce_range(task, k / task->n_chunks, from, to < task->reduced.n ? to : task->reduced.n);
  }
}

/* True for few outputs of many elements, which are split into chunks and merged in order. */
static bool is_split(const reduce_task *task) {
  return task->kept.n < SPLIT_OUTPUTS && task->reduced.n >= SPLIT_SIZE;
}

static bool reduce_split(const kernel_context *ctx, reduce_task *task) {
  int64_t n = task->kept.n * task->n_chunks;
  task->partial = ctx->scratch(ctx->pool, (size_t)n * sizeof *task->partial);
  if (!task->partial) return false;
  ctx->parallel_for(ctx->pool, n, 1, reduce_chunks, task);
  for (int64_t k = 0; k < task->kept.n; k++) {
    accumulator accumulator = task->partial[k * task->n_chunks];
    for (int64_t i = 1; i < task->n_chunks; i++)
      accumulate_other(task->kind, &accumulator, &task->partial[k * task->n_chunks + i]);
    store_output(task, k, &accumulator);
  }
  return true;
}

static bool reduces_lanes(const reduce_task *task) {
  int kept = task->kept.rank - 1, reduced = task->reduced.rank - 1;
  return task->kept.strides[kept] == 1 && task->kept.dims[kept] >= 8 &&
         task->reduced.strides[reduced] != 1 && task->reduced.n > 1;
}

static int64_t grain_for(const reduce_task *task) {
  return GRAIN / (task->reduced.n > 0 ? task->reduced.n : 1) + 1;
}

static bool kernel_reduce_is_float_kind(kreduce_kind k) {
  return k == KREDUCE_MEAN || k == KREDUCE_VAR || k == KREDUCE_STD || k == KREDUCE_NORM1 ||
         k == KREDUCE_NORM2;
}

static reduce_task make_task(const reduce_args *args) {
  reduce_task task = {.kind = args->kind,
                      .x = &args->x,
                      .out = &args->out,
                      .divisor = args->divisor,
                      .kept = kernel_reduce_make_axes(&args->kept),
                      .reduced = kernel_reduce_make_axes(&args->over)};
  bool is_integer =
      compute_type_of(args->x.type) == COMPUTE_I64 && !kernel_reduce_is_float_kind(args->kind);
  task.c = is_integer ? COMPUTE_I64 : COMPUTE_F64;
  task.chunk = (task.reduced.n + SPLIT_CHUNKS - 1) / SPLIT_CHUNKS;
  if (task.chunk < SPLIT_SIZE / 4) task.chunk = SPLIT_SIZE / 4;
  task.n_chunks = (task.reduced.n + task.chunk - 1) / task.chunk;
  return task;
}

static size_t reduce_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  reduce_task task = make_task(args);
  return is_split(&task)
             ? kernel_scratch_size((size_t)(task.kept.n * task.n_chunks) * sizeof *task.partial)
             : 0;
}

static bool reduce(const kernel_context *ctx, const void *args) {
  reduce_task task = make_task(args);
  if (is_split(&task)) return reduce_split(ctx, &task);
  ctx->parallel_for(ctx->pool, task.kept.n, grain_for(&task),
                    reduces_lanes(&task) ? reduce_lanes : reduce_outputs, &task);
  return true;
}

const kernel_desc kernel_reduce = {
    .name = "reduce",
    .run = reduce,
    .scratch = reduce_scratch,
    .args_size = sizeof(reduce_args),
    .operands = {OPERAND(reduce_args, x), OPERAND(reduce_args, out)}};

/* ---------------------------------------------------------------- arg_reduce */

/* Returns the first position in x of a value above (below) *best, and replaces *best by it; -1 if
 * there is none. A NaN beats all others. */
static int64_t better_f64(const double *x, int64_t n, bool minimum, double *best) {
  int64_t at = -1;
  for (int64_t i = 0; i < n && !isnan(*best); i++) {
    if (!(isnan(x[i]) || (minimum ? x[i] < *best : x[i] > *best))) continue;
    *best = x[i];
    at = i;
  }
  return at;
}

static int64_t better_i64(const int64_t *x, int64_t n, bool minimum, int64_t *best) {
  int64_t at = -1;
  for (int64_t i = 0; i < n; i++) {
    if (minimum ? x[i] >= *best : x[i] <= *best) continue;
    *best = x[i];
    at = i;
  }
  return at;
}

static int64_t find_extreme(const reduce_task *task, int64_t k) {
  row_block block;
  int64_t base = output_offset(&task->kept, k), found = 0;
  double best_f = task->minimum ? INFINITY : -INFINITY;
  int64_t best_i = task->minimum ? INT64_MAX : INT64_MIN;
  for (int64_t at = 0; at < task->reduced.n;) {
    int64_t n = gather_block(task, &task->reduced, base, at, task->reduced.n, &block);
    int64_t i = task->c == COMPUTE_I64 ? better_i64(block.i64, n, task->minimum, &best_i)
                                       : better_f64(block.f64, n, task->minimum, &best_f);
    if (i >= 0) found = at + i;
    at += n;
  }
  return found;
}

static void find_extremes(void *ctx, int64_t begin, int64_t end) {
  const reduce_task *task = ctx;
  int64_t *out = task->out->data;
  for (int64_t k = begin; k < end; k++) out[k] = find_extreme(task, k);
}

static bool arg_reduce(const kernel_context *ctx, const void *args) {
  const arg_reduce_args *own = args;
  reduce_task task = {.x = &own->x,
                      .out = &own->out,
                      .minimum = own->minimum,
                      .kept = kernel_reduce_make_axes(&own->kept),
                      .reduced = kernel_reduce_make_axes(&own->over)};
  task.c = compute_type_of(own->x.type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  ctx->parallel_for(ctx->pool, task.kept.n, grain_for(&task), find_extremes, &task);
  return true;
}

const kernel_desc kernel_arg_reduce = {
    .name = "arg_reduce",
    .run = arg_reduce,
    .args_size = sizeof(arg_reduce_args),
    .operands = {OPERAND(arg_reduce_args, x), OPERAND(arg_reduce_args, out)}};
