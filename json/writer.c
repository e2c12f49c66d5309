/* Writes JSON to growing text: escaping, separators, indentation, numbers. */
#include "json/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

/* ---------------------------------------------------------------- strings */

static void writer_write_escaped(text *out, const char *at) {
  unsigned char c = (unsigned char)*at;
  if (c == '"' || c == '\\') {
    text_printf(out, "\\%c", c);
  } else if (c < 0x80) {
    text_printf(out, "\\u%04x", c);
  } else {
    text_puts(out, "\\ufffd");
  }
}

static void writer_write_text(text *out, const char *string, size_t size) {
  const char *end = string + size, *plain = string;
  text_puts(out, "\"");
  while (string < end) {
    unsigned char c = (unsigned char)*string;
    size_t n = utf8_sequence(string, (size_t)(end - string));
    if (n && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
      string += n;
      continue;
    }
    text_append(out, plain, (size_t)(string - plain));
    writer_write_escaped(out, string++);
    plain = string;
  }
  text_append(out, plain, (size_t)(end - plain));
  text_puts(out, "\"");
}

/* ---------------------------------------------------------------- structure */

static void break_line(json_writer *writer) {
  if (!writer->one_line && !writer->compact)
    text_printf(writer->out, "\n%*s", 2 * writer->depth, "");
}

static void writer_open_value(json_writer *writer, const char *key) {
  uint64_t bit = (uint64_t)1 << writer->depth;
  if (writer->filled & bit)
    text_puts(writer->out, writer->one_line && !writer->compact ? ", " : ",");
  if (writer->depth) break_line(writer);
  writer->filled |= bit;
  if (!key) return;
  writer_write_text(writer->out, key, strlen(key));
  text_puts(writer->out, writer->compact ? ":" : ": ");
}

static void writer_open_container(json_writer *writer, const char *key, const char *bracket,
                                  bool one_line) {
  writer_open_value(writer, key);
  text_puts(writer->out, bracket);
  writer->depth++;
  assert(writer->depth < 64);
  writer->filled &= ~((uint64_t)1 << writer->depth);
  if (one_line && !writer->one_line) writer->one_line = writer->depth;
}

static void writer_close_container(json_writer *writer, const char *bracket) {
  bool filled = writer->filled >> writer->depth & 1;
  writer->depth--;
  if (filled) break_line(writer);
  text_puts(writer->out, bracket);
  if (writer->one_line > writer->depth) writer->one_line = 0;
  if (writer->depth == 0 && !writer->compact) text_puts(writer->out, "\n");
}

void emit_object(json_writer *writer, const char *key) {
  writer_open_container(writer, key, "{", false);
}
void emit_array(json_writer *writer, const char *key) {
  writer_open_container(writer, key, "[", false);
}
void emit_record(json_writer *writer, const char *key) {
  writer_open_container(writer, key, "{", true);
}
void emit_list(json_writer *writer, const char *key) {
  writer_open_container(writer, key, "[", true);
}
void emit_end_object(json_writer *writer) { writer_close_container(writer, "}"); }
void emit_end_array(json_writer *writer) { writer_close_container(writer, "]"); }

/* ---------------------------------------------------------------- values */

void emit_text(json_writer *writer, const char *key, const char *value, size_t size) {
  writer_open_value(writer, key);
  writer_write_text(writer->out, value, size);
}

static void write_word(json_writer *writer, const char *key, const char *word) {
  writer_open_value(writer, key);
  text_puts(writer->out, word);
}

void emit_string(json_writer *writer, const char *key, const char *value) {
  if (value) {
    emit_text(writer, key, value, strlen(value));
  } else {
    write_word(writer, key, "null");
  }
}

void emit_bool(json_writer *writer, const char *key, bool value) {
  write_word(writer, key, value ? "true" : "false");
}

void emit_integer(json_writer *writer, const char *key, int64_t value) {
  writer_open_value(writer, key);
  text_printf(writer->out, "%" PRId64, value);
}

void emit_id(json_writer *writer, const char *key, int64_t id) {
  if (id < 0)
    emit_string(writer, key, NULL);
  else
    emit_integer(writer, key, id);
}

void emit_size(json_writer *writer, const char *key, uint64_t value) {
  writer_open_value(writer, key);
  text_printf(writer->out, "%" PRIu64, value);
}

void emit_number(json_writer *writer, const char *key, double value) {
  char digits[40];
  if (!isfinite(value)) {
    write_word(writer, key, "null");
    return;
  }
  (void)number_print(digits, sizeof digits, "%.17g", value);
  write_word(writer, key, digits);
}

void emit_decimal(json_writer *writer, const char *key, double value, int places) {
  char digits[400]; /* DBL_MAX has 309 digits before the point */
  assert(isfinite(value) && places < 50);
  (void)number_print(digits, sizeof digits, "%.*f", places, value);
  write_word(writer, key, digits);
}

void emit_i64(json_writer *writer, const char *key, int64_t value) {
  bool exact = value > -(INT64_C(1) << 53) && value < INT64_C(1) << 53;
  writer_open_value(writer, key);
  text_printf(writer->out, exact ? "%" PRId64 : "\"%" PRId64 "\"", value);
}

void emit_u64(json_writer *writer, const char *key, uint64_t value) {
  writer_open_value(writer, key);
  text_printf(writer->out, value < UINT64_C(1) << 53 ? "%" PRIu64 : "\"%" PRIu64 "\"", value);
}

void emit_f64(json_writer *writer, const char *key, double value) {
  if (isfinite(value)) {
    emit_number(writer, key, value);
  } else {
    emit_string(writer, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
}
