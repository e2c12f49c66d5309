/* Filters of single values, and the table of all. */
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

static clave_status change_case(render *r, value v, case_change change, value *out) {
  value s;
  TRY(make_str(&r->arena, v, &s));
  return string_case(r, s.u.text, change, out);
}
static clave_status filter_lower(render *r, value v, const bound *b, value *out) {
  (void)b;
  return change_case(r, v, CHANGE_LOWER, out);
}
static clave_status filter_upper(render *r, value v, const bound *b, value *out) {
  (void)b;
  return change_case(r, v, CHANGE_UPPER, out);
}
static clave_status filter_title(render *r, value v, const bound *b, value *out) {
  (void)b;
  return change_case(r, v, CHANGE_WORDS, out);
}
static clave_status filter_capitalize(render *r, value v, const bound *b, value *out) {
  (void)b;
  return change_case(r, v, CHANGE_CAPITALIZE, out);
}

static clave_status filter_trim(render *r, value v, const bound *b, value *out) {
  value s;
  const string *chars = NULL;
  TRY(make_str(&r->arena, v, &s));
  if (b->given[0] && b->v[0].kind != VALUE_NONE) TRY(want_string(b->v[0], &chars));
  return string_strip(r, s.u.text, chars, STRIP_BOTH, out);
}

static clave_status filter_replace(render *r, value v, const bound *b, value *out) {
  value s, old, new;
  int64_t most = -1;
  TRY(make_str(&r->arena, v, &s));
  TRY(make_str(&r->arena, b->v[0], &old));
  TRY(make_str(&r->arena, b->v[1], &new));
  if (b->given[2] && b->v[2].kind != VALUE_NONE) TRY(want_integer(b->v[2], &most));
  return string_replace(r, s.u.text, old.u.text, new.u.text, most, out);
}

static clave_status filter_string(render *r, value v, const bound *b, value *out) {
  (void)b;
  return make_str(&r->arena, v, out);
}

static clave_status mark_escaped(render *r, value v, value *out) {
  string *s;
  TRY(arena_alloc(&r->arena, 1, sizeof *s, &s));
  *s = *v.u.text;
  s->escaped = true;
  *out = value_string(s);
  return NULL;
}
static clave_status filter_safe(render *r, value v, const bound *b, value *out) {
  value s;
  (void)b;
  TRY(make_str(&r->arena, v, &s));
  return mark_escaped(r, s, out);
}

clave_status escape_html(render *r, value s, value *out) {
  static const char special[] = "&<>'\"";
  static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  builder b = {0};
  const string *t = s.u.text;
  for (size_t i = 0; i < t->size; i++) {
    const char *at = t->data[i] ? strchr(special, t->data[i]) : NULL;
    string c = {.data = t->data + i,
                .size = 1,
                .mask = t->mask ? t->mask + i : NULL,
                .written = t->written};
    if (at) {
      builder_like(&b, names[at - special], strlen(names[at - special]), &c);
    } else {
      builder_add(&b, &c);
    }
  }
  value plain;
  TRY(builder_string(&r->arena, &b, &plain));
  return mark_escaped(r, plain, out);
}
static clave_status filter_forceescape(render *r, value v, const bound *b, value *out) {
  value s;
  (void)b;
  TRY(make_str(&r->arena, v, &s));
  return escape_html(r, s, out);
}
static clave_status filter_escape(render *r, value v, const bound *b, value *out) {
  *out = v;
  if (v.kind == VALUE_STRING && v.u.text->escaped) return NULL;
  return filter_forceescape(r, v, b, out);
}

static clave_status indent_width(render *r, const bound *b, value *out) {
  value space;
  int64_t width;
  *out = value_none();
  if (b->given[0] && b->v[0].kind == VALUE_STRING) *out = b->v[0];
  if (out->kind == VALUE_STRING) return NULL;
  TRY(bound_integer(b, 0, 4, &width));
  TRY(make_puts(&r->arena, " ", &space));
  return repeat_string(r, space.u.text, width, out);
}

