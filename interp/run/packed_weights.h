#ifndef INTERP_RUN_PACKED_WEIGHTS_H
#define INTERP_RUN_PACKED_WEIGHTS_H
/* The packed weights that commands read. */
#include "interp/run/bindings.h"

/* Stores the packed weights that the command's recording reads in the command's state. */
clave_status get_packed_weights(const running *run, const command *command,
                                command_state *state) STATUS_CHECK;
/* Counts the schedule's commands that read packed weights, and those whose weights are ready. */
typedef struct packing_progress {
  int done, total;
  int64_t elapsed_ns; /* spent on packing */
  bool is_reported;
} packing_progress;
packing_progress begin_packing(const running *run);
/* Makes the largest packed weight of the current schedule first, while most memory is free, because
 * the plain constant is in memory at the same time. Ignores errors, which recur at the command's
 * turn. Does nothing if weights are packed for a file, which has them in the order of commands. */
void pack_largest(const running *run, packing_progress *progress);
/* Calls get_packed_weights, and reports progress if packing takes long. */
clave_status prepare_packed_weights(const running *run, const command *command,
                                    command_state *state, packing_progress *progress) STATUS_CHECK;
/* Completes the progress report, if one was begun, even if some commands failed. */
void end_packing(const running *run, packing_progress *progress);

#endif
