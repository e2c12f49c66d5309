/* MatmulInteger with tiles: sums (32, 32) = bias + a * b. A task computes up to MAX_ROWS rows of a
 * group of strips. Its first rows read the strips from memory, the others from the second-level
 * cache. The task's part of a stays in the first-level cache. The formula of requantise_args runs
 * on sums that are still in the first-level cache. Loop order: 32 rows, block of k, strip. */
#include "backend/cpu/kernels/gemm/matmul_integer_tiles.h"

#include <string.h>

#include "backend/cpu/kernels/gemm/amx.h"
#include "backend/cpu/kernels/gemm/matmul_integer_kernels.h"
#include "backend/cpu/kernels/support/features.h"
#include "base/counts.h"

enum {
  SIDE = 16, /* rows, words and columns of a tile */
  VNNI_ROWS = 8,
  TILE_BYTES = SIDE * TILED_BYTES,
  STEP_BYTES = 2 * TILE_BYTES, /* bytes of a strip's step */
  LINE = 64,
  STEP_LINES = STEP_BYTES / LINE,
  MAX_ROWS = 256,  /* per task */
  GROUP = 8,       /* maximum strips per task, which fit in the second-level cache */
  BLOCK_STEPS = 8, /* steps per block; a block of rows and a strip fit in the first-level cache */
  TASKS = 4,       /* minimum per thread, so that all threads end at about the same time */
  ROW_GRAIN = 64 * 1024
};
static const int64_t MIN_TILED_K = 20; /* for a smaller k, tiles take longer than words */

/* The product of 32 or 16 rows with a strip. */
typedef struct tile_block {
  const unsigned char *a; /* (rows, row_bytes) */
  int64_t row_bytes, steps;
  const unsigned char *tiles; /* (steps, STEP_BYTES) */
  const int32_t *begin;       /* (TILED_COLUMNS) */
  int32_t *sums;              /* (TILED_ROWS, TILED_COLUMNS) */
  bool adds;                  /* products are added to sums; otherwise sums start with begin */
  const unsigned char *next;  /* memory to prefetch, `lines` cache lines per step */
  int lines;
} tile_block;

typedef void (*multiply_fn)(const tile_block *block, int rows, bool is_signed);
typedef struct tile_kernel {
  multiply_fn multiply;
  void (*begin)(void), (*end)(void); /* called around all multiplications of a task; may be NULL */
} tile_kernel;

typedef struct tiled_product {
  const matmul_integer_args *args;
  tile_kernel kernel;
  integer_rows rows;
  int64_t steps, strips, padded_rows, row_bytes;
  bool is_whole;          /* true if rows of a need no padding */
  const unsigned char *a; /* (padded_rows, row_bytes) */
  int64_t share, shares;  /* strips per task; tasks per chunk */
  int64_t chunks;         /* blocks of MAX_ROWS rows */
} tiled_product;

/* Returns the number of steps, at least 1. If k is 0, there is one step of zeros. */
static int64_t step_count(const matmul_integer_args *args) {
  return max_i64(ceil_div(args->k, TILED_BYTES), 1);
}

/* ---------------------------------------------------------------- products */

static void matmul_integer_tiles_multiply_portable(const tile_block *block, int rows,
                                                   bool is_signed) {
  for (int r = 0; r < rows; r++) {
    uint32_t *to = (uint32_t *)block->sums + r * TILED_COLUMNS; /* modulo 2^32, as tiles add */
    if (!block->adds) memcpy(to, block->begin, TILED_COLUMNS * sizeof *to);
    for (int64_t i = 0; i < block->steps * TILED_BYTES; i++) {
      const unsigned char x = block->a[r * block->row_bytes + i];
      const signed char *tile = (const signed char *)block->tiles + i / TILED_BYTES * STEP_BYTES +
                                i % TILED_BYTES / 4 * LINE + i % 4;
      for (int c = 0; c < TILED_COLUMNS; c++)
        to[c] += (uint32_t)((is_signed ? (int)(signed char)x : (int)x) *
                            tile[c / SIDE * TILE_BYTES + c % SIDE * 4]);
    }
  }
}

#if KERNEL_X86
KERNEL_INLINE TARGET_AMX void matmul_integer_tiles_add_step(int halves, bool is_signed,
                                                            const tile_block *block,
                                                            const unsigned char *a,
                                                            const unsigned char *tiles) {
  const size_t step = (size_t)block->row_bytes;
  _tile_loadd(4, a, step);
  _tile_loadd(6, tiles, TILED_BYTES);
  _tile_loadd(7, tiles + TILE_BYTES, TILED_BYTES);
  if (halves > 1) _tile_loadd(5, a + SIDE * block->row_bytes, step);
  if (is_signed) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    if (halves > 1) _tile_dpbssd(2, 5, 6);
    if (halves > 1) _tile_dpbssd(3, 5, 7);
  } else {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    if (halves > 1) _tile_dpbusd(2, 5, 6);
    if (halves > 1) _tile_dpbusd(3, 5, 7);
  }
}

