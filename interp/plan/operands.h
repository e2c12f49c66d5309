#ifndef INTERP_PLAN_OPERANDS_H
#define INTERP_PLAN_OPERANDS_H
/* Operands of instructions while they are planned. */
#include "interp/plan/planner.h"

/* The actual sizes of a slot whose Vids are all known. */
clave_status resolve_type(planner *planner, uint32_t tid) STATUS_CHECK;
/* The actual sizes of what an instruction writes; what it reads at its first use. */
clave_status resolve_operands(planner *planner, const ir_instruction *ins) STATUS_CHECK;
/* Whether an operand lies as the op reads it; else the op reads a copy, which is no constant. */
bool lies_as_read(const operand *operand, const tensor *tensor);
/* An operand on a backend, for instruction `index`; one that must be dense and is not gets a copy,
 * which later readers share. */
clave_status materialize_operand(planner *planner, uint32_t index, int backend,
                                 const operand *operand) STATUS_CHECK;
/* Returns true for a constant that is decoded once and kept, not in each run; a lean schedule keeps
 * none. */
bool is_kept_decoded(const planner *planner, const ir_instruction *ins);
/* Shows the recorder a tensor as the operand of a slot. of: the storage that the tensor views;
 * NO_INDEX: no matter which. */
void put_operand(planner *planner, uint32_t slot, const tensor *tensor, uint32_t of);
/* Records an instruction, whose operands were put, on backend b. */
clave_status record_instruction(planner *planner, int b, const ir_instruction *ins, void **cache,
                                recording **out) STATUS_CHECK;
/* rebind: the slot that is at `out` afterwards, or NO_INDEX. */
clave_status add_copy(planner *planner, int b, uint32_t index, location input, location out,
                      uint32_t rebind) STATUS_CHECK;
/* What a copy from input to `out` does on backend b, to be released. */
clave_status record_copy(planner *planner, int b, const tensor *input, const tensor *out,
                         recording **recorded) STATUS_CHECK;

#endif
