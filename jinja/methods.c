/* The methods of str, dict, list, tuple and loop. */
#include <string.h>

#include "base/utf8.h"
#include "jinja/render.h"
#include "jinja/unicode.h"

typedef clave_status (*method_function)(render *render, value self, const bound *bound, value *out);

/* Sets *out to a string argument, or to NULL if it is None or not given. */
static clave_status optional_string(const bound *bound, size_t i, const string **out) {
  *out = NULL;
  return bound->given[i] && bound->v[i].kind != VALUE_NONE ? want_string(bound->v[i], out) : NULL;
}

/* ---------------------------------------------------------------- str: text from text */

static clave_status str_lower(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return string_case(render, subject.u.text, CHANGE_LOWER, out);
}
static clave_status str_upper(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return string_case(render, subject.u.text, CHANGE_UPPER, out);
}
static clave_status str_title(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return string_case(render, subject.u.text, CHANGE_TITLE, out);
}
static clave_status str_capitalize(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return string_case(render, subject.u.text, CHANGE_CAPITALIZE, out);
}
static clave_status str_swapcase(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return string_case(render, subject.u.text, CHANGE_SWAP, out);
}

static clave_status strip(render *render, value subject, const bound *bound, strip_side side,
                          value *out) {
  const string *chars;
  TRY(optional_string(bound, 0, &chars));
  return string_strip(render, subject.u.text, chars, side, out);
}
static clave_status str_strip(render *render, value subject, const bound *bound, value *out) {
  return strip(render, subject, bound, STRIP_BOTH, out);
}
static clave_status str_lstrip(render *render, value subject, const bound *bound, value *out) {
  return strip(render, subject, bound, STRIP_LEFT, out);
}
static clave_status str_rstrip(render *render, value subject, const bound *bound, value *out) {
  return strip(render, subject, bound, STRIP_RIGHT, out);
}

static clave_status str_replace(render *render, value subject, const bound *bound, value *out) {
  const string *old, *new;
  int64_t most;
  TRY(want_string(bound->v[0], &old));
  TRY(want_string(bound->v[1], &new));
  TRY(bound_integer(bound, 2, -1, &most));
  return string_replace(render, subject.u.text, old, new, most, out);
}

static clave_status remove_affix(render *render, value subject, const bound *bound, bool prefix,
                                 value *out) {
  const string *affix, *string = subject.u.text;
  TRY(want_string(bound->v[0], &affix));
  *out = subject;
  if (affix->size > string->size) return NULL;
  size_t at = prefix ? 0 : string->size - affix->size;
  if (affix->size && memcmp(string->data + at, affix->data, affix->size) != 0) return NULL;
  return make_part(&render->arena, string, prefix ? affix->size : 0, string->size - affix->size,
                   out);
}
static clave_status str_removeprefix(render *render, value subject, const bound *bound,
                                     value *out) {
  return remove_affix(render, subject, bound, true, out);
}
static clave_status str_removesuffix(render *render, value subject, const bound *bound,
                                     value *out) {
  return remove_affix(render, subject, bound, false, out);
}

/* Pads to a width: on both sides (side 0), on the right (side < 0) or on the left (side > 0). */
static clave_status jinja_methods_pad(render *render, value subject, const bound *bound, int side,
                                      value *out) {
  int64_t width, missing, before;
  const string *fill;
  value space;
  TRY(make_text(&render->arena, " ", &space));
  TRY(bound_integer(bound, 0, 0, &width));
  TRY(optional_string(bound, 1, &fill));
  if (!fill) fill = space.u.text;
  if (string_length(fill) != 1) return INVALID("the fill character must be exactly one");
  missing = width - (int64_t)string_length(subject.u.text);
  *out = subject;
  if (missing <= 0) return NULL;
  before = side == 0 ? missing / 2 + (missing & width & 1) : side < 0 ? 0 : missing;
  value left, right;
  TRY(repeat_string(render, fill, before, &left));
  TRY(repeat_string(render, fill, missing - before, &right));
  list parts = {.items = (value[]){left, subject, right}, .count = 3};
  value none;
  TRY(make_text(&render->arena, "", &none));
  return string_join(render, none.u.text, &parts, false, out);
}
static clave_status str_center(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_pad(render, subject, bound, 0, out);
}
static clave_status str_ljust(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_pad(render, subject, bound, -1, out);
}
static clave_status str_rjust(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_pad(render, subject, bound, 1, out);
}

