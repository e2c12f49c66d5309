/* Writing a part of a tensor whose rest is there already: slice_update, index_copy. */
#include "backend/opencl/families.h"
#include "backend/opencl/scatter.h"
#include "opencl_ops.h"

clave_status opencl_slice_update(cl_recorder *s, const node *n) {
  const ir_slice_update *op = n->instruction->op;
  const bound_tensor *update = &n->tensors[op->update];
  bound_tensor part = n->tensors[op->out];
  int axis = axis_of(op->axis, part.t.rank);
  int64_t start = int_of(n, &op->start), size = part.t.dims[axis], count = update->t.dims[axis];
  int64_t first = start < 0 ? start + size : start;
  if (first < 0 || first > size - count)
    return INVALID("start %lld out of range for %lld elements in a dimension of %lld",
                   (long long)start, (long long)count, (long long)size);
  part.t.dims[axis] = count;
  part.t.offset += first * part.t.strides[axis];
  return move_elements(s, n, update, &part);
}

clave_status opencl_index_copy(cl_recorder *s, const node *n) {
  const ir_index_copy *op = n->instruction->op;
  scatter_operands o = {.index = &n->tensors[op->index],
                        .source = &n->tensors[op->source],
                        .out = &n->tensors[op->out]};
  o.axis = axis_of(op->axis, o.out->t.rank);
  o.index_layout = o.source->t;
  o.index_layout.type = o.index->t.type;
  for (int d = 0; d < o.source->t.rank; d++)
    o.index_layout.strides[d] = d == o.axis ? o.index->t.strides[0] : 0;
  return launch_scatter(s, n, IR_SCATTER_KIND_ASSIGN, &o);
}
