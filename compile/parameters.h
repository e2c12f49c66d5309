#ifndef COMPILE_PARAMETERS_H
#define COMPILE_PARAMETERS_H
/* The tensors of a method as parameters of a C function: input_0, ..., output_0, ... */
#include "compile/plan.h"

typedef struct parameters {
  const compile_plan *plan;
  const ir_arguments *all;
  const char *what; /* "input", "output" */
  bool is_input;
} parameters;
parameters parameters_of(const compile_plan *plan, bool is_input);

/* Calls write for each that a function has; scalar inputs are fixed. */
typedef void (*parameter_writer)(const parameters *parameters, const ir_argument *argument,
                                 uint32_t number, text *to);
void each_parameter(const parameters *parameters, text *to, parameter_writer write);
/* A name within a comment, which it cannot end. */
void parameter_describe_name(const char *name, text *to);
/* A line of a comment: name, dtype and shape. */
void parameter_describe(const parameters *parameters, const ir_argument *argument, uint32_t number,
                        text *to);
/* All of them between the parentheses, behind the parameter `first`, which may be "". */
void parameters_write(const compile_plan *plan, const char *first, text *to);
/* `inputs` and `outputs`, arrays of them. */
void parameters_write_arrays(const compile_plan *plan, text *to);
/* The same, the former as model_values. */
void parameters_write_values(const compile_plan *plan, text *to);

#endif
