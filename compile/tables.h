#ifndef COMPILE_TABLES_H
#define COMPILE_TABLES_H
/* Tables that sources.py generates from the sources (build/gen/compile_tables.c): the fields of all
 * kernel argument structs, the kernels, and the source files of emitted programs. */
#include <stdint.h>

#include "base/kernel.h"

typedef enum field_kind {
  FIELD_BOOL,
  FIELD_INT,  /* signed, `size` bytes */
  FIELD_UINT, /* unsigned, `size` bytes */
  FIELD_F32,
  FIELD_F64,
  FIELD_ENUM,
  FIELD_POINTER,
  FIELD_STRUCT
} field_kind;

typedef struct enum_name {
  int value;
  const char *name;
} enum_name;

struct struct_info;
typedef struct struct_field {
  const char *name;
  size_t offset, size; /* bytes; size of one element for an array */
  size_t count;        /* length of an array; 0: not an array */
  field_kind kind;
  const struct struct_info *of; /* for FIELD_STRUCT */
  const enum_name *names;       /* for FIELD_ENUM (n_names) */
  int n_names;
} struct_field;

/* The fields of a struct. A union is described by its first member only, which must be as large as
 * the others. */
typedef struct struct_info {
  const char *name;
  const struct_field *fields;
  int n_fields;
} struct_info;

typedef struct kernel_info {
  const kernel_desc *kernel;
  const char *name; /* name of the variable: "kernel_conv" */
  const struct_info *args;
  uint16_t header, source; /* indices into source_files */
} kernel_info;
extern const kernel_info kernel_infos[];
extern const int n_kernel_infos;

/* A source file of emitted programs. */
typedef struct source_file {
  const char *path; /* relative to the source folder: "base/dtype.c" */
  const unsigned char *data;
  size_t size;
  const uint16_t *needs; /* (n_needs) indices into source_files: files that it includes or that
                            define functions it calls */
  int n_needs;
  const char *const *names; /* (n_names); functions and kernels that it defines for other files */
  int n_names;
} source_file;
extern const source_file source_files[];
extern const int n_source_files;

#endif
