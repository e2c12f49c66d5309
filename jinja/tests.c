/* The tests behind `is`. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/render.h"
#include "jinja/unicode.h"

static clave_status is_defined(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind != VALUE_UNDEFINED;
  return NULL;
}
static clave_status is_undefined(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_UNDEFINED;
  return NULL;
}
static clave_status is_none(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_NONE;
  return NULL;
}
static clave_status is_boolean(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_BOOL;
  return NULL;
}
static clave_status is_true(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_BOOL && v.u.truth;
  return NULL;
}
static clave_status is_false(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_BOOL && !v.u.truth;
  return NULL;
}
static clave_status is_integer(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_INT;
  return NULL;
}
static clave_status is_float(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_FLOAT;
  return NULL;
}
static clave_status is_number(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = value_number(v);
  return NULL;
}
static clave_status is_string(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_STRING;
  return NULL;
}
static clave_status is_mapping(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_DICT;
  return NULL;
}

/* What has a length and can be subscripted: views and iterators cannot, undefined fails nowhere. */
static clave_status is_sequence(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_STRING || v.kind == VALUE_LIST || v.kind == VALUE_TUPLE ||
         v.kind == VALUE_DICT || v.kind == VALUE_RANGE || v.kind == VALUE_UNDEFINED;
  return NULL;
}
static clave_status is_iterable(render *r, value v, const value *other, bool *out) {
  TRY(is_sequence(r, v, other, out));
  *out = *out || v.kind == VALUE_VIEW || v.kind == VALUE_ITERATOR || v.kind == VALUE_LOOP;
  return NULL;
}
static clave_status is_callable(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  /* An undefined value has a __call__, which raises. */
  *out = v.kind == VALUE_MACRO || v.kind == VALUE_METHOD || v.kind == VALUE_FUNCTION ||
         v.kind == VALUE_UNDEFINED || v.kind == VALUE_LOOP;
  return NULL;
}
static clave_status is_escaped(render *r, value v, const value *other, bool *out) {
  (void)r, (void)other;
  *out = v.kind == VALUE_STRING && v.u.text->escaped;
  return NULL;
}

static clave_status modulo(render *r, value v, value by, value *out) {
  TRY(refuse_undefined(v));
  if (v.kind == VALUE_STRING) return UNSUPPORTED("a string as a number is not supported");
  return arithmetic(r, OP_MOD, v, by, out);
}
static clave_status rest_is(render *r, value v, value by, int64_t what, bool *out) {
  value rest;
  TRY(modulo(r, v, by, &rest));
  return value_equal(&r->arena, rest, value_int(what), out);
}
static clave_status is_odd(render *r, value v, const value *other, bool *out) {
  (void)other;
  return rest_is(r, v, value_int(2), 1, out);
}
static clave_status is_even(render *r, value v, const value *other, bool *out) {
  (void)other;
  return rest_is(r, v, value_int(2), 0, out);
}
static clave_status is_divisible(render *r, value v, const value *other, bool *out) {
  return rest_is(r, v, *other, 0, out);
}

static clave_status one_case(render *r, value v, bool upper, bool *out) {
  value s;
  bool any = false, all = true;
  TRY(make_str(&r->arena, v, &s));
  for (size_t at = 0; at < s.u.text->size;) {
    uint32_t c;
    at += utf8_read(s.u.text->data + at, &c);
    any |= upper ? is_upper(c) : is_lower(c);
    all &= !is_cased(c) || (upper ? is_upper(c) : is_lower(c));
  }
  *out = any && all;
  return NULL;
}
static clave_status is_upper_case(render *r, value v, const value *other, bool *out) {
  (void)other;
  return one_case(r, v, true, out);
}
static clave_status is_lower_case(render *r, value v, const value *other, bool *out) {
  (void)other;
  return one_case(r, v, false, out);
}

static clave_status is_equal(render *r, value v, const value *other, bool *out) {
  return compare(r, OP_EQ, v, *other, out);
}
static clave_status is_unequal(render *r, value v, const value *other, bool *out) {
  return compare(r, OP_NE, v, *other, out);
}
static clave_status is_less(render *r, value v, const value *other, bool *out) {
  return compare(r, OP_LT, v, *other, out);
}
static clave_status is_at_most(render *r, value v, const value *other, bool *out) {
  return compare(r, OP_LE, v, *other, out);
}
static clave_status is_greater(render *r, value v, const value *other, bool *out) {
  return compare(r, OP_GT, v, *other, out);
}
static clave_status is_at_least(render *r, value v, const value *other, bool *out) {
  return compare(r, OP_GE, v, *other, out);
}
static clave_status is_in(render *r, value v, const value *other, bool *out) {
  return value_contains(&r->arena, v, *other, out);
}

