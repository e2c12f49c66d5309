#ifndef OPS_EPILOGUE_H
#define OPS_EPILOGUE_H
/* Epilogues: elementwise steps that an op runs on its own result, in the fields `epilogue` and
 * `epilogue_inputs` of its table. The result has the same bits as if an Elementwise followed the
 * op: the op's own result is first rounded to its dtype (op_result_type), which is that of out for
 * most ops. */
#include "ops/elementwise.h"

/* accepts_epilogue returns true if ops of this type support an epilogue; epilogue_since returns the
 * first schema version in which they do. */
bool accepts_epilogue(ir_op type);
int epilogue_since(ir_op type);
/* Returns the dtype of the op's own result, before its epilogue, given the dtype of out. */
dtype op_result_type(ir_op type, dtype out);
bool is_epilogue_input(const operand *operand); /* true if only the epilogue reads it */
/* Returns the epilogue's steps, NULL if the instruction has none. */
const ir_steps *epilogue_of(const ir_instruction *ins);
/* Sets the epilogue in `op`, a copy of the instruction's op that the caller allocated (its size is
 * in ir_op_tables): `steps` with `inputs`, and `out` as the result. */
void set_epilogue(const ir_instruction *ins, void *op, const ir_steps *steps, const ir_u32s *inputs,
                  uint32_t out);

/* Returns the epilogue as an Elementwise that overwrites out. `inputs` receives the Elementwise's
 * inputs, with out as the first; the result points to `inputs`. */
ir_elementwise epilogue_alone(const ir_instruction *ins, uint32_t inputs[MAX_STEP_INPUTS]);

clave_status rule_epilogue(const rule_context *context, const ir_instruction *ins) STATUS_CHECK;
/* Describes the epilogue as steps over out, in place. Input 0 is out, or the op's own result if its
 * dtype differs. Returns false if the instruction has no epilogue. */
bool describe_epilogue(const node *node, elementwise_desc *desc);

#endif
