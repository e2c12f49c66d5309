/* Filters of single values, and the table of all filters. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "base/utf8.h"
#include "jinja/render.h"
#include "jinja/unicode.h"

/* ---------------------------------------------------------------- text */

static clave_status change_case(render *render, value subject, case_change change, value *out) {
  value text;
  TRY(make_str(&render->arena, subject, &text));
  return string_case(render, text.u.text, change, out);
}
static clave_status filter_lower(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return change_case(render, subject, CHANGE_LOWER, out);
}
static clave_status filter_upper(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return change_case(render, subject, CHANGE_UPPER, out);
}
static clave_status filter_title(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return change_case(render, subject, CHANGE_WORDS, out);
}
static clave_status filter_capitalize(render *render, value subject, const bound *bound,
                                      value *out) {
  (void)bound;
  return change_case(render, subject, CHANGE_CAPITALIZE, out);
}

static clave_status filter_trim(render *render, value subject, const bound *bound, value *out) {
  value text;
  const string *chars = NULL;
  TRY(make_str(&render->arena, subject, &text));
  if (bound->given[0] && bound->v[0].kind != VALUE_NONE) TRY(want_string(bound->v[0], &chars));
  return string_strip(render, text.u.text, chars, STRIP_BOTH, out);
}

static clave_status filter_replace(render *render, value subject, const bound *bound, value *out) {
  value text, old, new;
  int64_t most = -1;
  TRY(make_str(&render->arena, subject, &text));
  TRY(make_str(&render->arena, bound->v[0], &old));
  TRY(make_str(&render->arena, bound->v[1], &new));
  if (bound->given[2] && bound->v[2].kind != VALUE_NONE) TRY(want_integer(bound->v[2], &most));
  return string_replace(render, text.u.text, old.u.text, new.u.text, most, out);
}

static clave_status filter_string(render *render, value subject, const bound *bound, value *out) {
  (void)bound;
  return make_str(&render->arena, subject, out);
}

static clave_status mark_escaped(render *render, value subject, value *out) {
  string *string;
  TRY(arena_alloc(&render->arena, 1, sizeof *string, &string));
  *string = *subject.u.text;
  string->escaped = true;
  *out = value_string(string);
  return NULL;
}
static clave_status filter_safe(render *render, value subject, const bound *bound, value *out) {
  value text;
  (void)bound;
  TRY(make_str(&render->arena, subject, &text));
  return mark_escaped(render, text, out);
}

clave_status escape_html(render *render, value subject, value *out) {
  static const char special[] = "&<>'\"";
  static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  builder builder = {0};
  const string *text = subject.u.text;
  for (size_t i = 0; i < text->size; i++) {
    const char *at = text->data[i] ? strchr(special, text->data[i]) : NULL;
    string character = {.data = text->data + i,
                        .size = 1,
                        .mask = text->mask ? text->mask + i : NULL,
                        .untrusted = text->untrusted};
    if (at) {
      builder_like(&builder, names[at - special], strlen(names[at - special]), &character);
    } else {
      builder_add(&builder, &character);
    }
  }
  value plain;
  TRY(builder_string(&render->arena, &builder, &plain));
  return mark_escaped(render, plain, out);
}
static clave_status filter_forceescape(render *render, value subject, const bound *bound,
                                       value *out) {
  value text;
  (void)bound;
  TRY(make_str(&render->arena, subject, &text));
  return escape_html(render, text, out);
}
static clave_status filter_escape(render *render, value subject, const bound *bound, value *out) {
  *out = subject;
  if (subject.kind == VALUE_STRING && subject.u.text->escaped) return NULL;
  return filter_forceescape(render, subject, bound, out);
}

static clave_status indent_width(render *render, const bound *bound, value *out) {
  value space;
  int64_t width;
  *out = value_none();
  if (bound->given[0] && bound->v[0].kind == VALUE_STRING) *out = bound->v[0];
  if (out->kind == VALUE_STRING) return NULL;
  TRY(bound_integer(bound, 0, 4, &width));
  TRY(make_text(&render->arena, " ", &space));
  return repeat_string(render, space.u.text, width, out);
}

