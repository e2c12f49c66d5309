#ifndef COMPILE_OPEN_PLANNED_H
#define COMPILE_OPEN_PLANNED_H
/* A written program whose sizes come with its inputs: its method as data (model.c), which the
 * planner and the recorder of the CPU backend make a schedule of for each set of sizes. */
#include "compile/runtime/core.h"
#include "interp/executable.h"

struct planned_code {
  const executable *executable; /* of one method, without devices */
  const scalar_value *values;   /* (n_values) what is fixed; all else is not known */
  const size_t *places; /* (n_slots) of constants and state: bytes from where the weights, or
                           the state, begin; MODEL_NOWHERE */
  const unsigned char *weights;
};

#endif
