/* Blocked matrix multiplication c (m, n) = a (m, k) * b (k, n). Packed a: strips (k, height);
 * packed b: panels (k, nr). Loop order: batch, slab of rows, task (columns of b by rows of the
 * slab), run of k, panel of b, block of k, strip of a. Slabs of a and panels of b that are not
 * packed yet are packed before they are multiplied. Sums go to a tile that is stored at the end, or
 * directly to c. */
#include "backend/cpu/kernels/gemm/gemm.h"

#include <string.h>

#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  BLOCK_N = 256,         /* columns of a task; a multiple of each kernel's nr */
  SLAB_ROWS = 264,       /* rows of a packed at once; a block of k of them and their c fit in the
                            second-level cache */
  CHAINS_AT_ONCE = 2,    /* blocks of GEMM_BLOCK_K that are added to a part of c while it is in the
                            first-level cache */
  SLAB_BYTES = 16 << 20, /* maximum size of a packed slab, for any k */
  SMALL_SLAB_BYTES = 1 << 20,  /* maximum size if each thread packs its own slab */
  CACHED_A = 128 << 10,        /* elements of a that the second-level cache keeps */
  READS_PER_THREAD = 64 << 10, /* elements of a packed b that justify waking a thread */
  PACK_GRAIN = 16 << 10
};
static const int64_t MULTIPLIES_PER_THREAD = 256 * 1024; /* enough to justify waking a thread */

typedef struct gemm_tiling {
  const kgemm *g;
  gemm_kernel kernel;
  int64_t height;            /* rows of a strip of a */
  size_t size;               /* bytes of an element of the compute type */
  size_t b_size;             /* bytes of an element of a panel of b */
  int64_t slab;              /* rows of a slab */
  int64_t block_n;           /* columns of a task */
  int64_t block_m;           /* rows of a task */
  int64_t chain_k;           /* k that are summed before they are added to c */
  int64_t block_k;           /* k that are packed at once */
  int64_t deep;              /* k that a panel of b is multiplied with before the next panel */
  int64_t rows_unit, k_unit; /* the rows and k of a packed strip are multiples of these */
  bool trims;   /* the last strip is shorter: it has the rows that exist, rounded up to rows_unit */
  int64_t work; /* number of threads that the work justifies */
  bool shared;  /* threads share a slab; otherwise each computes whole products */
  char *slab_memory;
  int64_t batch, row; /* batch and first row of the current slab */
  const char *panels; /* the packed slab, see packed_rows */
} gemm_tiling;

static int64_t count_strips(const gemm_tiling *tiling) {
  return (tiling->g->m + tiling->height - 1) / tiling->height;
}

/* Returns the rows of slabs of equal heights, in whole strips, of at most `limit` bytes. */
static int64_t slab_rows(const gemm_tiling *tiling, int64_t limit) {
  int64_t strip_bytes =
      (int64_t)tiling->size * tiling->height * (tiling->g->k > 0 ? tiling->g->k : 1);
  int64_t rows = tiling->g->cut.rows > 0 ? min_i64(tiling->g->cut.rows, SLAB_ROWS) : SLAB_ROWS;
  int64_t most = min_i64(limit / strip_bytes, rows / tiling->height);
  int64_t strips = count_strips(tiling), slabs = most > 1 ? (strips + most - 1) / most : strips;
  return (strips + slabs - 1) / slabs * tiling->height;
}

static size_t slab_bytes(const gemm_tiling *tiling) {
  const int64_t elements = tiling->slab * round_up(tiling->g->k, tiling->k_unit);
  return tiling->g->a_is_packed ? 0 : ((size_t)elements * tiling->size + 63) / 64 * 64;
}
static size_t kernel_gemm_block_bytes(const gemm_tiling *tiling) {
  return tiling->g->b_is_packed ? 0 : (size_t)(tiling->block_k * tiling->kernel.nr) * tiling->size;
}
static bool has_16_bits(const kgemm *kgemm) {
  return kgemm->c == COMPUTE_F32 && kgemm->a_type != DTYPE_F32;
}
/* True if a is packed in 16-bit elements or codes, which are converted block by block of k. */
static bool widens_a(const kgemm *kgemm) {
  return kgemm->a_is_packed && (kgemm->strips_a || has_16_bits(kgemm));
}
static size_t strips_bytes(const gemm_tiling *tiling) {
  return widens_a(tiling->g) ? (size_t)(tiling->block_m * tiling->block_k) * tiling->size : 0;
}
static size_t tile_bytes(const gemm_tiling *tiling) {
  return (size_t)(tiling->block_m * (tiling->g->place ? tiling->kernel.nr : tiling->block_n)) *
         tiling->size;
}

