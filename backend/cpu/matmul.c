/* Records Matmul and GroupedMatmul. */
#include "ops/matmul.h"

#include "backend/cpu/cut.h"
#include "backend/cpu/epilogue.h"
#include "backend/cpu/kernels/gemm/grouped_matmul.h"
#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "cpu_ops.h"

/* Chooses the rounding that fast precision permits. If b is encoded, rows of a are always
 * quantised, so that results are the same on all processors. Otherwise floats are rounded to BF16
 * where that is faster. */
static rounding choose_rounding(const cpu_recorder *recorder, const matmul_desc *desc,
                                const matmul_args *args) {
  if (!cpu_is_fast(recorder) || !matmul_rounds(args)) return ROUNDS_NOTHING;
  if (args->encoding.kind) return ROUNDS_ROWS;
  return pairs_are_fast() && matmul_may_round(desc) ? ROUNDS_TO_BF16 : ROUNDS_NOTHING;
}

/* Makes the kernel read a constant b in packed panels. The strides in `size` distinguish a matrix
 * from its transpose. */
static clave_status cpu_matmul_pack_b(cpu_recorder *recorder, const matmul_desc *desc,
                                      matmul_args *args) {
  if (!matmul_packs(args) || !cpu_may_pack(recorder, desc->b)) return NULL;
  rounding how = choose_rounding(recorder, desc, args);
  args->is_packed = true;
  args->rounds = how != ROUNDS_NOTHING;
  cpu_rounds(recorder, how);
  TRY(cpu_packed(
      recorder,
      &(cpu_packed_request){.kind = how == ROUNDS_TO_BF16 ? CPU_PACKED_PAIRS : CPU_PACKED_MATMUL,
                            .x = desc->b,
                            .size = {desc->n, desc->k, desc->b_n},
                            .desc = &kernel_matmul_pack,
                            .args = args},
      &args->panels));
  args->b = NULL; /* not read from here on */
  return NULL;
}

static gemm_cut cpu_matmul_cut_product(cpu_recorder *recorder, const matmul_args *args) {
  return matmul_is_cut(args) ? choose_cut(recorder, &(cut_sizes){.op = "matmul",
                                                                 .batches = args->batches,
                                                                 .m = args->m,
                                                                 .n = args->n,
                                                                 .k = args->k,
                                                                 .type = args->type,
                                                                 .b_type = args->b_type,
                                                                 .b_is_packed = args->is_packed,
                                                                 .encoding = args->encoding})
                             : (gemm_cut){0};
}

static matmul_args cpu_matmul_arguments(cpu_recorder *recorder, const matmul_desc *desc) {
  return (matmul_args){.a = cpu_operand(recorder, desc->a).data,
                       .b = cpu_operand(recorder, desc->b).data,
                       .bias = cpu_operand(recorder, desc->bias).data,
                       .out = cpu_operand(recorder, desc->out).data,
                       .type = desc->type,
                       .a_type = desc->a->tensor.type,
                       .out_type = desc->out->tensor.type,
                       .b_type = desc->b->tensor.type,
                       .encoding = desc->b->tensor.encoding,
                       .m = desc->m,
                       .n = desc->n,
                       .k = desc->k,
                       .batches = desc->batches,
                       .a_m = desc->a_m,
                       .a_k = desc->a_k,
                       .b_k = desc->b_k,
                       .b_n = desc->b_n,
                       .bias_m = desc->bias_m,
                       .bias_n = desc->bias_n,
                       .a_batch = cpu_layout(&desc->batch_a),
                       .b_batch = cpu_layout(&desc->batch_b),
                       .bias_batch = cpu_layout(&desc->batch_bias),
                       .alpha = desc->alpha,
                       .beta = desc->bias ? desc->beta : 0,
                       .epilogue = conv_epilogue_none};
}

clave_status cpu_matmul(cpu_recorder *recorder, const node *node) {
  matmul_desc desc;
  describe_matmul(node, &desc);
  matmul_args args = cpu_matmul_arguments(recorder, &desc);
  TRY(cpu_matmul_pack_b(recorder, &desc, &args));
  if (matmul_accepts_epilogue(&args))
    fuse_epilogue(recorder, node, (epilogue_shape){0}, SHORT_INPUTS, &args.epilogue, &args.steps);
  args.cut = cpu_matmul_cut_product(recorder, &args);
  return cpu_launch(recorder, matmul, &args);
}

/* The epilogue runs on F32 sums before they are rounded, unless a step reads another input. */
bool matmul_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot) {
  matmul_desc desc;
  describe_matmul(node, &desc);
  matmul_args args = cpu_matmul_arguments(recorder, &desc);
  if (args.type != DTYPE_F32 || choose_rounding(recorder, &desc, &args) != ROUNDS_TO_BF16 ||
      !cpu_may_pack(recorder, desc.b))
    return false;
  args.is_packed = args.rounds = true;
  if (!matmul_may_be_bf16(&args)) return false;
  fuse_epilogue(recorder, node, (epilogue_shape){0}, SHORT_INPUTS, &args.epilogue, &args.steps);
  if (slot == desc.out->slot)
    return cpu_has_own_epilogue(recorder, node) && args.steps.head.n_inputs <= 1;
  return slot == desc.a->slot && (!desc.bias || slot != desc.bias->slot) &&
         !epilogue_reads(node, slot);
}

/* Makes the kernel read constant codes packed in panels. */
static clave_status cpu_matmul_pack_groups(cpu_recorder *recorder, const grouped_matmul_desc *desc,
                                           grouped_matmul_args *args) {
  if (!grouped_matmul_packs(args) || !cpu_may_pack(recorder, desc->b)) return NULL;
  args->is_packed = true;
  args->rounds = cpu_is_fast(recorder) && grouped_matmul_rounds(args);
  cpu_rounds(recorder, args->rounds ? ROUNDS_ROWS : ROUNDS_NOTHING);
  TRY(cpu_packed(recorder,
                 &(cpu_packed_request){.kind = CPU_PACKED_MATMUL,
                                       .x = desc->b,
                                       .size = {desc->n, desc->k, desc->b_n},
                                       .desc = &kernel_grouped_matmul_pack,
                                       .args = args},
                 &args->panels));
  args->b = NULL; /* not read from here on */
  return NULL;
}

clave_status cpu_grouped_matmul(cpu_recorder *recorder, const node *node) {
  grouped_matmul_desc desc;
  describe_grouped_matmul(node, &desc);
  grouped_matmul_args args = {.a = cpu_operand(recorder, desc.a),
                              .b = cpu_operand(recorder, desc.b).data,
                              .ends = cpu_operand(recorder, desc.ends),
                              .out = cpu_operand(recorder, desc.out),
                              .b_type = desc.b->tensor.type,
                              .encoding = desc.b->tensor.encoding,
                              .groups = desc.groups,
                              .n = desc.n,
                              .k = desc.k,
                              .b_group = desc.b->tensor.strides[0],
                              .b_n = desc.b_n,
                              .b_k = desc.b_k};
  TRY(cpu_matmul_pack_groups(recorder, &desc, &args));
  return cpu_launch(recorder, grouped_matmul, &args);
}
