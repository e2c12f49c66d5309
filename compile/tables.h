#ifndef COMPILE_TABLES_H
#define COMPILE_TABLES_H
/* What sources.py makes of the sources (build/gen/compile_tables.c): the fields of every struct
 * that a kernel takes, the kernels, and the files that emitted programs are built of. */
#include <stdint.h>

#include "base/kernel.h"

typedef enum field_kind {
  FIELD_BOOL,
  FIELD_INT,  /* signed, of its size */
  FIELD_UINT, /* unsigned, of its size */
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
  size_t offset, size; /* bytes; size: of one element of an array */
  size_t count;        /* of an array; 0: it is none */
  field_kind kind;
  const struct struct_info *of; /* FIELD_STRUCT */
  const enum_name *names;       /* FIELD_ENUM: (n_names) */
  int n_names;
} struct_field;

/* Of a union: its first member alone, which must be as large as the others. */
typedef struct struct_info {
  const char *name;
  const struct_field *fields;
  int n_fields;
} struct_info;

typedef struct kernel_info {
  const kernel_desc *kernel;
  const char *name; /* of the variable: "kernel_conv" */
  const struct_info *args;
  uint16_t header, source; /* in source_files */
} kernel_info;
extern const kernel_info kernel_infos[];
extern const int n_kernel_infos;

/* A file of an emitted program. */
typedef struct source_file {
  const char *path; /* within the folder of sources: "base/dtype.c" */
  const unsigned char *data;
  size_t size;
  const uint16_t *needs; /* (n_needs) in source_files: what it includes, and what defines the
                            functions that it calls */
  int n_needs;
  const char *const *names; /* (n_names): functions and kernels that it defines for others */
  int n_names;
} source_file;
extern const source_file source_files[];
extern const int n_source_files;

#endif
