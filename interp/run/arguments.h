#ifndef INTERP_RUN_ARGUMENTS_H
#define INTERP_RUN_ARGUMENTS_H
/* Inputs and outputs in a run. */
#include "interp/run/session.h"

clave_status gather_inputs(const running *run) STATUS_CHECK;
/* Blocks of the current schedule that devices use in place; its other ones have addresses. */
clave_status place_arguments(const running *run) STATUS_CHECK;
/* To where the current schedule is the first to want them. */
clave_status write_inputs(const running *run) STATUS_CHECK;
/* They are there when all devices have finished. */
clave_status read_outputs(const running *run) STATUS_CHECK;

#endif
