#ifndef COMPILE_RUNTIME_PLANNER_H
#define COMPILE_RUNTIME_PLANNER_H
/* Runs of a written program whose sizes come with its inputs. */
#include "base/status.h"
#include "compile/runtime/core.h"

struct model_planner {
  /* As model_run of model.h. */
  clave_status (*run)(model *model, const model_value *inputs, model_value *outputs);
  void (*destroy)(model *model); /* what runs have left */
};
#endif
