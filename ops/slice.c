/* Slice, Select, Flip, Diagonal, AsStrided, Unfold: parts or reorderings of a tensor, by strides
 * and an offset. */
#include "ops/rule_checks.h"

/* The numbers of a Slice, or their defaults; a flag is false if its number is not known yet. */
typedef struct slice_numbers {
  int64_t start, stop, step;
  bool start_known, stop_known, step_known;
} slice_numbers;

static slice_numbers slice_read_slice(const rule_context *context, const ir_slice *op) {
  slice_numbers numbers = {.step = 1};
  numbers.start_known = !op->start.present || rule_int(context, &op->start, &numbers.start);
  numbers.stop_known = !op->stop.present || rule_int(context, &op->stop, &numbers.stop);
  numbers.step_known = !op->step.present || rule_int(context, &op->step, &numbers.step);
  return numbers;
}

/* Counts the elements first, first + step, ... that are below last. */
static int64_t count_steps(int64_t first, int64_t last, int64_t step) {
  return first == last ? 0 : (last - first - 1) / step + 1;
}

clave_status rule_slice(const rule_context *context, const void *op) {
  const ir_slice *slice = op;
  tensor want = *rule_tensor(context, slice->x);
  int axis = 0;
  TRY(rule_axis(slice->axis, want.rank, &axis));
  slice_numbers numbers = slice_read_slice(context, slice);
  if (numbers.step_known && numbers.step < 1)
    return INVALID("step: expected at least 1, got %lld", (long long)numbers.step);
  int64_t size = want.dims[axis];
  want.dims[axis] = DIM_UNKNOWN;
  if (size != DIM_UNKNOWN && numbers.start_known && numbers.stop_known && numbers.step_known) {
    int64_t first, last;
    slice_bounds(size, numbers.start, slice->stop.present, numbers.stop, &first, &last);
    want.dims[axis] = count_steps(first, last, numbers.step);
  }
  return rule_expect_like(context, slice->out, "out", &want);
}

bool view_slice(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_slice *slice = op;
  slice_numbers numbers = slice_read_slice(context, slice);
  int axis = slice->axis < 0 ? slice->axis + input->rank : slice->axis;
  int64_t first, last;
  slice_bounds(input->dims[axis], numbers.start, slice->stop.present, numbers.stop, &first, &last);
  int64_t count = count_steps(first, last, numbers.step);
  tensor tensor = *input;
  tensor.dims[axis] = count;
  if (count > 0) tensor.offset += first * tensor.strides[axis];
  if (count > 1)
    tensor.strides[axis] *= numbers.step; /* otherwise step may be too large to multiply by */
  *out = tensor;
  return true;
}

static int64_t diagonal_size(int64_t rows, int64_t columns, int64_t offset) {
  int64_t right = offset > 0 ? offset : 0, down = offset < 0 ? offset : 0;
  if (right >= columns || down <= -rows) return 0;
  rows += down;
  columns -= right;
  return rows < columns ? rows : columns;
}

static void drop_axis(tensor *tensor, int axis) {
  tensor->rank--;
  for (int i = axis; i < tensor->rank; i++) {
    tensor->dims[i] = tensor->dims[i + 1];
    tensor->strides[i] = tensor->strides[i + 1];
  }
}

clave_status rule_select(const rule_context *context, const void *op) {
  const ir_select *select = op;
  tensor want = *rule_tensor(context, select->x);
  int axis = 0;
  int64_t index, size;
  TRY(rule_axis(select->axis, want.rank, &axis));
  size = want.dims[axis];
  if (size != DIM_UNKNOWN && rule_int(context, &select->index, &index) &&
      (index < -size || index >= size)) {
    return INVALID("index %lld out of range for axis %d of size %lld", (long long)index, axis,
                   (long long)size);
  }
  drop_axis(&want, axis);
  return rule_expect_like(context, select->out, "out", &want);
}

