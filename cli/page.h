#ifndef CLI_PAGE_H
#define CLI_PAGE_H
/* The output of a command: it writes all of it into one page, which main prints only if the command
 * succeeded. `failed` records running out of memory, as in any text. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "clave.h"

typedef text page;

/* Appends a size such as "1.5 MB". */
void page_size(page *page, uint64_t bytes);
/* Appends microseconds as "12.3 us", "4.56 ms" or "7.89 s". */
void page_time(page *page, double us);
/* Appends one element: integers exactly, floats with `digits` significant digits. */
void page_element(page *page, clave_dtype dtype, const void *element, int digits);
/* Appends "F32 [3, 8]"; dynamic dimensions by name ("batch") or as "?". */
void page_shape(page *page, const clave_tensor *tensor);
void page_info(page *page, const clave_tensor_info *info);
/* Appends text with control characters as \x0a, so that it is safe on a terminal and on one line.
 */
void page_visible(page *page, const char *text);

/* A table whose columns are aligned when it is written. Cells are added row by row. */
enum { COLUMNS_MAX = 12 };
typedef struct columns {
  page cells; /* NUL-terminated, in order */
  uint32_t n_columns, n_cells;
  bool right[COLUMNS_MAX]; /* aligned to the right */
} columns;

void columns_cell(columns *columns, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes every row indented by `indent`, two spaces between the columns, and frees the cells. */
void columns_write(columns *columns, int indent, page *out);

#endif
