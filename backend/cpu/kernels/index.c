/* Reading at positions that tensors hold: each index moves a whole slice of the dimensions that it
 * does not touch. */
#include "backend/cpu/kernels/index.h"

#include <string.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/walk.h"

enum { GRAIN = 16 * 1024 /* elements worth a thread */ };

int64_t load_index(const ktensor *index, int64_t offset) {
  const void *from = element_at(index->data, index->type, offset);
  if (index->type == DTYPE_I64) return *(const int64_t *)from;
  if (index->type == DTYPE_I32) return *(const int32_t *)from;
  int64_t i;
  load_row(COMPUTE_I64, index->type, from, 1, 1, &i);
  return i;
}

/* The index itself if it lies in [low, size), counted from the end if negative; else a fault, and
 * the nearest one that does (0 where there is none). */
static int64_t check_index(const kernel_context *ctx, int64_t i, int64_t low, int64_t size) {
  if (i >= low && i < size) return i < 0 ? i + size : i;
  kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, i, low, size - 1);
  return i < 0 || size == 0 ? 0 : size - 1;
}

static int64_t grain_of(int64_t slice) { return GRAIN / (slice > 0 ? slice : 1) + 1; }

/* ---------------------------------------------------------------- index_select */

typedef struct select_task {
  const kernel_context *ctx;
  const ktensor *x, *index, *out;
  int axis;
  int64_t n_index, slice; /* indices; elements after the axis */
} select_task;

/* Slices [begin, end) of (before, index). */
static void select_slices(void *ctx, int64_t begin, int64_t end) {
  const select_task *t = ctx;
  const ktensor *x = t->x;
  size_t size = dtype_size(x->type);
  int after = x->rank - t->axis - 1;
  const int64_t *dims = x->dims + t->axis + 1, *strides = x->strides + t->axis + 1;
  const int64_t *out_strides = t->out->strides + t->out->rank - after;
  walk before = {.rank = t->axis, .dims = x->dims},
       index = {.rank = t->index->rank, .dims = t->index->dims};
  walk_add(&before, x->strides);
  walk_add(&index, t->index->strides);
  walk_seek(&before, begin / t->n_index);
  walk_seek(&index, begin % t->n_index);
  for (int64_t k = begin; k < end; k++) {
    char *to = (char *)t->out->data + (size_t)(k * t->slice) * size;
    int64_t i = check_index(t->ctx, load_index(t->index, index.offset[0]), 0, x->dims[t->axis]);
    if (x->dims[t->axis] == 0) {
      memset(to, 0, (size_t)t->slice * size);
    } else {
      copy_piece(size, after, dims,
                 element_at(x->data, x->type, before.offset[0] + i * x->strides[t->axis]), strides,
                 to, out_strides);
    }
    walk_next(&index);
    if ((k + 1) % t->n_index == 0) walk_next(&before);
  }
}

void kernel_index_select(const kernel_context *ctx, const ktensor *x, int axis,
                         const ktensor *index, const ktensor *out) {
  select_task t = {.ctx = ctx, .x = x, .index = index, .out = out, .axis = axis};
  t.n_index = ktensor_numel(index);
  t.slice = product_of(x->dims + axis + 1, x->rank - axis - 1);
  if (ktensor_numel(out) == 0) return;
  ctx->parallel_for(ctx->pool, product_of(x->dims, axis) * t.n_index, grain_of(t.slice),
                    select_slices, &t);
}

/* ---------------------------------------------------------------- gather */

typedef struct gather_task {
  const kernel_context *ctx;
  const ktensor *x, *index, *out;
  int axis;
  int64_t strides[KERNEL_MAX_RANK]; /* of x, 0 along the axis */
} gather_task;

static void gather_range(void *ctx, int64_t begin, int64_t end) {
  const gather_task *t = ctx;
  size_t size = dtype_size(t->x->type);
  int64_t axis_size = t->x->dims[t->axis], axis_stride = t->x->strides[t->axis];
  walk w = {.rank = t->index->rank, .dims = t->index->dims};
  walk_add(&w, t->strides);
  walk_add(&w, t->index->strides);
  walk_seek(&w, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w)) {
    int64_t i = check_index(t->ctx, load_index(t->index, w.offset[1]), 0, axis_size);
    void *to = (char *)t->out->data + (size_t)k * size;
    if (axis_size == 0) {
      memset(to, 0, size);
    } else {
      memcpy(to, element_at(t->x->data, t->x->type, w.offset[0] + i * axis_stride), size);
    }
  }
}

void kernel_gather(const kernel_context *ctx, const ktensor *x, int axis, const ktensor *index,
                   const ktensor *out) {
  gather_task t = {.ctx = ctx, .x = x, .index = index, .out = out, .axis = axis};
  for (int d = 0; d < x->rank; d++) t.strides[d] = d == axis ? 0 : x->strides[d];
  ctx->parallel_for(ctx->pool, ktensor_numel(index), GRAIN / 4, gather_range, &t);
}

/* ---------------------------------------------------------------- index */

typedef struct many_task {
  const kernel_context *ctx;
  const index_many *p;
} many_task;

static void index_slices(void *ctx, int64_t begin, int64_t end) {
  const many_task *t = ctx;
  const index_many *p = t->p;
  size_t size = dtype_size(p->x.type);
  walk w = {.rank = p->index[0].rank, .dims = p->index[0].dims};
  for (int j = 0; j < p->n; j++) walk_add(&w, p->index[j].strides);
  walk_add(&w, p->out_strides);
  walk_seek(&w, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w)) {
    int64_t from = 0;
    bool empty = false;
    for (int j = 0; j < p->n; j++) {
      from += p->stride[j] *
              check_index(t->ctx, load_index(&p->index[j], w.offset[j]), -p->size[j], p->size[j]);
      empty |= p->size[j] == 0;
    }
    char *to = (char *)p->out.data + w.offset[p->n] * (int64_t)size;
    if (!empty)
      copy_piece(size, p->x.rank, p->x.dims, element_at(p->x.data, p->x.type, from), p->x.strides,
                 to, p->out.strides);
  }
}

void kernel_index(const kernel_context *ctx, const index_many *p) {
  many_task t = {.ctx = ctx, .p = p};
  int64_t slice = ktensor_numel(&p->x), n = ktensor_numel(&p->index[0]);
  if (slice * n == 0) return;
  ctx->parallel_for(ctx->pool, n, grain_of(slice), index_slices, &t);
}

/* ---------------------------------------------------------------- ravel_index */

static void ravel_range(void *ctx, int64_t begin, int64_t end) {
  const many_task *t = ctx;
  const index_many *p = t->p;
  walk w = {.rank = p->index[0].rank, .dims = p->index[0].dims};
  for (int j = 0; j < p->n; j++) walk_add(&w, p->index[j].strides);
  walk_seek(&w, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w)) {
    int64_t flat = 0;
    for (int j = 0; j < p->n; j++)
      flat = flat * p->size[j] +
             check_index(t->ctx, load_index(&p->index[j], w.offset[j]), -p->size[j], p->size[j]);
    ((int64_t *)p->out.data)[k] = flat;
  }
}

void kernel_ravel_index(const kernel_context *ctx, const index_many *p) {
  many_task t = {.ctx = ctx, .p = p};
  ctx->parallel_for(ctx->pool, ktensor_numel(&p->index[0]), GRAIN / 4, ravel_range, &t);
}
