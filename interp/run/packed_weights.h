#ifndef INTERP_RUN_PACKED_WEIGHTS_H
#define INTERP_RUN_PACKED_WEIGHTS_H
/* The packed weights that commands read. */
#include "interp/run/bindings.h"

/* Takes those that the command's recording reads from the store into the command's state. */
clave_status take_packed_weights(const running *run, const command *command,
                                 command_state *state) STATUS_CHECK;
/* Counts the commands of the current schedule that have their packed weights, of those that read
 * some. */
typedef struct packing_progress {
  int done, total;
  int64_t taken_ns; /* by packing */
  bool is_told;
} packing_progress;
packing_progress begin_packing(const running *run);
/* Makes the largest packed weight of the current schedule, while little else is in memory: the
 * plain constant is in memory meanwhile, too. A failure is ignored here and returns in the
 * command's turn. Does nothing where weights are packed for a file, which has them in the order of
 * commands.
 */
void pack_largest(const running *run, packing_progress *progress);
/* Calls take_packed_weights, and reports progress once packing takes long. */
clave_status prepare_packed_weights(const running *run, const command *command,
                                    command_state *state, packing_progress *progress) STATUS_CHECK;
/* Reports the end of packing if its progress was reported, whatever became of some commands. */
void end_packing(const running *run, packing_progress *progress);

#endif