static clave_status str_zfill(render *render, value subject, const bound *bound, value *out) {
  int64_t width, missing;
  const string *str = subject.u.text;
  builder built = {0};
  TRY(want_integer(bound->v[0], &width));
  missing = width - (int64_t)string_length(str);
  if (missing > JINJA_MAX_OUTPUT)
    return INVALID("the result is longer than %d bytes", JINJA_MAX_OUTPUT);
  size_t sign = str->size && (*str->data == '-' || *str->data == '+');
  string head = {.data = str->data, .size = sign, .mask = str->mask, .untrusted = str->untrusted};
  string rest = {.data = str->data + sign,
                 .size = str->size - sign,
                 .mask = str->mask ? str->mask + sign : NULL,
                 .untrusted = str->untrusted};
  builder_add(&built, &head);
  for (int64_t i = 0; i < missing; i++) builder_puts(&built, "0");
  builder_add(&built, &rest);
  return builder_string(&render->arena, &built, out);
}

/* ---------------------------------------------------------------- str: lists */

static clave_status split(render *render, value subject, const bound *bound, bool from_right,
                          value *out) {
  const string *separator;
  int64_t most;
  TRY(optional_string(bound, 0, &separator));
  TRY(bound_integer(bound, 1, -1, &most));
  return string_split(render, subject.u.text, separator, most < 0 ? -1 : most, from_right, out);
}
static clave_status str_split(render *render, value subject, const bound *bound, value *out) {
  return split(render, subject, bound, false, out);
}
static clave_status str_rsplit(render *render, value subject, const bound *bound, value *out) {
  return split(render, subject, bound, true, out);
}

static clave_status str_splitlines(render *render, value subject, const bound *bound, value *out) {
  return string_lines(render, subject.u.text, bound->given[0] && value_truth(bound->v[0]), out);
}

static clave_status partition(render *render, value subject, const bound *bound, bool last,
                              value *out) {
  const string *separator, *string = subject.u.text;
  value parts, empty;
  TRY(want_string(bound->v[0], &separator));
  TRY(make_text(&render->arena, "", &empty));
  TRY(string_split(render, string, separator, 1, last, &parts));
  list *list = parts.u.list;
  TRY(make_list(&render->arena, VALUE_TUPLE, 3, out));
  bool found = list->count == 2;
  value first = found || !last ? list->items[0] : empty;
  TRY(list_add(&render->arena, out->u.list, first));
  TRY(list_add(&render->arena, out->u.list, found ? value_string(separator) : empty));
  return list_add(&render->arena, out->u.list,
                  found  ? list->items[1]
                  : last ? list->items[0]
                         : empty);
}
static clave_status str_partition(render *render, value subject, const bound *bound, value *out) {
  return partition(render, subject, bound, false, out);
}
static clave_status str_rpartition(render *render, value subject, const bound *bound, value *out) {
  return partition(render, subject, bound, true, out);
}

static clave_status str_join(render *render, value subject, const bound *bound, value *out) {
  list items;
  TRY(refuse_undefined(bound->v[0].kind == VALUE_UNDEFINED ? value_none() : bound->v[0]));
  TRY(value_items(&render->arena, bound->v[0], &items));
  return string_join(render, subject.u.text, &items, false, out);
}

/* ---------------------------------------------------------------- str: queries */

static clave_status bounds_of(const bound *bound, int64_t range[2]) {
  range[0] = 0;
  range[1] = INT64_MAX;
  for (size_t i = 0; i < 2; i++) {
    if (bound->given[i + 1] && bound->v[i + 1].kind != VALUE_NONE)
      TRY(want_integer(bound->v[i + 1], &range[i]));
  }
  return NULL;
}

static clave_status jinja_methods_find(render *render, value subject, const bound *bound, bool last,
                                       bool required, value *out) {
  const string *what;
  int64_t range[2], at;
  TRY(want_string(bound->v[0], &what));
  TRY(bounds_of(bound, range));
  TRY(string_find(render, subject.u.text, what, range, last, &at));
  if (required && at < 0) return INVALID("substring not found");
  *out = value_int(at);
  return NULL;
}
static clave_status str_find(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_find(render, subject, bound, false, false, out);
}
static clave_status str_rfind(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_find(render, subject, bound, true, false, out);
}
static clave_status str_index(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_find(render, subject, bound, false, true, out);
}
static clave_status str_rindex(render *render, value subject, const bound *bound, value *out) {
  return jinja_methods_find(render, subject, bound, true, true, out);
}

