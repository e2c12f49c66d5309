#ifndef INTERP_RUNNING_H
#define INTERP_RUNNING_H
/* What the files that run schedules share: the session, and a schedule with addresses. */
#include "base/dma_buf.h"
#include "base/memory.h"
#include "interp/executable.h"

enum { KEPT_BINDINGS = 4 };

/* An input or output, contiguous. */
typedef struct argument {
  bool set, is_bound;  /* of inputs; of outputs: `data` is the caller's */
  bool is_gathered;    /* an input that each run copies from `source`, which has strides */
  tensor t;            /* of outputs: since a run */
  scalar_value scalar; /* in place of a tensor */
  void *data;          /* `own`, or the caller's; NULL: none yet, or on a device */
  size_t room;         /* bytes there */
  memory_start start;  /* of the caller's */
  bool is_on_device; /* the caller's memory is that of `device` from wrapped[device] + offset on */
  uint8_t device;
  device_memory given; /* that memory */
  dma_buf shared;      /* owned; open: `data` or that memory is in it */
  bool is_acquired;    /* it is the run's, since its begin */
  void *own;           /* owned */
  size_t capacity;
  host_tensor source;
  buffer *wrapped[MAX_BACKENDS]; /* owned; the memory in place; NULL: not yet, or not possible */
} argument;

typedef struct address {
  buffer *buf;
  size_t offset; /* bytes */
} address;

