#ifndef INTERP_RUN_RUN_H
#define INTERP_RUN_RUN_H
/* Preparing a session for sizes, without running it. */
#include "interp/run/session.h"

/* Values that determine the sizes of a run. */
typedef struct method_sizes {
  scalar_value *values; /* (n_values) as bound from the inputs */
  scalar_value *items;  /* (n_items) values of the method's Items, as far as known */
  uint32_t n_items;
} method_sizes;

/* Plans and binds the method for these sizes, builds its kernels and prepares its commands, as a
 * run does before its first command. Includes following schedules as far as `sizes` and the program
 * determine them. No command runs. */
clave_status session_prepare(session *session, uint32_t method,
                             const method_sizes *sizes) STATUS_CHECK;
/* Sets *ready if a run of these sizes needs no building, as far as this is known before the run. */
clave_status session_is_ready(session *session, uint32_t method, const scalar_value *values,
                              bool *ready) STATUS_CHECK;
/* Reads the values that the method's inputs determine; `values` must be zeroed. */
clave_status session_values(session *session, uint32_t method, scalar_value *values) STATUS_CHECK;

#endif
