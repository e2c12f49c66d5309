#ifndef CLI_TEXT_H
#define CLI_TEXT_H
/* Growing text: a command writes its whole answer into one, and main prints it only if the command
 * succeeded. Out of memory is remembered in `failed`; later additions do nothing. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

typedef struct text {
  char *data; /* owned, ends in NUL once anything was added */
  size_t size, capacity;
  bool failed;
} text;

void text_bytes(text *t, const char *bytes, size_t size);
void text_string(text *t, const char *s);
void text_format(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(text *t);
/* "1.5 MB" */
void text_size(text *t, uint64_t bytes);
/* One element: integers exactly, floats with `digits` significant digits. */
void text_element(text *t, clave_dtype dtype, const void *element, int digits);
/* "F32 [3, 8]"; dynamic dimensions by name, "batch" or "?". */
void text_shape(text *t, const clave_tensor *tensor);
void text_info(text *t, const clave_tensor_info *info);
/* Letters as they are, control characters as \x0a: safe on a terminal and within one line. */
void text_visible(text *t, const char *s);
/* Bytes of the well-formed UTF-8 sequence at p (NUL-ended), 0 if there is none. */
size_t utf8_size(const unsigned char *p);

/* A table whose columns are aligned when it is written. Cells are added row by row. */
enum { COLUMNS_MAX = 12 };
typedef struct columns {
  text cells; /* NUL-ended, one after the other */
  uint32_t n_columns, n_cells;
  bool right[COLUMNS_MAX]; /* aligned to the right */
} columns;

void columns_cell(columns *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes every row indented by `indent`, two spaces between the columns, and frees the cells. */
void columns_write(columns *c, int indent, text *out);

#endif
