#ifndef INTERP_PLAN_PLANNER_H
#define INTERP_PLAN_PLANNER_H
/* The state of planning one schedule, shared by the files of this folder. */
#include "interp/executable.h"

typedef struct planner {
  const executable *executable;
  const method *method;
  const graph *graph;     /* the method's */
  schedule *schedule;     /* the one being made */
  bound_tensor *operands; /* (n_slots + 2) operands for recording, without buffers */
  bool *keeps_bf16; /* (n_slots) true for F32 results that are stored as BF16: see precision.h */
} planner;

#endif
