#ifndef COMPILE_FIELDS_H
#define COMPILE_FIELDS_H
/* Writes structs of kernel arguments as C initialisers, by the tables of their fields. */
#include "base/memory.h"
#include "compile/tables.h"

/* Writes the C expression for the pointer `at` bytes after the beginning of the struct. Returns
 * false for NULL. */
typedef struct pointer_writer {
  bool (*write)(void *ctx, size_t at, text *to);
  void *ctx;
} pointer_writer;

/* Writes "{.x = 1, .dims = {2, 3}}": a designated initialiser without zero members. Floats are read
 * back exactly. */
void write_struct(text *to, const struct_info *info, const void *data,
                  const pointer_writer *writer);
void write_int(text *to, int64_t v);
void write_float(text *to, double v); /* reads back exactly */
/* Writes a string literal; bytes other than printable ASCII become escapes. */
void write_string(text *to, const char *string);

#endif
