#ifndef INTERP_RUN_TRACE_WORK_H
#define INTERP_RUN_TRACE_WORK_H
/* The events of a profiled run, and how much work each command did. */
#include "interp/run/session.h"

typedef struct traced_values traced_values; /* trace_work.c */

/* A command that ran. */
struct trace_event {
  uint32_t method, instruction;
  uint8_t kind, backend;
  int64_t start_ns, end_ns;
  /* From the run until trace_compute_work: the schedule, which is one of session.traced; the
   * recording's rounding; and operand values (owned). */
  schedule *schedule;
  rounding rounds;
  traced_values *values;
  /* From trace_compute_work on: the command's work. */
  double flops, bytes; /* flops < 0: unknown; bytes of copies and transfers are set at once */
  dtype type;
  char *shapes; /* owned; NULL: none */
};

/* Fills in an event before its command runs; the session keeps the event or frees it. */
clave_status trace_note(const running *run, const command *command, trace_event *out) STATUS_CHECK;
/* Computes the work of events, before they are read or the session's executable is replaced. */
clave_status trace_compute_work(session *session) STATUS_CHECK;
void trace_clear(session *session); /* forgets the events */

#endif
