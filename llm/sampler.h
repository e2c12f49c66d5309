#ifndef LLM_SAMPLER_H
#define LLM_SAMPLER_H
/* What a conversation needs of its sampler beyond clave_llm.h. */
#include "base/status.h"
#include "clave_llm.h"

/* The ids that may still be chosen, ascending, in arrays of the scratch's capacity. */
typedef struct candidates {
  uint32_t *id;
  uint32_t *key;  /* of the logit: integers in the order of the floats */
  double *weight; /* proportional to the probability; the likeliest has 1 */
  uint32_t *some; /* places in these arrays */
  size_t n;
} candidates;

/* The arrays of a choice, 28 bytes a logit, all owned. Zeroed at first; between choices nothing in
 * them matters, so that samplers which do not choose at the same time can share one. */
typedef struct sampler_scratch {
  candidates candidates;
  float *logits;   /* (capacity) */
  uint32_t *times; /* how often an id was seen, (capacity), all 0 between choices */
  size_t capacity;
  struct sampler_scratch *next; /* in a pool's list */
} sampler_scratch;
void sampler_scratch_free(sampler_scratch *scratch); /* what it owns, not itself */

typedef struct sampler_input {
  const float *logits; /* (count) */
  size_t count;
  const uint32_t *seen; /* (n_seen): the conversation's ids so far */
  size_t n_seen;
  clave_llm_logits_fn change; /* NULL: none */
  void *change_ctx;
} sampler_input;
clave_status sampler_choose(clave_sampler *sampler, sampler_scratch *scratch,
                            const sampler_input *in, uint32_t *id) STATUS_CHECK;

/* Random numbers drawn so far: the generator's position, to go on from elsewhere. */
uint64_t sampler_draws(const clave_sampler *sampler);
void sampler_set_draws(clave_sampler *sampler, uint64_t draws);
/* The options it was made with; their bias lies in the sampler. */
const clave_sampler_options *sampler_options_of(const clave_sampler *sampler);

#endif
