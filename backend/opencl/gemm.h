#ifndef BACKEND_OPENCL_GEMM_H
#define BACKEND_OPENCL_GEMM_H
/* Matrix products: one description, one choice, several implementations.
 *   out[z][m][n] = alpha * sum_k a[z][m][k] * b[z][k][n] + beta * bias[z][m][n] */
#include "backend/opencl/opencl.h"

typedef struct gemm {
  cl_recorder *s;
  const node *node;
  const bound_tensor *a, *b, *bias, *out; /* bias may be NULL; out is contiguous */
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides in elements */
  tensor batch_a, batch_b, batch_bias;        /* the leading dimensions, collapsed together */
  int64_t batches;
  double alpha, beta;
} gemm;

typedef enum gemm_kind {
  GEMM_TILE,    /* matmul.cl: any dtype, any strides */
  GEMM_PACKED,  /* gemm.cl: float, CPU */
  GEMM_ROWS,    /* gemv.cl, few rows of a; b by rows of k (a transposed weight) */
  GEMM_COLUMNS, /* gemv.cl, few rows of a; b by rows of n */
  GEMM_CLBLAST
} gemm_kind;

/* The product of a Matmul node: batches collapsed, rows that share one b folded into m. */
void gemm_describe(gemm *g, cl_recorder *s, const node *n);

/* By the implementation that suits it best. */
clave_status gemm_record(const gemm *g) STATUS_CHECK;

/* Macros that all our kernels share: COMPUTE, *_TYPE, HAS_BIAS. */
void gemm_begin(launch *l, const gemm *g);
/* The arguments of matmul, gemv_rows and gemv_columns. */
gemm_params gemm_operands(const gemm *g);

clave_status gemm_tile(const gemm *g) STATUS_CHECK;
bool gemm_packed_usable(const gemm *g); /* a CPU with enough local memory */
clave_status gemm_packed(const gemm *g) STATUS_CHECK;
clave_status gemm_rows(const gemm *g) STATUS_CHECK;
clave_status gemm_columns(const gemm *g) STATUS_CHECK;

/* gemm_clblast.c */
bool gemm_clblast_usable(const gemm *g); /* libclblast is there and takes these operands */
clave_status gemm_clblast(const gemm *g) STATUS_CHECK;
void gemm_clblast_close(cl_device *d);

#endif
