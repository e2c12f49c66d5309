/* Scalar, IntScalar, Check, Item: host scalars. Only their types can be checked before a run. */
#include "ops/rule_checks.h"

static const char *type_name(ir_value_type t) {
  return t == IR_VALUE_TYPE_INT ? "int" : t == IR_VALUE_TYPE_FLOAT ? "float" : "bool";
}

static bool is_unary(ir_scalar_kind k) {
  return k == IR_SCALAR_KIND_NEG || k == IR_SCALAR_KIND_NOT || k == IR_SCALAR_KIND_TO_FLOAT ||
         k == IR_SCALAR_KIND_TO_INT || k >= IR_SCALAR_KIND_FLOOR;
}

static bool is_comparison(ir_scalar_kind k) {
  return k >= IR_SCALAR_KIND_EQ && k <= IR_SCALAR_KIND_GE;
}

/* The result's type; `own`: that of kinds that keep their operands' type. */
static ir_value_type result_type(ir_scalar_kind k, ir_value_type own) {
  if (is_comparison(k) || k == IR_SCALAR_KIND_AND || k == IR_SCALAR_KIND_OR ||
      k == IR_SCALAR_KIND_NOT)
    return IR_VALUE_TYPE_BOOL;
  if (k == IR_SCALAR_KIND_TO_FLOAT || k == IR_SCALAR_KIND_TRUE_DIV) return IR_VALUE_TYPE_FLOAT;
  return k == IR_SCALAR_KIND_TO_INT ? IR_VALUE_TYPE_INT : own;
}

static clave_status expect_value(const rule_context *c, uint32_t vid, ir_value_type want) {
  ir_value_type is = c->program->values.items[vid].type;
  return is == want ? NULL
                    : INVALID("out: expected a value of type %s, got value %u of type %s",
                              type_name(want), vid, type_name(is));
}

static clave_status check_operands(ir_scalar_kind k, bool has_b) {
  if ((uint32_t)k >= IR_SCALAR_KIND_COUNT) return INVALID("scalar kind %u is unknown", (uint32_t)k);
  if (!is_unary(k) && !has_b)
    return INVALID("%s needs an operand b", ir_scalar_kind_enum.values[k].name);
  return NULL;
}

clave_status rule_scalar(const rule_context *c, const void *op) {
  const ir_scalar *o = op;
  TRY(check_operands(o->kind, o->b.present));
  return expect_value(c, o->out, result_type(o->kind, IR_VALUE_TYPE_FLOAT));
}

clave_status rule_int_scalar(const rule_context *c, const void *op) {
  const ir_int_scalar *o = op;
  TRY(check_operands(o->kind, o->b.present));
  bool divides = o->kind == IR_SCALAR_KIND_FLOOR_DIV || o->kind == IR_SCALAR_KIND_MOD ||
                 o->kind == IR_SCALAR_KIND_TRUE_DIV;
  if (divides && o->b.vid == IR_NONE && o->b.literal == 0)
    return INVALID("%s by zero", ir_scalar_kind_enum.values[o->kind].name);
  return expect_value(c, o->out, result_type(o->kind, IR_VALUE_TYPE_INT));
}

clave_status rule_check(const rule_context *c, const void *op) {
  const ir_check *o = op;
  (void)c;
  TRY(check_operands(o->kind, o->b.present));
  return is_comparison(o->kind) ? NULL
                                : INVALID("kind: expected a comparison, got %s",
                                          ir_scalar_kind_enum.values[o->kind].name);
}

clave_status rule_item(const rule_context *c, const void *op) {
  const ir_item *o = op;
  const tensor *x = rule_tensor(c, o->x);
  TRY(check_computed(c, o->x, "x"));
  for (int i = 0; i < x->rank; i++) {
    char shape[SHAPE_TEXT];
    if (!dim_matches(x->dims[i], 1))
      return INVALID("x: expected a single element, got shape %s",
                     tensor_shape_text(x, shape, SHAPE_TEXT));
  }
  ir_value_type want = x->type == DTYPE_BOOL     ? IR_VALUE_TYPE_BOOL
                       : dtype_is_float(x->type) ? IR_VALUE_TYPE_FLOAT
                                                 : IR_VALUE_TYPE_INT;
  return expect_value(c, o->out, want);
}
