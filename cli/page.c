/* Pages and aligned columns: a command's output before it is printed. */
#include "cli/page.h"

#include <inttypes.h>
#include <string.h>

#include "cli/values.h"

void page_size(page *page, uint64_t bytes) {
  static const char *const units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) {
    text_printf(page, "%" PRIu64 " bytes", bytes);
    return;
  }
  double value = (double)bytes / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
    value /= 1000;
    unit++;
  }
  text_printf(page, "%.1f %s", value, units[unit]);
}

void page_time(page *page, double us) {
  if (us < 999.95) {
    text_printf(page, "%.1f us", us);
  } else if (us < 999.995e3) {
    text_printf(page, "%.2f ms", us * 1e-3);
  } else {
    text_printf(page, "%.2f s", us * 1e-6);
  }
}

void page_element(page *page, clave_dtype dtype, const void *element, int digits) {
  if (dtype == CLAVE_BOOL) {
    text_puts(page, load_integer(dtype, element) ? "true" : "false");
  } else if (dtype == CLAVE_U64) {
    text_printf(page, "%" PRIu64, (uint64_t)load_integer(dtype, element));
  } else if (is_integer(dtype)) {
    text_printf(page, "%" PRId64, load_integer(dtype, element));
  } else {
    text_printf(page, "%.*g", digits, load_number(dtype, element));
  }
}

static const char *name_dtype(clave_dtype dtype) {
  const char *name = clave_dtype_name(dtype);
  return name ? name : "?";
}

void page_shape(page *page, const clave_tensor *tensor) {
  text_printf(page, "%s [", name_dtype(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) {
    text_printf(page, "%s%" PRId64, i ? ", " : "", tensor->dims[i]);
  }
  text_puts(page, "]");
}

void page_info(page *page, const clave_tensor_info *info) {
  if (info->is_scalar) {
    text_printf(page, "%s scalar", name_dtype(info->dtype));
    return;
  }
  text_printf(page, "%s [", name_dtype(info->dtype));
  for (int i = 0; i < info->rank; i++) {
    if (i) text_puts(page, ", ");
    if (info->dims[i] != CLAVE_DYNAMIC) {
      text_printf(page, "%" PRId64, info->dims[i]);
    } else {
      page_visible(page, info->dim_names[i] && *info->dim_names[i] ? info->dim_names[i] : "?");
    }
  }
  text_puts(page, "]");
  if (info->encoding) text_printf(page, " %s", info->encoding_text);
}

void page_visible(page *page, const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p < 0x20 || *p == 0x7f) {
      text_printf(page, "\\x%02x", *p);
    } else {
      text_append(page, (const char *)p, 1);
    }
  }
}

void columns_cell(columns *columns, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  text_vprintf(&columns->cells, format, arguments);
  va_end(arguments);
  text_append(&columns->cells, "", 1);
  columns->n_cells++;
}

/* Counts characters, not bytes. */
static size_t measure_text(const char *text) {
  size_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

static void measure_columns(const columns *columns, size_t *widths) {
  const char *cell = columns->cells.data;
  for (uint32_t i = 0; i < columns->n_cells; i++, cell += strlen(cell) + 1) {
    size_t width = measure_text(cell), *widest = &widths[i % columns->n_columns];
    if (width > *widest) *widest = width;
  }
}

void columns_write(columns *columns, int indent, page *out) {
  size_t widths[COLUMNS_MAX] = {0};
  if (columns->cells.failed) out->failed = true;
  if (!columns->cells.failed && columns->n_cells) {
    measure_columns(columns, widths);
    const char *cell = columns->cells.data;
    for (uint32_t i = 0; i < columns->n_cells; i++, cell += strlen(cell) + 1) {
      uint32_t column = i % columns->n_columns;
      size_t pad = widths[column] - measure_text(cell);
      text_printf(out, "%*s", column ? 2 : indent, "");
      if (columns->right[column]) text_printf(out, "%*s", (int)pad, "");
      text_puts(out, cell);
      if (column + 1 == columns->n_columns) {
        while (out->size && out->data[out->size - 1] == ' ') out->size--;
        text_puts(out, "\n");
      } else if (!columns->right[column]) {
        text_printf(out, "%*s", (int)pad, "");
      }
    }
  }
  text_free(&columns->cells);
  columns->n_cells = 0;
}
