#ifndef INTERP_INTERNAL_H
#define INTERP_INTERNAL_H
/* What the files of interp/ share: a method's static facts, the plan of one shape, the session. */
#include "base/memory.h"
#include "interp/arena.h"
#include "interp/session.h"

#define NO_INDEX UINT32_MAX
#define STEP_FOREVER UINT32_MAX

/* Where an instruction runs, beside the index of a backend. */
enum { WHERE_HOST = 254, WHERE_VIEW = 255 };

/* ---- a method, fixed when the session is made ---- */
typedef struct method {
  const ir_method *ir;
  const ir_instruction *instructions; /* borrowed from the program or the session's pool (fused) */
  uint32_t n;
  uint32_t *source;    /* (n) index in the program of each instruction: differs after fusion */
  uint8_t *where;      /* (n) index of a backend, or WHERE_* */
  const char **reason; /* (n) why not on the preferred device; NULL */
  uint32_t *last_use;  /* (n_slots) last instruction that reads the slot; n: read after the last;
                          NO_INDEX: none */
  bool *distrusted;    /* (n) found wrong by the self-check, to be replaced */
  bool has_distrusted;
  void **cache[MAX_BACKENDS];      /* (n) the backend's own, per instruction */
  void **copy_cache[MAX_BACKENDS]; /* (n_slots + n + 1) the same for the planner's copies: of a
                                      slot, of an instruction, at the end */
  struct bound_input *inputs;      /* (ir->inputs.count) */
  struct plan *plans[4];           /* owned, most recently used first */
  struct plan *current;            /* of the last run; NULL before */
  host_tensor *outputs;            /* (ir->outputs.count) owned data, of the last run */
  size_t *output_capacity;
  bool has_run;
} method;

/* An input as the caller gave it: an own contiguous copy. */
typedef struct bound_input {
  bool set;
  tensor t;
  void *data; /* owned */
  size_t capacity;
  scalar_value scalar;
} bound_input;

/* ---- a plan: one method with all sizes known ---- */
typedef enum block_kind { BLOCK_ARENA, BLOCK_CONSTANT, BLOCK_STATE } block_kind;
typedef struct block {
  arena_block a;
  uint8_t kind, backend;
  uint32_t phase; /* 1 + index of the phase that placed it; 0: not placed */
  buffer *buf;    /* constants and state */
} block;

/* One version of stored bytes; slots that view them share it. */
typedef struct storage {
  uint32_t block[MAX_BACKENDS]; /* NO_INDEX where it is not */
  uint8_t home;      /* the backend that wrote it; NO_HOME: the host (inputs, constants) */
  uint32_t slot;     /* the constant, input or state slot; NO_INDEX for temporaries */
  uint32_t last_use; /* instruction, over all slots that view it */
  size_t bytes;
} storage;
enum { NO_HOME = 255 };

typedef struct location {
  uint32_t storage; /* NO_INDEX: not there yet */
  tensor t;
} location;

typedef enum step_kind { STEP_RUN, STEP_COPY, STEP_TRANSFER } step_kind;
typedef struct step {
  uint8_t kind, backend; /* of a transfer: the destination */
  uint32_t instruction;
  /* STEP_COPY: x -> out; afterwards slot `rebind` is at `out` (NO_INDEX: no slot moves).
   * STEP_TRANSFER: the storage x.storage from its home to `backend`. */
  location x, out;
  uint32_t rebind;
  bool settled; /* not to be checked: see self_check.h */
} step;

/* A stretch that ends where a host value must be read back (Item), or at the end. */
typedef struct phase {
  uint32_t first_step, n_steps;
  uint32_t item; /* the instruction that ends it, or NO_INDEX */
  arena_layout layout[MAX_BACKENDS];
  uint32_t first_chunk[MAX_BACKENDS];
} phase;

typedef struct plan {
  scalar_value *key;    /* (n_values) as bound from inputs, before any host op */
  scalar_value *values; /* (n_values) */
  tensor *types;        /* (n_slots) with sizes; strides unused */
  location *at;         /* (n_slots) where a slot is when it is produced */
  location *now;        /* (n_slots) at the point of planning */
  block *blocks;
  storage *storages;
  step *steps;
  phase *phases;
  uint32_t n_blocks, n_storages, n_steps, n_phases;
  uint32_t cap_blocks, cap_storages, cap_steps, cap_phases;
  uint32_t next_instruction;         /* not planned yet */
  bound_tensor *bound[MAX_BACKENDS]; /* (n_slots + 2); the last two are the operands of copies */
  uint64_t arena_generation;         /* bound[] is of this state of the arenas; 0: not bound */
  uint64_t arena_bytes;
} plan;

