#ifndef LLM_SAMPLER_H
#define LLM_SAMPLER_H
/* What a conversation needs of its sampler beyond clave_llm.h. */
#include "clave_llm.h"

/* Random numbers drawn so far: the generator's position, to go on from elsewhere. */
uint64_t sampler_draws(const clave_sampler *s);
void sampler_set_draws(clave_sampler *s, uint64_t draws);
/* The options it was made with; their bias lies in the sampler. */
const clave_sampler_options *sampler_options_of(const clave_sampler *s);

#endif
