#ifndef INTERP_RUN_COMMANDS_H
#define INTERP_RUN_COMMANDS_H
/* Running one command of a schedule. */
#include "interp/run/bindings.h"

/* Runs an op, a copy or a transfer; traces it and calls the observer. */
clave_status run_command(const running *run, const command *command,
                         command_state *state) STATUS_CHECK;
/* Calls the observer with the results of the control op of command `number`, after its bodies;
 * skips results that have no buffer. */
clave_status observe_control(const running *run, uint32_t number) STATUS_CHECK;
/* For debugging: overwrites blocks whose last use has passed with NaN patterns. */
clave_status poison_dead(const running *run, uint32_t number) STATUS_CHECK;
clave_status read_element(const running *run, location location, int backend,
                          unsigned char *raw) STATUS_CHECK;

#endif
