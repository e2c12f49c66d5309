#ifndef INTERP_RUN_WALK_H
#define INTERP_RUN_WALK_H
/* Running the commands of schedules in order. */
#include "interp/run/session.h"

/* Runs commands of the current schedule, with the bodies of control ops. */
clave_status run_commands(const running *run, range commands) STATUS_CHECK;
/* Runs the current schedule's own commands, and then the schedules that follow it. */
clave_status run_segments(const running *run) STATUS_CHECK;

#endif
