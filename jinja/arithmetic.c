/* Operators, with Python's rules. Integers have 64 bits; an overflow is an error. */
#include <math.h>
#include <string.h>

#include "jinja/render.h"

static clave_status overflow(void) { return INVALID("the integer has more than 64 bits"); }

static int64_t arithmetic_whole(value value) {
  return value.kind == VALUE_BOOL ? (int64_t)value.u.truth : value.u.integer;
}

clave_status negate(value input, value *out) {
  int64_t i;
  if (input.kind == VALUE_FLOAT) {
    *out = value_float(-input.u.real);
    return NULL;
  }
  if (__builtin_sub_overflow((int64_t)0, arithmetic_whole(input), &i)) return overflow();
  *out = value_int(i);
  return NULL;
}

/* ---------------------------------------------------------------- integers */

/* Divides and rounds down; the remainder has the divisor's sign. */
static clave_status divide_whole(int64_t x, int64_t y, int64_t *quotient, int64_t *rest) {
  if (y == 0) return INVALID("integer division or modulo by zero");
  if (x == INT64_MIN && y == -1) return overflow();
  *quotient = x / y;
  *rest = x % y;
  if (*rest && (*rest < 0) != (y < 0)) {
    --*quotient;
    *rest += y;
  }
  return NULL;
}

static clave_status power_whole(int64_t x, int64_t y, int64_t *out) {
  *out = 1;
  for (bool more = y > 0; more;) {
    if (y & 1 && __builtin_mul_overflow(*out, x, out)) return overflow();
    y >>= 1;
    more = y > 0;
    if (more && __builtin_mul_overflow(x, x, &x)) return overflow();
  }
  return NULL;
}

static clave_status whole_numbers(binary_op op, int64_t x, int64_t y, value *out) {
  int64_t i = 0, other;
  bool bad = false;
  if (op == OP_ADD) bad = __builtin_add_overflow(x, y, &i);
  if (op == OP_SUB) bad = __builtin_sub_overflow(x, y, &i);
  if (op == OP_MUL) bad = __builtin_mul_overflow(x, y, &i);
  if (op == OP_FLOORDIV) TRY(divide_whole(x, y, &i, &other));
  if (op == OP_MOD) TRY(divide_whole(x, y, &other, &i));
  if (op == OP_POW) TRY(power_whole(x, y, &i));
  *out = value_int(i);
  return bad ? overflow() : NULL;
}

/* ---------------------------------------------------------------- floats */

static clave_status divide_real(double x, double y, double *quotient, double *rest) {
  if (y == 0) return INVALID("float division by zero");
  *rest = fmod(x, y);
  *quotient = (x - *rest) / y;
  if (*rest != 0 && (*rest < 0) != (y < 0)) {
    *rest += y;
    *quotient -= 1;
  }
  if (*rest == 0) *rest = copysign(0, y);
  if (*quotient == 0) {
    *quotient = copysign(0, x / y);
    return NULL;
  }
  double down = floor(*quotient);
  *quotient = *quotient - down > 0.5 ? down + 1 : down;
  return NULL;
}

static clave_status power_real(double x, double y, double *out) {
  if (x == 0 && y < 0) return INVALID("0.0 cannot be raised to a negative power");
  if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
    return UNSUPPORTED("complex numbers are not supported");
  *out = pow(x, y);
  if (isinf(*out) && isfinite(x) && isfinite(y)) return INVALID("the float is too large");
  return NULL;
}

static clave_status real_numbers(binary_op op, double x, double y, value *out) {
  double d = 0, other;
  if (op == OP_ADD) d = x + y;
  if (op == OP_SUB) d = x - y;
  if (op == OP_MUL) d = x * y;
  if (op == OP_DIV) {
    if (y == 0) return INVALID("division by zero");
    d = x / y;
  }
  if (op == OP_FLOORDIV) TRY(divide_real(x, y, &d, &other));
  if (op == OP_MOD) TRY(divide_real(x, y, &other, &d));
  if (op == OP_POW) TRY(power_real(x, y, &d));
  *out = value_float(d);
  return NULL;
}

/* Divides integers with one rounding. Doubles are exact up to 2^53. */
static clave_status divide_exactly(int64_t x, int64_t y, value *out) {
  if (y == 0) return INVALID("division by zero");
  const int64_t exact = (int64_t)1 << 53;
  bool fits = x >= -exact && x <= exact && y >= -exact && y <= exact;
  *out = value_float(fits ? (double)x / (double)y : (double)((long double)x / (long double)y));
  return NULL;
}

static clave_status numbers(binary_op op, value left, value right, value *out) {
  bool real = left.kind == VALUE_FLOAT || right.kind == VALUE_FLOAT;
  if (!real && op == OP_DIV)
    return divide_exactly(arithmetic_whole(left), arithmetic_whole(right), out);
  real = real || (op == OP_POW && arithmetic_whole(right) < 0);
  return real ? real_numbers(op, value_real(left), value_real(right), out)
              : whole_numbers(op, arithmetic_whole(left), arithmetic_whole(right), out);
}

/* ---------------------------------------------------------------- strings, lists */

static bool has_html(const string *string) {
  for (size_t i = 0; i < string->size; i++) {
    if (string->data[i] && strchr("&<>'\"", string->data[i])) return true;
  }
  return false;
}

