/* Writes structs of kernel arguments as C initialisers. */
#include "compile/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
  text *to;
  const pointer_writer *pointers;
  const char *data; /* beginning of the outermost struct */
} printer;

/* ---------------------------------------------------------------- numbers */

static int64_t compile_fields_read_int(const void *memory, size_t size) {
  int64_t wide;
  int32_t word;
  int16_t half;
  int8_t byte;
  switch (size) {
    case 8:
      memcpy(&wide, memory, sizeof wide);
      return wide;
    case 4:
      memcpy(&word, memory, sizeof word);
      return word;
    case 2:
      memcpy(&half, memory, sizeof half);
      return half;
    default:
      memcpy(&byte, memory, sizeof byte);
      return byte;
  }
}

static uint64_t read_uint(const void *memory, size_t size) {
  const uint64_t all = (uint64_t)compile_fields_read_int(memory, size);
  return size == 8 ? all : all & (((uint64_t)1 << 8 * size) - 1);
}

static double read_float(const void *memory, size_t size) {
  double wide;
  float narrow;
  if (size == sizeof narrow) {
    memcpy(&narrow, memory, sizeof narrow);
    return (double)narrow;
  }
  memcpy(&wide, memory, sizeof wide);
  return wide;
}

void write_int(text *to, int64_t v) {
  if (v == INT64_MIN) {
    text_puts(to, "INT64_MIN");
  } else {
    text_printf(to, "%" PRId64, v);
  }
}

/* Writes a float that C reads back exactly, whatever decimal point the host's locale uses. */
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

static void compile_fields_write_enum(text *to, const struct_field *field, const void *memory) {
  const int64_t v = compile_fields_read_int(memory, field->size);
  for (int i = 0; i < field->n_names; i++) {
    if (field->names[i].value != v) continue;
    text_puts(to, field->names[i].name);
    return;
  }
  write_int(to, v);
}

/* ---------------------------------------------------------------- fields */

/* Writes the fields of a struct that are not 0, `separator` before the first. Returns false if it
 * writes none. */
static bool print_struct(const printer *printer, const struct_info *info, size_t at,
                         const char *separator);

/* Writes one value, `at` bytes from the beginning of the outermost struct. Returns false if it is 0
 * and was omitted. */
static bool print_value(const printer *printer, const struct_field *field, size_t at) {
  const char *data = printer->data + at;
  if (field->kind == FIELD_STRUCT) return print_struct(printer, field->of, at, "");
  if (field->kind == FIELD_POINTER)
    return printer->pointers->write(printer->pointers->ctx, at, printer->to);
  if (read_uint(data, field->size) == 0) return false; /* bits, because -0.0 must be written */
  switch (field->kind) {
    case FIELD_BOOL:
      text_puts(printer->to, "true");
      break;
    case FIELD_ENUM:
      compile_fields_write_enum(printer->to, field, data);
      break;
    case FIELD_UINT:
      text_printf(printer->to, "%" PRIu64 "u", read_uint(data, field->size));
      break;
    case FIELD_INT:
      write_int(printer->to, compile_fields_read_int(data, field->size));
      break;
    default:
      write_float(printer->to, read_float(data, field->size));
  }
  return true;
}

static void compile_fields_cut(text *text, size_t size) {
  text->size = size;
  if (text->data) text->data[size] = '\0';
}

/* Writes elements up to the last that is not 0. */
static bool print_array(const printer *printer, const struct_field *field, size_t at) {
  size_t end = printer->to->size;
  text_puts(printer->to, "{");
  bool any = false;
  for (size_t i = 0; i < field->count; i++) {
    if (i) text_puts(printer->to, ", ");
    if (print_value(printer, field, at + i * field->size)) {
      any = true;
      end = printer->to->size;
    } else {
      text_puts(printer->to, field->kind == FIELD_STRUCT ? "{0}" : "0");
    }
  }
  compile_fields_cut(printer->to, end);
  if (any) text_puts(printer->to, "}");
  return any;
}

static bool print_struct(const printer *printer, const struct_info *info, size_t at,
                         const char *separator) {
  const size_t begin = printer->to->size;
  bool any = false;
  text_puts(printer->to, "{");
  for (int i = 0; i < info->n_fields; i++) {
    const struct_field *field = &info->fields[i];
    const size_t before = printer->to->size;
    text_printf(printer->to, "%s%s.%s = ", any ? "," : "",
                *separator ? separator
                : any      ? " "
                           : "",
                field->name);
    const bool is_set = field->count ? print_array(printer, field, at + field->offset)
                                     : print_value(printer, field, at + field->offset);
    if (!is_set) compile_fields_cut(printer->to, before);
    any = any || is_set;
  }
  if (!any) compile_fields_cut(printer->to, begin);
  if (any) text_puts(printer->to, "}");
  return any;
}

void write_struct(text *to, const struct_info *info, const void *data,
                  const pointer_writer *writer) {
  const printer printer = {to, writer, data};
  if (!print_struct(&printer, info, 0, "\n      ")) text_puts(to, "{0}");
}

void write_string(text *to, const char *string) {
  text_puts(to, "\"");
  for (; *string; string++) {
    const unsigned char c = (unsigned char)*string;
    const bool is_plain = c >= ' ' && c < 127 && c != '"' && c != '\\' && c != '?';
    text_printf(to, is_plain ? "%c" : "\\%03o", c);
  }
  text_puts(to, "\"");
}