/* arguments: width, first, blank */
static clave_status filter_indent(render *render, value subject, const bound *bound, value *out) {
  value text, width, lines;
  builder built = {0};
  bool first = bound->given[1] && value_truth(bound->v[1]),
       blank = bound->given[2] && value_truth(bound->v[2]);
  TRY(refuse_undefined(subject));
  if (subject.kind != VALUE_STRING)
    return INVALID("indent: expected a str, got '%s'", value_type(subject));
  TRY(indent_width(render, bound, &width));
  builder_add(&built, subject.u.text);
  builder_puts(&built, "\n");
  TRY(builder_string(&render->arena, &built, &text));
  TRY(string_lines(render, text.u.text, false, &lines));
  built = (builder){0};
  for (size_t i = 0; i < lines.u.list->count; i++) {
    const string *line = lines.u.list->items[i].u.text;
    if (i) builder_puts(&built, "\n");
    if (i ? blank || line->size > 0 : first) builder_add(&built, width.u.text);
    builder_add(&built, line);
  }
  return builder_string(&render->arena, &built, out);
}

static clave_status filter_center(render *render, value subject, const bound *bound, value *out) {
  value result, name, method_value;
  TRY(make_str(&render->arena, subject, &result));
  TRY(make_text(&render->arena, "center", &name));
  TRY(get_attribute(render, result, name.u.text, &method_value));
  value width = bound->given[0] ? bound->v[0] : value_int(80);
  return call_value(render, method_value, &(call_args){.items = &width, .count = 1}, out);
}

static clave_status filter_format(render *render, value subject, const call_args *args,
                                  value *out) {
  value result, given;
  if (args->count && args->n_named)
    return INVALID("can't handle positional and keyword arguments at the same time");
  TRY(make_str(&render->arena, subject, &result));
  if (args->n_named) {
    TRY(make_dict(&render->arena, VALUE_DICT, &given));
    for (size_t i = 0; i < args->n_named; i++) {
      value key;
      TRY(make_text(&render->arena, args->named[i].name, &key));
      TRY(dict_set(&render->arena, given.u.dict, key, args->named[i].v));
    }
  } else {
    TRY(make_list(&render->arena, VALUE_TUPLE, args->count, &given));
    for (size_t i = 0; i < args->count; i++)
      TRY(list_add(&render->arena, given.u.list, args->items[i]));
  }
  return format_percent(render, result.u.text, given, out);
}

/* ---------------------------------------------------------------- numbers */

static bool is_hexadecimal(char c) {
  return is_ascii_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'f');
}

/* True for an underscore that Python permits between two digits. */
static bool joins_digits(const string *string, size_t i, int64_t base) {
  if (i == 0 || i + 1 >= string->size) return false;
  const char before = string->data[i - 1], after = string->data[i + 1];
  if (base <= 10) return is_ascii_digit(before) && is_ascii_digit(after);
  return is_hexadecimal(before) && is_hexadecimal(after);
}

/* Copies a number's text, NUL-terminated, without surrounding white space and without the
 * underscores that Python permits between digits. *out is NULL if the text contains NUL, or an
 * underscore elsewhere. */
static clave_status number_text(render *render, const string *str, int64_t base, const char **out) {
  value trimmed;
  char *copy;
  size_t n = 0;
  *out = NULL;
  TRY(string_strip(render, str, NULL, STRIP_BOTH, &trimmed));
  const string *string = trimmed.u.text;
  TRY(arena_alloc(&render->arena, string->size + 1, 1, &copy));
  for (size_t i = 0; i < string->size; i++) {
    uint32_t c;
    (void)utf8_read(string->data + i, &c);
    if (c >= 0x80 && is_decimal(c))
      return UNSUPPORTED("digits beyond ASCII are not supported as a number");
    if (!string->data[i] || (string->data[i] == '_' && !joins_digits(string, i, base))) return NULL;
    if (string->data[i] != '_') copy[n++] = string->data[i];
  }
  copy[n] = '\0';
  *out = copy;
  return NULL;
}

