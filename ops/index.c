/* IndexSelect (embedding), Gather, Index: elements picked by index tensors; RavelIndex: index
 * tensors joined. */
#include "ops/index.h"

#include <string.h>

#include "ops/rule_checks.h"

static clave_status append_dims(tensor *t, int n, const int64_t *dims) {
  if (t->rank + n > MAX_RANK)
    return INVALID("out would have rank %d, at most %d is allowed", t->rank + n, MAX_RANK);
  if (n > 0) memcpy(t->dims + t->rank, dims, (size_t)n * sizeof *dims);
  t->rank += n;
  return NULL;
}

clave_status rule_index_select(const rule_context *c, const void *op) {
  const ir_index_select *o = op;
  const tensor *x = rule_tensor(c, o->x), *index = rule_tensor(c, o->index);
  int axis = 0;
  TRY(check_index_dtype(c, o->index, "index"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  if (x->encoding.kind && (axis != 0 || x->encoding.axis != 1))
    return INVALID("x: expected encoded rows along axis 1, picked along axis 0, got axes %d and %d",
                   x->encoding.axis, axis);
  tensor want = {.type = x->type};
  TRY(append_dims(&want, axis, x->dims));
  TRY(append_dims(&want, index->rank, index->dims));
  TRY(append_dims(&want, x->rank - axis - 1, x->dims + axis + 1));
  return rule_expect_like(c, o->out, "out", &want);
}

clave_status rule_gather(const rule_context *c, const void *op) {
  const ir_gather *o = op;
  const tensor *x = rule_tensor(c, o->x), *index = rule_tensor(c, o->index);
  int axis = 0;
  TRY(check_index_dtype(c, o->index, "index"));
  TRY(rule_axis(o->axis, x->rank, &axis));
  TRY(check_index_fits(x, index, axis));
  return rule_expect(c, o->out, "out", x->type, index->rank, index->dims);
}

static clave_status check_index_tensor(const rule_context *c, uint32_t tid) {
  const tensor *t = rule_tensor(c, tid);
  if (t->type == DTYPE_BOOL || t->type == DTYPE_U8)
    return UNSUPPORTED("index: expected I32 or I64, got a mask (%s)", dtype_name(t->type));
  return check_index_dtype(c, tid, "index");
}

/* Axes normalised and ascending; *adjacent: they follow each other. */
static clave_status read_axes(const ir_index *o, int rank, int *axes, bool *adjacent) {
  bool marked[MAX_RANK];
  if (o->indices.count == 0) return INVALID("indices is empty");
  if (o->axes.count != o->indices.count)
    return INVALID("axes: expected %u entries, got %u", o->indices.count, o->axes.count);
  TRY(check_axes(&o->axes, rank, marked, axes));
  *adjacent = true;
  for (uint32_t i = 1; i < o->axes.count; i++) {
    if (axes[i] < axes[i - 1])
      return INVALID("axes are not ascending: %d after %d", axes[i], axes[i - 1]);
    if (axes[i] != axes[i - 1] + 1) *adjacent = false;
  }
  return NULL;
}

clave_status rule_index(const rule_context *c, const void *op) {
  const ir_index *o = op;
  const tensor *x = rule_tensor(c, o->x);
  int axes[MAX_RANK] = {0};
  bool adjacent = true;
  TRY(read_axes(o, x->rank, axes, &adjacent));
  tensor picked = {.rank = 0}, want = {.type = x->type};
  for (uint32_t i = 0; i < o->indices.count; i++) {
    TRY(check_index_tensor(c, o->indices.items[i]));
    TRY(rule_broadcast(rule_tensor(c, o->indices.items[i]), &picked.rank, picked.dims));
  }
  int first =
      adjacent ? axes[0] : 0; /* the broadcast dimensions stand in front of x's dimension `first` */
  uint32_t next = 0;
  for (int i = 0; i <= x->rank; i++) {
    if (i == first) TRY(append_dims(&want, picked.rank, picked.dims));
    if (i == x->rank) break;
    if (next < o->axes.count && axes[next] == i)
      next++;
    else
      TRY(append_dims(&want, 1, &x->dims[i]));
  }
  return rule_expect_like(c, o->out, "out", &want);
}

clave_status rule_ravel_index(const rule_context *c, const void *op) {
  const ir_ravel_index *o = op;
  tensor want = {.type = DTYPE_I64};
  int64_t n = 1, size;
  if (o->indices.count == 0 || o->indices.count > MAX_RANK)
    return INVALID("indices: expected 1 to %d entries, got %u", MAX_RANK, o->indices.count);
  if (o->sizes.count != o->indices.count)
    return INVALID("sizes: expected %u entries, got %u", o->indices.count, o->sizes.count);
  for (uint32_t i = 0; i < o->indices.count; i++) {
    TRY(check_index_dtype(c, o->indices.items[i], "index"));
    TRY(rule_broadcast(rule_tensor(c, o->indices.items[i]), &want.rank, want.dims));
    if (!rule_int(c, &o->sizes.items[i], &size)) continue;
    if (size < 0) return INVALID("sizes: expected 0 or more, got %lld", (long long)size);
    if (size > 0 && !mul_i64(n, size, &n)) return INVALID("sizes have too many positions");
  }
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

/* Broadcasts `shape` to t's dims, which the rules have compared. */
static void widen(tensor *shape, const tensor *t) {
  int grow = t->rank > shape->rank ? t->rank - shape->rank : 0;
  for (int d = shape->rank - 1; d >= 0; d--) shape->dims[d + grow] = shape->dims[d];
  for (int d = 0; d < grow; d++) shape->dims[d] = 1;
  shape->rank += grow;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] != 1) shape->dims[shape->rank - t->rank + d] = t->dims[d];
}

/* The index tensors, of one shape. */
static void set_indices(const node *n, const ir_u32s *indices, pick_form *f) {
  tensor shape = {.rank = 0};
  f->n = (int)indices->count;
  for (int k = 0; k < f->n; k++) {
    f->indices[k] = &n->tensors[indices->items[k]];
    widen(&shape, &f->indices[k]->t);
  }
  for (int k = 0; k < f->n; k++) f->index[k] = broadcast_operand(f->indices[k], &shape).t;
  tensors_collapse(f->index, f->n);
  f->n_picks = tensor_numel(&f->index[0]);
}

/* x without the axes whose bits are set; its first n_front dimensions stand in front. */
static void set_rest(pick_form *f, unsigned axes, int n_front) {
  tensor rest = {.type = f->x->t.type};
  for (int d = 0; d < f->x->t.rank; d++) {
    if (axes >> d & 1) continue;
    rest.dims[rest.rank] = f->x->t.dims[d];
    rest.strides[rest.rank++] = f->x->t.strides[d];
  }
  f->front = take_dims(&rest, 0, n_front);
  f->back = take_dims(&rest, n_front, rest.rank);
  tensors_collapse(&f->front, 1);
  tensors_collapse(&f->back, 1);
}

static void set_axis(pick_form *f, int k, int axis) {
  f->sizes[k] = f->x->t.dims[axis];
  f->steps[k] = f->x->t.strides[axis];
}

void describe_index_select(const node *n, pick_form *f) {
  const ir_index_select *op = n->instruction->op;
  *f = (pick_form){.x = &n->tensors[op->x], .out = &n->tensors[op->out]};
  int axis = axis_of(op->axis, f->x->t.rank);
  uint32_t index = op->index;
  set_indices(n, &(ir_u32s){.items = &index, .count = 1}, f);
  set_axis(f, 0, axis);
  set_rest(f, 1u << axis, axis);
}

void describe_index(const node *n, pick_form *f) {
  const ir_index *op = n->instruction->op;
  *f = (pick_form){.x = &n->tensors[op->x], .out = &n->tensors[op->out], .wrap = true};
  set_indices(n, &op->indices, f);
  int rank = f->x->t.rank, first = axis_of(op->axes.items[0], rank),
      last = axis_of(op->axes.items[f->n - 1], rank);
  unsigned axes = 0;
  for (int k = 0; k < f->n; k++) {
    int axis = axis_of(op->axes.items[k], rank);
    axes |= 1u << axis;
    set_axis(f, k, axis);
  }
  /* Axes ascend: those of adjacent ones stay where they were, else they stand in front. */
  set_rest(f, axes, last - first + 1 == f->n ? first : 0);
}

void describe_ravel_index(const node *n, pick_form *f) {
  const ir_ravel_index *op = n->instruction->op;
  *f = (pick_form){.out = &n->tensors[op->out], .wrap = true};
  set_indices(n, &op->indices, f);
  int64_t step = 1;
  for (int k = f->n - 1; k >= 0; k--) {
    f->sizes[k] = int_of(n, &op->sizes.items[k]);
    f->steps[k] = step;
    if (f->sizes[k] > 1) step *= f->sizes[k];
  }
}

void describe_gather(const node *n, gather_form *f) {
  const ir_gather *op = n->instruction->op;
  *f = (gather_form){
      .x = &n->tensors[op->x], .index = &n->tensors[op->index], .out = &n->tensors[op->out]};
  int rank = f->x->t.rank, axis = axis_of(op->axis, rank);
  tensor both[2] = {f->x->t, f->index->t};
  f->size = both[0].dims[axis];
  f->step = both[0].strides[axis];
  both[0].strides[axis] = 0;
  for (int d = 0; d < rank; d++) both[0].dims[d] = both[1].dims[d];
  tensors_collapse(both, 2);
  f->x_places = both[0];
  f->index_places = both[1];
  f->n = tensor_numel(&both[1]);
}
