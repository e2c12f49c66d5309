/* IndexSelect, Gather, Index and RavelIndex. */
#include "backend/cpu/kernels/index.h"

#include "cpu_ops.h"

clave_status cpu_index_select(cpu_stream *s, const node *n) {
  const ir_index_select *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), index = cpu_tensor(n, op->index), out = cpu_tensor(n, op->out);
  int axis = cpu_axis(op->axis, x.rank);
  if (x.rank == 0) { /* a scalar is a row of one */
    x = cpu_axis_last(&x, 0);
    axis = 0;
  }
  kernel_index_select(&s->kernel, &x, axis, &index, &out);
  return NULL;
}

clave_status cpu_gather(cpu_stream *s, const node *n) {
  const ir_gather *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), index = cpu_tensor(n, op->index), out = cpu_tensor(n, op->out);
  int axis = cpu_axis(op->axis, x.rank);
  if (x.rank == 0) {
    x = cpu_axis_last(&x, 0);
    axis = 0;
  }
  if (index.rank == 0) index = cpu_axis_last(&index, 0);
  kernel_gather(&s->kernel, &x, axis, &index, &out);
  return NULL;
}

/* The index tensors, broadcast to one shape; returns it. */
static tensor bind_indices(const node *n, const ir_u32s *indices, index_many *p) {
  tensor shape = {.rank = 0};
  for (uint32_t k = 0; k < indices->count; k++) {
    const tensor *t = &n->tensors[indices->items[k]].t;
    if (t->rank > shape.rank) {
      int grow = t->rank - shape.rank;
      for (int d = shape.rank - 1; d >= 0; d--) shape.dims[d + grow] = shape.dims[d];
      for (int d = 0; d < grow; d++) shape.dims[d] = 1;
      shape.rank = t->rank;
    }
    for (int d = 0; d < t->rank; d++)
      if (t->dims[d] != 1) shape.dims[shape.rank - t->rank + d] = t->dims[d];
  }
  for (uint32_t k = 0; k < indices->count; k++) {
    const bound_tensor *b = &n->tensors[indices->items[k]];
    tensor t = cpu_broadcast(b, &shape);
    p->index[k] = cpu_bound_view(b, &t);
  }
  p->n = (int)indices->count;
  return shape;
}

/* Whether the indexed axes stand side by side; their results stand there too, else in front. */
static bool are_adjacent(const ir_index *op, int rank) {
  for (uint32_t k = 1; k < op->axes.count; k++)
    if (cpu_axis(op->axes.items[k], rank) != cpu_axis(op->axes.items[k - 1], rank) + 1)
      return false;
  return true;
}

clave_status cpu_index(cpu_stream *s, const node *n) {
  const ir_index *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out);
  index_many p = {.x = {.data = x.data, .type = x.type}, .out = {.data = out.data, .type = x.type}};
  tensor shape = bind_indices(n, &op->indices, &p);
  bool indexed[KERNEL_MAX_RANK] = {false};
  for (int k = 0; k < p.n; k++) {
    int axis = cpu_axis(op->axes.items[k], x.rank);
    indexed[axis] = true;
    p.size[k] = x.dims[axis];
    p.stride[k] = x.strides[axis];
  }
  int at = are_adjacent(op, x.rank) && p.n > 0 ? cpu_axis(op->axes.items[0], x.rank) : 0;
  for (int d = 0; d < shape.rank; d++) p.out_strides[d] = out.strides[at + d];
  for (int d = 0; d < x.rank; d++) {
    if (indexed[d]) continue;
    int r = p.x.rank++;
    p.x.dims[r] = x.dims[d];
    p.x.strides[r] = x.strides[d];
    p.out.strides[r] = out.strides[r < at ? r : r + shape.rank];
  }
  kernel_index(&s->kernel, &p);
  return NULL;
}

clave_status cpu_ravel_index(cpu_stream *s, const node *n) {
  const ir_ravel_index *op = n->instruction->op;
  index_many p = {.out = cpu_tensor(n, op->out)};
  (void)bind_indices(n, &op->indices, &p);
  for (int k = 0; k < p.n; k++) p.size[k] = cpu_int(n, &op->sizes.items[k]);
  kernel_ravel_index(&s->kernel, &p);
  return NULL;
}
