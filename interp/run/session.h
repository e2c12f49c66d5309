#ifndef INTERP_RUN_SESSION_H
#define INTERP_RUN_SESSION_H
/* A session, and a method of it that runs: what the files of this folder share. */
#include "base/memory.h"
#include "interp/executable.h"

enum { KEPT_BINDINGS = 4 };

typedef struct argument argument;       /* argument_memory.h */
typedef struct binding binding;         /* bindings.h */
typedef struct trace_event trace_event; /* trace_work.h */
typedef struct staged staged;           /* streams.c */
typedef struct oracle oracle;           /* check/checking.h */

/* Where bytes lie on a device. */
typedef struct address {
  buffer *buf;
  size_t offset; /* bytes */
} address;

/* A method of a session. */
typedef struct method_state {
  argument *inputs;  /* (n_inputs) */
  argument *outputs; /* (n_outputs) of the last run */
  bool has_run;
  const char **moved; /* (n) why an instruction is to be on the CPU backend, or is; NULL */
  bool has_moved;     /* some are not there yet */
  binding *bindings[KEPT_BINDINGS]; /* owned, most recently used first */
  scalar_value *items;              /* owned: what Items outside of bodies gave in the last run */
  uint32_t n_items;
  size_t cap_items;
  bool has_failed;  /* the last run, after it gave these */
  bool is_prepared; /* once, up to its end */
} method_state;

typedef struct arena_chunks {
  buffer **chunks; /* owned */
  uint32_t n;
} arena_chunks;

struct session {
  executable *executable; /* borrowed, or `own` */
  executable *own; /* in place of the one it was made of: ops that gave wrong numbers moved */
  const program *prog;
  device_set devices;
  constant_store *stores[MAX_BACKENDS];
  stream *streams[MAX_BACKENDS];
  session_options options;
  random_key random;
  mem_pool *pool;
  method_state *methods;
  buffer **state;      /* (n_state) owned, on its home */
  scalar_value *sizes; /* (n_values) those of state are known */
  scalar_value *bound; /* (n_values) in a run: and those that its inputs decide */
  bool has_state;      /* `state` has memory */
  arena_chunks arenas[MAX_BACKENDS];
  buffer *scratch[MAX_BACKENDS]; /* owned; NULL: none was wanted yet */
  staged *staged;                /* owned: what devices may still read; until they have finished */
  size_t staged_bytes;
  uint64_t generation; /* counts what makes addresses of bindings old; from 1 on */
  uint64_t state_bytes, last_arena_bytes;
  bool told_packing; /* that weights are packed in place of the program's, which fit no device */
  bool plan_again;   /* the run failed for what a device cannot run, which is to be moved */
  observe_fn observe;
  void *observe_ctx;
  oracle *oracle;      /* owned; NULL until a kernel is checked */
  trace_event *events; /* owned; of the last run */
  uint32_t n_events;
  size_t cap_events;
  schedule **traced; /* (n_traced) held: those of events */
  uint32_t n_traced;
  size_t cap_traced;
};

/* A method that runs. */
typedef struct running {
  session *session;
  uint32_t index; /* of the method */
  const method *method;
  const graph *graph; /* the method's */
  method_state *state;
  binding *binding;
} running;

/* Whether the caller stops the run. */
static inline bool session_is_cancelled(const session *session) {
  return session->options.cancel && session->options.cancel(session->options.cancel_ctx);
}

#endif
