#ifndef INTERP_RUN_CONTROL_FLOW_H
#define INTERP_RUN_CONTROL_FLOW_H
/* Running control ops. */
#include "interp/run/session.h"

clave_status run_control(const running *run, uint32_t control) STATUS_CHECK;

#endif
