#ifndef CLI_NODE_ERRORS_H
#define CLI_NODE_ERRORS_H
/* A run held against another node by node: how far they are apart, what rounding explains of that,
 * and where it was made. */
#include "cli/bounds.h"
#include "cli/graph.h"
#include "cli/node_run.h"

typedef enum node_verdict {
  NODE_UNMATCHED, /* the other run has nothing to compare with */
  NODE_GOOD,
  NODE_WRONG,     /* on the same operands its results are beyond the bound */
  NODE_AMPLIFIES, /* they are within it; what they inherit is more than rounding explains */
  NODE_OTHER_FORM /* another dtype or shape */
} node_verdict;

typedef struct node_error {
  node_verdict verdict;
  difference total;    /* of both runs, each on its own operands */
  difference own;      /* on the other run's operands */
  double inputs_error; /* the largest difference of what it reads */
  double terms;        /* that are added up in one element, at most */
} node_error;

/* Two runs to be compared. Arrays are by the records of `base`; of a method's outputs, which are
 * its last records, `others` are compared too (fused runs), by index, where they are not NULL. */
typedef struct run_pair {
  const model *cpu;   /* the CPU backend with an unfused session, which gave `base` */
  const graph *graph; /* of its program */
  const input_set *inputs;
  const records *base;
  const clave_tensor **subject; /* NULL: it has no counterpart */
  const clave_tensor *others;   /* (n_others) */
  uint32_t n_others;
  bool subject_is_right;    /* else base is */
  bool has_outputs_alone;   /* subject: nothing can be computed from its operands */
  node_error *errors;       /* owned: found */
  difference *other_errors; /* owned: found, (n_others) */
} run_pair;

int find_errors(run_pair *pair) CHECK;
void free_errors(run_pair *pair);
/* The first wrong record, else the first that amplifies; base->count: none. */
size_t first_beyond(const run_pair *pair);
/* The slot whose bytes a view shows; itself, where it is none. */
uint32_t find_viewed(const graph *graph, uint32_t slot);
/* The newest of the records before `at` that wrote the slot; SIZE_MAX: none. */
size_t find_written(const records *base, size_t at, uint32_t slot);

#endif
