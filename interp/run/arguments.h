#ifndef INTERP_RUN_ARGUMENTS_H
#define INTERP_RUN_ARGUMENTS_H
/* Inputs and outputs during a run. */
#include "interp/run/session.h"

clave_status gather_inputs(const running *run) STATUS_CHECK;
/* Places the current schedule's blocks in arguments' memory where devices can use it in place. The
 * other blocks must have addresses. */
clave_status place_arguments(const running *run) STATUS_CHECK;
/* Writes inputs to devices on which the current schedule is the first to read them. */
clave_status write_inputs(const running *run) STATUS_CHECK;
/* Reads results. They are complete when all devices have finished. */
clave_status read_outputs(const running *run) STATUS_CHECK;

#endif
