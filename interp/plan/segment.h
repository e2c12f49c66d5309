#ifndef INTERP_PLAN_SEGMENT_H
#define INTERP_PLAN_SEGMENT_H
/* Planning a segment of a method: up to the next Item or the end. */
#include "interp/plan/planner.h"

/* Plans from planner->schedule->from up to the next Item or the end, and places the blocks. */
clave_status plan_segment(planner *planner) STATUS_CHECK;

#endif
