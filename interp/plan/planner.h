#ifndef INTERP_PLAN_PLANNER_H
#define INTERP_PLAN_PLANNER_H
/* The state of planning one schedule, shared by the files of this folder. */
#include "interp/executable.h"

typedef struct planner {
  const executable *executable;
  const method *method;
  const graph *graph; /* graph of the method */
  schedule *schedule; /* the schedule that is being made */
  uint8_t
      *where; /* (graph->n) same as in the method, except for ops that this schedule moves to the
                 CPU backend, because their device cannot hold their tensors or record them */
  bound_tensor *operands; /* (n_slots + 2) operands for recording, without buffers */
  bool *keeps_bf16; /* (n_slots) true for F32 results that are stored as BF16, see precision.h */
} planner;

#endif
