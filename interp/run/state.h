#ifndef INTERP_RUN_STATE_H
#define INTERP_RUN_STATE_H
/* A session's state tensors. */
#include "interp/run/session.h"

clave_status init_sizes(session *session) STATUS_CHECK; /* the largest */
clave_status need_state(session *session)
    STATUS_CHECK; /* memory and first values, if it has none yet */
void destroy_state(session *session);

#endif
