#ifndef COMPILE_LIBRARY_H
#define COMPILE_LIBRARY_H
/* The functions of a shared library, over compile/runtime/library.h: NAME.h and library.c. */
#include "compile/plan.h"

clave_status library_write_header(const compile_plan *plan, const compile_options *options,
                                  text *to) STATUS_CHECK;
clave_status library_write_source(const compile_plan *plan, const compile_options *options,
                                  text *to) STATUS_CHECK;

/* What n_threads of NAME_create is where it is 0. */
const char *library_threads(const compile_options *options);
/* Of NAME_verify. */
extern const char library_verify_comment[];
/* Parts of a header: up to its declarations; a comment with the tensors of NAME_run, not ended; the
 * end. */
void library_begin_header(const char *name, text *to);
void library_describe_run(const compile_plan *plan, text *to);
void library_end_header(text *to);

#endif
