#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H
/* Makes programs of other formats' files: ONNX, TFLite. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "clave_builder.h"

/* A file of which constants use bytes in place. */
typedef struct import_file {
  char *path; /* owned */
  file_map map;
} import_file;

/* An op that an importer knows; see clave_import_op. */
typedef struct import_op {
  const char *format, *domain, *name;
  int since;
} import_op;
/* Describes op `index` of all formats. Returns false after the last. */
bool import_op_at(uint32_t index, import_op *out);
/* True if an importer accepts these bytes by their content or, for damaged files, by the extension
 * of the path, which may be NULL. */
bool import_accepts(const char *path, const void *bytes, size_t size);
/* Makes a program of a model. path: of its file, beside which it may have other files; NULL: it has
 * none. The program reads constants in `bytes`, and in other files of which *files (n_files, owned
 * by the caller) is the list; all must outlive it. Fails with UNSUPPORTED and a list of everything
 * that the importer lacks. */
clave_status import_program(const char *path, const void *bytes, size_t size, clave_program **out,
                            import_file **files, size_t *n_files) CLAVE_CHECK;

#endif
