#ifndef INTERP_RUN_ARENAS_H
#define INTERP_RUN_ARENAS_H
/* The session's arenas, and the memory budget. */
#include "interp/run/session.h"

/* Whether the session's memory suffices for what the schedule and the session have. */
bool fits_budget(const session *session, const schedule *schedule);
/* Memory for the schedule's chunks and scratch; an error where the budget does not suffice. */
clave_status grow_arenas(session *session, const schedule *schedule) STATUS_CHECK;

#endif
