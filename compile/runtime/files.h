#ifndef COMPILE_RUNTIME_FILES_H
#define COMPILE_RUNTIME_FILES_H
/* Reads and writes tensor files by their extensions: .npy, .safetensors, or raw elements. */
#include "base/file.h"
#include "compile/runtime/model.h"

typedef struct input_file {
  file_map map;
  void *copy;       /* owned copy if the file has another order or alignment; or NULL */
  const void *data; /* contiguous, aligned to its dtype */
  size_t bytes;
  bool has_shape;
  int64_t dims[MODEL_MAX_RANK]; /* (rank) */
} input_file;

/* number: index of the input in its method. If the file has a dtype and shape, they must match the
 * input's; open sizes may differ. */
clave_status input_file_open(const char *path, const model_method *method, int number,
                             input_file *out) STATUS_CHECK;
void input_file_close(input_file *file); /* accepts a zeroed one */

/* outputs, paths, writers: (n_outputs). Outputs with the same .safetensors path share one file, and
 * all but the first have NULL writers. The caller commits the files. */
clave_status output_files_write(const model_method *method, const model_value *outputs,
                                char *const *paths, file_writer **writers) STATUS_CHECK;

#endif
