#ifndef INTERP_RUN_MOVE_H
#define INTERP_RUN_MOVE_H
/* Ops that go to the CPU backend, or, custom ones, to their references. */
#include "interp/run/session.h"

int cpu_of(const session *session); /* index of the session's own CPU backend, or -1 */
/* For notes: where it runs once it was moved. */
const char *place_of_moved(const ir_instruction *ins);
/* Whether an instruction that runs on backend `from` may run there. */
bool can_move(const running *run, uint32_t instruction, int from);
/* It will when the executable is replaced. */
clave_status move_later(const running *run, uint32_t instruction, const char *reason) STATUS_CHECK;
/* What came of a command. Where that says that its device cannot run it, and another may, it is
 * moved later and the run has to be planned again. Returns `why`. */
clave_status give_up_command(const running *run, const command *command,
                             clave_status why) STATUS_CHECK;
/* Makes the session an executable in which they are moved; what they are in is planned anew. */
clave_status replace_moved(session *session) STATUS_CHECK;
/* Whether the host may copy what this command's device has no kernel for, which `st` says. */
bool host_may_copy(const session *session, const command *command, const struct clave_error *st);

#endif