/* Of a command. */
typedef struct command_state {
  void *state;              /* owned: the stream's, see backend.h */
  buffer *forms[MAX_FORMS]; /* borrowed from the store; */
  uint64_t forms_of;        /* the recording with this serial has them */
  bool fills;               /* some of them were filled here; else the file has them */
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
typedef struct binding {
  schedule *root;                    /* held */
  schedule *p;                       /* held: what runs: root, or what follows it */
  bound_tensor *bound[MAX_BACKENDS]; /* (n_slots + 2); the last two are the operands of copies */
  address *blocks;                   /* (p->n_blocks) */
  command_state *commands;           /* (p->n_commands) */
  carried_list *carried;             /* (p->n_controls) */
  size_t cap_blocks, cap_commands, cap_controls;
  uint64_t generation; /* addresses are of this state of the arenas; 0: of none */
} binding;

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

typedef struct traced_values traced_values; /* trace_work.c */

/* A command that ran. */
typedef struct trace_event {
  uint32_t method, instruction;
  uint8_t kind, backend;
  int64_t start_ns, end_ns;
  /* Of a run, until trace_settle: its schedule, among session.traced, how it was recorded, and
   * values of its operands (owned). */
  schedule *p;
  rounding rounds;
  traced_values *values;
  /* From then on: what it did. */
  double flops, bytes; /* flops < 0: not known; bytes of copies and transfers are there at once */
  dtype type;
  char *shapes; /* owned; NULL: none */
} trace_event;

/* Host memory on its way to a device. */
typedef struct staged {
  struct staged *next;
  char data[];
} staged;

typedef struct oracle oracle; /* self_check.c */

struct session {
  executable *x;   /* borrowed, or `own` */
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
  bool told_packing; /* that forms are made in the place of the program's, which fit no device */
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
  session *s;
  uint32_t index; /* of the method */
  const method *m;
  const graph *g; /* the method's */
  method_state *state;
  binding *b;
} running;

/* What decides the sizes of a run. */
typedef struct method_sizes {
  scalar_value *values; /* (n_values) as bound from the inputs */
  scalar_value *items;  /* (n_items) then what the method's Items give, as far as that is known */
  uint32_t n_items;
} method_sizes;

/* ---- argument_memory.c ---- */
void argument_clear(session *s, argument *a);
/* All that was set and bound, and the results of last runs, which stay where they are. `from` has
 * none of it then. */
void take_arguments(session *s, session *from);
/* Whether the device can use it in place: of the host's. */
bool argument_can_wrap(const backend *b, const argument *a);
/* Of the host's, from here on; bindings have addresses of before, and of an arena where this may
 * now be in place. */
void argument_use_memory(session *s, argument *a, void *data, size_t room);
/* The session's own, at least of `bytes`. */
clave_status argument_use_own(session *s, argument *a, size_t bytes) STATUS_CHECK;
/* On failure it has what it had. */
clave_status argument_use_callers(session *s, argument *a, device_memory m, size_t bytes,
                                  bool writable) STATUS_CHECK;
address argument_on_device(const argument *a);
bool arguments_overlap(const argument *a, const argument *b);
/* dma-bufs are the run's from acquire on. release, behind its last command, hands back what devices
 * import; end, when they have finished, what is mapped. Both take what was not acquired. */
clave_status acquire_arguments(const running *r) STATUS_CHECK;
clave_status release_arguments(const running *r) STATUS_CHECK;
clave_status end_arguments(const running *r) STATUS_CHECK;
/* ---- arguments.c ---- inputs and outputs */
clave_status gather_inputs(const running *r) STATUS_CHECK;
/* Blocks of the current schedule that devices use in place; its other ones have addresses. */
clave_status place_arguments(const running *r) STATUS_CHECK;
/* To where the current schedule is the first to want them. */
clave_status write_inputs(const running *r) STATUS_CHECK;
/* They are there when all devices have finished. */
clave_status read_outputs(const running *r) STATUS_CHECK;
/* ---- forms.c ---- */
/* Those that the command's recording reads, in its state. */
clave_status take_forms(const running *r, const command *c, command_state *state) STATUS_CHECK;
/* How many commands of the current schedule have their forms, of those that want some. */
typedef struct packing_progress {
  int done, total;
  int64_t taken_ns; /* by making them */
  bool is_told;
} packing_progress;
packing_progress begin_packing(const running *r);
/* Makes the largest form of the current schedule, while little else is in memory: the constant that
 * it is made of is there, too, meanwhile. What fails does so again in its turn. Files have forms in
 * the order of commands: nothing is done where one is packed. */
void pack_largest(const running *r, packing_progress *p);
/* take_forms, and progress to whom it is told. */
clave_status prepare_forms(const running *r, const command *c, command_state *state,
                           packing_progress *p) STATUS_CHECK;
/* The end of packing that was told of, whatever became of some commands. */
void end_packing(const running *r, packing_progress *p);
/* ---- state.c ---- */
clave_status init_sizes(session *s) STATUS_CHECK; /* the largest */
clave_status need_state(session *s) STATUS_CHECK; /* memory and first values, if it has none yet */
void destroy_state(session *s);
/* ---- bind.c ---- arenas and the addresses of slots */
clave_status binding_create(session *s, schedule *p, binding **out) STATUS_CHECK; /* takes p over */
void binding_destroy(session *s, binding *b);                                     /* takes NULL */
/* Whether the session's memory suffices for what the schedule and the session have. */
bool fits_budget(const session *s, const schedule *p);
/* All addresses of the root, with which a run begins. */
clave_status bind_root(const running *r) STATUS_CHECK;
/* Goes on with a schedule made of b->p, which it takes over. *before, if given, gets b->p, which is
 * released else; an error leaves b->p. */
clave_status bind_next(const running *r, schedule *p, schedule **before) STATUS_CHECK;
/* Back to the schedule from which a late body was entered; takes it over. */
void bind_back(const running *r, schedule *before);
bound_tensor bind_location(const binding *b, location l, int backend);
void rebind_slot(const running *r, uint32_t slot, location l);
/* Slots that copies moved are again where they are produced. */
void restore_slots(const running *r, range commands);
/* Puts the rebased blocks where iteration `i` of the loop has them. */
void rebase_blocks(const running *r, uint32_t control, int64_t i);
void begin_carried(const running *r, uint32_t control);
/* ---- control_flow.c ---- */
clave_status run_control(const running *r, uint32_t control) STATUS_CHECK;
/* ---- commands.c ---- */
clave_status run_commands(const running *r, range commands) STATUS_CHECK;
clave_status run_command(const running *r, const command *c, command_state *state) STATUS_CHECK;
/* Builds the kernels of what the current schedule added. */
clave_status prepare_kernels(const running *r) STATUS_CHECK;
/* Between buffers of two devices, or of one. */
clave_status copy_bytes(const running *r, int from_backend, address from, int to_backend,
                        address to, size_t bytes) STATUS_CHECK;
/* Whether those of a schedule, of what it added, need no building. */
bool kernels_are_built(const running *r, const schedule *p);
void free_staged(session *s); /* all devices have finished */
clave_status read_element(const running *r, location l, int backend,
                          unsigned char *raw) STATUS_CHECK;
/* ---- move.c ---- ops that go to the CPU backend, or, custom ones, to their references */
int cpu_of(const session *s); /* index of the session's own CPU backend, or -1 */
/* For notes: where it runs once it was moved. */
const char *place_of_moved(const ir_instruction *ins);
/* Whether an instruction that runs on backend `from` may run there. */
bool can_move(const running *r, uint32_t instruction, int from);
/* It will when the executable is replaced. */
clave_status move_later(const running *r, uint32_t instruction, const char *reason) STATUS_CHECK;
/* What came of a command. Where that says that its device cannot run it, and another may, it is
 * moved later and the run has to be planned again. Returns `why`. */
clave_status give_up_command(const running *r, const command *c, clave_status why) STATUS_CHECK;
/* Makes the session an executable in which they are moved; what they are in is planned anew. */
clave_status replace_moved(session *s) STATUS_CHECK;
/* ---- run.c ---- */
/* Runs the current schedule's own commands, and what follows it while that depends on data. */
clave_status run_parts(const running *r) STATUS_CHECK;
/* Plans the method for these sizes, binds it, and builds and prepares its kernels: what a run does
 * before its first command, and what it does later for schedules that follow, as far as `z` and the
 * program tell of them. No command runs. */
clave_status session_prepare(session *s, uint32_t method, const method_sizes *z) STATUS_CHECK;
/* Whether a run of these sizes would build nothing, as far as that can be told before it. */
clave_status session_is_ready(session *s, uint32_t method, const scalar_value *values,
                              bool *ready) STATUS_CHECK;
/* The values that the method's inputs have now; `values` is zeroed. */
clave_status session_values(session *s, uint32_t method, scalar_value *values) STATUS_CHECK;
/* Waits for all devices; an error if one met bad data. */
clave_status finish_all(session *s, const graph *g) STATUS_CHECK;
/* ---- trace.c ---- */
clave_status trace_reserve(session *s) STATUS_CHECK; /* room for one more event */
clave_status trace_finish(session *s) STATUS_CHECK;  /* device times of a finished run */
/* ---- trace_work.c ---- */
/* What a command is about to do, in its event, which is the session's or to be freed. */
clave_status trace_note(const running *r, const command *c, trace_event *out) STATUS_CHECK;
/* Before anybody reads what events did, and before the session gets another executable. */
clave_status trace_settle(session *s) STATUS_CHECK;
void trace_clear(session *s); /* forgets the events */

#endif
