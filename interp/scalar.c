/* Host scalar ops and the bounds of host values. No function here accesses a tensor's data. */
#include "interp/scalar.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

static int64_t literal_int(const ir_int_or_vid *value, const scalar_value *values) {
  return value->vid == IR_NONE ? value->literal : values[value->vid].i;
}

static double literal_float(const ir_float_or_vid *literal, const scalar_value *values) {
  if (literal->vid == IR_NONE) return literal->literal;
  const scalar_value *scalar = &values[literal->vid];
  return scalar->type == IR_VALUE_TYPE_FLOAT ? scalar->f : (double)scalar->i;
}

static int64_t floor_div_i64(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

static bool compare_ints(ir_scalar_kind kind, int64_t a, int64_t b, bool *out) {
  switch (kind) {
    case IR_SCALAR_KIND_EQ:
      *out = a == b;
      return true;
    case IR_SCALAR_KIND_NE:
      *out = a != b;
      return true;
    case IR_SCALAR_KIND_LT:
      *out = a < b;
      return true;
    case IR_SCALAR_KIND_LE:
      *out = a <= b;
      return true;
    case IR_SCALAR_KIND_GT:
      *out = a > b;
      return true;
    case IR_SCALAR_KIND_GE:
      *out = a >= b;
      return true;
    default:
      return false;
  }
}

static const char *compare_sign(ir_scalar_kind kind) {
  static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
  return kind >= IR_SCALAR_KIND_EQ && kind <= IR_SCALAR_KIND_GE ? signs[kind - IR_SCALAR_KIND_EQ]
                                                                : "?";
}

static clave_status divide_ints(ir_scalar_kind kind, int64_t a, int64_t b, int64_t *out) {
  if (b == 0) return INVALID("size arithmetic divides %" PRId64 " by zero", a);
  if (b == -1 && a == INT64_MIN) return INVALID("size arithmetic overflows 64 bits");
  int64_t q = floor_div_i64(a, b);
  *out = kind == IR_SCALAR_KIND_FLOOR_DIV ? q : a - q * b;
  return NULL;
}

static clave_status power_int(int64_t a, int64_t b, int64_t *out) {
  if (b < 0)
    return INVALID("size arithmetic raises %" PRId64 " to the negative power %" PRId64, a, b);
  int64_t r = 1;
  for (; b; b >>= 1) {
    if ((b & 1) && !mul_i64(r, a, &r)) return INVALID("size arithmetic overflows 64 bits");
    if (b > 1 && !mul_i64(a, a, &a)) return INVALID("size arithmetic overflows 64 bits");
  }
  *out = r;
  return NULL;
}

static clave_status eval_int(ir_scalar_kind kind, int64_t a, int64_t b, int64_t *out) {
  bool truth, fits = true;
  if (compare_ints(kind, a, b, &truth)) {
    *out = truth;
    return NULL;
  }
  switch (kind) {
    case IR_SCALAR_KIND_ADD:
      fits = add_i64(a, b, out);
      break;
    case IR_SCALAR_KIND_SUB:
      fits = sub_i64(a, b, out);
      break;
    case IR_SCALAR_KIND_MUL:
      fits = mul_i64(a, b, out);
      break;
    case IR_SCALAR_KIND_NEG:
      fits = sub_i64(0, a, out);
      break;
    case IR_SCALAR_KIND_MIN:
      *out = a < b ? a : b;
      break;
    case IR_SCALAR_KIND_MAX:
      *out = a > b ? a : b;
      break;
    case IR_SCALAR_KIND_AND:
      *out = a && b;
      break;
    case IR_SCALAR_KIND_OR:
      *out = a || b;
      break;
    case IR_SCALAR_KIND_NOT:
      *out = !a;
      break;
    case IR_SCALAR_KIND_TO_INT:
      *out = a;
      break;
    case IR_SCALAR_KIND_POW:
      return power_int(a, b, out);
    case IR_SCALAR_KIND_FLOOR_DIV:
    case IR_SCALAR_KIND_MOD:
      return divide_ints(kind, a, b, out);
    default:
      return UNSUPPORTED("unknown integer host op %d", (int)kind);
  }
  return fits ? NULL : INVALID("size arithmetic overflows 64 bits");
}

static bool compare_floats(ir_scalar_kind kind, double a, double b, double *out) {
  const bool truths[] = {a == b, a != b, a<b, a <= b, a> b, a >= b}; /* in the order of the kinds */
  if (kind < IR_SCALAR_KIND_EQ || kind > IR_SCALAR_KIND_GE) return false;
  *out = truths[kind - IR_SCALAR_KIND_EQ];
  return true;
}

static clave_status eval_float(ir_scalar_kind kind, double a, double b, double *out) {
  if (compare_floats(kind, a, b, out)) return NULL;
  switch (kind) {
    case IR_SCALAR_KIND_ADD:
      *out = a + b;
      return NULL;
    case IR_SCALAR_KIND_SUB:
      *out = a - b;
      return NULL;
    case IR_SCALAR_KIND_MUL:
      *out = a * b;
      return NULL;
    case IR_SCALAR_KIND_TRUE_DIV:
      *out = a / b;
      return NULL;
    case IR_SCALAR_KIND_FLOOR_DIV:
      *out = floor(a / b);
      return NULL;
    case IR_SCALAR_KIND_MOD:
      *out = a - b * floor(a / b);
      return NULL;
    case IR_SCALAR_KIND_MIN:
      *out = b < a ? b : a;
      return NULL;
    case IR_SCALAR_KIND_MAX:
      *out = b > a ? b : a;
      return NULL;
    case IR_SCALAR_KIND_NEG:
      *out = -a;
      return NULL;
    case IR_SCALAR_KIND_TO_FLOAT:
      *out = a;
      return NULL;
    case IR_SCALAR_KIND_POW:
      *out = pow(a, b);
      return NULL;
    case IR_SCALAR_KIND_TO_INT:
      *out = trunc(a);
      return NULL;
    case IR_SCALAR_KIND_FLOOR:
      *out = floor(a);
      return NULL;
    case IR_SCALAR_KIND_CEIL:
      *out = ceil(a);
      return NULL;
    case IR_SCALAR_KIND_ROUND:
      *out = rint(a);
      return NULL;
    case IR_SCALAR_KIND_SQRT:
      *out = sqrt(a);
      return NULL;
    default:
      return UNSUPPORTED("unknown float host op %d", (int)kind);
  }
}

clave_status scalar_set(const ir_program *program, uint32_t vid, scalar_value value,
                        scalar_value *values, const char *what) {
  const ir_value *declared = &program->values.items[vid];
  if (declared->type == IR_VALUE_TYPE_INT &&
      ((declared->min.present && value.i < declared->min.value) ||
       (declared->max.present && value.i > declared->max.value))) {
    char low[24] = "-inf", high[24] = "inf";
    if (declared->min.present) snprintf(low, sizeof low, "%" PRId64, declared->min.value);
    if (declared->max.present) snprintf(high, sizeof high, "%" PRId64, declared->max.value);
    return INVALID("%s is %" PRId64 "; '%s' must be in [%s, %s]", what, value.i, declared->name,
                   low, high);
  }
  value.known = true;
  value.type = declared->type;
  values[vid] = value;
  return NULL;
}

clave_status scalar_bind_dims(const ir_program *program, const ir_argument *input,
                              const int64_t *dims, scalar_value *values) {
  const ir_tensor *tensor = &program->tensors.items[input->tensor];
  for (uint32_t k = 0; k < tensor->shape.count; k++) {
    const uint32_t vid = tensor->shape.items[k].vid;
    char what[160];
    if (vid == IR_NONE) continue;
    if (values[vid].known && values[vid].i != dims[k])
      return INVALID("dimension %u of input '%s' is %" PRId64 ", but '%s' is already %" PRId64, k,
                     input->name, dims[k], program->values.items[vid].name, values[vid].i);
    if (values[vid].known) continue;
    (void)snprintf(what, sizeof what, "dimension %u of input '%.100s'", k, input->name);
    TRY(scalar_set(program, vid, (scalar_value){.i = dims[k]}, values, what));
  }
  return NULL;
}

clave_status scalar_bind(const ir_program *program, const ir_argument *input, scalar_value given,
                         scalar_value *values) {
  const scalar_value *value = &values[input->value];
  char what[160];
  (void)snprintf(what, sizeof what, "input '%.100s'", input->name);
  if (value->known && value->i != given.i)
    return INVALID("%s is %" PRId64 ", but the sizes of other inputs make it %" PRId64, what,
                   given.i, value->i);
  return scalar_set(program, input->value, given, values, what);
}

static clave_status interp_scalar_run_check(const ir_check *op, const scalar_value *values) {
  int64_t a = literal_int(&op->a, values), b = literal_int(&op->b, values);
  bool holds = false;
  if (!compare_ints(op->kind, a, b, &holds))
    return UNSUPPORTED("unknown kind of check %d", (int)op->kind);
  if (holds) return NULL;
  return INVALID("%s: %" PRId64 " %s %" PRId64 " does not hold",
                 op->message[0] ? op->message : "check", a, compare_sign(op->kind), b);
}

static clave_status run_int_scalar(const ir_program *program, const ir_int_scalar *op,
                                   scalar_value *values) {
  scalar_value value = {0};
  TRY(eval_int(op->kind, literal_int(&op->a, values),
               op->b.present ? literal_int(&op->b, values) : 0, &value.i));
  return scalar_set(program, op->out, value, values, "a computed size");
}

static clave_status run_scalar(const ir_program *program, const ir_scalar *op,
                               scalar_value *values) {
  double r;
  TRY(eval_float(op->kind, literal_float(&op->a, values),
                 op->b.present ? literal_float(&op->b, values) : 0, &r));
  scalar_value value = {.f = r};
  if (program->values.items[op->out].type != IR_VALUE_TYPE_FLOAT) {
    if (!(r >= -9223372036854775808.0 && r < 9223372036854775808.0))
      return INVALID("%g does not fit in a 64-bit integer", r);
    value.i = (int64_t)r;
  }
  return scalar_set(program, op->out, value, values, "a computed value");
}

clave_status scalar_run(const ir_program *program, const ir_instruction *ins,
                        scalar_value *values) {
  switch (ins->op_type) {
    case IR_OP_SCALAR:
      return run_scalar(program, ins->op, values);
    case IR_OP_INT_SCALAR:
      return run_int_scalar(program, ins->op, values);
    case IR_OP_CHECK:
      return interp_scalar_run_check(ins->op, values);
    default:
      return UNSUPPORTED("unknown host op '%s'", op_table[ins->op_type].name);
  }
}

/* Reads an integer element; not by way of double, which cannot hold all 64-bit integers. */
static clave_status element_integer(dtype t, const void *element, int64_t *out) {
  if (dtype_size(t) < sizeof *out) {
    *out = (int64_t)element_number(t, element);
    return NULL;
  }
  memcpy(out, element, sizeof *out);
  if (t != DTYPE_U64 || *out >= 0) return NULL;
  return INVALID("%llu does not fit in a signed 64-bit integer", (unsigned long long)*out);
}

clave_status scalar_from_bytes(dtype t, const void *element, ir_value_type type,
                               scalar_value *out) {
  *out = (scalar_value){.known = true, .type = type};
  if (!dtype_has_fractions(t)) {
    TRY(element_integer(t, element, &out->i));
    out->f = (double)out->i;
    return NULL;
  }
  out->f = element_number(t, element);
  if (type == IR_VALUE_TYPE_FLOAT) return NULL;
  if (!(out->f >= -9223372036854775808.0 && out->f < 9223372036854775808.0))
    return INVALID("%g does not fit in a 64-bit integer", out->f);
  out->i = type == IR_VALUE_TYPE_BOOL ? out->f != 0 : (int64_t)out->f;
  return NULL;
}

void scalar_to_bytes(const scalar_value *value, tensor *out, void *element) {
  *out = (tensor){.rank = 0};
  if (value->type == IR_VALUE_TYPE_FLOAT) {
    out->type = DTYPE_F64;
    memcpy(element, &value->f, sizeof value->f);
  } else if (value->type == IR_VALUE_TYPE_BOOL) {
    out->type = DTYPE_BOOL;
    *(uint8_t *)element = value->i != 0;
  } else {
    out->type = DTYPE_I64;
    memcpy(element, &value->i, sizeof value->i);
  }
}

bool scalars_equal(const scalar_value *left, const scalar_value *right, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (left[i].known != right[i].known ||
        (left[i].known &&
         (left[i].i != right[i].i || memcmp(&left[i].f, &right[i].f, sizeof left[i].f) != 0)))
      return false;
  return true;
}
