#ifndef COMPILE_LIBRARY_H
#define COMPILE_LIBRARY_H
/* The functions of a shared library, NAME.h and library.c, on top of compile/runtime/library.h. */
#include "compile/plan.h"

clave_status library_write_header(const compile_plan *plan, const compile_options *options,
                                  text *to) STATUS_CHECK;
clave_status library_write_source(const compile_plan *plan, const compile_options *options,
                                  text *to) STATUS_CHECK;

/* Returns a description of the number of threads that NAME_create uses if its n_threads is 0. */
const char *library_threads(const compile_options *options);
/* The comment on NAME_verify in the header. */
extern const char library_verify_comment[];
/* Write parts of a header. library_begin_header writes everything before its declarations,
 * library_describe_run an unfinished comment with the tensors of NAME_run, library_end_header the
 * end. */
void library_begin_header(const char *name, text *to);
void library_describe_run(const compile_plan *plan, text *to);
void library_end_header(text *to);

#endif
