#ifndef INTERP_RUN_PREPARE_H
#define INTERP_RUN_PREPARE_H
/* Preparing commands: their kernels and packed weights. */
#include "interp/run/session.h"

/* Builds the kernels of commands that the current schedule added, and prepares those commands. */
clave_status prepare_kernels(const running *run) STATUS_CHECK;
/* True if all kernels that this schedule added are built. */
bool kernels_are_built(const running *run, const schedule *schedule);

#endif
