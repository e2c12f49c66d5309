/* Structs of arguments as C initialisers. */
#include "compile/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
  text *to;
  const pointer_writer *pointers;
  const char *data; /* of the outermost struct */
} printer;

/* ---------------------------------------------------------------- numbers */

static int64_t read_int(const void *p, size_t size) {
  int64_t wide;
  int32_t word;
  int16_t half;
  int8_t byte;
  switch (size) {
    case 8:
      memcpy(&wide, p, sizeof wide);
      return wide;
    case 4:
      memcpy(&word, p, sizeof word);
      return word;
    case 2:
      memcpy(&half, p, sizeof half);
      return half;
    default:
      memcpy(&byte, p, sizeof byte);
      return byte;
  }
}

static uint64_t read_uint(const void *p, size_t size) {
  const uint64_t all = (uint64_t)read_int(p, size);
  return size == 8 ? all : all & (((uint64_t)1 << 8 * size) - 1);
}

static double read_float(const void *p, size_t size) {
  double wide;
  float narrow;
  if (size == sizeof narrow) {
    memcpy(&narrow, p, sizeof narrow);
    return (double)narrow;
  }
  memcpy(&wide, p, sizeof wide);
  return wide;
}

void write_int(text *to, int64_t v) {
  if (v == INT64_MIN) {
    text_puts(to, "INT64_MIN");
  } else {
    text_printf(to, "%" PRId64, v);
  }
}

/* The host's locale may write the point otherwise. */
void write_float(text *to, double v) {
  char digits[40];
  if (isnan(v)) {
    text_puts(to, "NAN");
  } else if (isinf(v)) {
    text_puts(to, v < 0 ? "-INFINITY" : "INFINITY");
  } else {
    (void)snprintf(digits, sizeof digits, "%.17g", v);
    const size_t point = strspn(digits, "-+0123456789e");
    if (digits[point]) digits[point] = '.';
    text_puts(to, digits);
    if (!digits[point] && !strchr(digits, 'e')) text_puts(to, ".0");
  }
}

static void write_enum(text *to, const struct_field *f, const void *p) {
  const int64_t v = read_int(p, f->size);
  for (int i = 0; i < f->n_names; i++) {
    if (f->names[i].value != v) continue;
    text_puts(to, f->names[i].name);
    return;
  }
  write_int(to, v);
}

/* ---------------------------------------------------------------- fields */

/* separator: what goes before a field. */
static bool print_struct(const printer *p, const struct_info *s, size_t at, const char *separator);

/* One value, `at` bytes from where the outermost struct begins. False: it is 0, and was not
 * written. */
static bool print_value(const printer *p, const struct_field *f, size_t at) {
  const char *data = p->data + at;
  if (f->kind == FIELD_STRUCT) return print_struct(p, f->of, at, "");
  if (f->kind == FIELD_POINTER) return p->pointers->write(p->pointers->ctx, at, p->to);
  if (read_uint(data, f->size) == 0) return false; /* -0.0 is none */
  switch (f->kind) {
    case FIELD_BOOL:
      text_puts(p->to, "true");
      break;
    case FIELD_ENUM:
      write_enum(p->to, f, data);
      break;
    case FIELD_UINT:
      text_printf(p->to, "%" PRIu64 "u", read_uint(data, f->size));
      break;
    case FIELD_INT:
      write_int(p->to, read_int(data, f->size));
      break;
    default:
      write_float(p->to, read_float(data, f->size));
  }
  return true;
}

static void cut(text *t, size_t size) {
  t->size = size;
  if (t->data) t->data[size] = '\0';
}

/* Elements up to the last that is not 0. */
static bool print_array(const printer *p, const struct_field *f, size_t at) {
  size_t end = p->to->size;
  text_puts(p->to, "{");
  bool any = false;
  for (size_t i = 0; i < f->count; i++) {
    if (i) text_puts(p->to, ", ");
    if (print_value(p, f, at + i * f->size)) {
      any = true;
      end = p->to->size;
    } else {
      text_puts(p->to, f->kind == FIELD_STRUCT ? "{0}" : "0");
    }
  }
  cut(p->to, end);
  if (any) text_puts(p->to, "}");
  return any;
}

static bool print_struct(const printer *p, const struct_info *s, size_t at, const char *separator) {
  const size_t begin = p->to->size;
  bool any = false;
  text_puts(p->to, "{");
  for (int i = 0; i < s->n_fields; i++) {
    const struct_field *f = &s->fields[i];
    const size_t before = p->to->size;
    text_printf(p->to, "%s%s.%s = ", any ? "," : "",
                *separator ? separator
                : any      ? " "
                           : "",
                f->name);
    const bool is_set =
        f->count ? print_array(p, f, at + f->offset) : print_value(p, f, at + f->offset);
    if (!is_set) cut(p->to, before);
    any = any || is_set;
  }
  if (!any) cut(p->to, begin);
  if (any) text_puts(p->to, "}");
  return any;
}

void write_struct(text *to, const struct_info *s, const void *data, const pointer_writer *w) {
  const printer p = {to, w, data};
  if (!print_struct(&p, s, 0, "\n      ")) text_puts(to, "{0}");
}

void write_string(text *to, const char *s) {
  text_puts(to, "\"");
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    const bool is_plain = c >= ' ' && c < 127 && c != '"' && c != '\\' && c != '?';
    text_printf(to, is_plain ? "%c" : "\\%03o", c);
  }
  text_puts(to, "\"");
}
