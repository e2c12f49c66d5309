#ifndef INTERP_RUN_RUN_H
#define INTERP_RUN_RUN_H
/* Making a session ready for sizes, without running it. */
#include "interp/run/session.h"

/* What decides the sizes of a run. */
typedef struct method_sizes {
  scalar_value *values; /* (n_values) as bound from the inputs */
  scalar_value *items;  /* (n_items) then what the method's Items give, as far as that is known */
  uint32_t n_items;
} method_sizes;

/* Plans the method for these sizes, binds it, and builds and prepares its kernels: what a run does
 * before its first command, and what it does later for schedules that follow, as far as `sizes` and
 * the program tell of them. No command runs. */
clave_status session_prepare(session *session, uint32_t method,
                             const method_sizes *sizes) STATUS_CHECK;
/* Whether a run of these sizes would build nothing, as far as that can be told before it. */
clave_status session_is_ready(session *session, uint32_t method, const scalar_value *values,
                              bool *ready) STATUS_CHECK;
/* The values that the method's inputs have now; `values` is zeroed. */
clave_status session_values(session *session, uint32_t method, scalar_value *values) STATUS_CHECK;

#endif
