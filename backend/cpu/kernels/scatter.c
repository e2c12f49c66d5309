/* Scatter: the axis is walked in order, so that equal positions combine in a fixed order. Threads
 * share the lines across it; where these are few, each thread takes a range of the destinations and
 * skips the others. */
#include "backend/cpu/kernels/scatter.h"

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/steps.h"
#include "backend/cpu/kernels/walk.h"

enum { GRAIN = 8 * 1024 /* elements worth a thread */ };

typedef struct scatter_task {
  const kernel_context *ctx;
  const scatter_args *p;
  int64_t lines, back; /* how many, and elements of each */
  int64_t parts;       /* ranges that the destinations are cut into */
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

static void combine_row(kscatter_kind kind, dtype type, int64_t n, const void *from,
                        int64_t from_stride, void *to, int64_t to_stride) {
  compute_class c = compute_class_of(type);
  row_block a, b;
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t count = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    void *place = element_at(to, type, at * to_stride);
    load_row(c, type, place, to_stride, count, &a);
    load_row(c, type, element_at(from, type, at * from_stride), from_stride, count, &b);
    if (c == COMPUTE_F32) combine_f32(kind, count, a.f32, b.f32);
    if (c == COMPUTE_F64) combine_f64(kind, count, a.f64, b.f64);
    if (c == COMPUTE_I64) combine_i64(kind, count, a.i64, b.i64);
    store_row(c, type, place, to_stride, count, &a);
  }
}

static void combine_back(const scatter_task *t, const void *from, void *to) {
  const klayout *source = &t->p->source_back, *out = &t->p->out_back;
  dtype type = t->p->out.type;
  if (t->p->kind == KSCATTER_ASSIGN) {
    copy_piece(dtype_size(type), out->rank, out->dims, from, source->strides, to, out->strides);
    return;
  }
  int last = out->rank - 1;
  if (last < 0) {
    combine_row(t->p->kind, type, 1, from, 1, to, 1);
    return;
  }
  walk w = {.rank = last, .dims = out->dims};
  walk_add(&w, source->strides);
  walk_add(&w, out->strides);
  walk_seek(&w, 0);
  for (int64_t k = product_of(out->dims, last); k > 0; k--, walk_next(&w))
    combine_row(t->p->kind, type, out->dims[last], element_at(from, type, w.offset[0]),
                source->strides[last], element_at(to, type, w.offset[1]), out->strides[last]);
}

static void scatter_line(const scatter_task *t, const walk *line, int64_t low, int64_t high) {
  const scatter_args *p = t->p;
  for (int64_t k = 0; k < p->n; k++) {
    int64_t given = load_index(&p->index, line->offset[0] + k * p->index_step), i = given;
    if (i < 0 && p->wrap) i += p->size;
    if (i < 0 || i >= p->size) {
      kernel_fault_set(t->ctx->fault, KERNEL_FAULT_INDEX, given, p->wrap ? -p->size : 0,
                       p->size - 1);
    } else if (i >= low && i < high) {
      combine_back(t,
                   element_at(p->source.data, p->source.type, line->offset[1] + k * p->source_step),
                   element_at(p->out.data, p->out.type, line->offset[2] + i * p->out_step));
    }
  }
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
    scatter_line(t, &line, p->size * part / t->parts, p->size * (part + 1) / t->parts);
  }
}

static int64_t count_parts(const scatter_task *t) {
  int64_t wanted = (t->ctx->n_threads + t->lines - 1) / t->lines, size = t->p->size;
  if (t->p->n * t->back < GRAIN) wanted = 1;
  return wanted < size ? wanted : size > 0 ? size : 1;
}

static bool scatter(const kernel_context *ctx, const void *args) {
  const scatter_args *p = args;
  scatter_task t = {.ctx = ctx,
                    .p = p,
                    .lines = ktensor_numel(&p->index),
                    .back = product_of(p->out_back.dims, p->out_back.rank)};
  if (t.lines * p->n * t.back == 0) return true;
  t.parts = count_parts(&t);
  int64_t work = p->n * t.back / t.parts + 1;
  ctx->parallel_for(ctx->pool, t.lines * t.parts, GRAIN / work + 1, scatter_units, &t);
  return true;
}

const kernel_desc kernel_scatter = {
    .name = "scatter",
    .run = scatter,
    .args_size = sizeof(scatter_args),
    .operands = {OPERAND(scatter_args, index), OPERAND(scatter_args, source),
                 OPERAND(scatter_args, out)}};