/* Packs lanes [lane, lane + width) of an operand into a panel. Lanes from `stop` on are zeros. */
static void kernel_gemm_pack_panel(const gemm_tiling *tiling, gemm_pack pack, int64_t batch,
                                   int64_t lane, int64_t stop, int64_t k, int64_t kn, int64_t width,
                                   char *to) {
  int64_t lanes = min_i64(width, stop - lane);
  if (kn == 0) return;
  if (lanes < width) memset(to, 0, (size_t)(round_up(kn, tiling->k_unit) * width) * tiling->size);
  pack(tiling->g->user, batch, lane, lanes, k, kn, width, to);
}

/* Returns the rows of a strip if a has `left` rows from the strip's first row on. */
static int64_t rows_of_strip(const gemm_tiling *tiling, int64_t left) {
  return tiling->trims ? min_i64(tiling->height, left) : tiling->height;
}

/* Packs strip `i` of all of a, over all of k. */
static void kernel_gemm_pack_strip(const gemm_tiling *tiling, int64_t batch, int64_t i, char *to) {
  kernel_gemm_pack_panel(tiling, tiling->g->pack_a, batch, i * tiling->height, tiling->g->m, 0,
                         tiling->g->k, tiling->height, to);
}

static int64_t slab_height(const gemm_tiling *tiling, int64_t row) {
  return min_i64(tiling->slab, tiling->g->m - row);
}

/* Packs strip `i` of the slab that starts at `row` into (blocks of k, strips, k, height), so that
 * the strips of a block are one stream of reads. */
static void pack_slab_strip(const gemm_tiling *tiling, int64_t batch, int64_t row, int64_t i,
                            char *slab) {
  const int64_t first = i * tiling->height,
                all = round_up(slab_height(tiling, row), tiling->rows_unit);
  for (int64_t k = 0; k < tiling->g->k; k += tiling->block_k) {
    const int64_t kn = min_i64(tiling->block_k, tiling->g->k - k);
    kernel_gemm_pack_panel(
        tiling, tiling->g->pack_a, batch, row + first, tiling->g->m, k, kn,
        round_up(rows_of_strip(tiling, tiling->g->m - row - first), tiling->rows_unit),
        slab + (k * all + first * round_up(kn, tiling->k_unit)) * (int64_t)tiling->size);
  }
}

/* Returns strip `i` of a product of the batch in a packed a. */
static char *packed_strip(const gemm_tiling *tiling, const void *packed, int64_t batch, int64_t i) {
  int64_t strip = batch * count_strips(tiling) + i;
  return element_at(packed, tiling->g->a_type, strip * tiling->height * tiling->g->k);
}

static const char *packed_slab(const gemm_tiling *tiling, int64_t batch, int64_t row) {
  if (tiling->g->strips_a) return NULL;
  return packed_strip(tiling, tiling->g->packed_a, batch, row / tiling->height);
}

/* Returns the panel of b at `column`, from k on, in a packed b, or else packed to `to`. */
static const void *provide_panel(const gemm_tiling *tiling, int64_t batch, int64_t column,
                                 int64_t k, int64_t kn, char *to) {
  const kgemm *kgemm = tiling->g;
  const gemm_b gemm_b = {.type = kgemm->b_type, .n = kgemm->n, .k = kgemm->k};
  if (kgemm->b_is_packed) return gemm_b_panel(&gemm_b, kgemm->packed_b, column, k);
  kernel_gemm_pack_panel(tiling, kgemm->pack_b, batch, column, kgemm->n, k, kn, tiling->kernel.nr,
                         to);
  return to;
}

/* A block of k of some strips, with `stride` bytes between strips. */
typedef struct strip_block {
  const char *at;
  int64_t stride;
} strip_block;

/* A slab of a product of the batch. */
typedef struct packed_rows {
  int64_t batch, row;
  /* from pack_slab_strip, or a packed a (strips, k, height); NULL: strips_a makes them */
  const char *panels;
} packed_rows;