typedef struct arena_chunks {
  buffer **chunks; /* owned */
  uint32_t n;
} arena_chunks;

typedef struct trace_event {
  uint32_t method, instruction;
  uint8_t kind, backend;
  int64_t start_ns, end_ns;
} trace_event;

typedef struct oracle oracle; /* self_check.c */

struct session {
  const program *prog;
  device_set devices;
  constant_store *stores[MAX_BACKENDS];
  stream *streams[MAX_BACKENDS];
  session_options options;
  mem_pool *pool;
  method *methods;
  uint8_t *state_home; /* (n_state) */
  buffer **state;      /* (n_state) owned, on its home */
  arena_chunks arenas[MAX_BACKENDS];
  uint64_t arena_generation;
  uint64_t state_bytes, last_arena_bytes;
  observe_fn observe;
  void *observe_ctx;
  oracle *oracle;      /* owned; NULL until a kernel is checked */
  trace_event *events; /* owned; of the last run */
  uint32_t n_events, cap_events;
};

static inline uint32_t slot_count(const session *s) { return s->prog->ir.tensors.count; }
static inline uint32_t first_state(const session *s) {
  const ir_program *p = &s->prog->ir;
  return p->constants.count + p->n_inputs + p->n_outputs;
}
static inline bool is_constant_slot(const session *s, uint32_t tid) {
  return tid < s->prog->ir.constants.count;
}
static inline bool is_output_slot(const session *s, uint32_t tid) {
  const ir_program *p = &s->prog->ir;
  return tid >= p->constants.count + p->n_inputs && tid < first_state(s);
}
static inline bool is_state_slot(const session *s, uint32_t tid) {
  return tid >= first_state(s) && tid < first_state(s) + s->prog->ir.n_state;
}

/* ---- fuse.c ---- rewrites a method's instructions into the session's pool */
clave_status fuse_elementwise(session *s, method *m) STATUS_CHECK;
/* ---- placement.c ---- */
clave_status place_method(session *s, method *m) STATUS_CHECK;
/* ---- plan.c ---- */
clave_status plan_create(session *s, const method *m, const scalar_value *key,
                         plan **out) STATUS_CHECK;
void plan_destroy(plan *p);
/* Plans from p->next_instruction up to the next Item or the end, and binds the new slots. */
clave_status plan_next_phase(session *s, method *m, plan *p) STATUS_CHECK;
/* ---- layout.c ---- */
clave_status plan_instruction(session *s, method *m, plan *p, uint32_t index) STATUS_CHECK;
clave_status plan_updates(session *s, method *m, plan *p) STATUS_CHECK;
/* ---- bind.c ---- arenas and the addresses of slots */
clave_status bind_plan(session *s, plan *p) STATUS_CHECK;
bound_tensor bind_location(const session *s, const plan *p, location l, int backend);
/* ---- storage.c ---- growth of the plan's tables */
clave_status grow_array(void **array, uint32_t *capacity, uint32_t count, size_t size) STATUS_CHECK;
clave_status add_storage(plan *p, size_t bytes, uint8_t home, uint32_t slot,
                         uint32_t *out) STATUS_CHECK;
clave_status add_block(plan *p, uint8_t kind, uint8_t on, size_t bytes, uint32_t *out) STATUS_CHECK;
clave_status add_step(plan *p, step st) STATUS_CHECK;
/* Makes the storage readable on backend b from now on (a transfer or a first touch), and keeps it
 * alive until now. */
clave_status need_storage(session *s, plan *p, uint32_t index, int b,
                          uint32_t instruction) STATUS_CHECK;
/* Constants, inputs and state, at their first use. */
clave_status touch_slot(session *s, method *m, plan *p, uint32_t tid) STATUS_CHECK;
/* ---- trace.c ---- */
clave_status trace_add(session *s, trace_event e) STATUS_CHECK;
clave_status trace_finish(session *s) STATUS_CHECK; /* device times of a finished run */

/* ---- errors.c ---- */
clave_status while_in_node(clave_status st, const session *s, const method *m,
                           uint32_t instruction) STATUS_CHECK;
/* A tensor's bytes; an error where they overflow. */
clave_status known_bytes(const tensor *t, size_t *out) STATUS_CHECK;

#endif
