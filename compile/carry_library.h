#ifndef COMPILE_CARRY_LIBRARY_H
#define COMPILE_CARRY_LIBRARY_H
/* The functions of a shared library, NAME.h and library.c: either with sizes and methods chosen by
 * the caller, on top of compile/runtime/tensors.h, or with a language model, on top of
 * compile/carried/library.h. */
#include "compile/plan.h"

clave_status carry_library_header(const program *program, const compile_options *options,
                                  text *to) STATUS_CHECK;
clave_status carry_library_source(const compile_options *options, text *to) STATUS_CHECK;

#endif
