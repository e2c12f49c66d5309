#ifndef INTERP_SCHEDULE_H
#define INTERP_SCHEDULE_H
/* What a method does for one set of sizes: commands over symbolic blocks of memory, with offsets
 * and lifetimes. A pure function of the executable and the sizes, which touches no memory of a
 * device and never changes once planned (plan/plan.h).
 *
 * Where sizes depend on data a schedule ends: at an Item, whose value the session reads, and at a
 * body of a control op that cannot be planned before it runs. What comes then is a schedule of its
 * own, made of the one before and the value: a copy of its tables with more behind them. They are
 * kept too (schedule_cache.h), each by the one it follows. */
#include "interp/graph/graph.h"
#include "interp/interp.h"
#include "interp/plan/arena.h"

#define FOREVER UINT32_MAX /* a block that outlives the schedule's commands */

/* rebased: what a loop's body reads or writes, elsewhere in every iteration */
typedef enum block_kind { BLOCK_ARENA, BLOCK_CONSTANT, BLOCK_STATE, BLOCK_REBASED } block_kind;
typedef struct block {
  arena_block a;
  uint8_t kind, backend;
  uint32_t part; /* number of the schedule that placed it; 0: not placed */
  uint32_t slot; /* of constants and state */
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

/* A control command runs the commands of its bodies, which lie between it and its end. */
typedef enum command_kind {
  COMMAND_RUN,
  COMMAND_COPY,
  COMMAND_TRANSFER,
  COMMAND_CONTROL,
  COMMAND_END
} command_kind;
typedef struct command {
  uint8_t kind, backend; /* of a transfer: the destination */
  uint32_t instruction;
  uint32_t control; /* COMMAND_CONTROL: its index in the schedule's */
  /* COMMAND_COPY: x -> out; afterwards slot `rebind` is at `out` (NO_INDEX: no slot moves).
   * COMMAND_TRANSFER: the storage x.storage from its home to `backend`. */
  location x, out;
  uint32_t rebind;
  recording *recorded; /* held; of runs and copies */
} command;

/* How a result of a body leaves it. What a loop carries has two buffers, the op's result and a
 * spare one: an iteration reads one as `arg` and writes the other as `target`. */
typedef struct body_result {
  uint32_t result; /* storage of the op's result */
  uint32_t target; /* storage that the body writes: rebased in loops, the result in branches */
  uint32_t arg, spare, first; /* carried: storages; first: where the initial value goes */
  uint32_t
      stacked; /* carried: the result that stacks the same tensor, whose slices are the values */
  bool is_carried;
  bool written; /* the body writes `target`; else it changes what is carried in place */
  uint8_t home;
  recording *copied; /* held; carried: from where it is after the last iteration to the result */
} body_result;

/* A tensor of which every iteration sees one slice along axis 0. */
typedef struct slices {
  location whole;
  uint32_t storage; /* rebased */
  uint8_t home;
  int64_t stride; /* bytes */
} slices;

/* A control op in a schedule. */
typedef struct control {
  uint32_t instruction;
  uint32_t begin, end; /* its commands COMMAND_CONTROL and COMMAND_END */
  range body[2];       /* commands */
  bool late[2];        /* planned when it runs: sizes depend on data, or it may never run */
  location *now;       /* owned (n_slots), if a body is late: where slots are then */
  location predicate;  /* a branch's, or what a loop's condition gives */
  uint8_t predicate_home;
  int known;            /* a branch's predicate is a host value: its truth; else -1 */
  int64_t trips;        /* of a scan */
  body_result *results; /* owned, by result of the body */
  slices *slices;       /* owned */
  uint32_t n_results, n_slices;
  uint32_t *rebased; /* owned: slots that lie in rebased blocks */
  uint32_t n_rebased;
} control;

/* Where planning is: the instructions from `next` on, up to `end`: of a method, or of a body. */
typedef struct cursor {
  uint32_t next, end;
  uint32_t control; /* index in the schedule's; NO_INDEX: the method */
  int body;
} cursor;

typedef struct schedule schedule;
enum { KEPT_SCHEDULES = 8 };
/* The most recently used first. */
typedef struct schedule_list {
  schedule *items[KEPT_SCHEDULES]; /* held */
} schedule_list;

struct schedule {
  const program *prog;       /* borrowed */
  const device_set *devices; /* borrowed */
  int holds;                 /* under the executable's lock */
  scalar_value *key;    /* (n_values) a first one's: as bound from inputs, before any host op */
  bool is_lean;         /* constants are read as they are, in no form */
  cursor from;          /* a later one's: where it began, */
  scalar_value item;    /* and after which value; not known: none */
  scalar_value *values; /* (n_values) */
  tensor *types;        /* (n_slots) with sizes; strides unused */
  location *at;         /* (n_slots) where a slot is when it is produced */
  location *now;        /* (n_slots) at the point of planning */
  uint32_t *target;     /* (n_slots) the storage to write a body's result to; NO_INDEX */
  block *blocks;
  storage *storages;
  command *commands;
  control **controls; /* owned */
  uint32_t n_blocks, n_storages, n_commands, n_controls;
  size_t cap_blocks, cap_storages, cap_commands, cap_controls;
  /* What is its own, behind what it was made of. */
  uint32_t number; /* 1 for a first one */
  uint32_t first_command, first_control, first_storage, first_block;
  uint32_t first_chunk[MAX_BACKENDS];
  range instructions;
  uint32_t reads;                    /* the Item that ends it; NO_INDEX: nothing is left */
  cursor rest;                       /* where the next one begins */
  size_t *chunk_bytes[MAX_BACKENDS]; /* of the arena, all of them */
  uint32_t n_chunks[MAX_BACKENDS];
  size_t scratch_bytes[MAX_BACKENDS]; /* for one command at a time */
  schedule_list next;                 /* under the executable's lock */
};

/* A first one, with no command yet. */
clave_status schedule_create(const program *prog, const device_set *devices,
                             const scalar_value *values, schedule **out) STATUS_CHECK;
/* One with the tables of another, behind which it goes on. */
clave_status schedule_extend(const schedule *from, schedule **out) STATUS_CHECK;
void schedule_destroy(schedule *schedule); /* takes NULL */
void schedule_drop(schedule *schedule);    /* a hold; takes NULL */
void schedule_list_clear(schedule_list *list);
uint64_t schedule_arena_bytes(const schedule *schedule); /* on all devices, with scratch */
/* The preferred device for what the host has. */
int schedule_home(const schedule *schedule, uint32_t storage);

/* ---- filling one ---- */
clave_status add_storage(schedule *schedule, size_t bytes, uint8_t home, uint32_t slot,
                         uint32_t *out) STATUS_CHECK;
clave_status add_block(schedule *schedule, uint8_t kind, uint8_t on, size_t bytes, uint32_t slot,
                       uint32_t *out) STATUS_CHECK;
/* What was just recorded: no other has its serial. */
void hold_first(recording *recording);
clave_status add_command(schedule *schedule,
                         command command) STATUS_CHECK; /* takes its recording over */
clave_status add_control(schedule *schedule, uint32_t instruction, uint32_t n_results,
                         uint32_t n_slices, uint32_t *out) STATUS_CHECK;
/* How far a schedule is filled. */
typedef struct schedule_mark {
  uint32_t blocks, storages, commands, controls;
} schedule_mark;
schedule_mark schedule_marked(const schedule *schedule);
/* Forgets everything planned since, of which slots of these instructions are all that is left. */
void schedule_rewind(schedule *schedule, const graph *graph, const schedule_mark *to,
                     range instructions);

#endif
