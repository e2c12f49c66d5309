#ifndef BACKEND_CPU_KERNELS_GEMM_GEMM_CUT_H
#define BACKEND_CPU_KERNELS_GEMM_GEMM_CUT_H
/* The cut of a product of gemm.c into tasks, which results do not depend on. 0: gemm.c chooses. */
#include <stdint.h>

typedef struct gemm_cut {
  int32_t columns; /* columns of b per task */
  int32_t rows;    /* maximum number of rows of a that are packed at once */
} gemm_cut;

#endif
