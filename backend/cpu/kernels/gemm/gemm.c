/* Blocked matrix multiplication. Rows of a are packed slab by slab into strips; then each task
 * packs its columns of b panel by panel, unless all of b is packed, and multiplies them with its
 * rows of the slab, block of k by block of k: into a tile that is stored at the end, or where c
 * lies. */
#include "backend/cpu/kernels/gemm/gemm.h"

#include <string.h>

#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  BLOCK_N = 256,         /* columns of a task; a multiple of every kernel's nr */
  SLAB_ROWS = 264,       /* rows of a packed at once: with their tile of c a block of k of them fits
                            the second-level cache */
  CHAINS_AT_ONCE = 2,    /* blocks of GEMM_BLOCK_K that are added to a part of c while it is in the
                            first-level cache */
  SLAB_BYTES = 16 << 20, /* upper bound of a packed slab, whatever k */
  SMALL_SLAB_BYTES = 1 << 20,  /* the same where each thread packs its own */
  CACHED_A = 128 << 10,        /* elements of a that the second-level cache keeps */
  READS_PER_THREAD = 64 << 10, /* of a packed b that are worth waking one up */
  PACK_GRAIN = 16 << 10
};
static const int64_t MULTIPLIES_PER_THREAD = 256 * 1024; /* that are worth waking one up */

typedef struct gemm_tiling {
  const kgemm *g;
  gemm_kernel kernel;
  int64_t height;            /* rows of a strip of a */
  size_t size;               /* bytes of an element of the compute type */
  size_t b_size;             /* of an element of a panel of b */
  int64_t slab;              /* rows of a slab */
  int64_t block_n;           /* columns of a task */
  int64_t block_m;           /* rows of a task */
  int64_t chain_k;           /* of k that are summed before they are added to c */
  int64_t block_k;           /* of k that are packed at once */
  int64_t deep;              /* of k that a panel of b is multiplied with before the next one */
  int64_t rows_unit, k_unit; /* what rows and k of a packed strip are multiples of */
  bool trims;                /* the last strip has no more rows than there are, up to rows_unit */
  int64_t work;              /* threads that it is worth */
  bool shared;               /* threads share a slab; else each has products of its own */
  char *slab_memory;
  int64_t batch, row; /* the slab being multiplied: its first row */
  const char *panels; /* the packed slab, as in packed_rows */
} gemm_tiling;

static int64_t count_strips(const gemm_tiling *p) { return (p->g->m + p->height - 1) / p->height; }

/* Slabs of equal heights, whole strips, of at most so many bytes. */
static int64_t slab_rows(const gemm_tiling *p, int64_t limit) {
  int64_t strip_bytes = (int64_t)p->size * p->height * (p->g->k > 0 ? p->g->k : 1);
  int64_t rows = p->g->cut.rows > 0 ? least(p->g->cut.rows, SLAB_ROWS) : SLAB_ROWS;
  int64_t most = least(limit / strip_bytes, rows / p->height);
  int64_t strips = count_strips(p), slabs = most > 1 ? (strips + most - 1) / most : strips;
  return (strips + slabs - 1) / slabs * p->height;
}

static size_t slab_bytes(const gemm_tiling *p) {
  const int64_t elements = p->slab * round_up(p->g->k, p->k_unit);
  return p->g->a_is_packed ? 0 : ((size_t)elements * p->size + 63) / 64 * 64;
}
static size_t block_bytes(const gemm_tiling *p) {
  return p->g->b_is_packed ? 0 : (size_t)(p->block_k * p->kernel.nr) * p->size;
}
static bool has_16_bits(const kgemm *g) { return g->c == COMPUTE_F32 && g->a_type != DTYPE_F32; }
/* Whether strips of all of a have 16-bit elements, or codes, which are made floats a block of k at
 * a time. */
static bool widens_a(const kgemm *g) { return g->a_is_packed && (g->strips_a || has_16_bits(g)); }
static size_t strips_bytes(const gemm_tiling *p) {
  return widens_a(p->g) ? (size_t)(p->block_m * p->block_k) * p->size : 0;
}
static size_t tile_bytes(const gemm_tiling *p) {
  return (size_t)(p->block_m * (p->g->place ? p->kernel.nr : p->block_n)) * p->size;
}

