#ifndef COMPILE_RUNTIME_LIBRARY_H
#define COMPILE_RUNTIME_LIBRARY_H
/* Functions called by a shared library. Types are avoided, because the library's own names could be
 * the same. */
void *model_library_create(int n_threads); /* NULL: out of memory */
void model_library_destroy(void *library); /* accepts NULL */
/* Runs the model. inputs: (n_inputs), outputs: (n_outputs), the addresses of tensors. Returns
 * nonzero on an error, whose text model_library_error returns. */
int model_library_run(void *library, const void *const *inputs, void *const *outputs);
const char *model_library_error(const void *library);
void model_library_reset(void *library);
int model_library_verify(void *library); /* uses a second model; see verify.h */

#endif
