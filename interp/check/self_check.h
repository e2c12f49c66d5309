#ifndef INTERP_SELF_CHECK_H
#define INTERP_SELF_CHECK_H
/* The self-check: the first time that kernels run on a device and driver, on whatever data comes,
 * their results are compared with the CPU backend's. Where they are wrong the CPU backend's results
 * go on, and from the next run on the op itself runs there. Backends keep what was proven. */
#include "interp/run/bindings.h"

/* Runs what is recorded for a command, comparing the results if its kernels are unproven, which is
 * asked once. number: what the backend reports faults and times under. */
clave_status run_recorded(const running *run, const command *command, command_state *state,
                          uint32_t number) STATUS_CHECK;
/* Runs a recording of a node and compares its results with the CPU backend's; if they are right its
 * kernels are proven. verdict: what differs; empty: nothing, or it is too large to compare. */
clave_status check_recording(session *session, int on, const node *node, const recording *recording,
                             void **state, const run_operands *operands,
                             text *verdict) STATUS_CHECK;
void oracle_destroy(oracle *oracle); /* takes NULL */

#endif
