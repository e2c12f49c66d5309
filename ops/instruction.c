/* The rule of a whole instruction: the checks that apply to every op, the rule of its op, and the
 * rule of its epilogue. */
#include "ops/epilogue.h"
#include "ops/rule_checks.h"

static clave_status check_encoding(const rule_context *context, const operand *operand) {
  const encoding *encoding = &rule_tensor(context, operand->tid)->encoding;
  char text[80];
  if (encoding->kind == ENCODING_PLAIN || operand->flags & IR_ENCODED) return NULL;
  return INVALID("%s (tensor %u): expected a plain tensor (Dequantize makes one), got %s",
                 operand->field, operand->tid, encoding_text(encoding, text, sizeof text));
}

static clave_status check_int_value(const rule_context *context, const char *what,
                                    const ir_int_or_vid *value) {
  if (!value->present || value->vid == IR_NONE ||
      context->values[value->vid].type != IR_VALUE_TYPE_FLOAT)
    return NULL;
  return INVALID("%s: expected an integer, got value %u of type float", what, value->vid);
}

static clave_status check_int_values(const rule_context *context, const ir_field *field,
                                     const void *at) {
  if (field->kind == IR_FIELD_INT_OR_VID) return check_int_value(context, field->name, at);
  if (field->kind != IR_FIELD_INT_OR_VIDS) return NULL;
  const ir_int_or_vids *values = at;
  for (uint32_t i = 0; i < values->count; i++)
    TRY(check_int_value(context, field->name, &values->items[i]));
  return NULL;
}

clave_status rule_sizes(const rule_context *context, const ir_instruction *ins) {
  TRY(op_table[ins->op_type].rule(context, ins->op));
  return rule_epilogue(context, ins);
}

/* Rejects dtypes that are only stored. Elementwise steps, also in epilogues, have other rules. */
static clave_status check_stored(const rule_context *context, const ir_instruction *ins,
                                 const operand *operand) {
  const op_info *info = &op_table[ins->op_type];
  bool any = info->moves || info->is_view || info->is_control ||
             ins->op_type == IR_OP_ELEMENTWISE || is_epilogue_input(operand);
  return any ? NULL : check_computed(context, operand->tid, operand->field);
}

clave_status rule_instruction(const rule_context *context, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    TRY(check_encoding(context, &i.operand));
    TRY(check_stored(context, ins, &i.operand));
  }
  for (uint32_t i = 0; i < info->table->n_fields; i++) {
    const ir_field *field = &info->table->fields[i];
    TRY(check_int_values(context, field, (const char *)ins->op + field->offset));
  }
  return rule_sizes(context, ins);
}
