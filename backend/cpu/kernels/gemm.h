#ifndef BACKEND_CPU_KERNELS_GEMM_H
#define BACKEND_CPU_KERNELS_GEMM_H
/* Blocked matrix multiplication c (m, n) = a (m, k) b (k, n) over packed panels. Where the operands
 * come from and where the results go is the caller's: matmul packs strided matrices, conv packs
 * image patches. */
#include "backend/cpu/kernels/rows.h"

/* Writes a panel: to[kk * width + lane] for kk < kn and lane < lanes, in class c; the lanes beyond
 * are left to the caller. lane: a row of a, or a column of b. */
typedef void (*gemm_pack)(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                          int64_t kn, int64_t width, void *to);
/* Takes columns [column, column + n) of a row of c; may change the values. */
typedef void (*gemm_store)(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                           void *values);

typedef struct kgemm {
  compute_class c;
  int64_t batch, m, n, k;
  gemm_pack pack_a, pack_b;
  gemm_store store;
  const void *user;
  const void *packed_a; /* all of a, by gemm_pack_a; NULL: pack_a packs it on the way */
} kgemm;

size_t gemm_packed_bytes(const kgemm *g);
void gemm_pack_a(const kernel_context *ctx, const kgemm *g, char *to /* (gemm_packed_bytes) */);

/* The memory that gemm_run works in: a multiple of 64; 0 where there is nothing to multiply. */
size_t gemm_bytes(const kernel_context *ctx, const kgemm *g);
void gemm_run(const kernel_context *ctx, const kgemm *g,
              char *memory /* (gemm_bytes), 64-byte aligned */);

/* A gemm_pack of a strided matrix: element (lane, k) is data[lane * lane_stride + k * k_stride]. */
void gemm_pack_strided(compute_class c, dtype t, const void *data, int64_t lane_stride,
                       int64_t k_stride, int64_t lanes, int64_t kn, int64_t width, void *to);

/* The inner kernel: c (mr, nr; rows ldc apart) += a panel (k, mr) times b panel (k, nr). */
typedef struct gemm_kernel {
  int mr, nr;
  void (*run)(int64_t k, const void *a, const void *b, void *c, int64_t ldc);
} gemm_kernel;
gemm_kernel gemm_kernel_for(compute_class c);

/* Transposes an 8 by 8 block: to[i * to_stride + j] = from[j * from_stride + i]. */
void transpose_8x8(const float *from, int64_t from_stride, float *to, int64_t to_stride);

#endif
