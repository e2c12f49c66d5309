#ifndef INTERP_RUN_ARGUMENTS_H
#define INTERP_RUN_ARGUMENTS_H
/* Inputs and outputs during a run. */
#include "interp/run/session.h"

clave_status gather_inputs(const running *run) STATUS_CHECK;
/* Places the current schedule's blocks in the memory of arguments that devices can use in place.
 * All other blocks must have addresses already. */
clave_status place_arguments(const running *run) STATUS_CHECK;
/* Writes inputs to devices on which the current schedule is the first to read them. */
clave_status write_inputs(const running *run) STATUS_CHECK;
/* Reads the results, which are complete when all devices have finished. */
clave_status read_outputs(const running *run) STATUS_CHECK;

#endif
