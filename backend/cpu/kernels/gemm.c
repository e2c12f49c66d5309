/* Blocked matrix multiplication. Rows of a are packed slab by slab into panels of mr rows; then
 * each task packs a block of b and multiplies it with the slab, block of k by block of k, into a
 * tile of c that is stored at the end. */
#include "backend/cpu/kernels/gemm.h"

#include <string.h>

#include "backend/cpu/kernels/slots.h"

enum {
  BLOCK_K = 64,  /* depth of a b block; sums of blocks keep rounding errors small */
  BLOCK_N = 256, /* columns of a task; a multiple of every kernel's nr */
  SLAB_ROWS =
      504, /* rows of a packed at once; a multiple of every kernel's mr, and its c tile fits L2 */
  SLAB_BYTES = 16 << 20,     /* upper bound of a packed slab, whatever k */
  SMALL_SLAB_BYTES = 1 << 20 /* the same where each thread packs its own */
};
static const int64_t MULTIPLIES_PER_THREAD = 256 * 1024; /* that are worth waking one up */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up_to(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

typedef struct gemm_tiling {
  const kgemm *g;
  gemm_kernel kernel;
  size_t size;     /* bytes of an element of the compute type */
  int64_t slab;    /* rows of a slab */
  int64_t block_n; /* columns of a task */
  int64_t block_m; /* rows of a task */
  int64_t block_k;
  int64_t work; /* threads that it is worth */
  bool shared;  /* threads share a slab; else each has products of its own */
  char *slab_memory;
  int64_t batch, row; /* the slab being multiplied: its first row */
  const char *panels; /* (slab / mr, k, mr): the packed slab */
} gemm_tiling;

static int64_t slab_rows(const gemm_tiling *p, int64_t limit) {
  int64_t rows =
      limit / ((int64_t)p->size * (p->g->k > 0 ? p->g->k : 1)) / p->kernel.mr * p->kernel.mr;
  if (rows > SLAB_ROWS) rows = SLAB_ROWS;
  if (rows < p->kernel.mr) rows = p->kernel.mr;
  return least(rows, round_up_to(p->g->m, p->kernel.mr));
}

static size_t slab_bytes(const gemm_tiling *p) {
  return p->g->packed_a ? 0 : ((size_t)(p->slab * p->g->k) * p->size + 63) / 64 * 64;
}
static size_t block_bytes(const gemm_tiling *p) {
  return (size_t)(p->block_k * p->block_n) * p->size;
}
static size_t tile_bytes(const gemm_tiling *p) {
  return (size_t)(p->block_m * p->block_n) * p->size;
}

/* Packs lanes [lane, lane + width) of one operand into a panel, those at and beyond `stop` as
 * zeros. */
static void pack_panel(const gemm_tiling *p, gemm_pack pack, int64_t batch, int64_t lane,
                       int64_t stop, int64_t k, int64_t kn, int64_t width, char *to) {
  int64_t lanes = least(width, stop - lane);
  if (lanes < width) memset(to, 0, (size_t)(kn * width) * p->size);
  pack(p->g->user, batch, lane, lanes, k, kn, width, to);
}

/* Packs panel `i` of the slab that starts at `row`, over all of k. */
static void pack_strip(const gemm_tiling *p, int64_t batch, int64_t row, int64_t i, char *panels) {
  int64_t mr = p->kernel.mr, k = p->g->k;
  pack_panel(p, p->g->pack_a, batch, row + i * mr, p->g->m, 0, k, mr,
             panels + (size_t)(i * mr * k) * p->size);
}

static int64_t count_strips(const gemm_tiling *p) {
  return (p->g->m + p->kernel.mr - 1) / p->kernel.mr;
}

/* Where the panels of the rows from `row` on are in those of all of a. */
static size_t packed_offset(const gemm_tiling *p, int64_t batch, int64_t row) {
  int64_t strip = batch * count_strips(p) + row / p->kernel.mr;
  return (size_t)(strip * p->kernel.mr * p->g->k) * p->size;
}

static const char *packed_slab(const gemm_tiling *p, int64_t batch, int64_t row) {
  return (const char *)p->g->packed_a + packed_offset(p, batch, row);
}

/* Multiplies a packed block of b (kn deep) with the panels of rows [m0, m0 + rows) of the slab. */
static void multiply_block(const gemm_tiling *p, const char *panels, int64_t m0, int64_t rows,
                           int64_t k, int64_t kn, const char *block, int64_t columns, char *tile) {
  int64_t mr = p->kernel.mr, nr = p->kernel.nr, size = (int64_t)p->size;
  for (int64_t j = 0; j < columns; j += nr)
    for (int64_t i = 0; i < rows; i += mr) {
      const char *a = panels + ((m0 + i) * p->g->k + k * mr) * size;
      p->kernel.run(kn, a, block + j * kn * size, tile + (i * p->block_n + j) * size, p->block_n);
    }
}

/* Rows [m0, m0 + rows) of the slab at `row` times columns [n0, n0 + block_n) of b. scratch: a block
 * and a tile. */
static void multiply_tile(const gemm_tiling *p, int64_t batch, int64_t row, const char *panels,
                          int64_t m0, int64_t n0, char *scratch) {
  const kgemm *g = p->g;
  int64_t nr = p->kernel.nr, size = (int64_t)p->size;
  int64_t rows = least(p->block_m, least(p->slab, g->m - row) - m0),
          columns = least(p->block_n, g->n - n0);
  char *block = scratch, *tile = scratch + block_bytes(p);
  memset(tile, 0, tile_bytes(p));
  for (int64_t k = 0; k < g->k; k += p->block_k) {
    int64_t kn = least(p->block_k, g->k - k);
    for (int64_t j = 0; j < columns; j += nr)
      pack_panel(p, g->pack_b, batch, n0 + j, g->n, k, kn, nr, block + j * kn * size);
    multiply_block(p, panels, m0, rows, k, kn, block, columns, tile);
  }
  for (int64_t i = 0; i < rows; i++)
    g->store(g->user, batch, row + m0 + i, n0, columns, tile + i * p->block_n * size);
}

/* ---------------------------------------------------------------- one large product: threads share
 * the slab */

static void pack_strips(void *ctx, int64_t begin, int64_t end) {
  const gemm_tiling *p = ctx;
  for (int64_t i = begin; i < end; i++) pack_strip(p, p->batch, p->row, i, p->slab_memory);
}

static void provide_slab(const kernel_context *ctx, gemm_tiling *p) {
  const kgemm *g = p->g;
  p->panels = g->packed_a ? packed_slab(p, p->batch, p->row) : p->slab_memory;
  if (g->packed_a) return;
  int64_t strips = (least(p->slab, g->m - p->row) + p->kernel.mr - 1) / p->kernel.mr;
  ctx->parallel_for(ctx->pool, strips, p->work > 1 ? 16384 / (g->k + 1) + 1 : strips, pack_strips,
                    p);
}

static int64_t tasks_along_m(const gemm_tiling *p) {
  return (least(p->slab, p->g->m - p->row) + p->block_m - 1) / p->block_m;
}

static void run_tile(const void *user, int64_t task, char *scratch) {
  const gemm_tiling *p = user;
  int64_t along_m = tasks_along_m(p);
  multiply_tile(p, p->batch, p->row, p->panels, task % along_m * p->block_m,
                task / along_m * p->block_n, scratch);
}

/* Smaller tasks where there would be fewer than threads. */
static void split_tasks(gemm_tiling *p, int n_threads) {
  int64_t along_n = (p->g->n + p->block_n - 1) / p->block_n;
  if (along_n >= n_threads) return;
  int64_t parts = (n_threads + along_n - 1) / along_n;
  p->block_m = round_up_to((p->slab + parts - 1) / parts, p->kernel.mr);
}

/* Bytes for a slot of run_slots. */
static size_t tile_scratch(const gemm_tiling *p) { return block_bytes(p) + tile_bytes(p); }

static int64_t count_tasks(const gemm_tiling *p) {
  return tasks_along_m(p) * ((p->g->n + p->block_n - 1) / p->block_n);
}

static void run_shared(const kernel_context *ctx, gemm_tiling *p, char *memory) {
  const kgemm *g = p->g;
  p->slab_memory = memory;
  char *slots = memory + slab_bytes(p);
  for (p->batch = 0; p->batch < g->batch; p->batch++)
    for (p->row = 0; p->row < g->m; p->row += p->slab) {
      provide_slab(ctx, p);
      run_slots_in(ctx, count_tasks(p), p->work, tile_scratch(p), run_tile, p, slots);
    }
}

/* ---------------------------------------------------------------- many products: one thread each
 */

static void run_product(const void *user, int64_t batch, char *scratch) {
  const gemm_tiling *p = user;
  const kgemm *g = p->g;
  char *memory = scratch + block_bytes(p) + tile_bytes(p);
  for (int64_t row = 0; row < g->m; row += p->slab) {
    int64_t rows = least(p->slab, g->m - row);
    const char *panels = g->packed_a ? packed_slab(p, batch, row) : memory;
    for (int64_t i = 0; !g->packed_a && i * p->kernel.mr < rows; i++)
      pack_strip(p, batch, row, i, memory);
    for (int64_t n0 = 0; n0 < g->n; n0 += p->block_n)
      multiply_tile(p, batch, row, panels, 0, n0, scratch);
  }
}

/* Bytes for a slot. */
static size_t product_scratch(const gemm_tiling *p) { return tile_scratch(p) + slab_bytes(p); }

/* ---------------------------------------------------------------- the choice */

/* Columns of a task: equal parts of n, a multiple of the threads where the work is for all of them.
 */
static int64_t columns_per_task(const gemm_tiling *p, int64_t n_threads) {
  int64_t n = p->g->n, parts = (n + BLOCK_N - 1) / BLOCK_N;
  if (p->g->batch * p->g->m * n * p->g->k > n_threads * MULTIPLIES_PER_THREAD)
    parts = round_up_to(parts, n_threads);
  return round_up_to((n + parts - 1) / parts, p->kernel.nr);
}

static gemm_tiling plan_tiling(const kernel_context *ctx, const kgemm *g) {
  gemm_tiling p = {.g = g, .kernel = gemm_kernel_for(g->c), .size = compute_size(g->c)};
  p.block_n = columns_per_task(&p, g->batch > 1 ? 1 : ctx->n_threads);
  p.block_k = least(BLOCK_K, g->k);
  bool small = g->m * g->n * g->k < 4 * MULTIPLIES_PER_THREAD;
  p.shared = g->batch == 1 || (g->batch < ctx->n_threads && !small);
  p.slab = p.block_m = slab_rows(&p, p.shared ? SLAB_BYTES : SMALL_SLAB_BYTES);
  p.work = p.shared ? g->m * g->n * g->k / MULTIPLIES_PER_THREAD
                    : g->batch * (g->m * g->n * g->k / 1024 + 1) / (MULTIPLIES_PER_THREAD / 1024);
  if (p.shared && p.work > 1) split_tasks(&p, ctx->n_threads);
  return p;
}

static bool is_empty(const kgemm *g) { return g->batch == 0 || g->m == 0 || g->n == 0; }

size_t gemm_bytes(const kernel_context *ctx, const kgemm *g) {
  if (is_empty(g)) return 0;
  gemm_tiling p = plan_tiling(ctx, g);
  if (!p.shared) return slots_bytes(ctx, g->batch, p.work, product_scratch(&p));
  return slab_bytes(&p) + slots_bytes(ctx, count_tasks(&p), p.work, tile_scratch(&p));
}

void gemm_run(const kernel_context *ctx, const kgemm *g, char *memory) {
  if (is_empty(g)) return;
  gemm_tiling p = plan_tiling(ctx, g);
  if (p.shared)
    run_shared(ctx, &p, memory);
  else
    run_slots_in(ctx, g->batch, p.work, product_scratch(&p), run_product, &p, memory);
}

/* ---------------------------------------------------------------- packing */

static gemm_tiling panels_of(const kgemm *g) {
  return (gemm_tiling){.g = g, .kernel = gemm_kernel_for(g->c), .size = compute_size(g->c)};
}

size_t gemm_packed_bytes(const kgemm *g) {
  gemm_tiling p = panels_of(g);
  return (size_t)(g->batch * count_strips(&p) * p.kernel.mr * g->k) * p.size;
}

static void pack_all(void *ctx, int64_t begin, int64_t end) {
  const gemm_tiling *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t batch = i / count_strips(p), strip = i % count_strips(p);
    pack_strip(p, batch, 0, strip, p->slab_memory + packed_offset(p, batch, 0));
  }
}

