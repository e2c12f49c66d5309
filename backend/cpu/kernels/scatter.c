/* Scatter: walks the axis in order, so that equal positions combine in a fixed order. The lines
 * along the axis are divided among threads. If lines are few, each thread has a range of the
 * destinations and skips the others. Sums and products of 16-bit floats are kept in F32 and rounded
 * once. */
#include "backend/cpu/kernels/scatter.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 8 * 1024 /* elements that justify waking a thread */ };

typedef struct scatter_task {
  const kernel_context *ctx;
  const scatter_args *args;
  int64_t lines, back; /* number of lines; elements of an entry of a line */
  int64_t shares;      /* ranges of destinations */
  float *wide; /* F32 copy of out in which values are combined; NULL: they are combined in out */
} scatter_task;

static void combine_f32(kscatter_kind kind, int64_t n, float *a, const float *b) {
  for (int64_t i = 0; i < n; i++) {
    a[i] = kind == KSCATTER_ADD   ? a[i] + b[i]
           : kind == KSCATTER_MUL ? a[i] * b[i]
           : kind == KSCATTER_MAX ? step_max_f32(a[i], b[i])
                                  : step_min_f32(a[i], b[i]);
  }
}

static void combine_f64(kscatter_kind kind, int64_t n, double *a, const double *b) {
  for (int64_t i = 0; i < n; i++) {
    a[i] = kind == KSCATTER_ADD   ? a[i] + b[i]
           : kind == KSCATTER_MUL ? a[i] * b[i]
           : kind == KSCATTER_MAX ? step_max_f64(a[i], b[i])
                                  : step_min_f64(a[i], b[i]);
  }
}

static void combine_i64(kscatter_kind kind, int64_t n, int64_t *a, const int64_t *b) {
  for (int64_t i = 0; i < n; i++) {
    a[i] = kind == KSCATTER_ADD   ? step_wrap((uint64_t)a[i] + (uint64_t)b[i])
           : kind == KSCATTER_MUL ? step_wrap((uint64_t)a[i] * (uint64_t)b[i])
           : kind == KSCATTER_MAX ? (a[i] > b[i] ? a[i] : b[i])
                                  : (a[i] < b[i] ? a[i] : b[i]);
  }
}

/* Elements of an operand, from `data` on, of dtype `type`, with the strides of `back`. */
typedef struct scatter_side {
  void *data;
  dtype type;
  const klayout *back;
} scatter_side;

static scatter_side side_at(void *data, dtype type, const klayout *back, int64_t offset) {
  return (scatter_side){element_at(data, type, offset), type, back};
}

/* Combines n elements of `from` with those of `to`, and stores the results in `to`. KSCATTER_ASSIGN
 * stores the elements of `from`, cast to the dtype of `to`. */
static void combine_row(kscatter_kind kind, int64_t n, const scatter_side *from,
                        int64_t from_stride, const scatter_side *to, int64_t to_stride) {
  compute_type c = compute_type_of(to->type);
  row_block present, added;
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t count = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    bool assign = kind == KSCATTER_ASSIGN;
    void *place = element_at(to->data, to->type, at * to_stride);
    if (!assign) load_row(c, to->type, place, to_stride, count, &present);
    load_row(c, from->type, element_at(from->data, from->type, at * from_stride), from_stride,
             count, &added);
    if (!assign && c == COMPUTE_F32) combine_f32(kind, count, present.f32, added.f32);
    if (!assign && c == COMPUTE_F64) combine_f64(kind, count, present.f64, added.f64);
    if (!assign && c == COMPUTE_I64) combine_i64(kind, count, present.i64, added.i64);
    store_row(c, to->type, place, to_stride, count, assign ? &added : &present);
  }
}

static void combine_back(kscatter_kind kind, const scatter_side *from, const scatter_side *to) {
  const klayout *source = from->back, *out = to->back;
  if (kind == KSCATTER_ASSIGN && from->type == to->type) {
    copy_piece(dtype_size(to->type), out->rank, out->dims, from->data, source->strides, to->data,
               out->strides);
    return;
  }
  int last = out->rank - 1;
  if (last < 0) {
    combine_row(kind, 1, from, 1, to, 1);
    return;
  }
  walk w = {.rank = last, .dims = out->dims};
  walk_add(&w, source->strides);
  walk_add(&w, out->strides);
  walk_seek(&w, 0);
  for (int64_t k = product_of(out->dims, last); k > 0; k--, walk_next(&w)) {
    scatter_side from_row = side_at(from->data, from->type, source, w.offset[0]),
                 to_row = side_at(to->data, to->type, out, w.offset[1]);
    combine_row(kind, out->dims[last], &from_row, source->strides[last], &to_row,
                out->strides[last]);
  }
}

/* Handles an entry of the axis; `source` and `out` are offsets of elements. */
typedef void scatter_action(const scatter_task *task, int64_t source, int64_t out);

static void kernel_scatter_widen(const scatter_task *task, int64_t source, int64_t out) {
  (void)source;
  scatter_side from =
                   side_at(task->args->out.data, task->args->out.type, &task->args->out_back, out),
               to = side_at(task->wide, DTYPE_F32, &task->args->out_back, out);
  combine_back(KSCATTER_ASSIGN, &from, &to);
}

