/* Reduce and ArgReduce: puts the kept dimensions first for the kernels. */
#include "backend/cpu/kernels/reduce.h"

#include "cpu_ops.h"

static const kreduce_kind kinds[IR_REDUCE_KIND_COUNT] = {
    [IR_REDUCE_KIND_SUM] = KREDUCE_SUM,     [IR_REDUCE_KIND_MEAN] = KREDUCE_MEAN,
    [IR_REDUCE_KIND_PROD] = KREDUCE_PROD,   [IR_REDUCE_KIND_MAX] = KREDUCE_MAX,
    [IR_REDUCE_KIND_MIN] = KREDUCE_MIN,     [IR_REDUCE_KIND_ANY] = KREDUCE_ANY,
    [IR_REDUCE_KIND_ALL] = KREDUCE_ALL,     [IR_REDUCE_KIND_VAR] = KREDUCE_VAR,
    [IR_REDUCE_KIND_STD] = KREDUCE_STD,     [IR_REDUCE_KIND_NORM1] = KREDUCE_NORM1,
    [IR_REDUCE_KIND_NORM2] = KREDUCE_NORM2,
};

/* x with the dimensions whose flag is false first, then the others, each in their order; *n_kept:
 * how many are first. */
static ktensor move_reduced_last(const ktensor *x, const bool *reduced, int *n_kept) {
  ktensor out = *x;
  int to = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int d = 0; d < x->rank; d++) {
      if (reduced[d] != (pass == 1)) continue;
      out.dims[to] = x->dims[d];
      out.strides[to++] = x->strides[d];
    }
    if (pass == 0) *n_kept = to;
  }
  return out;
}

clave_status cpu_reduce(cpu_stream *s, const node *n) {
  const ir_reduce *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  bool reduced[KERNEL_MAX_RANK] = {false};
  for (int d = 0; d < x.rank && op->axes.count == 0; d++) reduced[d] = true;
  for (uint32_t k = 0; k < op->axes.count; k++) reduced[cpu_axis(op->axes.items[k], x.rank)] = true;
  int n_kept;
  ktensor ordered = move_reduced_last(&x, reduced, &n_kept);
  return cpu_done(
      kernel_reduce(&s->kernel, kinds[op->kind], &ordered, n_kept, op->correction, &out));
}

clave_status cpu_arg_reduce(cpu_stream *s, const node *n) {
  const ir_arg_reduce *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  bool reduced[KERNEL_MAX_RANK] = {false};
  for (int d = 0; d < x.rank && !op->axis.present; d++) reduced[d] = true;
  if (op->axis.present && x.rank > 0) reduced[cpu_axis(op->axis.value, x.rank)] = true;
  int n_kept;
  ktensor ordered = move_reduced_last(&x, reduced, &n_kept);
  kernel_arg_reduce(&s->kernel, op->kind == IR_ARG_REDUCE_KIND_ARGMIN, &ordered, n_kept, &out);
  return NULL;
}
