#ifndef BACKEND_CPU_KERNELS_PAD_H
#define BACKEND_CPU_KERNELS_PAD_H
/* Padding at both ends of every dimension. */
#include "base/kernel.h"

typedef enum kpad_mode { KPAD_CONSTANT, KPAD_REFLECT, KPAD_REPLICATE, KPAD_CIRCULAR } kpad_mode;

/* out[i] = x[i - before] per dimension. Outside of x, out is `value` or what the mode defines. */
typedef struct pad_args {
  kpad_mode mode;
  ktensor x, out;                  /* equal rank, at least 1; out: contiguous */
  int64_t before[KERNEL_MAX_RANK]; /* negative: cropped, but not in circular mode */
  uint64_t value;                  /* bits of an element of x's dtype, in the first bytes */
} pad_args;
KERNEL(pad, pad_args);

#endif