static clave_status add_strings(render *render, const string *left, const string *right,
                                value *out) {
  if (left->escaped != right->escaped && has_html(left->escaped ? right : left)) {
    value safe; /* as in markupsafe, text that is added to escaped text is escaped first */
    TRY(escape_html(render, value_string(left->escaped ? right : left), &safe));
    return left->escaped ? add_strings(render, left, safe.u.text, out)
                         : add_strings(render, safe.u.text, right, out);
  }
  TRY(concat_strings(&render->arena, left, right, out));
  if (!left->escaped && !right->escaped) return NULL;
  string *string;
  TRY(arena_alloc(&render->arena, 1, sizeof *string, &string));
  *string = *out->u.text;
  string->escaped = true;
  *out = value_string(string);
  return NULL;
}

clave_status repeat_string(render *render, const string *string, int64_t times, value *out) {
  builder builder = {0};
  if (string->escaped) return UNSUPPORTED("repeating escaped text is not supported");
  size_t n = times > 0 ? (size_t)times : 0;
  if (string->size && n > JINJA_MAX_OUTPUT / string->size)
    return INVALID("the result is longer than %d bytes", JINJA_MAX_OUTPUT);
  if (string->size == 0) n = 0;
  TRY(arena_charge(&render->arena, n));
  for (size_t i = 0; i < n; i++) builder_add(&builder, string);
  return builder_string(&render->arena, &builder, out);
}

static clave_status join_lists(render *render, value_kind kind, const list *left, const list *right,
                               value *out) {
  TRY(make_list(&render->arena, kind, left->count + right->count, out));
  for (size_t i = 0; i < left->count; i++)
    TRY(list_add(&render->arena, out->u.list, left->items[i]));
  for (size_t i = 0; i < right->count; i++)
    TRY(list_add(&render->arena, out->u.list, right->items[i]));
  return NULL;
}

static clave_status repeat_list(render *render, value left, int64_t times, value *out) {
  TRY(make_list(&render->arena, (value_kind)left.kind, 0, out));
  for (int64_t i = 0; i < times && left.u.list->count; i++) {
    for (size_t k = 0; k < left.u.list->count; k++)
      TRY(list_add(&render->arena, out->u.list, left.u.list->items[k]));
  }
  return NULL;
}

static clave_status arithmetic_multiply(render *render, value left, value right, value *out) {
  bool sequence = left.kind == VALUE_STRING || left.kind == VALUE_LIST || left.kind == VALUE_TUPLE;
  value value = sequence ? left : right, result = sequence ? right : left;
  if (value.kind == VALUE_STRING)
    return repeat_string(render, value.u.text, arithmetic_whole(result), out);
  return repeat_list(render, value, arithmetic_whole(result), out);
}

static bool arithmetic_is_whole(value value) {
  return value.kind == VALUE_INT || value.kind == VALUE_BOOL;
}
static bool arithmetic_is_sequence(value value) {
  return value.kind == VALUE_STRING || value.kind == VALUE_LIST || value.kind == VALUE_TUPLE;
}

clave_status arithmetic(render *render, binary_op op, value left, value right, value *out) {
  static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
  if (value_number(left) && value_number(right)) return numbers(op, left, right, out);
  if (op == OP_MOD && left.kind == VALUE_STRING && left.u.text->escaped)
    return UNSUPPORTED("%% of escaped text is not supported");
  if (op == OP_MOD && left.kind == VALUE_STRING)
    return format_percent(render, left.u.text, right, out);
  TRY(refuse_undefined(left));
  TRY(refuse_undefined(right));
  bool same = left.kind == right.kind;
  if (op == OP_ADD && same && left.kind == VALUE_STRING)
    return add_strings(render, left.u.text, right.u.text, out);
  if (op == OP_ADD && same && arithmetic_is_sequence(left))
    return join_lists(render, (value_kind)left.kind, left.u.list, right.u.list, out);
  if (op == OP_MUL && ((arithmetic_is_sequence(left) && arithmetic_is_whole(right)) ||
                       (arithmetic_is_whole(left) && arithmetic_is_sequence(right))))
    return arithmetic_multiply(render, left, right, out);
  return INVALID("unsupported operand types for %s: '%s' and '%s'", names[op], value_type(left),
                 value_type(right));
}

/* ---------------------------------------------------------------- comparisons */

static clave_status order(render *render, binary_op op, value left, value right, bool *out) {
  static const char *const names[] = {"<", "<=", ">", ">="};
  int order;
  TRY(refuse_undefined(left));
  TRY(refuse_undefined(right));
  TRY(value_order(&render->arena, left, right, names[op - OP_LT], &order));
  bool less = order == -1, more = order == 1, equal = order == 0;
  *out = op == OP_LT ? less : op == OP_LE ? less || equal : op == OP_GT ? more : more || equal;
  return NULL;
}

clave_status compare(render *render, binary_op op, value left, value right, bool *out) {
  if (op == OP_EQ || op == OP_NE) {
    TRY(value_equal(&render->arena, left, right, out));
    if (op == OP_NE) *out = !*out;
    return NULL;
  }
  if (op == OP_IN || op == OP_NOT_IN) {
    TRY(value_contains(&render->arena, left, right, out));
    if (op == OP_NOT_IN) *out = !*out;
    return NULL;
  }
  return order(render, op, left, right, out);
}
