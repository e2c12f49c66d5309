#ifndef INTERP_SCHEDULE_H
#define INTERP_SCHEDULE_H
/* A schedule: the commands that a method runs for one set of sizes, over symbolic blocks of memory
 * with offsets and lifetimes. It depends only on the executable and the sizes, uses no device
 * memory, and never changes once planned (plan/plan.h).
 *
 * A schedule ends where sizes depend on data: at an Item, whose value the session reads, and at a
 * body of a control op that cannot be planned before it runs. The commands after the Item, and
 * those of the body, are schedules of their own, which depend on the value and extend a copy of the
 * previous schedule's tables. The cache keeps them in a list of the schedule that they follow
 * (schedule_cache.h). */
#include "interp/graph/graph.h"
#include "interp/interp.h"
#include "interp/plan/arena.h"

#define FOREVER UINT32_MAX /* last use of a block that outlives the schedule's commands */

/* BLOCK_REBASED: used by a loop's body, at a different address in every iteration */
typedef enum block_kind { BLOCK_ARENA, BLOCK_CONSTANT, BLOCK_STATE, BLOCK_REBASED } block_kind;
typedef struct block {
  arena_block a;
  uint8_t kind, backend;
  uint32_t segment; /* number of the schedule that placed it; 0: not placed yet */
  uint32_t slot;    /* slot of constants and state */
} block;

/* One version of stored bytes, shared by all slots that view it. */
typedef struct storage {
  uint32_t block[MAX_BACKENDS]; /* the block on each backend; NO_INDEX if it has none */
  uint8_t home;                 /* the backend that wrote it; NO_HOME: the host (inputs,
                                   constants) */
  uint32_t slot;                /* the constant, input or state slot; NO_INDEX for temporaries */
  uint32_t last_use;            /* last instruction that reads any slot that views it */
  size_t bytes;
  bool fixed; /* the bytes are inside another storage and must not be overwritten */
} storage;
enum { NO_HOME = 255 };

typedef struct location {
  uint32_t storage; /* NO_INDEX: not produced yet */
  tensor t;
} location;

/* A control command runs the commands of its bodies, listed between it and COMMAND_END. */
typedef enum command_kind {
  COMMAND_RUN,
  COMMAND_COPY,
  COMMAND_TRANSFER,
  COMMAND_CONTROL,
  COMMAND_END
} command_kind;
typedef struct command {
  uint8_t kind, backend; /* for a transfer: the destination */
  uint32_t instruction;
  uint32_t control; /* COMMAND_CONTROL: index into schedule.controls */
  /* COMMAND_COPY copies x to out; then slot `rebind` is located at `out` (NO_INDEX: none).
   * COMMAND_TRANSFER copies storage x.storage from its home to `backend`. */
  location x, out;
  uint32_t rebind;
  recording *recorded; /* holds a reference; set for runs and copies */
} command;

/* A result of a body, and where it is stored. A value that a loop carries has two buffers, the op's
 * result and a spare one: each iteration reads one as `arg` and writes the other as `target`. */
typedef struct body_result {
  uint32_t result;            /* storage of the op's result */
  uint32_t target;            /* storage that the body writes: rebased in loops, else the result */
  uint32_t arg, spare, first; /* storages of a carried value; first: gets the initial value */
  uint32_t stacked; /* the stacked result of which a carried value is also a slice; else NO_INDEX */
  bool is_carried;
  bool written; /* the body writes `target`; else it changes the carried value in place */
  uint8_t home;
  recording *copied; /* holds a reference; copies a carried value to the op's result */
} body_result;

/* A tensor in which each iteration reads or writes one slice along axis 0. */
typedef struct slices {
  location whole;
  uint32_t storage; /* rebased */
  uint8_t home;
  int64_t stride; /* bytes */
} slices;

/* A control op in a schedule. */
typedef struct control {
  uint32_t instruction;
  uint32_t begin, end; /* indices of COMMAND_CONTROL and COMMAND_END */
  range body[2];       /* ranges of commands */
  bool late[2];        /* planned when it runs: its sizes depend on data, or it may never run */
  location *now;       /* owned (n_slots) if a body is late: locations of slots at the control op */
  location predicate;  /* predicate of a branch, or the result of a loop's condition */
  uint8_t predicate_home;
  int known;            /* value of a predicate that is a host scalar; else -1 */
  int64_t trips;        /* number of iterations of a scan */
  body_result *results; /* owned; one per result of the body */
  slices *slices;       /* owned */
  uint32_t n_results, n_slices;
  uint32_t *rebased; /* owned: slots stored in rebased blocks */
  uint32_t n_rebased;
} control;

