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
/* A model to import. */
typedef struct import_source {
  const char *path; /* the file, beside which it may have others; NULL: it has none */
  const void *bytes;
  size_t size;
  int64_t max_context; /* above 0: import the graph of a language model as forward(tokens, position)
                          with caches as state, for texts of at most so many tokens */
  bool has_tokenizer;  /* the model's own tokenizer is not needed, and may be of any kind */
  const char *cache_type; /* as kv in clave_program_options; may be NULL */
  int64_t prompt_piece;   /* as in clave_program_options */
} import_source;
/* Makes a program of a model. The program reads constants in the source's bytes, and in other files
 * of which *files (n_files, owned by the caller) is the list; all must outlive it. Fails with
 * UNSUPPORTED and a list of everything that the importer lacks. */
clave_status import_program(const import_source *source, clave_program **out, import_file **files,
                            size_t *n_files) CLAVE_CHECK;

#endif
