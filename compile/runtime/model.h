#ifndef COMPILE_RUNTIME_MODEL_H
#define COMPILE_RUNTIME_MODEL_H
/* A compiled program that runs: what model.c, the emitted file, describes, and the memory it runs
 * in. A model is used by one thread at a time; its kernels run on a pool of threads. */
#include "base/kernel.h"
#include "base/status.h"
#include "base/threads.h"

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
typedef struct model_info {
  const char *program, *method;
  const model_argument *inputs, *outputs;
  const model_state *states;
  int n_inputs, n_outputs, n_states;
  size_t arena_bytes, state_bytes;
  int n_forms;            /* of constants, as kernels want them */
  int n_rebased;          /* blocks of loops that are elsewhere in every iteration */
  void (*pack)(model *m); /* makes the forms */
  void (*run)(model *m);
} model_info;
extern const model_info compiled_model; /* model.c */

struct model {
  const model_info *info;
  char *arena, *state;  /* owned */
  void **forms;         /* owned, (n_forms) owned */
  char **rebased;       /* owned, (n_rebased) into arena or state, or a constant */
  const char *node;     /* that runs: "node 3 (matmul, linear_1)" */
  clave_status failed;  /* owned; what comes later does nothing */
  bool measures;        /* kernels are asked for their scratch memory, none runs */
  thread_pool *threads; /* owned */
  kernel_context kernel;
  kernel_fault fault;
  char *scratch; /* owned */
  size_t scratch_bytes, scratch_used;
};

/* n_threads: as base/threads.h has it. The forms of constants are made. */
clave_status model_create(const model_info *info, int n_threads, model **out) STATUS_CHECK;
void model_destroy(model *m); /* takes NULL */
/* inputs, outputs: memory for each, of its bytes, in the program's order. After an error outputs
 * hold nothing. State is kept from one run to the next. */
clave_status model_run(model *m, const void *const *inputs, void *const *outputs) STATUS_CHECK;
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
/* On so many threads at most. */
void model_call_on(model *m, int n_threads, const kernel_desc *k, const void *args);
/* Makes form `index` of a constant by this kernel, which writes it to its scratch memory. */
void model_form(model *m, int index, const kernel_desc *k, const void *args);
/* A stretch of instructions in a row begins: the program, or a body. False: the run has ended. */
bool model_begin_stretch(model *m);
/* The truth of a BOOL at p. False while kernels are measured, and once the run has ended. */
bool model_truth(const model *m, const void *p);

#endif
