#ifndef INTERP_SELF_CHECK_H
#define INTERP_SELF_CHECK_H
/* The self-check: the first time that kernels run on a device and driver, on whatever data comes,
 * their results are compared with the CPU backend's. Where they are wrong the CPU backend's results
 * go on, and from the next run on the op itself runs there. Backends keep what was proven. */
#include "interp/running.h"

/* Runs what is recorded for a command, comparing the results if its kernels are unproven, which is
 * asked once. number: what the backend reports faults and times under. */
clave_status run_recorded(const running *r, const command *c, command_state *state,
                          uint32_t number) STATUS_CHECK;
void oracle_destroy(oracle *o); /* takes NULL */

#endif