/* Packs lanes [lane, lane + width) of one operand into a panel, those at and beyond `stop` as
 * zeros. */
static void pack_panel(const gemm_tiling *p, gemm_pack pack, int64_t batch, int64_t lane,
                       int64_t stop, int64_t k, int64_t kn, int64_t width, char *to) {
  int64_t lanes = least(width, stop - lane);
  if (kn == 0) return;
  if (lanes < width) memset(to, 0, (size_t)(round_up(kn, p->k_unit) * width) * p->size);
  pack(p->g->user, batch, lane, lanes, k, kn, width, to);
}

/* Rows of the strip of which `left` rows and more are in a. */
static int64_t rows_of_strip(const gemm_tiling *p, int64_t left) {
  return p->trims ? least(p->height, left) : p->height;
}

/* Packs strip `i` of all of a, over all of k. */
static void pack_strip(const gemm_tiling *p, int64_t batch, int64_t i, char *to) {
  pack_panel(p, p->g->pack_a, batch, i * p->height, p->g->m, 0, p->g->k, p->height, to);
}

static int64_t slab_height(const gemm_tiling *p, int64_t row) {
  return least(p->slab, p->g->m - row);
}

/* Packs strip `i` of the slab that starts at `row`: into (blocks of k, strips, k, height), so that
 * the strips of a block are one stream of reads. */
static void pack_slab_strip(const gemm_tiling *p, int64_t batch, int64_t row, int64_t i,
                            char *slab) {
  const int64_t first = i * p->height, all = round_up(slab_height(p, row), p->rows_unit);
  for (int64_t k = 0; k < p->g->k; k += p->block_k) {
    const int64_t kn = least(p->block_k, p->g->k - k);
    pack_panel(p, p->g->pack_a, batch, row + first, p->g->m, k, kn,
               round_up(rows_of_strip(p, p->g->m - row - first), p->rows_unit),
               slab + (k * all + first * round_up(kn, p->k_unit)) * (int64_t)p->size);
  }
}

/* Where strip `i` of a product of the batch is in all of a. */
static char *packed_strip(const gemm_tiling *p, const void *packed, int64_t batch, int64_t i) {
  int64_t strip = batch * count_strips(p) + i;
  return element_at(packed, p->g->a_type, strip * p->height * p->g->k);
}

static const char *packed_slab(const gemm_tiling *p, int64_t batch, int64_t row) {
  if (p->g->strips_a) return NULL;
  return packed_strip(p, p->g->packed_a, batch, row / p->height);
}

/* The panel of b at `column`, from k on: in all of b, or packed to `to`. */
static const void *provide_panel(const gemm_tiling *p, int64_t batch, int64_t column, int64_t k,
                                 int64_t kn, char *to) {
  const kgemm *g = p->g;
  const gemm_b b = {.type = g->b_type, .n = g->n, .k = g->k};
  if (g->b_is_packed) return gemm_b_panel(&b, g->packed_b, column, k);
  pack_panel(p, g->pack_b, batch, column, g->n, k, kn, p->kernel.nr, to);
  return to;
}

/* Where a block of k of some strips is; `step` bytes from one of their rows to the next. */
typedef struct strip_block {
  const char *at;
  int64_t step;
} strip_block;

/* A slab of a product of the batch: its first row, and where it is packed. */
typedef struct packed_rows {
  int64_t batch, row;
  /* Of pack_slab_strip, or of all of a (strips, k, height); NULL: strips_a gives them. */
  const char *panels;
} packed_rows;

/* Rows [m0, m0 + rows) of a slab from k on, as floats. */
static void widen_strips(const gemm_tiling *p, const packed_rows *a, int64_t m0, int64_t rows,
                         int64_t k, int64_t kn, char *to) {
  const kgemm *g = p->g;
  const int64_t height = p->height, size = (int64_t)p->size;
  if (g->strips_a)
    g->strips_a(g->user, a->batch, a->row + m0, rows, k, kn, height, (float *)(void *)to);
  for (int64_t i = 0; !g->strips_a && i < rows; i += height)
    load_row(COMPUTE_F32, g->a_type, element_at(a->panels, g->a_type, (m0 + i) * g->k + k * height),
             1, kn * height, to + i * kn * size);
}

