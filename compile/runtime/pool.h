#ifndef COMPILE_RUNTIME_POOL_H
#define COMPILE_RUNTIME_POOL_H
/* A compiled program's threads. A model names them, so that one without threads has none of this.
 */
#include "base/status.h"
#include "compile/runtime/core.h"

struct model_threads {
  /* Sets m's kernel.parallel_for, n_threads and pool. n_threads: as base/threads.h has it. */
  clave_status (*create)(model *m, int n_threads);
  void (*destroy)(model *m); /* takes one that has none */
};
extern const model_threads model_pool;

#endif