/* width, first, blank */
static clave_status filter_indent(render *r, value v, const bound *b, value *out) {
  value s, width, lines;
  builder built = {0};
  bool first = b->given[1] && value_truth(b->v[1]), blank = b->given[2] && value_truth(b->v[2]);
  TRY(refuse_undefined(v));
  if (v.kind != VALUE_STRING) return INVALID("indent of '%s'", value_type(v));
  TRY(indent_width(r, b, &width));
  builder_add(&built, v.u.text);
  builder_puts(&built, "\n");
  TRY(builder_string(&r->arena, &built, &s));
  TRY(string_lines(r, s.u.text, false, &lines));
  built = (builder){0};
  for (size_t i = 0; i < lines.u.list->count; i++) {
    const string *line = lines.u.list->items[i].u.text;
    if (i) builder_puts(&built, "\n");
    if (i ? blank || line->size > 0 : first) builder_add(&built, width.u.text);
    builder_add(&built, line);
  }
  return builder_string(&r->arena, &built, out);
}

static clave_status filter_center(render *r, value v, const bound *b, value *out) {
  value s, name, method_value;
  TRY(make_str(&r->arena, v, &s));
  TRY(make_puts(&r->arena, "center", &name));
  TRY(get_attribute(r, s, name.u.text, &method_value));
  value width = b->given[0] ? b->v[0] : value_int(80);
  return call_value(r, method_value, &(call_args){.items = &width, .count = 1}, out);
}

static clave_status filter_format(render *r, value v, const call_args *args, value *out) {
  value s, given;
  if (args->count && args->n_named)
    return INVALID("can't handle positional and keyword arguments at the same time");
  TRY(make_str(&r->arena, v, &s));
  if (args->n_named) {
    TRY(make_dict(&r->arena, VALUE_DICT, &given));
    for (size_t i = 0; i < args->n_named; i++) {
      value key;
      TRY(make_puts(&r->arena, args->named[i].name, &key));
      TRY(dict_set(&r->arena, given.u.dict, key, args->named[i].v));
    }
  } else {
    TRY(make_list(&r->arena, VALUE_TUPLE, args->count, &given));
    for (size_t i = 0; i < args->count; i++) TRY(list_add(&r->arena, given.u.list, args->items[i]));
  }
  return format_percent(r, s.u.text, given, out);
}

/* ---------------------------------------------------------------- numbers */

static bool is_hexadecimal(char c) {
  return is_ascii_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'f');
}

/* True for an underscore that Python permits between two digits. */
static bool joins_digits(const string *s, size_t i, int64_t base) {
  if (i == 0 || i + 1 >= s->size) return false;
  const char before = s->data[i - 1], after = s->data[i + 1];
  if (base <= 10) return is_ascii_digit(before) && is_ascii_digit(after);
  return is_hexadecimal(before) && is_hexadecimal(after);
}

/* A copy that ends in NUL, without white space around it and without the underscores that Python
 * allows between digits. NULL: it holds NUL, or an underscore elsewhere. */
static clave_status number_text(render *r, const string *s, int64_t base, const char **out) {
  value trimmed;
  char *copy;
  size_t n = 0;
  *out = NULL;
  TRY(string_strip(r, s, NULL, STRIP_BOTH, &trimmed));
  const string *t = trimmed.u.text;
  TRY(arena_alloc(&r->arena, t->size + 1, 1, &copy));
  for (size_t i = 0; i < t->size; i++) {
    uint32_t c;
    (void)utf8_read(t->data + i, &c);
    if (c >= 0x80 && is_decimal(c))
      return UNSUPPORTED("digits beyond ASCII are not supported as a number");
    if (!t->data[i] || (t->data[i] == '_' && !joins_digits(t, i, base))) return NULL;
    if (t->data[i] != '_') copy[n++] = t->data[i];
  }
  copy[n] = '\0';
  *out = copy;
  return NULL;
}

/* What Python's float() reads; false: it does not. */
static bool read_real(const char *s, double *out) {
  char *end;
  const char *digits = s + (*s == '-' || *s == '+');
  bool word =
      equal_ascii(digits, "nan") || equal_ascii(digits, "inf") || equal_ascii(digits, "infinity");
  if (!word && (!*s || digits[strspn(digits, "0123456789.eE+-")])) return false;
  *out = number_read(s, &end);
  return !*end;
}

