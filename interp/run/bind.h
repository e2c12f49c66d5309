#ifndef INTERP_RUN_BIND_H
#define INTERP_RUN_BIND_H
/* Which schedule of a method is the current one, and the addresses of its slots. */
#include "interp/run/bindings.h"

/* Makes the first schedule the current one, with which a run begins, and all its addresses. */
clave_status bind_first(const running *run) STATUS_CHECK;
/* Goes on behind the current schedule, which ends at an Item that read `item`. *is_new: the
 * schedule was planned now, and its kernels are not built. An error leaves what was current. */
clave_status bind_following(const running *run, const scalar_value *item,
                            bool *is_new) STATUS_CHECK;
/* Goes on with a body of control `number`, one that is planned when it runs, until leave_late_body
 * gives back *outer, the schedule that was current. */
clave_status enter_late_body(const running *run, uint32_t number, int body, schedule **outer,
                             bool *is_new) STATUS_CHECK;
void leave_late_body(const running *run, schedule *outer);
bound_tensor bind_location(const binding *binding, location location, int backend);
void rebind_slot(const running *run, uint32_t slot, location location);
/* Slots that copies moved are again where they are produced. */
void restore_slots(const running *run, range commands);
/* Puts the rebased blocks where iteration `i` of the loop has them. */
void rebase_blocks(const running *run, uint32_t control, int64_t i);
void begin_carried(const running *run, uint32_t control);

#endif
