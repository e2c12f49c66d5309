/* Slice, Select, Flip: a part of a tensor, or a tensor walked backwards, through strides and
 * offset. */
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
    return INVALID("step is %lld, expected at least 1", (long long)n.step);
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