/* Converts rows [m0, m0 + rows) of a slab, from k on, to floats. */
static void kernel_gemm_widen_strips(const gemm_tiling *tiling, const packed_rows *packed_rows,
                                     int64_t m0, int64_t rows, int64_t k, int64_t kn, char *to) {
  const kgemm *kgemm = tiling->g;
  const int64_t height = tiling->height, size = (int64_t)tiling->size;
  if (kgemm->strips_a)
    kgemm->strips_a(kgemm->user, packed_rows->batch, packed_rows->row + m0, rows, k, kn, height,
                    (float *)(void *)to);
  for (int64_t i = 0; !kgemm->strips_a && i < rows; i += height)
    load_row(COMPUTE_F32, kgemm->a_type,
             element_at(packed_rows->panels, kgemm->a_type, (m0 + i) * kgemm->k + k * height), 1,
             kn * height, to + i * kn * size);
}

/* Finds a block of k of rows from m0 on. widened: where kernel_gemm_widen_strips wrote it. */
static strip_block find_strips(const gemm_tiling *tiling, const packed_rows *rows, int64_t m0,
                               int64_t k, int64_t kn, const char *widened) {
  const kgemm *kgemm = tiling->g;
  const int64_t size = (int64_t)tiling->size;
  if (widens_a(kgemm)) return (strip_block){widened, kn * size};
  if (kgemm->a_is_packed)
    return (strip_block){rows->panels + (m0 * kgemm->k + k * tiling->height) * size,
                         kgemm->k * size};
  const int64_t all = round_up(slab_height(tiling, rows->row), tiling->rows_unit),
                deep = round_up(kn, tiling->k_unit);
  return (strip_block){rows->panels + (k * all + m0 * deep) * size, deep * size};
}

/* A tile of c, and the initial values of its sums. */
typedef struct tile_sums {
  char *c;
  int64_t c_stride; /* elements */
  const char *from;
  int64_t from_stride;
} tile_sums;

/* Multiplies kn of k of a panel of b with a strip. */
static void kernel_gemm_multiply_strip(const gemm_tiling *tiling, int64_t rows, const char *a,
                                       int64_t kn, const char *b, tile_sums sums, const char *next,
                                       int64_t next_stride) {
  const int64_t size = (int64_t)tiling->size, b_size = (int64_t)tiling->b_size,
                packed = round_up(rows, tiling->rows_unit);
  for (int64_t k = 0; k == 0 || k < kn; k += tiling->chain_k) {
    const gemm_tile tile = {.k = min_i64(tiling->chain_k, kn - k),
                            .a = a + k * packed * size,
                            .b = b + k * tiling->kernel.nr * b_size,
                            .c = sums.c,
                            .ldc = sums.c_stride,
                            .from = k == 0 ? sums.from : sums.c,
                            .from_stride = k == 0 ? sums.from_stride : sums.c_stride,
                            .next = next + k * next_stride,
                            .next_stride = next_stride};
    tiling->kernel.run(&tile, (int)rows);
  }
}

/* Multiplies a panel of b by strips of a. Prefetches the next block of a packed b. */
static void multiply_panel(const gemm_tiling *tiling, strip_block block, int64_t rows, int64_t kn,
                           const char *b, tile_sums sums) {
  const int64_t size = (int64_t)tiling->size,
                bytes = kn * tiling->kernel.nr * (int64_t)tiling->b_size,
                stride = tiling->g->b_is_packed
                             ? bytes / (kn * ceil_div(rows, tiling->height) + 1) + 1
                             : 0;
  const char *next = b + bytes;
  for (int64_t i = 0; i < rows; i += tiling->height, next += kn * stride) {
    const int64_t n = rows_of_strip(tiling, rows - i);
    kernel_gemm_multiply_strip(tiling, n, block.at + i * block.stride, kn, b, sums, next, stride);
    sums.c += tiling->height * sums.c_stride * size;
    sums.from += tiling->height * sums.from_stride * size;
  }
}

/* A task: rows [m0, m0 + rows) of a slab times columns [n0, n0 + columns) of b. */
typedef struct tile_task {
  const packed_rows *slab;
  int64_t m0, rows, n0, columns;
  gemm_place place; /* first row and column; c is NULL if results are stored at the end */
  char *block, *tile, *widened;
} tile_task;

static bool kernel_gemm_is_placed(const tile_task *task, const gemm_tiling *tiling, int64_t j) {
  return task->place.c && j + tiling->kernel.nr <= task->columns;
}

