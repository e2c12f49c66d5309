#ifndef COMPILE_RUNTIME_FILES_H
#define COMPILE_RUNTIME_FILES_H
/* Files of tensors by the endings of their names: .npy, .safetensors, and elements alone. */
#include "base/file.h"
#include "compile/runtime/model.h"

typedef struct input_file {
  file_map map;
  void *copy;       /* owned: of elements that lie otherwise in the file; or NULL */
  const void *data; /* contiguous, aligned to its dtype */
  size_t bytes;
  bool has_shape;
  int64_t dims[MODEL_MAX_RANK]; /* (rank) */
} input_file;

/* number: of the input in its method. Of files that have a dtype and a shape both are the input's,
 * but for sizes that are open. */
clave_status input_file_open(const char *path, const model_method *method, int number,
                             input_file *out) STATUS_CHECK;
void input_file_close(input_file *file); /* takes a zeroed one */

/* outputs, paths, writers: (n_outputs). Those of one path that ends in .safetensors are in one
 * file. What was written is still to be committed; NULL writers belong to an earlier one's file. */
clave_status output_files_write(const model_method *method, const model_value *outputs,
                                char *const *paths, file_writer **writers) STATUS_CHECK;

#endif
