#ifndef OPS_ELEMENTWISE_H
#define OPS_ELEMENTWISE_H
/* Lists of elementwise steps with all dtypes and numbers resolved. */
#include "ops/node.h"

/* An operand of a step: an input, the result of an earlier step, or (any other source) a number. */
typedef struct elementwise_operand {
  ir_operand_source source;
  uint32_t index; /* number of the input or step */
  dtype compute;  /* dtype in which the step computes with it: F32, F64 or I64 */
  int64_t i;      /* the number if compute is I64 */
  double f;       /* the number otherwise */
} elementwise_operand;

typedef struct elementwise_step {
  ir_step_kind kind;
  step_result result; /* result rule of the kind */
  dtype operand_type; /* common dtype of the operands (where: of the last two) */
  dtype type;         /* dtype of the result */
  bool divides;       /* operand 1 is an integer divisor, so zero is a data error */
  int n_operands;
  elementwise_operand operands[MAX_STEP_ARITY];
} elementwise_step;

typedef struct elementwise_desc {
  int n_inputs, n_steps;
  const bound_tensor *inputs[MAX_STEP_INPUTS], *out; /* out: contiguous, of the last step's dtype */
  bound_tensor result; /* for epilogues: input 0, if the dtype of the op's own result differs from
                          that of out */
  dtype input_types[MAX_STEP_INPUTS]; /* dtypes in the program */
  int64_t n;                          /* elements of out */
  tensor shapes[1 + MAX_STEP_INPUTS]; /* layouts of out and the inputs, broadcast to out's dims and
                                         collapsed together */
  elementwise_step steps[MAX_STEPS];
} elementwise_desc;
void describe_elementwise(const node *node, elementwise_desc *desc);
/* Describes an Elementwise within the node's op, such as an epilogue. Input 0 has dtype `first`.
 * The description may point into itself, so it must not be moved. */
void describe_steps(const node *node, const ir_elementwise *op, dtype first,
                    elementwise_desc *desc);
/* Checks the list of steps; input 0 has dtype `first`. */
clave_status rule_steps(const rule_context *context, const ir_elementwise *op,
                        dtype first) STATUS_CHECK;
/* True if `slot`, an input or out, can be stored as BF16 without making the result much less exact.
 * A broadcast input, such as a value per row, has few elements and stays F32. */
bool elementwise_may_be_bf16(const elementwise_desc *desc, uint32_t slot);

/* Returns the dtype in which values of dtype t are computed: F32, F64 or I64 (U64 by its bits). */
dtype compute_dtype(dtype t);
static inline bool is_number(const elementwise_operand *operand) {
  return operand->source != IR_OPERAND_SOURCE_INPUT && operand->source != IR_OPERAND_SOURCE_STEP;
}

#endif
