/* CumSum and CumProd. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

typedef struct cumulation {
  const char *kind;
  bool exclusive, reverse;
} cumulation;

/* Puts the result of no elements before the others, and drops the last one. */
static value *shift_by_one(importer *im, const cumulation *cumulation, value *input, int axis) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  if (!input) return NULL;
  for (int d = 0; d < input->rank; d++) {
    before[d] = number_int(d == axis);
    after[d] = number_int(0);
  }
  const double fill = strcmp(cumulation->kind, "prod") == 0;
  value *longer = emit_pad(im, input, before, after, "constant", fill);
  return emit_slice(im, longer, axis, number_int(0), input->dims[axis]);
}

static value *cumulate_along(importer *im, const cumulation *cumulation, value *input, int axis) {
  if (cumulation->reverse) input = emit_flip(im, input, axis);
  if (cumulation->exclusive) input = shift_by_one(im, cumulation, input, axis);
  value *out = emit_cumulate(im, cumulation->kind, input, axis);
  return cumulation->reverse ? emit_flip(im, out, axis) : out;
}

/* Computes the results along all axes, and selects that of the axis that is known at run time. */
static value *cumulate_along_any(importer *im, const cumulation *cumulation, value *input,
                                 value *axis) {
  const number given = value_scalar(im, axis, "axis");
  emit_check(im, NUMBER_GE, given, number_int(-input->rank), "the axis is out of range");
  emit_check(im, NUMBER_LT, given, number_int(input->rank), "the axis is out of range");
  value *which = emit_reshape(im, axis, 0, NULL), *out = NULL;
  if (!which) return NULL;
  which = emit_wrap_index(im, emit_cast(im, which, CLAVE_I64), number_int(input->rank));
  for (int d = 0; d < input->rank; d++) {
    value *next = cumulate_along(im, cumulation, input, d);
    out = d ? emit_where(im, emit_binary_float(im, "eq", which, d), next, out) : next;
  }
  return out;
}

void onnx_cumulate(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *axis = node_required(node, 1);
  const cumulation cumulation = {.kind = node->kind,
                                 .exclusive = node_int(node, "exclusive", 0),
                                 .reverse = node_int(node, "reverse", 0)};
  int64_t constant;
  if (!x || !axis) return;
  const int64_t n_axes = value_count(axis);
  if ((n_axes != 1 && n_axes >= 0) || x->rank == 0) {
    import_invalid(im, "expected one axis and an input of at least rank 1");
    return;
  }
  const bool narrow = x->type == CLAVE_F16 || x->type == CLAVE_BF16;
  value *wide = narrow ? emit_cast(im, x, CLAVE_F32) : emit_computable(im, x), *out;
  if (value_is_constant(axis)) {
    (void)value_constant_ints(im, axis, "axis", &constant, 1);
    out = cumulate_along(im, &cumulation, wide, emit_axis(im, constant, x->rank));
  } else {
    out = cumulate_along_any(im, &cumulation, wide, axis);
  }
  node_set(node, 0, emit_cast(im, out, x->type));
}
