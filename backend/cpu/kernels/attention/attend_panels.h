#ifndef BACKEND_CPU_KERNELS_ATTENTION_ATTEND_PANELS_H
#define BACKEND_CPU_KERNELS_ATTENTION_ATTEND_PANELS_H
/* Attention in floats for many queries that share keys. */
#include "backend/cpu/kernels/attention/attend_rows.h"

/* Requires at least one key and one column of v. The size never decreases with more queries or
 * keys. */
size_t attend_panels_scratch(const kernel_context *ctx, const attention *attention);
/* scratch: attend_panels_scratch bytes. */
void attend_panels(const kernel_context *ctx, const attention *attention, char *scratch);

#endif
