/* IndexSelect (embedding), Gather, Index: elements read at the positions that index tensors hold.
 * RavelIndex: several index tensors combined into one of linear positions. */
#include "ops/index.h"

#include <string.h>

#include "ops/rule_checks.h"

static clave_status append_dims(tensor *tensor, int n, const int64_t *dims) {
  if (tensor->rank + n > MAX_RANK)
    return INVALID("out would have rank %d, at most %d is allowed", tensor->rank + n, MAX_RANK);
  if (n > 0) memcpy(tensor->dims + tensor->rank, dims, (size_t)n * sizeof *dims);
  tensor->rank += n;
  return NULL;
}

clave_status rule_index_select(const rule_context *context, const void *op) {
  const ir_index_select *index_select = op;
  const tensor *x = rule_tensor(context, index_select->x),
               *index = rule_tensor(context, index_select->index);
  int axis = 0;
  TRY(check_index_dtype(context, index_select->index, "index"));
  TRY(rule_axis(index_select->axis, x->rank, &axis));
  if (x->encoding.kind && (axis != 0 || x->encoding.axis != 1))
    return INVALID("x: expected encoded rows along axis 1, picked along axis 0, got axes %d and %d",
                   x->encoding.axis, axis);
  tensor want = {.type = x->type};
  TRY(append_dims(&want, axis, x->dims));
  TRY(append_dims(&want, index->rank, index->dims));
  TRY(append_dims(&want, x->rank - axis - 1, x->dims + axis + 1));
  return rule_expect_like(context, index_select->out, "out", &want);
}

clave_status rule_gather(const rule_context *context, const void *op) {
  const ir_gather *gather = op;
  const tensor *x = rule_tensor(context, gather->x), *index = rule_tensor(context, gather->index);
  int axis = 0;
  TRY(check_index_dtype(context, gather->index, "index"));
  TRY(rule_axis(gather->axis, x->rank, &axis));
  TRY(check_index_fits(x, index, axis));
  return rule_expect(context, gather->out, "out", x->type, index->rank, index->dims);
}

static clave_status check_index_tensor(const rule_context *context, uint32_t tid) {
  const tensor *tensor = rule_tensor(context, tid);
  if (tensor->type == DTYPE_BOOL || tensor->type == DTYPE_U8)
    return UNSUPPORTED("index: expected I32 or I64, got a mask (%s)", dtype_name(tensor->type));
  return check_index_dtype(context, tid, "index");
}

/* Resolves the axes, which must ascend. Sets *adjacent if they are consecutive. */
static clave_status read_axes(const ir_index *op, int rank, int *axes, bool *adjacent) {
  bool marked[MAX_RANK];
  if (op->indices.count == 0) return INVALID("indices is empty");
  if (op->axes.count != op->indices.count)
    return INVALID("axes: expected %u entries, got %u", op->indices.count, op->axes.count);
  TRY(check_axes(&op->axes, rank, marked, axes));
  *adjacent = true;
  for (uint32_t i = 1; i < op->axes.count; i++) {
    if (axes[i] < axes[i - 1])
      return INVALID("axes are not ascending: %d after %d", axes[i], axes[i - 1]);
    if (axes[i] != axes[i - 1] + 1) *adjacent = false;
  }
  return NULL;
}

clave_status rule_index(const rule_context *context, const void *op) {
  const ir_index *index = op;
  const tensor *x = rule_tensor(context, index->x);
  int axes[MAX_RANK] = {0};
  bool adjacent = true;
  TRY(read_axes(index, x->rank, axes, &adjacent));
  tensor picked = {.rank = 0}, want = {.type = x->type};
  for (uint32_t i = 0; i < index->indices.count; i++) {
    TRY(check_index_tensor(context, index->indices.items[i]));
    TRY(rule_broadcast(rule_tensor(context, index->indices.items[i]), &picked.rank, picked.dims));
  }
  int first = adjacent ? axes[0] : 0; /* the broadcast dimensions precede x's dimension `first` */
  uint32_t next = 0;
  for (int i = 0; i <= x->rank; i++) {
    if (i == first) TRY(append_dims(&want, picked.rank, picked.dims));
    if (i == x->rank) break;
    if (next < index->axes.count && axes[next] == i)
      next++;
    else
      TRY(append_dims(&want, 1, &x->dims[i]));
  }
  return rule_expect_like(context, index->out, "out", &want);
}

