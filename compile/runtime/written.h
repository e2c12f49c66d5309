#ifndef COMPILE_RUNTIME_WRITTEN_H
#define COMPILE_RUNTIME_WRITTEN_H
/* What model.c, the emitted file, describes, and what its functions work on: one method, sizes
 * fixed. Its kernels run on a pool of threads. */
#include "base/kernel.h"
#include "base/threads.h"
#include "compile/runtime/model.h"

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

typedef struct model_code {
  model_info info; /* of one method */
  const model_place *inputs, *outputs;
  const model_state *states;
  int n_states;
  size_t arena_bytes, state_bytes;
  int n_forms;            /* of constants, as kernels want them */
  int n_rebased;          /* blocks of loops that are elsewhere in every iteration */
  void (*pack)(model *m); /* makes the forms */
  void (*run)(model *m);
} model_code;
extern const model_code compiled_model; /* model.c */

struct model {
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
