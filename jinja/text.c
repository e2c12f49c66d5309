/* Values as text: Python's str() and repr(), and json.dumps(). */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"
#include "jinja/jinja.h"
#include "jinja/unicode.h"
#include "jinja/value.h"

/* ---------------------------------------------------------------- numbers */

/* Adds 1 to the last digit of "d.ddde+xx" if that reads as d. Below a power of two numbers are
 * twice as dense as above it, so that a farther decimal may read as d where the nearest does not.
 */
static bool next_digits_read(char *s, double d) {
  char next[40];
  int exponent;
  if (frexp(d, &exponent) != 0.5) return false;
  (void)strcpy(next, s);
  char *at = strchr(next, 'e');
  if (at[-1] == '9') return false; /* no power of two has its 16th digit so */
  at[-1]++;
  if (number_read(next, NULL) != d) return false;
  (void)strcpy(s, next);
  return true;
}

/* The digits of the shortest decimal that reads as d, without trailing zeros; *point: how many of
 * them stand before the decimal point. */
static void shortest_digits(double d, char digits[20], int *point) {
  char s[40];
  /* Any 15 digits are told apart by normal numbers, fewer by subnormal ones. */
  for (int precision = d < DBL_MIN ? 1 : 15; precision <= 17; precision++) {
    (void)number_print(s, sizeof s, "%.*e", precision - 1, d);
    if (number_read(s, NULL) == d) break;
    if (precision == 16 && next_digits_read(s, d)) break;
  }
  size_t n = 0;
  const char *at = s;
  for (; *at && *at != 'e'; at++) {
    if (*at >= '0' && *at <= '9') digits[n++] = *at;
  }
  while (n > 1 && digits[n - 1] == '0') n--;
  digits[n] = '\0';
  *point = (int)strtol(at + 1, NULL, 10) + 1;
}