void gemm_pack_a(const kernel_context *ctx, const kgemm *g, char *to) {
  gemm_tiling p = panels_of(g);
  p.slab_memory = to;
  ctx->parallel_for(ctx->pool, g->batch * count_strips(&p), 16384 / (g->k + 1) + 1, pack_all, &p);
}

/* Float panels from rows along k: blocks of 8 by 8 are transposed in registers. Returns how far in
 * k it got. */
static int64_t pack_transposed(const float *from, int64_t lane_stride, int64_t lanes, int64_t kn,
                               int64_t width, float *to) {
  int64_t k = 0;
  for (; k + 8 <= kn; k += 8) {
    int64_t lane = 0;
    for (; lane + 8 <= lanes; lane += 8)
      transpose_8x8(from + lane * lane_stride + k, lane_stride, to + k * width + lane, width);
    for (; lane < lanes; lane++)
      for (int64_t i = k; i < k + 8; i++) to[i * width + lane] = from[lane * lane_stride + i];
  }
  return k;
}

/* A row of class c spread over the lanes of a panel, or any other strided target. */
static void scatter_row(compute_class c, int64_t n, const void *from, void *to, int64_t stride) {
  const float *x4 = from;
  const uint64_t *x8 = from;
  float *y4 = to;
  uint64_t *y8 = to;
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) y4[i * stride] = x4[i];
  else
    for (int64_t i = 0; i < n; i++) y8[i * stride] = x8[i];
}

void gemm_pack_strided(compute_class c, dtype t, const void *data, int64_t lane_stride,
                       int64_t k_stride, int64_t lanes, int64_t kn, int64_t width, void *to) {
  int64_t size = (int64_t)compute_size(c);
  if (k_stride != 1) {
    for (int64_t k = 0; k < kn; k++)
      load_row(c, t, element_at(data, t, k * k_stride), lane_stride, lanes,
               (char *)to + k * width * size);
    return;
  }
  int64_t first = t == DTYPE_F32 ? pack_transposed(data, lane_stride, lanes, kn, width, to) : 0;
  row_block block;
  for (int64_t lane = 0; lane < lanes; lane++)
    for (int64_t k = first; k < kn; k += ROW_BLOCK) {
      int64_t n = least(ROW_BLOCK, kn - k);
      load_row(c, t, element_at(data, t, lane * lane_stride + k), 1, n, &block);
      scatter_row(c, n, &block, (char *)to + (k * width + lane) * size, width);
    }
}
