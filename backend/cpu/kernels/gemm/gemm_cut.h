#ifndef BACKEND_CPU_KERNELS_GEMM_GEMM_CUT_H
#define BACKEND_CPU_KERNELS_GEMM_GEMM_CUT_H
/* Cuts a product of gemm.c into tasks; no cut changes a bit of a result. 0: gemm.c chooses. */
#include <stdint.h>

typedef struct gemm_cut {
  int32_t columns; /* columns of b per task */
  int32_t rows;    /* most rows of a that are packed at once */
} gemm_cut;

#endif
