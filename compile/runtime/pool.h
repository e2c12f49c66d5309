#ifndef COMPILE_RUNTIME_POOL_H
#define COMPILE_RUNTIME_POOL_H
/* Threads of a program that is written out. */
#include "base/status.h"
#include "compile/runtime/core.h"

struct model_threads {
  /* Sets model's pool, kernel.parallel_for and kernel.n_threads. n_threads: as base/threads.h has
   * it.
   */
  clave_status (*create)(model *model, int n_threads);
  void (*destroy)(model *model); /* takes one that has none */
};

#endif