/* Returns the sums of the panel at column j, before any k is added. */
static tile_sums begin_sums(const gemm_tiling *tiling, const tile_task *task, int64_t j) {
  static const _Alignas(64) char zeros[GEMM_ROW_BYTES];
  if (!task->place.c)
    return (tile_sums){task->tile + j * (int64_t)tiling->size, tiling->block_n, zeros, 0};
  if (!kernel_gemm_is_placed(task, tiling, j))
    return (tile_sums){task->tile, tiling->kernel.nr, task->tile, tiling->kernel.nr};
  tile_sums sums = {(char *)(task->place.c + j), task->place.c_stride, zeros, 0};
  if (task->place.from) {
    sums.from = (const char *)(task->place.from + j);
    sums.from_stride = task->place.from_stride;
  }
  return sums;
}

/* Multiplies panels of b with [k, k + kn) of k, block by block. */
static void multiply_panels(const gemm_tiling *tiling, const tile_task *task, int64_t k,
                            int64_t kn) {
  const int64_t nr = tiling->kernel.nr;
  if (widens_a(tiling->g) && kn > 0)
    kernel_gemm_widen_strips(tiling, task->slab, task->m0, task->rows, k, kn, task->widened);
  for (int64_t j = 0; j < task->columns; j += nr) {
    tile_sums sums = begin_sums(tiling, task, j);
    for (int64_t at = k; at == k || at < k + kn; at += tiling->block_k) {
      const int64_t n = min_i64(tiling->block_k, k + kn - at);
      if (at > 0) {
        sums.from = sums.c;
        sums.from_stride = sums.c_stride;
      }
      multiply_panel(
          tiling, find_strips(tiling, task->slab, task->m0, at, n, task->widened), task->rows, n,
          provide_panel(tiling, task->slab->batch, task->n0 + j, at, n, task->block), sums);
    }
  }
}

/* Columns after the last whole panel are summed in the tile. */
static void begin_edge(const gemm_tiling *tiling, const tile_task *task) {
  const int64_t nr = tiling->kernel.nr, n = task->columns % nr, at = task->columns - n;
  const gemm_place *from = &task->place;
  memset(task->tile, 0, (size_t)(task->rows * nr) * tiling->size);
  for (int64_t i = 0; from->from && i < task->rows; i++)
    memcpy(task->tile + i * nr * (int64_t)tiling->size, from->from + i * from->from_stride + at,
           (size_t)n * tiling->size);
}
static void store_edge(const gemm_tiling *tiling, const tile_task *task) {
  const int64_t nr = tiling->kernel.nr, n = task->columns % nr, at = task->columns - n;
  for (int64_t i = 0; i < task->rows; i++)
    memcpy(task->place.c + i * task->place.c_stride + at,
           task->tile + i * nr * (int64_t)tiling->size, (size_t)n * tiling->size);
}

static void kernel_gemm_store_tile(const gemm_tiling *tiling, const tile_task *task) {
  const kgemm *kgemm = tiling->g;
  for (int64_t i = 0; i < task->rows; i++)
    kgemm->store(kgemm->user, task->slab->batch, task->slab->row + task->m0 + i, task->n0,
                 task->columns, task->tile + i * tiling->block_n * (int64_t)tiling->size);
}

static gemm_place place_tile(const gemm_tiling *tiling, int64_t batch, int64_t row,
                             int64_t column) {
  if (!tiling->g->place) return (gemm_place){0};
  gemm_place at = tiling->g->place(tiling->g->user, batch);
  at.c += row * at.c_stride + column;
  if (at.from) at.from += row * at.from_stride + column;
  return at;
}

/* Multiplies rows [m0, m0 + block_m) of a slab with columns [n0, n0 + block_n) of b. */
static void kernel_gemm_multiply_tile(const gemm_tiling *tiling, const packed_rows *slab,
                                      int64_t m0, int64_t n0, char *scratch) {
  const kgemm *kgemm = tiling->g;
  const int64_t row = slab->row + m0;
  tile_task task = {
      .slab = slab,
      .m0 = m0,
      .rows = min_i64(tiling->block_m, min_i64(slab->row + tiling->slab, kgemm->m) - row),
      .n0 = n0,
      .columns = min_i64(tiling->block_n, kgemm->n - n0),
      .place = place_tile(tiling, slab->batch, row, n0),
      .block = scratch,
      .tile = scratch + kernel_gemm_block_bytes(tiling)};
  task.widened = task.tile + tile_bytes(tiling);
  const bool has_edge = task.place.c && task.columns % tiling->kernel.nr > 0;
  if (has_edge) begin_edge(tiling, &task);
  const gemm_blocks *blocks = tiling->kernel.blocks;
  if (blocks) blocks->begin();
  for (int64_t k = 0; k == 0 || k < kgemm->k; k += tiling->deep)
    multiply_panels(tiling, &task, k, min_i64(tiling->deep, kgemm->k - k));
  if (blocks) blocks->end();
  if (has_edge) store_edge(tiling, &task);
  if (!task.place.c) kernel_gemm_store_tile(tiling, &task);
  if (kgemm->finish) kgemm->finish(kgemm->user, slab->batch, row, task.rows, n0, task.columns);
}

