/* JSON on growing text: escaping, separators, indentation. */
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/values.h"

/* s ends in NUL, and may hold more. */
static void write_text(page *out, const char *s, size_t size) {
  const unsigned char *end = (const unsigned char *)s + size;
  page_string(out, "\"");
  for (const unsigned char *p = (const unsigned char *)s; p < end;) {
    size_t n = utf8_size(p);
    if (!n) {
      page_string(out, "\\ufffd");
      n = 1;
    } else if (*p == '"' || *p == '\\') {
      page_format(out, "\\%c", *p);
    } else if (*p < 0x20 || *p == 0x7f) {
      page_format(out, "\\u%04x", *p);
    } else {
      page_bytes(out, (const char *)p, n);
    }
    p += n;
  }
  page_string(out, "\"");
}

static void write_string(page *out, const char *s) { write_text(out, s, strlen(s)); }

static void break_line(json *j) {
  if (!j->one_line) page_format(j->out, "\n%*s", 2 * j->depth, "");
}

static void open_value(json *j, const char *key) {
  uint64_t bit = (uint64_t)1 << j->depth;
  if (j->filled & bit) page_string(j->out, j->one_line ? ", " : ",");
  if (j->depth) break_line(j);
  j->filled |= bit;
  if (!key) return;
  write_string(j->out, key);
  page_string(j->out, ": ");
}

static void open_group(json *j, const char *key, const char *bracket) {
  open_value(j, key);
  page_string(j->out, bracket);
  j->depth++;
  j->filled &= ~((uint64_t)1 << j->depth);
}

static void close_group(json *j, const char *bracket) {
  bool filled = j->filled >> j->depth & 1;
  j->depth--;
  if (filled) break_line(j);
  page_string(j->out, bracket);
  if (j->one_line > j->depth) j->one_line = 0;
  if (j->depth == 0) page_string(j->out, "\n");
}

void emit_object(json *j, const char *key) { open_group(j, key, "{"); }
void emit_array(json *j, const char *key) { open_group(j, key, "["); }
void emit_list(json *j, const char *key) {
  open_group(j, key, "[");
  if (!j->one_line) j->one_line = j->depth;
}
void emit_end_object(json *j) { close_group(j, "}"); }
void emit_end_array(json *j) { close_group(j, "]"); }

void emit_string(json *j, const char *key, const char *value) {
  open_value(j, key);
  if (value) {
    write_string(j->out, value);
  } else {
    page_string(j->out, "null");
  }
}

void emit_text(json *j, const char *key, const char *value, size_t size) {
  open_value(j, key);
  write_text(j->out, value, size);
}

void emit_integer(json *j, const char *key, int64_t value) {
  open_value(j, key);
  page_format(j->out, "%" PRId64, value);
}

void emit_size(json *j, const char *key, uint64_t value) {
  open_value(j, key);
  page_format(j->out, "%" PRIu64, value);
}

void emit_number(json *j, const char *key, double value) {
  open_value(j, key);
  if (isfinite(value)) {
    page_format(j->out, "%.17g", value);
  } else {
    page_string(j->out, "null");
  }
}

void emit_bool(json *j, const char *key, bool value) {
  open_value(j, key);
  page_string(j->out, value ? "true" : "false");
}

void emit_element(json *j, const char *key, clave_dtype dtype, const void *element) {
  if (dtype == CLAVE_BOOL) {
    emit_bool(j, key, load_integer(dtype, element) != 0);
  } else if (is_integer(dtype)) {
    emit_integer(j, key, load_integer(dtype, element));
  } else {
    emit_number(j, key, load_number(dtype, element));
  }
}

/* A bound per dimension; null where there is none. */
static void write_bounds(json *j, const char *key, const clave_tensor_info *info,
                         const int64_t *bounds) {
  emit_list(j, key);
  for (int i = 0; i < info->rank; i++) {
    if (bounds[i] == INT64_MAX) {
      emit_string(j, NULL, NULL);
    } else {
      emit_integer(j, NULL, bounds[i]);
    }
  }
  emit_end_array(j);
}

void emit_info(json *j, const clave_tensor_info *info) {
  bool dynamic = false;
  emit_string(j, "name", info->name);
  emit_string(j, "dtype", clave_dtype_name(info->dtype));
  if (info->is_scalar) emit_bool(j, "scalar", true);
  emit_list(j, "shape");
  for (int i = 0; i < info->rank; i++) {
    bool known = info->dims[i] != CLAVE_DYNAMIC;
    dynamic |= !known;
    if (known) {
      emit_integer(j, NULL, info->dims[i]);
    } else {
      emit_string(j, NULL, info->dim_names[i] && *info->dim_names[i] ? info->dim_names[i] : "?");
    }
  }
  emit_end_array(j);
  if (!dynamic) return;
  write_bounds(j, "min_shape", info, info->min_dims);
  write_bounds(j, "max_shape", info, info->max_dims);
}
