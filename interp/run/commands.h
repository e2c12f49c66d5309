#ifndef INTERP_RUN_COMMANDS_H
#define INTERP_RUN_COMMANDS_H
/* Running one command of a schedule. */
#include "interp/run/bindings.h"

/* An op, a copy or a transfer, and what watches it. */
clave_status run_command(const running *run, const command *command,
                         command_state *state) STATUS_CHECK;
/* Shows the observer what the control op of command `number` gives, after its bodies, where one of
 * them has left it. */
clave_status observe_control(const running *run, uint32_t number) STATUS_CHECK;
/* Debugging: bytes whose last reader has run become NaN patterns. */
clave_status poison_dead(const running *run, uint32_t number) STATUS_CHECK;
clave_status read_element(const running *run, location location, int backend,
                          unsigned char *raw) STATUS_CHECK;

#endif