/* ---------------------------------------------------------------- one product for all threads */

static void kernel_gemm_pack_strips(void *ctx, int64_t begin, int64_t end) {
  const gemm_tiling *tiling = ctx;
  for (int64_t i = begin; i < end; i++)
    pack_slab_strip(tiling, tiling->batch, tiling->row, i, tiling->slab_memory);
}

static void provide_slab(const kernel_context *ctx, gemm_tiling *tiling) {
  const kgemm *kgemm = tiling->g;
  tiling->panels =
      kgemm->a_is_packed ? packed_slab(tiling, tiling->batch, tiling->row) : tiling->slab_memory;
  if (kgemm->a_is_packed) return;
  int64_t strips =
      (min_i64(tiling->slab, kgemm->m - tiling->row) + tiling->height - 1) / tiling->height;
  ctx->parallel_for(ctx->pool, strips,
                    tiling->work > 1 ? PACK_GRAIN / (kgemm->k * tiling->height + 1) + 1 : strips,
                    kernel_gemm_pack_strips, tiling);
}

static int64_t tasks_along_m(const gemm_tiling *tiling) {
  return (min_i64(tiling->slab, tiling->g->m - tiling->row) + tiling->block_m - 1) /
         tiling->block_m;
}

static void kernel_gemm_run_tile(const void *user, int64_t task, char *scratch) {
  const gemm_tiling *tiling = user;
  int64_t along_m = tasks_along_m(tiling);
  const packed_rows slab = {tiling->batch, tiling->row, tiling->panels};
  kernel_gemm_multiply_tile(tiling, &slab, task % along_m * tiling->block_m,
                            task / along_m * tiling->block_n, scratch);
}

/* Makes smaller tasks if there would be fewer than threads. */
static void split_tasks(gemm_tiling *tiling, int n_threads) {
  int64_t along_n = (tiling->g->n + tiling->block_n - 1) / tiling->block_n;
  if (along_n >= n_threads) return;
  int64_t shares = (n_threads + along_n - 1) / along_n;
  tiling->block_m = round_up((tiling->slab + shares - 1) / shares, tiling->height);
}

/* Returns the bytes of a slot of run_slots. */
static size_t tile_scratch(const gemm_tiling *tiling) {
  return kernel_gemm_block_bytes(tiling) + tile_bytes(tiling) + strips_bytes(tiling);
}

static int64_t count_tasks(const gemm_tiling *tiling) {
  return tasks_along_m(tiling) * ((tiling->g->n + tiling->block_n - 1) / tiling->block_n);
}

static void kernel_gemm_run_shared(const kernel_context *ctx, gemm_tiling *tiling, char *memory) {
  const kgemm *kgemm = tiling->g;
  tiling->slab_memory = memory;
  char *slots = memory + slab_bytes(tiling);
  for (tiling->batch = 0; tiling->batch < kgemm->batch; tiling->batch++)
    for (tiling->row = 0; tiling->row < kgemm->m; tiling->row += tiling->slab) {
      provide_slab(ctx, tiling);
      run_slots_in(ctx, count_tasks(tiling), tiling->work, tile_scratch(tiling),
                   kernel_gemm_run_tile, tiling, slots);
    }
}

/* ---------------------------------------------------------------- a product for each thread */

