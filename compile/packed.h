#ifndef COMPILE_PACKED_H
#define COMPILE_PACKED_H
/* Packed forms of constants that go into a program that is written out: those that the program has
 * for CPUs, and what its fixed sizes want besides. */
#include "compile/plan.h"

/* Where the program is packed for this processor: makes the forms that the plan wants and the
 * program lacks (plan->made). */
clave_status packed_make(compile_plan *plan, const compile_options *options) STATUS_CHECK;
/* Adds form `number` of the model for each level of processors that it is there for. is_own: for
 * this one's, too. */
clave_status packed_add(const compile_plan *plan, const compile_options *options, int number,
                        const packed_weight_request *request, packed_list *to,
                        bool *is_own) STATUS_CHECK;
/* What the entry's processor is used as: "x86-64 avx512". */
const char *packed_level(const packed_entry *entry);
/* The levels in it, "x86-64 avx512, x86-64 avx2". */
void packed_write_levels(const packed_list *list, text *to);
/* Their bytes, each where its entry says. */
clave_status packed_write(const packed_list *list, const char *path) STATUS_CHECK;

#endif