static bool real_to_whole(double d, int64_t *out) {
  if (!(d > -0x1p63 && d < 0x1p63)) return false;
  *out = (int64_t)d;
  return true;
}

static clave_status string_to_whole(render *r, const string *s, int64_t base, bool *good,
                                    int64_t *out) {
  const char *digits;
  char *end;
  double d;
  *good = false;
  TRY(number_text(r, s, base, &digits));
  if (!digits || !*digits) return NULL;
  errno = 0;
  *out = strtoll(digits, &end, (int)base);
  *good = !*end && end[-1] != ' ' && *digits != ' ';
  if (*good) return errno ? INVALID("an integer of more than 64 bits") : NULL;
  if (read_real(digits, &d)) *good = real_to_whole(d, out);
  if (!*good && read_real(digits, &d) && isfinite(d))
    return INVALID("an integer of more than 64 bits");
  return NULL;
}

/* default, base */
static clave_status filter_int(render *r, value v, const bound *b, value *out) {
  int64_t base, i = 0;
  bool good = false;
  TRY(bound_integer(b, 1, 10, &base));
  if (base != 10 && base != 16 && base != 8 && base != 2)
    return UNSUPPORTED("int of base %lld is not supported", (long long)base);
  if (v.kind == VALUE_UNDEFINED) TRY(refuse_undefined(v));
  if (v.kind == VALUE_STRING) TRY(string_to_whole(r, v.u.text, base, &good, &i));
  if (v.kind == VALUE_FLOAT) good = real_to_whole(v.u.real, &i);
  if (v.kind == VALUE_FLOAT && !good && isfinite(v.u.real))
    return INVALID("an integer of more than 64 bits");
  if (v.kind == VALUE_INT || v.kind == VALUE_BOOL) {
    TRY(want_integer(v, &i));
    good = true;
  }
  *out = good ? value_int(i) : b->given[0] ? b->v[0] : value_int(0);
  return NULL;
}

static clave_status filter_float(render *r, value v, const bound *b, value *out) {
  double d = 0;
  bool good = value_number(v);
  if (v.kind == VALUE_UNDEFINED) TRY(refuse_undefined(v));
  if (good) d = value_real(v);
  if (v.kind == VALUE_STRING) {
    const char *digits;
    TRY(number_text(r, v.u.text, 10, &digits));
    good = digits && read_real(digits, &d);
  }
  *out = good ? value_float(d) : b->given[0] ? b->v[0] : value_float(0);
  return NULL;
}

static clave_status filter_abs(render *r, value v, const bound *b, value *out) {
  (void)r, (void)b;
  TRY(refuse_undefined(v));
  if (!value_number(v)) return INVALID("bad operand type for abs(): '%s'", value_type(v));
  if (v.kind == VALUE_BOOL) v = value_int((int64_t)v.u.truth);
  *out = v;
  if (v.kind == VALUE_FLOAT) *out = value_float(fabs(v.u.real));
  return v.kind == VALUE_INT && v.u.integer < 0 ? negate(v, out) : NULL;
}

/* precision, method */
static clave_status filter_round(render *r, value v, const bound *b, value *out) {
  int64_t precision;
  char text_[400];
  const string *name = NULL;
  (void)r;
  TRY(refuse_undefined(v));
  TRY(bound_integer(b, 0, 0, &precision));
  if (b->given[1]) TRY(want_string(b->v[1], &name));
  bool common = !name || string_is(name, "common"), up = name && string_is(name, "ceil");
  if (!common && !up && !string_is(name, "floor"))
    return INVALID("round's method must be common, ceil or floor");
  if (!value_number(v)) return INVALID("'%s' cannot be rounded", value_type(v));
  if (precision < 0 || precision > 20)
    return UNSUPPORTED("round to %lld places is not supported", (long long)precision);
  if (common && v.kind != VALUE_FLOAT) {
    *out = v.kind == VALUE_BOOL ? value_int((int64_t)v.u.truth) : v;
    return NULL;
  }
  double d = value_real(v), scale = pow(10, (double)precision);
  if (!isfinite(d) && !common) return INVALID("cannot convert float infinity to integer");
  if (common && isfinite(d)) {
    (void)number_print(text_, sizeof text_, "%.*f", (int)precision, d);
    d = number_read(text_, NULL);
  }
  *out = value_float(common ? d : (up ? ceil(d * scale) : floor(d * scale)) / scale + 0.0);
  return NULL;
}

