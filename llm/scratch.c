/* Scratch memory of samplers, lent to one sampler at a time. */
#include "llm/scratch.h"

#include <stdlib.h>

#include "base/threads.h"

clave_status scratch_pool_init(scratch_pool *pool) { return mutex_create(&pool->lock); }

void scratch_pool_free(scratch_pool *pool) {
  while (pool->idle) {
    sampler_scratch *scratch = pool->idle;
    pool->idle = scratch->next;
    sampler_scratch_free(scratch);
    free(scratch);
  }
  mutex_destroy(pool->lock);
}

clave_status scratch_acquire(scratch_pool *pool, sampler_scratch **out) {
  mutex_lock(pool->lock);
  *out = pool->idle;
  if (*out) pool->idle = (*out)->next;
  mutex_unlock(pool->lock);
  if (!*out) *out = calloc(1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

void scratch_release(scratch_pool *pool, sampler_scratch *scratch) {
  mutex_lock(pool->lock);
  scratch->next = pool->idle;
  pool->idle = scratch;
  mutex_unlock(pool->lock);
}
