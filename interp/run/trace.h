#ifndef INTERP_RUN_TRACE_H
#define INTERP_RUN_TRACE_H
/* When commands ran. */
#include "interp/run/session.h"

clave_status trace_reserve(session *session) STATUS_CHECK; /* room for one more event */
clave_status trace_finish(session *session) STATUS_CHECK;  /* device times of a finished run */

#endif
