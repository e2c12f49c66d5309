#ifndef INTERP_RUN_PREPARE_H
#define INTERP_RUN_PREPARE_H
/* What commands need before they run: kernels, and packed weights. */
#include "interp/run/session.h"

/* Builds the kernels of what the current schedule added, and prepares its commands. */
clave_status prepare_kernels(const running *run) STATUS_CHECK;
/* Whether those of a schedule, of what it added, need no building. */
bool kernels_are_built(const running *run, const schedule *schedule);

#endif
