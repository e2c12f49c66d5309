/* Scatter: the axis is walked in order, so that equal positions combine in a fixed order. Threads
 * share the lines across it; where these are few, each thread takes a range of the destinations and
 * skips the others. Sums and products of 16-bit floats are kept in F32 and rounded once. */
#include "backend/cpu/kernels/scatter.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/elementwise/steps.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 8 * 1024 /* elements worth a thread */ };

typedef struct scatter_task {
  const kernel_context *ctx;
  const scatter_args *p;
  int64_t lines, back; /* how many, and elements of each */
  int64_t parts;       /* ranges that the destinations are cut into */
  float *wide;         /* combined in place of out, by the offsets of out; NULL: out is combined */
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

/* Elements of an operand: of `type`, by the strides of `back` from `data` on. */
typedef struct scatter_side {
  void *data;
  dtype type;
  const klayout *back;
} scatter_side;

static scatter_side side_at(void *data, dtype type, const klayout *back, int64_t offset) {
  return (scatter_side){element_at(data, type, offset), type, back};
}

/* KSCATTER_ASSIGN casts. */
static void combine_row(kscatter_kind kind, int64_t n, const scatter_side *from,
                        int64_t from_stride, const scatter_side *to, int64_t to_stride) {
  compute_class c = compute_class_of(to->type);
  row_block a, b;
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t count = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    bool assign = kind == KSCATTER_ASSIGN;
    void *place = element_at(to->data, to->type, at * to_stride);
    if (!assign) load_row(c, to->type, place, to_stride, count, &a);
    load_row(c, from->type, element_at(from->data, from->type, at * from_stride), from_stride,
             count, &b);
    if (!assign && c == COMPUTE_F32) combine_f32(kind, count, a.f32, b.f32);
    if (!assign && c == COMPUTE_F64) combine_f64(kind, count, a.f64, b.f64);
    if (!assign && c == COMPUTE_I64) combine_i64(kind, count, a.i64, b.i64);
    store_row(c, to->type, place, to_stride, count, assign ? &b : &a);
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
    scatter_side a = side_at(from->data, from->type, source, w.offset[0]),
                 b = side_at(to->data, to->type, out, w.offset[1]);
    combine_row(kind, out->dims[last], &a, source->strides[last], &b, out->strides[last]);
  }
}

/* Handles an entry of the axis; `source` and `out` are offsets of elements. */
typedef void scatter_action(const scatter_task *t, int64_t source, int64_t out);

static void widen(const scatter_task *t, int64_t source, int64_t out) {
  (void)source;
  scatter_side from = side_at(t->p->out.data, t->p->out.type, &t->p->out_back, out),
               to = side_at(t->wide, DTYPE_F32, &t->p->out_back, out);
  combine_back(KSCATTER_ASSIGN, &from, &to);
}

static void narrow(const scatter_task *t, int64_t source, int64_t out) {
  (void)source;
  scatter_side from = side_at(t->wide, DTYPE_F32, &t->p->out_back, out),
               to = side_at(t->p->out.data, t->p->out.type, &t->p->out_back, out);
  combine_back(KSCATTER_ASSIGN, &from, &to);
}

static void combine(const scatter_task *t, int64_t source, int64_t out) {
  const scatter_args *p = t->p;
  scatter_side from = side_at(p->source.data, p->source.type, &p->source_back, source),
               to = t->wide ? side_at(t->wide, DTYPE_F32, &p->out_back, out)
                            : side_at(p->out.data, p->out.type, &p->out_back, out);
  combine_back(p->kind, &from, &to);
}

/* Destinations [low, high) of a line. */
typedef struct scatter_range {
  const walk *line;
  int64_t low, high;
} scatter_range;

