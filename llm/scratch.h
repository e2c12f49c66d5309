#ifndef LLM_SCRATCH_H
#define LLM_SCRATCH_H
/* Scratch memory of samplers that the conversations of a model share: there are as many as were
 * sampling at the same time. */
#include "base/status.h"
#include "llm/sampler.h"

typedef struct scratch_pool {
  struct mutex *lock;    /* owned */
  sampler_scratch *idle; /* owned: a list */
} scratch_pool;

clave_status scratch_pool_init(scratch_pool *pool) STATUS_CHECK;
void scratch_pool_free(scratch_pool *pool); /* takes a zeroed one; all must have been given back */
/* One that nobody else has until it is given back. */
clave_status scratch_take(scratch_pool *pool, sampler_scratch **out) STATUS_CHECK;
void scratch_give(scratch_pool *pool, sampler_scratch *scratch);

#endif
