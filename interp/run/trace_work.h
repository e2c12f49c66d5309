#ifndef INTERP_RUN_TRACE_WORK_H
#define INTERP_RUN_TRACE_WORK_H
/* How much commands did: the events of a profiled run. */
#include "interp/run/session.h"

typedef struct traced_values traced_values; /* trace_work.c */

/* A command that ran. */
struct trace_event {
  uint32_t method, instruction;
  uint8_t kind, backend;
  int64_t start_ns, end_ns;
  /* Of a run, until trace_settle: its schedule, among session.traced, how it was recorded, and
   * values of its operands (owned). */
  schedule *schedule;
  rounding rounds;
  traced_values *values;
  /* From then on: what it did. */
  double flops, bytes; /* flops < 0: not known; bytes of copies and transfers are there at once */
  dtype type;
  char *shapes; /* owned; NULL: none */
};

/* What a command is about to do, in its event, which is the session's or to be freed. */
clave_status trace_note(const running *run, const command *command, trace_event *out) STATUS_CHECK;
/* Before anybody reads what events did, and before the session gets another executable. */
clave_status trace_settle(session *session) STATUS_CHECK;
void trace_clear(session *session); /* forgets the events */

#endif
