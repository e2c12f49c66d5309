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

/* A position in a buffer of a device. */
typedef struct address {
  buffer *buf;
  size_t offset; /* bytes */
} address;

/* The state of one method in a session. */
typedef struct method_state {
  argument *inputs;  /* (n_inputs) */
  argument *outputs; /* (n_outputs) results of the last run */
  bool has_run;
  const char **moved; /* (n) why an instruction moved or must move to the CPU backend; else NULL */
  bool has_moved;     /* some instructions are marked but have not moved yet */
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
  buffer **state;      /* (n_state) owned, each on its home (executable.state_home) */
  scalar_value *sizes; /* (n_values) sizes of state are known */
  scalar_value *bound; /* (n_values) during a run: `sizes` and the values from inputs */
  bool has_state;      /* `state` has been allocated */
  arena_chunks arenas[MAX_BACKENDS];
  buffer *scratch[MAX_BACKENDS]; /* owned; NULL: not needed yet */
  staged *staged; /* owned: host memory that devices may read until they have finished */
  size_t staged_bytes;
  uint64_t generation; /* incremented when addresses of bindings become stale; at least 1 */
  uint64_t state_bytes, last_arena_bytes;
  bool has_reported_packing; /* reported that the packed weights are for other devices */
  bool has_reported_refusal; /* reported that the CPU backend computes what a device refused */
  bool plan_again;           /* the run failed because a device cannot run an op, which must move */
  bool record_again; /* schedules are stale, because a device refused a kernel that they use */
  int n_again;       /* number of times that record_again became true */
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
  const graph *graph; /* graph of the method */
  method_state *state;
  binding *binding;
  bool is_final; /* commands have run: it goes on by results of the CPU backend if it can */
} running;

/* True if the caller wants to stop the run. */
static inline bool session_is_cancelled(const session *session) {
  return session->options.cancel && session->options.cancel(session->options.cancel_ctx);
}

#endif
