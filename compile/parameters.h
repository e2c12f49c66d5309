#ifndef COMPILE_PARAMETERS_H
#define COMPILE_PARAMETERS_H
/* Writes the tensors of a method as parameters of a C function: input_0, ..., output_0, ... */
#include "compile/plan.h"

typedef struct parameters {
  const compile_plan *plan;
  const ir_arguments *all;
  const char *what; /* "input", "output" */
  bool is_input;
} parameters;
parameters parameters_of(const compile_plan *plan, bool is_input);

/* Called by each_parameter for each tensor; fixed scalar inputs are omitted. */
typedef void (*parameter_writer)(const parameters *parameters, const ir_argument *argument,
                                 uint32_t number, text *to);
void each_parameter(const parameters *parameters, text *to, parameter_writer write);
/* Writes a name for use in a comment, so that it cannot end the comment. */
void parameter_describe_name(const char *name, text *to);
/* Writes a line of a comment: name, dtype and shape. */
void parameter_describe(const parameters *parameters, const ir_argument *argument, uint32_t number,
                        text *to);
/* Writes all parameters after the parameter `first`, which may be "". */
void parameters_write(const compile_plan *plan, const char *first, text *to);
/* Writes arrays called `inputs` and `outputs`. */
void parameters_write_arrays(const compile_plan *plan, text *to);
/* Works like parameters_write_arrays, but `inputs` is an array of model_value. */
void parameters_write_values(const compile_plan *plan, text *to);

#endif
