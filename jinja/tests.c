/* The tests used with `is`. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/render.h"
#include "jinja/unicode.h"

static clave_status is_defined(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind != VALUE_UNDEFINED;
  return NULL;
}
static clave_status is_undefined(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_UNDEFINED;
  return NULL;
}
static clave_status is_none(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_NONE;
  return NULL;
}
static clave_status is_boolean(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_BOOL;
  return NULL;
}
static clave_status tests_is_true(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_BOOL && subject.u.truth;
  return NULL;
}
static clave_status is_false(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_BOOL && !subject.u.truth;
  return NULL;
}
static clave_status tests_is_integer(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_INT;
  return NULL;
}
static clave_status tests_is_float(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_FLOAT;
  return NULL;
}
static clave_status tests_is_number(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = value_number(subject);
  return NULL;
}
static clave_status is_string(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_STRING;
  return NULL;
}
static clave_status is_mapping(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_DICT;
  return NULL;
}

/* True for values with a length and subscripts. Views and iterators do not have both; undefined
 * values do. */
static clave_status tests_is_sequence(render *render, value subject, const value *other,
                                      bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_STRING || subject.kind == VALUE_LIST ||
         subject.kind == VALUE_TUPLE || subject.kind == VALUE_DICT || subject.kind == VALUE_RANGE ||
         subject.kind == VALUE_UNDEFINED;
  return NULL;
}
static clave_status is_iterable(render *render, value subject, const value *other, bool *out) {
  TRY(tests_is_sequence(render, subject, other, out));
  *out = *out || subject.kind == VALUE_VIEW || subject.kind == VALUE_ITERATOR ||
         subject.kind == VALUE_LOOP;
  return NULL;
}
static clave_status is_callable(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  /* Undefined values have a __call__, which raises. */
  *out = subject.kind == VALUE_MACRO || subject.kind == VALUE_METHOD ||
         subject.kind == VALUE_FUNCTION || subject.kind == VALUE_UNDEFINED ||
         subject.kind == VALUE_LOOP;
  return NULL;
}
static clave_status is_escaped(render *render, value subject, const value *other, bool *out) {
  (void)render, (void)other;
  *out = subject.kind == VALUE_STRING && subject.u.text->escaped;
  return NULL;
}

static clave_status modulo(render *render, value subject, value by, value *out) {
  TRY(refuse_undefined(subject));
  if (subject.kind == VALUE_STRING) return UNSUPPORTED("a string as a number is not supported");
  return arithmetic(render, OP_MOD, subject, by, out);
}
static clave_status rest_is(render *render, value subject, value by, int64_t what, bool *out) {
  value rest;
  TRY(modulo(render, subject, by, &rest));
  return value_equal(&render->arena, rest, value_int(what), out);
}
static clave_status is_odd(render *render, value subject, const value *other, bool *out) {
  (void)other;
  return rest_is(render, subject, value_int(2), 1, out);
}
static clave_status tests_is_even(render *render, value subject, const value *other, bool *out) {
  (void)other;
  return rest_is(render, subject, value_int(2), 0, out);
}
static clave_status is_divisible(render *render, value subject, const value *other, bool *out) {
  return rest_is(render, subject, *other, 0, out);
}

static clave_status tests_one_case(render *render, value result, bool upper, bool *out) {
  value value;
  bool any = false, all = true;
  TRY(make_str(&render->arena, result, &value));
  for (size_t at = 0; at < value.u.text->size;) {
    uint32_t c;
    at += utf8_read(value.u.text->data + at, &c);
    any |= upper ? is_upper(c) : is_lower(c);
    all &= !is_cased(c) || (upper ? is_upper(c) : is_lower(c));
  }
  *out = any && all;
  return NULL;
}
static clave_status is_upper_case(render *render, value subject, const value *other, bool *out) {
  (void)other;
  return tests_one_case(render, subject, true, out);
}
static clave_status is_lower_case(render *render, value subject, const value *other, bool *out) {
  (void)other;
  return tests_one_case(render, subject, false, out);
}

