/* The table of F32 operands that kernels can read or write as BF16 in fast precision, with one row
 * per op that has such operands. The planner queries it before it records nodes. */
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/cpu.h"
#include "ops/epilogue.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/reduce.h"

/* True if the node has no epilogue: its steps would run in place on F32. */
static bool has_no_epilogue(cpu_recorder *recorder, const node *node, uint32_t slot) {
  (void)recorder;
  (void)slot;
  return !epilogue_of(node->instruction);
}

static bool is_maximum(cpu_recorder *recorder, const node *node, uint32_t slot) {
  pool_desc desc;
  describe_pool(node, &desc);
  (void)recorder;
  (void)slot;
  return !desc.average && !desc.indices;
}

static bool is_mean(cpu_recorder *recorder, const node *node, uint32_t slot) {
  pool_desc desc;
  describe_adaptive_pool(node, &desc);
  (void)recorder;
  (void)slot;
  return pool_is_mean(&desc);
}

static bool is_sum(cpu_recorder *recorder, const node *node, uint32_t slot) {
  reduce_desc desc;
  describe_reduce(node, &desc);
  (void)recorder;
  (void)slot;
  return reduce_may_be_bf16(node, &desc);
}

static bool cpu_bf16_is_f32(const bound_tensor *tensor) {
  return !tensor || tensor->tensor.type == DTYPE_F32;
}

static bool norms_f32(const node *node, const norm_desc *desc) {
  return !epilogue_of(node->instruction) && cpu_bf16_is_f32(desc->x) &&
         cpu_bf16_is_f32(desc->weight) && cpu_bf16_is_f32(desc->bias);
}

static bool layer_norms_f32(cpu_recorder *recorder, const node *node, uint32_t slot) {
  norm_desc desc;
  describe_layer_norm(node, &desc);
  (void)recorder;
  (void)slot;
  return norms_f32(node, &desc);
}

static bool rms_norms_f32(cpu_recorder *recorder, const node *node, uint32_t slot) {
  norm_desc desc;
  describe_rms_norm(node, &desc);
  (void)recorder;
  (void)slot;
  return norms_f32(node, &desc);
}

/* Averages write F32, and layer and RMS norms read F32: sums over many layers need it. */
enum { READS_X = 1, WRITES_OUT = 2, ANY_OPERAND = 4 };
static const struct bf16_row {
  ir_op op;
  int operands;       /* operands that may be BF16 ... */
  cpu_bf16_rule rule; /* ... if the rule holds */
} rows[] = {{IR_OP_ADAPTIVE_POOL, READS_X, is_mean},
            {IR_OP_CAT, ANY_OPERAND, has_no_epilogue},
            {IR_OP_CONV, ANY_OPERAND, conv_supports_bf16},
            {IR_OP_CONV_TRANSPOSE, READS_X | WRITES_OUT, conv_transpose_supports_bf16},
            {IR_OP_ELEMENTWISE, ANY_OPERAND, elementwise_supports_bf16},
            {IR_OP_GROUP_NORM, READS_X | WRITES_OUT, group_norm_supports_bf16},
            {IR_OP_LAYER_NORM, WRITES_OUT, layer_norms_f32},
            {IR_OP_MATMUL, READS_X | WRITES_OUT, matmul_supports_bf16},
            {IR_OP_POOL, READS_X | WRITES_OUT, is_maximum},
            {IR_OP_REDUCE, READS_X, is_sum},
            {IR_OP_RMS_NORM, WRITES_OUT, rms_norms_f32},
            {IR_OP_UPSAMPLE, ANY_OPERAND, has_no_epilogue}};

static bool is_among(int operands, const ir_instruction *ins, uint32_t slot) {
  return operands & ANY_OPERAND || (operands & READS_X && slot == first_slot(ins, false)) ||
         (operands & WRITES_OUT && slot == first_slot(ins, true));
}

bool cpu_supports_bf16(backend *backend, const node *node, uint32_t slot) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == node->instruction->op_type)
      return bf16_is_fast() && is_among(rows[i].operands, node->instruction, slot) &&
             cpu_bf16_rule_holds(backend, rows[i].rule, node, slot);
  return false;
}
