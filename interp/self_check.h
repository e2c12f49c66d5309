#ifndef INTERP_SELF_CHECK_H
#define INTERP_SELF_CHECK_H
/* The self-check: the first time that kernels run on a device and driver, on whatever data comes,
 * their results are compared with the CPU backend's. Where they are wrong the CPU backend's results
 * go on, and from the next run on the op itself runs there. Backends keep what was proven. */
#include "interp/internal.h"

/* Runs one prepared node on the step's backend, comparing it if its kernels are unproven. number:
 * what the backend reports faults and times under. */
clave_status run_node(session *s, method *m, step *st, uint32_t number,
                      const node *nd) STATUS_CHECK;
/* Places the ops that were found wrong on the CPU backend; the method is planned anew. */
void replace_distrusted(session *s, method *m);
void oracle_destroy(oracle *o); /* takes NULL */

#endif
