#ifndef INTERP_PLAN_CONTROL_H
#define INTERP_PLAN_CONTROL_H
/* Planning control ops and their bodies. */
#include "interp/plan/planner.h"

clave_status plan_control(planner *planner, uint32_t index) STATUS_CHECK;
/* The sizes of the args of a control op's bodies; those of their results are known as soon as they
 * are computed. */
clave_status resolve_bodies(planner *planner, uint32_t index) STATUS_CHECK;
/* After the last instruction of a body: its results go where they belong. */
clave_status plan_body_end(planner *planner, uint32_t control, int body) STATUS_CHECK;

#endif
