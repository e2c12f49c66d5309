#ifndef COMPILE_CARRY_LIBRARY_H
#define COMPILE_CARRY_LIBRARY_H
/* The functions of a shared library that carries its program, over compile/carried/library.h:
 * NAME.h and library.c. */
#include "compile/project.h"

clave_status carry_library_header(const program *p, const compile_options *o,
                                  text *to) STATUS_CHECK;
clave_status carry_library_source(const compile_options *o, text *to) STATUS_CHECK;

#endif