clave_status rule_ravel_index(const rule_context *context, const void *op) {
  const ir_ravel_index *ravel_index = op;
  tensor want = {.type = DTYPE_I64};
  int64_t n = 1, size;
  if (ravel_index->indices.count == 0 || ravel_index->indices.count > MAX_RANK)
    return INVALID("indices: expected 1 to %d entries, got %u", MAX_RANK,
                   ravel_index->indices.count);
  if (ravel_index->sizes.count != ravel_index->indices.count)
    return INVALID("sizes: expected %u entries, got %u", ravel_index->indices.count,
                   ravel_index->sizes.count);
  for (uint32_t i = 0; i < ravel_index->indices.count; i++) {
    TRY(check_index_dtype(context, ravel_index->indices.items[i], "index"));
    TRY(rule_broadcast(rule_tensor(context, ravel_index->indices.items[i]), &want.rank, want.dims));
    if (!rule_int(context, &ravel_index->sizes.items[i], &size)) continue;
    if (size < 0) return INVALID("sizes: expected 0 or more, got %lld", (long long)size);
    if (size > 0 && !mul_i64(n, size, &n)) return INVALID("sizes have too many positions");
  }
  return rule_expect_like(context, ravel_index->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

/* Broadcasts `shape` to to's dims; the rules have checked that this is possible. */
static void op_index_broadcast(tensor *shape, const tensor *to) {
  int grow = to->rank > shape->rank ? to->rank - shape->rank : 0;
  for (int d = shape->rank - 1; d >= 0; d--) shape->dims[d + grow] = shape->dims[d];
  for (int d = 0; d < grow; d++) shape->dims[d] = 1;
  shape->rank += grow;
  for (int d = 0; d < to->rank; d++)
    if (to->dims[d] != 1) shape->dims[shape->rank - to->rank + d] = to->dims[d];
}

/* Describes the index tensors, broadcast to one shape. */
static void op_index_set_indices(const node *node, const ir_u32s *indices, pick_desc *desc) {
  tensor shape = {.rank = 0};
  desc->n = (int)indices->count;
  for (int k = 0; k < desc->n; k++) {
    desc->indices[k] = &node->tensors[indices->items[k]];
    op_index_broadcast(&shape, &desc->indices[k]->tensor);
  }
  for (int k = 0; k < desc->n; k++)
    desc->index[k] = broadcast_operand(desc->indices[k], &shape).tensor;
  tensors_collapse(desc->index, desc->n);
  desc->n_picks = tensor_numel(&desc->index[0]);
}

/* Splits x's dimensions, except the axes in the bit mask, into the first n_front and the rest. */
static void set_unpicked(pick_desc *desc, unsigned axes, int n_front) {
  tensor rest = {.type = desc->x->tensor.type};
  for (int d = 0; d < desc->x->tensor.rank; d++) {
    if (axes >> d & 1) continue;
    rest.dims[rest.rank] = desc->x->tensor.dims[d];
    rest.strides[rest.rank++] = desc->x->tensor.strides[d];
  }
  desc->front = take_dims(&rest, 0, n_front);
  desc->back = take_dims(&rest, n_front, rest.rank);
  tensors_collapse(&desc->front, 1);
  tensors_collapse(&desc->back, 1);
}

static void set_axis(pick_desc *desc, int k, int axis) {
  desc->sizes[k] = desc->x->tensor.dims[axis];
  desc->strides[k] = desc->x->tensor.strides[axis];
}

void describe_index_select(const node *node, pick_desc *desc) {
  const ir_index_select *op = node->instruction->op;
  *desc = (pick_desc){.x = &node->tensors[op->x], .out = &node->tensors[op->out]};
  int axis = axis_of(op->axis, desc->x->tensor.rank);
  uint32_t index = op->index;
  op_index_set_indices(node, &(ir_u32s){.items = &index, .count = 1}, desc);
  set_axis(desc, 0, axis);
  set_unpicked(desc, 1u << axis, axis);
}

void describe_index(const node *node, pick_desc *desc) {
  const ir_index *op = node->instruction->op;
  *desc = (pick_desc){.x = &node->tensors[op->x], .out = &node->tensors[op->out], .wrap = true};
  op_index_set_indices(node, &op->indices, desc);
  int rank = desc->x->tensor.rank, first = axis_of(op->axes.items[0], rank),
      last = axis_of(op->axes.items[desc->n - 1], rank);
  unsigned axes = 0;
  for (int k = 0; k < desc->n; k++) {
    int axis = axis_of(op->axes.items[k], rank);
    axes |= 1u << axis;
    set_axis(desc, k, axis);
  }
  /* Dimensions of picks over adjacent axes replace those axes; others come first. */
  set_unpicked(desc, axes, last - first + 1 == desc->n ? first : 0);
}

void describe_ravel_index(const node *node, pick_desc *desc) {
  const ir_ravel_index *op = node->instruction->op;
  *desc = (pick_desc){.out = &node->tensors[op->out], .wrap = true};
  op_index_set_indices(node, &op->indices, desc);
  int64_t step = 1;
  for (int k = desc->n - 1; k >= 0; k--) {
    desc->sizes[k] = int_of(node, &op->sizes.items[k]);
    desc->strides[k] = step;
    if (desc->sizes[k] > 1) step *= desc->sizes[k];
  }
}

void describe_gather(const node *node, gather_desc *desc) {
  const ir_gather *op = node->instruction->op;
  *desc = (gather_desc){.x = &node->tensors[op->x],
                        .index = &node->tensors[op->index],
                        .out = &node->tensors[op->out]};
  int rank = desc->x->tensor.rank, axis = axis_of(op->axis, rank);
  tensor both[2] = {desc->x->tensor, desc->index->tensor};
  desc->size = both[0].dims[axis];
  desc->step = both[0].strides[axis];
  both[0].strides[axis] = 0;
  for (int d = 0; d < rank; d++) both[0].dims[d] = both[1].dims[d];
  tensors_collapse(both, 2);
  desc->x_layout = both[0];
  desc->index_layout = both[1];
  desc->n = tensor_numel(&both[1]);
}
