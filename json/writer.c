/* JSON on growing text: escaping, separators, indentation, numbers. */
#include "json/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

/* ---------------------------------------------------------------- strings */

static void write_escaped(text *out, const char *at) {
  unsigned char c = (unsigned char)*at;
  if (c == '"' || c == '\\') {
    text_printf(out, "\\%c", c);
  } else if (c < 0x80) {
    text_printf(out, "\\u%04x", c);
  } else {
    text_puts(out, "\\ufffd");
  }
}

static void write_text(text *out, const char *s, size_t size) {
  const char *end = s + size, *plain = s;
  text_puts(out, "\"");
  while (s < end) {
    unsigned char c = (unsigned char)*s;
    size_t n = utf8_sequence(s, (size_t)(end - s));
    if (n && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
      s += n;
      continue;
    }
    text_append(out, plain, (size_t)(s - plain));
    write_escaped(out, s++);
    plain = s;
  }
  text_append(out, plain, (size_t)(end - plain));
  text_puts(out, "\"");
}

/* ---------------------------------------------------------------- structure */

static void break_line(json_writer *j) {
  if (!j->one_line && !j->compact) text_printf(j->out, "\n%*s", 2 * j->depth, "");
}

static void open_value(json_writer *j, const char *key) {
  uint64_t bit = (uint64_t)1 << j->depth;
  if (j->filled & bit) text_puts(j->out, j->one_line && !j->compact ? ", " : ",");
  if (j->depth) break_line(j);
  j->filled |= bit;
  if (!key) return;
  write_text(j->out, key, strlen(key));
  text_puts(j->out, j->compact ? ":" : ": ");
}

static void open_group(json_writer *j, const char *key, const char *bracket, bool one_line) {
  open_value(j, key);
  text_puts(j->out, bracket);
  j->depth++;
  assert(j->depth < 64);
  j->filled &= ~((uint64_t)1 << j->depth);
  if (one_line && !j->one_line) j->one_line = j->depth;
}

static void close_group(json_writer *j, const char *bracket) {
  bool filled = j->filled >> j->depth & 1;
  j->depth--;
  if (filled) break_line(j);
  text_puts(j->out, bracket);
  if (j->one_line > j->depth) j->one_line = 0;
  if (j->depth == 0 && !j->compact) text_puts(j->out, "\n");
}

void emit_object(json_writer *j, const char *key) { open_group(j, key, "{", false); }
void emit_array(json_writer *j, const char *key) { open_group(j, key, "[", false); }
void emit_record(json_writer *j, const char *key) { open_group(j, key, "{", true); }
void emit_list(json_writer *j, const char *key) { open_group(j, key, "[", true); }
void emit_end_object(json_writer *j) { close_group(j, "}"); }
void emit_end_array(json_writer *j) { close_group(j, "]"); }

/* ---------------------------------------------------------------- values */

void emit_text(json_writer *j, const char *key, const char *value, size_t size) {
  open_value(j, key);
  write_text(j->out, value, size);
}

static void write_word(json_writer *j, const char *key, const char *word) {
  open_value(j, key);
  text_puts(j->out, word);
}

void emit_string(json_writer *j, const char *key, const char *value) {
  if (value) {
    emit_text(j, key, value, strlen(value));
  } else {
    write_word(j, key, "null");
  }
}

void emit_bool(json_writer *j, const char *key, bool value) {
  write_word(j, key, value ? "true" : "false");
}

void emit_integer(json_writer *j, const char *key, int64_t value) {
  open_value(j, key);
  text_printf(j->out, "%" PRId64, value);
}

void emit_size(json_writer *j, const char *key, uint64_t value) {
  open_value(j, key);
  text_printf(j->out, "%" PRIu64, value);
}

void emit_number(json_writer *j, const char *key, double value) {
  char digits[40];
  if (!isfinite(value)) {
    write_word(j, key, "null");
    return;
  }
  (void)number_print(digits, sizeof digits, "%.17g", value);
  write_word(j, key, digits);
}

void emit_decimal(json_writer *j, const char *key, double value, int places) {
  char digits[400]; /* DBL_MAX has 309 before the point */
  assert(isfinite(value) && places < 50);
  (void)number_print(digits, sizeof digits, "%.*f", places, value);
  write_word(j, key, digits);
}

void emit_i64(json_writer *j, const char *key, int64_t value) {
  bool exact = value > -(INT64_C(1) << 53) && value < INT64_C(1) << 53;
  open_value(j, key);
  text_printf(j->out, exact ? "%" PRId64 : "\"%" PRId64 "\"", value);
}

void emit_u64(json_writer *j, const char *key, uint64_t value) {
  open_value(j, key);
  text_printf(j->out, value < UINT64_C(1) << 53 ? "%" PRIu64 : "\"%" PRIu64 "\"", value);
}

void emit_f64(json_writer *j, const char *key, double value) {
  if (isfinite(value)) {
    emit_number(j, key, value);
  } else {
    emit_string(j, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
}
