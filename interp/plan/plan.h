#ifndef INTERP_PLAN_PLAN_H
#define INTERP_PLAN_PLAN_H
/* Making schedules, which depend only on an executable and sizes. */
#include "interp/executable.h"

/* The inputs of planning. For a first schedule: the values of inputs, and low_memory. For a
 * following schedule: the schedule before it, a cursor, and the value that was read (NULL:
 * none). */
typedef struct schedule_key {
  const scalar_value *values;
  bool low_memory;
  const schedule *before;
  cursor from;
  const scalar_value *item;
} schedule_key;
clave_status plan_schedule(const executable *executable, uint32_t method, const schedule_key *key,
                           schedule **out) STATUS_CHECK;

#endif
