#ifndef COMPILE_EMIT_H
#define COMPILE_EMIT_H
/* Writes a plan as model.c, which defines what compile/runtime/model.h declares. */
#include "compile/emitted.h"
#include "compile/plan.h"
#include "compile/self_test.h"

clave_status emitted_create(const compile_plan *plan, emitted *out) STATUS_CHECK;
void emitted_free(emitted *emitted);

/* kept: (n_outputs), expected results on random inputs, or NULL. */
clave_status emit_model(const compile_plan *plan, const compile_options *options,
                        const test_output *kept, text *to, emitted *used) STATUS_CHECK;

#endif