/* The same object: small values are the same where they are equal. */
static clave_status is_same(render *r, value v, const value *other, bool *out) {
  *out = false;
  if (v.kind != other->kind) return NULL;
  if (v.kind == VALUE_NONE || v.kind == VALUE_BOOL) return value_equal(&r->arena, v, *other, out);
  return UNSUPPORTED("sameas of '%s' is not supported", value_type(v));
}

static clave_status check_hashable(render *r, value v) {
  value none, *found;
  TRY(make_dict(&r->arena, VALUE_DICT, &none));
  return dict_find(none.u.dict, v, &found);
}

static clave_status names_filter(render *r, value v, const value *other, bool *out) {
  (void)other;
  value name;
  *out = false;
  if (v.kind != VALUE_STRING) return check_hashable(r, v);
  TRY(make_string(&r->arena, v.u.text->data, v.u.text->size, &name));
  *out = filter_index(name.u.text->data) != -1;
  return NULL;
}
static clave_status names_test(render *r, value v, const value *other, bool *out) {
  (void)other;
  value name;
  *out = false;
  if (v.kind != VALUE_STRING) return check_hashable(r, v);
  TRY(make_string(&r->arena, v.u.text->data, v.u.text->size, &name));
  *out = test_index(name.u.text->data) != -1;
  return NULL;
}

/* ---------------------------------------------------------------- the table */

static const struct {
  const char *name;
  clave_status (*call)(render *r, value v, const value *other, bool *out);
  const char *parameter; /* of `other`, NULL: none */
} tests[] = {{"defined", is_defined, NULL},
             {"none", is_none, NULL},
             {"string", is_string, NULL},
             {"mapping", is_mapping, NULL},
             {"iterable", is_iterable, NULL},
             {"sequence", is_sequence, NULL},
             {"undefined", is_undefined, NULL},
             {"boolean", is_boolean, NULL},
             {"true", is_true, NULL},
             {"false", is_false, NULL},
             {"integer", is_integer, NULL},
             {"float", is_float, NULL},
             {"number", is_number, NULL},
             {"odd", is_odd, NULL},
             {"even", is_even, NULL},
             {"divisibleby", is_divisible, "num"},
             {"equalto", is_equal, "b"},
             {"eq", is_equal, "b"},
             {"==", is_equal, "b"},
             {"ne", is_unequal, "b"},
             {"!=", is_unequal, "b"},
             {"lt", is_less, "b"},
             {"lessthan", is_less, "b"},
             {"<", is_less, "b"},
             {"le", is_at_most, "b"},
             {"<=", is_at_most, "b"},
             {"gt", is_greater, "b"},
             {"greaterthan", is_greater, "b"},
             {">", is_greater, "b"},
             {"ge", is_at_least, "b"},
             {">=", is_at_least, "b"},
             {"in", is_in, "seq"},
             {"sameas", is_same, "other"},
             {"callable", is_callable, NULL},
             {"lower", is_lower_case, NULL},
             {"upper", is_upper_case, NULL},
             {"escaped", is_escaped, NULL},
             {"filter", names_filter, NULL},
             {"test", names_test, NULL}};

int test_index(const char *name) {
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (strcmp(tests[i].name, name) == 0) return (int)i;
  }
  return -1;
}

clave_status call_test(render *r, int index, value input, const call_args *args, bool *out) {
  signature s = {{tests[index].parameter}, tests[index].parameter != NULL};
  bound b;
  if (is_template_itself(input) && tests[index].call != is_defined &&
      tests[index].call != is_undefined && tests[index].call != is_none)
    return UNSUPPORTED("the test '%s' of 'self' is not supported", tests[index].name);
  if (!s.required && !args->count && !args->n_named) return tests[index].call(r, input, NULL, out);
  TRY(bind_args(tests[index].name, &s, args, &b));
  return tests[index].call(r, input, b.v, out);
}
