/* Ops on shapes, and ops that make constants and ranges. */
#include "base/dtype.h"
#include "import/onnx/converters.h"

void onnx_identity(node *node) { node_set(node, 0, node_required(node, 0)); }

/* For inference: the result is the input, and the mask is all true. */
void onnx_dropout(node *node) {
  value *x = node_required(node, 0);
  (void)node_float(node, "ratio", 0.5);
  (void)node_int(node, "seed", 0);
  if (!x) return;
  value *training = node_input(node, 2);
  if (training) {
    const number is = value_scalar(node->im, training, "training_mode");
    if (is.id || is.i) import_unsupported(node->im, "training_mode");
  }
  node_set(node, 0, x);
  if (node_has_output(node, 1))
    node_set(node, 1,
             emit_full(node->im, node->version >= 10 ? CLAVE_BOOL : x->type, x->rank, x->dims,
                       number_int(1)));
}

/* The sizes of dims [start, end) */
void onnx_shape(node *node) {
  value *x = node_required(node, 0);
  const int64_t rank = x ? x->rank : 0;
  int64_t start = node_int(node, "start", 0), end = node_int(node, "end", rank);
  start = start < 0 ? start + rank : start;
  end = end < 0 ? end + rank : end;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < start ? start : end > rank ? rank : end;
  const int64_t n = end - start;
  if (x) node_set(node, 0, value_numbers(node->im, CLAVE_I64, 1, &n, x->dims + start));
}

void onnx_size(node *node) {
  value *x = node_required(node, 0);
  if (x) node_set(node, 0, value_of_number(node->im, CLAVE_I64, value_numel(node->im, x)));
}

/* ---------------------------------------------------------------- constants */

static value *constant_list(node *node, const char *name, clave_dtype type) {
  const onnx_attribute *attribute = node_attribute(node, name);
  if (!attribute) return NULL;
  const onnx_numbers *list = type == CLAVE_F32 ? &attribute->floats : &attribute->ints;
  const int64_t n = (int64_t)list->count;
  uint8_t *bytes = import_alloc(node->im, list->count + 1, clave_dtype_size(type));
  for (int64_t i = 0; bytes && i < n; i++) {
    const size_t size = clave_dtype_size(type);
    for (size_t b = 0; b < size; b++)
      bytes[(size_t)i * size + b] = (uint8_t)(list->items[i] >> (8 * b));
  }
  return bytes ? value_constant(node->im, "", type, 1, &n, bytes) : NULL;
}

void onnx_constant_op(node *node) {
  importer *im = node->im;
  value *out = node_tensor(node, "value");
  onnx_attribute *sparse = node_attribute(node, "sparse_value");
  const char *name;
  if (sparse) out = onnx_sparse_constant(node->onnx, sparse->sparse, &name);
  if (node_has(node, "value_float"))
    out = value_of_number(im, CLAVE_F32, number_float(node_float(node, "value_float", 0)));
  if (node_has(node, "value_int"))
    out = value_of_number(im, CLAVE_I64, number_int(node_int(node, "value_int", 0)));
  if (node_has(node, "value_floats")) out = constant_list(node, "value_floats", CLAVE_F32);
  if (node_has(node, "value_ints")) out = constant_list(node, "value_ints", CLAVE_I64);
  if (node_has(node, "value_string") || node_has(node, "value_strings"))
    import_unsupported(im, "a constant of strings");
  if (!out) import_invalid(im, "the constant has no value");
  if (out) out->name = ""; /* a name within the node is not unique */
  node_set(node, 0, out);
}

void onnx_constant_of_shape(node *node) {
  importer *im = node->im;
  value *shape = node_required(node, 0), *fill = node_tensor(node, "value");
  number dims[CLAVE_MAX_RANK];
  const int rank = onnx_sizes(node, shape, "shape", dims);
  const number element = fill ? value_scalar(im, fill, "value") : number_float(0);
  if (rank >= 0)
    node_set(node, 0, emit_full(im, fill ? fill->type : CLAVE_F32, rank, dims, element));
}

int onnx_sizes(node *node, value *input, const char *what, number *dims) {
  const number *elements = value_elements(node->im, input, what);
  const int64_t n = elements ? value_count(input) : 0;
  if (!elements) return -1;
  if (n > CLAVE_MAX_RANK) {
    import_unsupported(node->im, "a tensor of rank %lld", (long long)n);
    return -1;
  }
  for (int64_t i = 0; i < n; i++) dims[i] = number_to_int(node->im, elements[i]);
  return import_ok(node->im) ? (int)n : -1;
}

bool onnx_resolve_axes(node *node, int rank, number *axes, int n) {
  importer *im = node->im;
  for (int i = 0; i < n && import_ok(im); i++) {
    if (!axes[i].id) {
      axes[i] = number_int(emit_axis(im, axes[i].i, rank));
    } else {
      const number negative = number_compute(im, NUMBER_LT, axes[i], number_int(0));
      axes[i] = number_where(im, negative, number_add(im, axes[i], number_int(rank)), axes[i]);
    }
    for (int k = 0; k < i && import_ok(im); k++)
      if (number_is_same(axes[k], axes[i])) import_invalid(im, "an axis is given twice");
  }
  return import_ok(im);
}

int onnx_axes_numbers(node *node, value *input, int rank, number *axes) {
  const int n = input ? onnx_sizes(node, input, "axes", axes) : -1;
  return n >= 0 && onnx_resolve_axes(node, rank, axes, n) ? n : -1;
}

/* The number of elements is ceil((limit - start) / delta), and not negative. */
void onnx_range(node *node) {
  importer *im = node->im;
  value *first = node_required(node, 0);
  const number start = value_scalar(im, first, "start"),
               limit = value_scalar(im, node_required(node, 1), "limit"),
               delta = value_scalar(im, node_required(node, 2), "delta");
  if (!import_ok(im)) return;
  const number length = number_sub(im, limit, start);
  number count;
  if (dtype_is_float((dtype)first->type)) {
    count = number_to_int(
        im,
        number_compute(im, NUMBER_CEIL, number_compute(im, NUMBER_TRUE_DIV, length, delta), delta));
  } else {
    const number negative = number_compute(im, NUMBER_NEG, length, length);
    count = number_floor_div(im, negative, delta);
    count = number_compute(im, NUMBER_NEG, count, count);
  }
  node_set(node, 0,
           emit_arange(im, first->type, start, delta, number_max(im, count, number_int(0))));
}
