/* Epilogues: found by the names of their fields, then checked and described as an Elementwise. */
#include "ops/epilogue.h"

#include <string.h>

enum { EPILOGUES_SINCE = 3 }; /* schema version of the first epilogues */

static const char steps_name[] = "epilogue", inputs_name[] = "epilogue_inputs";

static const ir_field *op_epilogue_find_field(ir_op type, const char *name) {
  const ir_table *table = ir_op_tables[type];
  for (uint32_t i = table->n_fields; i-- > 0;)
    if (strcmp(table->fields[i].name, name) == 0) return &table->fields[i];
  return NULL;
}

static void *field_in(const void *op, const ir_field *field) { return (char *)op + field->offset; }

bool accepts_epilogue(ir_op type) { return op_epilogue_find_field(type, steps_name) != NULL; }

int epilogue_since(ir_op type) {
  const int own = op_epilogue_find_field(type, steps_name)->since;
  return own ? own : EPILOGUES_SINCE;
}

dtype op_result_type(ir_op type, dtype out) {
  return type == IR_OP_CONV_INTEGER || type == IR_OP_MATMUL_INTEGER ? DTYPE_I32 : out;
}

bool is_epilogue_input(const operand *operand) { return strcmp(operand->field, inputs_name) == 0; }

const ir_steps *epilogue_of(const ir_instruction *ins) {
  const ir_field *field = op_epilogue_find_field(ins->op_type, steps_name);
  const ir_steps *steps = field ? field_in(ins->op, field) : NULL;
  return steps && steps->count ? steps : NULL;
}

static const ir_u32s *inputs_of(const ir_instruction *ins) {
  return field_in(ins->op, op_epilogue_find_field(ins->op_type, inputs_name));
}

void set_epilogue(const ir_instruction *ins, void *op, const ir_steps *steps, const ir_u32s *inputs,
                  uint32_t out) {
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    size_t at = (size_t)((const char *)i.operand.at - (const char *)ins->op);
    if (i.operand.flags & IR_OUT) memcpy((char *)op + at, &out, sizeof out);
  }
  memcpy(field_in(op, op_epilogue_find_field(ins->op_type, steps_name)), steps, sizeof *steps);
  memcpy(field_in(op, op_epilogue_find_field(ins->op_type, inputs_name)), inputs, sizeof *inputs);
}

ir_elementwise epilogue_alone(const ir_instruction *ins, uint32_t inputs[MAX_STEP_INPUTS]) {
  const ir_u32s *others = inputs_of(ins);
  uint32_t out = first_slot(ins, true);
  inputs[0] = out;
  if (others->count) memcpy(inputs + 1, others->items, others->count * sizeof *inputs);
  return (ir_elementwise){
      .inputs = {inputs, 1 + others->count}, .steps = *epilogue_of(ins), .out = out};
}

clave_status rule_epilogue(const rule_context *context, const ir_instruction *ins) {
  uint32_t inputs[MAX_STEP_INPUTS];
  if (!accepts_epilogue(ins->op_type)) return NULL;
  uint32_t n = inputs_of(ins)->count;
  if (!epilogue_of(ins))
    return n == 0 ? NULL : INVALID("there are %u epilogue_inputs and no epilogue", n);
  if (n >= MAX_STEP_INPUTS)
    return INVALID("%u epilogue_inputs, at most %d are allowed", n, MAX_STEP_INPUTS - 1);
  const ir_elementwise e = epilogue_alone(ins, inputs);
  const dtype own = op_result_type(ins->op_type, rule_tensor(context, e.out)->type);
  return status_while(rule_steps(context, &e, own), "epilogue");
}

bool describe_epilogue(const node *node, elementwise_desc *desc) {
  uint32_t inputs[MAX_STEP_INPUTS];
  if (!epilogue_of(node->instruction)) return false;
  const ir_elementwise e = epilogue_alone(node->instruction, inputs);
  describe_steps(node, &e, op_result_type(node->instruction->op_type, program_type(node, e.out)),
                 desc);
  return true;
}