static void kernel_gemm_run_product(const void *user, int64_t batch, char *scratch) {
  const gemm_tiling *tiling = user;
  const kgemm *kgemm = tiling->g;
  char *memory = scratch + tile_scratch(tiling);
  for (int64_t row = 0; row < kgemm->m; row += tiling->slab) {
    int64_t rows = min_i64(tiling->slab, kgemm->m - row);
    const packed_rows slab = {batch, row,
                              kgemm->a_is_packed ? packed_slab(tiling, batch, row) : memory};
    for (int64_t i = 0; !kgemm->a_is_packed && i * tiling->height < rows; i++)
      pack_slab_strip(tiling, batch, row, i, memory);
    for (int64_t n0 = 0; n0 < kgemm->n; n0 += tiling->block_n)
      kernel_gemm_multiply_tile(tiling, &slab, 0, n0, scratch);
  }
}

/* Returns the bytes of a slot. */
static size_t product_scratch(const gemm_tiling *tiling) {
  return tile_scratch(tiling) + slab_bytes(tiling);
}

/* ---------------------------------------------------------------- the choice */

/* Returns the columns per task: equal shares of n, as many as a multiple of threads if
 * worthwhile. */
static int64_t columns_per_task(const gemm_tiling *tiling, int64_t n_threads) {
  int64_t n = tiling->g->n, shares = (n + BLOCK_N - 1) / BLOCK_N;
  if (tiling->g->cut.columns > 0)
    return round_up(min_i64(n, tiling->g->cut.columns), tiling->kernel.nr);
  if (tiling->g->batch * tiling->g->m * n * tiling->g->k > n_threads * MULTIPLIES_PER_THREAD)
    shares = round_up(shares, n_threads);
  return round_up((n + shares - 1) / shares, tiling->kernel.nr);
}

/* Returns the largest height of the kernel's strips that divides GEMM_STRIP. */
static int64_t dividing_height(const kgemm *kgemm, const gemm_kernel *kernel) {
  int64_t height = 1;
  while (2 * height <= min_i64(min_i64(kernel->mr, kgemm->m), GEMM_STRIP)) height *= 2;
  return height;
}

/* Returns the height of strips, equal for all; kernels of floats exist for each height. */
static int64_t strip_height(const kgemm *kgemm, const gemm_kernel *kernel) {
  if (kgemm->strips_a) return dividing_height(kgemm, kernel);
  if (kgemm->c != COMPUTE_F32 || kgemm->m == 0) return kernel->mr;
  if (kernel->blocks) return min_i64(kernel->mr, round_up(kgemm->m, kernel->blocks->rows));
  int64_t strips = (kgemm->m + kernel->mr - 1) / kernel->mr;
  return (kgemm->m + strips - 1) / strips;
}

static gemm_tiling begin_tiling(const kgemm *kgemm) {
  dtype b = kgemm->b_is_packed ? kgemm->b_type : DTYPE_F32;
  gemm_tiling tiling = {.g = kgemm,
                        .kernel = kgemm->kernel.run ? kgemm->kernel : gemm_kernel_for(kgemm->c, b),
                        .size = compute_size(kgemm->c)};
  tiling.b_size = kgemm->b_is_packed ? dtype_size(kgemm->b_type) : tiling.size;
  tiling.height = strip_height(kgemm, &tiling.kernel);
  tiling.trims = kgemm->c == COMPUTE_F32 && !kgemm->a_is_packed;
  tiling.rows_unit = tiling.kernel.blocks ? tiling.kernel.blocks->rows
                     : tiling.trims       ? 1
                                          : tiling.height;
  tiling.k_unit = tiling.kernel.blocks ? tiling.kernel.blocks->k : 1;
  return tiling;
}

int64_t gemm_strip_height(const kgemm *kgemm) { return begin_tiling(kgemm).height; }

/* Reads as much k of a packed panel, a stream of reads, as the rows stay in the cache. */
static int64_t kernel_gemm_depth_of(const gemm_tiling *tiling) {
  const int64_t blocks = CACHED_A / (tiling->block_m * tiling->block_k + 1);
  if (!tiling->g->b_is_packed || widens_a(tiling->g) || blocks < 2) return tiling->block_k;
  return blocks * tiling->block_k;
}

