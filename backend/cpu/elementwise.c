/* Records Elementwise: converts the steps of a description to the kernel's steps. */
#include "ops/elementwise.h"

#include <string.h>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/requantise.h"
#include "cpu_ops.h"
#include "ops/epilogue.h"

/* Maps schema step kinds to kernel step kinds. */
#define FLOAT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = FLOAT_STEP_##NAME,
#define INT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = INT_STEP_##NAME,
static const uint8_t float_kinds[IR_STEP_KIND_COUNT] = {STEPS_FLOAT(FLOAT_KIND)};
static const uint8_t int_kinds[IR_STEP_KIND_COUNT] = {STEPS_INT(INT_KIND)};

static const kstep_role roles[] = {[STEP_SAME] = KSTEP_MAP,
                                   [STEP_BOOL] = KSTEP_BOOL,
                                   [STEP_CAST] = KSTEP_CAST,
                                   [STEP_WHERE] = KSTEP_WHERE};

static void cpu_elementwise_set_operand(elementwise_args *args, kstep *to, int k,
                                        const elementwise_operand *operand) {
  kstep_operand *at = &to->operands[k];
  if (!is_number(operand)) {
    at->source = operand->source == IR_OPERAND_SOURCE_INPUT ? KSTEP_INPUT : KSTEP_STEP;
    at->index = (uint8_t)operand->index;
    return;
  }
  *at = (kstep_operand){KSTEP_CONSTANT, (uint8_t)args->head.n_constants++};
  if (operand->compute == DTYPE_I64)
    to->constants[k].i = operand->i;
  else
    to->constants[k].f = operand->f;
}

static void cpu_elementwise_add_step(elementwise_args *args, const elementwise_step *step) {
  kstep *to = &args->steps[args->head.n_steps++];
  bool is_int = compute_dtype(step->operand_type) == DTYPE_I64;
  *to = (kstep){.role = (uint8_t)roles[step->result],
                .kind = is_int ? int_kinds[step->kind] : float_kinds[step->kind],
                .divides = step->divides,
                .operand_type = (uint8_t)step->operand_type,
                .type = (uint8_t)step->type,
                .arity = (uint8_t)step->n_operands};
  for (int k = 0; k < step->n_operands; k++)
    cpu_elementwise_set_operand(args, to, k, &step->operands[k]);
}

elementwise_args elementwise_arguments(cpu_recorder *recorder, const elementwise_desc *desc) {
  elementwise_args args = {.head = {.n_inputs = desc->n_inputs,
                                    .n = desc->n,
                                    .out = cpu_operand(recorder, desc->out).data,
                                    .out_type = desc->out->tensor.type}};
  for (int k = 0; k < desc->n_inputs; k++) {
    tensor tensor = desc->shapes[1 + k];
    tensors_collapse(&tensor, 1);
    args.inputs[k] = cpu_view(recorder, desc->inputs[k], &tensor);
  }
  for (int k = 0; k < desc->n_steps; k++) cpu_elementwise_add_step(&args, &desc->steps[k]);
  return args;
}

bool short_steps(cpu_recorder *recorder, const elementwise_desc *desc,
                 short_elementwise_args *out) {
  if (desc->n_inputs > SHORT_INPUTS || desc->n_steps > SHORT_STEPS) return false;
  const elementwise_args args = elementwise_arguments(recorder, desc);
  out->head = args.head;
  memcpy(out->inputs, args.inputs, sizeof out->inputs);
  memcpy(out->steps, args.steps, sizeof out->steps);
  return true;
}

static clave_status cpu_elementwise_launch_steps(cpu_recorder *recorder,
                                                 const elementwise_desc *desc) {
  bool is_requantised;
  TRY(record_requantise(recorder, desc, &is_requantised));
  if (is_requantised) return NULL;
  short_elementwise_args few;
  if (short_steps(recorder, desc, &few)) return cpu_launch(recorder, short_elementwise, &few);
  const elementwise_args args = elementwise_arguments(recorder, desc);
  return cpu_launch(recorder, elementwise, &args);
}

clave_status cpu_elementwise(cpu_recorder *recorder, const node *node) {
  elementwise_desc desc;
  describe_elementwise(node, &desc);
  return cpu_elementwise_launch_steps(recorder, &desc);
}

bool elementwise_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot) {
  elementwise_desc desc;
  describe_elementwise(node, &desc);
  (void)recorder;
  return elementwise_may_be_bf16(&desc, slot);
}

/* The steps run in place: every element of out is read before it is written. */
clave_status cpu_epilogue(cpu_recorder *recorder, const node *node) {
  elementwise_desc desc;
  return describe_epilogue(node, &desc) ? cpu_elementwise_launch_steps(recorder, &desc) : NULL;
}
