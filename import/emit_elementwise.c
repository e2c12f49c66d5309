/* Elementwise steps: broadcasting, casts, and arithmetic on elements that are known at import. */
#include "import/emit.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"

/* ---------------------------------------------------------------- broadcasting */

/* Returns the size that dims a and b are broadcast to. At run time an open one may be 1. */
static number broadcast_dim(importer *im, number a, number b) {
  if (number_is_same(a, b) || number_is(b, 1)) return a;
  if (number_is(a, 1)) return b;
  if (!a.id && !b.id) {
    import_invalid(im, "sizes %lld and %lld are not broadcast to each other", (long long)a.i,
                   (long long)b.i);
    return a;
  }
  if (!a.id) return a;
  if (!b.id) return b;
  return number_where(im, number_compute(im, NUMBER_EQ, a, number_int(1)), b, a);
}

int emit_broadcast(importer *im, value *const *xs, int n, number *dims) {
  int rank = 0;
  for (int i = 0; i < n; i++)
    if (xs[i] && xs[i]->rank > rank) rank = xs[i]->rank;
  for (int d = 0; d < rank; d++) dims[d] = number_int(1);
  for (int i = 0; i < n; i++) {
    for (int d = 0; xs[i] && d < xs[i]->rank; d++) {
      number *to = &dims[rank - xs[i]->rank + d];
      *to = broadcast_dim(im, *to, xs[i]->dims[d]);
    }
  }
  return rank;
}

/* ---------------------------------------------------------------- arithmetic at import */

static const struct {
  const char *name;
  number_kind kind;
  bool ints, floats; /* operands for which the kinds agree */
} numeric[] = {
    {"add", NUMBER_ADD, true, true},
    {"sub", NUMBER_SUB, true, true},
    {"mul", NUMBER_MUL, true, true},
    {"div", NUMBER_TRUE_DIV, false, true},
    {"floor_divide", NUMBER_FLOOR_DIV, true, false},
    {"remainder", NUMBER_MOD, true, false},
    {"minimum", NUMBER_MIN, true, true},
    {"maximum", NUMBER_MAX, true, true},
    {"eq", NUMBER_EQ, true, true},
    {"ne", NUMBER_NE, true, true},
    {"lt", NUMBER_LT, true, true},
    {"le", NUMBER_LE, true, true},
    {"gt", NUMBER_GT, true, true},
    {"ge", NUMBER_GE, true, true},
    {"neg", NUMBER_NEG, true, true},
    {"logical_and", NUMBER_AND, true, false},
    {"logical_or", NUMBER_OR, true, false},
    {"logical_not", NUMBER_NOT, true, false},
    {"floor", NUMBER_FLOOR, false, true},
    {"ceil", NUMBER_CEIL, false, true},
    {"round", NUMBER_ROUND, false, true},
    {"sqrt", NUMBER_SQRT, false, true},
};

static number divide_towards_zero(importer *im, number a, number b) {
  return number_trunc_div(im, a, b);
}

/* False if the result of a step on two constant integers needs more than 64 bits, or is undefined.
 * A tensor's element wraps instead. */
static bool stays_within_64(number_kind kind, number a, number b) {
  int64_t out;
  if (a.id || b.id || a.type == NUMBER_FLOAT) return true;
  switch (kind) {
    case NUMBER_ADD:
      return !__builtin_add_overflow(a.i, b.i, &out);
    case NUMBER_SUB:
      return !__builtin_sub_overflow(a.i, b.i, &out);
    case NUMBER_MUL:
      return !__builtin_mul_overflow(a.i, b.i, &out);
    case NUMBER_NEG:
      return a.i != INT64_MIN;
    case NUMBER_FLOOR_DIV:
    case NUMBER_MOD:
      return b.i != 0 && !(a.i == INT64_MIN && b.i == -1);
    default:
      return true;
  }
}

/* Computes a step on numbers. False: the kind is not known here. */
static bool compute_numbers(importer *im, const char *kind, bool floats, const number *operands,
                            number *out) {
  if (strcmp(kind, "where") == 0) {
    if (floats && operands[0].id) return false;
    *out = number_where(im, operands[0], operands[1], operands[2]);
    return true;
  }
  if (strcmp(kind, "trunc_divide") == 0 && !floats) {
    if (!stays_within_64(NUMBER_FLOOR_DIV, operands[0], operands[1])) return false;
    *out = divide_towards_zero(im, operands[0], operands[1]);
    return true;
  }
  for (size_t i = 0; i < sizeof numeric / sizeof *numeric; i++) {
    if (strcmp(kind, numeric[i].name) != 0) continue;
    if (floats ? !numeric[i].floats : !numeric[i].ints) return false;
    if (!stays_within_64(numeric[i].kind, operands[0], operands[1])) return false;
    *out = number_compute(im, numeric[i].kind, operands[0], operands[1]);
    return true;
  }
  return false;
}

