/* Ops that change or read shapes. */
#include <math.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"

/* Replaces a size of -1 by the one that fits input. */
static void infer_size(importer *im, const value *input, number *dims, int rank) {
  number known = number_int(1);
  int open = -1;
  for (int d = 0; d < rank; d++) {
    if (number_is(dims[d], -1)) {
      if (open >= 0) import_invalid(im, "several sizes are -1");
      open = d;
    } else {
      if (!dims[d].id && dims[d].i < 0) import_invalid(im, "size %lld", (long long)dims[d].i);
      known = number_mul(im, known, dims[d]);
    }
  }
  if (open < 0 || !import_ok(im)) return;
  if (number_is(known, 0)) {
    dims[open] = number_int(0);
    return;
  }
  dims[open] = number_floor_div(im, value_numel(im, input), known);
  dims[open].no_sign = true;
}

void tflite_reshape(operation *op) {
  value *x = tflite_required(op, 0);
  number dims[CLAVE_MAX_RANK];
  int rank = 0;
  const flat_vector shape = flat_list(&op->options, 0, 4);
  operand *given = tflite_operand(op, 1);
  if (!x) return;
  if (given && given->dtype == CLAVE_I32) {
    rank = tflite_sizes(op, 1, "shape", dims);
  } else {
    rank = (int)shape.count;
    if (rank > CLAVE_MAX_RANK) import_unsupported(op->im, "rank %d", rank);
    for (int d = 0; d < rank && import_ok(op->im); d++)
      dims[d] = number_int(flat_int_at(&shape, (uint32_t)d));
  }
  if (!import_ok(op->im) || rank < 0) return;
  infer_size(op->im, x, dims, rank);
  tflite_set(op, 0, emit_reshape(op->im, x, rank, dims));
}

void tflite_squeeze(operation *op) {
  value *x = tflite_required(op, 0);
  const flat_vector list = flat_list(&op->options, 0, 4);
  bool drop[CLAVE_MAX_RANK] = {false};
  number dims[CLAVE_MAX_RANK];
  int rank = 0;
  if (!x) return;
  for (uint32_t i = 0; i < list.count && import_ok(op->im); i++)
    drop[emit_axis(op->im, flat_int_at(&list, i), x->rank)] = true;
  for (int d = 0; d < x->rank; d++) {
    if (!list.count && x->dims[d].id)
      import_unsupported(op->im, "dimensions that may be 1, without a list of them");
    if (list.count ? !drop[d] : !number_is(x->dims[d], 1)) dims[rank++] = x->dims[d];
  }
  tflite_set(op, 0, emit_reshape(op->im, x, rank, dims));
}

void tflite_expand_dims(operation *op) {
  value *x = tflite_required(op, 0);
  int64_t axis = 0;
  if (!x || value_constant_ints(op->im, tflite_parameter(op, 1), "axis", &axis, 1) != 1) return;
  axis = emit_axis(op->im, axis, x->rank + 1);
  if (import_ok(op->im)) tflite_set(op, 0, emit_unsqueeze(op->im, x, (int)axis));
}

void tflite_transpose(operation *op) {
  value *x = tflite_required(op, 0);
  int64_t given[CLAVE_MAX_RANK];
  int order[CLAVE_MAX_RANK];
  bool seen[CLAVE_MAX_RANK] = {false};
  if (!x) return;
  const int n = value_constant_ints(op->im, tflite_parameter(op, 1), "perm", given, CLAVE_MAX_RANK);
  if (n != x->rank && import_ok(op->im)) import_invalid(op->im, "perm has %d numbers", n);
  for (int d = 0; d < n && import_ok(op->im); d++) {
    const int axis = emit_axis(op->im, given[d], x->rank);
    if (seen[axis]) import_invalid(op->im, "perm repeats axis %d", axis);
    seen[axis] = true;
    order[d] = tflite_dim(op, axis);
  }
  if (import_ok(op->im)) tflite_set_last(op, 0, tflite_permuted(op->im, x, order));
}

/* ---------------------------------------------------------------- shapes as values */

void tflite_shape(operation *op) {
  operand *in = tflite_operand(op, 0), *out = tflite_result(op, 0);
  value *x = in ? tflite_in_layout(op->im, in, LAST) : NULL;
  if (!x || !out) return;
  const int64_t n = x->rank;
  tflite_set(op, 0, value_numbers(op->im, out->dtype, 1, &n, x->dims));
}

