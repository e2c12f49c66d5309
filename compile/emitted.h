#ifndef COMPILE_EMITTED_H
#define COMPILE_EMITTED_H
/* What model.c refers to, which decides the sources, data and flags that it is built with. */
#include "compile/plan.h"
#include "compile/tables.h"

typedef struct emitted {
  bool *kernels;                         /* owned (n_kernel_infos): those that are called */
  bool ops[IR_OP_COUNT];                 /* of open sizes: those that are planned */
  uint64_t float_steps[2], int_steps[2]; /* kinds of elementwise steps, as bits */
  bool *constants;                       /* owned (n_slots): those that are read as they are */
  packed_list packed;                    /* forms that lie in the program */
  size_t memory_bytes; /* of the arena, state, forms and scratch memory of one thread */
} emitted;

/* Whether it plans when sizes come: the planner's copies are an op of any such program. */
static inline bool emits_planner(const emitted *emitted) { return emitted->ops[IR_OP_COPY]; }
#endif
