/* The rules of an instruction as a whole: its op's, its epilogue's, and those that no op owns. */
#include "ops/epilogue.h"
#include "ops/rule_checks.h"

static clave_status check_encoding(const rule_context *c, const operand *o) {
  const encoding *e = &rule_tensor(c, o->tid)->encoding;
  char text[80];
  if (e->kind == ENCODING_PLAIN || o->flags & IR_ENCODED) return NULL;
  return INVALID("%s (tensor %u): expected a plain tensor (Dequantize makes one), got %s", o->field,
                 o->tid, encoding_text(e, text, sizeof text));
}

static clave_status check_int_value(const rule_context *c, const char *what,
                                    const ir_int_or_vid *v) {
  if (!v->present || v->vid == IR_NONE || c->values[v->vid].type != IR_VALUE_TYPE_FLOAT)
    return NULL;
  return INVALID("%s: expected an integer, got value %u of type float", what, v->vid);
}

static clave_status check_int_values(const rule_context *c, const ir_field *f, const void *at) {
  if (f->kind == IR_FIELD_INT_OR_VID) return check_int_value(c, f->name, at);
  if (f->kind != IR_FIELD_INT_OR_VIDS) return NULL;
  const ir_int_or_vids *v = at;
  for (uint32_t i = 0; i < v->count; i++) TRY(check_int_value(c, f->name, &v->items[i]));
  return NULL;
}

clave_status rule_sizes(const rule_context *c, const ir_instruction *ins) {
  TRY(op_table[ins->op_type].rule(c, ins->op));
  return rule_epilogue(c, ins);
}

/* Elementwise steps, those of an epilogue too, have rules of their own. */
static clave_status check_stored(const rule_context *c, const ir_instruction *ins,
                                 const operand *o) {
  const op_info *info = &op_table[ins->op_type];
  bool any = info->moves || info->is_view || info->is_control ||
             ins->op_type == IR_OP_ELEMENTWISE || is_epilogue_input(o);
  return any ? NULL : check_computed(c, o->tid, o->field);
}

clave_status rule_instruction(const rule_context *c, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  for (operand_iter i = operands_of(ins); next_operand(&i);) {
    TRY(check_encoding(c, &i.o));
    TRY(check_stored(c, ins, &i.o));
  }
  for (uint32_t i = 0; i < info->table->n_fields; i++) {
    const ir_field *f = &info->table->fields[i];
    TRY(check_int_values(c, f, (const char *)ins->op + f->offset));
  }
  return rule_sizes(c, ins);
}
