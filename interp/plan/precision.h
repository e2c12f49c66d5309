#ifndef INTERP_PLAN_PRECISION_H
#define INTERP_PLAN_PRECISION_H
/* Values of F32 that are kept as BF16. */
#include "interp/plan/planner.h"

/* Whether what instruction `index` writes to a slot is kept as BF16. Computes sizes that later host
 * ops would compute. */
bool keeps_narrow(planner *l, uint32_t index, uint32_t tid);

#endif
