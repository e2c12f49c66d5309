#ifndef INTERP_PLAN_PLANNER_H
#define INTERP_PLAN_PLANNER_H
/* A schedule that is being made of an executable and sizes: what the files of this folder share. */
#include "interp/executable.h"

typedef struct planner {
  const executable *executable;
  const method *method;
  const graph *graph;     /* the method's */
  schedule *schedule;     /* being made */
  bound_tensor *operands; /* (n_slots + 2) for recording, without buffers */
  bool *keeps_bf16;       /* (n_slots) results of F32 that are kept as BF16: see precision.h */
} planner;

#endif
