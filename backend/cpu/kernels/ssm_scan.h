#ifndef BACKEND_CPU_KERNELS_SSM_SCAN_H
#define BACKEND_CPU_KERNELS_SSM_SCAN_H
#include "base/kernel.h"

/* Recurrence of state space models; ops/ssm_scan.h has the shapes. Rows of x, b and c are
 * contiguous, and so are rate, state and out as a whole. */
typedef struct ssm_scan_args {
  ktensor x, log_decay, b, c, rate, state, out; /* F32 or F64; rate absent: ones */
  int64_t n_batch, length, n_heads, share, head_dim, n_state;
} ssm_scan_args;
KERNEL(ssm_scan, ssm_scan_args);

#endif