/* A block of k of rows from m0 on; `widened`: where it was made floats. */
static strip_block find_strips(const gemm_tiling *p, const packed_rows *a, int64_t m0, int64_t k,
                               int64_t kn, const char *widened) {
  const kgemm *g = p->g;
  const int64_t size = (int64_t)p->size;
  if (widens_a(g)) return (strip_block){widened, kn * size};
  if (g->a_is_packed)
    return (strip_block){a->panels + (m0 * g->k + k * p->height) * size, g->k * size};
  const int64_t all = round_up(slab_height(p, a->row), p->rows_unit),
                deep = round_up(kn, p->k_unit);
  return (strip_block){a->panels + (k * all + m0 * deep) * size, deep * size};
}

/* A part of c, and what its sums begin with. */
typedef struct part_sums {
  char *c;
  int64_t c_step; /* elements */
  const char *from;
  int64_t from_step;
} part_sums;

/* The products of kn of k, a panel of b with a strip. */
static void multiply_strip(const gemm_tiling *p, int64_t rows, const char *a, int64_t kn,
                           const char *b, part_sums s, const char *next, int64_t next_step) {
  const int64_t size = (int64_t)p->size, b_size = (int64_t)p->b_size,
                packed = round_up(rows, p->rows_unit);
  for (int64_t k = 0; k == 0 || k < kn; k += p->chain_k) {
    const gemm_tile t = {.k = least(p->chain_k, kn - k),
                         .a = a + k * packed * size,
                         .b = b + k * p->kernel.nr * b_size,
                         .c = s.c,
                         .ldc = s.c_step,
                         .from = k == 0 ? s.from : s.c,
                         .from_step = k == 0 ? s.from_step : s.c_step,
                         .next = next + k * next_step,
                         .next_step = next_step};
    p->kernel.run(&t, (int)rows);
  }
}

/* The same with each strip of some rows. Of a packed b the block that follows is asked for on the
 * way. */
static void multiply_panel(const gemm_tiling *p, strip_block a, int64_t rows, int64_t kn,
                           const char *b, part_sums s) {
  const int64_t size = (int64_t)p->size, bytes = kn * p->kernel.nr * (int64_t)p->b_size,
                step = p->g->b_is_packed ? bytes / (kn * ceil_div(rows, p->height) + 1) + 1 : 0;
  const char *next = b + bytes;
  for (int64_t i = 0; i < rows; i += p->height, next += kn * step) {
    const int64_t n = rows_of_strip(p, rows - i);
    multiply_strip(p, n, a.at + i * a.step, kn, b, s, next, step);
    s.c += p->height * s.c_step * size;
    s.from += p->height * s.from_step * size;
  }
}

/* Rows [m0, m0 + rows) of a slab times columns [n0, n0 + columns) of b. */
typedef struct tile_task {
  const packed_rows *slab;
  int64_t m0, rows, n0, columns;
  gemm_place place; /* of the first row and column; c is NULL where it is not written in place */
  char *block, *tile, *widened;
} tile_task;

static bool is_placed(const tile_task *t, const gemm_tiling *p, int64_t j) {
  return t->place.c && j + p->kernel.nr <= t->columns;
}

/* Of the panel at column j, before any of k. */
static part_sums begin_sums(const gemm_tiling *p, const tile_task *t, int64_t j) {
  static const _Alignas(64) char zeros[GEMM_ROW_BYTES];
  if (!t->place.c) return (part_sums){t->tile + j * (int64_t)p->size, p->block_n, zeros, 0};
  if (!is_placed(t, p, j)) return (part_sums){t->tile, p->kernel.nr, t->tile, p->kernel.nr};
  part_sums s = {(char *)(t->place.c + j), t->place.c_step, zeros, 0};
  if (t->place.from) {
    s.from = (const char *)(t->place.from + j);
    s.from_step = t->place.from_step;
  }
  return s;
}

