/* Recognises epilogues of an addition, slopes and limits, and other short epilogues. */
#include "backend/cpu/epilogue.h"

#include <math.h>

#include "backend/cpu/elementwise.h"
#include "ops/epilogue.h"

/* True if an operand is the result of the step before; for step 0, the op's result. */
static bool is_before(const elementwise_operand *operand, int step) {
  return step == 0
             ? operand->source == IR_OPERAND_SOURCE_INPUT && operand->index == 0
             : operand->source == IR_OPERAND_SOURCE_STEP && operand->index == (uint32_t)step - 1;
}

static bool is_like_result(const elementwise_desc *desc, uint32_t input) {
  tensor tensor = desc->shapes[1 + input];
  tensors_collapse(&tensor, 1);
  return desc->input_types[input] == DTYPE_F32 && tensor.rank == 1 && tensor.dims[0] == desc->n &&
         tensor.strides[0] == 1;
}

/* Returns the index of the input that step 0 adds to the result; 0 if it adds none. */
static uint32_t added_input(const elementwise_desc *desc) {
  const elementwise_step *step = &desc->steps[0];
  if (step->kind != IR_STEP_KIND_ADD) return 0;
  for (int k = 0; k < 2; k++) {
    const elementwise_operand *other = &step->operands[1 - k];
    if (is_before(&step->operands[k], 0) && other->source == IR_OPERAND_SOURCE_INPUT &&
        other->index > 0 && is_like_result(desc, other->index))
      return other->index;
  }
  return 0;
}

/* Sets the epilogue's limits if step s is a ReLU or a clamp of the step before. */
static bool find_limits(const elementwise_desc *desc, int s, conv_epilogue *epilogue) {
  const elementwise_step *step = &desc->steps[s];
  const elementwise_operand *operand = step->operands;
  if (!is_before(&operand[0], s)) return false;
  if (step->kind == IR_STEP_KIND_RELU) {
    epilogue->low = 0;
    return true;
  }
  if (step->kind != IR_STEP_KIND_CLAMP || !is_number(&operand[1]) || !is_number(&operand[2]) ||
      isnan(operand[1].f) || isnan(operand[2].f))
    return false;
  epilogue->low = (float)operand[1].f;
  epilogue->high = (float)operand[2].f;
  return true;
}

/* True if an input has a value per channel of `shape`. */
static bool is_per_channel(const elementwise_desc *desc, uint32_t input, epilogue_shape shape) {
  tensor tensor = desc->shapes[1 + input];
  tensors_collapse(&tensor, 1);
  int d = tensor.rank - 1;
  if (desc->input_types[input] != DTYPE_F32) return false;
  if (shape.cells > 1 && (d < 0 || tensor.dims[d] != shape.cells || tensor.strides[d--] != 0))
    return false;
  if (d < 0 || tensor.dims[d] != shape.channels || tensor.strides[d--] != 1) return false;
  return d < 0 || (d == 0 && tensor.strides[0] == 0);
}

/* Sets the epilogue's slope if step s multiplies negative results of the step before by one per
 * channel. */
static bool find_slope(cpu_recorder *recorder, const elementwise_desc *desc, int s,
                       epilogue_shape shape, conv_epilogue *epilogue) {
  const elementwise_step *step = &desc->steps[s];
  const elementwise_operand *slope = &step->operands[1];
  if (s >= desc->n_steps || step->kind != IR_STEP_KIND_LEAKY_RELU ||
      !is_before(&step->operands[0], s) || slope->source != IR_OPERAND_SOURCE_INPUT ||
      slope->index == 0 || !is_per_channel(desc, slope->index, shape))
    return false;
  epilogue->slope = cpu_operand(recorder, desc->inputs[slope->index]).data;
  return true;
}

static bool cpu_epilogue_is_float(const elementwise_step *step) {
  return step->operand_type == DTYPE_F32 && step->type == DTYPE_F32;
}

/* Matches at most one addition, then slopes if shape.channels is not 0, then at most one ReLU or
 * clamp. */
static bool find_epilogue(cpu_recorder *recorder, const elementwise_desc *desc,
                          epilogue_shape shape, conv_epilogue *epilogue) {
  const uint32_t added = added_input(desc);
  int limits = added ? 1 : 0;
  conv_epilogue found = conv_epilogue_none;
  for (int s = 0; s < desc->n_steps; s++)
    if (!cpu_epilogue_is_float(&desc->steps[s])) return false;
  if (shape.channels > 0 && find_slope(recorder, desc, limits, shape, &found)) limits++;
  if (desc->n_steps > limits + 1) return false;
  if (desc->n_steps > limits && !find_limits(desc, limits, &found)) return false;
  if (added) {
    found.added = cpu_operand(recorder, desc->inputs[added]).data;
    found.added_type = desc->inputs[added]->tensor.type;
  }
  *epilogue = found;
  return true;
}

/* Converts short epilogues. Rejects integer divisions, because steps_in_place cannot report faults,
 * and steps that exceed its few buffers. */
static bool find_steps(cpu_recorder *recorder, const elementwise_desc *desc, int max_inputs,
                       short_elementwise_args *steps) {
  if (desc->n_inputs > max_inputs) return false;
  for (int s = 0; s < desc->n_steps; s++)
    if (desc->steps[s].divides && compute_dtype(desc->steps[s].operand_type) == DTYPE_I64)
      return false;
  short_elementwise_args args;
  if (!short_steps(recorder, desc, &args)) return false;
  if (args.head.n_inputs + args.head.n_steps + args.head.n_constants > STACK_SLOTS) return false;
  args.head.out = args.inputs[0].data = NULL;
  *steps = args;
  return true;
}

void fuse_epilogue(cpu_recorder *recorder, const node *node, epilogue_shape shape, int max_inputs,
                   conv_epilogue *epilogue, short_elementwise_args *steps) {
  elementwise_desc desc;
  *epilogue = conv_epilogue_none;
  *steps = (short_elementwise_args){0};
  if (!describe_epilogue(node, &desc)) return;
  if (find_epilogue(recorder, &desc, shape, epilogue) ||
      find_steps(recorder, &desc, max_inputs, steps))
    cpu_accepts_epilogue(recorder);
}

void fuse_steps(cpu_recorder *recorder, const node *node, int max_inputs,
                short_elementwise_args *steps) {
  elementwise_desc desc;
  *steps = (short_elementwise_args){0};
  if (describe_epilogue(node, &desc) && find_steps(recorder, &desc, max_inputs, steps))
    cpu_accepts_epilogue(recorder);
}

bool epilogue_reads(const node *node, uint32_t slot) {
  for (operand_iter i = operands_of(node->instruction); next_operand(&i);)
    if (i.operand.tid == slot && is_epilogue_input(&i.operand)) return true;
  return false;
}
