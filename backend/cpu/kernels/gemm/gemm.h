#ifndef BACKEND_CPU_KERNELS_GEMM_GEMM_H
#define BACKEND_CPU_KERNELS_GEMM_GEMM_H
/* Blocked matrix multiplication c (m, n) = a (m, k) b (k, n) over packed panels. Where the operands
 * come from and where the results go is the caller's: matmul packs strided matrices, conv packs
 * image patches. */
#include "backend/cpu/kernels/gemm/gemm_cut.h"
#include "backend/cpu/kernels/support/rows.h"

/* Writes a panel: to[kk * width + lane] for kk < kn and lane < lanes, in class c; the lanes beyond
 * are left to the caller. lane: a row of a, or a column of b. */
typedef void (*gemm_pack)(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                          int64_t kn, int64_t width, void *to);
/* Takes columns [column, column + n) of a row of c; may change the values. */
typedef void (*gemm_store)(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                           void *values);

enum {
  GEMM_BLOCK_K = 64, /* additions in a row; sums of blocks keep rounding errors small */
  GEMM_STRIP = 16
};
/* Rows [row, row + rows) of a, from k on, as strips (kn, height) of floats, one behind the other:
 * row is a multiple of height, a power of two up to GEMM_STRIP, and k of GEMM_BLOCK_K. Rows beyond
 * the last may be any numbers. */
typedef void (*gemm_strips)(const void *user, int64_t batch, int64_t row, int64_t rows, int64_t k,
                            int64_t kn, int64_t height, float *to);

/* The inner kernel: c (rows, nr; ldc apart) = from (rows, nr; from_step apart) + a (k, rows) times
 * b (k, nr). from may be c. */
typedef struct gemm_tile {
  int64_t k;
  const void *a, *b;
  void *c;
  int64_t ldc;
  const void *from;
  int64_t from_step;
  const char *next; /* what is asked for on the way: `next_step` bytes for each k */
  int64_t next_step;
} gemm_tile;
enum { GEMM_ROW_BYTES = 128 }; /* of c in a tile, at most: nr elements */

/* What a kernel is that multiplies blocks of a (rows, k): a strip of a tile is (k / blocks.k, rows,
 * blocks.k), with as many rows as are a multiple of blocks.rows, and zeros behind the last k, which
 * pack_a writes. */
typedef struct gemm_blocks {
  int rows, k;
  int64_t chain;                     /* k of a tile at most: its sums need no shorter chains */
  void (*begin)(void), (*end)(void); /* a thread's tiles are between them */
} gemm_blocks;

typedef struct gemm_kernel {
  int mr, nr; /* the most rows, columns */
  void (*run)(const gemm_tile *tile, int rows);
  const gemm_blocks *blocks; /* NULL: strips are (k, rows) */
} gemm_kernel;

/* Where a product of floats lies: c (m, n; c_step apart), whose sums begin with `from` (m, n;
 * from_step apart), or with 0 where that is NULL. */
typedef struct gemm_place {
  float *c;
  const float *from;
  int64_t c_step, from_step;
} gemm_place;

typedef struct kgemm {
  compute_class c;
  int64_t batch, m, n, k;
  gemm_pack pack_a, pack_b;
  gemm_store store;
  /* NULL, or what says where product `batch` lies: it is written there, and not stored. Of
   * COMPUTE_F32, with a that is packed on the way. Whenever rows [row, row + rows) of columns
   * [column, column + columns) are there, `finish` is called. */
  gemm_place (*place)(const void *user, int64_t batch);
  void (*finish)(const void *user, int64_t batch, int64_t row, int64_t rows, int64_t column,
                 int64_t columns);
  const void *user;
  /* Whether all of a is packed, by gemm_pack_a, and all of b, by gemm_pack_b, the same for each of
   * the batch; what is not pack_a and pack_b pack on the way. Types of packed ones: of F32, F16,
   * BF16 or, of other classes, their own. */
  bool a_is_packed, b_is_packed;
  gemm_kernel kernel; /* of its own, of elements of the compute type's size; run NULL: none */
  dtype a_type, b_type;
  const void *packed_a, *packed_b;
  gemm_cut cut;
  gemm_strips strips_a; /* NULL, or what makes a of something else, of COMPUTE_F32, in place of
                           packed_a: a_is_packed */
} kgemm;

size_t gemm_packed_bytes(const kgemm *kgemm);
/* Rows of a strip of a packed a, (batch, strips, k, rows). */
int64_t gemm_strip_height(const kgemm *kgemm);
void gemm_pack_a(const kernel_context *ctx, const kgemm *kgemm, char *to /* (gemm_packed_bytes) */);

/* A matrix b of floats, whose element (k, n) is data[k * k_stride + n * n_stride]. */
typedef struct gemm_b {
  dtype type;
  const void *data;
  int64_t n, k, n_stride, k_stride;
} gemm_b;
/* In panels (k, columns) of the columns that a tile of c has, those beyond the last as zeros; its
 * own type. */
size_t gemm_b_bytes(const gemm_b *b);
void gemm_pack_b(const kernel_context *ctx, const gemm_b *b, char *to /* (gemm_b_bytes) */);
/* Elements [k, k + kn) of the panel that begins at a column. */
const void *gemm_b_panel(const gemm_b *b, const void *packed, int64_t column, int64_t k);

/* All elements of a column. */
void gemm_b_column(const gemm_b *b, const void *packed, int64_t column, void *to);

/* The memory that gemm_run works in: a multiple of 64; 0 where there is nothing to multiply. */
size_t gemm_bytes(const kernel_context *ctx, const kgemm *kgemm);
void gemm_run(const kernel_context *ctx, const kgemm *kgemm,
              char *memory /* (gemm_bytes), 64-byte aligned */);

/* A gemm_pack of a strided matrix: element (lane, k) is data[lane * lane_stride + k * k_stride]. */
void gemm_pack_strided(compute_class c, dtype t, const void *data, int64_t lane_stride,
                       int64_t k_stride, int64_t lanes, int64_t kn, int64_t width, void *to);

/* Sums of an element of c that tiles of so many rows make side by side, as an addition waits for
 * the one before. */
static inline int gemm_chains(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

gemm_kernel gemm_kernel_for(compute_class c, dtype b /* of b, where c is COMPUTE_F32 */);

/* Transposes an 8 by 8 block: to[i * to_stride + j] = from[j * from_stride + i]. */
void transpose_8x8(const float *from, int64_t from_stride, float *to, int64_t to_stride);

#endif
