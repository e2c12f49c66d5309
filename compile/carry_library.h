#ifndef COMPILE_CARRY_LIBRARY_H
#define COMPILE_CARRY_LIBRARY_H
/* The functions of a shared library whose callers choose sizes and methods, over
 * compile/runtime/tensors.h, or that carries a language model, over compile/carried/library.h:
 * NAME.h and library.c. */
#include "compile/plan.h"

clave_status carry_library_header(const program *program, const compile_options *options,
                                  text *to) STATUS_CHECK;
clave_status carry_library_source(const compile_options *options, text *to) STATUS_CHECK;

#endif
