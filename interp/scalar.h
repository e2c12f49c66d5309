#ifndef INTERP_SCALAR_H
#define INTERP_SCALAR_H
/* Host scalar ops: sizes, positions and the exporter's assertions. */
#include "ops/ops.h"

/* Evaluates a host op (Scalar, IntScalar, Check) whose operands are all known. Integer results are
 * exact: overflow and division by zero are errors. A Check that does not hold is an error with the
 * Check's message. */
clave_status scalar_run(const ir_program *program, const ir_instruction *ins,
                        scalar_value *values) STATUS_CHECK;
/* Checks a value's bounds and sets it. what: its name in errors ("dimension 0 of input 'x'"). */
clave_status scalar_set(const ir_program *program, uint32_t vid, scalar_value value,
                        scalar_value *values, const char *what) STATUS_CHECK;
/* scalar_bind_dims sets the values in an input's shape to its actual dims; scalar_bind sets the
 * value of a scalar input. Both return INVALID if another input has set a value differently. */
clave_status scalar_bind_dims(const ir_program *program, const ir_argument *input,
                              const int64_t *dims, scalar_value *values) STATUS_CHECK;
clave_status scalar_bind(const ir_program *program, const ir_argument *input, scalar_value given,
                         scalar_value *values) STATUS_CHECK;
/* Converts one tensor element to a value. Floats are truncated to integers; NaN and numbers out of
 * range are errors. */
clave_status scalar_from_bytes(dtype t, const void *element, ir_value_type type,
                               scalar_value *out) STATUS_CHECK;
/* True if all n values are equal bit by bit, and known in both lists or in neither. */
bool scalars_equal(const scalar_value *left, const scalar_value *right, uint32_t n);
/* Writes the value as I64, F64 or BOOL to `element` and sets out's type and rank. */
void scalar_to_bytes(const scalar_value *value, tensor *out, void *element);

#endif
