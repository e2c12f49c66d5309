/* IndexSelect (embedding), Gather, Index: elements picked by index tensors; RavelIndex: index
 * tensors joined. */
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
    return UNSUPPORTED("masks (%s) as index, expected I32 or I64", dtype_name(t->type));
  return check_index_dtype(c, tid, "index");
}

/* Axes normalised and ascending; *adjacent: they follow each other. */
static clave_status read_axes(const ir_index *o, int rank, int *axes, bool *adjacent) {
  bool marked[MAX_RANK];
  if (o->indices.count == 0) return INVALID("indices is empty");
  if (o->axes.count != o->indices.count)
    return INVALID("axes has %u entries, expected %u", o->axes.count, o->indices.count);
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
    return INVALID("indices has %u entries, expected 1 to %d", o->indices.count, MAX_RANK);
  if (o->sizes.count != o->indices.count)
    return INVALID("sizes has %u entries, expected %u", o->sizes.count, o->indices.count);
  for (uint32_t i = 0; i < o->indices.count; i++) {
    TRY(check_index_dtype(c, o->indices.items[i], "index"));
    TRY(rule_broadcast(rule_tensor(c, o->indices.items[i]), &want.rank, want.dims));
    if (!rule_int(c, &o->sizes.items[i], &size)) continue;
    if (size < 0) return INVALID("size %lld, expected 0 or more", (long long)size);
    if (size > 0 && !mul_i64(n, size, &n)) return INVALID("sizes have too many positions");
  }
  return rule_expect_like(c, o->out, "out", &want);
}
