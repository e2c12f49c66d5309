#ifndef SERIALIZE_SAFETENSORS_H
#define SERIALIZE_SAFETENSORS_H
/* safetensors files: read in place from a mapping; written whole or not at all. */
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ops/tensor.h"

typedef struct tensor_entry {
  const char *name;
  dtype type;
  int rank;
  int64_t dims[MAX_RANK];
  const void *data; /* contiguous and aligned for its dtype; NULL if empty */
  size_t bytes;
} tensor_entry;

typedef struct tensor_file {
  const tensor_entry *tensors; /* in the header's order */
  uint32_t count;
  const char *const *metadata; /* n_metadata pairs of key and value */
  uint32_t n_metadata;
  struct tensor_file_owned *owned; /* mapping, memory, index */
} tensor_file;

/* Opens a file, which stays mapped until tensor_file_destroy. Errors end with the path. */
clave_status tensor_file_open(const char *path, tensor_file **out) STATUS_CHECK;
/* Works like tensor_file_open on the bytes of a file in memory, which must outlive *out. */
clave_status tensor_file_parse(const void *bytes, size_t size, tensor_file **out) STATUS_CHECK;
/* Fails with IO if the file was truncated after it was opened: tensors may then read as zeros. */
clave_status tensor_file_check(const tensor_file *file) STATUS_CHECK;
void tensor_file_destroy(tensor_file *file); /* accepts NULL and half-built files */
const tensor_entry *tensor_file_find(const tensor_file *file,
                                     const char *name);                     /* NULL if absent */
const char *tensor_file_metadata(const tensor_file *file, const char *key); /* NULL if absent */

/* Writes a file. The header lists the tensors in the given order; their bytes are sorted by
 * descending element size, so that all are aligned. */
clave_status tensor_file_save(const char *path, const tensor_entry *tensors, uint32_t count,
                              const char *const *metadata, uint32_t n_metadata) STATUS_CHECK;

#endif
