#ifndef CLI_PAGE_H
#define CLI_PAGE_H
/* What a command answers: it writes all of it into one page, and main prints that only if the
 * command succeeded. Out of memory is remembered in `failed`, as in any text. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "clave.h"

typedef text page;

/* "1.5 MB" */
void page_size(page *page, uint64_t bytes);
/* Appends microseconds as "12.3 us", "4.56 ms" or "7.89 s". */
void page_time(page *page, double us);
/* One element: integers exactly, floats with `digits` significant digits. */
void page_element(page *page, clave_dtype dtype, const void *element, int digits);
/* "F32 [3, 8]"; dynamic dimensions by name, "batch" or "?". */
void page_shape(page *page, const clave_tensor *tensor);
void page_info(page *page, const clave_tensor_info *info);
/* Letters as they are, control characters as \x0a: safe on a terminal and within one line. */
void page_visible(page *page, const char *text);

/* A table whose columns are aligned when it is written. Cells are added row by row. */
enum { COLUMNS_MAX = 12 };
typedef struct columns {
  page cells; /* NUL-ended, one after the other */
  uint32_t n_columns, n_cells;
  bool right[COLUMNS_MAX]; /* aligned to the right */
} columns;

void columns_cell(columns *columns, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes every row indented by `indent`, two spaces between the columns, and frees the cells. */
void columns_write(columns *columns, int indent, page *out);

#endif
