#ifndef COMPILE_RUNTIME_TENSORS_H
#define COMPILE_RUNTIME_TENSORS_H
/* Functions called by a shared library whose caller chooses methods and sizes. Types are avoided,
 * because the library's own names could be the same; comments describe the layout of types in its
 * header. A returned int is nonzero after an error, whose text model_tensors_error returns. */

/* Returns NULL if out of memory. Any other failure is stored as the error, and calls then do
 * nothing. note: may be NULL. */
void *model_tensors_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx);
void model_tensors_destroy(void *library); /* accepts NULL */
const char *model_tensors_error(const void *library);
/* method NULL: the first. inputs, outputs: arrays of model_value, as many as the method has. */
int model_tensors_run(void *library, const char *method, const void *inputs, void *outputs);
int model_tensors_reset(void *library);
int model_tensors_verify(void *library);

#endif
