/* Views: Reshape, Transpose, Squeeze, Unsqueeze, Flatten, Expand. */
#include "import/emit_index.h"
#include "import/onnx/converters.h"

/* The elements of input divided by the product of the sizes that are not -1. Sizes that both have
 * are left out, so that batch * n elements divided by batch are n. */
static number quotient(importer *im, const value *input, const number *dims, int rank) {
  number numerator = number_int(1), denominator = number_int(1);
  bool taken[CLAVE_MAX_RANK] = {false};
  for (int i = 0; i < rank; i++) {
    bool found = false;
    if (!dims[i].id && dims[i].i < 0) continue;
    for (int d = 0; d < input->rank && dims[i].id && !found; d++) {
      found = !taken[d] && input->dims[d].id == dims[i].id;
      taken[d] = taken[d] || found;
    }
    if (!found) denominator = number_mul(im, denominator, dims[i]);
  }
  for (int d = 0; d < input->rank; d++)
    if (!taken[d]) numerator = number_mul(im, numerator, input->dims[d]);
  return number_is(denominator, 0) ? number_int(0) : number_floor_div(im, numerator, denominator);
}

/* Replaces sizes that are computed from tensors, and so may be -1 at run time. product: of all
 * sizes. */
static void resolve_computed(importer *im, const value *input, number product, int rank,
                             number *dims) {
  const number zero = number_int(0), before = value_numel(im, input);
  for (int i = 0; i < rank; i++) {
    if (!dims[i].id || dims[i].no_sign) continue;
    const number open = number_compute(im, NUMBER_LT, dims[i], zero);
    const number others = number_max(im, number_sub(im, zero, product), number_int(1));
    dims[i] = number_where(im, open, number_floor_div(im, before, others), dims[i]);
    dims[i].no_sign = true;
  }
}

/* Replaces 0 by the size of input and -1 by what is left. */
static void resolve_sizes(importer *im, const value *input, int rank, bool allow_zero,
                          number *dims) {
  number product = number_int(1);
  int open = -1;
  for (int i = 0; i < rank; i++) {
    if (!allow_zero && i < input->rank && !(dims[i].no_sign && dims[i].id)) {
      const number zero = number_compute(im, NUMBER_EQ, dims[i], number_int(0));
      const bool no_sign = dims[i].no_sign;
      dims[i] = number_where(im, zero, input->dims[i], dims[i]);
      dims[i].no_sign = dims[i].id ? no_sign : dims[i].no_sign;
    }
    if (!dims[i].id && dims[i].i < 0) {
      if (open >= 0 || dims[i].i < -1) import_invalid(im, "the shape has two open sizes");
      open = i;
    }
    product = number_mul(im, product, dims[i]);
  }
  if (open >= 0) {
    dims[open] = quotient(im, input, dims, rank);
    dims[open].no_sign = true;
  } else {
    resolve_computed(im, input, product, rank, dims);
  }
}

void onnx_reshape(node *node) {
  value *x = node_required(node, 0), *shape = node_required(node, 1);
  number dims[CLAVE_MAX_RANK];
  const bool allow_zero = node_int(node, "allowzero", 0);
  const int rank = onnx_sizes(node, shape, "shape", dims);
  if (rank < 0 || !x) return;
  resolve_sizes(node->im, x, rank, allow_zero, dims);
  node_set(node, 0, emit_reshape(node->im, x, rank, dims));
}

void onnx_transpose(node *node) {
  value *x = node_required(node, 0);
  int64_t perm[CLAVE_MAX_RANK];
  int order[CLAVE_MAX_RANK];
  bool seen[CLAVE_MAX_RANK] = {false};
  const int n = node_ints(node, "perm", perm, CLAVE_MAX_RANK);
  if (!x) return;
  if (n >= 0 && n != x->rank) import_invalid(node->im, "perm has %d axes, rank %d", n, x->rank);
  for (int d = 0; d < x->rank; d++) {
    order[d] = n < 0 ? x->rank - 1 - d : emit_axis(node->im, perm[d], x->rank);
    if (!import_ok(node->im)) return;
    if (seen[order[d]]) import_invalid(node->im, "perm has axis %d twice", order[d]);
    seen[order[d]] = true;
  }
  node_set(node, 0, emit_permute(node->im, x, order));
}

/* Sets dims to the sizes of the input without those of the axes, which are known only during the
 * run. */