static clave_status str_count(render *render, value subject, const bound *bound, value *out) {
  const string *what;
  int64_t range[2], at, n = 0;
  TRY(want_string(bound->v[0], &what));
  TRY(bounds_of(bound, range));
  for (;;) {
    TRY(string_find(render, subject.u.text, what, range, false, &at));
    if (at < 0) break;
    n++;
    range[0] = at + (what->size ? (int64_t)string_length(what) : 1);
  }
  *out = value_int(n);
  return NULL;
}

static bool has_affix(const string *subject, const string *affix, bool prefix) {
  return affix->size <= subject->size &&
         memcmp(subject->data + (prefix ? 0 : subject->size - affix->size), affix->data,
                affix->size) == 0;
}

static clave_status affix_test(render *render, value subject, const bound *bound, bool prefix,
                               value *out) {
  value what = bound->v[0], cut;
  int64_t range[2];
  list one = {.items = &what, .count = 1}, *all = what.kind == VALUE_TUPLE ? what.u.list : &one;
  TRY(bounds_of(bound, range));
  *out = value_bool(false);
  if (range[0] > (int64_t)string_length(subject.u.text)) return NULL;
  TRY(get_slice(render, subject, (value[]){value_int(range[0]), value_int(range[1]), value_none()},
                &cut));
  for (size_t i = 0; i < all->count; i++) {
    const string *affix;
    TRY(want_string(all->items[i], &affix));
    if (has_affix(cut.u.text, affix, prefix)) *out = value_bool(true);
  }
  return NULL;
}
static clave_status str_startswith(render *render, value subject, const bound *bound, value *out) {
  return affix_test(render, subject, bound, true, out);
}
static clave_status str_endswith(render *render, value subject, const bound *bound, value *out) {
  return affix_test(render, subject, bound, false, out);
}

static clave_status all_characters(value subject, bool (*is)(uint32_t), value *out) {
  bool all = subject.u.text->size > 0;
  for (size_t at = 0; at < subject.u.text->size && all;) {
    uint32_t c;
    at += utf8_read(subject.u.text->data + at, &c);
    all = is(c);
  }
  *out = value_bool(all);
  return NULL;
}
static bool jinja_methods_is_ascii(uint32_t c) { return c < 0x80; }
static clave_status str_isspace(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  return all_characters(subject, is_space, out);
}
static clave_status str_isalpha(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  return all_characters(subject, is_alpha, out);
}
static clave_status str_isdecimal(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  return all_characters(subject, is_decimal, out);
}
static clave_status str_isascii(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  if (subject.u.text->size) return all_characters(subject, jinja_methods_is_ascii, out);
  *out = value_bool(true);
  return NULL;
}

/* Python's isdigit also accepts other characters, such as superscripts. The callers reject text
 * beyond ASCII, for which the results would differ. */
static bool is_digit_or_refused(uint32_t c) { return is_decimal(c); }
static clave_status str_isdigit(render *render, value subject, const bound *bound, value *out) {
  value ascii;
  TRY(str_isascii(render, subject, bound, &ascii));
  if (!ascii.u.truth) return UNSUPPORTED("isdigit of characters beyond ASCII is not supported");
  return all_characters(subject, is_digit_or_refused, out);
}
static bool is_alnum_ascii(uint32_t c) { return is_alpha(c) || is_decimal(c); }
static clave_status str_isalnum(render *render, value subject, const bound *bound, value *out) {
  value ascii;
  TRY(str_isascii(render, subject, bound, &ascii));
  if (!ascii.u.truth) return UNSUPPORTED("isalnum of characters beyond ASCII is not supported");
  return all_characters(subject, is_alnum_ascii, out);
}

static clave_status jinja_methods_one_case(value subject, bool upper, value *out) {
  bool any = false, all = true;
  for (size_t at = 0; at < subject.u.text->size;) {
    uint32_t c;
    at += utf8_read(subject.u.text->data + at, &c);
    any |= upper ? is_upper(c) : is_lower(c);
    all &= !is_cased(c) || (upper ? is_upper(c) : is_lower(c));
  }
  *out = value_bool(any && all);
  return NULL;
}
static clave_status str_isupper(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  return jinja_methods_one_case(subject, true, out);
}
static clave_status str_islower(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  return jinja_methods_one_case(subject, false, out);
}

