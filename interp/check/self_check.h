#ifndef INTERP_SELF_CHECK_H
#define INTERP_SELF_CHECK_H
/* The self-check. The first time that kernels run on a device and driver, their results on the
 * actual data are compared with the CPU backend's. If they are wrong, the CPU backend's results
 * replace them, and the op runs on the CPU backend from the next run on. Backends remember proven
 * kernels. */
#include "interp/run/bindings.h"

/* Runs a command's recording. If its kernels are unproven, which is queried once per command,
 * compares the results. number: the number under which the backend reports faults and times. */
clave_status run_recorded(const running *run, const command *command, command_state *state,
                          uint32_t number) STATUS_CHECK;
/* Runs a recording of a node and compares its results with the CPU backend's. Marks its kernels as
 * proven if they are right. verdict: receives a description of the difference, or a note that the
 * node's data are invalid. It stays empty if the results agree or the node is too large. */
clave_status check_recording(session *session, int on, const node *node, const recording *recording,
                             void **state, const run_operands *operands,
                             text *verdict) STATUS_CHECK;
void oracle_destroy(oracle *oracle); /* accepts NULL */

#endif