/* Reads what Python's float() accepts; returns false otherwise. */
static bool filters_read_real(const char *text, double *out) {
  char *end;
  const char *digits = text + (*text == '-' || *text == '+');
  bool word =
      equal_ascii(digits, "nan") || equal_ascii(digits, "inf") || equal_ascii(digits, "infinity");
  if (!word && (!*text || digits[strspn(digits, "0123456789.eE+-")])) return false;
  *out = number_read(text, &end);
  return !*end;
}

static bool real_to_whole(double d, int64_t *out) {
  if (!(d > -0x1p63 && d < 0x1p63)) return false;
  *out = (int64_t)d;
  return true;
}

static clave_status string_to_whole(render *render, const string *string, int64_t base, bool *good,
                                    int64_t *out) {
  const char *digits;
  char *end;
  double d;
  *good = false;
  TRY(number_text(render, string, base, &digits));
  if (!digits || !*digits) return NULL;
  errno = 0;
  *out = strtoll(digits, &end, (int)base);
  *good = !*end && end[-1] != ' ' && *digits != ' ';
  if (*good) return errno ? INVALID("an integer of more than 64 bits") : NULL;
  if (filters_read_real(digits, &d)) *good = real_to_whole(d, out);
  if (!*good && filters_read_real(digits, &d) && isfinite(d))
    return INVALID("an integer of more than 64 bits");
  return NULL;
}

/* arguments: default, base */
static clave_status filter_int(render *render, value subject, const bound *bound, value *out) {
  int64_t base, i = 0;
  bool good = false;
  TRY(bound_integer(bound, 1, 10, &base));
  if (base != 10 && base != 16 && base != 8 && base != 2)
    return UNSUPPORTED("int of base %lld is not supported", (long long)base);
  if (subject.kind == VALUE_UNDEFINED) TRY(refuse_undefined(subject));
  if (subject.kind == VALUE_STRING) TRY(string_to_whole(render, subject.u.text, base, &good, &i));
  if (subject.kind == VALUE_FLOAT) good = real_to_whole(subject.u.real, &i);
  if (subject.kind == VALUE_FLOAT && !good && isfinite(subject.u.real))
    return INVALID("an integer of more than 64 bits");
  if (subject.kind == VALUE_INT || subject.kind == VALUE_BOOL) {
    TRY(want_integer(subject, &i));
    good = true;
  }
  *out = good ? value_int(i) : bound->given[0] ? bound->v[0] : value_int(0);
  return NULL;
}

static clave_status filter_float(render *render, value subject, const bound *bound, value *out) {
  double d = 0;
  bool good = value_number(subject);
  if (subject.kind == VALUE_UNDEFINED) TRY(refuse_undefined(subject));
  if (good) d = value_real(subject);
  if (subject.kind == VALUE_STRING) {
    const char *digits;
    TRY(number_text(render, subject.u.text, 10, &digits));
    good = digits && filters_read_real(digits, &d);
  }
  *out = good ? value_float(d) : bound->given[0] ? bound->v[0] : value_float(0);
  return NULL;
}

static clave_status filter_abs(render *render, value subject, const bound *bound, value *out) {
  (void)render, (void)bound;
  TRY(refuse_undefined(subject));
  if (!value_number(subject))
    return INVALID("bad operand type for abs(): '%s'", value_type(subject));
  if (subject.kind == VALUE_BOOL) subject = value_int((int64_t)subject.u.truth);
  *out = subject;
  if (subject.kind == VALUE_FLOAT) *out = value_float(fabs(subject.u.real));
  return subject.kind == VALUE_INT && subject.u.integer < 0 ? negate(subject, out) : NULL;
}

