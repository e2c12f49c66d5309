#ifndef COMPILE_RUNTIME_POOL_H
#define COMPILE_RUNTIME_POOL_H
/* Threads of an emitted program. */
#include "base/status.h"
#include "compile/runtime/core.h"

struct model_threads {
  /* Sets the model's pool, kernel.parallel_for and kernel.n_threads. n_threads: as in
   * base/threads.h. */
  clave_status (*create)(model *model, int n_threads);
  void (*destroy)(model *model); /* accepts a model without a pool */
};

#endif
