#ifndef COMPILE_RUNTIME_SAFETENSORS_H
#define COMPILE_RUNTIME_SAFETENSORS_H
/* .safetensors files, one tensor at a time, without a document in memory. */
#include "base/file.h"
#include "compile/runtime/info.h"

/* A tensor of a file. */
typedef struct stored_tensor {
  dtype type;
  int rank;
  int64_t dims[MODEL_MAX_RANK];
  const void *data;
  size_t bytes;
} stored_tensor;

/* Finds the tensor of that name in a file in memory, else the one called `other`, else the only
 * one. INVALID: there is none, or the file does not hold what it says. */
clave_status stored_tensor_find(const void *file, size_t size, const char *name, const char *other,
                                stored_tensor *out) STATUS_CHECK;

/* Appends a file of these tensors (n), with their names. */
clave_status stored_tensors_write(file_writer *writer, const stored_tensor *tensors,
                                  const char *const *names, int n) STATUS_CHECK;

#endif
