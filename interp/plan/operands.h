#ifndef INTERP_PLAN_OPERANDS_H
#define INTERP_PLAN_OPERANDS_H
/* The operands of the instruction that is being planned. */
#include "interp/plan/planner.h"

/* Sets the actual sizes of a slot. All Vids in its shape must be known. */
clave_status resolve_type(planner *planner, uint32_t tid) STATUS_CHECK;
/* Sets the sizes of an instruction's results, and imports its operands at their first use. */
clave_status resolve_operands(planner *planner, const ir_instruction *ins) STATUS_CHECK;
/* True if the op can read the operand in place; else it reads a dense copy, never a constant. */
bool stored_as_read(const operand *operand, const tensor *tensor);
/* Makes an operand of instruction `index` readable on a backend. If the op needs dense data and the
 * operand is not dense, plans a copy, which later readers share. */
clave_status materialize_operand(planner *planner, uint32_t index, int backend,
                                 const operand *operand) STATUS_CHECK;
/* Returns true for a Dequantize of a constant whose result is decoded once and kept. A low-memory
 * schedule decodes in each run instead. */
bool is_kept_decoded(const planner *planner, const ir_instruction *ins);
/* Sets the operand that is recorded for a slot. of: the storage that the tensor views, by which a
 * constant is recognised; NO_INDEX: not a constant. */
void put_operand(planner *planner, uint32_t slot, const tensor *tensor, uint32_t of);
/* Records an instruction on backend b, after put_operand for each of its operands. */
clave_status record_instruction(planner *planner, int b, const ir_instruction *ins, void **cache,
                                recording **out) STATUS_CHECK;
/* Adds a copy command. rebind: the slot whose location is `out` afterwards, or NO_INDEX. */
clave_status add_copy(planner *planner, int b, uint32_t index, location input, location out,
                      uint32_t rebind) STATUS_CHECK;
/* Records a copy from input to `out` on backend b. The caller releases *recorded. */
clave_status record_copy(planner *planner, int b, const tensor *input, const tensor *out,
                         recording **recorded) STATUS_CHECK;

#endif
