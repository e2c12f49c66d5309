/* Records MatmulInteger. */
#include "backend/cpu/kernels/gemm/matmul_integer.h"

#include "backend/cpu/elementwise.h"
#include "backend/cpu/kernels/gemm/matmul_integer_tiles.h"
#include "backend/cpu/requantise.h"
#include "cpu_ops.h"
#include "ops/epilogue.h"
#include "ops/matmul.h"

/* Records steps: in place if sums and results have equal element sizes, else via scratch memory. */
static clave_status record_steps(cpu_recorder *recorder, const elementwise_desc *desc,
                                 const matmul_integer_args *args) {
  matmul_integer_steps_args own = {.product = *args};
  if (dtype_size(desc->out->tensor.type) == sizeof(int32_t))
    return cpu_launch(recorder, matmul_integer, args);
  cpu_accepts_epilogue(recorder);
  own.product.out = NULL;
  own.steps = elementwise_arguments(recorder, desc);
  own.steps.inputs[0].data = NULL;
  return cpu_launch(recorder, matmul_integer_steps, &own);
}

/* Converts the step, if any, to arguments that apply it to the result in place. Returns false if
 * the step does not fit in short_elementwise_args. */
static bool cpu_matmul_integer_match_step(cpu_recorder *recorder, const elementwise_desc *desc,
                                          const elementwise_step *step,
                                          short_elementwise_args *out) {
  elementwise_desc one = {.n_inputs = 1, .n_steps = 1, .inputs = {desc->out}, .out = desc->out};
  if (!step) return true;
  one.shapes[0] = one.shapes[1] = desc->out->tensor;
  one.steps[0] = *step;
  one.steps[0].operands[0] =
      (elementwise_operand){.source = IR_OPERAND_SOURCE_INPUT, .compute = DTYPE_F32};
  if (!short_steps(recorder, &one, out)) return false;
  out->head.out = out->inputs[0].data = NULL;
  return true;
}

/* Makes the kernel read a constant b packed in tiles. */
static clave_status cpu_matmul_integer_pack_b(cpu_recorder *recorder,
                                              const integer_matmul_desc *desc,
                                              matmul_integer_args *args) {
  if (!matmul_integer_suits_tiles(args) || args->n == 0 || !cpu_may_pack(recorder, desc->b))
    return NULL;
  TRY(cpu_packed(recorder,
                 &(cpu_packed_request){.kind = CPU_PACKED_MATMUL_TILES,
                                       .x = desc->b,
                                       .size = {desc->n, desc->k, 0},
                                       .desc = &kernel_matmul_integer_pack,
                                       .args = args},
                 &args->tiles));
  args->in_tiles = true;
  args->b = NULL; /* not read from here on */
  return NULL;
}

clave_status cpu_matmul_integer(cpu_recorder *recorder, const node *node) {
  integer_matmul_desc desc;
  elementwise_desc steps;
  const elementwise_step *step;
  describe_matmul_integer(node, &desc);
  matmul_integer_args args = {.a = cpu_operand(recorder, desc.a).data,
                              .b = cpu_operand(recorder, desc.b).data,
                              .bias = cpu_operand(recorder, desc.bias).data,
                              .out = cpu_operand(recorder, desc.out).data,
                              .type = desc.a->tensor.type,
                              .m = desc.m,
                              .n = desc.n,
                              .k = desc.k};
  TRY(cpu_matmul_integer_pack_b(recorder, &desc, &args));
  if (!describe_epilogue(node, &steps)) return cpu_launch(recorder, matmul_integer, &args);
  if (!match_rows(recorder, &steps, &args.formula, &step) ||
      !cpu_matmul_integer_match_step(recorder, &steps, step, &args.steps))
    return record_steps(recorder, &steps, &args);
  args.makes = args.formula.type == DTYPE_F32 ? INTEGER_FLOATS : INTEGER_CODES;
  cpu_accepts_epilogue(recorder);
  return cpu_launch(recorder, matmul_integer, &args);
}