/* Panels of b times [k, k + kn) of k, block by block. */
static void multiply_panels(const gemm_tiling *p, const tile_task *t, int64_t k, int64_t kn) {
  const int64_t nr = p->kernel.nr;
  if (widens_a(p->g) && kn > 0) widen_strips(p, t->slab, t->m0, t->rows, k, kn, t->widened);
  for (int64_t j = 0; j < t->columns; j += nr) {
    part_sums s = begin_sums(p, t, j);
    for (int64_t at = k; at == k || at < k + kn; at += p->block_k) {
      const int64_t n = least(p->block_k, k + kn - at);
      if (at > 0) {
        s.from = s.c;
        s.from_step = s.c_step;
      }
      multiply_panel(p, find_strips(p, t->slab, t->m0, at, n, t->widened), t->rows, n,
                     provide_panel(p, t->slab->batch, t->n0 + j, at, n, t->block), s);
    }
  }
}

/* The columns behind the last whole panel, in the tile. */
static void begin_edge(const gemm_tiling *p, const tile_task *t) {
  const int64_t nr = p->kernel.nr, n = t->columns % nr, at = t->columns - n;
  const gemm_place *from = &t->place;
  memset(t->tile, 0, (size_t)(t->rows * nr) * p->size);
  for (int64_t i = 0; from->from && i < t->rows; i++)
    memcpy(t->tile + i * nr * (int64_t)p->size, from->from + i * from->from_step + at,
           (size_t)n * p->size);
}
static void store_edge(const gemm_tiling *p, const tile_task *t) {
  const int64_t nr = p->kernel.nr, n = t->columns % nr, at = t->columns - n;
  for (int64_t i = 0; i < t->rows; i++)
    memcpy(t->place.c + i * t->place.c_step + at, t->tile + i * nr * (int64_t)p->size,
           (size_t)n * p->size);
}

static void store_tile(const gemm_tiling *p, const tile_task *t) {
  const kgemm *g = p->g;
  for (int64_t i = 0; i < t->rows; i++)
    g->store(g->user, t->slab->batch, t->slab->row + t->m0 + i, t->n0, t->columns,
             t->tile + i * p->block_n * (int64_t)p->size);
}

static gemm_place place_tile(const gemm_tiling *p, int64_t batch, int64_t row, int64_t column) {
  if (!p->g->place) return (gemm_place){0};
  gemm_place at = p->g->place(p->g->user, batch);
  at.c += row * at.c_step + column;
  if (at.from) at.from += row * at.from_step + column;
  return at;
}

/* Rows [m0, m0 + block_m) of a slab times columns [n0, n0 + block_n) of b. scratch: of
 * tile_scratch. */
static void multiply_tile(const gemm_tiling *p, const packed_rows *slab, int64_t m0, int64_t n0,
                          char *scratch) {
  const kgemm *g = p->g;
  const int64_t row = slab->row + m0;
  tile_task t = {.slab = slab,
                 .m0 = m0,
                 .rows = least(p->block_m, least(slab->row + p->slab, g->m) - row),
                 .n0 = n0,
                 .columns = least(p->block_n, g->n - n0),
                 .place = place_tile(p, slab->batch, row, n0),
                 .block = scratch,
                 .tile = scratch + block_bytes(p)};
  t.widened = t.tile + tile_bytes(p);
  const bool has_edge = t.place.c && t.columns % p->kernel.nr > 0;
  if (has_edge) begin_edge(p, &t);
  const gemm_blocks *blocks = p->kernel.blocks;
  if (blocks) blocks->begin();
  for (int64_t k = 0; k == 0 || k < g->k; k += p->deep)
    multiply_panels(p, &t, k, least(p->deep, g->k - k));
  if (blocks) blocks->end();
  if (has_edge) store_edge(p, &t);
  if (!t.place.c) store_tile(p, &t);
  if (g->finish) g->finish(g->user, slab->batch, row, t.rows, n0, t.columns);
}

/* ---------------------------------------------------------------- one large product: threads share
 * the slab */

