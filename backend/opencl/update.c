/* Writing a part of a tensor whose rest is there already: slice_update, index_copy. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

clave_status opencl_slice_update(cl_stream *s, const node *n) {
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

clave_status opencl_index_copy(cl_stream *s, const node *n) {
  const ir_index_copy *op = n->instruction->op;
  const bound_tensor *source = &n->tensors[op->source], *index = &n->tensors[op->index],
                     *out = &n->tensors[op->out];
  int rank = out->t.rank, axis = axis_of(op->axis, rank),
      chunk = stream_traits(s)->is_cpu ? CPU_CHUNK : 1;
  tensor front = take_dims(&source->t, 0, axis), back = take_dims(&source->t, axis + 1, rank);
  tensors_collapse(&front, 1);
  tensors_collapse(&back, 1);
  int64_t n_index = tensor_numel(&index->t), n_back = tensor_numel(&back);
  int64_t items = tensor_numel(&front) * ceil_div(n_back, chunk);
  launch l;
  launch_begin(&l, s, n, "update", "update_by_index");
  launch_dtype(&l, "TYPE", moved_type(out->t.type));
  launch_dtype(&l, "INDEX_TYPE", index->t.type);
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "DENSE", back.rank == 0 || (back.rank == 1 && back.strides[0] == 1));
  launch_buffer(&l, source);
  launch_buffer(&l, index);
  launch_buffer(&l, out);
  launch_layout(&l, &front);
  launch_layout(&l, &back);
  launch_int(&l, items);
  launch_int(&l, n_index);
  launch_int(&l, n_back);
  launch_int(&l, out->t.dims[axis]);
  launch_int(&l, source->t.strides[axis]);
  launch_int(&l, index->t.rank ? index->t.strides[0] : 0);
  return launch_loops(&l, items, 1, n_index * min_i64(n_back, chunk));
}
