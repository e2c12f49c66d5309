/* Elementwise: checks steps over broadcast inputs against step_table, and describes them. */
#include "ops/elementwise.h"

#include <string.h>

#include "ops/rule_checks.h"

typedef struct step_check {
  const rule_context *context;
  const ir_elementwise *op;
  dtype first;    /* dtype of input 0 */
  uint32_t index; /* index of the step */
  const ir_step *step;
  const step_info *info;
} step_check;

/* Immediates and host scalars have no dtype: they get that of the step's other operands. */
static bool has_own_dtype(const ir_operand *op) {
  return op->source == IR_OPERAND_SOURCE_INPUT || op->source == IR_OPERAND_SOURCE_STEP;
}

static dtype own_dtype(const step_check *check, const ir_operand *op) {
  if (op->source == IR_OPERAND_SOURCE_STEP) return check->op->steps.items[op->index].dtype;
  return op->index == 0 ? check->first
                        : rule_tensor(check->context, check->op->inputs.items[op->index])->type;
}

static clave_status op_elementwise_check_reference(const step_check *check, int which,
                                                   const ir_operand *op) {
  uint32_t limit = UINT32_MAX;
  const char *what = "immediate";
  if (op->source == IR_OPERAND_SOURCE_INPUT) limit = check->op->inputs.count, what = "input";
  if (op->source == IR_OPERAND_SOURCE_STEP) limit = check->index, what = "earlier step";
  if (op->source == IR_OPERAND_SOURCE_VALUE)
    limit = check->context->program->values.count, what = "value";
  if ((uint32_t)op->source >= IR_OPERAND_SOURCE_COUNT)
    return INVALID("operand %d has an unknown source", which);
  return op->index < limit ? NULL
                           : INVALID("operand %d is %s %u of %u", which, what, op->index, limit);
}

/* True if a host scalar of this type may be used where tensors have dtype t. */
static bool value_fits(ir_value_type v, dtype t) {
  if (t == DTYPE_BOOL) return v == IR_VALUE_TYPE_BOOL;
  return v != IR_VALUE_TYPE_FLOAT || dtype_is_float(t);
}

static clave_status check_operand(const step_check *check, int which, const ir_operand *op,
                                  dtype want) {
  if (has_own_dtype(op)) {
    dtype is = own_dtype(check, op);
    return is == want ? NULL
                      : INVALID("operand %d: expected %s, got %s", which, dtype_name(want),
                                dtype_name(is));
  }
  if (op->source == IR_OPERAND_SOURCE_VALUE) {
    bool fits = value_fits(check->context->program->values.items[op->index].type, want);
    return fits ? NULL
                : INVALID("operand %d is value %u, which does not fit %s", which, op->index,
                          dtype_name(want));
  }
  if (op->source == IR_OPERAND_SOURCE_FLOAT) {
    return dtype_is_float(want) ? NULL
                                : INVALID("operand %d: expected one of %s, got a float immediate",
                                          which, dtype_name(want));
  }
  if (int_fits(want, op->i)) return NULL;
  return INVALID("operand %d: expected one of %s, got the integer immediate %lld", which,
                 dtype_name(want), (long long)op->i);
}

/* Finds the common dtype of the operands from number `first` on. */
static clave_status op_elementwise_find_dtype(const step_check *check, uint32_t first, dtype *out) {
  for (uint32_t i = first; i < check->step->operands.count; i++) {
    const ir_operand *op = &check->step->operands.items[i];
    if (!has_own_dtype(op)) continue;
    *out = own_dtype(check, op);
    return NULL;
  }
  *out = check->step->dtype;
  bool known = check->info->result == STEP_SAME || check->info->result == STEP_WHERE;
  return known ? NULL : INVALID("at least one operand must be an input or a step");
}

static clave_status check_dtypes(const step_check *check, dtype t) {
  const step_info *info = check->info;
  bool accepts = dtype_is_float(t) ? info->accepts_float
                 : dtype_is_int(t) ? info->accepts_int
                 : t == DTYPE_BOOL ? info->accepts_bool
                                   : info->result == STEP_CAST;
  if (!accepts) return INVALID("operands are %s, which this step does not accept", dtype_name(t));
  if (info->result == STEP_CAST) return NULL;
  dtype want = info->result == STEP_BOOL ? DTYPE_BOOL : t;
  if (check->step->dtype == want) return NULL;
  return INVALID("result: expected %s, got %s", dtype_name(want), dtype_name(check->step->dtype));
}

