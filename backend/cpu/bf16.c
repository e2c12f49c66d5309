/* Which operands of F32 the kernels of an op read or write as BF16, in fast precision: a row for
 * each op that has any. The planner asks before anything is recorded. */
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/cpu.h"
#include "ops/epilogue.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/reduce.h"

/* Steps of an epilogue run in place, on F32. */
static bool has_no_epilogue(cpu_recorder *r, const node *n, uint32_t slot) {
  (void)r;
  (void)slot;
  return !epilogue_of(n->instruction);
}

static bool is_maximum(cpu_recorder *r, const node *n, uint32_t slot) {
  pool_form f;
  describe_pool(n, &f);
  (void)r;
  (void)slot;
  return !f.average && !f.indices;
}

static bool is_mean(cpu_recorder *r, const node *n, uint32_t slot) {
  pool_form f;
  describe_adaptive_pool(n, &f);
  (void)r;
  (void)slot;
  return pool_is_mean(&f);
}

static bool is_sum(cpu_recorder *r, const node *n, uint32_t slot) {
  reduce_form f;
  describe_reduce(n, &f);
  (void)r;
  (void)slot;
  return reduce_may_narrow(n, &f);
}

static bool is_f32(const bound_tensor *x) { return !x || x->t.type == DTYPE_F32; }

static bool norms_f32(const node *n, const norm_form *f) {
  return !epilogue_of(n->instruction) && is_f32(f->x) && is_f32(f->weight) && is_f32(f->bias);
}

static bool layer_norms_f32(cpu_recorder *r, const node *n, uint32_t slot) {
  norm_form f;
  describe_layer_norm(n, &f);
  (void)r;
  (void)slot;
  return norms_f32(n, &f);
}

static bool rms_norms_f32(cpu_recorder *r, const node *n, uint32_t slot) {
  norm_form f;
  describe_rms_norm(n, &f);
  (void)r;
  (void)slot;
  return norms_f32(n, &f);
}

/* Sums of means stay F32, and so does what is normed, as sums of many layers need its digits. */
enum { READS_X = 1, WRITES_OUT = 2, ANY_OPERAND = 4 };
static const struct bf16_row {
  ir_op op;
  int operands;       /* those that may be BF16 */
  cpu_bf16_rule rule; /* and are where it is true */
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

bool cpu_supports_bf16(backend *b, const node *n, uint32_t slot) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == n->instruction->op_type)
      return bf16_pays() && is_among(rows[i].operands, n->instruction, slot) &&
             cpu_ask(b, rows[i].rule, n, slot);
  return false;
}
