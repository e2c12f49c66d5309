#ifndef INTERP_RUN_BINDINGS_H
#define INTERP_RUN_BINDINGS_H
/* Schedules with addresses: what they own, and those of its last sizes that a method keeps. */
#include "interp/run/session.h"

/* Of a command. */
typedef struct command_state {
  void *state;                         /* owned: the stream's, see backend.h */
  buffer *weights[MAX_PACKED_WEIGHTS]; /* borrowed from the store; */
  uint64_t weights_of;                 /* the recording with this serial has them */
  bool packs;                          /* some of them were packed here; else the file has them */
  uint8_t backend;
  bool checked; /* see self_check.h */
} command_state;

/* Of what a loop carries: where it is. */
typedef struct carried_state {
  uint32_t storage;
  command_state copy; /* of the last value to the op's result */
} carried_state;
typedef struct carried_list {
  carried_state *items; /* owned (n), by result of the body */
  uint32_t n;
} carried_list;

/* A schedule as the session runs it: where its blocks and slots are. What follows a schedule
 * (see schedule.h) has its own behind those of the one before. */
struct binding {
  schedule *root;                    /* held */
  schedule *schedule;                /* held: what runs: root, or what follows it */
  bound_tensor *bound[MAX_BACKENDS]; /* (n_slots + 2); the last two are the operands of copies */
  address *blocks;                   /* (p->n_blocks) */
  command_state *commands;           /* (p->n_commands) */
  carried_list *carried;             /* (p->n_controls) */
  size_t cap_blocks, cap_commands, cap_controls;
  uint64_t generation; /* addresses are of this state of the arenas; 0: of none */
};

/* Makes the binding of these values the current one, the first that the method keeps; it is made if
 * it is not kept. */
clave_status find_binding(running *run, const scalar_value *values) STATUS_CHECK;
/* Destroys the current binding: a run that failed may have left slots elsewhere. */
void forget_binding(const running *run);
/* Destroys all that the session's methods keep. */
void forget_bindings(session *session);
/* Room for what the current schedule has. Its commands take the place of those of another that
 * followed the same one. */
clave_status reserve_binding(const running *run) STATUS_CHECK;

#endif
