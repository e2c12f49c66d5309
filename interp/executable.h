#ifndef INTERP_EXECUTABLE_H
#define INTERP_EXECUTABLE_H
/* An executable: a program on a set of devices. It holds the methods' graphs after the passes, the
 * placement of instructions and state, and the schedules made so far. Everything except schedules
 * and caches is read-only. All sessions and threads on these devices share it. */
#include "base/threads.h"
#include "interp/graph/graph.h"
#include "interp/interp.h"
#include "interp/schedule.h"

/* Values of method.where besides the index of a backend. */
enum { WHERE_NOWHERE = 252, WHERE_CONTROL = 253, WHERE_HOST = 254, WHERE_VIEW = 255 };

typedef struct method {
  graph graph;
  uint8_t *where;      /* (n) index of a backend, or WHERE_* */
  const char **reason; /* (n) why the instruction is not on the preferred device; NULL if it is */
  schedule_list schedules;    /* by sizes of the inputs; guarded by the executable's lock */
  void **cache[MAX_BACKENDS]; /* (n) the backend's data per instruction; guarded by the lock */
} method;

/* Called for each planned node, before the node is recorded. */
typedef struct plan_observer {
  clave_status (*planned)(void *ctx, int backend, const node *node);
  void *ctx;
} plan_observer;

struct executable {
  const program *prog; /* borrowed */
  device_set devices;
  executable_options options;
  mem_pool *pool;
  method *methods;     /* (n_methods) */
  uint8_t *state_home; /* (n_state) index of the backend that holds the state */
  bool *is_multiplied; /* (n_slots) true for constants that a product reads as its b */
  ir_copy copy;        /* the planner's copy op, from slot n_slots to slot n_slots + 1 */
  ir_instruction copy_instruction;
  void **copy_cache;             /* (MAX_BACKENDS) as method.cache, for copy_instruction */
  const plan_observer *observer; /* borrowed from the tuner; else NULL */
  uint64_t tuned[MAX_BACKENDS];  /* versions of the tuning tables that it was made with */
  mutex *lock; /* guards the lists of schedules, their reference counts and planning */
};

/* Creates a copy of the executable in which each instruction with a reason,
 * reasons[method][instruction] not NULL, moves to backend `to`. Custom ops with a reason run as
 * their references instead. The reasons are copied. State stays on its devices. */
clave_status executable_move(const executable *input, const char *const *const *reasons, uint8_t to,
                             executable **out) STATUS_CHECK;

/* ---- placement.c ---- */
/* Places each instruction on the first device that supports it. Views and host ops need none. */
clave_status place_method(const executable *executable, method *method) STATUS_CHECK;
/* Returns UNSUPPORTED and names the first instruction that no device runs. */
clave_status check_placement(const method *method) STATUS_CHECK;
/* Places each state on the device that holds most operands of the ops that use it. */
clave_status place_state(executable *executable) STATUS_CHECK;

#endif
