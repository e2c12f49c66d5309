#ifndef COMPILE_PACKED_H
#define COMPILE_PACKED_H
/* Packed weights embedded in an emitted program: those for CPUs in the source program, and others
 * that its fixed sizes need. */
#include "compile/plan.h"

/* Packs the weights that the plan needs and the program lacks, into plan->made, for this processor.
 * Does nothing with the user's kernels, or if the program has no packed weights for it. */
clave_status packed_make(compile_plan *plan, const compile_options *options) STATUS_CHECK;
/* Adds packed weight `number` of the model, once for each processor level that it exists for. Sets
 * *is_own if this processor's level is among them. */
clave_status packed_add(const compile_plan *plan, const compile_options *options, int number,
                        const packed_weight_request *request, packed_list *to,
                        bool *is_own) STATUS_CHECK;
/* Returns the processor level of an entry: "x86-64 avx512". */
const char *packed_level(const packed_entry *entry);
/* Writes the levels in the list: "x86-64 avx512, x86-64 avx2". */
void packed_write_levels(const packed_list *list, text *to);
/* Writes the bytes of all entries at their offsets to a file. */
clave_status packed_write(const packed_list *list, const char *path) STATUS_CHECK;

#endif
