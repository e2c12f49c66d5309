/* Reading at positions that tensors hold: each index moves a whole slice of the dimensions that it
 * does not touch. */
#include "backend/cpu/kernels/index.h"

#include <string.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements worth a thread */ };

int64_t load_index(const ktensor *index, int64_t offset) {
  const void *from = element_at(index->data, index->type, offset);
  if (index->type == DTYPE_I64) return *(const int64_t *)from;
  if (index->type == DTYPE_I32) return *(const int32_t *)from;
  int64_t i;
  load_row(COMPUTE_I64, index->type, from, 1, 1, &i);
  return i;
}

int64_t load_row_index(const kernel_context *ctx, const ktensor *index, int64_t offset,
                       int64_t size) {
  const int64_t i = load_index(index, offset);
  if (i >= 0 && i < size) return i;
  kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, i, 0, size - 1);
  return 0;
}

/* The index itself if it lies in [low, size), counted from the end if negative; else a fault, and
 * the nearest one that does (0 where there is none). */
static int64_t check_index(const kernel_context *ctx, int64_t i, int64_t low, int64_t size) {
  if (i >= low && i < size) return i < 0 ? i + size : i;
  kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, i, low, size - 1);
  return i < 0 || size == 0 ? 0 : size - 1;
}

static int64_t grain_of(int64_t slice) { return GRAIN / (slice > 0 ? slice : 1) + 1; }

/* ---------------------------------------------------------------- picks */

/* Moves over places of the index tensors. */
static walk walk_picks(const pick_list *p, int64_t first) {
  walk w = {.rank = p->index[0].rank, .dims = p->index[0].dims};
  for (int j = 0; j < p->n; j++) walk_add(&w, p->index[j].strides);
  walk_seek(&w, first);
  return w;
}

static int64_t position_at(const kernel_context *ctx, const pick_list *p, const walk *w) {
  int64_t position = 0;
  for (int j = 0; j < p->n; j++) {
    int64_t low = p->wrap ? -p->sizes[j] : 0, i = load_index(&p->index[j], w->offset[j]);
    position += p->steps[j] * check_index(ctx, i, low, p->sizes[j]);
  }
  return position;
}

typedef struct pick_task {
  const kernel_context *ctx;
  const index_pick_args *p;
  int64_t n_picks, slice; /* elements of `back` */
  bool empty;             /* there is nothing to read */
} pick_task;

/* Slices [begin, end) of (front, picks). */
static void pick_slices(void *ctx, int64_t begin, int64_t end) {
  const pick_task *t = ctx;
  const ktensor *x = &t->p->x;
  const klayout *back = &t->p->back;
  size_t size = dtype_size(x->type);
  int64_t dense[KERNEL_MAX_RANK], step = 1;
  for (int d = back->rank - 1; d >= 0; step *= back->dims[d--]) dense[d] = step;
  walk front = {.rank = x->rank, .dims = x->dims},
       picks = walk_picks(&t->p->picks, begin % t->n_picks);
  walk_add(&front, x->strides);
  walk_seek(&front, begin / t->n_picks);
  for (int64_t k = begin; k < end; k++) {
    char *to = (char *)t->p->out + (size_t)(k * t->slice) * size;
    int64_t at = front.offset[0] + position_at(t->ctx, &t->p->picks, &picks);
    if (t->empty)
      memset(to, 0, (size_t)t->slice * size);
    else
      copy_piece(size, back->rank, back->dims, element_at(x->data, x->type, at), back->strides, to,
                 dense);
    walk_next(&picks);
    if ((k + 1) % t->n_picks == 0) walk_next(&front);
  }
}

static bool index_pick(const kernel_context *ctx, const void *args) {
  const index_pick_args *p = args;
  pick_task t = {.ctx = ctx,
                 .p = p,
                 .n_picks = ktensor_numel(&p->picks.index[0]),
                 .slice = product_of(p->back.dims, p->back.rank)};
  for (int j = 0; j < p->picks.n; j++) t.empty |= p->picks.sizes[j] == 0;
  int64_t slices = ktensor_numel(&p->x) * t.n_picks;
  if (slices * t.slice == 0) return true;
  ctx->parallel_for(ctx->pool, slices, grain_of(t.slice), pick_slices, &t);
  return true;
}

typedef struct ravel_task {
  const kernel_context *ctx;
  const index_ravel_args *p;
} ravel_task;

static void ravel_range(void *ctx, int64_t begin, int64_t end) {
  const ravel_task *t = ctx;
  walk w = walk_picks(&t->p->picks, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w))
    t->p->out[k] = position_at(t->ctx, &t->p->picks, &w);
}

static bool index_ravel(const kernel_context *ctx, const void *args) {
  ravel_task t = {.ctx = ctx, .p = args};
  ctx->parallel_for(ctx->pool, ktensor_numel(&t.p->picks.index[0]), GRAIN / 4, ravel_range, &t);
  return true;
}

/* ---------------------------------------------------------------- gather */

typedef struct gather_task {
  const kernel_context *ctx;
  const gather_args *p;
} gather_task;

static void gather_range(void *ctx, int64_t begin, int64_t end) {
  const gather_task *t = ctx;
  const gather_args *p = t->p;
  size_t size = dtype_size(p->x.type);
  walk w = {.rank = p->index.rank, .dims = p->index.dims};
  walk_add(&w, p->x.strides);
  walk_add(&w, p->index.strides);
  walk_seek(&w, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w)) {
    int64_t i = check_index(t->ctx, load_index(&p->index, w.offset[1]), 0, p->size);
    void *to = (char *)p->out + (size_t)k * size;
    if (p->size == 0)
      memset(to, 0, size);
    else
      memcpy(to, element_at(p->x.data, p->x.type, w.offset[0] + i * p->step), size);
  }
}

static bool gather(const kernel_context *ctx, const void *args) {
  gather_task t = {.ctx = ctx, .p = args};
  ctx->parallel_for(ctx->pool, ktensor_numel(&t.p->index), GRAIN / 4, gather_range, &t);
  return true;
}

/* ---------------------------------------------------------------- kernels */

#define PICK_OPERANDS(args)                                                                        \
  OPERAND(args, picks.index[0]), OPERAND(args, picks.index[1]), OPERAND(args, picks.index[2]),     \
      OPERAND(args, picks.index[3]), OPERAND(args, picks.index[4]), OPERAND(args, picks.index[5]), \
      OPERAND(args, picks.index[6]), OPERAND(args, picks.index[7])

const kernel_desc kernel_index_pick = {
    .name = "index_pick",
    .run = index_pick,
    .args_size = sizeof(index_pick_args),
    .operands = {OPERAND(index_pick_args, x), OPERAND(index_pick_args, out),
                 PICK_OPERANDS(index_pick_args)}};

const kernel_desc kernel_index_ravel = {
    .name = "index_ravel",
    .run = index_ravel,
    .args_size = sizeof(index_ravel_args),
    .operands = {OPERAND(index_ravel_args, out), PICK_OPERANDS(index_ravel_args)}};

const kernel_desc kernel_gather = {
    .name = "gather",
    .run = gather,
    .args_size = sizeof(gather_args),
    .operands = {OPERAND(gather_args, x), OPERAND(gather_args, index), OPERAND(gather_args, out)}};