/* arguments: precision, method */
static clave_status filter_round(render *render, value subject, const bound *bound, value *out) {
  int64_t precision;
  char text_[400];
  const string *name = NULL;
  (void)render;
  TRY(refuse_undefined(subject));
  TRY(bound_integer(bound, 0, 0, &precision));
  if (bound->given[1]) TRY(want_string(bound->v[1], &name));
  bool common = !name || string_is(name, "common"), up = name && string_is(name, "ceil");
  if (!common && !up && !string_is(name, "floor"))
    return INVALID("the method of round must be common, ceil or floor");
  if (!value_number(subject)) return INVALID("'%s' cannot be rounded", value_type(subject));
  if (precision < 0 || precision > 20)
    return UNSUPPORTED("round to %lld places is not supported", (long long)precision);
  if (common && subject.kind != VALUE_FLOAT) {
    *out = subject.kind == VALUE_BOOL ? value_int((int64_t)subject.u.truth) : subject;
    return NULL;
  }
  double d = value_real(subject), scale = pow(10, (double)precision);
  if (!isfinite(d) && !common) return INVALID("cannot convert float infinity to integer");
  if (common && isfinite(d)) {
    (void)number_print(text_, sizeof text_, "%.*f", (int)precision, d);
    d = number_read(text_, NULL);
  }
  *out = value_float(common ? d : (up ? ceil(d * scale) : floor(d * scale)) / scale + 0.0);
  return NULL;
}

/* ---------------------------------------------------------------- any value */

/* arguments: default_value, boolean */
static clave_status filter_default(render *render, value subject, const bound *bound, value *out) {
  bool boolean = bound->given[1] && value_truth(bound->v[1]);
  *out = subject;
  if (subject.kind != VALUE_UNDEFINED && !(boolean && !value_truth(subject))) return NULL;
  if (!bound->given[0]) return make_text(&render->arena, "", out);
  *out = bound->v[0];
  return NULL;
}

static clave_status filter_length(render *render, value subject, const bound *bound, value *out) {
  int64_t n;
  (void)bound;
  TRY(value_length(&render->arena, subject, &n));
  *out = value_int(n);
  return NULL;
}

static clave_status filter_attr(render *render, value subject, const bound *bound, value *out) {
  const string *name;
  TRY(want_string(bound->v[0], &name));
  if (subject.kind == VALUE_DICT && find_method(VALUE_DICT, name) == -1) {
    *out = value_undefined("an attribute");
    return NULL;
  }
  TRY(refuse_undefined(subject));
  return get_attribute(render, subject, name, out);
}

static clave_status json_indent(render *render, value indent, json_style *style) {
  value space, width;
  if (indent.kind == VALUE_NONE) return NULL;
  style->has_indent = true;
  if (indent.kind == VALUE_STRING) {
    style->indent = indent.u.text;
    return NULL;
  }
  int64_t n;
  TRY(want_integer(indent, &n));
  TRY(make_text(&render->arena, " ", &space));
  TRY(repeat_string(render, space.u.text, n, &width));
  style->indent = width.u.text;
  return NULL;
}

static clave_status json_separators(render *render, value separators, json_style *style) {
  value item, key;
  list pair = {0};
  TRY(make_text(&render->arena, style->has_indent ? "," : ", ", &item));
  TRY(make_text(&render->arena, ": ", &key));
  if (separators.kind != VALUE_NONE) {
    TRY(value_items(&render->arena, separators, &pair));
    if (pair.count != 2) return INVALID("tojson: expected two separators");
    item = pair.items[0];
    key = pair.items[1];
  }
  TRY(want_string(item, &style->item));
  return want_string(key, &style->key);
}

/* arguments: ensure_ascii, indent, separators, sort_keys */
static clave_status filter_tojson(render *render, value subject, const bound *bound, value *out) {
  builder built = {0};
  json_style style = {.ascii = bound->given[0] && value_truth(bound->v[0]),
                      .sort = bound->given[3] && value_truth(bound->v[3])};
  TRY(json_indent(render, bound->given[1] ? bound->v[1] : value_none(), &style));
  TRY(json_separators(render, bound->given[2] ? bound->v[2] : value_none(), &style));
  clave_status st = append_json(&render->arena, &built, subject, &style, 0);
  if (!st) return builder_string(&render->arena, &built, out);
  builder_free(&built);
  return st;
}

/* ---------------------------------------------------------------- table */

