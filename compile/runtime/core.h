#ifndef COMPILE_RUNTIME_CORE_H
#define COMPILE_RUNTIME_CORE_H
/* A program that is written out, without the means of a host: what model.c, the emitted file,
 * describes, one method, of fixed sizes but where a planner is named, and its kernels in memory
 * that they are given. Nothing is allocated, printed or started here: programs for firmware have no
 * more. */
#include "base/kernel.h"
#include "compile/runtime/info.h"

#define MODEL_NOWHERE SIZE_MAX

/* Where an argument lies. */
typedef struct model_place {
  size_t bytes;
  size_t offset;     /* in the arena; MODEL_NOWHERE: nothing reads it, or `value` has it */
  const void *value; /* of an output that is known beforehand (bytes) */
} model_place;

/* A state tensor's first value. */
typedef struct model_state {
  size_t offset, bytes;       /* in the memory for state */
  const unsigned char *value; /* NULL: zeros */
} model_state;

/* Threads, and memory from the heap. A program names those that it has, so that others have nothing
 * of them. */
typedef struct model_threads model_threads; /* pool.h */
extern const model_threads model_pool;      /* pool.c */

typedef struct model_heap {
  void *(*take)(size_t bytes); /* of MODEL_ALIGNMENT, not cleared; NULL: there is none */
  void (*give)(void *memory);  /* takes NULL */
} model_heap;
extern const model_heap model_host_heap; /* heap.c */

/* What plans and runs for sizes that come with the inputs; and what it reads. */
typedef struct model_planner model_planner;  /* planner.h */
extern const model_planner model_open_sizes; /* compile/open/planned.c */
typedef struct planned_code planned_code;    /* compile/open/planned.h */

/* A form of a constant that lies in the program, packed for processors of one level. */
typedef struct model_packed {
  int form;
  const char *level;         /* as model_code's `level` says */
  const unsigned char *data; /* (bytes), of MODEL_ALIGNMENT */
  size_t bytes;
} model_packed;

/* All memory of a program that has it as one static buffer; of others zeros. */
enum { MODEL_ALIGNMENT = 64 };
typedef struct model_memory {
  model *model;
  char *data; /* (bytes), of MODEL_ALIGNMENT: arena, state, forms, scratch memory, in this order */
  size_t bytes;
  void **forms;   /* (n_forms) */
  char **rebased; /* (n_rebased) */
} model_memory;

typedef struct model_code {
  model_info info; /* of one method */
  const model_place *inputs, *outputs;
  const model_state *states;
  int n_states;
  size_t arena_bytes, state_bytes;
  int n_forms;                  /* of constants, as kernels want them */
  int n_rebased;                /* blocks of loops that are elsewhere in every iteration */
  const model_threads *threads; /* NULL: the caller's thread computes alone */
  const model_heap *heap;       /* NULL: all is in `memory` */
  model_memory memory;
  const model_packed *packed; /* (n_packed) */
  int n_packed;
  const char *packed_for;     /* the levels in `packed`, for people; NULL: there are none */
  const char *(*level)(void); /* this processor's; where something is packed */
  void (*pack)(model *model); /* makes the forms */
  void (*run)(model *model);
  const model_planner *planner; /* NULL: sizes are fixed. Else there are no `inputs`, `outputs` and
                                   forms, and nothing is to be packed and run */
  const planned_code *planned;  /* where there is a planner */
} model_code;
extern const model_code compiled_model; /* model.c */

/* Why a run ended: an error of data, whose numbers are in model.fault, or too little memory. */
typedef enum model_failure {
  MODEL_GOOD = KERNEL_FAULT_NONE,
  MODEL_INDEX = KERNEL_FAULT_INDEX,
  MODEL_DIVISION = KERNEL_FAULT_DIVISION,
  MODEL_ROWS = KERNEL_FAULT_ROWS,
  MODEL_NO_MEMORY,
  MODEL_PROCESSOR /* none that the weights are packed for */
} model_failure;

struct model {
  char *arena, *state;
  void **forms;         /* (n_forms) */
  char **rebased;       /* (n_rebased) into arena or state, or a constant */
  const char *node;     /* that runs: "node 3 (matmul, linear_1)" */
  model_failure failed; /* what comes later does nothing */
  bool measures;        /* kernels are asked for their scratch memory, none runs */
  void *pool;           /* of threads */
  void *plans;          /* the planner's */
  void (*note)(void *ctx, const char *line);
  void *note_ctx;
  kernel_context kernel;
  kernel_fault fault;
  char *scratch;
  size_t scratch_bytes, scratch_used;
  size_t taken; /* of the program's static memory */
};

/* Makes model ready to run. Zeroed, with forms and rebased set, and where there are threads pool,
 * kernel.parallel_for and kernel.n_threads. */
model_failure core_start(model *model);
/* inputs: (n_inputs) memory for each, in the program's order. State is kept from one run to the
 * next. */
model_failure core_run(model *model, const model_value *inputs);
/* Where output i is after a good run, until the next. */
const void *core_output(const model *model, int i);
void core_reset(model *model); /* state as it is at first */
/* Whether form `index` is memory that was taken for it, else the program's. */
bool core_owns_form(const model *model, int index);
/* Whether nothing is packed, or it is for this processor. */
bool core_fits_processor(void);

/* ---- for model.c ---- */
/* `offset` bytes behind `base`, for struct members of any pointer type. */
static inline void *model_at(const void *base, int64_t offset) {
  return (char *)(uintptr_t)base + offset;
}
/* The kernels of a node begin. node: for messages; may be NULL. False: an error has ended the run.
 */
bool model_begin(model *model, const char *node);
void model_call(model *model, const kernel_desc *desc, const void *args);
/* On so many threads at most. */
void model_call_on(model *model, int n_threads, const kernel_desc *desc, const void *args);
/* Form `index` of a constant: the program's for this processor, else made by this kernel, which
 * writes it to its scratch memory. */
void model_form(model *model, int index, const kernel_desc *desc, const void *args);
/* The same where the program has nothing to make it of. */
void model_packed_form(model *model, int index);
/* A stretch of instructions in a row begins: the program, or a body. False: the run has ended. */
bool model_begin_stretch(model *model);
/* The truth of a BOOL at memory. False while kernels are measured, and once the run has ended. */
bool model_truth(const model *model, const void *memory);

#endif
