#ifndef OPS_ELEMENTWISE_H
#define OPS_ELEMENTWISE_H
/* Lists of elementwise steps with every dtype and number known. */
#include "ops/node.h"

/* An operand of a step: an input, the result of an earlier step, or a number (all other sources).
 */
typedef struct elementwise_operand {
  ir_operand_source source;
  uint32_t index; /* of the input or the step */
  dtype compute;  /* what it is read as: F32, F64 or I64 */
  int64_t i;      /* a number, where that is I64 */
  double f;       /* a number, else */
} elementwise_operand;

typedef struct elementwise_step {
  ir_step_kind kind;
  step_result result; /* of the kind */
  dtype operand_type; /* of the operands; of where: of the last two */
  dtype type;         /* of the result */
  bool divides;       /* operand 1 is an integer divisor: zero is a data error */
  int n_operands;
  elementwise_operand operands[MAX_STEP_ARITY];
} elementwise_step;

typedef struct elementwise_form {
  int n_inputs, n_steps;
  const bound_tensor *inputs[MAX_STEP_INPUTS], *out; /* out: contiguous, of the last step's type */
  bound_tensor result; /* of the op whose epilogue it is, where that is of another dtype: input 0 */
  dtype input_types[MAX_STEP_INPUTS]; /* in the program */
  int64_t n;                          /* elements of out */
  tensor shapes[1 + MAX_STEP_INPUTS]; /* out, inputs: broadcast to out's dims, merged together */
  elementwise_step steps[MAX_STEPS];
} elementwise_form;
void describe_elementwise(const node *node, elementwise_form *desc);
/* Of an op that is a part of the node's; input 0 is of dtype `first`. The form stays where it is.
 */
void describe_steps(const node *node, const ir_elementwise *op, dtype first,
                    elementwise_form *desc);
/* The rule of one. */
clave_status rule_steps(const rule_context *context, const ir_elementwise *op,
                        dtype first) STATUS_CHECK;
/* Whether the steps leave out and an input in `slot` about as exact where these are kept as BF16:
 * values as they lie, not numbers of rows, of which there are few. */
bool elementwise_may_narrow(const elementwise_form *desc, uint32_t slot);

/* What a dtype is computed in: F32, F64 or I64 (U64: by its bits). */
dtype compute_dtype(dtype t);
static inline bool is_number(const elementwise_operand *operand) {
  return operand->source != IR_OPERAND_SOURCE_INPUT && operand->source != IR_OPERAND_SOURCE_STEP;
}

#endif