/* True if integer arithmetic in 64 bits has the results of this dtype. */
static bool folds_in_64_bits(clave_dtype type) {
  return type == CLAVE_I64 || type == CLAVE_I32 || type == CLAVE_BOOL || type == CLAVE_F32 ||
         type == CLAVE_F64 || type == CLAVE_F16 || type == CLAVE_BF16;
}

/* Returns the element of input at `index` of the broadcast shape `dims` of this rank. */
static number broadcast_element(const value *input, int rank, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < input->rank; d++) {
    const int64_t size = input->dims[d].i, i = index[rank - input->rank + d];
    at = at * size + (size == 1 ? 0 : i);
  }
  return input->elements[at];
}

/* Returns the number of elements of a result that is computed at import, or -1. */
static int64_t known_count(importer *im, value *const *xs, int n, int rank, const number *dims) {
  bool constant = true;
  int64_t count = 1;
  for (int i = 0; i < n; i++) {
    if (!value_known(im, xs[i]) || !folds_in_64_bits(xs[i]->type)) return -1;
    constant = constant && value_is_constant(xs[i]);
  }
  for (int d = 0; d < rank; d++) {
    if (dims[d].id || !mul_i64(count, dims[d].i, &count)) return -1;
  }
  return count <= (constant ? MAX_ELEMENTS : MAX_NUMBERS) ? count : -1;
}

/* Rounds a number of the host, a double, to the 24 bits of an F32. Veltkamp's splitting: the sum of
 * x - wide and wide, which is x * (2^29 + 1), loses the other 29 bits. */
static number round_to_f32(importer *im, number x) {
  const number split = number_float(0x1p29 + 1);
  if (!x.id || x.type != NUMBER_FLOAT) return x;
  const number wide = number_mul(im, x, split);
  return number_add(im, wide, number_sub(im, x, wide));
}

/* True if the result of a step on floats has more bits than its operands. */
static bool is_rounded(const char *kind) {
  static const char *const kinds[] = {"add", "sub", "mul", "div", "sqrt"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kind, kinds[i]) == 0) return true;
  return false;
}

/* True if a number of the host that depends on sizes, a double, can have the dtype. */
static bool dtype_has_numbers(clave_dtype type) { return type != CLAVE_F16 && type != CLAVE_BF16; }

/* Computes a step at import. NULL: it must be an op. */
static value *step_of_known(importer *im, const char *kind, value *const *xs, int n,
                            clave_dtype type, int rank, const number *dims) {
  const int64_t count = known_count(im, xs, n, rank, dims);
  number *elements = count < 0 ? NULL : import_alloc(im, (size_t)count + 1, sizeof *elements);
  int64_t index[CLAVE_MAX_RANK] = {0}, sizes[CLAVE_MAX_RANK] = {0};
  const bool floats = dtype_is_float((dtype)xs[n - 1]->type);
  if (!elements) return NULL;
  for (int d = 0; d < rank; d++) sizes[d] = dims[d].i;
  for (int64_t at = 0; at < count; at++) {
    number operands[3] = {{0}};
    for (int i = 0; i < n; i++) operands[i] = broadcast_element(xs[i], rank, index);
    if (!compute_numbers(im, kind, floats, operands, &elements[at])) return NULL;
    if (elements[at].id && !dtype_has_numbers(xs[n - 1]->type)) return NULL;
    if (type == CLAVE_F32 && is_rounded(kind)) elements[at] = round_to_f32(im, elements[at]);
    for (int d = rank - 1; d >= 0 && ++index[d] == sizes[d]; d--) index[d] = 0;
  }
  return value_numbers(im, type, rank, sizes, elements);
}

/* ---------------------------------------------------------------- steps */

static bool is_predicate(const char *kind) {
  static const char *const kinds[] = {
      "eq",    "ne",      "lt",          "le",          "gt",         "ge",         "isnan",
      "isinf", "signbit", "logical_not", "logical_and", "logical_or", "logical_xor"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kind, kinds[i]) == 0) return true;
  return false;
}

/* True if the operand is one constant number, which can be an immediate. */
static bool is_immediate(importer *im, value *input) {
  return value_count(input) == 1 && value_is_constant(input) && value_known(im, input) &&
         input->type != CLAVE_BOOL;
}

/* True if operand i is an immediate and the operands that are not have the rank of the result. */
static bool fits_immediate(importer *im, value *const *xs, int n, int i) {
  bool any = false, deep = false;
  if (!is_immediate(im, xs[i])) return false;
  for (int k = 0; k < n; k++) {
    if (is_immediate(im, xs[k])) continue;
    any = true;
    deep = deep || xs[k]->rank >= xs[i]->rank;
  }
  return deep || !any;
}

static clave_operand immediate(const value *input) {
  const number a = input->elements[0];
  return a.type == NUMBER_FLOAT ? (clave_operand){.source = CLAVE_OPERAND_FLOAT, .f = a.f}
                                : (clave_operand){.source = CLAVE_OPERAND_INT, .i = a.i};
}

