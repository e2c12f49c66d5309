#ifndef CLI_NODE_ERRORS_H
#define CLI_NODE_ERRORS_H
/* Compares a run with another node by node: how much results differ, how much of the difference
 * rounding explains, and in which node the error arose. */
#include "cli/bounds.h"
#include "cli/graph.h"
#include "cli/node_run.h"

typedef enum node_verdict {
  NODE_UNMATCHED, /* the other run has no counterpart */
  NODE_GOOD,
  NODE_WRONG,      /* beyond the bound even on the same operands */
  NODE_AMPLIFIES,  /* within the bound on the same operands, but the whole difference is more than
                      rounding explains */
  NODE_OTHER_SHAPE /* another dtype or shape */
} node_verdict;

typedef struct node_error {
  node_verdict verdict;
  difference total;    /* difference of both runs, each on its own operands */
  difference own;      /* on the operands of the other run */
  double inputs_error; /* largest difference of its operands */
  double terms;        /* largest number of terms summed in one element */
} node_error;

/* Two runs to be compared. Arrays are indexed by the records of `base`. The last records of `base`
 * are the method's outputs. If `others` (a fused run) is not NULL, each output is also compared
 * with the entry of the same index. */
typedef struct run_pair {
  const model *cpu;   /* the CPU backend with an unfused session, which computed `base` */
  const graph *graph; /* graph of cpu's program */
  const input_set *inputs;
  const records *base;
  const clave_tensor **subject; /* NULL: no counterpart */
  const clave_tensor *others;   /* (n_others) */
  uint32_t n_others;
  bool subject_is_right;    /* true: `subject` is the reference; false: `base` is */
  bool has_only_outputs;    /* `subject` has only outputs, so nothing can be recomputed from its
                                operands */
  node_error *errors;       /* owned; result */
  difference *other_errors; /* owned (n_others); result */
} run_pair;

int find_errors(run_pair *pair) CHECK;
void free_errors(run_pair *pair);
/* Returns the first wrong record, else the first that amplifies; base->count if none exists. */
size_t first_beyond(const run_pair *pair);
/* Returns the slot whose bytes `slot` shows if it is a view, else `slot`. */
uint32_t find_viewed(const graph *graph, uint32_t slot);
/* Returns the last record before `at` that wrote the slot; SIZE_MAX if none exists. */
size_t find_written(const records *base, size_t at, uint32_t slot);

#endif
