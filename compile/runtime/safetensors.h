#ifndef COMPILE_RUNTIME_SAFETENSORS_H
#define COMPILE_RUNTIME_SAFETENSORS_H
/* Reads and writes .safetensors files without building a JSON document in memory. */
#include "base/file.h"
#include "compile/runtime/info.h"

/* A tensor in a file. */
typedef struct stored_tensor {
  dtype type;
  int rank;
  int64_t dims[MODEL_MAX_RANK];
  const void *data;
  size_t bytes;
} stored_tensor;

/* Finds the tensor called `name` in a file in memory, else that called `other`, else the only
 * tensor. INVALID if none exists or the file is malformed. */
clave_status stored_tensor_find(const void *file, size_t size, const char *name, const char *other,
                                stored_tensor *out) STATUS_CHECK;

/* Writes a file with n tensors and their names. */
clave_status stored_tensors_write(file_writer *writer, const stored_tensor *tensors,
                                  const char *const *names, int n) STATUS_CHECK;

#endif
