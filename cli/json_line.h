#ifndef CLI_JSON_LINE_H
#define CLI_JSON_LINE_H
/* Lines of JSON, strictly (RFC 8259): a string, or a list of ids. */
#include "cli/page.h"

/* NULL if it is good, else what was expected. Appends the string's bytes, NUL too. */
const char *read_json_string(const char *line, size_t size, page *out);

typedef struct id_page {
  uint32_t *items; /* owned */
  size_t count, capacity;
} id_page;
const char *read_json_ids(const char *line, size_t size, id_page *out); /* replaces what it holds */

#endif
