/* Elementwise: resolves the step list of an instruction (dtypes of operands, immediates, host
 * scalars) for the kernel. */
#include "backend/cpu/kernels/elementwise.h"

#include "cpu_ops.h"

/* Kernel step kinds by schema step kind. */
#define FLOAT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = FLOAT_STEP_##NAME,
#define INT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = INT_STEP_##NAME,
static const uint8_t float_kinds[IR_STEP_KIND_COUNT] = {STEPS_FLOAT(FLOAT_KIND)};
static const uint8_t int_kinds[IR_STEP_KIND_COUNT] = {STEPS_INT(INT_KIND)};

static const step_form forms[] = {[STEP_SAME] = STEP_FORM_MAP,
                                  [STEP_BOOL] = STEP_FORM_BOOL,
                                  [STEP_CAST] = STEP_FORM_CAST,
                                  [STEP_WHERE] = STEP_FORM_WHERE};

/* The dtype of an operand that has one of its own; false for immediates and host scalars. */
static bool operand_type(const elementwise *e, const ir_operand *o, dtype *type) {
  if (o->source == IR_OPERAND_SOURCE_INPUT) *type = e->inputs[o->index].type;
  if (o->source == IR_OPERAND_SOURCE_STEP) *type = e->steps[o->index].type;
  return o->source == IR_OPERAND_SOURCE_INPUT || o->source == IR_OPERAND_SOURCE_STEP;
}

static bool is_float_scalar(const node *n, const ir_operand *o) {
  if (o->source == IR_OPERAND_SOURCE_VALUE) return n->values[o->index].type == IR_VALUE_TYPE_FLOAT;
  return o->source == IR_OPERAND_SOURCE_FLOAT;
}

/* What a step computes in: its operands' common dtype. Where all of them are scalars, the result's
 * dtype, or for steps that change it the widest of the scalars' kind. */
static dtype step_operand_type(const node *n, const elementwise *e, const ir_step *s) {
  step_result result = step_table[s->kind].result;
  dtype type = s->dtype;
  if (result == STEP_WHERE) return type;
  for (uint32_t k = 0; k < s->operands.count; k++)
    if (operand_type(e, &s->operands.items[k], &type)) return type;
  if (result == STEP_SAME) return type;
  for (uint32_t k = 0; k < s->operands.count; k++)
    if (is_float_scalar(n, &s->operands.items[k])) return DTYPE_F64;
  return DTYPE_I64;
}

static step_operand bind_scalar(const node *n, const ir_operand *o) {
  step_operand out = {.source = STEP_FROM_CONSTANT, .i = o->i, .f = o->f};
  bool is_float = is_float_scalar(n, o);
  if (o->source == IR_OPERAND_SOURCE_VALUE) {
    out.i = n->values[o->index].i;
    out.f = n->values[o->index].f;
  }
  if (is_float) out.i = float_to_i64(out.f);
  if (!is_float) out.f = (double)out.i;
  return out;
}

static step_operand bind_operand(const node *n, elementwise *e, const ir_operand *o) {
  if (o->source == IR_OPERAND_SOURCE_INPUT)
    return (step_operand){.source = STEP_FROM_INPUT, .index = (int)o->index};
  if (o->source == IR_OPERAND_SOURCE_STEP)
    return (step_operand){.source = STEP_FROM_STEP, .index = (int)o->index};
  step_operand out = bind_scalar(n, o);
  out.index = e->n_constants++;
  return out;
}

static void bind_step(const node *n, elementwise *e, const ir_step *s) {
  const step_info *info = &step_table[s->kind];
  step_node *out = &e->steps[e->n_steps];
  *out = (step_node){.form = forms[info->result],
                     .divides = info->divides,
                     .operand_type = step_operand_type(n, e, s),
                     .type = s->dtype,
                     .arity = (int)s->operands.count};
  bool is_float = compute_class_of(out->operand_type) != COMPUTE_I64;
  ir_step_kind kind = s->kind;
  /* ~ of a bool is its negation; the kernel's int64_t cannot tell. */
  if (kind == IR_STEP_KIND_BITWISE_NOT && out->operand_type == DTYPE_BOOL) {
    kind = IR_STEP_KIND_LOGICAL_NOT;
    out->form = STEP_FORM_BOOL;
  }
  out->kind = is_float ? float_kinds[kind] : int_kinds[kind];
  for (int k = 0; k < out->arity; k++) out->operands[k] = bind_operand(n, e, &s->operands.items[k]);
  e->n_steps++;
}

clave_status cpu_elementwise(cpu_stream *s, const node *n) {
  const ir_elementwise *op = n->instruction->op;
  const bound_tensor *out = &n->tensors[op->out];
  elementwise e;
  e.n_inputs = (int)op->inputs.count;
  e.n_steps = e.n_constants = 0;
  e.n = tensor_numel(&out->t);
  e.out = cpu_bound_ktensor(out).data;
  for (int k = 0; k < e.n_inputs; k++) {
    const bound_tensor *x = &n->tensors[op->inputs.items[k]];
    tensor t = cpu_broadcast(x, &out->t);
    tensors_collapse(&t, 1);
    e.inputs[k] = cpu_bound_view(x, &t);
  }
  for (uint32_t k = 0; k < op->steps.count; k++) bind_step(n, &e, &op->steps.items[k]);
  return cpu_done(kernel_elementwise(&s->kernel, &e));
}
