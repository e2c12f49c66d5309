/* Growing text and aligned columns: what the commands print, before it is printed. */
#include "cli/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "cli/values.h"

static bool reserve_text(page *t, size_t more) {
  if (t->failed) return false;
  if (more < t->capacity - t->size) return true;
  size_t capacity = t->capacity ? t->capacity : 256;
  while (capacity - t->size <= more) {
    if (capacity > SIZE_MAX / 2) return !(t->failed = true);
    capacity *= 2;
  }
  char *data = realloc(t->data, capacity);
  if (!data) return !(t->failed = true);
  t->data = data;
  t->capacity = capacity;
  return true;
}

int page_print(page *t) {
  if (t->failed) return fail_memory();
  for (size_t done = 0; done < t->size;) {
    ssize_t n = write(STDOUT_FILENO, t->data + done, t->size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("standard output: %s", strerror(errno));
    done += (size_t)n;
  }
  t->size = 0;
  return EXIT_GOOD;
}

void page_bytes(page *t, const char *bytes, size_t size) {
  if (!reserve_text(t, size)) return;
  if (size) memcpy(t->data + t->size, bytes, size);
  t->size += size;
  t->data[t->size] = '\0';
}

void page_string(page *t, const char *s) { page_bytes(t, s, strlen(s)); }

static void format_arguments(page *t, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (n < 0) {
    t->failed = true;
    return;
  }
  if (!reserve_text(t, (size_t)n)) return;
  (void)vsnprintf(t->data + t->size, (size_t)n + 1, format, arguments);
  t->size += (size_t)n;
}

void page_format(page *t, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  format_arguments(t, format, arguments);
  va_end(arguments);
}

void page_free(page *t) {
  free(t->data);
  *t = (page){0};
}

void page_size(page *t, uint64_t bytes) {
  static const char *const units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) {
    page_format(t, "%" PRIu64 " bytes", bytes);
    return;
  }
  double value = (double)bytes / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
    value /= 1000;
    unit++;
  }
  page_format(t, "%.1f %s", value, units[unit]);
}

void page_element(page *t, clave_dtype dtype, const void *element, int digits) {
  if (dtype == CLAVE_BOOL) {
    page_string(t, load_integer(dtype, element) ? "true" : "false");
  } else if (is_integer(dtype)) {
    page_format(t, "%" PRId64, load_integer(dtype, element));
  } else {
    page_format(t, "%.*g", digits, load_number(dtype, element));
  }
}

static const char *name_dtype(clave_dtype dtype) {
  const char *name = clave_dtype_name(dtype);
  return name ? name : "?";
}

void page_shape(page *t, const clave_tensor *tensor) {
  page_format(t, "%s [", name_dtype(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) {
    page_format(t, "%s%" PRId64, i ? ", " : "", tensor->dims[i]);
  }
  page_string(t, "]");
}

void page_info(page *t, const clave_tensor_info *info) {
  if (info->is_scalar) {
    page_format(t, "%s scalar", name_dtype(info->dtype));
    return;
  }
  page_format(t, "%s [", name_dtype(info->dtype));
  for (int i = 0; i < info->rank; i++) {
    if (i) page_string(t, ", ");
    if (info->dims[i] != CLAVE_DYNAMIC) {
      page_format(t, "%" PRId64, info->dims[i]);
    } else {
      page_visible(t, info->dim_names[i] && *info->dim_names[i] ? info->dim_names[i] : "?");
    }
  }
  page_string(t, "]");
}

void page_visible(page *t, const char *s) {
  for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
    if (*p < 0x20 || *p == 0x7f) {
      page_format(t, "\\x%02x", *p);
    } else {
      page_bytes(t, (const char *)p, 1);
    }
  }
}

size_t utf8_size(const unsigned char *p) {
  if (p[0] < 0x80) return 1;
  size_t n = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
             : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
             : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                           : 0;
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
  }
  if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
  if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
  return n;
}

void columns_cell(columns *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  format_arguments(&c->cells, format, arguments);
  va_end(arguments);
  page_bytes(&c->cells, "", 1);
  c->n_cells++;
}

/* Characters, not bytes. */
static size_t measure_text(const char *s) {
  size_t n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

static void measure_columns(const columns *c, size_t *widths) {
  const char *cell = c->cells.data;
  for (uint32_t i = 0; i < c->n_cells; i++, cell += strlen(cell) + 1) {
    size_t width = measure_text(cell), *widest = &widths[i % c->n_columns];
    if (width > *widest) *widest = width;
  }
}

void columns_write(columns *c, int indent, page *out) {
  size_t widths[COLUMNS_MAX] = {0};
  if (c->cells.failed) out->failed = true;
  if (!c->cells.failed && c->n_cells) {
    measure_columns(c, widths);
    const char *cell = c->cells.data;
    for (uint32_t i = 0; i < c->n_cells; i++, cell += strlen(cell) + 1) {
      uint32_t column = i % c->n_columns;
      size_t pad = widths[column] - measure_text(cell);
      page_format(out, "%*s", column ? 2 : indent, "");
      if (c->right[column]) page_format(out, "%*s", (int)pad, "");
      page_string(out, cell);
      if (column + 1 == c->n_columns) {
        while (out->size && out->data[out->size - 1] == ' ') out->size--;
        page_string(out, "\n");
      } else if (!c->right[column]) {
        page_format(out, "%*s", (int)pad, "");
      }
    }
  }
  page_free(&c->cells);
  c->n_cells = 0;
}