/* Multiplies one or two halves of a block, of 16 rows each. */
KERNEL_INLINE TARGET_AMX void multiply_halves(int halves, bool is_signed, const tile_block *block) {
  enum { ROW = TILED_COLUMNS * sizeof(int32_t) };
  const unsigned char *a = block->a, *tiles = block->tiles, *next = block->next;
  /* begin is one row for all rows of sums */
  const int32_t *from = block->adds ? block->sums : block->begin,
                *below = block->adds ? block->sums + SIDE * TILED_COLUMNS : from;
  const size_t row = block->adds ? ROW : 0;
  amx_compiler_barrier();
  _tile_loadd(0, from, row);
  _tile_loadd(1, from + SIDE, row);
  if (halves > 1) _tile_loadd(2, below, row);
  if (halves > 1) _tile_loadd(3, below + SIDE, row);
  for (int64_t i = 0; i < block->steps; i++, a += TILED_BYTES, tiles += STEP_BYTES) {
    for (int j = 0; j < block->lines; j++, next += LINE) prefetch_line(next, 0);
    matmul_integer_tiles_add_step(halves, is_signed, block, a, tiles);
  }
  _tile_stored(0, block->sums, ROW);
  _tile_stored(1, block->sums + SIDE, ROW);
  if (halves > 1) _tile_stored(2, block->sums + SIDE * TILED_COLUMNS, ROW);
  if (halves > 1) _tile_stored(3, block->sums + SIDE * TILED_COLUMNS + SIDE, ROW);
  amx_compiler_barrier();
}

static TARGET_AMX void matmul_integer_tiles_multiply_amx(const tile_block *block, int rows,
                                                         bool is_signed) {
  if (rows > SIDE && is_signed) multiply_halves(2, true, block);
  if (rows > SIDE && !is_signed) multiply_halves(2, false, block);
  if (rows <= SIDE && is_signed) multiply_halves(1, true, block);
  if (rows <= SIDE && !is_signed) multiply_halves(1, false, block);
}

