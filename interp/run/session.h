#ifndef INTERP_RUN_SESSION_H
#define INTERP_RUN_SESSION_H
/* Sessions and running methods: what the files of this folder share. */
#include "base/memory.h"
#include "interp/executable.h"

enum { KEPT_BINDINGS = 4 };

typedef struct argument argument;       /* argument_memory.h */
typedef struct binding binding;         /* bindings.h */
typedef struct trace_event trace_event; /* trace_work.h */
typedef struct staged staged;           /* streams.c */
typedef struct oracle oracle;           /* check/checking.h */

/* A place in a buffer of a device. */
typedef struct address {
  buffer *buf;
  size_t offset; /* bytes */
} address;

/* The state of one method in a session. */
typedef struct method_state {
  argument *inputs;  /* (n_inputs) */
  argument *outputs; /* (n_outputs) results of the last run */
  bool has_run;
  const char **moved; /* (n) why an instruction runs on the CPU backend or is to move there; NULL */
  bool has_moved;     /* some are marked but have not moved yet */
  binding *bindings[KEPT_BINDINGS]; /* owned, most recently used first */
  scalar_value *items; /* owned: values that Items outside of bodies read in the last run */
  uint32_t n_items;
  size_t cap_items;
  bool has_failed;  /* the last run failed, after reading `items` */
  bool is_prepared; /* all its schedules were prepared once */
} method_state;

typedef struct arena_chunks {
  buffer **chunks; /* owned */
  uint32_t n;
} arena_chunks;

struct session {
  executable *executable; /* borrowed, or `own` */
  executable *own;        /* owned; replaces the given executable once ops have moved; else NULL */
  const program *prog;
  device_set devices;
  constant_store *stores[MAX_BACKENDS];
  stream *streams[MAX_BACKENDS];
  session_options options;
  random_key random;
  mem_pool *pool;
  method_state *methods;
  buffer **state;      /* (n_state) owned, each on its home */
  scalar_value *sizes; /* (n_values) sizes of state are known */
  scalar_value *bound; /* (n_values) during a run: the same, and values from the inputs */
  bool has_state;      /* `state` has been allocated */
  arena_chunks arenas[MAX_BACKENDS];
  buffer *scratch[MAX_BACKENDS]; /* owned; NULL: not needed yet */
  staged *staged; /* owned: host memory that devices may read until they have finished */
  size_t staged_bytes;
  uint64_t generation; /* incremented when addresses of bindings become stale; at least 1 */
  uint64_t state_bytes, last_arena_bytes;
  bool told_packing; /* has reported that the program's packed weights fit no device */
  bool plan_again;   /* the run failed because a device cannot run an op, which is to move */
  bool record_again; /* schedules are stale, since a device refused a kernel that they use */
  int n_again;       /* number of times that record_again was set */
  observe_fn observe;
  void *observe_ctx;
  oracle *oracle;      /* owned; NULL until a kernel is checked */
  trace_event *events; /* owned; of the last run */
  uint32_t n_events;
  size_t cap_events;
  schedule **traced; /* (n_traced) hold references; the schedules of events */
  uint32_t n_traced;
  size_t cap_traced;
};

/* A method that is running. */
typedef struct running {
  session *session;
  uint32_t index; /* index of the method */
  const method *method;
  const graph *graph; /* the method's */
  method_state *state;
  binding *binding;
} running;

/* True if the caller wants to stop the run. */
static inline bool session_is_cancelled(const session *session) {
  return session->options.cancel && session->options.cancel(session->options.cancel_ctx);
}

#endif