/* ---------------------------------------------------------------- dict, list, loop */

static clave_status make_view(render *render, value object, view_kind kind, value *out) {
  view *seen;
  TRY(arena_alloc(&render->arena, 1, sizeof *seen, &seen));
  *seen = (view){object.u.dict, kind};
  *out = (value){VALUE_VIEW, {.view = seen}};
  return NULL;
}
static clave_status dict_keys(render *render, value to, const bound *bound, value *out) {
  (void)bound;
  return make_view(render, to, VIEW_KEYS, out);
}
static clave_status dict_values(render *render, value to, const bound *bound, value *out) {
  (void)bound;
  return make_view(render, to, VIEW_VALUES, out);
}
static clave_status dict_items(render *render, value to, const bound *bound, value *out) {
  (void)bound;
  return make_view(render, to, VIEW_ITEMS, out);
}

static clave_status dict_get(render *render, value to, const bound *bound, value *out) {
  value *found;
  (void)render;
  TRY(dict_find(to.u.dict, bound->v[0], &found));
  *out = found ? *found : bound->given[1] ? bound->v[1] : value_none();
  return NULL;
}

static clave_status dict_copy(render *render, value to, const bound *bound, value *out) {
  (void)bound;
  TRY(make_dict(&render->arena, VALUE_DICT, out));
  for (size_t i = 0; i < to.u.dict->count; i++)
    TRY(dict_set(&render->arena, out->u.dict, to.u.dict->entries[i].key,
                 to.u.dict->entries[i].value));
  return NULL;
}

static clave_status list_copy(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  TRY(make_list(&render->arena, VALUE_LIST, subject.u.list->count, out));
  for (size_t i = 0; i < subject.u.list->count; i++)
    TRY(list_add(&render->arena, out->u.list, subject.u.list->items[i]));
  return NULL;
}

static clave_status list_count(render *render, value subject, const bound *bound, value *out) {
  int64_t n = 0;
  for (size_t i = 0; i < subject.u.list->count; i++) {
    bool equal;
    TRY(value_equal(&render->arena, subject.u.list->items[i], bound->v[0], &equal));
    n += equal;
  }
  *out = value_int(n);
  return NULL;
}

static clave_status list_index(render *render, value subject, const bound *bound, value *out) {
  if (bound->given[1]) return UNSUPPORTED("index with bounds is not supported");
  for (size_t i = 0; i < subject.u.list->count; i++) {
    bool equal;
    TRY(value_equal(&render->arena, subject.u.list->items[i], bound->v[0], &equal));
    *out = value_int((int64_t)i);
    if (equal) return NULL;
  }
  return INVALID("the value is not in the list");
}

/* ---------------------------------------------------------------- table */

typedef struct method_row {
  const char *name;
  method_function call; /* NULL if not supported */
  signature arguments;
} method_row;

#define RANGE_OF(name) \
  { {name, "start", "end"}, 1 }
static const method_row str_methods[] = {
    {"strip", str_strip, {{"chars"}, 0}},
    {"split", str_split, {{"sep", "maxsplit"}, 0}},
    {"startswith", str_startswith, RANGE_OF("prefix")},
    {"endswith", str_endswith, RANGE_OF("suffix")},
    {"replace", str_replace, {{"old", "new", "count"}, 2}},
    {"lstrip", str_lstrip, {{"chars"}, 0}},
    {"rstrip", str_rstrip, {{"chars"}, 0}},
    {"upper", str_upper, {{0}, 0}},
    {"lower", str_lower, {{0}, 0}},
    {"title", str_title, {{0}, 0}},
    {"capitalize", str_capitalize, {{0}, 0}},
    {"swapcase", str_swapcase, {{0}, 0}},
    {"join", str_join, {{"iterable"}, 1}},
    {"rsplit", str_rsplit, {{"sep", "maxsplit"}, 0}},
    {"splitlines", str_splitlines, {{"keepends"}, 0}},
    {"find", str_find, RANGE_OF("sub")},
    {"rfind", str_rfind, RANGE_OF("sub")},
    {"index", str_index, RANGE_OF("sub")},
    {"rindex", str_rindex, RANGE_OF("sub")},
    {"count", str_count, RANGE_OF("sub")},
    {"partition", str_partition, {{"sep"}, 1}},
    {"rpartition", str_rpartition, {{"sep"}, 1}},
    {"removeprefix", str_removeprefix, {{"prefix"}, 1}},
    {"removesuffix", str_removesuffix, {{"suffix"}, 1}},
    {"center", str_center, {{"width", "fillchar"}, 1}},
    {"ljust", str_ljust, {{"width", "fillchar"}, 1}},
    {"rjust", str_rjust, {{"width", "fillchar"}, 1}},
    {"zfill", str_zfill, {{"width"}, 1}},
    {"isspace", str_isspace, {{0}, 0}},
    {"isalpha", str_isalpha, {{0}, 0}},
    {"isdigit", str_isdigit, {{0}, 0}},
    {"isalnum", str_isalnum, {{0}, 0}},
    {"isdecimal", str_isdecimal, {{0}, 0}},
    {"isascii", str_isascii, {{0}, 0}},
    {"isupper", str_isupper, {{0}, 0}},
    {"islower", str_islower, {{0}, 0}},
    {"format", NULL, {{0}, 0}}, /* any arguments: see call_method */
    {"casefold", NULL, {{0}, 0}},
    {"encode", NULL, {{0}, 0}},
    {"expandtabs", NULL, {{0}, 0}},
    {"format_map", NULL, {{0}, 0}},
    {"isidentifier", NULL, {{0}, 0}},
    {"isnumeric", NULL, {{0}, 0}},
    {"isprintable", NULL, {{0}, 0}},
    {"istitle", NULL, {{0}, 0}},
    {"maketrans", NULL, {{0}, 0}},
    {"translate", NULL, {{0}, 0}}};