static void pack_strips(void *ctx, int64_t begin, int64_t end) {
  const gemm_tiling *p = ctx;
  for (int64_t i = begin; i < end; i++) pack_slab_strip(p, p->batch, p->row, i, p->slab_memory);
}

static void provide_slab(const kernel_context *ctx, gemm_tiling *p) {
  const kgemm *g = p->g;
  p->panels = g->a_is_packed ? packed_slab(p, p->batch, p->row) : p->slab_memory;
  if (g->a_is_packed) return;
  int64_t strips = (least(p->slab, g->m - p->row) + p->height - 1) / p->height;
  ctx->parallel_for(ctx->pool, strips,
                    p->work > 1 ? PACK_GRAIN / (g->k * p->height + 1) + 1 : strips, pack_strips, p);
}

static int64_t tasks_along_m(const gemm_tiling *p) {
  return (least(p->slab, p->g->m - p->row) + p->block_m - 1) / p->block_m;
}

static void run_tile(const void *user, int64_t task, char *scratch) {
  const gemm_tiling *p = user;
  int64_t along_m = tasks_along_m(p);
  const packed_rows slab = {p->batch, p->row, p->panels};
  multiply_tile(p, &slab, task % along_m * p->block_m, task / along_m * p->block_n, scratch);
}

/* Smaller tasks where there would be fewer than threads. */
static void split_tasks(gemm_tiling *p, int n_threads) {
  int64_t along_n = (p->g->n + p->block_n - 1) / p->block_n;
  if (along_n >= n_threads) return;
  int64_t parts = (n_threads + along_n - 1) / along_n;
  p->block_m = round_up((p->slab + parts - 1) / parts, p->height);
}

/* Bytes for a slot of run_slots. */
static size_t tile_scratch(const gemm_tiling *p) {
  return block_bytes(p) + tile_bytes(p) + strips_bytes(p);
}

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
  char *memory = scratch + tile_scratch(p);
  for (int64_t row = 0; row < g->m; row += p->slab) {
    int64_t rows = least(p->slab, g->m - row);
    const packed_rows slab = {batch, row, g->a_is_packed ? packed_slab(p, batch, row) : memory};
    for (int64_t i = 0; !g->a_is_packed && i * p->height < rows; i++)
      pack_slab_strip(p, batch, row, i, memory);
    for (int64_t n0 = 0; n0 < g->n; n0 += p->block_n) multiply_tile(p, &slab, 0, n0, scratch);
  }
}

/* Bytes for a slot. */
static size_t product_scratch(const gemm_tiling *p) { return tile_scratch(p) + slab_bytes(p); }

/* ---------------------------------------------------------------- the choice */

/* Columns of a task: equal parts of n, a multiple of the threads where the work is for all of them.
 */
static int64_t columns_per_task(const gemm_tiling *p, int64_t n_threads) {
  int64_t n = p->g->n, parts = (n + BLOCK_N - 1) / BLOCK_N;
  if (p->g->cut.columns > 0) return round_up(least(n, p->g->cut.columns), p->kernel.nr);
  if (p->g->batch * p->g->m * n * p->g->k > n_threads * MULTIPLIES_PER_THREAD)
    parts = round_up(parts, n_threads);
  return round_up((n + parts - 1) / parts, p->kernel.nr);
}

/* The most rows of a that divide GEMM_STRIP. */
static int64_t dividing_height(const kgemm *g, const gemm_kernel *kernel) {
  int64_t height = 1;
  while (2 * height <= least(least(kernel->mr, g->m), GEMM_STRIP)) height *= 2;
  return height;
}

/* Strips of equal heights, of which floats have kernels. */
static int64_t strip_height(const kgemm *g, const gemm_kernel *kernel) {
  if (g->strips_a) return dividing_height(g, kernel);
  if (g->c != COMPUTE_F32 || g->m == 0) return kernel->mr;
  if (kernel->blocks) return least(kernel->mr, round_up(g->m, kernel->blocks->rows));
  int64_t strips = (g->m + kernel->mr - 1) / kernel->mr;
  return (g->m + strips - 1) / strips;
}