static gemm_tiling kernel_gemm_plan_tiling(const kernel_context *ctx, const kgemm *kgemm) {
  gemm_tiling tiling = begin_tiling(kgemm);
  int64_t multiplies = kgemm->m * kgemm->n * kgemm->k;
  tiling.block_n = columns_per_task(&tiling, kgemm->batch > 1 ? 1 : ctx->n_threads);
  const gemm_blocks *blocks = tiling.kernel.blocks;
  tiling.chain_k = blocks ? blocks->chain : GEMM_BLOCK_K * gemm_chains((int)tiling.height);
  tiling.block_k = min_i64(blocks ? tiling.chain_k : CHAINS_AT_ONCE * tiling.chain_k,
                           kgemm->k > 0 ? kgemm->k : 1);
  bool small = multiplies < 4 * MULTIPLIES_PER_THREAD;
  tiling.shared = kgemm->batch == 1 || (kgemm->batch < ctx->n_threads && !small);
  tiling.slab = tiling.block_m = slab_rows(&tiling, tiling.shared ? SLAB_BYTES : SMALL_SLAB_BYTES);
  tiling.work = tiling.shared
                    ? multiplies / MULTIPLIES_PER_THREAD
                    : kgemm->batch * (multiplies / 1024 + 1) / (MULTIPLIES_PER_THREAD / 1024);
  if (kgemm->b_is_packed) tiling.work += kgemm->n * kgemm->k / READS_PER_THREAD;
  if (tiling.shared && tiling.work > 1) split_tasks(&tiling, ctx->n_threads);
  tiling.deep = kernel_gemm_depth_of(&tiling);
  return tiling;
}

static bool kernel_gemm_is_empty(const kgemm *kgemm) {
  return kgemm->batch == 0 || kgemm->m == 0 || kgemm->n == 0;
}

size_t gemm_bytes(const kernel_context *ctx, const kgemm *kgemm) {
  if (kernel_gemm_is_empty(kgemm)) return 0;
  gemm_tiling tiling = kernel_gemm_plan_tiling(ctx, kgemm);
  if (!tiling.shared) return slots_bytes(ctx, kgemm->batch, tiling.work, product_scratch(&tiling));
  return slab_bytes(&tiling) +
         slots_bytes(ctx, count_tasks(&tiling), tiling.work, tile_scratch(&tiling));
}

void gemm_run(const kernel_context *ctx, const kgemm *kgemm, char *memory) {
  if (kernel_gemm_is_empty(kgemm)) return;
  gemm_tiling tiling = kernel_gemm_plan_tiling(ctx, kgemm);
  if (tiling.shared)
    kernel_gemm_run_shared(ctx, &tiling, memory);
  else
    run_slots_in(ctx, kgemm->batch, tiling.work, product_scratch(&tiling), kernel_gemm_run_product,
                 &tiling, memory);
}

/* ---------------------------------------------------------------- packing */

size_t gemm_packed_bytes(const kgemm *kgemm) {
  gemm_tiling tiling = begin_tiling(kgemm);
  return (size_t)(kgemm->batch * count_strips(&tiling) * tiling.height * kgemm->k) *
         dtype_size(kgemm->a_type);
}

/* Packs a strip of 16-bit elements, as many k at a time as a row buffer holds. */
static void pack_16_bits(const gemm_tiling *tiling, int64_t batch, int64_t strip, char *to) {
  const kgemm *kgemm = tiling->g;
  int64_t height = tiling->height, deep = ROW_BLOCK / height;
  row_block some;
  for (int64_t k = 0; k < kgemm->k; k += deep) {
    int64_t kn = min_i64(deep, kgemm->k - k);
    kernel_gemm_pack_panel(tiling, kgemm->pack_a, batch, strip * height, kgemm->m, k, kn, height,
                           (char *)&some);
    store_row(COMPUTE_F32, kgemm->a_type, element_at(to, kgemm->a_type, k * height), 1, kn * height,
              &some);
  }
}

static void kernel_gemm_pack_all(void *ctx, int64_t begin, int64_t end) {
  const gemm_tiling *tiling = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t batch = i / count_strips(tiling), strip = i % count_strips(tiling);
    if (has_16_bits(tiling->g))
      pack_16_bits(tiling, batch, strip, packed_strip(tiling, tiling->slab_memory, batch, strip));
    else
      kernel_gemm_pack_strip(tiling, batch, strip,
                             packed_strip(tiling, tiling->slab_memory, batch, strip));
  }
}

void gemm_pack_a(const kernel_context *ctx, const kgemm *kgemm, char *to) {
  gemm_tiling tiling = begin_tiling(kgemm);
  tiling.slab_memory = to;
  ctx->parallel_for(ctx->pool, kgemm->batch * count_strips(&tiling),
                    PACK_GRAIN / (kgemm->k + 1) + 1, kernel_gemm_pack_all, &tiling);
}