static const method_row dict_methods[] = {
    {"items", dict_items, {{0}, 0}}, {"get", dict_get, {{"key", "default"}, 1}},
    {"keys", dict_keys, {{0}, 0}},   {"values", dict_values, {{0}, 0}},
    {"copy", dict_copy, {{0}, 0}},   {"fromkeys", NULL, {{0}, 0}}};
static const method_row list_methods[] = {{"index", list_index, {{"value", "start"}, 1}},
                                          {"count", list_count, {{"value"}, 1}},
                                          {"copy", list_copy, {{0}, 0}}};
static const method_row tuple_methods[] = {{"index", list_index, {{"value", "start"}, 1}},
                                           {"count", list_count, {{"value"}, 1}}};
/* Attributes that these types have in Python but that are not supported here. */
static const method_row int_attributes[] = {
    {"real", NULL, {{0}, 0}},       {"imag", NULL, {{0}, 0}},
    {"numerator", NULL, {{0}, 0}},  {"denominator", NULL, {{0}, 0}},
    {"conjugate", NULL, {{0}, 0}},  {"bit_length", NULL, {{0}, 0}},
    {"bit_count", NULL, {{0}, 0}},  {"as_integer_ratio", NULL, {{0}, 0}},
    {"is_integer", NULL, {{0}, 0}}, {"from_bytes", NULL, {{0}, 0}},
    {"to_bytes", NULL, {{0}, 0}}};
static const method_row float_attributes[] = {
    {"real", NULL, {{0}, 0}},       {"imag", NULL, {{0}, 0}},
    {"conjugate", NULL, {{0}, 0}},  {"as_integer_ratio", NULL, {{0}, 0}},
    {"is_integer", NULL, {{0}, 0}}, {"fromhex", NULL, {{0}, 0}},
    {"hex", NULL, {{0}, 0}}};
static const method_row range_attributes[] = {{"start", NULL, {{0}, 0}},
                                              {"stop", NULL, {{0}, 0}},
                                              {"step", NULL, {{0}, 0}},
                                              {"count", NULL, {{0}, 0}},
                                              {"index", NULL, {{0}, 0}}};
static const method_row view_attributes[] = {{"isdisjoint", NULL, {{0}, 0}},
                                             {"mapping", NULL, {{0}, 0}}};
static const method_row iterator_attributes[] = {
    {"send", NULL, {{0}, 0}},         {"throw", NULL, {{0}, 0}},
    {"close", NULL, {{0}, 0}},        {"gi_running", NULL, {{0}, 0}},
    {"gi_suspended", NULL, {{0}, 0}}, {"gi_yieldfrom", NULL, {{0}, 0}}};