static const struct {
  const char *name;
  filter_function call;
  signature arguments;
  filter_any any; /* used instead of `call`, with unbound arguments. If both are NULL, the filter is
                     not supported */
} filters[] = {
    {"tojson", filter_tojson, {{"ensure_ascii", "indent", "separators", "sort_keys"}, 0}, NULL},
    {"trim", filter_trim, {{"chars"}, 0}, NULL},
    {"length", filter_length, {{0}, 0}, NULL},
    {"count", filter_length, {{0}, 0}, NULL},
    {"default", filter_default, {{"default_value", "boolean"}, 0}, NULL},
    {"d", filter_default, {{"default_value", "boolean"}, 0}, NULL},
    {"join", filter_join, {{"d", "attribute"}, 0}, NULL},
    {"items", filter_items, {{0}, 0}, NULL},
    {"list", filter_list, {{0}, 0}, NULL},
    {"string", filter_string, {{0}, 0}, NULL},
    {"upper", filter_upper, {{0}, 0}, NULL},
    {"lower", filter_lower, {{0}, 0}, NULL},
    {"title", filter_title, {{0}, 0}, NULL},
    {"capitalize", filter_capitalize, {{0}, 0}, NULL},
    {"replace", filter_replace, {{"old", "new", "count"}, 2}, NULL},
    {"first", filter_first, {{0}, 0}, NULL},
    {"last", filter_last, {{0}, 0}, NULL},
    {"reverse", filter_reverse, {{0}, 0}, NULL},
    {"indent", filter_indent, {{"width", "first", "blank"}, 0}, NULL},
    {"int", filter_int, {{"default", "base"}, 0}, NULL},
    {"float", filter_float, {{"default"}, 0}, NULL},
    {"abs", filter_abs, {{0}, 0}, NULL},
    {"round", filter_round, {{"precision", "method"}, 0}, NULL},
    {"sort", filter_sort, {{"reverse", "case_sensitive", "attribute"}, 0}, NULL},
    {"unique", filter_unique, {{"case_sensitive", "attribute"}, 0}, NULL},
    {"min", filter_min, {{"case_sensitive", "attribute"}, 0}, NULL},
    {"max", filter_max, {{"case_sensitive", "attribute"}, 0}, NULL},
    {"sum", filter_sum, {{"attribute", "start"}, 0}, NULL},
    {"dictsort", filter_dictsort, {{"case_sensitive", "by", "reverse"}, 0}, NULL},
    {"attr", filter_attr, {{"name"}, 1}, NULL},
    {"safe", filter_safe, {{0}, 0}, NULL},
    {"escape", filter_escape, {{0}, 0}, NULL},
    {"e", filter_escape, {{0}, 0}, NULL},
    {"forceescape", filter_forceescape, {{0}, 0}, NULL},
    {"center", filter_center, {{"width"}, 0}, NULL},
    {"format", NULL, {{0}, 0}, filter_format},
    {"map", NULL, {{0}, 0}, filter_map},
    {"select", NULL, {{0}, 0}, filter_select},
    {"reject", NULL, {{0}, 0}, filter_reject},
    {"selectattr", NULL, {{0}, 0}, filter_selectattr},
    {"rejectattr", NULL, {{0}, 0}, filter_rejectattr}};
static const char *const refused[] = {
    "batch",    "filesizeformat", "groupby", "pprint",    "random",   "slice",  "striptags",
    "truncate", "urlencode",      "urlize",  "wordcount", "wordwrap", "xmlattr"};

int filter_index(const char *name) {
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
    if (strcmp(filters[i].name, name) == 0) return (int)i;
  }
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    if (strcmp(refused[i], name) == 0) return -2;
  }
  return -1;
}

clave_status call_filter(render *render, int index, value input, const call_args *args,
                         value *out) {
  bound bound;
  if (input.kind == VALUE_STRING && input.u.text->escaped && filters[index].call != filter_string &&
      filters[index].call != filter_safe && filters[index].call != filter_escape &&
      filters[index].call != filter_tojson && filters[index].call != filter_length)
    return UNSUPPORTED("the filter '%s' of escaped text is not supported", filters[index].name);
  if (filters[index].any) return filters[index].any(render, input, args, out);
  TRY(bind_args(filters[index].name, &filters[index].arguments, args, &bound));
  return filters[index].call(render, input, &bound, out);
}
