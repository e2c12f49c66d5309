#ifndef COMPILE_RUNTIME_MODEL_H
#define COMPILE_RUNTIME_MODEL_H
/* A compiled program with memory and threads of its own, and errors in words. A model is used by
 * one thread at a time. */
#include "base/status.h"
#include "compile/runtime/core.h"

/* n_threads: 0: the program's own number. Where the program's memory is static there is one model,
 * which is begun anew. */
clave_status model_create(const model_info *info, int n_threads, model **out) STATUS_CHECK;
void model_destroy(model *m); /* takes NULL */
/* inputs, outputs: memory for each, of its bytes, in the program's order. After an error outputs
 * hold nothing. State is kept from one run to the next. */
clave_status model_run(model *m, const void *const *inputs, void *const *outputs) STATUS_CHECK;

#endif