static void narrow(const scatter_task *task, int64_t source, int64_t out) {
  (void)source;
  scatter_side from = side_at(task->wide, DTYPE_F32, &task->args->out_back, out),
               to = side_at(task->args->out.data, task->args->out.type, &task->args->out_back, out);
  combine_back(KSCATTER_ASSIGN, &from, &to);
}

static void kernel_scatter_combine(const scatter_task *task, int64_t source, int64_t out) {
  const scatter_args *args = task->args;
  scatter_side from = side_at(args->source.data, args->source.type, &args->source_back, source),
               to = task->wide ? side_at(task->wide, DTYPE_F32, &args->out_back, out)
                               : side_at(args->out.data, args->out.type, &args->out_back, out);
  combine_back(args->kind, &from, &to);
}

/* Destinations [low, high) of a line. */
typedef struct scatter_range {
  const walk *line;
  int64_t low, high;
} scatter_range;

/* Calls action for each entry whose destination is in the range. Records indices out of range as
 * faults. */
static void each_entry(const scatter_task *task, const scatter_range *range,
                       scatter_action *action) {
  const scatter_args *args = task->args;
  const int64_t *offset = range->line->offset;
  for (int64_t k = 0; k < args->n; k++) {
    int64_t given = load_index(&args->index, offset[0] + k * args->index_stride), i = given;
    if (i < 0 && args->wrap) i += args->size;
    if (i < 0 || i >= args->size) {
      kernel_fault_set(task->ctx->fault, KERNEL_FAULT_INDEX, given, args->wrap ? -args->size : 0,
                       args->size - 1);
    } else if (i >= range->low && i < range->high) {
      action(task, offset[1] + k * args->source_stride, offset[2] + i * args->out_stride);
    }
  }
}

/* Applies widen or narrow to the destinations. If there are fewer entries than destinations, visits
 * only those that entries write to; a second cast of the same element changes nothing. */
static void cast_range(const scatter_task *task, const scatter_range *range,
                       scatter_action *action) {
  if (task->args->n < range->high - range->low) {
    each_entry(task, range, action);
    return;
  }
  for (int64_t i = range->low; i < range->high; i++)
    action(task, 0, range->line->offset[2] + i * task->args->out_stride);
}

/* Processes units [begin, end). A unit is a line and a range of destinations. */
static void scatter_units(void *ctx, int64_t begin, int64_t end) {
  const scatter_task *task = ctx;
  const scatter_args *args = task->args;
  walk line = {.rank = args->index.rank, .dims = args->index.dims};
  walk_add(&line, args->index.strides);
  walk_add(&line, args->source.strides);
  walk_add(&line, args->out.strides);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t share = unit % task->shares;
    walk_seek(&line, unit / task->shares);
    scatter_range range = {&line, args->size * share / task->shares,
                           args->size * (share + 1) / task->shares};
    if (task->wide) cast_range(task, &range, kernel_scatter_widen);
    each_entry(task, &range, kernel_scatter_combine);
    if (task->wide) cast_range(task, &range, narrow);
  }
}

static int64_t kernel_scatter_count_shares(const scatter_task *task) {
  int64_t wanted = (task->ctx->n_threads + task->lines - 1) / task->lines, size = task->args->size;
  if (task->args->n * task->back < GRAIN) wanted = 1;
  return wanted < size ? wanted : size > 0 ? size : 1;
}

static int64_t last_offset(int rank, const int64_t *dims, const int64_t *strides) {
  int64_t last = 0;
  for (int d = 0; d < rank; d++) last += (dims[d] - 1) * strides[d];
  return last;
}

static size_t scatter_scratch(const kernel_context *ctx, const void *args) {
  const scatter_args *own = args;
  bool rounds = own->kind == KSCATTER_ADD || own->kind == KSCATTER_MUL;
  (void)ctx;
  if (!rounds || (own->out.type != DTYPE_F16 && own->out.type != DTYPE_BF16)) return 0;
  int64_t last = last_offset(own->out.rank, own->out.dims, own->out.strides) +
                 last_offset(own->out_back.rank, own->out_back.dims, own->out_back.strides) +
                 (own->size - 1) * own->out_stride;
  return last < 0 ? 0 : kernel_scratch_size((size_t)(last + 1) * sizeof(float));
}

static bool scatter(const kernel_context *ctx, const void *args) {
  const scatter_args *own = args;
  scatter_task task = {.ctx = ctx,
                       .args = own,
                       .lines = ktensor_numel(&own->index),
                       .back = product_of(own->out_back.dims, own->out_back.rank)};
  if (task.lines * own->n * task.back == 0) return true;
  task.shares = kernel_scatter_count_shares(&task);
  size_t wide = scatter_scratch(ctx, own);
  if (wide > 0 && !(task.wide = ctx->scratch(ctx->pool, wide))) return false;
  int64_t work = own->n * task.back / task.shares + 1;
  ctx->parallel_for(ctx->pool, task.lines * task.shares, GRAIN / work + 1, scatter_units, &task);
  return true;
}

const kernel_desc kernel_scatter = {
    .name = "scatter",
    .run = scatter,
    .scratch = scatter_scratch,
    .args_size = sizeof(scatter_args),
    .operands = {OPERAND(scatter_args, index), OPERAND(scatter_args, source),
                 OPERAND(scatter_args, out)}};
