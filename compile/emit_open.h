#ifndef COMPILE_EMIT_OPEN_H
#define COMPILE_EMIT_OPEN_H
/* The parts of model.c that programs of open sizes have in the place of kernels' calls. */
#include "compile/emitted.h"

void emit_open_head(text *to); /* what it includes */
/* open_code, the tables of ops and `sizes`; notes in `used` what these refer to. */
void emit_open_tables(const compile_plan *plan, emitted *used, text *to);

#endif
