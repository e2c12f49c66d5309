#ifndef INTERP_RUN_ARENAS_H
#define INTERP_RUN_ARENAS_H
/* The session's arenas, and the memory budget. */
#include "interp/run/session.h"

/* Whether the session's memory suffices for what the schedule and the session have. */
bool fits_budget(const session *s, const schedule *p);
/* Memory for the schedule's chunks and scratch; an error where the budget does not suffice. */
clave_status grow_arenas(session *s, const schedule *p) STATUS_CHECK;

#endif