static gemm_tiling begin_tiling(const kgemm *g) {
  dtype b = g->b_is_packed ? g->b_type : DTYPE_F32;
  gemm_tiling p = {.g = g,
                   .kernel = g->kernel.run ? g->kernel : gemm_kernel_for(g->c, b),
                   .size = compute_size(g->c)};
  p.b_size = g->b_is_packed ? dtype_size(g->b_type) : p.size;
  p.height = strip_height(g, &p.kernel);
  p.trims = g->c == COMPUTE_F32 && !g->a_is_packed;
  p.rows_unit = p.kernel.blocks ? p.kernel.blocks->rows : p.trims ? 1 : p.height;
  p.k_unit = p.kernel.blocks ? p.kernel.blocks->k : 1;
  return p;
}

int64_t gemm_strip_height(const kgemm *g) { return begin_tiling(g).height; }

/* All of k of a packed panel is one stream of reads: as much as the rows stay in the cache. */
static int64_t depth_of(const gemm_tiling *p) {
  const int64_t blocks = CACHED_A / (p->block_m * p->block_k + 1);
  if (!p->g->b_is_packed || widens_a(p->g) || blocks < 2) return p->block_k;
  return blocks * p->block_k;
}

static gemm_tiling plan_tiling(const kernel_context *ctx, const kgemm *g) {
  gemm_tiling p = begin_tiling(g);
  int64_t multiplies = g->m * g->n * g->k;
  p.block_n = columns_per_task(&p, g->batch > 1 ? 1 : ctx->n_threads);
  const gemm_blocks *blocks = p.kernel.blocks;
  p.chain_k = blocks ? blocks->chain : GEMM_BLOCK_K * gemm_chains((int)p.height);
  p.block_k = least(blocks ? p.chain_k : CHAINS_AT_ONCE * p.chain_k, g->k > 0 ? g->k : 1);
  bool small = multiplies < 4 * MULTIPLIES_PER_THREAD;
  p.shared = g->batch == 1 || (g->batch < ctx->n_threads && !small);
  p.slab = p.block_m = slab_rows(&p, p.shared ? SLAB_BYTES : SMALL_SLAB_BYTES);
  p.work = p.shared ? multiplies / MULTIPLIES_PER_THREAD
                    : g->batch * (multiplies / 1024 + 1) / (MULTIPLIES_PER_THREAD / 1024);
  if (g->b_is_packed) p.work += g->n * g->k / READS_PER_THREAD;
  if (p.shared && p.work > 1) split_tasks(&p, ctx->n_threads);
  p.deep = depth_of(&p);
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

size_t gemm_packed_bytes(const kgemm *g) {
  gemm_tiling p = begin_tiling(g);
  return (size_t)(g->batch * count_strips(&p) * p.height * g->k) * dtype_size(g->a_type);
}

/* A strip of 16-bit elements, as many k at a time as a row buffer holds. */
static void pack_16_bits(const gemm_tiling *p, int64_t batch, int64_t strip, char *to) {
  const kgemm *g = p->g;
  int64_t height = p->height, deep = ROW_BLOCK / height;
  row_block some;
  for (int64_t k = 0; k < g->k; k += deep) {
    int64_t kn = least(deep, g->k - k);
    pack_panel(p, g->pack_a, batch, strip * height, g->m, k, kn, height, (char *)&some);
    store_row(COMPUTE_F32, g->a_type, element_at(to, g->a_type, k * height), 1, kn * height, &some);
  }
}

static void pack_all(void *ctx, int64_t begin, int64_t end) {
  const gemm_tiling *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t batch = i / count_strips(p), strip = i % count_strips(p);
    if (has_16_bits(p->g))
      pack_16_bits(p, batch, strip, packed_strip(p, p->slab_memory, batch, strip));
    else
      pack_strip(p, batch, strip, packed_strip(p, p->slab_memory, batch, strip));
  }
}

void gemm_pack_a(const kernel_context *ctx, const kgemm *g, char *to) {
  gemm_tiling p = begin_tiling(g);
  p.slab_memory = to;
  ctx->parallel_for(ctx->pool, g->batch * count_strips(&p), PACK_GRAIN / (g->k + 1) + 1, pack_all,
                    &p);
}