static value *step_op(importer *im, const char *kind, value *const *xs, int n, clave_dtype type,
                      int rank, const number *dims) {
  clave_operand operands[3];
  clave_id inputs[3];
  uint32_t n_inputs = 0;
  for (int i = 0; i < n; i++) {
    const bool first = i == 0 && n_inputs == 0 && n == 1;
    if (!first && fits_immediate(im, xs, n, i)) {
      operands[i] = immediate(xs[i]);
      continue;
    }
    operands[i] = (clave_operand){.source = CLAVE_OPERAND_INPUT, .index = n_inputs};
    inputs[n_inputs++] = value_tensor(im, xs[i]);
  }
  value *out = emit_begin(im, "Elementwise", type, rank, dims);
  if (!out) return NULL;
  clave_builder_set_tensors(im->builder, "inputs", inputs, n_inputs);
  clave_builder_step(im->builder, kind, type, operands, (uint32_t)n);
  return out;
}

clave_dtype emit_computable_type(clave_dtype type) {
  switch (type) {
    case CLAVE_U16:
      return CLAVE_I32;
    case CLAVE_U32:
    case CLAVE_U64:
      return CLAVE_I64;
    case CLAVE_F8_E4M3:
    case CLAVE_F8_E5M2:
      return CLAVE_F32;
    default:
      return type;
  }
}

value *emit_computable(importer *im, value *input) {
  return input ? emit_cast(im, input, emit_computable_type(input->type)) : NULL;
}

value *emit_step(importer *im, const char *kind, value *const *operands, int n) {
  value *xs[3];
  number dims[CLAVE_MAX_RANK];
  for (int i = 0; i < n; i++) {
    xs[i] = emit_computable(im, operands[i]);
    if (!xs[i]) return NULL;
  }
  const clave_dtype computed = xs[n - 1]->type, given = operands[n - 1]->type;
  for (int i = strcmp(kind, "where") == 0; i < n; i++) {
    if (xs[i]->type == computed) continue;
    import_invalid(im, "operands have the dtypes %s and %s", clave_dtype_name(xs[i]->type),
                   clave_dtype_name(computed));
    return NULL;
  }
  const int rank = emit_broadcast(im, xs, n, dims);
  const bool predicate = is_predicate(kind);
  const clave_dtype type = predicate ? CLAVE_BOOL : computed;
  if (!import_ok(im)) return NULL;
  value *out = step_of_known(im, kind, xs, n, type, rank, dims);
  if (!out) out = step_op(im, kind, xs, n, type, rank, dims);
  return predicate ? out : emit_cast(im, out, given);
}

value *emit_unary(importer *im, const char *kind, value *input) {
  return emit_step(im, kind, &input, 1);
}
value *emit_binary(importer *im, const char *kind, value *input, value *other) {
  return emit_step(im, kind, (value *[]){input, other}, 2);
}
value *emit_binary_float(importer *im, const char *kind, value *input, double y) {
  return input ? emit_binary(im, kind, input, value_of_float(im, input->type, y)) : NULL;
}
value *emit_where(importer *im, value *condition, value *input, value *other) {
  value *out = emit_step(im, "where", (value *[]){condition, input, other}, 3);
  if (out) out->bits = input->bits;
  return out;
}

/* ---------------------------------------------------------------- casts */

static number cast_number(importer *im, number a, clave_dtype type) {
  if (type == CLAVE_BOOL) return number_to_bool(im, a);
  if (dtype_is_float((dtype)type)) return number_to_float(im, a);
  return number_to_int(im, a);
}

/* True if every number of input is the same as a number of `type`, rounded at import if constant.
 */
static bool casts_known(importer *im, value *input, clave_dtype type) {
  if (!value_known(im, input) || !folds_in_64_bits(type)) return false;
  for (int64_t i = 0, n = value_count(input); i < n; i++) {
    const number a = input->elements[i];
    if (a.id && !dtype_has_numbers(type)) return false;
    if (a.id) continue;
    if (input->type == CLAVE_U64 && a.i < 0) return false;
    if (a.type == NUMBER_FLOAT && !dtype_is_float((dtype)type) && type != CLAVE_BOOL &&
        !(fabs(a.f) < 0x1p31))
      return false;
    if (a.type != NUMBER_FLOAT && type == CLAVE_I32 && a.i != (int32_t)a.i) return false;
  }
  return true;
}

value *emit_cast(importer *im, value *input, clave_dtype type) {
  if (!input || input->type == type) return input;
  if (casts_known(im, input, type)) {
    const int64_t n = value_count(input);
    int64_t dims[CLAVE_MAX_RANK];
    number *elements = import_alloc(im, (size_t)n + 1, sizeof *elements);
    for (int64_t i = 0; elements && i < n; i++) {
      elements[i] = cast_number(im, input->elements[i], type);
      if (type == CLAVE_F32) elements[i] = round_to_f32(im, elements[i]);
    }
    for (int d = 0; d < input->rank; d++) dims[d] = input->dims[d].i;
    return elements ? value_numbers(im, type, input->rank, dims, elements) : NULL;
  }
  return emit_prepare(im, input) ? step_op(im, "cast", &input, 1, type, input->rank, input->dims)
                                 : NULL;
}
