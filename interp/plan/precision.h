#ifndef INTERP_PLAN_PRECISION_H
#define INTERP_PLAN_PRECISION_H
/* Chooses which F32 values a schedule stores as BF16, before any of their commands is recorded. */
#include "interp/plan/planner.h"

/* Returns true if the session is fast and one of its devices supports values stored as BF16. */
bool assigns_precision(const planner *planner);
/* Sets planner->keeps_bf16 for the results of one section: the method's own instructions from
 * `first` up to the next control op, Item or `end`. Computes integer host ops ahead of their turn
 * if their operands are known. Sets *next to the start of the following section. */
clave_status assign_precision(planner *planner, uint32_t first, uint32_t end,
                              uint32_t *next) STATUS_CHECK;

#endif
