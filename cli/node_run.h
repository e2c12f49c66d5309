#ifndef CLI_NODE_RUN_H
#define CLI_NODE_RUN_H
/* Runs of a program node by node: all that its ops give, and runs in which some of that is put in
 * the place of what is computed, or moved in its last places. */
#include "cli/inputs.h"
#include "cli/records.h"

/* What later nodes read instead of what a run computes. `base`: a run of the same program on the
 * same inputs; all arrays are by its records. */
typedef struct run_edit {
  const records *base;
  const clave_tensor **forced; /* NULL, or NULL for a record: what is computed */
  const double *places;        /* last places that they are moved by; NULL: none */
  bool moves_inputs;           /* they, too, by what an input's dtype allows */
  bool opposite;               /* each the other way */
} run_edit;

/* One run of an unfused session: what each op wrote, in order, as it was computed, then the
 * outputs, as nodes from the method's n_nodes on. With an edit (or NULL), *apart is the number of
 * the first record that `base` has not in the same form: from there on there is no edit. */
int run_nodes(const model *model, const input_set *inputs, const run_edit *edit, records *out,
              size_t *apart) CHECK;

#endif
