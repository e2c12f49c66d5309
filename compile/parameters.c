/* The tensors of a method as parameters of a C function. */
#include "compile/parameters.h"

#include <inttypes.h>
#include <string.h>

#include "base/ascii.h"

/* What C has not is moved as its bits. */
static const char *c_type(dtype t) {
  static const char *const types[] = {
      [DTYPE_F32] = "float",    [DTYPE_F16] = "uint16_t",    [DTYPE_BF16] = "uint16_t",
      [DTYPE_F64] = "double",   [DTYPE_I8] = "int8_t",       [DTYPE_U8] = "uint8_t",
      [DTYPE_I16] = "int16_t",  [DTYPE_I32] = "int32_t",     [DTYPE_I64] = "int64_t",
      [DTYPE_BOOL] = "uint8_t", [DTYPE_U16] = "uint16_t",    [DTYPE_U32] = "uint32_t",
      [DTYPE_U64] = "uint64_t", [DTYPE_F8_E4M3] = "uint8_t", [DTYPE_F8_E5M2] = "uint8_t"};
  return types[t];
}

/* An argument's type: of a scalar output that of its value. */
static tensor type_of(const compile_plan *k, const ir_argument *a) {
  if (a->tensor != IR_NONE) return k->p->types[a->tensor];
  const ir_value_type v = k->prog->ir.values.items[a->value].type;
  return (tensor){.type = v == IR_VALUE_TYPE_FLOAT  ? DTYPE_F64
                          : v == IR_VALUE_TYPE_BOOL ? DTYPE_BOOL
                                                    : DTYPE_I64};
}

parameters parameters_of(const compile_plan *k, bool is_input) {
  const ir_method *m = k->g->method;
  return (parameters){k, is_input ? &m->inputs : &m->outputs, is_input ? "input" : "output",
                      is_input};
}

/* Calls write for each that a function has; scalar inputs are fixed. */
void each_parameter(const parameters *p, text *to, parameter_writer write) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < p->all->count; i++) {
    const ir_argument *a = &p->all->items[i];
    if (a->tensor != IR_NONE || !p->is_input) write(p, a, number++, to);
  }
}

static void parameter_declare(const parameters *p, const ir_argument *a, uint32_t number,
                              text *to) {
  const bool is_first = to->data[to->size - 1] == '(';
  text_printf(to, "%s%s%s *%s_%u", is_first ? "" : ", ", p->is_input ? "const " : "",
              c_type(type_of(p->k, a).type), p->what, number);
}

static void parameter_name(const parameters *p, const ir_argument *a, uint32_t number, text *to) {
  (void)a;
  text_printf(to, "%s%s_%u", number ? ", " : "", p->what, number);
}

void parameter_describe_name(const char *name, text *to) {
  for (const char *c = name; *c; c++)
    text_printf(to, "%c", is_ascii_alnum(*c) || strchr("_.[] ", *c) ? *c : '_');
}

void parameter_describe(const parameters *p, const ir_argument *a, uint32_t number, text *to) {
  const tensor t = type_of(p->k, a);
  text_printf(to, " *   %s_%u: ", p->what, number);
  parameter_describe_name(a->name, to);
  text_printf(to, ", %s (", dtype_name(t.type));
  for (int i = 0; i < t.rank; i++) text_printf(to, "%s%" PRId64, i ? ", " : "", t.dims[i]);
  text_puts(to, ")\n");
}

void parameters_write(const compile_plan *k, const char *first, text *to) {
  const parameters in = parameters_of(k, true), out = parameters_of(k, false);
  const size_t begin = to->size;
  text_puts(to, first);
  each_parameter(&in, to, parameter_declare);
  each_parameter(&out, to, parameter_declare);
  if (to->size == begin) text_puts(to, "void");
}

static void write_value(const parameters *p, const ir_argument *a, uint32_t number, text *to) {
  (void)a;
  text_printf(to, "%s{.data = %s_%u}", number ? ", " : "", p->what, number);
}

static void write_outputs(const compile_plan *k, text *to) {
  const parameters out = parameters_of(k, false);
  text_puts(to, "  void *const outputs[] = {");
  each_parameter(&out, to, parameter_name);
  text_printf(to, "%s};\n", out.all->count ? "" : "NULL");
}

void parameters_write_arrays(const compile_plan *k, text *to) {
  const parameters in = parameters_of(k, true);
  text_puts(to, "  const void *const inputs[] = {");
  each_parameter(&in, to, parameter_name);
  text_printf(to, "%s};\n", compiled_inputs(k) ? "" : "NULL");
  write_outputs(k, to);
}

void parameters_write_values(const compile_plan *k, text *to) {
  const parameters in = parameters_of(k, true);
  text_puts(to, "  const model_value inputs[] = {");
  each_parameter(&in, to, write_value);
  text_printf(to, "%s};\n", compiled_inputs(k) ? "" : "{0}");
  write_outputs(k, to);
}
