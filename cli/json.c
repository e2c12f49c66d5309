/* JSON on growing text: escaping, separators, indentation. */
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/values.h"

static void write_string(text *out, const char *s) {
  text_string(out, "\"");
  for (const unsigned char *p = (const unsigned char *)s; *p;) {
    size_t n = utf8_size(p);
    if (!n) {
      text_string(out, "\\ufffd");
      n = 1;
    } else if (*p == '"' || *p == '\\') {
      text_format(out, "\\%c", *p);
    } else if (*p < 0x20 || *p == 0x7f) {
      text_format(out, "\\u%04x", *p);
    } else {
      text_bytes(out, (const char *)p, n);
    }
    p += n;
  }
  text_string(out, "\"");
}

static void break_line(json *j) {
  if (!j->one_line) text_format(j->out, "\n%*s", 2 * j->depth, "");
}

static void open_value(json *j, const char *key) {
  uint64_t bit = (uint64_t)1 << j->depth;
  if (j->filled & bit) text_string(j->out, j->one_line ? ", " : ",");
  if (j->depth) break_line(j);
  j->filled |= bit;
  if (!key) return;
  write_string(j->out, key);
  text_string(j->out, ": ");
}

static void open_group(json *j, const char *key, const char *bracket) {
  open_value(j, key);
  text_string(j->out, bracket);
  j->depth++;
  j->filled &= ~((uint64_t)1 << j->depth);
}

static void close_group(json *j, const char *bracket) {
  bool filled = j->filled >> j->depth & 1;
  j->depth--;
  if (filled) break_line(j);
  text_string(j->out, bracket);
  if (j->one_line > j->depth) j->one_line = 0;
  if (j->depth == 0) text_string(j->out, "\n");
}

void json_object(json *j, const char *key) { open_group(j, key, "{"); }
void json_array(json *j, const char *key) { open_group(j, key, "["); }
void json_list(json *j, const char *key) {
  open_group(j, key, "[");
  if (!j->one_line) j->one_line = j->depth;
}
void json_end_object(json *j) { close_group(j, "}"); }
void json_end_array(json *j) { close_group(j, "]"); }

void json_string(json *j, const char *key, const char *value) {
  open_value(j, key);
  if (value) {
    write_string(j->out, value);
  } else {
    text_string(j->out, "null");
  }
}

void json_integer(json *j, const char *key, int64_t value) {
  open_value(j, key);
  text_format(j->out, "%" PRId64, value);
}

void json_size(json *j, const char *key, uint64_t value) {
  open_value(j, key);
  text_format(j->out, "%" PRIu64, value);
}

void json_number(json *j, const char *key, double value) {
  open_value(j, key);
  if (isfinite(value)) {
    text_format(j->out, "%.17g", value);
  } else {
    text_string(j->out, "null");
  }
}

void json_bool(json *j, const char *key, bool value) {
  open_value(j, key);
  text_string(j->out, value ? "true" : "false");
}

void json_element(json *j, const char *key, clave_dtype dtype, const void *element) {
  if (dtype == CLAVE_BOOL) {
    json_bool(j, key, load_integer(dtype, element) != 0);
  } else if (is_integer(dtype)) {
    json_integer(j, key, load_integer(dtype, element));
  } else {
    json_number(j, key, load_number(dtype, element));
  }
}

/* A bound per dimension; null where there is none. */
static void write_bounds(json *j, const char *key, const clave_tensor_info *info,
                         const int64_t *bounds) {
  json_list(j, key);
  for (int i = 0; i < info->rank; i++) {
    if (bounds[i] == INT64_MAX) {
      json_string(j, NULL, NULL);
    } else {
      json_integer(j, NULL, bounds[i]);
    }
  }
  json_end_array(j);
}

void json_info(json *j, const clave_tensor_info *info) {
  bool dynamic = false;
  json_string(j, "name", info->name);
  json_string(j, "dtype", clave_dtype_name(info->dtype));
  if (info->is_scalar) json_bool(j, "scalar", true);
  json_list(j, "shape");
  for (int i = 0; i < info->rank; i++) {
    bool known = info->dims[i] != CLAVE_DYNAMIC;
    dynamic |= !known;
    if (known) {
      json_integer(j, NULL, info->dims[i]);
    } else {
      json_string(j, NULL, info->dim_names[i] && *info->dim_names[i] ? info->dim_names[i] : "?");
    }
  }
  json_end_array(j);
  if (!dynamic) return;
  write_bounds(j, "min_shape", info, info->min_dims);
  write_bounds(j, "max_shape", info, info->max_dims);
}
