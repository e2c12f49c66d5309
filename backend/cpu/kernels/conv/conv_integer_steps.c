/* Steps on the sums of a convolution of integers that its own kernel does not know: all of the sums
 * are in scratch memory. */
#include "backend/cpu/kernels/conv/conv_integer_steps.h"

static size_t sums_bytes(const conv_integer_steps_args *p) {
  return (size_t)p->steps.head.n * sizeof(int32_t);
}

static size_t conv_integer_steps_scratch(const kernel_context *ctx, const void *args) {
  const conv_integer_steps_args *p = args;
  return kernel_scratch_size(sums_bytes(p)) + kernel_conv_integer.scratch(ctx, &p->conv) +
         kernel_scratch_size(kernel_elementwise.scratch(ctx, &p->steps));
}

static bool conv_integer_steps(const kernel_context *ctx, const void *args) {
  conv_integer_steps_args p = *(const conv_integer_steps_args *)args;
  if (p.steps.head.n == 0) return true;
  p.conv.conv.out = p.steps.inputs[0].data = ctx->scratch(ctx->pool, sums_bytes(&p));
  return p.conv.conv.out && kernel_conv_integer.run(ctx, &p.conv) &&
         kernel_elementwise.run(ctx, &p.steps);
}

const kernel_desc kernel_conv_integer_steps = {
    .name = "conv_integer_steps",
    .run = conv_integer_steps,
    .scratch = conv_integer_steps_scratch,
    .args_size = sizeof(conv_integer_steps_args),
    .operands = {OPERAND(conv_integer_steps_args, conv.conv.x),
                 OPERAND(conv_integer_steps_args, conv.conv.weight),
                 OPERAND(conv_integer_steps_args, conv.conv.bias),
                 OPERAND(conv_integer_steps_args, conv.conv.packed),
                 OPERAND(conv_integer_steps_args, steps.head.out),
                 OPERAND(conv_integer_steps_args, steps.inputs[1]),
                 OPERAND(conv_integer_steps_args, steps.inputs[2]),
                 OPERAND(conv_integer_steps_args, steps.inputs[3]),
                 OPERAND(conv_integer_steps_args, steps.inputs[4]),
                 OPERAND(conv_integer_steps_args, steps.inputs[5]),
                 OPERAND(conv_integer_steps_args, steps.inputs[6]),
                 OPERAND(conv_integer_steps_args, steps.inputs[7])}};
