#ifndef INTERP_SCALAR_H
#define INTERP_SCALAR_H
/* Host scalar ops: sizes, positions and the exporter's assertions. */
#include "ops/ops.h"

/* Evaluates a host op (Scalar, IntScalar, Check); all values it reads are known. Integer results
 * are exact: overflow and division by zero are errors; a Check that does not hold is an error with
 * its message. */
clave_status scalar_run(const ir_program *program, const ir_instruction *ins,
                        scalar_value *values) STATUS_CHECK;
/* Sets a value after checking its bounds; `what` names it in the error ("dimension 0 of input
 * 'x'"). */
clave_status scalar_set(const ir_program *program, uint32_t vid, scalar_value value,
                        scalar_value *values, const char *what) STATUS_CHECK;
/* The sizes that an input's dims give; and the value of a scalar one. INVALID where another input
 * has given another, too. */
clave_status scalar_bind_dims(const ir_program *program, const ir_argument *input,
                              const int64_t *dims, scalar_value *values) STATUS_CHECK;
clave_status scalar_bind(const ir_program *program, const ir_argument *input, scalar_value given,
                         scalar_value *values) STATUS_CHECK;
/* Between one tensor element and a value: truncates floats to integers; NaN and what does not fit
 * are errors. */
clave_status scalar_from_bytes(dtype t, const void *element, ir_value_type type,
                               scalar_value *out) STATUS_CHECK;
/* Bit by bit; both known or not. */
bool scalars_equal(const scalar_value *left, const scalar_value *right, uint32_t n);
/* Writes value as I64, F64 or BOOL and sets out's type and rank. */
void scalar_to_bytes(const scalar_value *value, tensor *out, void *element);

#endif
