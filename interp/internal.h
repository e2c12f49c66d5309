#ifndef INTERP_INTERNAL_H
#define INTERP_INTERNAL_H
/* What the files of interp/ share: a method's static facts, the plan of one shape, the session. */
#include "base/memory.h"
#include "interp/arena.h"
#include "interp/session.h"

#define NO_INDEX UINT32_MAX
#define STEP_FOREVER UINT32_MAX

/* Where an instruction runs, beside the index of a backend. */
enum { WHERE_CONTROL = 253, WHERE_HOST = 254, WHERE_VIEW = 255 };

typedef struct span {
  uint32_t first, end; /* [first, end) */
} span;

/* ---- a method, fixed when the session is made ---- */
typedef struct method {
  const ir_method *ir;
  ir_instruction *instructions; /* its own list: a control op is followed by those of its bodies */
  uint32_t n;
  uint32_t *source;    /* (n) number of each in the method, see program_find_node */
  uint32_t *chain;     /* (n) where it stands */
  uint32_t *parent;    /* (n) the control op whose body it is in; NO_INDEX */
  span (*bodies)[2];   /* (n) instructions of a control op's bodies; of others none, right behind */
  uint32_t *writer;    /* (n_slots) instruction; a body's args: its control op; NO_INDEX */
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
/* moving: what a loop's body reads or writes, elsewhere in every step; see control.c */
typedef enum block_kind { BLOCK_ARENA, BLOCK_CONSTANT, BLOCK_STATE, BLOCK_MOVING } block_kind;
typedef struct block {
  arena_block a;
  uint8_t kind, backend;
  uint32_t phase; /* 1 + index of the phase that placed it; 0: not placed */
  buffer *buf;    /* constants and state; moving: of this step, from a.offset on */
} block;

/* One version of stored bytes; slots that view them share it. */
typedef struct storage {
  uint32_t block[MAX_BACKENDS]; /* NO_INDEX where it is not */
  uint8_t home;      /* the backend that wrote it; NO_HOME: the host (inputs, constants) */
  uint32_t slot;     /* the constant, input or state slot; NO_INDEX for temporaries */
  uint32_t last_use; /* instruction, over all slots that view it */
  size_t bytes;
  bool fixed; /* a slice of something else: nothing may be written over it */
} storage;
enum { NO_HOME = 255 };

typedef struct location {
  uint32_t storage; /* NO_INDEX: not there yet */
  tensor t;
} location;

/* A control step runs the steps of its bodies, which lie between it and its end step. */
typedef enum step_kind { STEP_RUN, STEP_COPY, STEP_TRANSFER, STEP_CONTROL, STEP_END } step_kind;
typedef struct step {
  uint8_t kind, backend; /* of a transfer: the destination */
  uint32_t instruction;
  uint32_t control; /* STEP_CONTROL: its index in the plan's */
  /* STEP_COPY: x -> out; afterwards slot `rebind` is at `out` (NO_INDEX: no slot moves).
   * STEP_TRANSFER: the storage x.storage from its home to `backend`. */
  location x, out;
  uint32_t rebind;
  bool settled; /* not to be checked: see self_check.h */
} step;

/* How a result of a body leaves it. A loop's carry has two buffers, its result's and a spare one:
 * a step reads one as `arg` and writes the other as `target`. */
typedef struct tie {
  uint32_t result; /* storage of the op's result */
  uint32_t target; /* storage that the body writes: moving in loops, the result in branches */
  uint32_t arg, spare, first, current; /* carries: storages; first: where the initial value goes */
  uint32_t stacked; /* carries: the tie that stacks the same tensor, whose slices are the values */
  bool is_carry;
  bool written; /* the body writes `target`; else it changes the carry in place */
  uint8_t home;
} tie;

/* A tensor of which every step sees one slice along axis 0. */
typedef struct slices {
  location whole;
  uint32_t storage; /* moving */
  uint8_t home;
  int64_t stride; /* bytes */
} slices;

/* A control op in a plan. */
typedef struct control {
  uint32_t instruction;
  uint32_t step, end; /* its steps STEP_CONTROL and STEP_END */
  span body[2];       /* steps */
  bool late[2];       /* planned anew whenever it runs: sizes depend on data, or it may never run */
  location predicate; /* a branch's, or what a loop's condition gives */
  uint8_t predicate_home;
  int known;      /* a branch's predicate is a host value: its truth; else -1 */
  int64_t trips;  /* of a scan */
  tie *ties;      /* owned, by result of the body */
  slices *slices; /* owned */
  uint32_t n_ties, n_slices;
  uint32_t *moved; /* owned: slots that lie in moving blocks */
  uint32_t n_moved;
} control;

/* A stretch that ends where a host value must be read back (Item), or at the end. */
typedef struct phase {
  uint32_t first_step, n_steps;
  uint32_t first_control, first_storage;
  span instructions;
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
  control **controls; /* owned */
  uint32_t *target;   /* (n_slots) the storage to write a body's result to; NO_INDEX */
  uint32_t n_blocks, n_storages, n_steps, n_phases, n_controls;
  uint32_t cap_blocks, cap_storages, cap_steps, cap_phases, cap_controls;
  uint32_t next_instruction;         /* not planned yet */
  bound_tensor *bound[MAX_BACKENDS]; /* (n_slots + 2); the last two are the operands of copies */
  uint64_t arena_generation;         /* bound[] is of this state of the arenas; 0: not bound */
  uint64_t arena_bytes, peak_bytes;
} plan;

/* What is being planned: the instructions from `next` on, up to `end`: a method, or a body. */
typedef struct cursor {
  uint32_t next, end;
  control *c; /* NULL: the method */
  int body;
} cursor;

/* How far a plan is filled. */
typedef struct plan_mark {
  uint32_t blocks, storages, steps, phases, controls;
  uint64_t arena_bytes;
} plan_mark;

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
  random_key random;
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

/* ---- method.c ---- */
clave_status flatten_method(session *s, method *m) STATUS_CHECK;
/* Leaves out those whose op_type is NONE. */
clave_status drop_instructions(session *s, method *m) STATUS_CHECK;
void find_last_uses(const session *s, method *m);
/* Every slot of these instructions and of the bodies' args, some more than once. */
void for_each_slot(const session *s, const method *m, span instructions,
                   void (*visit)(void *ctx, uint32_t tid), void *ctx);
/* ---- fuse.c ---- */
clave_status fuse_elementwise(session *s, method *m) STATUS_CHECK;
/* ---- placement.c ---- */
clave_status place_method(session *s, method *m) STATUS_CHECK;
/* ---- state.c ---- */
clave_status create_state(session *s) STATUS_CHECK;
/* ---- plan.c ---- */
clave_status plan_create(session *s, const method *m, const scalar_value *key,
                         plan **out) STATUS_CHECK;
void plan_destroy(plan *p);
clave_status grow_array(void **array, uint32_t *capacity, uint32_t count, size_t size) STATUS_CHECK;
clave_status add_storage(plan *p, size_t bytes, uint8_t home, uint32_t slot,
                         uint32_t *out) STATUS_CHECK;
clave_status add_block(plan *p, uint8_t kind, uint8_t on, size_t bytes, uint32_t *out) STATUS_CHECK;
clave_status add_step(plan *p, step st) STATUS_CHECK;
plan_mark mark_plan(const plan *p);
/* Forgets everything planned since, of which slots of these instructions are all that is left. */
void rewind_plan(const session *s, const method *m, plan *p, const plan_mark *to,
                 span instructions);
/* ---- storage.c ---- */
/* Makes the storage readable on backend b from now on (a transfer or a first touch), and keeps it
 * alive until now. */
clave_status need_storage(session *s, plan *p, uint32_t index, int b,
                          uint32_t instruction) STATUS_CHECK;
/* Constants, inputs and state, at their first use. */
clave_status touch_slot(session *s, method *m, plan *p, uint32_t tid) STATUS_CHECK;
/* ---- bind.c ---- arenas and the addresses of slots */
clave_status bind_plan(session *s, plan *p) STATUS_CHECK; /* all of it */
clave_status bind_phase(session *s, const method *m, plan *p, const phase *ph) STATUS_CHECK;
bound_tensor bind_location(const session *s, const plan *p, location l, int backend);
void rebind_slot(const session *s, plan *p, uint32_t slot, location l);
/* Slots that copies moved are again where they are produced. */
void restore_slots(const session *s, plan *p, span steps);
/* Puts the moving blocks where step `i` of the loop has them. */
void move_blocks(const session *s, plan *p, const control *c, int64_t i);
void begin_carries(control *c);
/* ---- layout.c ---- */
clave_status plan_instruction(session *s, method *m, plan *p, uint32_t index) STATUS_CHECK;
clave_status plan_updates(session *s, method *m, plan *p) STATUS_CHECK;
/* ---- control.c ---- planning of control ops */
clave_status plan_control(session *s, method *m, plan *p, uint32_t index) STATUS_CHECK;
/* After the last instruction of a body: its results go where they belong. */
clave_status plan_body_end(session *s, method *m, plan *p, control *c, int body) STATUS_CHECK;
/* ---- phase.c ---- */
/* Plans up to the next Item or the end, and binds the new slots. */
clave_status plan_next_phase(session *s, method *m, plan *p, cursor *k) STATUS_CHECK;
/* ---- loops.c ---- running control ops */
clave_status run_control(session *s, method *m, plan *p, control *c) STATUS_CHECK;
/* ---- steps.c ---- */
clave_status run_steps(session *s, method *m, plan *p, span steps) STATUS_CHECK;
/* A step that is not in the plan's list. */
clave_status run_extra_step(session *s, method *m, plan *p, step *st) STATUS_CHECK;
clave_status prepare_phase(session *s, method *m, plan *p, const phase *ph) STATUS_CHECK;
clave_status read_element(session *s, plan *p, location l, int b, unsigned char *raw) STATUS_CHECK;
/* ---- run.c ---- */
/* Plans and runs phase after phase from *k on; i: the first phase, which may be planned already. */
clave_status run_phases(session *s, method *m, plan *p, cursor *k, uint32_t i) STATUS_CHECK;
/* Waits for all devices; an error if one met bad data. */
clave_status finish_all(session *s, const method *m) STATUS_CHECK;
/* ---- trace.c ---- */
clave_status trace_add(session *s, trace_event e) STATUS_CHECK;
clave_status trace_finish(session *s) STATUS_CHECK; /* device times of a finished run */

/* ---- errors.c ---- */
clave_status while_in_node(clave_status st, const session *s, const method *m,
                           uint32_t instruction) STATUS_CHECK;
/* A tensor's bytes; an error where they overflow. */
clave_status known_bytes(const tensor *t, size_t *out) STATUS_CHECK;

#endif
