#ifndef COMPILE_RUNTIME_TENSORS_H
#define COMPILE_RUNTIME_TENSORS_H
/* What the functions of a shared library call whose methods and sizes its callers choose. There are
 * no types, which the library's own names could be, too; those of its header are laid out as the
 * comments say. An int is 0, or an error has happened, which is the library's text. */

/* NULL: no memory for it. What else is wrong is its error, and nothing of it runs. note: may be
 * NULL. */
void *model_tensors_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx);
void model_tensors_destroy(void *library); /* takes NULL */
const char *model_tensors_error(const void *library);
/* method: NULL: the first. inputs, outputs: model_value, as many as the method has. */
int model_tensors_run(void *library, const char *method, const void *inputs, void *outputs);
int model_tensors_reset(void *library);
int model_tensors_verify(void *library);

#endif