static clave_status check_step(const step_check *check) {
  const ir_operand *op = check->step->operands.items;
  if (check->step->operands.count != (uint32_t)check->info->arity) {
    return INVALID("operands: expected %d, got %u", check->info->arity,
                   check->step->operands.count);
  }
  for (int i = 0; i < check->info->arity; i++)
    TRY(op_elementwise_check_reference(check, i, &op[i]));
  int first = check->info->result == STEP_WHERE ? 1 : 0;
  if (first == 1) TRY(check_operand(check, 0, &op[0], DTYPE_BOOL));
  dtype t = DTYPE_F32;
  TRY(op_elementwise_find_dtype(check, (uint32_t)first, &t));
  for (int i = first; i < check->info->arity; i++) TRY(check_operand(check, i, &op[i], t));
  return check_dtypes(check, t);
}

static clave_status op_elementwise_check_steps(const rule_context *context,
                                               const ir_elementwise *op, dtype first) {
  if (op->inputs.count > MAX_STEP_INPUTS)
    return INVALID("%u inputs, at most %d are allowed", op->inputs.count, MAX_STEP_INPUTS);
  if (op->steps.count < 1 || op->steps.count > MAX_STEPS)
    return INVALID("steps: expected 1 to %d, got %u", MAX_STEPS, op->steps.count);
  for (uint32_t i = 0; i < op->steps.count; i++) {
    const ir_step *step = &op->steps.items[i];
    if ((uint32_t)step->kind >= IR_STEP_KIND_COUNT)
      return INVALID("step %u has the unknown kind %u", i, (uint32_t)step->kind);
    if ((uint32_t)step->dtype >= DTYPE_COUNT)
      return INVALID("step %u has the unknown dtype %u", i, (uint32_t)step->dtype);
    step_check check = {context, op, first, i, step, &step_table[step->kind]};
    TRY(status_while(check_step(&check), "step %u (%s)", i, check.info->name));
  }
  return NULL;
}

clave_status rule_steps(const rule_context *context, const ir_elementwise *op, dtype first) {
  TRY(op_elementwise_check_steps(context, op, first));
  tensor want = {.rank = 0};
  if (op->inputs.count == 0)
    want = *rule_tensor(context, op->out); /* a list without inputs fills any shape */
  for (uint32_t i = 0; i < op->inputs.count; i++)
    TRY(rule_broadcast(rule_tensor(context, op->inputs.items[i]), &want.rank, want.dims));
  want.type = op->steps.items[op->steps.count - 1].dtype;
  return rule_expect_like(context, op->out, "out", &want);
}

static uint32_t op_elementwise_first_of(const ir_elementwise *op) {
  return op->inputs.count ? op->inputs.items[0] : op->out;
}

clave_status rule_elementwise(const rule_context *context, const void *op) {
  return rule_steps(context, op, rule_tensor(context, op_elementwise_first_of(op))->type);
}

/* ---------------------------------------------------------------- description */

dtype compute_dtype(dtype t) {
  return t == DTYPE_F64 ? DTYPE_F64 : dtype_has_fractions(t) ? DTYPE_F32 : DTYPE_I64;
}

/* Returns the common dtype of a step's operands (where: of the last two). If all operands are
 * numbers, returns the dtype that the step declares. */
static dtype shared_dtype(const elementwise_desc *desc, const ir_step *step) {
  uint32_t first = step_table[step->kind].result == STEP_WHERE ? 1 : 0;
  for (uint32_t k = first; k < step->operands.count; k++) {
    const ir_operand *op = &step->operands.items[k];
    if (op->source == IR_OPERAND_SOURCE_INPUT) return desc->input_types[op->index];
    if (op->source == IR_OPERAND_SOURCE_STEP) return desc->steps[op->index].type;
  }
  return step->dtype;
}

