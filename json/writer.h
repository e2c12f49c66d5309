#ifndef JSON_WRITER_H
#define JSON_WRITER_H
/* Writes JSON to growing text. An object or array has one line per member, or is written on one
 * line. The result does not depend on the locale. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

typedef struct json_writer {
  text *out;
  bool compact;    /* neither blanks nor line breaks */
  int depth;       /* at most 63 */
  int one_line;    /* depth from which on line breaks are omitted; 0 if none are omitted */
  uint64_t filled; /* bit d: something was written at depth d */
} json_writer;

/* key: the member's key in an object, NULL in an array. Keys and strings are NUL-terminated.
 * Invalid UTF-8 is replaced by U+FFFD. */
void emit_object(json_writer *writer, const char *key);
void emit_array(json_writer *writer, const char *key);
void emit_record(json_writer *writer, const char *key); /* an object on one line */
void emit_list(json_writer *writer, const char *key);   /* an array on one line */
/* The end of the outermost object or array also ends the line, unless compact. */
void emit_end_object(json_writer *writer);
void emit_end_array(json_writer *writer);
/* Writes null for NULL. */
void emit_string(json_writer *writer, const char *key, const char *value);
/* Writes any bytes as a string; see emit_object for invalid UTF-8. */
void emit_text(json_writer *writer, const char *key, const char *value, size_t size);
void emit_integer(json_writer *writer, const char *key, int64_t value);
void emit_id(json_writer *writer, const char *key, int64_t id); /* null if it is negative */
void emit_size(json_writer *writer, const char *key, uint64_t value);
/* Writes a number with 17 digits; null if it is not finite. */
void emit_number(json_writer *writer, const char *key, double value);
/* Writes a number with `places` decimals. It must be finite. */
void emit_decimal(json_writer *writer, const char *key, double value, int places);
void emit_bool(json_writer *writer, const char *key, bool value);
/* Write values so that json_i64, json_u64 and json_f64 read them exactly: integers of 2^53 or more
 * as strings of digits, non-finite numbers by name. */
void emit_i64(json_writer *writer, const char *key, int64_t value);
void emit_u64(json_writer *writer, const char *key, uint64_t value);
void emit_f64(json_writer *writer, const char *key, double value);

#endif
