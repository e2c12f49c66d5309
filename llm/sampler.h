#ifndef LLM_SAMPLER_H
#define LLM_SAMPLER_H
/* The internal interface of samplers, for conversations. */
#include "base/status.h"
#include "clave_llm.h"

/* The ids that can still be chosen, ascending, in arrays with the scratch's capacity. */
typedef struct candidates {
  uint32_t *id;
  uint32_t *key;    /* the logit as an integer with the order of the floats */
  double *weight;   /* proportional to the probability; 1 for the most likely */
  uint32_t *subset; /* scratch: indices into these arrays */
  size_t n;
} candidates;

/* Scratch arrays of a choice, 28 bytes per logit, all owned. Zeroed at first. Nothing in them is
 * kept between choices, so samplers that do not choose at the same time can share one. */
typedef struct sampler_scratch {
  candidates candidates;
  float *logits;         /* (capacity) */
  uint32_t *occurrences; /* (capacity): by id, all 0 between choices */
  size_t capacity;
  struct sampler_scratch *next; /* next in a pool's list */
} sampler_scratch;
void sampler_scratch_free(sampler_scratch *scratch); /* frees the arrays, not the struct itself */

typedef struct sampler_input {
  const float *logits; /* (count) */
  size_t count;
  const uint32_t *seen; /* (n_seen): the conversation's ids so far */
  size_t n_seen;
  clave_llm_logits_fn change; /* may be NULL */
  void *change_ctx;
} sampler_input;
clave_status sampler_choose(clave_sampler *sampler, sampler_scratch *scratch,
                            const sampler_input *in, uint32_t *id) STATUS_CHECK;

/* Returns the number of random draws so far, the generator's position. */
uint64_t sampler_draws(const clave_sampler *sampler);
void sampler_set_draws(clave_sampler *sampler, uint64_t draws);
/* Returns the options of the sampler; the bias they point to is the sampler's copy. */
const clave_sampler_options *sampler_options_of(const clave_sampler *sampler);

#endif
