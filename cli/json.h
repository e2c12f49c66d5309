#ifndef CLI_JSON_H
#define CLI_JSON_H
/* The one JSON writer of the command line: a line per member, except in what json_list opens. */
#include <stdbool.h>
#include <stdint.h>

#include "cli/text.h"

typedef struct json {
  text *out;
  int depth;
  uint64_t filled; /* bit d: something was written at depth d */
  int one_line;    /* the depth from which on nothing breaks the line; 0: none */
} json;

/* In an object a value follows its key; in an array key is NULL. */
void json_object(json *j, const char *key);
void json_array(json *j, const char *key);
void json_list(json *j, const char *key); /* an array on one line; json_end_array ends it */
void json_end_object(json *j);            /* at depth 0 also ends the line */
void json_end_array(json *j);
void json_string(json *j, const char *key,
                 const char *value); /* null for NULL; bad UTF-8 becomes U+FFFD */
void json_integer(json *j, const char *key, int64_t value);
void json_size(json *j, const char *key, uint64_t value);
void json_number(json *j, const char *key, double value); /* 17 digits; null if not finite */
void json_bool(json *j, const char *key, bool value);
void json_element(json *j, const char *key, clave_dtype dtype, const void *element);
/* {"name", "dtype", "shape", ...} is built of these. */
void json_info(json *j, const clave_tensor_info *info); /* members of an open object */

#endif
