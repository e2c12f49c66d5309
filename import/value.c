/* Tensors during an import: constants, and elements that are known. */
#include "import/value.h"

#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"

/* ---------------------------------------------------------------- making values */

value *value_new(importer *im, clave_dtype type, int rank, const number *dims) {
  if (!import_ok(im)) return NULL;
  if (rank > CLAVE_MAX_RANK) {
    import_unsupported(im, "a tensor of rank %d (at most %d)", rank, CLAVE_MAX_RANK);
    return NULL;
  }
  value *made = import_alloc(im, 1, sizeof *made);
  if (!made) return NULL;
  made->type = type;
  made->rank = rank;
  made->name = "";
  for (int i = 0; i < rank; i++) made->dims[i] = dims[i];
  return made;
}

static value *new_of_sizes(importer *im, clave_dtype type, int rank, const int64_t *dims) {
  number sizes[CLAVE_MAX_RANK];
  for (int i = 0; i < rank && i < CLAVE_MAX_RANK; i++) sizes[i] = number_int(dims[i]);
  return value_new(im, type, rank, sizes);
}

value *value_constant(importer *im, const char *name, clave_dtype type, int rank,
                      const int64_t *dims, const void *data) {
  value *made = new_of_sizes(im, type, rank, dims);
  if (!made) return NULL;
  made->name = name;
  made->data = data ? data : "";
  return made;
}

value *value_numbers(importer *im, clave_dtype type, int rank, const int64_t *dims,
                     const number *elements) {
  value *made = new_of_sizes(im, type, rank, dims);
  const int64_t n = made ? value_count(made) : 0;
  if (n < 0) import_invalid(im, "the sizes of a tensor overflow 64 bits");
  number *copy = made && n >= 0 ? import_alloc(im, (size_t)n + 1, sizeof *copy) : NULL;
  if (!copy) return NULL;
  for (int64_t i = 0; i < n; i++) copy[i] = value_rounded(type, elements[i]);
  made->elements = copy;
  return made;
}

value *value_of_number(importer *im, clave_dtype type, number element) {
  return value_numbers(im, type, 0, NULL, &element);
}

value *value_of_float(importer *im, clave_dtype type, double f) {
  return value_of_number(
      im, type, dtype_is_float((dtype)type) ? number_float(f) : number_int(number_truncated(f)));
}

value *value_ints(importer *im, const int64_t *ints, int n) {
  const int64_t dims[1] = {n};
  number *elements = import_alloc(im, (size_t)n, sizeof *elements);
  if (!elements) return NULL;
  for (int i = 0; i < n; i++) elements[i] = number_int(ints[i]);
  return value_numbers(im, CLAVE_I64, 1, dims, elements);
}

value *value_sequence(importer *im, value *const *items, int n) {
  value *made = value_new(im, CLAVE_F32, 0, NULL);
  value **copy = import_alloc(im, (size_t)n, sizeof *copy);
  if (!made || !copy) return NULL;
  if (n > 0) memcpy(copy, items, (size_t)n * sizeof *copy);
  made->is_sequence = true;
  made->items = copy;
  made->n_items = n;
  return made;
}

number value_rounded(clave_dtype type, number a) {
  if (a.id) return a;
  if (type == CLAVE_BOOL) return number_bool(a.type == NUMBER_FLOAT ? a.f != 0 : a.i != 0);
  if (type == CLAVE_I32 && a.type == NUMBER_INT) return number_int((int32_t)a.i); /* wraps */
  if (!dtype_has_fractions((dtype)type)) return a.type == NUMBER_BOOL ? number_int(a.i) : a;
  const double f = a.type == NUMBER_FLOAT ? a.f : (double)a.i;
  if (type == CLAVE_F64) return number_float(f);
  if (type == CLAVE_F16) return number_float((double)f16_to_f32(f32_to_f16((float)f)));
  if (type == CLAVE_BF16) return number_float((double)bf16_to_f32(f32_to_bf16((float)f)));
  return number_float((double)(float)f);
}

/* ---------------------------------------------------------------- queries */

int64_t value_count(const value *input) {
  int64_t n = 1;
  for (int i = 0; i < input->rank; i++) {
    if (input->dims[i].id) return -1;
    if (!mul_i64(n, input->dims[i].i, &n)) return -1; /* the verifier refuses the tensor */
  }
  return n;
}

number value_numel(importer *im, const value *input) {
  number n = number_int(1);
  for (int i = 0; input && i < input->rank; i++) n = number_mul(im, n, input->dims[i]);
  return n;
}

bool value_is_constant(const value *input) {
  if (input->data) return true;
  if (!input->elements) return false;
  for (int64_t i = 0, n = value_count(input); i < n; i++)
    if (input->elements[i].id) return false;
  return true;
}

