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

/* Strided dimensions of source and out: the index is the same over all of them. */
typedef struct piece {
  int rank;
  int64_t dims[KERNEL_MAX_RANK], source[KERNEL_MAX_RANK], out[KERNEL_MAX_RANK];
} piece;

typedef struct scatter_task {
  const kernel_context *ctx;
  kscatter_kind kind;
  bool wrap;
  const ktensor *index, *source, *out;
  int rank; /* lines: the dimensions that are neither the axis nor in the piece */
  int64_t dims[KERNEL_MAX_RANK], strides[3][KERNEL_MAX_RANK]; /* of index, source, out */
  int64_t n, step[3];                                         /* along the axis */
  int64_t size, parts; /* destinations on the axis, and ranges they are cut into */
  piece piece;
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

static void combine_piece(const scatter_task *t, const void *from, void *to) {
  const piece *p = &t->piece;
  dtype type = t->out->type;
  if (t->kind == KSCATTER_ASSIGN) {
    copy_piece(dtype_size(type), p->rank, p->dims, from, p->source, to, p->out);
    return;
  }
  int last = p->rank - 1;
  if (last < 0) {
    combine_row(t->kind, type, 1, from, 1, to, 1);
    return;
  }
  walk w = {.rank = last, .dims = p->dims};
  walk_add(&w, p->source);
  walk_add(&w, p->out);
  walk_seek(&w, 0);
  for (int64_t k = product_of(p->dims, last); k > 0; k--, walk_next(&w))
    combine_row(t->kind, type, p->dims[last], element_at(from, type, w.offset[0]), p->source[last],
                element_at(to, type, w.offset[1]), p->out[last]);
}

static void scatter_line(const scatter_task *t, const walk *line, int64_t low, int64_t high) {
  for (int64_t k = 0; k < t->n; k++) {
    int64_t given = load_index(t->index, line->offset[0] + k * t->step[0]), i = given;
    if (i < 0 && t->wrap) i += t->size;
    if (i < 0 || i >= t->size) {
      kernel_fault_set(t->ctx->fault, KERNEL_FAULT_INDEX, given, t->wrap ? -t->size : 0,
                       t->size - 1);
    } else if (i >= low && i < high) {
      const void *from =
          element_at(t->source->data, t->source->type, line->offset[1] + k * t->step[1]);
      combine_piece(t, from,
                    element_at(t->out->data, t->out->type, line->offset[2] + i * t->step[2]));
    }
  }
}

/* Units [begin, end) of (line, range of destinations). */
static void scatter_units(void *ctx, int64_t begin, int64_t end) {
  const scatter_task *t = ctx;
  walk line = {.rank = t->rank, .dims = t->dims};
  for (int k = 0; k < 3; k++) walk_add(&line, t->strides[k]);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t part = unit % t->parts;
    walk_seek(&line, unit / t->parts);
    scatter_line(t, &line, t->size * part / t->parts, t->size * (part + 1) / t->parts);
  }
}

/* Dimensions behind the axis over which the index stays the same become the piece. */
static void split_dims(scatter_task *t, int axis) {
  const ktensor *operands[3] = {t->index, t->source, t->out};
  int first = t->index->rank; /* of the piece */
  while (first > axis + 1 && (t->index->strides[first - 1] == 0 || t->index->dims[first - 1] == 1))
    first--;
  for (int d = 0; d < first; d++) {
    if (d == axis) continue;
    t->dims[t->rank] = t->index->dims[d];
    for (int k = 0; k < 3; k++) t->strides[k][t->rank] = operands[k]->strides[d];
    t->rank++;
  }
  piece *p = &t->piece;
  for (int d = first; d < t->index->rank; d++) {
    p->dims[p->rank] = t->index->dims[d];
    p->source[p->rank] = t->source->strides[d];
    p->out[p->rank++] = t->out->strides[d];
  }
  p->rank = merge_dims(p->rank, p->dims, 2, (int64_t *const[]){p->source, p->out});
}

static int64_t count_parts(const scatter_task *t, int64_t lines) {
  int64_t wanted = (t->ctx->n_threads + lines - 1) / lines;
  if (t->n * product_of(t->piece.dims, t->piece.rank) < GRAIN) wanted = 1;
  return wanted < t->size ? wanted : t->size > 0 ? t->size : 1;
}

void kernel_scatter(const kernel_context *ctx, kscatter_kind kind, int axis, bool wrap,
                    const ktensor *index, const ktensor *source, const ktensor *out) {
  scatter_task t = {
      .ctx = ctx, .kind = kind, .wrap = wrap, .index = index, .source = source, .out = out};
  if (ktensor_numel(index) == 0) return;
  t.n = index->dims[axis];
  t.step[0] = index->strides[axis];
  t.step[1] = source->strides[axis];
  t.step[2] = out->strides[axis];
  t.size = out->dims[axis];
  split_dims(&t, axis);
  int64_t lines = product_of(t.dims, t.rank);
  t.parts = count_parts(&t, lines);
  int64_t work = t.n * product_of(t.piece.dims, t.piece.rank) / t.parts + 1;
  ctx->parallel_for(ctx->pool, lines * t.parts, GRAIN / work + 1, scatter_units, &t);
}
