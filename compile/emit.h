#ifndef COMPILE_EMIT_H
#define COMPILE_EMIT_H
/* A plan as model.c: what compile/runtime/model.h declares of a program. */
#include "compile/emitted.h"
#include "compile/plan.h"
#include "compile/self_test.h"

clave_status emitted_create(const compile_plan *plan, emitted *out) STATUS_CHECK;
void emitted_free(emitted *emitted);

/* kept: (n_outputs), of drawn inputs; NULL: none are. */
clave_status emit_model(const compile_plan *plan, const compile_options *options,
                        const test_output *kept, text *to, emitted *used) STATUS_CHECK;

#endif
