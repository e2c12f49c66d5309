#ifndef LLM_SCRATCH_H
#define LLM_SCRATCH_H
/* A pool of sampler scratch memory for the conversations of a model. It grows to the number of
 * samplers that were in use at the same time. */
#include "base/status.h"
#include "llm/sampler.h"

typedef struct scratch_pool {
  struct mutex *lock;    /* owned */
  sampler_scratch *idle; /* owned list */
} scratch_pool;

clave_status scratch_pool_init(scratch_pool *pool) STATUS_CHECK;
void scratch_pool_free(scratch_pool *pool); /* accepts a zeroed pool; all must be returned */
/* Lends a scratch to the caller alone, until scratch_release returns it. */
clave_status scratch_acquire(scratch_pool *pool, sampler_scratch **out) STATUS_CHECK;
void scratch_release(scratch_pool *pool, sampler_scratch *scratch);

#endif
