/* Pages and aligned columns: what the commands print, before it is printed. */
#include "cli/page.h"

#include <inttypes.h>
#include <string.h>

#include "cli/values.h"

void page_size(page *t, uint64_t bytes) {
  static const char *const units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) {
    text_printf(t, "%" PRIu64 " bytes", bytes);
    return;
  }
  double value = (double)bytes / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
    value /= 1000;
    unit++;
  }
  text_printf(t, "%.1f %s", value, units[unit]);
}

void page_element(page *t, clave_dtype dtype, const void *element, int digits) {
  if (dtype == CLAVE_BOOL) {
    text_puts(t, load_integer(dtype, element) ? "true" : "false");
  } else if (dtype == CLAVE_U64) {
    text_printf(t, "%" PRIu64, (uint64_t)load_integer(dtype, element));
  } else if (is_integer(dtype)) {
    text_printf(t, "%" PRId64, load_integer(dtype, element));
  } else {
    text_printf(t, "%.*g", digits, load_number(dtype, element));
  }
}

static const char *name_dtype(clave_dtype dtype) {
  const char *name = clave_dtype_name(dtype);
  return name ? name : "?";
}

void page_shape(page *t, const clave_tensor *tensor) {
  text_printf(t, "%s [", name_dtype(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) {
    text_printf(t, "%s%" PRId64, i ? ", " : "", tensor->dims[i]);
  }
  text_puts(t, "]");
}

void page_info(page *t, const clave_tensor_info *info) {
  if (info->is_scalar) {
    text_printf(t, "%s scalar", name_dtype(info->dtype));
    return;
  }
  text_printf(t, "%s [", name_dtype(info->dtype));
  for (int i = 0; i < info->rank; i++) {
    if (i) text_puts(t, ", ");
    if (info->dims[i] != CLAVE_DYNAMIC) {
      text_printf(t, "%" PRId64, info->dims[i]);
    } else {
      page_visible(t, info->dim_names[i] && *info->dim_names[i] ? info->dim_names[i] : "?");
    }
  }
  text_puts(t, "]");
  if (info->encoding) text_printf(t, " %s", info->encoding_text);
}

void page_visible(page *t, const char *s) {
  for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
    if (*p < 0x20 || *p == 0x7f) {
      text_printf(t, "\\x%02x", *p);
    } else {
      text_append(t, (const char *)p, 1);
    }
  }
}

void columns_cell(columns *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  text_vprintf(&c->cells, format, arguments);
  va_end(arguments);
  text_append(&c->cells, "", 1);
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

void page_time(page *t, double us) {
  if (us < 1e3) {
    text_printf(t, "%.1f us", us);
  } else {
    text_printf(t, us < 1e6 ? "%.2f ms" : "%.2f s", us < 1e6 ? us / 1e3 : us / 1e6);
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
      text_printf(out, "%*s", column ? 2 : indent, "");
      if (c->right[column]) text_printf(out, "%*s", (int)pad, "");
      text_puts(out, cell);
      if (column + 1 == c->n_columns) {
        while (out->size && out->data[out->size - 1] == ' ') out->size--;
        text_puts(out, "\n");
      } else if (!c->right[column]) {
        text_printf(out, "%*s", (int)pad, "");
      }
    }
  }
  text_free(&c->cells);
  c->n_cells = 0;
}
