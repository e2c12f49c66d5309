#ifndef INTERP_RUN_ARENAS_H
#define INTERP_RUN_ARENAS_H
/* The session's arenas, and the memory budget. */
#include "interp/run/session.h"

/* True if memory suffices for the schedule and all that the session holds. */
bool fits_budget(const session *session, const schedule *schedule);
/* Allocates the schedule's chunks and scratch; an error if the budget does not suffice. */
clave_status grow_arenas(session *session, const schedule *schedule) STATUS_CHECK;

#endif
