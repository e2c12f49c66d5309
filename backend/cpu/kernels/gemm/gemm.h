#ifndef BACKEND_CPU_KERNELS_GEMM_GEMM_H
#define BACKEND_CPU_KERNELS_GEMM_GEMM_H
/* Blocked matrix multiplication c (m, n) = a (m, k) * b (k, n) over packed panels. The caller packs
 * operands and stores results: matmul packs strided matrices, conv image patches. */
#include "backend/cpu/kernels/gemm/gemm_cut.h"
#include "backend/cpu/kernels/support/rows.h"

/* Packs a panel: writes to[kk * width + lane] for kk < kn and lane < lanes, in class c. Lanes from
 * `lanes` on are unchanged. A lane is a row of a, or a column of b. */
typedef void (*gemm_pack)(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                          int64_t kn, int64_t width, void *to);
/* Stores columns [column, column + n) of a row of c. May change the values. */
typedef void (*gemm_store)(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                           void *values);

enum {
  GEMM_BLOCK_K = 64, /* products per chain of additions; short chains keep rounding errors small */
  GEMM_STRIP = 16
};
/* Writes rows [row, row + rows) of a, from k on, as consecutive strips (kn, height) of floats; rows
 * after the last are undefined. row is a multiple of height, a power of two up to GEMM_STRIP; k is
 * a multiple of GEMM_BLOCK_K. */
typedef void (*gemm_strips)(const void *user, int64_t batch, int64_t row, int64_t rows, int64_t k,
                            int64_t kn, int64_t height, float *to);

/* Arguments of the inner kernel: c (rows, nr; ldc apart) = from (rows, nr; from_stride apart) + a
 * (k, rows) * b (k, nr). from may be c. */
typedef struct gemm_tile {
  int64_t k;
  const void *a, *b;
  void *c;
  int64_t ldc;
  const void *from;
  int64_t from_stride;
  const char *next; /* memory prefetched while the kernel runs, `next_stride` bytes per k */
  int64_t next_stride;
} gemm_tile;
enum { GEMM_ROW_BYTES = 128 }; /* maximum number of bytes of a row of a tile */

/* Describes a kernel that multiplies blocks of a (rows, k). Its strips are (k / blocks.k, rows,
 * blocks.k), where rows are rounded up to a multiple of blocks.rows. pack_a pads k with zeros. */
typedef struct gemm_blocks {
  int rows, k;
  int64_t chain;                     /* maximum k of a tile that is summed in one chain */
  void (*begin)(void), (*end)(void); /* called around a thread's tiles */
} gemm_blocks;

typedef struct gemm_kernel {
  int mr, nr; /* maximum number of rows; number of columns */
  void (*run)(const gemm_tile *tile, int rows);
  const gemm_blocks *blocks; /* NULL: strips are (k, rows) */
} gemm_kernel;

/* The place of a product of floats: c (m, n; c_stride apart), whose sums start with `from` (m, n;
 * from_stride apart), or with 0 if that is NULL. */
typedef struct gemm_place {
  float *c;
  const float *from;
  int64_t c_stride, from_stride;
} gemm_place;

typedef struct kgemm {
  compute_type c;
  int64_t batch, m, n, k;
  gemm_pack pack_a, pack_b;
  gemm_store store;
  /* place: NULL, or returns the place to which product `batch` is written; `store` is then not
   * called. Requires COMPUTE_F32 and that a is not packed before. finish: NULL, or called when rows
   * [row, row + rows) of columns [column, column + columns) are complete. */
  gemm_place (*place)(const void *user, int64_t batch);
  void (*finish)(const void *user, int64_t batch, int64_t row, int64_t rows, int64_t column,
                 int64_t columns);
  const void *user;
  /* True if all of a is packed by gemm_pack_a, and all of b by gemm_pack_b, the same for the whole
   * batch. Otherwise pack_a and pack_b pack each block before it is multiplied. a_type, b_type:
   * dtypes of packed operands. With COMPUTE_F32 they are F32, F16 or BF16. */
  bool a_is_packed, b_is_packed;
  gemm_kernel kernel; /* replaces the kernel of gemm_kernel_for if `run` is set; elements have the
                         size of those of c */
  dtype a_type, b_type;
  const void *packed_a, *packed_b;
  gemm_cut cut;
  gemm_strips strips_a; /* NULL, or writes strips of a, instead of packed_a; requires COMPUTE_F32
                           and a_is_packed */
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
void gemm_pack_strided(compute_type c, dtype t, const void *data, int64_t lane_stride,
                       int64_t k_stride, int64_t lanes, int64_t kn, int64_t width, void *to);

/* Returns the number of independent sums per element of c, in tiles of so many rows. Few rows need
 * several sums, because an addition waits for the previous one. */
static inline int gemm_chains(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

gemm_kernel gemm_kernel_for(compute_type c, dtype b /* dtype of b if c is COMPUTE_F32 */);

/* Transposes an 8 by 8 block: to[i * to_stride + j] = from[j * from_stride + i]. */
void transpose_8x8(const float *from, int64_t from_stride, float *to, int64_t to_stride);

#endif
