#ifndef JSON_WRITER_H
#define JSON_WRITER_H
/* The JSON writer, on growing text: objects and arrays have a line per member, or lie on one line.
 * Depends on no locale. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

typedef struct json_writer {
  text *out;
  bool compact;    /* neither blanks nor line breaks */
  int depth;       /* at most 63 */
  int one_line;    /* the depth from which on nothing breaks the line; 0: none */
  uint64_t filled; /* bit d: something was written at depth d */
} json_writer;

/* In an object a value follows its key; in an array key is NULL. Keys and strings end in NUL. What
 * is no UTF-8 becomes U+FFFD. */
void emit_object(json_writer *writer, const char *key);
void emit_array(json_writer *writer, const char *key);
void emit_record(json_writer *writer, const char *key); /* an object on one line */
void emit_list(json_writer *writer, const char *key);   /* an array on one line */
/* What ends at depth 0 also ends the line, unless compact. */
void emit_end_object(json_writer *writer);
void emit_end_array(json_writer *writer);
void emit_string(json_writer *writer, const char *key, const char *value); /* null for NULL */
void emit_text(json_writer *writer, const char *key, const char *value,
               size_t size); /* any bytes */
void emit_integer(json_writer *writer, const char *key, int64_t value);
void emit_size(json_writer *writer, const char *key, uint64_t value);
void emit_number(json_writer *writer, const char *key,
                 double value); /* 17 digits; null if not finite */
void emit_decimal(json_writer *writer, const char *key, double value, int places); /* finite */
void emit_bool(json_writer *writer, const char *key, bool value);
/* Exactly, as json_i64, json_u64 and json_f64 read them: integers from 2^53 on as a string of
 * digits, what is not finite by name. */
void emit_i64(json_writer *writer, const char *key, int64_t value);
void emit_u64(json_writer *writer, const char *key, uint64_t value);
void emit_f64(json_writer *writer, const char *key, double value);

#endif
