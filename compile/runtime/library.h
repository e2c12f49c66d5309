#ifndef COMPILE_RUNTIME_LIBRARY_H
#define COMPILE_RUNTIME_LIBRARY_H
/* What the functions of a shared library call. There are no types, which the library's own names
 * could be, too. */
void *model_library_create(int n_threads); /* NULL: no memory */
void model_library_destroy(void *library); /* takes NULL */
/* (n_inputs) and (n_outputs) tensors of a written program. */
int model_library_run(void *library, const void *const *inputs, void *const *outputs);
const char *model_library_error(const void *library);
void model_library_reset(void *library);
int model_library_verify(void *library); /* by another model, as verify.h says */

#endif
