#ifndef BACKEND_CPU_KERNELS_GEMM_GEMM_CUT_H
#define BACKEND_CPU_KERNELS_GEMM_GEMM_CUT_H
/* How gemm.c cuts a product into tasks, which changes no bit of a result. 0: by its own rule. */
#include <stdint.h>

typedef struct gemm_cut {
  int32_t columns; /* of b for a task */
  int32_t rows;    /* of a that are packed at once, at most */
} gemm_cut;

#endif
