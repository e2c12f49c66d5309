#ifndef INTERP_RUN_BINDINGS_H
#define INTERP_RUN_BINDINGS_H
/* Bindings: schedules with addresses. A method keeps the bindings of its last sizes. */
#include "interp/run/session.h"

/* The state of one command. */
typedef struct command_state {
  void *state;                         /* owned; the stream's data for the recording, see
                                          backend.h */
  buffer *weights[MAX_PACKED_WEIGHTS]; /* borrowed from the store */
  uint64_t weights_of;                 /* serial of the recording that the weights belong to */
  bool packs; /* the store packed some of the weights; else all are from the program's file */
  uint8_t backend;
  bool checked;    /* see self_check.h */
  bool is_refused; /* its device refused it, and the CPU backend computes it in this run */
} command_state;

/* The buffer that holds a value that a loop carries. */
typedef struct carried_state {
  uint32_t storage;
  command_state copy; /* copies the last value to the op's result */
} carried_state;
typedef struct carried_list {
  carried_state *items; /* owned (n), one per result of the body */
  uint32_t n;
} carried_list;

/* A schedule in a session, with the addresses of its blocks and slots. The entries of a following
 * schedule (see schedule.h) come after those of the schedule before it. */
struct binding {
  schedule *root;     /* holds a reference */
  schedule *schedule; /* holds a reference; the current one: root, or a following one */
  bound_tensor *bound[MAX_BACKENDS]; /* (n_slots + 2); the last two are operands of copies */
  address *blocks;                   /* (schedule->n_blocks) */
  command_state *commands;           /* (schedule->n_commands) */
  carried_list *carried;             /* (schedule->n_controls) */
  size_t cap_blocks, cap_commands, cap_controls;
  uint64_t generation; /* session.generation when addresses were resolved; 0: not resolved */
};

/* Makes the binding of these values current and first in the method's list; creates it if
 * absent. */
clave_status find_binding(running *run, const scalar_value *values) STATUS_CHECK;
/* Destroys the current binding, because a run that failed may have left slots moved. */
void forget_binding(const running *run);
/* Destroys all bindings of the session. */
void forget_bindings(session *session);
/* Allocates entries for the current schedule. They replace the entries of any other schedule that
 * followed the same one. */
clave_status reserve_binding(const running *run) STATUS_CHECK;

#endif
