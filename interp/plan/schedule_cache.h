#ifndef INTERP_SCHEDULE_CACHE_H
#define INTERP_SCHEDULE_CACHE_H
/* The schedules that an executable keeps: looked up by what they are made from, or planned. */
#include "interp/executable.h"

/* Returns the schedule of a method for these input values (n_values, among them sizes); plans it if
 * it is not kept. The caller releases it. is_lean: it requests no packed weights. */
clave_status schedule_find(executable *executable, uint32_t method, const scalar_value *values,
                           bool is_lean, schedule **out) STATUS_CHECK;
/* Returns the schedule that follows before from a cursor on. item: the value that its Item
 * read; NULL at the beginning of a late body. Sets *made if this call planned it. */
clave_status schedule_find_next(executable *executable, uint32_t method, schedule *before,
                                cursor from, const scalar_value *item, schedule **out,
                                bool *made) STATUS_CHECK;
void schedule_hold(executable *executable, schedule *schedule);
void schedule_release(executable *executable, schedule *schedule); /* accepts NULL */

#endif