void format_real(double d, char out[64]) {
  char digits[20];
  int point, n;
  if (isnan(d) || isinf(d)) {
    (void)snprintf(out, 64, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
    return;
  }
  shortest_digits(fabs(d), digits, &point);
  n = (int)strlen(digits);
  const char *sign = signbit(d) ? "-" : "";
  if (point > 16 || point < -3) {
    (void)snprintf(out, 64, "%s%c%s%se%c%02d", sign, *digits, n > 1 ? "." : "", digits + 1,
                   point > 0 ? '+' : '-', abs(point - 1));
  } else if (point <= 0) {
    (void)snprintf(out, 64, "%s0.%.*s%s", sign, -point, "0000", digits);
  } else if (n <= point) {
    (void)snprintf(out, 64, "%s%s%.*s.0", sign, digits, point - n, "0000000000000000");
  } else {
    (void)snprintf(out, 64, "%s%.*s.%s", sign, point, digits, digits + point);
  }
}

static void append_integer(builder *b, int64_t i) {
  char s[24];
  (void)snprintf(s, sizeof s, "%" PRId64, i);
  builder_puts(b, s);
}

static void append_real(builder *b, double d) {
  char s[64];
  format_real(d, s);
  builder_puts(b, s);
}

/* ---------------------------------------------------------------- repr */

static string part_of(const string *s, size_t at, size_t size) {
  return (string){.data = s->data + at,
                  .size = size,
                  .mask = s->mask ? s->mask + at : NULL,
                  .written = s->written};
}

static void append_part(builder *b, const string *s, size_t at, size_t size) {
  string part = part_of(s, at, size);
  if (size) builder_add(b, &part);
}

/* Writes the escape of a character, "" where it is printed as it is. kind: of quotes (repr), or
 * whether all beyond ASCII is escaped (JSON). */
typedef void (*escape_function)(uint32_t c, int kind, char out[16]);

/* That it stands for itself in every style of quoting. */
static bool is_plain(char c) { return c >= 0x20 && c < 0x7F && c != '\\' && c != '"' && c != '\''; }

/* Runs of characters as they are, the others by escapes. */
static void append_quoted(builder *b, const string *s, char quote, escape_function escape_of,
                          int kind) {
  size_t from = 0, n;
  builder_bytes(b, &quote, 1);
  for (size_t at = 0; at < s->size; at += n) {
    char escape[16];
    uint32_t c;
    n = 1;
    if (is_plain(s->data[at])) continue;
    n = utf8_read(s->data + at, &c);
    escape_of(c, kind, escape);
    if (!*escape) continue;
    append_part(b, s, from, at - from);
    string character = part_of(s, at, n);
    builder_like(b, escape, strlen(escape), &character);
    from = at + n;
  }
  append_part(b, s, from, s->size - from);
  builder_bytes(b, &quote, 1);
}

static void repr_escape(uint32_t c, int quote, char out[16]) {
  static const char special[] = "\\\t\n\r", letters[] = "\\tnr";
  const char *at = c && c < 0x80 ? strchr(special, (int)c) : NULL;
  *out = '\0';
  if (at) {
    (void)snprintf(out, 16, "\\%c", letters[at - special]);
  } else if (c == (uint32_t)quote) {
    (void)snprintf(out, 16, "\\%c", quote);
  } else if (!is_printable(c)) {
    (void)snprintf(out, 16, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
  }
}

static void repr_string(builder *b, const string *s) {
  bool single = memchr(s->data, '\'', s->size), twice = memchr(s->data, '"', s->size);
  const char quote = single && !twice ? '"' : '\'';
  append_quoted(b, s, quote, repr_escape, quote);
}

static clave_status repr_items(arena *a, builder *b, const list *l, const char *open,
                               const char *close) {
  builder_puts(b, open);
  for (size_t i = 0; i < l->count; i++) {
    if (i) builder_puts(b, ", ");
    TRY(append_repr(a, b, l->items[i]));
  }
  builder_puts(b, close);
  return NULL;
}

static clave_status repr_dict(arena *a, builder *b, const dict *d) {
  builder_puts(b, "{");
  for (size_t i = 0; i < d->count; i++) {
    if (i) builder_puts(b, ", ");
    TRY(append_repr(a, b, d->entries[i].key));
    builder_puts(b, ": ");
    TRY(append_repr(a, b, d->entries[i].value));
  }
  builder_puts(b, "}");
  return NULL;
}

static clave_status repr_view(arena *a, builder *b, value v) {
  static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
  list items;
  TRY(value_items(a, v, &items));
  return repr_items(a, b, &items, names[v.u.view->kind], "])");
}

static void repr_range(builder *b, const range_value *r) {
  builder_puts(b, "range(");
  append_integer(b, r->start);
  builder_puts(b, ", ");
  append_integer(b, r->stop);
  if (r->step != 1) {
    builder_puts(b, ", ");
    append_integer(b, r->step);
  }
  builder_puts(b, ")");
}

static clave_status repr_object(arena *a, builder *b, value v) {
  switch ((value_kind)v.kind) {
    case VALUE_LIST:
      return repr_items(a, b, v.u.list, "[", "]");
    case VALUE_TUPLE:
      return repr_items(a, b, v.u.list, "(", v.u.list->count == 1 ? ",)" : ")");
    case VALUE_DICT:
      return repr_dict(a, b, v.u.dict);
    case VALUE_VIEW:
      return repr_view(a, b, v);
    case VALUE_NAMESPACE:
      builder_puts(b, "<Namespace ");
      TRY(repr_dict(a, b, v.u.dict));
      builder_puts(b, ">");
      return NULL;
    case VALUE_RANGE:
      repr_range(b, v.u.range);
      return NULL;
    default:
      return UNSUPPORTED("a %s as text is not supported", value_type(v));
  }
}

/* arena_leave on the way out. */
static clave_status enter_container(arena *a, const builder *b) {
  TRY(arena_enter(a));
  TRY(arena_charge(a, 1));
  if (b->data.size <= JINJA_MAX_OUTPUT) return NULL;
  return INVALID("a text of more than %d bytes", JINJA_MAX_OUTPUT);
}

clave_status append_repr(arena *a, builder *b, value v) {
  switch ((value_kind)v.kind) {
    case VALUE_UNDEFINED:
      builder_puts(b, "Undefined");
      return NULL;
    case VALUE_NONE:
      builder_puts(b, "None");
      return NULL;
    case VALUE_BOOL:
      builder_puts(b, v.u.truth ? "True" : "False");
      return NULL;
    case VALUE_INT:
      append_integer(b, v.u.integer);
      return NULL;
    case VALUE_FLOAT:
      append_real(b, v.u.real);
      return NULL;
    case VALUE_STRING:
      if (v.u.text->escaped) return UNSUPPORTED("the repr of escaped text is not supported");
      repr_string(b, v.u.text);
      return arena_charge(a, v.u.text->size / 64);
    default:
      TRY(enter_container(a, b));
      TRY(repr_object(a, b, v));
      arena_leave(a);
      return NULL;
  }
}

clave_status append_str(arena *a, builder *b, value v) {
  if (v.kind == VALUE_UNDEFINED) return NULL;
  if (v.kind != VALUE_STRING) return append_repr(a, b, v);
  builder_add(b, v.u.text);
  return NULL;
}

clave_status make_str(arena *a, value v, value *out) {
  builder b = {0};
  if (v.kind == VALUE_STRING) {
    *out = v;
    return NULL;
  }
  clave_status st = append_str(a, &b, v);
  if (!st) return builder_string(a, &b, out);
  builder_free(&b);
  return st;
}

/* ---------------------------------------------------------------- JSON */

static void json_escape(uint32_t c, int ascii, char out[16]) {
  static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  const char *at = c && c < 0x80 ? strchr(special, (int)c) : NULL;
  *out = '\0';
  if (at) {
    (void)snprintf(out, 16, "\\%c", letters[at - special]);
  } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
    (void)snprintf(out, 16, "\\u%04x", c);
  } else if (ascii && c >= 0x10000) {
    (void)snprintf(out, 16, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                   0xDC00 + ((c - 0x10000) & 0x3FF));
  }
}

static void json_break(builder *b, const json_style *style, int depth) {
  if (!style->has_indent) return;
  builder_bytes(b, "\n", 1);
  for (int i = 0; i < depth; i++) builder_add(b, style->indent);
}

static clave_status json_list(arena *a, builder *b, const list *l, const json_style *style,
                              int depth) {
  builder_puts(b, "[");
  for (size_t i = 0; i < l->count; i++) {
    if (i) builder_add(b, style->item);
    json_break(b, style, depth + 1);
    TRY(append_json(a, b, l->items[i], style, depth + 1));
  }
  if (l->count) json_break(b, style, depth);
  builder_puts(b, "]");
  return NULL;
}

static clave_status json_key_text(arena *a, builder *b, value key, const json_style *style) {
  if (key.kind == VALUE_STRING) return append_json(a, b, key, style, 0);
  if (key.kind != VALUE_NONE && !value_number(key))
    return INVALID("keys must be str, int, float, bool or None, not %s", value_type(key));
  builder_puts(b, "\"");
  TRY(append_json(a, b, key, style, 0));
  builder_puts(b, "\"");
  return NULL;
}

/* (key, index) of each entry, by the keys. */
static clave_status sort_entries(arena *a, const dict *d, list *out) {
  for (size_t i = 0; i < d->count; i++) {
    value item;
    TRY(make_pair(a, d->entries[i].key, value_int((int64_t)i), &item));
    TRY(list_add(a, out, item));
  }
  return sort_values(a, out, NULL, false);
}

static clave_status json_dict(arena *a, builder *b, const dict *d, const json_style *style,
                              int depth) {
  list sorted = {0};
  if (style->sort) TRY(sort_entries(a, d, &sorted));
  builder_puts(b, "{");
  for (size_t i = 0; i < d->count; i++) {
    const dict_entry *e = &d->entries[i];
    if (style->sort) e = &d->entries[sorted.items[i].u.list->items[1].u.integer];
    if (i) builder_add(b, style->item);
    json_break(b, style, depth + 1);
    TRY(json_key_text(a, b, e->key, style));
    builder_add(b, style->key);
    TRY(append_json(a, b, e->value, style, depth + 1));
  }
  if (d->count) json_break(b, style, depth);
  builder_puts(b, "}");
  return NULL;
}

static void json_real(builder *b, double d) {
  if (isnan(d) || isinf(d)) {
    builder_puts(b, isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
  } else {
    append_real(b, d);
  }
}

static clave_status json_container(arena *a, builder *b, value v, const json_style *style,
                                   int depth) {
  if (v.kind == VALUE_DICT) return json_dict(a, b, v.u.dict, style, depth);
  if (v.kind == VALUE_LIST || v.kind == VALUE_TUPLE) return json_list(a, b, v.u.list, style, depth);
  return INVALID("Object of type %s is not JSON serializable", value_type(v));
}

clave_status append_json(arena *a, builder *b, value v, const json_style *style, int depth) {
  switch ((value_kind)v.kind) {
    case VALUE_NONE:
      builder_puts(b, "null");
      return NULL;
    case VALUE_BOOL:
      builder_puts(b, v.u.truth ? "true" : "false");
      return NULL;
    case VALUE_INT:
      append_integer(b, v.u.integer);
      return NULL;
    case VALUE_FLOAT:
      json_real(b, v.u.real);
      return NULL;
    case VALUE_STRING:
      append_quoted(b, v.u.text, '"', json_escape, style->ascii);
      return arena_charge(a, v.u.text->size / 64);
    default:
      TRY(enter_container(a, b));
      TRY(json_container(a, b, v, style, depth));
      arena_leave(a);
      return NULL;
  }
}
