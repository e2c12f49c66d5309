#ifndef COMPILE_BARE_H
#define COMPILE_BARE_H
/* The functions of a program for firmware, on top of compile/runtime/core.h: NAME.h, bare.c and
 * names.h. names.h prefixes all linker symbols with NAME, so that several programs can be linked
 * into one firmware. */
#include "compile/plan.h"

clave_status bare_write_header(const compile_plan *plan, const compile_options *options,
                               text *to) STATUS_CHECK;
clave_status bare_write_source(const compile_plan *plan, const compile_options *options,
                               text *to) STATUS_CHECK;
clave_status bare_write_names(const compile_plan *plan, const compile_options *options,
                              text *to) STATUS_CHECK;

#endif
