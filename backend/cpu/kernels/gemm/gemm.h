#ifndef BACKEND_CPU_KERNELS_GEMM_GEMM_H
#define BACKEND_CPU_KERNELS_GEMM_GEMM_H
/* Blocked matrix multiplication c (m, n) = a (m, k) * b (k, n) over packed panels. The caller packs
 * operands and stores results: matmul packs strided matrices, conv image patches. */
#include "backend/cpu/kernels/gemm/gemm_cut.h"
#include "backend/cpu/kernels/support/rows.h"

/* Packs a panel: writes to[kk * width + lane] for kk < kn and lane < lanes, in class c; further
 * lanes are unchanged. lane: a row of a, or a column of b. */
typedef void (*gemm_pack)(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                          int64_t kn, int64_t width, void *to);
/* Stores columns [column, column + n) of a row of c. May change the values. */
typedef void (*gemm_store)(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                           void *values);

enum {
  GEMM_BLOCK_K = 64, /* products per chain; summing chains keeps rounding errors small */
  GEMM_STRIP = 16
};
/* Writes rows [row, row + rows) of a, from k on, as consecutive strips (kn, height) of floats; rows
 * after the last are undefined. row is a multiple of height, which is a power of two up to
 * GEMM_STRIP, and k one of GEMM_BLOCK_K. */
typedef void (*gemm_strips)(const void *user, int64_t batch, int64_t row, int64_t rows, int64_t k,
                            int64_t kn, int64_t height, float *to);

/* Arguments of the inner kernel: c (rows, nr; ldc apart) = from (rows, nr; from_step apart) + a (k,
 * rows) * b (k, nr). from may be c. */
typedef struct gemm_tile {
  int64_t k;
  const void *a, *b;
  void *c;
  int64_t ldc;
  const void *from;
  int64_t from_step;
  const char *next; /* memory that is prefetched on the way, `next_step` bytes per k */
  int64_t next_step;
} gemm_tile;
enum { GEMM_ROW_BYTES = 128 }; /* most bytes of a row of a tile */

/* Describes a kernel that multiplies blocks of a (rows, k). Its strips are (k / blocks.k, rows,
 * blocks.k), where rows are rounded up to a multiple of blocks.rows. pack_a pads k with zeros. */
typedef struct gemm_blocks {
  int rows, k;
  int64_t chain;                     /* most k of a tile; its sums need no shorter chains */
  void (*begin)(void), (*end)(void); /* called around a thread's tiles */
} gemm_blocks;

typedef struct gemm_kernel {
  int mr, nr; /* most rows, columns */
  void (*run)(const gemm_tile *tile, int rows);
  const gemm_blocks *blocks; /* NULL: strips are (k, rows) */
} gemm_kernel;

/* The place of a product of floats: c (m, n; c_step apart), whose sums start with `from` (m, n;
 * from_step apart), or with 0 if that is NULL. */
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
  /* place: NULL, or returns where product `batch` is written; `store` is then not called. Requires
   * COMPUTE_F32 and an a that is packed on the way. finish: NULL, or called when rows [row, row +
   * rows) of columns [column, column + columns) are complete. */
  gemm_place (*place)(const void *user, int64_t batch);
  void (*finish)(const void *user, int64_t batch, int64_t row, int64_t rows, int64_t column,
                 int64_t columns);
  const void *user;
  /* True if all of a is packed by gemm_pack_a, and all of b by gemm_pack_b, the same for the whole
   * batch. Otherwise pack_a and pack_b pack on the way. a_type, b_type: dtypes of packed operands.
   * With COMPUTE_F32 they are F32, F16 or BF16. */
  bool a_is_packed, b_is_packed;
  gemm_kernel kernel; /* used in place of gemm_kernel_for's if `run` is set; its elements have the
                         size of c's */
  dtype a_type, b_type;
  const void *packed_a, *packed_b;
  gemm_cut cut;
  gemm_strips strips_a; /* NULL, or makes strips of a in place of packed_a; requires COMPUTE_F32,
                           a_is_packed */
} kgemm;

size_t gemm_packed_bytes(const kgemm *kgemm);
/* Returns the rows per strip of a packed a, (batch, strips, k, rows). */
int64_t gemm_strip_height(const kgemm *kgemm);
void gemm_pack_a(const kernel_context *ctx, const kgemm *kgemm, char *to /* (gemm_packed_bytes) */);

/* A matrix b of floats, whose element (k, n) is data[k * k_stride + n * n_stride]. */
typedef struct gemm_b {
  dtype type;
  const void *data;
  int64_t n, k, n_stride, k_stride;
} gemm_b;
/* Packs b in its own type: panels (k, columns) as wide as a tile of c, padded with zeros. */
size_t gemm_b_bytes(const gemm_b *b);
void gemm_pack_b(const kernel_context *ctx, const gemm_b *b, char *to /* (gemm_b_bytes) */);
/* Returns elements [k, k + kn) of the panel that begins at a column. */
const void *gemm_b_panel(const gemm_b *b, const void *packed, int64_t column, int64_t k);

/* Copies all elements of a column to `to`. */
void gemm_b_column(const gemm_b *b, const void *packed, int64_t column, void *to);

/* Returns the scratch bytes of gemm_run: a multiple of 64; 0 if there is nothing to multiply. */
size_t gemm_bytes(const kernel_context *ctx, const kgemm *kgemm);
void gemm_run(const kernel_context *ctx, const kgemm *kgemm,
              char *memory /* (gemm_bytes), 64-byte aligned */);

/* A gemm_pack of a strided matrix: element (lane, k) is data[lane * lane_stride + k * k_stride]. */
void gemm_pack_strided(compute_class c, dtype t, const void *data, int64_t lane_stride,
                       int64_t k_stride, int64_t lanes, int64_t kn, int64_t width, void *to);

/* Returns the independent sums per element of c in tiles of so many rows. Few rows need several,
 * because an addition waits for the one before. */
static inline int gemm_chains(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

gemm_kernel gemm_kernel_for(compute_class c, dtype b /* dtype of b if c is COMPUTE_F32 */);

/* Transposes an 8 by 8 block: to[i * to_stride + j] = from[j * from_stride + i]. */
void transpose_8x8(const float *from, int64_t from_stride, float *to, int64_t to_stride);

#endif
