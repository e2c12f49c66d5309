#ifndef COMPILE_EMITTED_H
#define COMPILE_EMITTED_H
/* Everything that model.c refers to. It decides which sources, data and flags model.c is built
 * with. */
#include "compile/plan.h"
#include "compile/tables.h"

typedef struct emitted {
  bool *kernels;                         /* owned (n_kernel_infos); kernels that are called */
  bool ops[IR_OP_COUNT];                 /* with open sizes: ops that are planned */
  uint64_t float_steps[2], int_steps[2]; /* bit sets of elementwise step kinds */
  bool *constants;                       /* owned (n_slots); constants that are read unpacked */
  packed_list packed;                    /* embedded packed weights */
  size_t memory_bytes; /* bytes of arena, state, packed weights, and one thread's scratch memory */
} emitted;

/* True if the program plans at run time. Then the copy op is always planned, because the planner
 * inserts copies. */
static inline bool emits_planner(const emitted *emitted) { return emitted->ops[IR_OP_COPY]; }
#endif
