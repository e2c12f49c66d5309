#ifndef INTERP_RUN_MOVE_H
#define INTERP_RUN_MOVE_H
/* Moving ops to the CPU backend, or custom ops to their references. */
#include "interp/run/session.h"

/* Returns text for messages: the place where an op runs after the move. */
const char *place_of_moved(const ir_instruction *ins);
/* True if an instruction on backend `from` may move. */
bool can_move(const running *run, uint32_t instruction, int from);
/* Marks the instruction to move; takes effect in replace_moved. */
clave_status move_later(const running *run, uint32_t instruction, const char *reason) STATUS_CHECK;
/* Handles the status of a command. If the device cannot run the command and it can move, marks it
 * to move and requests that the run is planned again. Returns `why`. */
clave_status give_up_command(const running *run, const command *command,
                             clave_status why) STATUS_CHECK;
/* True if the CPU backend is to compute what a device refused, since other commands have run. */
bool is_to_be_replaced(const running *run, const command *command, const struct clave_error *st);
/* Does what give_up_command does for later runs, while this run goes on with results of the CPU
 * backend. Takes ownership of `why`. */
void replace_command(const running *run, const command *command, clave_status why);
/* Replaces the session's executable by one in which the marked ops are moved; drops bindings. */
clave_status replace_moved(session *session) STATUS_CHECK;
/* True if `st` says that the device has no kernel for this copy, and the host may do it. */
bool host_may_copy(const session *session, const command *command, const struct clave_error *st);

#endif
