/* Scalar, IntScalar, Check, Item: host scalars. Before a run only their types can be checked. */
#include "ops/rule_checks.h"

static const char *op_scalar_type_name(ir_value_type t) {
  return t == IR_VALUE_TYPE_INT ? "int" : t == IR_VALUE_TYPE_FLOAT ? "float" : "bool";
}

static bool is_unary(ir_scalar_kind k) {
  return k == IR_SCALAR_KIND_NEG || k == IR_SCALAR_KIND_NOT || k == IR_SCALAR_KIND_TO_FLOAT ||
         k == IR_SCALAR_KIND_TO_INT || k >= IR_SCALAR_KIND_FLOOR;
}

static bool is_comparison(ir_scalar_kind k) {
  return k >= IR_SCALAR_KIND_EQ && k <= IR_SCALAR_KIND_GE;
}

/* Returns the result's type; `own` is the operands' type, which some kinds return unchanged. */
static ir_value_type result_type(ir_scalar_kind k, ir_value_type own) {
  if (is_comparison(k) || k == IR_SCALAR_KIND_AND || k == IR_SCALAR_KIND_OR ||
      k == IR_SCALAR_KIND_NOT)
    return IR_VALUE_TYPE_BOOL;
  if (k == IR_SCALAR_KIND_TO_FLOAT || k == IR_SCALAR_KIND_TRUE_DIV) return IR_VALUE_TYPE_FLOAT;
  return k == IR_SCALAR_KIND_TO_INT ? IR_VALUE_TYPE_INT : own;
}

static clave_status expect_value(const rule_context *context, uint32_t vid, ir_value_type want) {
  ir_value_type is = context->program->values.items[vid].type;
  return is == want ? NULL
                    : INVALID("out: expected a value of type %s, got value %u of type %s",
                              op_scalar_type_name(want), vid, op_scalar_type_name(is));
}

static clave_status op_scalar_check_operands(ir_scalar_kind k, bool has_b) {
  if ((uint32_t)k >= IR_SCALAR_KIND_COUNT) return INVALID("scalar kind %u is unknown", (uint32_t)k);
  if (!is_unary(k) && !has_b)
    return INVALID("%s needs an operand b", ir_scalar_kind_enum.values[k].name);
  return NULL;
}

clave_status rule_scalar(const rule_context *context, const void *op) {
  const ir_scalar *scalar = op;
  TRY(op_scalar_check_operands(scalar->kind, scalar->b.present));
  return expect_value(context, scalar->out, result_type(scalar->kind, IR_VALUE_TYPE_FLOAT));
}

clave_status rule_int_scalar(const rule_context *context, const void *op) {
  const ir_int_scalar *int_scalar = op;
  TRY(op_scalar_check_operands(int_scalar->kind, int_scalar->b.present));
  bool divides = int_scalar->kind == IR_SCALAR_KIND_FLOOR_DIV ||
                 int_scalar->kind == IR_SCALAR_KIND_MOD ||
                 int_scalar->kind == IR_SCALAR_KIND_TRUE_DIV;
  if (divides && int_scalar->b.vid == IR_NONE && int_scalar->b.literal == 0)
    return INVALID("%s by zero", ir_scalar_kind_enum.values[int_scalar->kind].name);
  return expect_value(context, int_scalar->out, result_type(int_scalar->kind, IR_VALUE_TYPE_INT));
}

clave_status rule_check(const rule_context *context, const void *op) {
  const ir_check *check = op;
  (void)context;
  TRY(op_scalar_check_operands(check->kind, check->b.present));
  return is_comparison(check->kind) ? NULL
                                    : INVALID("kind: expected a comparison, got %s",
                                              ir_scalar_kind_enum.values[check->kind].name);
}

clave_status rule_item(const rule_context *context, const void *op) {
  const ir_item *item = op;
  const tensor *tensor = rule_tensor(context, item->x);
  TRY(check_computed(context, item->x, "x"));
  for (int i = 0; i < tensor->rank; i++) {
    char shape[SHAPE_TEXT];
    if (!dim_matches(tensor->dims[i], 1))
      return INVALID("x: expected a single element, got shape %s",
                     tensor_shape_text(tensor, shape, SHAPE_TEXT));
  }
  ir_value_type want = tensor->type == DTYPE_BOOL     ? IR_VALUE_TYPE_BOOL
                       : dtype_is_float(tensor->type) ? IR_VALUE_TYPE_FLOAT
                                                      : IR_VALUE_TYPE_INT;
  return expect_value(context, item->out, want);
}
