#ifndef COMPILE_LIBRARY_H
#define COMPILE_LIBRARY_H
/* The functions of a shared library, over compile/runtime/model.h: NAME.h and library.c. */
#include "compile/plan.h"

clave_status library_write_header(const compile_plan *k, const compile_options *o,
                                  text *to) STATUS_CHECK;
clave_status library_write_source(const compile_plan *k, const compile_options *o,
                                  text *to) STATUS_CHECK;

#endif