bool view_select(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_select *select = op;
  int axis = select->axis < 0 ? select->axis + input->rank : select->axis;
  int64_t index = 0;
  if (!rule_int(context, &select->index, &index)) return false;
  tensor tensor = *input;
  tensor.offset += (index < 0 ? index + input->dims[axis] : index) * input->strides[axis];
  drop_axis(&tensor, axis);
  *out = tensor;
  return true;
}

clave_status rule_flip(const rule_context *context, const void *op) {
  const ir_flip *flip = op;
  const tensor *tensor = rule_tensor(context, flip->x);
  bool marked[MAX_RANK];
  TRY(check_axes(&flip->axes, tensor->rank, marked, NULL));
  return rule_expect_like(context, flip->out, "out", tensor);
}

bool view_flip(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_flip *flip = op;
  (void)context;
  tensor tensor = *input;
  for (uint32_t i = 0; i < flip->axes.count; i++) {
    int axis = flip->axes.items[i] < 0 ? flip->axes.items[i] + input->rank : flip->axes.items[i];
    if (tensor.dims[axis] > 0) tensor.offset += (tensor.dims[axis] - 1) * tensor.strides[axis];
    tensor.strides[axis] = -tensor.strides[axis];
  }
  *out = tensor;
  return true;
}

clave_status rule_diagonal(const rule_context *context, const void *op) {
  const ir_diagonal *diagonal = op;
  tensor want = *rule_tensor(context, diagonal->x);
  int64_t offset = 0;
  int axes[2];
  TRY(rule_axis(diagonal->axis1, want.rank, &axes[0]));
  TRY(rule_axis(diagonal->axis2, want.rank, &axes[1]));
  if (axes[0] == axes[1]) return INVALID("axis1 and axis2 are both %d", axes[0]);
  int64_t rows = want.dims[axes[0]], columns = want.dims[axes[1]], count = DIM_UNKNOWN;
  bool known = !diagonal->offset.present || rule_int(context, &diagonal->offset, &offset);
  if (known && rows != DIM_UNKNOWN && columns != DIM_UNKNOWN)
    count = diagonal_size(rows, columns, offset);
  drop_axis(&want, axes[0] > axes[1] ? axes[0] : axes[1]);
  drop_axis(&want, axes[0] > axes[1] ? axes[1] : axes[0]);
  want.dims[want.rank++] = count;
  return rule_expect_like(context, diagonal->out, "out", &want);
}

bool view_diagonal(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_diagonal *diagonal = op;
  int64_t offset = 0;
  if (diagonal->offset.present && !rule_int(context, &diagonal->offset, &offset)) return false;
  int a = diagonal->axis1 < 0 ? diagonal->axis1 + input->rank : diagonal->axis1,
      b = diagonal->axis2 < 0 ? diagonal->axis2 + input->rank : diagonal->axis2;
  int64_t count = diagonal_size(input->dims[a], input->dims[b], offset);
  int64_t stride = input->strides[a] + input->strides[b];
  tensor tensor = *input;
  if (count > 0)
    tensor.offset += offset > 0 ? offset * input->strides[b] : -offset * input->strides[a];
  drop_axis(&tensor, a > b ? a : b);
  drop_axis(&tensor, a > b ? b : a);
  tensor.dims[tensor.rank] = count;
  tensor.strides[tensor.rank++] = stride;
  *out = tensor;
  return true;
}

/* Fails unless offset + the sum of index * stride is in [0, n) for every index; skips unknown
 * sizes. */
