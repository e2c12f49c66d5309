#ifndef COMPILE_OPEN_PLANNED_H
#define COMPILE_OPEN_PLANNED_H
/* An emitted program with open sizes: its method as data (model.c). The CPU backend's planner makes
 * a schedule for each set of sizes at run time. */
#include "compile/runtime/core.h"
#include "interp/executable.h"

struct planned_code {
  const executable *executable; /* one method, without devices */
  const scalar_value *values;   /* (n_values); fixed values; others are unknown */
  const size_t *places; /* (n_slots); byte offset of constants in the weights and of state in the
                           state memory, or MODEL_NOWHERE */
  const unsigned char *weights;
};

#endif
