#ifndef INTERP_TUNE_PLAN_H
#define INTERP_TUNE_PLAN_H
/* The nodes of a method that have something to choose. */
#include "interp/tune/tuner.h"

/* Plans the method, and keeps the nodes that have something to choose. */
clave_status tune_collect(tuner *t, uint32_t index) STATUS_CHECK;
void tune_free(tuner *t);
/* The choice among those that were seen; NULL: it was not. */
seen_choice *tune_find_seen(const tuner *t, const variant_choice *c);
clave_status tune_add_seen(tuner *t, const variant_choice *c) STATUS_CHECK;

#endif
