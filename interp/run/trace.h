#ifndef INTERP_RUN_TRACE_H
#define INTERP_RUN_TRACE_H
/* Timings of commands. */
#include "interp/run/session.h"

clave_status trace_reserve(session *session) STATUS_CHECK; /* ensures space for one more event */
clave_status trace_finish(session *session) STATUS_CHECK;  /* reads device times, after a run */

#endif
