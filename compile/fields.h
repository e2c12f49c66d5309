#ifndef COMPILE_FIELDS_H
#define COMPILE_FIELDS_H
/* Structs of arguments as C initialisers, by the tables of their fields. */
#include "base/memory.h"
#include "compile/tables.h"

/* Writes the C expression that a pointer is set to, `at` bytes from where the struct begins; false:
 * it is NULL. */
typedef struct pointer_writer {
  bool (*write)(void *ctx, size_t at, text *to);
  void *ctx;
} pointer_writer;

/* "{.x = 1, .dims = {2, 3}}": designated, without what is 0; floats as they are read again. */
void write_struct(text *to, const struct_info *info, const void *data,
                  const pointer_writer *writer);
void write_int(text *to, int64_t v);
void write_float(text *to, double v); /* as it is read again */
/* A string literal; other bytes than plain ASCII as escapes. */
void write_string(text *to, const char *string);

#endif
