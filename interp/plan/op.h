#ifndef INTERP_PLAN_OP_H
#define INTERP_PLAN_OP_H
/* Planning one instruction. */
#include "interp/plan/planner.h"

clave_status plan_instruction(planner *planner, uint32_t index) STATUS_CHECK;
/* After the last instruction of the method: values of states go where they belong. */
clave_status plan_updates(planner *planner) STATUS_CHECK;

#endif
