#ifndef INTERP_SCHEDULE_CACHE_H
#define INTERP_SCHEDULE_CACHE_H
/* The schedules that an executable keeps: found by what they are made of, or made. */
#include "interp/executable.h"

/* The schedule of a method for these input values (n_values, of which sizes are some), made if it
 * is not kept; to be released. is_lean: it requests no packed weights. */
clave_status schedule_find(executable *executable, uint32_t method, const scalar_value *values,
                           bool is_lean, schedule **out) STATUS_CHECK;
/* What follows first_schedule from a cursor on. item: the value that first_schedule's Item read;
 * NULL at the begin of a late body. *made: by this call. */
clave_status schedule_find_next(executable *executable, uint32_t method, schedule *first_schedule,
                                cursor from, const scalar_value *item, schedule **out,
                                bool *made) STATUS_CHECK;
void schedule_hold(executable *executable, schedule *schedule);
void schedule_release(executable *executable, schedule *schedule); /* takes NULL */

#endif
