#ifndef INTERP_RUN_WALK_H
#define INTERP_RUN_WALK_H
/* Walking over the commands of schedules. */
#include "interp/run/session.h"

/* Runs commands of the current schedule, with the bodies of control ops. */
clave_status run_commands(const running *run, range commands) STATUS_CHECK;
/* Runs the current schedule's own commands, and what follows it while that depends on data. */
clave_status run_parts(const running *run) STATUS_CHECK;

#endif
