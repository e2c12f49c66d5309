/* Tensors that are made when an op first reads them, and elements that are read back from tensors.
 */
#include "base/dtype.h"
#include "import/coded.h"
#include "import/emit.h"

/* ---------------------------------------------------------------- elements */

/* Reads back one element of a tensor of rank 1. */
static number read_back_element(importer *im, value *flat, int64_t i) {
  value *one = emit_slice(im, flat, 0, number_int(i), number_int(i + 1));
  const clave_id tensor = one ? value_tensor(im, one) : 0;
  if (!tensor) return number_int(0);
  const number_type type = flat->type == CLAVE_BOOL            ? NUMBER_BOOL
                           : dtype_is_float((dtype)flat->type) ? NUMBER_FLOAT
                                                               : NUMBER_INT;
  const number out = number_new(im, "", type, INT64_MIN, INT64_MAX);
  clave_builder_op(im->builder, "Item", im->node);
  clave_builder_set_tensor(im->builder, "x", tensor);
  clave_builder_set_value(im->builder, "out", out.id);
  return out;
}

const number *value_elements(importer *im, value *input, const char *what) {
  const number *known = value_known(im, input);
  if (known || !input || !import_ok(im)) return known;
  const int64_t n = value_count(input);
  if (n < 0 || n > MAX_NUMBERS) {
    import_unsupported(im, "%s has %s elements, of which sizes depend", what,
                       n < 0 ? "an open number of" : "too many");
    return NULL;
  }
  const number count = number_int(n);
  value *flat = emit_reshape(im, emit_computable(im, input), 1, &count);
  number *elements = import_alloc(im, (size_t)n + 1, sizeof *elements);
  for (int64_t i = 0; elements && i < n; i++) elements[i] = read_back_element(im, flat, i);
  return import_ok(im) ? elements : NULL;
}

number value_scalar(importer *im, value *input, const char *what) {
  if (input && value_count(input) < 0)
    input = emit_reshape(im, input, 0, NULL); /* checked during the run */
  if (!input || !import_ok(im)) return number_int(0);
  if (value_count(input) != 1) {
    import_invalid(im, "%s: expected one element", what);
    return number_int(0);
  }
  const number *elements = value_elements(im, input, what);
  return elements ? elements[0] : number_int(0);
}

/* ---------------------------------------------------------------- tensors */

static clave_id constant_tensor(importer *im, value *input) {
  int64_t dims[CLAVE_MAX_RANK];
  void *bytes = (void *)value_bytes(im, input);
  if (!bytes) return 0;
  for (int i = 0; i < input->rank; i++) dims[i] = input->dims[i].i;
  const clave_tensor data = clave_tensor_make(input->type, input->rank, dims, bytes);
  const bool named = input->name[0] != 0;
  const char *name = named ? input->name : import_text(im, "#%u", im->n_names++);
  return clave_builder_constant(im->builder, name, &data,
                                !input->data || mem_pool_has(im->pool, input->data));
}

/* Makes a tensor of numbers that depend on sizes: one element each, joined. */
static clave_id number_tensor(importer *im, value *input) {
  const int64_t n = value_count(input);
  value **parts = import_alloc(im, (size_t)n, sizeof *parts);
  const number one = number_int(1);
  for (int64_t i = 0; parts && i < n; i++)
    parts[i] = emit_full(im, input->type, 1, &one, input->elements[i]);
  value *flat = parts ? emit_cat(im, parts, (int)n, 0) : NULL;
  value *shaped = emit_reshape(im, flat, input->rank, input->dims);
  return shaped ? shaped->tensor : 0;
}

clave_id value_tensor(importer *im, value *input) {
  if (!input || !import_ok(im)) return 0;
  if (input->is_sequence) {
    import_unsupported(im, "a sequence of tensors where a tensor is expected");
    return 0;
  }
  if (input->tensor && import_sees(im, input->scope)) return input->tensor;
  if (input->coded) {
    input->tensor = coded_decode(im, input);
    input->scope = import_scope(im);
    return input->tensor;
  }
  const bool constant = value_is_constant(input);
  if (!constant && !input->elements) {
    import_invalid(
        im, "a tensor is used outside of the body that computes it, or before its size is known");
    return 0;
  }
  input->tensor = constant ? constant_tensor(im, input) : number_tensor(im, input);
  input->scope = constant ? 0 : import_scope(im);
  return input->tensor;
}
