#ifndef COMPILE_RUNTIME_PLANNER_H
#define COMPILE_RUNTIME_PLANNER_H
/* Runs an emitted program with open sizes. */
#include "base/status.h"
#include "compile/runtime/core.h"

struct model_planner {
  /* Works like model_run of model.h. */
  clave_status (*run)(model *model, const model_value *inputs, model_value *outputs);
  void (*destroy)(model *model); /* frees `plans` */
};
#endif
