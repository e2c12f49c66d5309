#ifndef COMPILE_RUNTIME_CORE_H
#define COMPILE_RUNTIME_CORE_H
/* A compiled program that runs: what model.c, the emitted file, describes, and the memory that it
 * runs in, which is given. Nothing is allocated, printed or started here: all that a program for
 * firmware has. */
#include "base/kernel.h"

#define MODEL_NOWHERE SIZE_MAX

/* An input or output, contiguous, little-endian. */
typedef struct model_argument {
  const char *name;
  dtype type;
  int rank;
  int64_t dims[KERNEL_MAX_RANK];
  size_t bytes;
  size_t offset;     /* in the arena; MODEL_NOWHERE: nothing reads it, or `value` has it */
  const void *value; /* of an output that is known beforehand (bytes) */
} model_argument;

/* A state tensor's first value. */
typedef struct model_state {
  size_t offset, bytes;       /* in the memory for state */
  const unsigned char *value; /* NULL: zeros */
} model_state;

typedef struct model model;
typedef struct model_threads model_threads; /* compile/runtime/pool.h */

/* Memory from the heap, which a model names, so that one whose memory is static has none of it. */
typedef struct model_heap {
  void *(*take)(size_t bytes); /* of MODEL_ALIGNMENT, not cleared; NULL: there is none */
  void (*give)(void *p);       /* takes NULL */
} model_heap;
extern const model_heap compiled_heap; /* compile/runtime/heap.c */

/* All memory of a program that has it as one static buffer; of others zeros. */
typedef struct model_memory {
  model *m;
  char *data; /* (bytes), of MODEL_ALIGNMENT: arena, state, forms, scratch memory, in this order */
  size_t bytes;
  void **forms;   /* (n_forms) */
  char **rebased; /* (n_rebased) */
} model_memory;
enum { MODEL_ALIGNMENT = 64 };

typedef struct model_info {
  const char *program, *method;
  const model_argument *inputs, *outputs;
  const model_state *states;
  int n_inputs, n_outputs, n_states;
  size_t arena_bytes, state_bytes;
  int n_forms;                  /* of constants, as kernels want them */
  int n_rebased;                /* blocks of loops that are elsewhere in every iteration */
  const model_threads *threads; /* NULL: the caller's thread computes alone */
  int n_threads;                /* 0: as pool.h has it */
  const model_heap *heap;       /* NULL: all is in `memory` */
  model_memory memory;
  void (*pack)(model *m); /* makes the forms */
  void (*run)(model *m);
} model_info;
extern const model_info compiled_model; /* model.c */

/* Why a run ended: an error of data, whose numbers are in model.fault, or too little memory. */
typedef enum model_failure {
  MODEL_GOOD = KERNEL_FAULT_NONE,
  MODEL_INDEX = KERNEL_FAULT_INDEX,
  MODEL_DIVISION = KERNEL_FAULT_DIVISION,
  MODEL_ROWS = KERNEL_FAULT_ROWS,
  MODEL_NO_MEMORY
} model_failure;

struct model {
  const model_info *info;
  char *arena, *state;
  void **forms;         /* (n_forms) */
  char **rebased;       /* (n_rebased) into arena or state, or a constant */
  const char *node;     /* that runs: "node 3 (matmul, linear_1)" */
  model_failure failed; /* what comes later does nothing */
  bool measures;        /* kernels are asked for their scratch memory, none runs */
  void *pool;           /* of threads; the core knows it not */
  kernel_context kernel;
  kernel_fault fault;
  char *scratch;
  size_t scratch_bytes, scratch_used;
  size_t taken; /* of info's memory */
};

/* Makes m ready to run. Zeroed, with info, forms and rebased set, and where there are threads pool,
 * kernel.parallel_for and n_threads. */
model_failure model_start(model *m);
/* The same of a program whose memory is static, from nothing on. */
model_failure model_start_static(const model_info *info);
/* inputs: (n_inputs) memory for each, of its bytes, in the program's order; NULL: they are in their
 * places. State is kept from one run to the next. */
model_failure model_compute(model *m, const void *const *inputs);
/* Where output i is after a good run, until the next. */
const void *model_output(const model *m, int i);
void model_reset(model *m); /* state as it is at first */

/* ---- for model.c ---- */
/* `offset` bytes behind `base`, for struct members of any pointer type. */
static inline void *model_at(const void *base, int64_t offset) {
  return (char *)(uintptr_t)base + offset;
}
/* The kernels of a node begin. node: for messages; may be NULL. False: an error has ended the run.
 */
bool model_begin(model *m, const char *node);
void model_call(model *m, const kernel_desc *k, const void *args);
/* Makes form `index` of a constant by this kernel, which writes it to its scratch memory. */
void model_form(model *m, int index, const kernel_desc *k, const void *args);
/* A stretch of instructions in a row begins: the program, or a body. False: the run has ended. */
bool model_begin_stretch(model *m);
/* The truth of a BOOL at p. False while kernels are measured, and once the run has ended. */
bool model_truth(const model *m, const void *p);

#endif
