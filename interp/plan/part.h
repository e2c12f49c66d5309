#ifndef INTERP_PLAN_PART_H
#define INTERP_PLAN_PART_H
/* Planning a part of a method: up to the next Item or the end. */
#include "interp/plan/planner.h"

/* Plans from planner->schedule->from up to the next Item or the end, and places the blocks. */
clave_status plan_part(planner *planner) STATUS_CHECK;

#endif
