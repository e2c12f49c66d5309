/* Operators, with Python's rules. Integers are of 64 bits: what does not fit is an error. */
#include <math.h>
#include <string.h>

#include "jinja/render.h"

static clave_status overflow(void) { return INVALID("an integer of more than 64 bits"); }

static int64_t whole(value v) { return v.kind == VALUE_BOOL ? (int64_t)v.u.truth : v.u.integer; }

clave_status negate(value x, value *out) {
  int64_t i;
  if (x.kind == VALUE_FLOAT) {
    *out = value_float(-x.u.real);
    return NULL;
  }
  if (__builtin_sub_overflow((int64_t)0, whole(x), &i)) return overflow();
  *out = value_int(i);
  return NULL;
}

/* ---------------------------------------------------------------- integers */

/* Rounded down; the remainder has the divisor's sign. */
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
  if (isinf(*out) && isfinite(x) && isfinite(y)) return INVALID("a float that is too large");
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

/* The division of integers is rounded once; doubles are exact up to 2^53. */
static clave_status divide_exactly(int64_t x, int64_t y, value *out) {
  if (y == 0) return INVALID("division by zero");
  const int64_t exact = (int64_t)1 << 53;
  bool fits = x >= -exact && x <= exact && y >= -exact && y <= exact;
  *out = value_float(fits ? (double)x / (double)y : (double)((long double)x / (long double)y));
  return NULL;
}

static clave_status numbers(binary_op op, value x, value y, value *out) {
  bool real = x.kind == VALUE_FLOAT || y.kind == VALUE_FLOAT;
  if (!real && op == OP_DIV) return divide_exactly(whole(x), whole(y), out);
  real = real || (op == OP_POW && whole(y) < 0);
  return real ? real_numbers(op, value_real(x), value_real(y), out)
              : whole_numbers(op, whole(x), whole(y), out);
}

/* ---------------------------------------------------------------- strings, lists */

static bool has_html(const string *s) {
  for (size_t i = 0; i < s->size; i++) {
    if (s->data[i] && strchr("&<>'\"", s->data[i])) return true;
  }
  return false;
}

static clave_status add_strings(render *r, const string *x, const string *y, value *out) {
  if (x->escaped != y->escaped && has_html(x->escaped ? y : x)) {
    value safe; /* as markupsafe does: the filter safe changes what is added to its result */
    TRY(escape_html(r, value_string(x->escaped ? y : x), &safe));
    return x->escaped ? add_strings(r, x, safe.u.text, out) : add_strings(r, safe.u.text, y, out);
  }
  TRY(concat_strings(&r->arena, x, y, out));
  if (!x->escaped && !y->escaped) return NULL;
  string *s;
  TRY(arena_alloc(&r->arena, 1, sizeof *s, &s));
  *s = *out->u.text;
  s->escaped = true;
  *out = value_string(s);
  return NULL;
}

clave_status repeat_string(render *r, const string *s, int64_t times, value *out) {
  builder b = {0};
  if (s->escaped) return UNSUPPORTED("repeating escaped text is not supported");
  size_t n = times > 0 ? (size_t)times : 0;
  if (s->size && n > JINJA_MAX_OUTPUT / s->size)
    return INVALID("a text of more than %d bytes", JINJA_MAX_OUTPUT);
  if (s->size == 0) n = 0;
  TRY(arena_charge(&r->arena, n));
  for (size_t i = 0; i < n; i++) builder_add(&b, s);
  return builder_string(&r->arena, &b, out);
}

static clave_status join_lists(render *r, value_kind kind, const list *x, const list *y,
                               value *out) {
  TRY(make_list(&r->arena, kind, x->count + y->count, out));
  for (size_t i = 0; i < x->count; i++) TRY(list_add(&r->arena, out->u.list, x->items[i]));
  for (size_t i = 0; i < y->count; i++) TRY(list_add(&r->arena, out->u.list, y->items[i]));
  return NULL;
}

static clave_status repeat_list(render *r, value l, int64_t times, value *out) {
  TRY(make_list(&r->arena, (value_kind)l.kind, 0, out));
  for (int64_t i = 0; i < times && l.u.list->count; i++) {
    for (size_t k = 0; k < l.u.list->count; k++)
      TRY(list_add(&r->arena, out->u.list, l.u.list->items[k]));
  }
  return NULL;
}

static clave_status multiply(render *r, value x, value y, value *out) {
  bool sequence = x.kind == VALUE_STRING || x.kind == VALUE_LIST || x.kind == VALUE_TUPLE;
  value s = sequence ? x : y, n = sequence ? y : x;
  if (s.kind == VALUE_STRING) return repeat_string(r, s.u.text, whole(n), out);
  return repeat_list(r, s, whole(n), out);
}

static bool is_whole(value v) { return v.kind == VALUE_INT || v.kind == VALUE_BOOL; }
static bool is_sequence(value v) {
  return v.kind == VALUE_STRING || v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

clave_status arithmetic(render *r, binary_op op, value x, value y, value *out) {
  static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
  if (value_number(x) && value_number(y)) return numbers(op, x, y, out);
  if (op == OP_MOD && x.kind == VALUE_STRING && x.u.text->escaped)
    return UNSUPPORTED("%% of escaped text is not supported");
  if (op == OP_MOD && x.kind == VALUE_STRING) return format_percent(r, x.u.text, y, out);
  TRY(refuse_undefined(x));
  TRY(refuse_undefined(y));
  bool same = x.kind == y.kind;
  if (op == OP_ADD && same && x.kind == VALUE_STRING)
    return add_strings(r, x.u.text, y.u.text, out);
  if (op == OP_ADD && same && is_sequence(x))
    return join_lists(r, (value_kind)x.kind, x.u.list, y.u.list, out);
  if (op == OP_MUL && ((is_sequence(x) && is_whole(y)) || (is_whole(x) && is_sequence(y))))
    return multiply(r, x, y, out);
  return INVALID("unsupported operand types for %s: '%s' and '%s'", names[op], value_type(x),
                 value_type(y));
}

/* ---------------------------------------------------------------- comparisons */

static clave_status order(render *r, binary_op op, value x, value y, bool *out) {
  static const char *const names[] = {"<", "<=", ">", ">="};
  int way;
  TRY(refuse_undefined(x));
  TRY(refuse_undefined(y));
  TRY(value_order(&r->arena, x, y, names[op - OP_LT], &way));
  bool less = way == -1, more = way == 1, equal = way == 0;
  *out = op == OP_LT ? less : op == OP_LE ? less || equal : op == OP_GT ? more : more || equal;
  return NULL;
}

clave_status compare(render *r, binary_op op, value x, value y, bool *out) {
  if (op == OP_EQ || op == OP_NE) {
    TRY(value_equal(&r->arena, x, y, out));
    if (op == OP_NE) *out = !*out;
    return NULL;
  }
  if (op == OP_IN || op == OP_NOT_IN) {
    TRY(value_contains(&r->arena, x, y, out));
    if (op == OP_NOT_IN) *out = !*out;
    return NULL;
  }
  return order(r, op, x, y, out);
}
