#ifndef INTERP_RUN_STATE_H
#define INTERP_RUN_STATE_H
/* A session's state tensors. */
#include "interp/run/session.h"

clave_status init_sizes(session *session) STATUS_CHECK; /* sets the largest sizes */
clave_status need_state(session *session) STATUS_CHECK; /* allocates and initialises, once */
void destroy_state(session *session);

#endif
