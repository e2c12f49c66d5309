#ifndef INTERP_PLAN_CONTROL_H
#define INTERP_PLAN_CONTROL_H
/* Planning control ops and their bodies. */
#include "interp/plan/planner.h"

clave_status plan_control(planner *planner, uint32_t index) STATUS_CHECK;
/* Computes the sizes of the args of a control op's bodies. Sizes of results are computed when the
 * body is planned. */
clave_status resolve_bodies(planner *planner, uint32_t index) STATUS_CHECK;
/* Call after the last instruction of a body: plans copies of its results to their destinations. */
clave_status plan_body_end(planner *planner, uint32_t control, int body) STATUS_CHECK;

#endif