static clave_status check_reach(const rule_context *context, const ir_as_strided *op,
                                const tensor *want, int64_t n) {
  int64_t low = 0, stride = 0, reach;
  if (op->offset.present && !rule_int(context, &op->offset, &low)) return NULL;
  int64_t high = low;
  for (int i = 0; i < want->rank; i++)
    if (want->dims[i] == 0) return NULL;
  for (int i = 0; i < want->rank; i++) {
    if (want->dims[i] == DIM_UNKNOWN || !rule_int(context, &op->strides.items[i], &stride))
      return NULL;
    if (!mul_i64(want->dims[i] - 1, stride, &reach) ||
        !add_i64(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
      return INVALID("strides reach beyond 64 bits");
  }
  if (n == DIM_UNKNOWN || (low >= 0 && high < n)) return NULL;
  return INVALID("elements %lld to %lld of x, which has %lld", (long long)low, (long long)high,
                 (long long)n);
}

clave_status rule_as_strided(const rule_context *context, const void *op) {
  const ir_as_strided *as_strided = op;
  const tensor *x = rule_tensor(context, as_strided->x);
  if (x->rank != 1) return INVALID("x: expected rank 1, got %d", x->rank);
  tensor want = {.type = x->type};
  TRY(rule_shape(context, &as_strided->shape, &want.rank, want.dims));
  if (as_strided->strides.count != as_strided->shape.count)
    return INVALID("strides: expected %u entries, got %u", as_strided->shape.count,
                   as_strided->strides.count);
  TRY(check_reach(context, as_strided, &want, x->dims[0]));
  return rule_expect_like(context, as_strided->out, "out", &want);
}

bool view_as_strided(const rule_context *context, const void *op, const tensor *input,
                     tensor *out) {
  const ir_as_strided *as_strided = op;
  tensor tensor = *rule_tensor(context, as_strided->out);
  int64_t offset = 0, stride;
  if (as_strided->offset.present && !rule_int(context, &as_strided->offset, &offset)) return false;
  bool empty = tensor_numel(&tensor) == 0;
  tensor_set_contiguous(&tensor);
  tensor.offset = input->offset + (empty ? 0 : offset * input->strides[0]);
  for (int i = 0; i < tensor.rank && !empty; i++) {
    if (!rule_int(context, &as_strided->strides.items[i], &stride)) return false;
    if (tensor.dims[i] > 1) tensor.strides[i] = stride * input->strides[0];
  }
  *out = tensor;
  return true;
}

clave_status rule_unfold(const rule_context *context, const void *op) {
  const ir_unfold *unfold = op;
  tensor want = *rule_tensor(context, unfold->x);
  if (want.rank == 0 || want.rank == MAX_RANK)
    return INVALID("x: expected rank 1 to %d, got %d", MAX_RANK - 1, want.rank);
  int axis = 0;
  TRY(rule_axis(unfold->axis, want.rank, &axis));
  int64_t size = DIM_UNKNOWN, step = 1, count = DIM_UNKNOWN;
  bool size_known = rule_int(context, &unfold->size, &size),
       step_known = rule_int(context, &unfold->step, &step);
  if (size_known && size < 0) return INVALID("size: expected 0 or more, got %lld", (long long)size);
  if (step_known && step < 1)
    return INVALID("step: expected at least 1, got %lld", (long long)step);
  if (size_known && want.dims[axis] != DIM_UNKNOWN && size > want.dims[axis])
    return INVALID("size is %lld, axis %d has %lld", (long long)size, axis,
                   (long long)want.dims[axis]);
  if (size_known && step_known && want.dims[axis] != DIM_UNKNOWN)
    count = (want.dims[axis] - size) / step + 1;
  want.dims[axis] = count;
  want.dims[want.rank++] = size_known ? size : DIM_UNKNOWN;
  return rule_expect_like(context, unfold->out, "out", &want);
}

bool view_unfold(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_unfold *unfold = op;
  int64_t size = 0, step = 1;
  if (!rule_int(context, &unfold->size, &size) || !rule_int(context, &unfold->step, &step))
    return false;
  int axis = unfold->axis < 0 ? unfold->axis + input->rank : unfold->axis;
  tensor tensor = *input;
  tensor.dims[axis] = (input->dims[axis] - size) / step + 1;
  if (tensor.dims[axis] > 1)
    tensor.strides[axis] *= step; /* otherwise step may be too large to multiply by */
  tensor.dims[tensor.rank] = size;
  tensor.strides[tensor.rank++] = input->strides[axis];
  *out = tensor;
  return true;
}
