#ifndef INTERP_SCHEDULE_CACHE_H
#define INTERP_SCHEDULE_CACHE_H
/* The schedules that an executable keeps: found by the inputs of planning, or planned. */
#include "interp/executable.h"

/* Returns the schedule of a method for these values (n_values) of its inputs and sizes; plans it if
 * absent. The caller releases it. low_memory: without requests for packed weights. */
clave_status schedule_find(executable *executable, uint32_t method, const scalar_value *values,
                           bool low_memory, schedule **out) STATUS_CHECK;
/* Returns the schedule that follows `before` and begins at a cursor. item: the value of the Item
 * that ends `before`; NULL at the beginning of a late body. Sets *made if it is new. */
clave_status schedule_find_next(executable *executable, uint32_t method, schedule *before,
                                cursor from, const scalar_value *item, schedule **out,
                                bool *made) STATUS_CHECK;
void schedule_hold(executable *executable, schedule *schedule);
void schedule_release(executable *executable, schedule *schedule); /* accepts NULL */

#endif
