#ifndef INTERP_RUN_FORMS_H
#define INTERP_RUN_FORMS_H
/* Forms of constants that commands read. */
#include "interp/run/bindings.h"

/* Those that the command's recording reads, in its state. */
clave_status take_forms(const running *r, const command *c, command_state *state) STATUS_CHECK;
/* How many commands of the current schedule have their forms, of those that want some. */
typedef struct packing_progress {
  int done, total;
  int64_t taken_ns; /* by making them */
  bool is_told;
} packing_progress;
packing_progress begin_packing(const running *r);
/* Makes the largest form of the current schedule, while little else is in memory: the constant that
 * it is made of is there, too, meanwhile. What fails does so again in its turn. Files have forms in
 * the order of commands: nothing is done where one is packed. */
void pack_largest(const running *r, packing_progress *p);
/* take_forms, and progress to whom it is told. */
clave_status prepare_forms(const running *r, const command *c, command_state *state,
                           packing_progress *p) STATUS_CHECK;
/* The end of packing that was told of, whatever became of some commands. */
void end_packing(const running *r, packing_progress *p);

#endif