static const method_row loop_methods[] = {{"cycle", NULL, {{0}, 0}}, {"changed", NULL, {{0}, 0}}};
/* Methods that the immutable sandbox makes undefined, because they change the value. */
static const char *const dict_refused[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
static const char *const list_refused[] = {"append", "clear",   "extend", "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};

enum { METHODS_OF_KIND = 256 };
static const struct {
  const method_row *rows;
  size_t count;
  const char *const *refused;
} methods[] = {
    [VALUE_BOOL] = {int_attributes, sizeof int_attributes / sizeof *int_attributes, NULL},
    [VALUE_INT] = {int_attributes, sizeof int_attributes / sizeof *int_attributes, NULL},
    [VALUE_FLOAT] = {float_attributes, sizeof float_attributes / sizeof *float_attributes, NULL},
    [VALUE_RANGE] = {range_attributes, sizeof range_attributes / sizeof *range_attributes, NULL},
    [VALUE_VIEW] = {view_attributes, sizeof view_attributes / sizeof *view_attributes, NULL},
    [VALUE_ITERATOR] = {iterator_attributes,
                        sizeof iterator_attributes / sizeof *iterator_attributes, NULL},
    [VALUE_STRING] = {str_methods, sizeof str_methods / sizeof *str_methods, NULL},
    [VALUE_LIST] = {list_methods, sizeof list_methods / sizeof *list_methods, list_refused},
    [VALUE_TUPLE] = {tuple_methods, sizeof tuple_methods / sizeof *tuple_methods, NULL},
    [VALUE_DICT] = {dict_methods, sizeof dict_methods / sizeof *dict_methods, dict_refused},
    [VALUE_LOOP] = {loop_methods, sizeof loop_methods / sizeof *loop_methods, NULL},
    [VALUE_FUNCTION] = {NULL, 0, NULL}};

static bool accepts_any_arguments(value_kind kind, const char *name) {
  return kind == VALUE_LOOP || (kind == VALUE_STRING && strcmp(name, "format") == 0);
}

int find_method(value_kind kind, const string *name) {
  for (size_t i = 0; i < methods[kind].count; i++) {
    const method_row *row = &methods[kind].rows[i];
    if (!string_is(name, row->name)) continue;
    bool ours = row->call || accepts_any_arguments(kind, row->name);
    return ours ? (int)kind * METHODS_OF_KIND + (int)i : -2;
  }
  for (const char *const *refused = methods[kind].refused; refused && *refused; refused++) {
    if (string_is(name, *refused)) return -3;
  }
  return -1;
}

const char *method_name(int index) {
  return methods[index / METHODS_OF_KIND].rows[index % METHODS_OF_KIND].name;
}

static clave_status call_loop(render *render, const method *method, const call_args *args,
                              value *out) {
  loop_state *state = method->self.u.loop;
  if (args->n_named) return INVALID("loop.%s accepts no keyword arguments", method->name);
  if (strcmp(method->name, "cycle") == 0) {
    if (args->count == 0) return INVALID("no items for cycling given");
    *out = args->items[state->at % args->count];
    return NULL;
  }
  value now;
  bool same = false;
  TRY(make_list(&render->arena, VALUE_TUPLE, args->count, &now));
  for (size_t i = 0; i < args->count; i++)
    TRY(list_add(&render->arena, now.u.list, args->items[i]));
  if (state->changed_before) TRY(value_equal(&render->arena, now, state->last_seen, &same));
  state->changed_before = true;
  state->last_seen = now;
  *out = value_bool(!same);
  return NULL;
}

/* True for methods that accept keyword arguments in Python; the others accept positional ones
 * only. */
static bool accepts_names(const char *name) {
  static const char *const methods_with_names[] = {"split", "rsplit", "splitlines", "replace"};
  for (size_t i = 0; i < sizeof methods_with_names / sizeof *methods_with_names; i++)
    if (strcmp(methods_with_names[i], name) == 0) return true;
  return false;
}

clave_status call_method(render *render, const method *method, const call_args *args, value *out) {
  const method_row *row =
      &methods[method->index / METHODS_OF_KIND].rows[method->index % METHODS_OF_KIND];
  bound bound;
  if (method->self.kind == VALUE_LOOP) return call_loop(render, method, args, out);
  if (method->self.kind == VALUE_STRING && method->self.u.text->escaped)
    return UNSUPPORTED("methods of escaped text are not supported");
  if (!row->call) return format_braces(render, method->self.u.text, args, out);
  if (args->n_named && !accepts_names(row->name))
    return INVALID("%s() takes no keyword arguments", row->name);
  TRY(bind_args(row->name, &row->arguments, args, &bound));
  return row->call(render, method->self, &bound, out);
}