static void reshape_sizes_without(importer *im, const value *input, const number *axes, int n,
                                  number *dims) {
  number at = number_int(0);
  for (int k = 0; k < input->rank - n; k++) dims[k] = number_int(1);
  for (int d = 0; d < input->rank; d++) {
    number removed = number_bool(false);
    for (int i = 0; i < n; i++) {
      const number is = number_compute(im, NUMBER_EQ, axes[i], number_int(d));
      removed = number_compute(im, NUMBER_OR, removed, is);
    }
    for (int k = 0; k < input->rank - n && k <= d; k++) {
      const number here =
          number_compute(im, NUMBER_AND, number_compute(im, NUMBER_NOT, removed, at),
                         number_compute(im, NUMBER_EQ, at, number_int(k)));
      dims[k] = number_where(im, here, input->dims[d], dims[k]);
    }
    at = number_add(im, at, number_sub(im, number_int(1), number_to_int(im, removed)));
  }
}

/* Reads axes from an attribute or, from version 13 on, from input 1. -1: there are none. */
static int reshape_axes(node *node, int rank, number *axes) {
  int64_t ints[CLAVE_MAX_RANK];
  if (node->version >= 13) return onnx_axes_numbers(node, node_input(node, 1), rank, axes);
  const int n = node_ints(node, "axes", ints, CLAVE_MAX_RANK);
  for (int i = 0; i < n; i++) axes[i] = number_int(ints[i]);
  return n >= 0 && onnx_resolve_axes(node, rank, axes, n) ? n : -1;
}

void onnx_squeeze(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  number axes[CLAVE_MAX_RANK], dims[CLAVE_MAX_RANK];
  if (!x) return;
  int n = reshape_axes(node, x->rank, axes);
  if (!import_ok(im)) return;
  if (n < 0) {
    n = 0;
    for (int d = 0; d < x->rank; d++) {
      if (x->dims[d].id) import_unsupported(im, "no axes, and dimension %d may be 1 or not", d);
      if (number_is(x->dims[d], 1)) axes[n++] = number_int(d);
    }
  }
  for (int i = 0; i < n; i++) {
    const number size = axes[i].id ? number_int(1) : x->dims[axes[i].i];
    if (!size.id && size.i != 1)
      import_invalid(im, "a dimension of size %lld is squeezed", (long long)size.i);
  }
  reshape_sizes_without(im, x, axes, n, dims);
  node_set(node, 0, emit_reshape(im, x, x->rank - n, dims));
}

void onnx_unsqueeze(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  number axes[CLAVE_MAX_RANK], dims[CLAVE_MAX_RANK], ones[CLAVE_MAX_RANK];
  int64_t ints[CLAVE_MAX_RANK];
  if (!x) return;
  value *input = node->version >= 13 ? node_required(node, 1) : NULL;
  const int64_t n = input ? value_count(input) : node_ints(node, "axes", ints, CLAVE_MAX_RANK);
  if (n < 0 || x->rank + n > CLAVE_MAX_RANK) {
    import_unsupported(im,
                       n < 0 ? "an unknown number of axes" : "a tensor of more than 8 dimensions");
    return;
  }
  const int rank = x->rank + (int)n;
  if (reshape_axes(node, rank, axes) < 0) return;
  number at = number_int(0); /* the dimension of x that is next */
  for (int i = 0; i < n; i++) ones[i] = number_int(0);
  for (int d = 0; d < rank; d++) {
    const number kept = emit_number_at(im, axes, ones, (int)n, d, number_int(1));
    dims[d] = number_int(1);
    for (int k = 0; k < x->rank; k++) {
      const number here = number_compute(im, NUMBER_EQ, at, number_int(k));
      const number is = number_mul(im, number_to_int(im, here), kept);
      dims[d] = number_where(im, number_to_bool(im, is), x->dims[k], dims[d]);
    }
    at = number_add(im, at, kept);
  }
  node_set(node, 0, emit_reshape(im, x, rank, dims));
}

void onnx_flatten(node *node) {
  value *x = node_required(node, 0);
  const int64_t axis = node_int(node, "axis", 1);
  if (!x) return;
  const int at = axis == x->rank ? x->rank : emit_axis(node->im, axis, x->rank);
  node_set(node, 0, emit_flatten(node->im, x, at));
}

/* Broadcasts x and the shape to each other: a size of 1 in the shape keeps x's. */
void onnx_expand(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *shape = node_required(node, 1);
  number dims[CLAVE_MAX_RANK];
  const int rank = onnx_sizes(node, shape, "shape", dims);
  value *like = rank >= 0 && x ? value_new(im, x->type, rank, dims) : NULL;
  if (!like) return;
  const int out_rank = emit_broadcast(im, (value *[]){x, like}, 2, dims);
  node_set(node, 0, emit_expand(im, x, out_rank, dims));
}