static void each_entry(const scatter_task *t, const scatter_range *r, scatter_action *action) {
  const scatter_args *p = t->p;
  const int64_t *offset = r->line->offset;
  for (int64_t k = 0; k < p->n; k++) {
    int64_t given = load_index(&p->index, offset[0] + k * p->index_step), i = given;
    if (i < 0 && p->wrap) i += p->size;
    if (i < 0 || i >= p->size) {
      kernel_fault_set(t->ctx->fault, KERNEL_FAULT_INDEX, given, p->wrap ? -p->size : 0,
                       p->size - 1);
    } else if (i >= r->low && i < r->high) {
      action(t, offset[1] + k * p->source_step, offset[2] + i * p->out_step);
    }
  }
}

/* Casts the destinations: where the entries are fewer, only those that entries write to. Casting
 * one twice changes nothing. */
static void cast_range(const scatter_task *t, const scatter_range *r, scatter_action *action) {
  if (t->p->n < r->high - r->low) {
    each_entry(t, r, action);
    return;
  }
  for (int64_t i = r->low; i < r->high; i++) action(t, 0, r->line->offset[2] + i * t->p->out_step);
}

/* Units [begin, end) of (line, range of destinations). */
static void scatter_units(void *ctx, int64_t begin, int64_t end) {
  const scatter_task *t = ctx;
  const scatter_args *p = t->p;
  walk line = {.rank = p->index.rank, .dims = p->index.dims};
  walk_add(&line, p->index.strides);
  walk_add(&line, p->source.strides);
  walk_add(&line, p->out.strides);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t part = unit % t->parts;
    walk_seek(&line, unit / t->parts);
    scatter_range r = {&line, p->size * part / t->parts, p->size * (part + 1) / t->parts};
    if (t->wide) cast_range(t, &r, widen);
    each_entry(t, &r, combine);
    if (t->wide) cast_range(t, &r, narrow);
  }
}

static int64_t count_parts(const scatter_task *t) {
  int64_t wanted = (t->ctx->n_threads + t->lines - 1) / t->lines, size = t->p->size;
  if (t->p->n * t->back < GRAIN) wanted = 1;
  return wanted < size ? wanted : size > 0 ? size : 1;
}

static int64_t last_offset(int rank, const int64_t *dims, const int64_t *strides) {
  int64_t last = 0;
  for (int d = 0; d < rank; d++) last += (dims[d] - 1) * strides[d];
  return last;
}

static size_t scatter_scratch(const kernel_context *ctx, const void *args) {
  const scatter_args *p = args;
  bool rounds = p->kind == KSCATTER_ADD || p->kind == KSCATTER_MUL;
  (void)ctx;
  if (!rounds || (p->out.type != DTYPE_F16 && p->out.type != DTYPE_BF16)) return 0;
  int64_t last = last_offset(p->out.rank, p->out.dims, p->out.strides) +
                 last_offset(p->out_back.rank, p->out_back.dims, p->out_back.strides) +
                 (p->size - 1) * p->out_step;
  return last < 0 ? 0 : kernel_scratch_size((size_t)(last + 1) * sizeof(float));
}

static bool scatter(const kernel_context *ctx, const void *args) {
  const scatter_args *p = args;
  scatter_task t = {.ctx = ctx,
                    .p = p,
                    .lines = ktensor_numel(&p->index),
                    .back = product_of(p->out_back.dims, p->out_back.rank)};
  if (t.lines * p->n * t.back == 0) return true;
  t.parts = count_parts(&t);
  size_t wide = scatter_scratch(ctx, p);
  if (wide > 0 && !(t.wide = ctx->scratch(ctx->pool, wide))) return false;
  int64_t work = p->n * t.back / t.parts + 1;
  ctx->parallel_for(ctx->pool, t.lines * t.parts, GRAIN / work + 1, scatter_units, &t);
  return true;
}

const kernel_desc kernel_scatter = {
    .name = "scatter",
    .run = scatter,
    .scratch = scatter_scratch,
    .args_size = sizeof(scatter_args),
    .operands = {OPERAND(scatter_args, index), OPERAND(scatter_args, source),
                 OPERAND(scatter_args, out)}};
