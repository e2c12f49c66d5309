#ifndef INTERP_EXECUTABLE_H
#define INTERP_EXECUTABLE_H
/* A program on a set of devices: its methods' graphs after the passes, where each instruction runs
 * and why, where state lives, and the schedules made so far. Read-only but for those; shared by
 * the sessions and threads of a program and its devices. */
#include "base/threads.h"
#include "interp/graph/graph.h"
#include "interp/interp.h"
#include "interp/schedule.h"

/* Where an instruction runs, beside the index of a backend. */
enum { WHERE_NOWHERE = 252, WHERE_CONTROL = 253, WHERE_HOST = 254, WHERE_VIEW = 255 };

typedef struct method {
  graph graph;
  uint8_t *where;             /* (n) index of a backend, or WHERE_* */
  const char **reason;        /* (n) why not on the preferred device; NULL */
  schedule_list schedules;    /* of the sizes that inputs had; under the executable's lock */
  void **cache[MAX_BACKENDS]; /* (n) the backend's own, per instruction; under the lock, too */
} method;

/* Told of each node that is planned, before it is recorded. */
typedef struct plan_observer {
  clave_status (*see)(void *ctx, int backend, const node *node);
  void *ctx;
} plan_observer;

struct executable {
  const program *prog; /* borrowed */
  device_set devices;
  executable_options options;
  mem_pool *pool;
  method *methods;     /* (n_methods) */
  uint8_t *state_home; /* (n_state) the backend that a state lives on */
  bool *is_multiplied; /* (n_slots) constants that a product reads as its b */
  ir_copy copy;        /* of slot n_slots to n_slots + 1: the planner's copies */
  ir_instruction copy_instruction;
  void **copy_cache;             /* (MAX_BACKENDS) as the methods' */
  const plan_observer *observer; /* borrowed, of a tuner whose own the executable is; or NULL */
  uint64_t tuned[MAX_BACKENDS];  /* versions of the devices' tables when it was made */
  mutex *lock;                   /* of schedules: their lists and counts, and the making of them */
};

/* The same but for instructions that another device shall run: those that have a reason in
 * reasons[method][instruction], which is copied. State lives where it did. */
clave_status executable_move(const executable *input, const char *const *const *reasons, uint8_t to,
                             executable **out) STATUS_CHECK;

/* ---- placement.c ---- */
/* Each instruction on the first device that supports it; views and host ops need none. */
clave_status place_method(const executable *executable, method *method) STATUS_CHECK;
/* UNSUPPORTED names the first instruction that is nowhere. */
clave_status check_placement(const method *method) STATUS_CHECK;
/* A state lives where most operands of the ops that touch it are. */
clave_status place_state(executable *executable) STATUS_CHECK;

#endif
