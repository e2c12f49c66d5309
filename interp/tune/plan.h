#ifndef INTERP_TUNE_PLAN_H
#define INTERP_TUNE_PLAN_H
/* Finds the nodes of a method that have variants to choose from. */
#include "interp/tune/tuner.h"

/* Plans the method, and adds the nodes that have a choice to tuner->jobs. */
clave_status tune_collect(tuner *tuner, uint32_t index) STATUS_CHECK;
void tune_free(tuner *tuner);
/* Returns the entry of a choice; NULL if the choice was not seen yet. */
seen_choice *tune_find_seen(const tuner *tuner, const variant_choice *choice);
clave_status tune_add_seen(tuner *tuner, const variant_choice *choice) STATUS_CHECK;

#endif