/* A position of the planner: instructions from `next` up to `end`, of a method or of a body. */
typedef struct cursor {
  uint32_t next, end;
  uint32_t control; /* index into schedule.controls; NO_INDEX: the method */
  int body;
} cursor;

typedef struct schedule schedule;
enum { KEPT_SCHEDULES = 8 };
/* Schedules, the most recently used first. */
typedef struct schedule_list {
  schedule *items[KEPT_SCHEDULES]; /* hold references */
} schedule_list;

struct schedule {
  const program *prog;       /* borrowed */
  const device_set *devices; /* borrowed */
  int holds;                 /* reference count; guarded by the executable's lock */
  scalar_value *key;         /* (n_values) of a first schedule: as bound from the inputs */
  bool low_memory;      /* requests no packed weights: constants are read in their plain layout */
  cursor from;          /* for a following schedule: the position where it begins, */
  scalar_value item;    /* and the value of the Item before it; unknown if none exists */
  scalar_value *values; /* (n_values) */
  tensor *types;        /* (n_slots) dtypes and actual sizes; strides unused */
  location *at;         /* (n_slots) location of a slot when it is produced */
  location *now;        /* (n_slots) location of a slot at the current point of planning */
  uint32_t *target;     /* (n_slots) storage to write a body's result to; NO_INDEX if none */
  block *blocks;
  storage *storages;
  command *commands;
  control **controls; /* owned */
  uint32_t n_blocks, n_storages, n_commands, n_controls;
  size_t cap_blocks, cap_storages, cap_commands, cap_controls;
  /* The entries that this schedule added to those of the schedule that it extends. */
  uint32_t number; /* 1 for a first schedule */
  uint32_t first_command, first_control, first_storage, first_block;
  uint32_t first_chunk[MAX_BACKENDS];
  range instructions;
  uint32_t reads;                    /* the Item that ends it; NO_INDEX: nothing follows */
  cursor rest;                       /* where the next schedule begins */
  size_t *chunk_bytes[MAX_BACKENDS]; /* sizes of all chunks of the arena */
  uint32_t n_chunks[MAX_BACKENDS];
  size_t scratch_bytes[MAX_BACKENDS]; /* largest scratch of a single command */
  schedule_list next;                 /* guarded by the executable's lock */
};

/* Creates a first schedule without commands. */
clave_status schedule_create(const program *prog, const device_set *devices,
                             const scalar_value *values, schedule **out) STATUS_CHECK;
/* Creates a schedule with a copy of the tables of `from`, to be extended. */
clave_status schedule_extend(const schedule *from, schedule **out) STATUS_CHECK;
void schedule_destroy(schedule *schedule); /* accepts NULL */
void schedule_drop(schedule *schedule);    /* releases a reference; accepts NULL */
void schedule_list_clear(schedule_list *list);
uint64_t schedule_arena_bytes(const schedule *schedule); /* on all devices, with scratch */
/* Returns the backend that wrote the storage; the preferred device if the host did. */
int schedule_home(const schedule *schedule, uint32_t storage);

/* ---- filling in a schedule ---- */
clave_status add_storage(schedule *schedule, size_t bytes, uint8_t home, uint32_t slot,
                         uint32_t *out) STATUS_CHECK;
clave_status add_block(schedule *schedule, uint8_t kind, uint8_t on, size_t bytes, uint32_t slot,
                       uint32_t *out) STATUS_CHECK;
/* Sets the unique serial number and the first reference of a new recording. */
void hold_first(recording *recording);
clave_status add_command(schedule *schedule,
                         command command) STATUS_CHECK; /* takes ownership of its recording */
clave_status add_control(schedule *schedule, uint32_t instruction, uint32_t n_results,
                         uint32_t n_slices, uint32_t *out) STATUS_CHECK;
/* The lengths of a schedule's tables at some point of planning. */
typedef struct schedule_mark {
  uint32_t blocks, storages, commands, controls;
} schedule_mark;
schedule_mark schedule_marked(const schedule *schedule);
/* Removes the entries that were planned since the mark. Only slots of `instructions` can refer to
 * them. */
void schedule_rewind(schedule *schedule, const graph *graph, const schedule_mark *to,
                     range instructions);

#endif
