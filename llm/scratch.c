/* Scratch memory of samplers, lent out one by one. */
#include "llm/scratch.h"

#include <stdlib.h>

#include "base/threads.h"

clave_status scratch_pool_init(scratch_pool *p) { return mutex_create(&p->lock); }

void scratch_pool_free(scratch_pool *p) {
  while (p->idle) {
    sampler_scratch *w = p->idle;
    p->idle = w->next;
    sampler_scratch_free(w);
    free(w);
  }
  mutex_destroy(p->lock);
}

clave_status scratch_take(scratch_pool *p, sampler_scratch **out) {
  mutex_lock(p->lock);
  *out = p->idle;
  if (*out) p->idle = (*out)->next;
  mutex_unlock(p->lock);
  if (!*out) *out = calloc(1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

void scratch_give(scratch_pool *p, sampler_scratch *w) {
  mutex_lock(p->lock);
  w->next = p->idle;
  p->idle = w;
  mutex_unlock(p->lock);
}
