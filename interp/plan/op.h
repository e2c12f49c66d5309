#ifndef INTERP_PLAN_OP_H
#define INTERP_PLAN_OP_H
/* Planning one instruction. */
#include "interp/plan/planner.h"

clave_status plan_instruction(planner *planner, uint32_t index) STATUS_CHECK;
/* Call after the last instruction of the method: plans the updates of its state. */
clave_status plan_updates(planner *planner) STATUS_CHECK;

#endif
