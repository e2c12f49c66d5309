/* Slice, Select, Flip, Diagonal, AsStrided, Unfold: a part of a tensor, or a tensor walked in
 * another way, through strides and offset. */
#include "ops/rule_checks.h"

/* A Slice with its defaults; false for a number that is not known yet. */
typedef struct slice_numbers {
  int64_t start, stop, step;
  bool start_known, stop_known, step_known;
} slice_numbers;

static slice_numbers read_slice(const rule_context *c, const ir_slice *o) {
  slice_numbers n = {.step = 1};
  n.start_known = !o->start.present || rule_int(c, &o->start, &n.start);
  n.stop_known = !o->stop.present || rule_int(c, &o->stop, &n.stop);
  n.step_known = !o->step.present || rule_int(c, &o->step, &n.step);
  return n;
}

/* Elements first, first + step, ... below last. */
static int64_t count_steps(int64_t first, int64_t last, int64_t step) {
  return first == last ? 0 : (last - first - 1) / step + 1;
}

clave_status rule_slice(const rule_context *c, const void *op) {
  const ir_slice *o = op;
  tensor want = *rule_tensor(c, o->x);
  int axis = 0;
  TRY(rule_axis(o->axis, want.rank, &axis));
  slice_numbers n = read_slice(c, o);
  if (n.step_known && n.step < 1)
    return INVALID("step: expected at least 1, got %lld", (long long)n.step);
  int64_t size = want.dims[axis];
  want.dims[axis] = DIM_UNKNOWN;
  if (size != DIM_UNKNOWN && n.start_known && n.stop_known && n.step_known) {
    int64_t first, last;
    slice_bounds(size, n.start, o->stop.present, n.stop, &first, &last);
    want.dims[axis] = count_steps(first, last, n.step);
  }
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_slice(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_slice *o = op;
  slice_numbers n = read_slice(c, o);
  int axis = o->axis < 0 ? o->axis + x->rank : o->axis;
  int64_t first, last;
  slice_bounds(x->dims[axis], n.start, o->stop.present, n.stop, &first, &last);
  int64_t count = count_steps(first, last, n.step);
  tensor t = *x;
  t.dims[axis] = count;
  if (count > 0) t.offset += first * t.strides[axis];
  if (count > 1) t.strides[axis] *= n.step; /* else step may be too large to multiply with */
  *out = t;
  return true;
}

static int64_t diagonal_size(int64_t rows, int64_t columns, int64_t offset) {
  int64_t right = offset > 0 ? offset : 0, down = offset < 0 ? offset : 0;
  if (right >= columns || down <= -rows) return 0;
  rows += down;
  columns -= right;
  return rows < columns ? rows : columns;
}

static void drop_axis(tensor *t, int axis) {
  t->rank--;
  for (int i = axis; i < t->rank; i++) {
    t->dims[i] = t->dims[i + 1];
    t->strides[i] = t->strides[i + 1];
  }
}

clave_status rule_select(const rule_context *c, const void *op) {
  const ir_select *o = op;
  tensor want = *rule_tensor(c, o->x);
  int axis = 0;
  int64_t index, size;
  TRY(rule_axis(o->axis, want.rank, &axis));
  size = want.dims[axis];
  if (size != DIM_UNKNOWN && rule_int(c, &o->index, &index) && (index < -size || index >= size)) {
    return INVALID("index %lld out of range for axis %d of size %lld", (long long)index, axis,
                   (long long)size);
  }
  drop_axis(&want, axis);
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_select(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_select *o = op;
  int axis = o->axis < 0 ? o->axis + x->rank : o->axis;
  int64_t index = 0;
  if (!rule_int(c, &o->index, &index)) return false;
  tensor t = *x;
  t.offset += (index < 0 ? index + x->dims[axis] : index) * x->strides[axis];
  drop_axis(&t, axis);
  *out = t;
  return true;
}

clave_status rule_flip(const rule_context *c, const void *op) {
  const ir_flip *o = op;
  const tensor *x = rule_tensor(c, o->x);
  bool marked[MAX_RANK];
  TRY(check_axes(&o->axes, x->rank, marked, NULL));
  return rule_expect_like(c, o->out, "out", x);
}

bool view_flip(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_flip *o = op;
  (void)c;
  tensor t = *x;
  for (uint32_t i = 0; i < o->axes.count; i++) {
    int axis = o->axes.items[i] < 0 ? o->axes.items[i] + x->rank : o->axes.items[i];
    if (t.dims[axis] > 0) t.offset += (t.dims[axis] - 1) * t.strides[axis];
    t.strides[axis] = -t.strides[axis];
  }
  *out = t;
  return true;
}

clave_status rule_diagonal(const rule_context *c, const void *op) {
  const ir_diagonal *o = op;
  tensor want = *rule_tensor(c, o->x);
  int64_t offset = 0;
  int axes[2];
  TRY(rule_axis(o->axis1, want.rank, &axes[0]));
  TRY(rule_axis(o->axis2, want.rank, &axes[1]));
  if (axes[0] == axes[1]) return INVALID("axis1 and axis2 are both %d", axes[0]);
  int64_t rows = want.dims[axes[0]], columns = want.dims[axes[1]], count = DIM_UNKNOWN;
  bool known = !o->offset.present || rule_int(c, &o->offset, &offset);
  if (known && rows != DIM_UNKNOWN && columns != DIM_UNKNOWN)
    count = diagonal_size(rows, columns, offset);
  drop_axis(&want, axes[0] > axes[1] ? axes[0] : axes[1]);
  drop_axis(&want, axes[0] > axes[1] ? axes[1] : axes[0]);
  want.dims[want.rank++] = count;
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_diagonal(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_diagonal *o = op;
  int64_t offset = 0;
  if (o->offset.present && !rule_int(c, &o->offset, &offset)) return false;
  int a = o->axis1 < 0 ? o->axis1 + x->rank : o->axis1,
      b = o->axis2 < 0 ? o->axis2 + x->rank : o->axis2;
  int64_t count = diagonal_size(x->dims[a], x->dims[b], offset);
  int64_t stride = x->strides[a] + x->strides[b];
  tensor t = *x;
  if (count > 0) t.offset += offset > 0 ? offset * x->strides[b] : -offset * x->strides[a];
  drop_axis(&t, a > b ? a : b);
  drop_axis(&t, a > b ? b : a);
  t.dims[t.rank] = count;
  t.strides[t.rank++] = stride;
  *out = t;
  return true;
}

/* Element offset + sum of index * stride of every position lies in [0, n); unknown sizes pass. */
static clave_status check_reach(const rule_context *c, const ir_as_strided *o, const tensor *want,
                                int64_t n) {
  int64_t low = 0, stride = 0, reach;
  if (o->offset.present && !rule_int(c, &o->offset, &low)) return NULL;
  int64_t high = low;
  for (int i = 0; i < want->rank; i++)
    if (want->dims[i] == 0) return NULL;
  for (int i = 0; i < want->rank; i++) {
    if (want->dims[i] == DIM_UNKNOWN || !rule_int(c, &o->strides.items[i], &stride)) return NULL;
    if (!mul_i64(want->dims[i] - 1, stride, &reach) ||
        !add_i64(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
      return INVALID("strides reach beyond 64 bits");
  }
  if (n == DIM_UNKNOWN || (low >= 0 && high < n)) return NULL;
  return INVALID("elements %lld to %lld of x, which has %lld", (long long)low, (long long)high,
                 (long long)n);
}

clave_status rule_as_strided(const rule_context *c, const void *op) {
  const ir_as_strided *o = op;
  const tensor *x = rule_tensor(c, o->x);
  if (x->rank != 1) return INVALID("x: expected rank 1, got %d", x->rank);
  tensor want = {.type = x->type};
  TRY(rule_shape(c, &o->shape, &want.rank, want.dims));
  if (o->strides.count != o->shape.count)
    return INVALID("strides: expected %u entries, got %u", o->shape.count, o->strides.count);
  TRY(check_reach(c, o, &want, x->dims[0]));
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_as_strided(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_as_strided *o = op;
  tensor t = *rule_tensor(c, o->out);
  int64_t offset = 0, stride;
  if (o->offset.present && !rule_int(c, &o->offset, &offset)) return false;
  bool empty = tensor_numel(&t) == 0;
  tensor_set_contiguous(&t);
  t.offset = x->offset + (empty ? 0 : offset * x->strides[0]);
  for (int i = 0; i < t.rank && !empty; i++) {
    if (!rule_int(c, &o->strides.items[i], &stride)) return false;
    if (t.dims[i] > 1) t.strides[i] = stride * x->strides[0];
  }
  *out = t;
  return true;
}

clave_status rule_unfold(const rule_context *c, const void *op) {
  const ir_unfold *o = op;
  tensor want = *rule_tensor(c, o->x);
  if (want.rank == 0 || want.rank == MAX_RANK)
    return INVALID("x: expected rank 1 to %d, got %d", MAX_RANK - 1, want.rank);
  int axis = 0;
  TRY(rule_axis(o->axis, want.rank, &axis));
  int64_t size = DIM_UNKNOWN, step = 1, count = DIM_UNKNOWN;
  bool size_known = rule_int(c, &o->size, &size), step_known = rule_int(c, &o->step, &step);
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
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_unfold(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_unfold *o = op;
  int64_t size = 0, step = 1;
  if (!rule_int(c, &o->size, &size) || !rule_int(c, &o->step, &step)) return false;
  int axis = o->axis < 0 ? o->axis + x->rank : o->axis;
  tensor t = *x;
  t.dims[axis] = (x->dims[axis] - size) / step + 1;
  if (t.dims[axis] > 1) t.strides[axis] *= step; /* else step may be too large to multiply with */
  t.dims[t.rank] = size;
  t.strides[t.rank++] = x->strides[axis];
  *out = t;
  return true;
}