/* ---------------------------------------------------------------- any value */

/* default_value, boolean */
static clave_status filter_default(render *r, value v, const bound *b, value *out) {
  bool boolean = b->given[1] && value_truth(b->v[1]);
  *out = v;
  if (v.kind != VALUE_UNDEFINED && !(boolean && !value_truth(v))) return NULL;
  if (!b->given[0]) return make_puts(&r->arena, "", out);
  *out = b->v[0];
  return NULL;
}

static clave_status filter_length(render *r, value v, const bound *b, value *out) {
  int64_t n;
  (void)b;
  TRY(value_length(&r->arena, v, &n));
  *out = value_int(n);
  return NULL;
}

static clave_status filter_attr(render *r, value v, const bound *b, value *out) {
  const string *name;
  TRY(want_string(b->v[0], &name));
  if (v.kind == VALUE_DICT && find_method(VALUE_DICT, name) == -1) {
    *out = value_undefined("an attribute");
    return NULL;
  }
  TRY(refuse_undefined(v));
  return get_attribute(r, v, name, out);
}

static clave_status json_indent(render *r, value indent, json_style *style) {
  value space, width;
  if (indent.kind == VALUE_NONE) return NULL;
  style->has_indent = true;
  if (indent.kind == VALUE_STRING) {
    style->indent = indent.u.text;
    return NULL;
  }
  int64_t n;
  TRY(want_integer(indent, &n));
  TRY(make_puts(&r->arena, " ", &space));
  TRY(repeat_string(r, space.u.text, n, &width));
  style->indent = width.u.text;
  return NULL;
}

static clave_status json_separators(render *r, value separators, json_style *style) {
  value item, key;
  list pair = {0};
  TRY(make_puts(&r->arena, style->has_indent ? "," : ", ", &item));
  TRY(make_puts(&r->arena, ": ", &key));
  if (separators.kind != VALUE_NONE) {
    TRY(value_items(&r->arena, separators, &pair));
    if (pair.count != 2) return INVALID("separators of tojson are two");
    item = pair.items[0];
    key = pair.items[1];
  }
  TRY(want_string(item, &style->item));
  return want_string(key, &style->key);
}

/* ensure_ascii, indent, separators, sort_keys */
static clave_status filter_tojson(render *r, value v, const bound *b, value *out) {
  builder built = {0};
  json_style style = {.ascii = b->given[0] && value_truth(b->v[0]),
                      .sort = b->given[3] && value_truth(b->v[3])};
  TRY(json_indent(r, b->given[1] ? b->v[1] : value_none(), &style));
  TRY(json_separators(r, b->given[2] ? b->v[2] : value_none(), &style));
  clave_status st = append_json(&r->arena, &built, v, &style, 0);
  if (!st) return builder_string(&r->arena, &built, out);
  builder_free(&built);
  return st;
}

/* ---------------------------------------------------------------- the table */

static const struct {
  const char *name;
  filter_function call;
  signature arguments;
  filter_any any; /* instead of `call`: takes the arguments as they are. Neither: refused */
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

clave_status call_filter(render *r, int index, value input, const call_args *args, value *out) {
  bound b;
  if (input.kind == VALUE_STRING && input.u.text->escaped && filters[index].call != filter_string &&
      filters[index].call != filter_safe && filters[index].call != filter_escape &&
      filters[index].call != filter_tojson && filters[index].call != filter_length)
    return UNSUPPORTED("the filter '%s' of escaped text is not supported", filters[index].name);
  if (filters[index].any) return filters[index].any(r, input, args, out);
  TRY(bind_args(filters[index].name, &filters[index].arguments, args, &b));
  return filters[index].call(r, input, &b, out);
}
