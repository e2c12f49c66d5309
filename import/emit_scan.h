#ifndef IMPORT_EMIT_SCAN_H
#define IMPORT_EMIT_SCAN_H
/* Emits a Scan: steps along axis 0 of tensors, with carries from step to step. */
#include "import/emit.h"

enum { SCAN_OPERANDS = 8 }; /* the most xs and carries of a scan, together */

/* One step in the body: reads a slice of each of xs, replaces each of carries by its next value of
 * the same shape, and returns a result, or NULL if the scan has none. Other tensors that it reads
 * must have been made before (emit_prepare). */
typedef value *(*scan_step)(void *ctx, importer *im, value *const *xs, value **carries);

typedef struct scan_call {
  const char *name; /* the body's name */
  value *const *xs; /* (n_xs), of equal size along axis 0 */
  value **carries;  /* (n_carries); the scan replaces them by the last */
  int n_xs, n_carries;
  scan_step step;
  void *ctx;
} scan_call;
/* Returns the steps' results, stacked on a new axis 0; NULL if they have none, or after an error.
 */
value *emit_scan_steps(importer *im, const scan_call *call);

#endif
