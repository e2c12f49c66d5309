#ifndef INTERP_PLAN_PRECISION_H
#define INTERP_PLAN_PRECISION_H
/* Which values of F32 a schedule keeps as BF16, decided before any of their commands is recorded.
 */
#include "interp/plan/planner.h"

/* Returns true if a fast session keeps the values of some device's ops as BF16. */
bool assigns_precision(const planner *planner);
/* Sets planner->keeps_bf16 for what the method's own instructions from `first` up to the next
 * control op, Item or `end` write. Host ops of integers, whose operands are known, are computed
 * ahead for it. *next: where the following stretch begins. */
clave_status assign_precision(planner *planner, uint32_t first, uint32_t end,
                              uint32_t *next) STATUS_CHECK;

#endif
