#ifndef CLI_NODE_RUN_H
#define CLI_NODE_RUN_H
/* Runs a program node by node and records all results. Results can be replaced by given values, or
 * perturbed in their last places. */
#include "cli/inputs.h"
#include "cli/records.h"

/* Values that later nodes read in place of a run's results. `base`: a run of the same program on
 * the same inputs; all arrays are indexed by its records. */
typedef struct run_edit {
  const records *base;
  const clave_tensor **forced; /* NULL, or NULL for a record: keeps the computed value */
  const double *places;        /* last places by which values are perturbed; NULL: none */
  bool moves_inputs;           /* also perturbs inputs, by the last places of their dtype */
  bool opposite;               /* perturbs each in the opposite direction */
} run_edit;

/* Runs an unfused session once. Records what each op wrote, in order and as computed, then the
 * outputs as nodes from the method's n_nodes on. edit may be NULL. *diverged_at is the index of the
 * first record whose dtype or shape differs from that in `base`; the edit is not applied from there
 * on.
 */
int run_nodes(const model *model, const input_set *inputs, const run_edit *edit, records *out,
              size_t *diverged_at) CHECK;

#endif
