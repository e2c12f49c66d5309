#ifndef COMPILE_RUNTIME_CORE_H
#define COMPILE_RUNTIME_CORE_H
/* The core of an emitted program, free of host services: model.c, the emitted file, describes one
 * method, with fixed sizes unless it names a planner. The caller provides the memory in which the
 * kernels run. The core allocates and prints nothing and starts no threads, so that firmware needs
 * no other file of the runtime.
 */
#include "base/kernel.h"
#include "compile/runtime/info.h"

#define MODEL_NOWHERE SIZE_MAX

/* The location of an argument. */
typedef struct model_place {
  size_t bytes;
  size_t offset;     /* in the arena; MODEL_NOWHERE: unused, or `value` is set */
  const void *value; /* value of an output that is known at compile time (bytes) */
} model_place;

/* The initial value of a state tensor. */
typedef struct model_state {
  size_t offset, bytes;       /* in the state memory */
  const unsigned char *value; /* NULL: zeros */
} model_state;

/* Threads and heap memory. A program refers to the services that it uses, so that the linker omits
 * the others. */
typedef struct model_threads model_threads; /* pool.h */
extern const model_threads model_pool;      /* pool.c */

typedef struct model_heap {
  /* Returns memory aligned to MODEL_ALIGNMENT, not zeroed. Returns NULL if out of memory. */
  void *(*allocate)(size_t bytes);
  void (*release)(void *memory); /* accepts NULL */
} model_heap;
extern const model_heap model_host_heap; /* heap.c */

/* A planner, which plans and runs a method whose sizes are known only at run time, and the data
 * that it reads. */
typedef struct model_planner model_planner;  /* planner.h */
extern const model_planner model_open_sizes; /* compile/open/planned.c */
typedef struct planned_code planned_code;    /* compile/open/planned.h */

/* A packed weight in the program, for processors of one level. */
typedef struct model_packed {
  int number;
  const char *level;         /* compared with model_code's `level` */
  const unsigned char *data; /* (bytes), aligned to MODEL_ALIGNMENT */
  size_t bytes;
} model_packed;

/* All memory of a program with one static buffer; all zero for other programs. */
enum { MODEL_ALIGNMENT = 64 };
typedef struct model_memory {
  model *model;
  char *data; /* (bytes), aligned to MODEL_ALIGNMENT: arena, state, packed weights, scratch memory,
                 in this order */
  size_t bytes;
  void **packed_weights; /* (n_packed_weights) */
  char **rebased;        /* (n_rebased) */
} model_memory;

typedef struct model_code {
  model_info info; /* describes the one method */
  const model_place *inputs, *outputs;
  const model_state *states;
  int n_states;
  size_t arena_bytes, state_bytes;
  int n_packed_weights;         /* number of packed weights that kernels read */
  int n_rebased;                /* number of loop blocks whose address changes in each iteration */
  const model_threads *threads; /* NULL: only the caller's thread computes */
  const model_heap *heap;       /* NULL: static `memory` is used */
  model_memory memory;
  const model_packed *packed; /* (n_packed) */
  int n_packed;
  const char *packed_for;     /* display text with the levels in `packed`; NULL: none */
  const char *(*level)(void); /* returns this processor's level; set if n_packed > 0 */
  void (*pack)(model *model); /* packs the weights */
  void (*run)(model *model);
  const model_planner *planner; /* NULL: sizes are fixed; else inputs, outputs, packed weights, pack
                                   and run are empty */
  const planned_code *planned;  /* with a planner */
} model_code;
extern const model_code compiled_model; /* model.c */

/* Why a run failed: an error in data, with its numbers in model.fault, or too little memory. */
typedef enum model_failure {
  MODEL_GOOD = KERNEL_FAULT_NONE,
  MODEL_INDEX = KERNEL_FAULT_INDEX,
  MODEL_DIVISION = KERNEL_FAULT_DIVISION,
  MODEL_ROWS = KERNEL_FAULT_ROWS,
  MODEL_NO_MEMORY,
  MODEL_PROCESSOR /* the weights are not packed for this processor */
} model_failure;

struct model {
  char *arena, *state;
  void **packed_weights; /* (n_packed_weights) */
  char **rebased;        /* (n_rebased); pointers to arena, state or a constant */
  const char *node;      /* the running node: "node 3 (matmul, linear_1)" */
  model_failure failed;  /* if set, later calls do nothing */
  bool measures;         /* kernels only report their scratch memory */
  void *pool;            /* owned by model_threads */
  void *plans;           /* owned by the planner */
  void (*note)(void *ctx, const char *line);
  void *note_ctx;
  kernel_context kernel;
  kernel_fault fault;
  char *scratch;
  size_t scratch_bytes, scratch_used;
  size_t taken; /* bytes used of the static memory */
};

/* Prepares the model for runs. The model is zeroed except for packed_weights and rebased and,
 * with threads, pool, kernel.parallel_for and kernel.n_threads. Returns MODEL_GOOD on success. */
model_failure core_start(model *model);
/* inputs: (n_inputs); memory of each, in the program's order. State is kept between runs. */
model_failure core_run(model *model, const model_value *inputs);
/* Returns the address of output i after a successful run; valid until the next run. */
const void *core_output(const model *model, int i);
void core_reset(model *model); /* restores the initial state */
/* True if packed weight `index` is in allocated memory and not in the program. */
bool core_owns_packed_weight(const model *model, int index);
/* True if nothing is packed, or the weights are packed for this processor. */
bool core_fits_processor(void);

/* ---- for model.c ---- */
/* Adds `offset` bytes to `base`; for struct members of any pointer type. */
static inline void *model_at(const void *base, int64_t offset) {
  return (char *)(uintptr_t)base + offset;
}
/* Begins the kernels of a node. node: for messages; may be NULL. Returns false if an error has
 * ended the run. */
bool model_begin(model *model, const char *node);
void model_call(model *model, const kernel_desc *desc, const void *args);
/* Works like model_call on at most n_threads threads. */
void model_call_on(model *model, int n_threads, const kernel_desc *desc, const void *args);
/* Sets packed weight `index`: the program's for this processor, else packed by this kernel, which
 * writes to its scratch memory. */
void model_pack(model *model, int index, const kernel_desc *desc, const void *args);
/* Works like model_pack for a weight that the program only has packed. */
void model_use_packed(model *model, int index);
/* Begins a sequence of instructions: the program or a body. Returns false if the run has ended. */
bool model_begin_stretch(model *model);
/* Returns the BOOL at memory. Returns false while scratch memory is measured, and once the run has
 * ended. */
bool model_truth(const model *model, const void *memory);

#endif
