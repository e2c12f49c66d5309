#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_H
/* What the kernels of attention share: the scores, weights and sums of queries over rows of k and
 * v, wherever these lie. */
#include "backend/cpu/kernels/attention/attend_rows.h"

/* Takes no less memory for more queries or keys. */
size_t attend_scratch(const kernel_context *ctx, const attention *attention);
/* Whether `rounds` matters, on some processor. */
bool attend_rounds(const attention *attention);
void attend_heads(const kernel_context *ctx, const attention *attention, char *scratch);

#endif
