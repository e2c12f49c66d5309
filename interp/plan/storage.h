#ifndef INTERP_PLAN_STORAGE_H
#define INTERP_PLAN_STORAGE_H
/* Imports storages at their first use, and allocates memory for results. */
#include "interp/plan/planner.h"

/* Makes the storage readable on backend b from the current command on, by a transfer if needed, and
 * extends its lifetime to this command. */
clave_status materialize(planner *planner, uint32_t storage, int b,
                         uint32_t instruction) STATUS_CHECK;
/* Adds the storage of a constant, plain or decoded, of an input or of state at its first use. */
clave_status import_slot(planner *planner, uint32_t tid) STATUS_CHECK;
/* True if the storage is a constant or a decoded constant, which are not in an arena. */
bool holds_constant(const planner *planner, const storage *storage);
/* Adds a storage for a tensor on backend b, alive from the current command on. */
clave_status new_place(schedule *schedule, const tensor *tensor, int b, uint32_t last_use,
                       location *out) STATUS_CHECK;
/* Sets the location where the slot is produced, which is also its current one. */
void set_location(schedule *schedule, uint32_t tid, location location);
/* Returns the later of two uses; NO_INDEX means never. */
uint32_t later_use(uint32_t a, uint32_t b);

#endif
