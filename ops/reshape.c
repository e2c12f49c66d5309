/* Reshape, Permute, Expand: the same elements with another shape. */
#include <string.h>

#include "ops/rule_checks.h"

/* Stores the number of elements: DIM_UNKNOWN if a dimension is unknown, unless another one is 0. */
static clave_status reshape_count_elements(const char *what, int rank, const int64_t *dims,
                                           int64_t *out) {
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

clave_status rule_reshape(const rule_context *context, const void *op) {
  const ir_reshape *reshape = op;
  const tensor *x = rule_tensor(context, reshape->x);
  tensor want = {.type = x->type};
  TRY(rule_shape(context, &reshape->shape, &want.rank, want.dims));
  int64_t before, after;
  TRY(reshape_count_elements("x", x->rank, x->dims, &before));
  TRY(reshape_count_elements("shape", want.rank, want.dims, &after));
  if (!dim_matches(before, after)) {
    char from[SHAPE_TEXT], to[SHAPE_TEXT];
    return INVALID("shape %s of %lld elements does not fit x %s of %lld",
                   tensor_shape_text(&want, to, SHAPE_TEXT), (long long)after,
                   tensor_shape_text(x, from, SHAPE_TEXT), (long long)before);
  }
  return rule_expect_like(context, reshape->out, "out", &want);
}

/* Merges input's dimensions as far as its strides allow, then splits the merged dimensions into the
 * new ones, from the last to the first. There is no view if a new dimension spans two merged ones,
 * because it has no single stride. */
bool view_reshape(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_reshape *reshape = op;
  tensor merged = *input, tensor = *rule_tensor(context, reshape->out);
  tensor_set_contiguous(&tensor);
  tensor.offset = input->offset;
  *out = tensor;
  if (tensor_numel(input) == 0) return true;
  tensors_collapse(&merged, 1);
  int from = merged.rank - 1;
  int64_t taken = 1; /* elements of merged dimension `from` that the new dimensions cover so far */
  for (int i = tensor.rank - 1; i >= 0; i--) {
    if (tensor.dims[i] == 1) continue;
    if (from >= 0 && taken == merged.dims[from]) {
      from--;
      taken = 1;
    }
    if (from < 0 || merged.dims[from] % (taken * tensor.dims[i]) != 0) return false;
    tensor.strides[i] = merged.strides[from] * taken;
    taken *= tensor.dims[i];
  }
  *out = tensor;
  return true;
}

clave_status rule_permute(const rule_context *context, const void *op) {
  const ir_permute *permute = op;
  const tensor *x = rule_tensor(context, permute->x);
  bool marked[MAX_RANK];
  int order[MAX_RANK];
  if (permute->dims.count != (uint32_t)x->rank)
    return INVALID("dims: expected %d entries, got %u", x->rank, permute->dims.count);
  TRY(check_axes(&permute->dims, x->rank, marked, order));
  tensor want = {.type = x->type, .rank = x->rank};
  for (int i = 0; i < x->rank; i++) want.dims[i] = x->dims[order[i]];
  return rule_expect_like(context, permute->out, "out", &want);
}

bool view_permute(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_permute *permute = op;
  (void)context;
  tensor tensor = *input;
  for (int i = 0; i < input->rank; i++) {
    int from =
        permute->dims.items[i] < 0 ? permute->dims.items[i] + input->rank : permute->dims.items[i];
    tensor.dims[i] = input->dims[from];
    tensor.strides[i] = input->strides[from];
  }
  *out = tensor;
  return true;
}

clave_status rule_expand(const rule_context *context, const void *op) {
  const ir_expand *expand = op;
  const tensor *x = rule_tensor(context, expand->x);
  tensor want = {.type = x->type};
  TRY(rule_shape(context, &expand->shape, &want.rank, want.dims));
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
  return rule_expect_like(context, expand->out, "out", &want);
}

bool view_expand(const rule_context *context, const void *op, const tensor *input, tensor *out) {
  const ir_expand *expand = op;
  const tensor *want = rule_tensor(context, expand->out);
  tensor_broadcast(input, want->rank, want->dims, out);
  return true;
}
