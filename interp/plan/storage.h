#ifndef INTERP_PLAN_STORAGE_H
#define INTERP_PLAN_STORAGE_H
/* Storages at their first use, and the places of results. */
#include "interp/plan/planner.h"

/* Makes the storage readable on backend b from now on (a transfer or a first use), and keeps it
 * alive until now. */
clave_status materialize(planner *planner, uint32_t storage, int b,
                         uint32_t instruction) STATUS_CHECK;
/* Constants, those kept decoded, inputs and state, at their first use. */
clave_status import_slot(planner *planner, uint32_t tid) STATUS_CHECK;
/* A constant, or one that is kept decoded: in no device's arena. */
bool holds_constant(const planner *planner, const storage *storage);
/* New bytes for a tensor on backend b, alive from the current command on. */
clave_status new_place(schedule *schedule, const tensor *tensor, int b, uint32_t last_use,
                       location *out) STATUS_CHECK;
/* The slot is at location, produced there. */
void set_location(schedule *schedule, uint32_t tid, location location);
uint32_t later_use(uint32_t a, uint32_t b);

#endif