/* Integers may be used as floats; the rules reject floats used as integers. */
static elementwise_operand describe_operand(const node *node, const ir_operand *op, dtype compute) {
  elementwise_operand operand = {
      .source = op->source, .index = op->index, .compute = compute, .i = op->i, .f = op->f};
  bool is_float = op->source == IR_OPERAND_SOURCE_FLOAT;
  if (op->source == IR_OPERAND_SOURCE_VALUE) {
    const scalar_value *value = &node->values[op->index];
    is_float = value->type == IR_VALUE_TYPE_FLOAT;
    operand.i = value->i;
    operand.f = value->f;
  }
  if (!is_float) operand.f = (double)operand.i;
  return operand;
}

static void describe_step(const node *node, elementwise_desc *desc, const ir_step *step) {
  elementwise_step *elementwise_step = &desc->steps[desc->n_steps];
  elementwise_step->operand_type = shared_dtype(desc, step);
  elementwise_step->kind = step->kind;
  elementwise_step->result = step_table[elementwise_step->kind].result;
  elementwise_step->type = step->dtype;
  dtype compute = compute_dtype(elementwise_step->operand_type);
  elementwise_step->divides = step_table[elementwise_step->kind].divides && compute == DTYPE_I64;
  elementwise_step->n_operands = (int)step->operands.count;
  for (int k = 0; k < elementwise_step->n_operands; k++) {
    bool is_condition = k == 0 && elementwise_step->result == STEP_WHERE;
    elementwise_step->operands[k] =
        describe_operand(node, &step->operands.items[k], is_condition ? DTYPE_I64 : compute);
  }
  desc->n_steps++;
}

void describe_steps(const node *node, const ir_elementwise *op, dtype first,
                    elementwise_desc *desc) {
  desc->out = &node->tensors[op->out];
  desc->n = tensor_numel(&desc->out->tensor);
  desc->n_inputs = (int)op->inputs.count;
  desc->shapes[0] = desc->out->tensor;
  for (int k = 0; k < desc->n_inputs; k++) {
    desc->inputs[k] = &node->tensors[op->inputs.items[k]];
    desc->input_types[k] = program_type(node, op->inputs.items[k]);
    if (k == 0 && desc->input_types[0] != first) {
      desc->result = *desc->inputs[0];
      desc->result.tensor.type = desc->input_types[0] = first;
      desc->inputs[0] = &desc->result;
    }
    desc->shapes[1 + k] = broadcast_operand(desc->inputs[k], &desc->out->tensor).tensor;
  }
  tensors_collapse(desc->shapes, 1 + desc->n_inputs);
  desc->n_steps = 0;
  for (uint32_t k = 0; k < op->steps.count; k++) describe_step(node, desc, &op->steps.items[k]);
}

void describe_elementwise(const node *node, elementwise_desc *desc) {
  const ir_elementwise *op = node->instruction->op;
  describe_steps(node, op, program_type(node, op_elementwise_first_of(op)), desc);
}

/* True for well-conditioned steps, which hardly amplify values or rounding errors. */
static bool is_well_conditioned(const elementwise_step *step) {
  return step->type == DTYPE_F32 && step->operand_type == DTYPE_F32 &&
         (step->kind == IR_STEP_KIND_ADD || step->kind == IR_STEP_KIND_MUL ||
          step->kind == IR_STEP_KIND_RELU || step->kind == IR_STEP_KIND_CLAMP ||
          step->kind == IR_STEP_KIND_SILU || step->kind == IR_STEP_KIND_SIGMOID ||
          step->kind == IR_STEP_KIND_GELU || step->kind == IR_STEP_KIND_GELU_TANH ||
          step->kind == IR_STEP_KIND_HARDSWISH || step->kind == IR_STEP_KIND_HARDSIGMOID);
}

bool elementwise_may_be_bf16(const elementwise_desc *desc, uint32_t slot) {
  for (int s = 0; s < desc->n_steps; s++)
    if (!is_well_conditioned(&desc->steps[s])) return false;
  for (int k = 0; k < desc->n_inputs; k++)
    if (desc->inputs[k]->slot == slot && tensor_numel(&desc->inputs[k]->tensor) != desc->n)
      return false;
  return true;
}