static clave_status is_equal(render *render, value subject, const value *other, bool *out) {
  return compare(render, OP_EQ, subject, *other, out);
}
static clave_status is_unequal(render *render, value subject, const value *other, bool *out) {
  return compare(render, OP_NE, subject, *other, out);
}
static clave_status is_less(render *render, value subject, const value *other, bool *out) {
  return compare(render, OP_LT, subject, *other, out);
}
static clave_status is_at_most(render *render, value subject, const value *other, bool *out) {
  return compare(render, OP_LE, subject, *other, out);
}
static clave_status is_greater(render *render, value subject, const value *other, bool *out) {
  return compare(render, OP_GT, subject, *other, out);
}
static clave_status is_at_least(render *render, value subject, const value *other, bool *out) {
  return compare(render, OP_GE, subject, *other, out);
}
static clave_status is_in(render *render, value subject, const value *other, bool *out) {
  return value_contains(&render->arena, subject, *other, out);
}

/* Tests identity. For none and booleans it is the same as equality; other kinds are not
 * supported. */
static clave_status tests_is_same(render *render, value subject, const value *other, bool *out) {
  *out = false;
  if (subject.kind != other->kind) return NULL;
  if (subject.kind == VALUE_NONE || subject.kind == VALUE_BOOL)
    return value_equal(&render->arena, subject, *other, out);
  return UNSUPPORTED("sameas of '%s' is not supported", value_type(subject));
}

static clave_status check_hashable(render *render, value result) {
  value none, *found;
  TRY(make_dict(&render->arena, VALUE_DICT, &none));
  return dict_find(none.u.dict, result, &found);
}

static clave_status names_filter(render *render, value subject, const value *other, bool *out) {
  (void)other;
  value name;
  *out = false;
  if (subject.kind != VALUE_STRING) return check_hashable(render, subject);
  TRY(make_string(&render->arena, subject.u.text->data, subject.u.text->size, &name));
  *out = filter_index(name.u.text->data) != -1;
  return NULL;
}
static clave_status names_test(render *render, value subject, const value *other, bool *out) {
  (void)other;
  value name;
  *out = false;
  if (subject.kind != VALUE_STRING) return check_hashable(render, subject);
  TRY(make_string(&render->arena, subject.u.text->data, subject.u.text->size, &name));
  *out = test_index(name.u.text->data) != -1;
  return NULL;
}

/* ---------------------------------------------------------------- table */

static const struct {
  const char *name;
  clave_status (*call)(render *render, value result, const value *other, bool *out);
  const char *parameter; /* name of `other`; NULL if none exists */
} tests[] = {{"defined", is_defined, NULL},
             {"none", is_none, NULL},
             {"string", is_string, NULL},
             {"mapping", is_mapping, NULL},
             {"iterable", is_iterable, NULL},
             {"sequence", tests_is_sequence, NULL},
             {"undefined", is_undefined, NULL},
             {"boolean", is_boolean, NULL},
             {"true", tests_is_true, NULL},
             {"false", is_false, NULL},
             {"integer", tests_is_integer, NULL},
             {"float", tests_is_float, NULL},
             {"number", tests_is_number, NULL},
             {"odd", is_odd, NULL},
             {"even", tests_is_even, NULL},
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
             {"sameas", tests_is_same, "other"},
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

clave_status call_test(render *render, int index, value input, const call_args *args, bool *out) {
  signature signature = {{tests[index].parameter}, tests[index].parameter != NULL};
  bound bound;
  if (is_template_itself(input) && tests[index].call != is_defined &&
      tests[index].call != is_undefined && tests[index].call != is_none)
    return UNSUPPORTED("the test '%s' of 'self' is not supported", tests[index].name);
  if (!signature.required && !args->count && !args->n_named)
    return tests[index].call(render, input, NULL, out);
  TRY(bind_args(tests[index].name, &signature, args, &bound));
  return tests[index].call(render, input, bound.v, out);
}
