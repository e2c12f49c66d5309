#ifndef INTERP_RUN_BIND_H
#define INTERP_RUN_BIND_H
/* Selects a method's current schedule, and resolves the addresses of its slots. */
#include "interp/run/bindings.h"

/* Makes the first schedule current, as at the beginning of a run, and resolves its addresses. */
clave_status bind_first(const running *run) STATUS_CHECK;
/* Makes the following schedule current, which depends on the value that the Item read. Sets *is_new
 * if this call planned it, so its kernels are not built yet. On failure the old schedule stays
 * current. */
clave_status bind_following(const running *run, const scalar_value *item,
                            bool *is_new) STATUS_CHECK;
/* Makes the schedule of a late body of a control op current. leave_late_body restores *outer. */
clave_status enter_late_body(const running *run, uint32_t number, int body, schedule **outer,
                             bool *is_new) STATUS_CHECK;
void leave_late_body(const running *run, schedule *outer);
bound_tensor bind_location(const binding *binding, location location, int backend);
void rebind_slot(const running *run, uint32_t slot, location location);
/* Binds slots that copy commands have moved to their original locations again. */
void restore_slots(const running *run, range commands);
/* Sets the addresses of rebased blocks for iteration `i` of the loop. */
void rebase_blocks(const running *run, uint32_t control, int64_t i);
void begin_carried(const running *run, uint32_t control);

#endif
