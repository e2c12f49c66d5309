/* Reshape, Permute, Expand: another shape over the same elements. */
#include <string.h>

#include "ops/rule_checks.h"

/* The element count if every dimension is known, else DIM_UNKNOWN; a known 0 makes it 0. */
static clave_status count_elements(const char *what, int rank, const int64_t *dims, int64_t *out) {
  bool unknown = false, empty = false;
  int64_t n = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] == 0)
      empty = true;
    else if (dims[i] == DIM_UNKNOWN)
      unknown = true;
    else if (!mul_i64(n, dims[i], &n))
      return INVALID("%s has too many elements", what);
  }
  *out = empty ? 0 : unknown ? DIM_UNKNOWN : n;
  return NULL;
}

clave_status rule_reshape(const rule_context *c, const void *op) {
  const ir_reshape *o = op;
  const tensor *x = rule_tensor(c, o->x);
  tensor want = {.type = x->type};
  TRY(rule_shape(c, &o->shape, &want.rank, want.dims));
  int64_t before, after;
  TRY(count_elements("x", x->rank, x->dims, &before));
  TRY(count_elements("shape", want.rank, want.dims, &after));
  if (!dim_matches(before, after)) {
    char from[SHAPE_TEXT], to[SHAPE_TEXT];
    return INVALID("shape %s of %lld elements does not fit x %s of %lld",
                   tensor_shape_text(&want, to, SHAPE_TEXT), (long long)after,
                   tensor_shape_text(x, from, SHAPE_TEXT), (long long)before);
  }
  return rule_expect_like(c, o->out, "out", &want);
}

/* Splits x's dimensions, merged as far as its strides allow, into the new ones, from the last to
 * the first. A new dimension that would cross from one merged dimension into the next has no single
 * stride. */
bool view_reshape(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_reshape *o = op;
  tensor merged = *x, t = *rule_tensor(c, o->out);
  tensor_set_contiguous(&t);
  t.offset = x->offset;
  *out = t;
  if (tensor_numel(x) == 0) return true;
  tensors_collapse(&merged, 1);
  int from = merged.rank - 1;
  int64_t taken = 1; /* elements of merged dimension `from` that the new ones cover so far */
  for (int i = t.rank - 1; i >= 0; i--) {
    if (t.dims[i] == 1) continue;
    if (from >= 0 && taken == merged.dims[from]) {
      from--;
      taken = 1;
    }
    if (from < 0 || merged.dims[from] % (taken * t.dims[i]) != 0) return false;
    t.strides[i] = merged.strides[from] * taken;
    taken *= t.dims[i];
  }
  *out = t;
  return true;
}

clave_status rule_permute(const rule_context *c, const void *op) {
  const ir_permute *o = op;
  const tensor *x = rule_tensor(c, o->x);
  bool marked[MAX_RANK];
  int order[MAX_RANK];
  if (o->dims.count != (uint32_t)x->rank)
    return INVALID("dims: expected %d entries, got %u", x->rank, o->dims.count);
  TRY(check_axes(&o->dims, x->rank, marked, order));
  tensor want = {.type = x->type, .rank = x->rank};
  for (int i = 0; i < x->rank; i++) want.dims[i] = x->dims[order[i]];
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_permute(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_permute *o = op;
  (void)c;
  tensor t = *x;
  for (int i = 0; i < x->rank; i++) {
    int from = o->dims.items[i] < 0 ? o->dims.items[i] + x->rank : o->dims.items[i];
    t.dims[i] = x->dims[from];
    t.strides[i] = x->strides[from];
  }
  *out = t;
  return true;
}

clave_status rule_expand(const rule_context *c, const void *op) {
  const ir_expand *o = op;
  const tensor *x = rule_tensor(c, o->x);
  tensor want = {.type = x->type};
  TRY(rule_shape(c, &o->shape, &want.rank, want.dims));
  int lead = want.rank - x->rank;
  if (lead < 0)
    return INVALID("shape: expected at least x's %d dimensions, got %d", x->rank, want.rank);
  for (int i = 0; i < x->rank; i++) {
    int64_t *to = &want.dims[lead + i];
    if (x->dims[i] == 1) continue;
    if (!dim_matches(x->dims[i], *to)) {
      return INVALID("dimension %d of size %lld does not expand to %lld", i, (long long)x->dims[i],
                     (long long)*to);
    }
    *to = dim_known(*to, x->dims[i]);
  }
  return rule_expect_like(c, o->out, "out", &want);
}

bool view_expand(const rule_context *c, const void *op, const tensor *x, tensor *out) {
  const ir_expand *o = op;
  const tensor *want = rule_tensor(c, o->out);
  tensor_broadcast(x, want->rank, want->dims, out);
  return true;
}
