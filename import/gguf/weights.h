#ifndef IMPORT_GGUF_WEIGHTS_H
#define IMPORT_GGUF_WEIGHTS_H
/* Tensors of a GGUF file as values of the import. Matrices stay in the file's bytes, in blocks as
 * well. Errors name the tensor, and end the import. */
#include "import/gguf/file.h"
#include "import/value.h"

bool gguf_has_tensor(gguf_file *file, const char *name);
/* Returns (rows, columns): F32, F16 or BF16, or F32 that is decoded from blocks. rows: -1 for any
 * number. */
value *gguf_matrix(gguf_file *file, const char *name, int64_t rows, int64_t columns);
/* Returns n matrices: (n, rows, columns). */
value *gguf_stack(gguf_file *file, const char *name, int64_t n, int64_t rows, int64_t columns);
/* Returns the elements of a tensor (size) in F32; NULL after an error. */
const float *gguf_vector(gguf_file *file, const char *name, int64_t size);
value *gguf_vector_value(gguf_file *file, const char *name, int64_t size); /* the same as a value */
void gguf_skip_layers(gguf_file *file, int64_t first); /* marks tensors of later layers as used */
/* Fails if there is a tensor that nothing read, because the results would lack its effect. */
clave_status gguf_check_tensors(gguf_file *file) STATUS_CHECK;

#endif