bool value_has_shape(const value *input, int rank, const int64_t *dims) {
  if (input->rank != rank) return false;
  for (int i = 0; i < rank; i++)
    if (!number_is(input->dims[i], dims[i])) return false;
  return true;
}

bool value_is_same_shape(const value *input, const value *other) {
  if (input->rank != other->rank) return false;
  for (int i = 0; i < input->rank; i++)
    if (!number_is_same(input->dims[i], other->dims[i])) return false;
  return true;
}

/* ---------------------------------------------------------------- elements */

static number element_as_number(clave_dtype type, const uint8_t *at) {
  uint64_t bits = 0;
  memcpy(&bits, at, clave_dtype_size(type));
  switch (type) {
    case CLAVE_BOOL:
      return number_bool(bits != 0);
    case CLAVE_I8:
      return number_int((int8_t)bits);
    case CLAVE_I16:
      return number_int((int16_t)bits);
    case CLAVE_I32:
      return number_int((int32_t)bits);
    case CLAVE_I64:
    case CLAVE_U8:
    case CLAVE_U16:
    case CLAVE_U32:
    case CLAVE_U64:
      return number_int((int64_t)bits);
    default:
      return number_float(element_number((dtype)type, at));
  }
}

const number *value_known(importer *im, value *input) {
  if (!input || input->elements) return input ? input->elements : NULL;
  const int64_t n = input->data ? value_count(input) : -1;
  if (n < 0 || n > MAX_ELEMENTS) return NULL;
  number *elements = import_alloc(im, (size_t)n + 1, sizeof *elements);
  if (!elements) return NULL;
  const size_t size = clave_dtype_size(input->type);
  for (int64_t i = 0; i < n; i++)
    elements[i] = element_as_number(input->type, (const uint8_t *)input->data + (size_t)i * size);
  return input->elements = elements;
}

/* Returns a constant number without its fraction; 0 if it does not fit. */
static int64_t whole_part(number a) {
  if (a.type != NUMBER_FLOAT) return a.i;
  return a.f > -0x1p63 && a.f < 0x1p63 ? (int64_t)a.f : 0;
}

static const number *constant_elements(importer *im, value *input, const char *what, int capacity) {
  if (!input || !import_ok(im)) return NULL;
  const number *known = value_is_constant(input) ? value_known(im, input) : NULL;
  if (!known) {
    import_unsupported(im, "%s is not constant", what);
  } else if (value_count(input) > capacity) {
    import_invalid(im, "%s has %lld elements, expected at most %d", what,
                   (long long)value_count(input), capacity);
    known = NULL;
  }
  return known;
}

int value_constant_ints(importer *im, value *input, const char *what, int64_t *out, int capacity) {
  const number *elements = constant_elements(im, input, what, capacity);
  const int n = elements ? (int)value_count(input) : 0;
  for (int i = 0; i < n; i++) out[i] = whole_part(elements[i]);
  return n;
}

int value_constant_floats(importer *im, value *input, const char *what, double *out, int capacity) {
  const number *elements = constant_elements(im, input, what, capacity);
  const int n = elements ? (int)value_count(input) : 0;
  for (int i = 0; i < n; i++)
    out[i] = elements[i].type == NUMBER_FLOAT ? elements[i].f : (double)elements[i].i;
  return n;
}

/* Stores a constant number as an element of this dtype. */
static void store_number_as(clave_dtype type, number a, uint8_t *to) {
  const float f = (float)a.f;
  const int64_t i = whole_part(a);
  const uint16_t half = type == CLAVE_BF16 ? f32_to_bf16(f) : f32_to_f16(f);
  const uint8_t code = type == CLAVE_F8_E5M2 ? f32_to_f8_e5m2(f) : f32_to_f8_e4m3(f);
  const void *from = &i; /* little-endian: the low bytes of an integer come first */
  if (type == CLAVE_F32) from = &f;
  if (type == CLAVE_F64) from = &a.f;
  if (type == CLAVE_F16 || type == CLAVE_BF16) from = &half;
  if (type == CLAVE_F8_E4M3 || type == CLAVE_F8_E5M2) from = &code;
  memcpy(to, from, clave_dtype_size(type));
}

const void *value_bytes(importer *im, value *input) {
  if (!input || !value_is_constant(input)) return NULL;
  if (input->data) return input->data;
  const size_t n = (size_t)value_count(input), size = clave_dtype_size(input->type);
  uint8_t *bytes = import_alloc(im, n + 1, size);
  if (!bytes) return NULL;
  for (size_t i = 0; i < n; i++) store_number_as(input->type, input->elements[i], bytes + i * size);
  return bytes;
}
