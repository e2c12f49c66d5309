#ifndef INTERP_TUNE_PLAN_H
#define INTERP_TUNE_PLAN_H
/* The nodes of a method that have something to choose. */
#include "interp/tune/tuner.h"

/* Plans the method, and keeps the nodes that have something to choose. */
clave_status tune_collect(tuner *tuner, uint32_t index) STATUS_CHECK;
void tune_free(tuner *tuner);
/* The choice among those that were seen; NULL: it was not. */
seen_choice *tune_find_seen(const tuner *tuner, const variant_choice *choice);
clave_status tune_add_seen(tuner *tuner, const variant_choice *choice) STATUS_CHECK;

#endif
