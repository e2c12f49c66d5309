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

/* Adds 1 to the last digit of "d.ddde+xx" if the result reads as d. Doubles are twice as dense
 * below a power of two as above it, so a decimal above may read as d where the nearest one does
 * not. */
static bool next_digits_read(char *text, double d) {
  char next[40];
  int exponent;
  if (frexp(d, &exponent) != 0.5) return false;
  (void)strcpy(next, text);
  char *at = strchr(next, 'e');
  if (at[-1] == '9') return false; /* no power of two has 9 as its 16th digit */
  at[-1]++;
  if (number_read(next, NULL) != d) return false;
  (void)strcpy(text, next);
  return true;
}

/* Computes the digits of the shortest decimal that reads as d, without trailing zeros. *point:
 * number of digits before the decimal point. */
static void shortest_digits(double d, char digits[20], int *point) {
  char s[40];
  /* Normal numbers distinguish any 15 digits, subnormal ones fewer. */
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

static void append_integer(builder *builder, int64_t i) {
  char s[24];
  (void)snprintf(s, sizeof s, "%" PRId64, i);
  builder_puts(builder, s);
}

static void append_real(builder *builder, double d) {
  char s[64];
  format_real(d, s);
  builder_puts(builder, s);
}

/* ---------------------------------------------------------------- repr */

static string jinja_text_part_of(const string *str, size_t at, size_t size) {
  return (string){.data = str->data + at,
                  .size = size,
                  .mask = str->mask ? str->mask + at : NULL,
                  .untrusted = str->untrusted};
}

static void append_part(builder *builder, const string *str, size_t at, size_t size) {
  string part = jinja_text_part_of(str, at, size);
  if (size) builder_add(builder, &part);
}

/* Writes the escape of a character, "" if it is printed unchanged. kind: the quote (repr), or true
 * if everything beyond ASCII is escaped (JSON). */
typedef void (*escape_function)(uint32_t c, int kind, char out[16]);

/* True if the character represents itself in every style of quoting. */
static bool jinja_text_is_plain(char c) {
  return c >= 0x20 && c < 0x7F && c != '\\' && c != '"' && c != '\'';
}

/* Appends runs of unescaped characters, and the escapes between them. */
static void append_quoted(builder *builder, const string *str, char quote,
                          escape_function escape_of, int kind) {
  size_t from = 0, n;
  builder_bytes(builder, &quote, 1);
  for (size_t at = 0; at < str->size; at += n) {
    char escape[16];
    uint32_t c;
    n = 1;
    if (jinja_text_is_plain(str->data[at])) continue;
    n = utf8_read(str->data + at, &c);
    escape_of(c, kind, escape);
    if (!*escape) continue;
    append_part(builder, str, from, at - from);
    string character = jinja_text_part_of(str, at, n);
    builder_like(builder, escape, strlen(escape), &character);
    from = at + n;
  }
  append_part(builder, str, from, str->size - from);
  builder_bytes(builder, &quote, 1);
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

static void repr_string(builder *builder, const string *string) {
  bool single = memchr(string->data, '\'', string->size),
       twice = memchr(string->data, '"', string->size);
  const char quote = single && !twice ? '"' : '\'';
  append_quoted(builder, string, quote, repr_escape, quote);
}

static clave_status repr_items(arena *arena, builder *builder, const list *list, const char *open,
                               const char *close) {
  builder_puts(builder, open);
  for (size_t i = 0; i < list->count; i++) {
    if (i) builder_puts(builder, ", ");
    TRY(append_repr(arena, builder, list->items[i]));
  }
  builder_puts(builder, close);
  return NULL;
}

static clave_status repr_dict(arena *arena, builder *builder, const dict *dict) {
  builder_puts(builder, "{");
  for (size_t i = 0; i < dict->count; i++) {
    if (i) builder_puts(builder, ", ");
    TRY(append_repr(arena, builder, dict->entries[i].key));
    builder_puts(builder, ": ");
    TRY(append_repr(arena, builder, dict->entries[i].value));
  }
  builder_puts(builder, "}");
  return NULL;
}

static clave_status repr_view(arena *arena, builder *builder, value value) {
  static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
  list items;
  TRY(value_items(arena, value, &items));
  return repr_items(arena, builder, &items, names[value.u.view->kind], "])");
}

static void repr_range(builder *builder, const range_value *range) {
  builder_puts(builder, "range(");
  append_integer(builder, range->start);
  builder_puts(builder, ", ");
  append_integer(builder, range->stop);
  if (range->step != 1) {
    builder_puts(builder, ", ");
    append_integer(builder, range->step);
  }
  builder_puts(builder, ")");
}

static clave_status repr_object(arena *arena, builder *builder, value value) {
  switch ((value_kind)value.kind) {
    case VALUE_LIST:
      return repr_items(arena, builder, value.u.list, "[", "]");
    case VALUE_TUPLE:
      return repr_items(arena, builder, value.u.list, "(", value.u.list->count == 1 ? ",)" : ")");
    case VALUE_DICT:
      return repr_dict(arena, builder, value.u.dict);
    case VALUE_VIEW:
      return repr_view(arena, builder, value);
    case VALUE_NAMESPACE:
      builder_puts(builder, "<Namespace ");
      TRY(repr_dict(arena, builder, value.u.dict));
      builder_puts(builder, ">");
      return NULL;
    case VALUE_RANGE:
      repr_range(builder, value.u.range);
      return NULL;
    default:
      return UNSUPPORTED("a %s as text is not supported", value_type(value));
  }
}

/* The caller leaves the container with arena_leave. */
static clave_status enter_container(arena *arena, const builder *builder) {
  TRY(arena_enter(arena));
  TRY(arena_charge(arena, 1));
  if (builder->data.size <= JINJA_MAX_OUTPUT) return NULL;
  return INVALID("the result is longer than %d bytes", JINJA_MAX_OUTPUT);
}

clave_status append_repr(arena *arena, builder *builder, value value) {
  switch ((value_kind)value.kind) {
    case VALUE_UNDEFINED:
      builder_puts(builder, "Undefined");
      return NULL;
    case VALUE_NONE:
      builder_puts(builder, "None");
      return NULL;
    case VALUE_BOOL:
      builder_puts(builder, value.u.truth ? "True" : "False");
      return NULL;
    case VALUE_INT:
      append_integer(builder, value.u.integer);
      return NULL;
    case VALUE_FLOAT:
      append_real(builder, value.u.real);
      return NULL;
    case VALUE_STRING:
      if (value.u.text->escaped) return UNSUPPORTED("the repr of escaped text is not supported");
      repr_string(builder, value.u.text);
      return arena_charge(arena, value.u.text->size / 64);
    default:
      TRY(enter_container(arena, builder));
      TRY(repr_object(arena, builder, value));
      arena_leave(arena);
      return NULL;
  }
}

clave_status append_str(arena *arena, builder *builder, value value) {
  if (value.kind == VALUE_UNDEFINED) return NULL;
  if (value.kind != VALUE_STRING) return append_repr(arena, builder, value);
  builder_add(builder, value.u.text);
  return NULL;
}

clave_status make_str(arena *arena, value subject, value *out) {
  builder builder = {0};
  if (subject.kind == VALUE_STRING) {
    *out = subject;
    return NULL;
  }
  clave_status st = append_str(arena, &builder, subject);
  if (!st) return builder_string(arena, &builder, out);
  builder_free(&builder);
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

static void json_break(builder *builder, const json_style *style, int depth) {
  if (!style->has_indent) return;
  builder_bytes(builder, "\n", 1);
  for (int i = 0; i < depth; i++) builder_add(builder, style->indent);
}

static clave_status json_list(arena *arena, builder *builder, const list *list,
                              const json_style *style, int depth) {
  builder_puts(builder, "[");
  for (size_t i = 0; i < list->count; i++) {
    if (i) builder_add(builder, style->item);
    json_break(builder, style, depth + 1);
    TRY(append_json(arena, builder, list->items[i], style, depth + 1));
  }
  if (list->count) json_break(builder, style, depth);
  builder_puts(builder, "]");
  return NULL;
}

static clave_status json_key_text(arena *arena, builder *builder, value key,
                                  const json_style *style) {
  if (key.kind == VALUE_STRING) return append_json(arena, builder, key, style, 0);
  if (key.kind != VALUE_NONE && !value_number(key))
    return INVALID("keys must be str, int, float, bool or None, not %s", value_type(key));
  builder_puts(builder, "\"");
  TRY(append_json(arena, builder, key, style, 0));
  builder_puts(builder, "\"");
  return NULL;
}

/* Stores pairs (key, index) of all entries, sorted by key. */
static clave_status sort_entries(arena *arena, const dict *dict, list *out) {
  for (size_t i = 0; i < dict->count; i++) {
    value item;
    TRY(make_pair(arena, dict->entries[i].key, value_int((int64_t)i), &item));
    TRY(list_add(arena, out, item));
  }
  return sort_values(arena, out, NULL, false);
}

static clave_status json_dict(arena *arena, builder *builder, const dict *dict,
                              const json_style *style, int depth) {
  list sorted = {0};
  if (style->sort) TRY(sort_entries(arena, dict, &sorted));
  builder_puts(builder, "{");
  for (size_t i = 0; i < dict->count; i++) {
    const dict_entry *entry = &dict->entries[i];
    if (style->sort) entry = &dict->entries[sorted.items[i].u.list->items[1].u.integer];
    if (i) builder_add(builder, style->item);
    json_break(builder, style, depth + 1);
    TRY(json_key_text(arena, builder, entry->key, style));
    builder_add(builder, style->key);
    TRY(append_json(arena, builder, entry->value, style, depth + 1));
  }
  if (dict->count) json_break(builder, style, depth);
  builder_puts(builder, "}");
  return NULL;
}

static void json_real(builder *builder, double d) {
  if (isnan(d) || isinf(d)) {
    builder_puts(builder, isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
  } else {
    append_real(builder, d);
  }
}

static clave_status json_container(arena *arena, builder *builder, value value,
                                   const json_style *style, int depth) {
  if (value.kind == VALUE_DICT) return json_dict(arena, builder, value.u.dict, style, depth);
  if (value.kind == VALUE_LIST || value.kind == VALUE_TUPLE)
    return json_list(arena, builder, value.u.list, style, depth);
  return INVALID("Object of type %s is not JSON serializable", value_type(value));
}

clave_status append_json(arena *arena, builder *builder, value value, const json_style *style,
                         int depth) {
  switch ((value_kind)value.kind) {
    case VALUE_NONE:
      builder_puts(builder, "null");
      return NULL;
    case VALUE_BOOL:
      builder_puts(builder, value.u.truth ? "true" : "false");
      return NULL;
    case VALUE_INT:
      append_integer(builder, value.u.integer);
      return NULL;
    case VALUE_FLOAT:
      json_real(builder, value.u.real);
      return NULL;
    case VALUE_STRING:
      append_quoted(builder, value.u.text, '"', json_escape, style->ascii);
      return arena_charge(arena, value.u.text->size / 64);
    default:
      TRY(enter_container(arena, builder));
      TRY(json_container(arena, builder, value, style, depth));
      arena_leave(arena);
      return NULL;
  }
}
