#ifndef OPS_EPILOGUE_H
#define OPS_EPILOGUE_H
/* Elementwise steps that an op runs on its own result: the fields `epilogue` and `epilogue_inputs`
 * of its table. Results are the same bits as those of the op and an Elementwise behind it: the
 * op's own result is rounded to its dtype first, which is out's unless op_result_type says another.
 */
#include "ops/elementwise.h"

/* Whether ops of this type may have one, and the schema version since which they may. */
bool takes_epilogue(ir_op type);
int epilogue_since(ir_op type);
/* The dtype of the op's own result, by that of out: the steps of some ops may make another. */
dtype op_result_type(ir_op type, dtype out);
bool is_epilogue_input(const operand *operand); /* the op itself does not read it */
/* Its steps; NULL: it has none. */
const ir_steps *epilogue_of(const ir_instruction *ins);
/* The instruction with `steps` as its epilogue and `out` for its result: op is a copy of its op
 * (see ir_op_tables for the size), which is changed. */
void set_epilogue(const ir_instruction *ins, void *op, const ir_steps *steps, const ir_u32s *inputs,
                  uint32_t out);

/* It as an op of its own, which reads and writes out; its inputs go into `inputs`. */
ir_elementwise epilogue_alone(const ir_instruction *ins, uint32_t inputs[MAX_STEP_INPUTS]);

clave_status rule_epilogue(const rule_context *context, const ir_instruction *ins) STATUS_CHECK;
/* Its steps over out, in place: input 0 is out, or what else the op makes for them, of another
 * dtype. False: there is none. */
bool describe_epilogue(const node *node, elementwise_form *desc);

#endif
