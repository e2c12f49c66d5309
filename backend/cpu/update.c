/* SliceUpdate and IndexCopy: write only the updated part; the planner has put x's values into out.
 */
#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/scatter.h"
#include "cpu_ops.h"

clave_status cpu_slice_update(cpu_stream *s, const node *n) {
  const ir_slice_update *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out], *update = &n->tensors[op->update];
  int axis = cpu_axis(op->axis, out->t.rank);
  int64_t size = out->t.dims[axis], high = size - update->t.dims[axis];
  int64_t given = op->start.present ? cpu_int(n, &op->start) : 0,
          start = given < 0 ? given + size : given;
  if (start < 0 || start > high) {
    kernel_fault_set(&s->fault, KERNEL_FAULT_INDEX, given, -size, high);
    return NULL;
  }
  if (tensor_numel(&update->t) == 0) return NULL;
  tensor part = out->t;
  part.dims[axis] = update->t.dims[axis];
  part.offset += start * part.strides[axis];
  ktensor from = cpu_bound_ktensor(update), to = cpu_bound_view(out, &part);
  kernel_copy(&s->kernel, &from, &to);
  return NULL;
}

/* index as (1, ..., n, ..., 1), repeated over source's other dimensions. */
static ktensor along_axis(const ktensor *index, int axis, const ktensor *source) {
  ktensor wide = *source;
  wide.data = index->data;
  wide.type = index->type;
  for (int d = 0; d < wide.rank; d++) wide.strides[d] = d == axis ? index->strides[0] : 0;
  return wide;
}

clave_status cpu_index_copy(cpu_stream *s, const node *n) {
  const ir_index_copy *op = n->instruction->op;
  ktensor index = cpu_tensor(n, op->index), source = cpu_tensor(n, op->source),
          out = cpu_tensor(n, op->out);
  int axis = cpu_axis(op->axis, out.rank);
  index = along_axis(&index, axis, &source);
  kernel_scatter(&s->kernel, KSCATTER_ASSIGN, axis, false, &index, &source, &out);
  return NULL;
}
