/* Writes the tensors of a method as parameters of a C function. */
#include "compile/parameters.h"

#include <inttypes.h>
#include <string.h>

#include "base/ascii.h"

/* Returns the C type of a dtype; dtypes that C lacks are passed as their bits. */
static const char *c_type(dtype t) {
  static const char *const types[] = {
      [DTYPE_F32] = "float",    [DTYPE_F16] = "uint16_t",    [DTYPE_BF16] = "uint16_t",
      [DTYPE_F64] = "double",   [DTYPE_I8] = "int8_t",       [DTYPE_U8] = "uint8_t",
      [DTYPE_I16] = "int16_t",  [DTYPE_I32] = "int32_t",     [DTYPE_I64] = "int64_t",
      [DTYPE_BOOL] = "uint8_t", [DTYPE_U16] = "uint16_t",    [DTYPE_U32] = "uint32_t",
      [DTYPE_U64] = "uint64_t", [DTYPE_F8_E4M3] = "uint8_t", [DTYPE_F8_E5M2] = "uint8_t"};
  return types[t];
}

/* Returns an argument's type; for a scalar output that of its value. */
static tensor parameters_type_of(const compile_plan *plan, const ir_argument *argument) {
  if (argument->tensor != IR_NONE) return plan->schedule->types[argument->tensor];
  const ir_value_type v = plan->prog->ir.values.items[argument->value].type;
  return (tensor){.type = v == IR_VALUE_TYPE_FLOAT  ? DTYPE_F64
                          : v == IR_VALUE_TYPE_BOOL ? DTYPE_BOOL
                                                    : DTYPE_I64};
}

parameters parameters_of(const compile_plan *plan, bool is_input) {
  const ir_method *method = plan->graph->method;
  return (parameters){plan, is_input ? &method->inputs : &method->outputs,
                      is_input ? "input" : "output", is_input};
}

/* Calls `write` for each argument except fixed scalar inputs. */
void each_parameter(const parameters *parameters, text *to, parameter_writer write) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < parameters->all->count; i++) {
    const ir_argument *argument = &parameters->all->items[i];
    if (argument->tensor != IR_NONE || !parameters->is_input)
      write(parameters, argument, number++, to);
  }
}

static void parameter_declare(const parameters *parameters, const ir_argument *argument,
                              uint32_t number, text *to) {
  const bool is_first = to->data[to->size - 1] == '(';
  text_printf(to, "%s%s%s *%s_%u", is_first ? "" : ", ", parameters->is_input ? "const " : "",
              c_type(parameters_type_of(parameters->plan, argument).type), parameters->what,
              number);
}

static void parameter_name(const parameters *parameters, const ir_argument *argument,
                           uint32_t number, text *to) {
  (void)argument;
  text_printf(to, "%s%s_%u", number ? ", " : "", parameters->what, number);
}

void parameter_describe_name(const char *name, text *to) {
  for (const char *c = name; *c; c++)
    text_printf(to, "%c", is_ascii_alnum(*c) || strchr("_.[] ", *c) ? *c : '_');
}

void parameter_describe(const parameters *parameters, const ir_argument *argument, uint32_t number,
                        text *to) {
  const tensor tensor = parameters_type_of(parameters->plan, argument);
  text_printf(to, " *   %s_%u: ", parameters->what, number);
  parameter_describe_name(argument->name, to);
  text_printf(to, ", %s (", dtype_name(tensor.type));
  for (int i = 0; i < tensor.rank; i++)
    text_printf(to, "%s%" PRId64, i ? ", " : "", tensor.dims[i]);
  text_puts(to, ")\n");
}

void parameters_write(const compile_plan *plan, const char *first, text *to) {
  const parameters in = parameters_of(plan, true), out = parameters_of(plan, false);
  const size_t begin = to->size;
  text_puts(to, first);
  each_parameter(&in, to, parameter_declare);
  each_parameter(&out, to, parameter_declare);
  if (to->size == begin) text_puts(to, "void");
}

static void parameters_write_value(const parameters *parameters, const ir_argument *argument,
                                   uint32_t number, text *to) {
  (void)argument;
  text_printf(to, "%s{.data = %s_%u}", number ? ", " : "", parameters->what, number);
}

static void parameters_write_outputs(const compile_plan *plan, text *to) {
  const parameters out = parameters_of(plan, false);
  text_puts(to, "  void *const outputs[] = {");
  each_parameter(&out, to, parameter_name);
  text_printf(to, "%s};\n", out.all->count ? "" : "NULL");
}

void parameters_write_arrays(const compile_plan *plan, text *to) {
  const parameters in = parameters_of(plan, true);
  text_puts(to, "  const void *const inputs[] = {");
  each_parameter(&in, to, parameter_name);
  text_printf(to, "%s};\n", compiled_inputs(plan) ? "" : "NULL");
  parameters_write_outputs(plan, to);
}

void parameters_write_values(const compile_plan *plan, text *to) {
  const parameters in = parameters_of(plan, true);
  text_puts(to, "  const model_value inputs[] = {");
  each_parameter(&in, to, parameters_write_value);
  text_printf(to, "%s};\n", compiled_inputs(plan) ? "" : "{0}");
  parameters_write_outputs(plan, to);
}