void tflite_rank(operation *op) {
  value *x = tflite_required(op, 0);
  if (x) tflite_set(op, 0, value_of_number(op->im, CLAVE_I32, number_int(x->rank)));
}

void tflite_fill(operation *op) {
  importer *im = op->im;
  number dims[CLAVE_MAX_RANK];
  const int rank = tflite_sizes(op, 0, "dims", dims);
  value *element = tflite_required(op, 1);
  if (!element || !import_ok(im)) return;
  element = emit_reshape(im, element, 0, NULL);
  if (!element) return;
  value *out = value_is_constant(element) && value_known(im, element)
                   ? emit_full(im, element->type, rank, dims, element->elements[0])
                   : emit_expand(im, element, rank, dims);
  tflite_set(op, 0, out);
}

void tflite_broadcast_to(operation *op) {
  number dims[CLAVE_MAX_RANK], want[CLAVE_MAX_RANK];
  value *x = tflite_required(op, 0);
  const int rank = tflite_sizes(op, 1, "shape", dims);
  if (!x || !import_ok(op->im)) return;
  value shape = {.rank = rank};
  for (int d = 0; d < rank; d++) shape.dims[d] = dims[d];
  const int wanted = emit_broadcast(op->im, (value *[]){x, &shape}, 2, want);
  if (wanted != rank) import_invalid(op->im, "%d sizes for a tensor of rank %d", rank, x->rank);
  tflite_set(op, 0, emit_expand(op->im, x, rank, want));
}

void tflite_broadcast_args(operation *op) {
  number dims[CLAVE_MAX_RANK];
  value shapes[2] = {{.rank = 0}, {.rank = 0}};
  const operand *out = tflite_result(op, 0);
  for (int i = 0; i < 2 && import_ok(op->im); i++)
    shapes[i].rank = tflite_sizes(op, i, "shape", shapes[i].dims);
  if (!import_ok(op->im) || !out) return;
  const int64_t n = emit_broadcast(op->im, (value *[]){&shapes[0], &shapes[1]}, 2, dims);
  tflite_set(op, 0, value_numbers(op->im, out->dtype, 1, &n, dims));
}

void tflite_tile(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  number repeats[CLAVE_MAX_RANK], wide[2 * CLAVE_MAX_RANK], dims[CLAVE_MAX_RANK];
  const int n = tflite_sizes(op, 1, "multiples", repeats);
  if (!x || !import_ok(im)) return;
  if (n != x->rank) import_invalid(im, "%d multiples for rank %d", n, x->rank);
  for (int d = 0; d < x->rank && import_ok(im); d++) {
    if (number_is(repeats[d], 1)) continue;
    /* (before, size, after) is repeated as (before, repeats, size, after) */
    for (int k = 0; k < x->rank; k++) {
      wide[k + (k >= d)] = x->dims[k];
      dims[k] = k == d ? number_mul(im, x->dims[k], repeats[d]) : x->dims[k];
    }
    wide[d] = repeats[d];
    x = emit_reshape(im, emit_expand(im, emit_unsqueeze(im, x, d), x->rank + 1, wide), x->rank,
                     dims);
    if (!x) return;
  }
  tflite_set(op, 0, x);
}

void tflite_range(operation *op) {
  importer *im = op->im;
  number ends[3];
  const operand *out = tflite_result(op, 0);
  for (int i = 0; i < 3; i++) ends[i] = value_scalar(im, tflite_parameter(op, i), "a limit");
  if (!out || !import_ok(im)) return;
  number count;
  if (dtype_is_float((dtype)out->dtype)) {
    if (ends[0].id || ends[1].id || ends[2].id || ends[2].f == 0)
      import_unsupported(im, "limits that are computed floats");
    const double steps = ceil((ends[1].f - ends[0].f) / ends[2].f);
    if (!(steps < INT32_MAX)) import_unsupported(im, "a range without an end");
    if (!import_ok(im)) return;
    count = number_int(steps > 0 ? (int64_t)steps : 0);
  } else {
    /* the quotient, rounded up: -floor(-a / b) */
    const number back = number_sub(im, ends[0], ends[1]);
    if (number_is(ends[2], 0)) import_invalid(im, "a step of 0");
    if (!import_ok(im)) return;
    count = number_max(im, number_sub(im, number_int(0), number_floor_div(im, back, ends[2])),
                       number_int(0));
  }
  count.no_sign = true;
  tflite_set(op, 0, emit_arange(im, out->dtype, ends[0], ends[2], count));
}
