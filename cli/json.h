#ifndef CLI_JSON_H
#define CLI_JSON_H
/* The one JSON writer of the command line: a line per member, except in what emit_list opens. */
#include <stdbool.h>
#include <stdint.h>

#include "cli/page.h"

typedef struct json {
  page *out;
  int depth;
  uint64_t filled; /* bit d: something was written at depth d */
  int one_line;    /* the depth from which on nothing breaks the line; 0: none */
} json;

/* In an object a value follows its key; in an array key is NULL. */
void emit_object(json *j, const char *key);
void emit_array(json *j, const char *key);
void emit_list(json *j, const char *key); /* an array on one line; emit_end_array ends it */
void emit_end_object(json *j);            /* at depth 0 also ends the line */
void emit_end_array(json *j);
void emit_string(json *j, const char *key,
                 const char *value); /* null for NULL; bad UTF-8 becomes U+FFFD */
/* May hold NULs, and ends in one. */
void emit_text(json *j, const char *key, const char *value, size_t size);
void emit_integer(json *j, const char *key, int64_t value);
void emit_size(json *j, const char *key, uint64_t value);
void emit_number(json *j, const char *key, double value); /* 17 digits; null if not finite */
void emit_bool(json *j, const char *key, bool value);
void emit_element(json *j, const char *key, clave_dtype dtype, const void *element);
/* {"name", "dtype", "shape", ...} is built of these. */
void emit_info(json *j, const clave_tensor_info *info); /* members of an open object */

#endif
