#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_H
/* Scores, weights and sums of queries over rows of k and v, for attention with and without
 * caches. */
#include "backend/cpu/kernels/attention/attend_rows.h"

/* Returns the scratch bytes of attend_heads, which never decrease with more queries or keys. */
size_t attend_scratch(const kernel_context *ctx, const attention *attention);
/* True if attention.rounds changes the result on some processor. */
bool attend_rounds(const attention *attention);
/* Computes all queries of an attention. scratch: attend_scratch bytes. */
void attend_heads(const kernel_context *ctx, const attention *attention, char *scratch);

#endif
