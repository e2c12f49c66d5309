#ifndef COMPILE_EMIT_OPEN_H
#define COMPILE_EMIT_OPEN_H
/* The parts of model.c that programs with open sizes have in place of the calls of kernels. */
#include "compile/emitted.h"

void emit_open_head(text *to); /* its includes */
/* Writes open_code, the tables of ops and `sizes`, and records in `used` what these refer to. */
void emit_open_tables(const compile_plan *plan, emitted *used, text *to);

#endif