/* Computes VNNI_ROWS rows from r on. Signed bytes are biased by 128, which the sums subtract. */
KERNEL_INLINE TARGET_AVX512_VNNI void multiply_rows(const bool is_signed, const tile_block *block,
                                                    int r) {
  const __m512i flip = _mm512_set1_epi32((int)0x80808080U);
  __m512i sum[VNNI_ROWS][2], more[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  int32_t *sums = block->sums + r * TILED_COLUMNS;
#pragma GCC unroll 16
  for (int i = 0; i < 2 * VNNI_ROWS; i++)
    sum[i / 2][i % 2] = _mm512_loadu_si512(
        (block->adds ? sums + i / 2 * TILED_COLUMNS : block->begin) + i % 2 * SIDE);
  for (int64_t w = 0; w < block->steps * SIDE; w++) {
    const unsigned char *a = block->a + r * block->row_bytes + 4 * w,
                        *tile = block->tiles + w / SIDE * STEP_BYTES + w % SIDE * LINE;
    const __m512i b[2] = {_mm512_loadu_si512(tile), _mm512_loadu_si512(tile + TILE_BYTES)};
    for (int h = 0; h < 2 && is_signed; h++) more[h] = _mm512_dpbusd_epi32(more[h], flip, b[h]);
#pragma GCC unroll 8
    for (int i = 0; i < VNNI_ROWS; i++, a += block->row_bytes) {
      int32_t word;
      memcpy(&word, a, sizeof word);
      __m512i x = _mm512_set1_epi32(word);
      if (is_signed) x = _mm512_xor_si512(x, flip);
      sum[i][0] = _mm512_dpbusd_epi32(sum[i][0], x, b[0]);
      sum[i][1] = _mm512_dpbusd_epi32(sum[i][1], x, b[1]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < 2 * VNNI_ROWS; i++)
    _mm512_storeu_si512(sums + i / 2 * TILED_COLUMNS + i % 2 * SIDE,
                        _mm512_sub_epi32(sum[i / 2][i % 2], more[i % 2]));
}

/* Used by a program that was compiled on a machine with AMX and runs on one without. */
static TARGET_AVX512_VNNI void matmul_integer_tiles_multiply_vnni(const tile_block *block, int rows,
                                                                  bool is_signed) {
  for (int r = 0; r < rows; r += VNNI_ROWS) {
    if (is_signed)
      multiply_rows(true, block, r);
    else
      multiply_rows(false, block, r);
  }
}

static TARGET_AMX void matmul_integer_tiles_begin_amx(void) { amx_begin(); }
static TARGET_AMX void matmul_integer_tiles_end_amx(void) { amx_end(); }
#endif

static tile_kernel choose_tile_kernel(void) {
#if KERNEL_X86
  if (cpu_has_amx())
    return (tile_kernel){matmul_integer_tiles_multiply_amx, matmul_integer_tiles_begin_amx,
                         matmul_integer_tiles_end_amx};
  if (cpu_has_avx512_vnni()) return (tile_kernel){.multiply = matmul_integer_tiles_multiply_vnni};
#endif
  return (tile_kernel){.multiply = matmul_integer_tiles_multiply_portable};
}

bool matmul_integer_suits_tiles(const matmul_integer_args *args) {
  return cpu_has_amx() && args->k >= MIN_TILED_K;
}

static void matmul_integer_tiles_store_block(const tiled_product *product, int64_t row,
                                             int64_t column, int rows, const int32_t *sums) {
  for (int at = 0; at < TILED_COLUMNS && column + at < product->args->n; at += INTEGER_COLUMNS) {
    const out_tile tile = {
        .row = row,
        .column = column + at,
        .rows = rows,
        .columns = (int)min_i64(INTEGER_COLUMNS, product->args->n - column - at)};
    product->rows.store(product->args, &tile,
                        &(out_sums){.at = sums + at, .row = TILED_COLUMNS, .column = 1});
  }
}

/* Copies a strip's part of the bias, padded with zeros. */
static void begin_strip(const matmul_integer_args *args, int64_t strip, int32_t *to) {
  const int64_t column = strip * TILED_COLUMNS;
  memset(to, 0, TILED_COLUMNS * sizeof *to);
  if (args->bias)
    memcpy(to, args->bias + column, (size_t)min_i64(TILED_COLUMNS, args->n - column) * sizeof *to);
}

/* Multiplies a block of rows by a group of strips, block of k by block of k. prefetches: prefetches
 * the next strips. */
static void matmul_integer_tiles_run_rows(const tiled_product *product, int64_t first,
                                          int64_t strips, int64_t row, int rows, bool prefetches) {
  _Alignas(64) int32_t sums[GROUP][TILED_ROWS * TILED_COLUMNS], begin[TILED_COLUMNS];
  const int64_t bytes = product->steps * STEP_BYTES;
  tile_block block = {
      .row_bytes = product->row_bytes, .lines = prefetches ? STEP_LINES : 0, .begin = begin};
  for (int64_t step = 0; step < product->steps; step += block.steps) {
    block.steps = min_i64(BLOCK_STEPS, product->steps - step);
    block.a = product->a + row * product->row_bytes + step * TILED_BYTES;
    block.adds = step > 0;
    for (int64_t i = 0; i < strips; i++) {
      block.tiles =
          (const unsigned char *)product->args->tiles + (first + i) * bytes + step * STEP_BYTES;
      block.next =
          i + 1 < strips ? block.tiles + bytes : block.tiles - i * bytes + block.steps * STEP_BYTES;
      block.sums = sums[i];
      if (!block.adds) begin_strip(product->args, first + i, begin);
      product->kernel.multiply(&block, rows, product->args->type == DTYPE_I8);
      if (step + block.steps == product->steps)
        matmul_integer_tiles_store_block(product, row, (first + i) * TILED_COLUMNS, rows,
                                         block.sums);
    }
  }
}

static void matmul_integer_tiles_run_tasks(void *ctx, int64_t begin, int64_t end) {
  const tiled_product *product = ctx;
  if (product->kernel.begin) product->kernel.begin();
  for (int64_t task = begin; task < end; task++) {
    const int64_t first = task / product->shares * MAX_ROWS,
                  strip = task % product->shares * product->share;
    const int64_t strips = min_i64(product->share, product->strips - strip),
                  last = min_i64(first + MAX_ROWS, product->args->m);
    for (int64_t row = first; row < last; row += TILED_ROWS)
      matmul_integer_tiles_run_rows(product, strip, strips, row,
                                    (int)min_i64(TILED_ROWS, last - row), row == first);
  }
  if (product->kernel.end) product->kernel.end();
}

/* ---------------------------------------------------------------- the kernel */

/* Copies rows, with zeros after each row and after the last row. */
static void matmul_integer_tiles_pad_rows(void *ctx, int64_t begin, int64_t end) {
  const tiled_product *product = ctx;
  const size_t k = (size_t)product->args->k, after = (size_t)product->row_bytes - k;
  for (int64_t r = begin; r < end; r++) {
    unsigned char *to = (unsigned char *)(uintptr_t)product->a + r * product->row_bytes;
    const bool is_valid = r < product->args->m;
    if (is_valid) memcpy(to, (const unsigned char *)product->args->a + r * product->args->k, k);
    memset(is_valid ? to + k : to, 0, is_valid ? after : (size_t)product->row_bytes);
  }
}

static tiled_product matmul_integer_tiles_make_product(const kernel_context *ctx,
                                                       const matmul_integer_args *args) {
  tiled_product product = {
      .args = args, .kernel = choose_tile_kernel(), .rows = choose_integer_rows(), .a = args->a};
  product.steps = step_count(args);
  product.strips = ceil_div(args->n, TILED_COLUMNS);
  product.row_bytes = product.steps * TILED_BYTES;
  product.padded_rows = round_up(args->m, SIDE);
  product.is_whole = product.row_bytes == args->k && product.padded_rows == args->m;
  product.chunks = ceil_div(args->m, MAX_ROWS);
  product.share = max_i64(product.strips * product.chunks / (TASKS * (int64_t)ctx->n_threads), 1);
  product.share = min_i64(product.share, min_i64(GROUP, product.strips));
  product.shares = product.share ? ceil_div(product.strips, product.share) : 0;
  return product;
}

size_t matmul_integer_tiles_scratch(const kernel_context *ctx, const matmul_integer_args *args) {
  const tiled_product product = matmul_integer_tiles_make_product(ctx, args);
  size_t bytes;
  if (product.is_whole || args->n == 0) return 0;
  if (__builtin_mul_overflow((size_t)product.padded_rows, (size_t)product.row_bytes, &bytes) ||
      bytes > SIZE_MAX / 4)
    return SIZE_MAX / 4;
  return kernel_scratch_size(bytes);
}

bool matmul_integer_run_tiles(const kernel_context *ctx, const matmul_integer_args *args) {
  tiled_product product = matmul_integer_tiles_make_product(ctx, args);
  if (args->m == 0 || args->n == 0) return true;
  if (!product.is_whole) {
    unsigned char *rows = ctx->scratch(ctx->pool, matmul_integer_tiles_scratch(ctx, args));
    if (!rows) return false;
    product.a = rows;
    ctx->parallel_for(ctx->pool, product.padded_rows, ROW_GRAIN / (product.row_bytes + 1) + 1,
                      matmul_integer_tiles_pad_rows, &product);
  }
  ctx->parallel_for(ctx->pool, product.chunks * product.shares, 1, matmul_integer_tiles_run_tasks,
                    &product);
  return true;
}

/* ---------------------------------------------------------------- packing */

static size_t matmul_integer_tiles_pack_scratch(const kernel_context *ctx, const void *args) {
  const matmul_integer_args *own = args;
  const size_t strips = (size_t)ceil_div(own->n, TILED_COLUMNS), steps = (size_t)step_count(own);
  (void)ctx;
  return kernel_scratch_size(strips * steps * STEP_BYTES);
}

typedef struct packing {
  const matmul_integer_args *args;
  unsigned char *to;
} packing;

static void matmul_integer_tiles_pack_strips(void *ctx, int64_t begin, int64_t end) {
  const packing *packing = ctx;
  const matmul_integer_args *args = packing->args;
  const int64_t bytes = step_count(args) * STEP_BYTES;
  memset(packing->to + begin * bytes, 0, (size_t)((end - begin) * bytes));
  for (int64_t n = begin * TILED_COLUMNS; n < min_i64(end * TILED_COLUMNS, args->n); n++) {
    unsigned char *to = packing->to + n / TILED_COLUMNS * bytes +
                        n % TILED_COLUMNS / SIDE * TILE_BYTES + n % SIDE * 4;
    for (int64_t k = 0; k < args->k; k += 4)
      memcpy(to + k / TILED_BYTES * STEP_BYTES + k % TILED_BYTES / 4 * LINE,
             args->b + n * args->k + k, (size_t)min_i64(4, args->k - k));
  }
}

static bool matmul_integer_tiles_pack(const kernel_context *ctx, const void *args) {
  packing packing = {.args = args};
  packing.to = ctx->scratch(ctx->pool, matmul_integer_tiles_pack_scratch(ctx, args));
  if (packing.to)
    ctx->parallel_for(ctx->pool, ceil_div(packing.args->n, TILED_COLUMNS), 1,
                      matmul_integer_tiles_pack_strips, &packing);
  return packing.to;
}

const kernel_desc kernel_matmul_integer_pack = {.name = "matmul_integer_pack",
                                                .run = matmul_integer_tiles_pack,
                                                .scratch = matmul_integer_tiles_pack_scratch,
                                                .args_size = sizeof(matmul_integer_args),
                                                .operands = {OPERAND(matmul_integer_args, b)}};
