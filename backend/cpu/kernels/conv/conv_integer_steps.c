/* ConvInteger followed by any elementwise steps. All sums are kept in scratch memory. */
#include "backend/cpu/kernels/conv/conv_integer_steps.h"

static size_t conv_integer_steps_sums_bytes(const conv_integer_steps_args *args) {
  return (size_t)args->steps.head.n * sizeof(int32_t);
}

static size_t conv_integer_steps_scratch(const kernel_context *ctx, const void *args) {
  const conv_integer_steps_args *own = args;
  return kernel_scratch_size(conv_integer_steps_sums_bytes(own)) +
         kernel_conv_integer.scratch(ctx, &own->conv) +
         kernel_scratch_size(kernel_elementwise.scratch(ctx, &own->steps));
}

static bool conv_integer_steps(const kernel_context *ctx, const void *args) {
  conv_integer_steps_args own = *(const conv_integer_steps_args *)args;
  if (own.steps.head.n == 0) return true;
  own.conv.conv.out = own.steps.inputs[0].data =
      ctx->scratch(ctx->pool, conv_integer_steps_sums_bytes(&own));
  return own.conv.conv.out && kernel_conv_integer.run(ctx, &own.conv) &&
         kernel_elementwise.run(ctx, &own.steps);
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
