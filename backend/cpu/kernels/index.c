/* Reads at positions that index tensors hold. Each index selects a whole slice of the dimensions
 * that are not indexed. */
#include "backend/cpu/kernels/index.h"

#include <string.h>

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/walk.h"

enum { GRAIN = 16 * 1024 /* elements that justify waking a thread */ };

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

/* Returns index i if it is in [low, size); a negative index counts from the end. Else records a
 * fault and returns the nearest valid index (0 if size is 0). */
static int64_t check_index(const kernel_context *ctx, int64_t i, int64_t low, int64_t size) {
  if (i >= low && i < size) return i < 0 ? i + size : i;
  kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, i, low, size - 1);
  return i < 0 || size == 0 ? 0 : size - 1;
}

static int64_t grain_of(int64_t slice) { return GRAIN / (slice > 0 ? slice : 1) + 1; }

/* ---------------------------------------------------------------- picks */

/* Returns a walk over the places of the index tensors, from place `first` on. */
static walk walk_picks(const pick_list *list, int64_t first) {
  walk w = {.rank = list->index[0].rank, .dims = list->index[0].dims};
  for (int j = 0; j < list->n; j++) walk_add(&w, list->index[j].strides);
  walk_seek(&w, first);
  return w;
}

static int64_t position_at(const kernel_context *ctx, const pick_list *list, const walk *walk) {
  int64_t position = 0;
  for (int j = 0; j < list->n; j++) {
    int64_t low = list->wrap ? -list->sizes[j] : 0,
            i = load_index(&list->index[j], walk->offset[j]);
    position += list->steps[j] * check_index(ctx, i, low, list->sizes[j]);
  }
  return position;
}

typedef struct pick_task {
  const kernel_context *ctx;
  const index_pick_args *args;
  int64_t n_picks, slice; /* elements of `back` */
  bool empty;             /* x is empty */
} pick_task;

/* Copies slices [begin, end), counted over (front, picks). */
static void pick_slices(void *ctx, int64_t begin, int64_t end) {
  const pick_task *task = ctx;
  const ktensor *x = &task->args->x;
  const klayout *back = &task->args->back;
  size_t size = dtype_size(x->type);
  int64_t dense[KERNEL_MAX_RANK], step = 1;
  for (int d = back->rank - 1; d >= 0; step *= back->dims[d--]) dense[d] = step;
  walk front = {.rank = x->rank, .dims = x->dims},
       picks = walk_picks(&task->args->picks, begin % task->n_picks);
  walk_add(&front, x->strides);
  walk_seek(&front, begin / task->n_picks);
  for (int64_t k = begin; k < end; k++) {
    char *to = (char *)task->args->out + (size_t)(k * task->slice) * size;
    int64_t at = front.offset[0] + position_at(task->ctx, &task->args->picks, &picks);
    if (task->empty)
      memset(to, 0, (size_t)task->slice * size);
    else
      copy_piece(size, back->rank, back->dims, element_at(x->data, x->type, at), back->strides, to,
                 dense);
    walk_next(&picks);
    if ((k + 1) % task->n_picks == 0) walk_next(&front);
  }
}

static bool index_pick(const kernel_context *ctx, const void *args) {
  const index_pick_args *own = args;
  pick_task task = {.ctx = ctx,
                    .args = own,
                    .n_picks = ktensor_numel(&own->picks.index[0]),
                    .slice = product_of(own->back.dims, own->back.rank)};
  for (int j = 0; j < own->picks.n; j++) task.empty |= own->picks.sizes[j] == 0;
  int64_t slices = ktensor_numel(&own->x) * task.n_picks;
  if (slices * task.slice == 0) return true;
  ctx->parallel_for(ctx->pool, slices, grain_of(task.slice), pick_slices, &task);
  return true;
}

typedef struct ravel_task {
  const kernel_context *ctx;
  const index_ravel_args *args;
} ravel_task;

static void ravel_range(void *ctx, int64_t begin, int64_t end) {
  const ravel_task *task = ctx;
  walk w = walk_picks(&task->args->picks, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w))
    task->args->out[k] = position_at(task->ctx, &task->args->picks, &w);
}

static bool index_ravel(const kernel_context *ctx, const void *args) {
  ravel_task task = {.ctx = ctx, .args = args};
  ctx->parallel_for(ctx->pool, ktensor_numel(&task.args->picks.index[0]), GRAIN / 4, ravel_range,
                    &task);
  return true;
}

/* ---------------------------------------------------------------- gather */

typedef struct gather_task {
  const kernel_context *ctx;
  const gather_args *args;
} gather_task;

static void gather_range(void *ctx, int64_t begin, int64_t end) {
  const gather_task *task = ctx;
  const gather_args *args = task->args;
  size_t size = dtype_size(args->x.type);
  walk w = {.rank = args->index.rank, .dims = args->index.dims};
  walk_add(&w, args->x.strides);
  walk_add(&w, args->index.strides);
  walk_seek(&w, begin);
  for (int64_t k = begin; k < end; k++, walk_next(&w)) {
    int64_t i = check_index(task->ctx, load_index(&args->index, w.offset[1]), 0, args->size);
    void *to = (char *)args->out + (size_t)k * size;
    if (args->size == 0)
      memset(to, 0, size);
    else
      memcpy(to, element_at(args->x.data, args->x.type, w.offset[0] + i * args->step), size);
  }
}

static bool kernel_index_gather(const kernel_context *ctx, const void *args) {
  gather_task task = {.ctx = ctx, .args = args};
  ctx->parallel_for(ctx->pool, ktensor_numel(&task.args->index), GRAIN / 4, gather_range, &task);
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
    .run = kernel_index_gather,
    .args_size = sizeof(gather_args),
    .operands = {OPERAND(gather_args, x), OPERAND(gather_args, index), OPERAND(gather_args, out)}};
