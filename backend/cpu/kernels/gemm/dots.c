/* out (m, n) = a, rounded to 8 bits, * panels of codes, by integer dot products. Rows of a are
 * packed as tiles (dots.h). Loop order: batch, task (tiles, bands of panels), block of k, band,
 * tile. */
#include "backend/cpu/kernels/gemm/dots.h"

#include <string.h>

#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"
#include "base/rounded.h"

enum {
  MULTIPLIES_PER_THREAD = 256 << 10, /* multiplications that justify waking a thread */
  TASKS_PER_THREAD = 4,
  TASK_ROWS = 128,
  STRIP_ROWS = 16, /* rows of a task from which several bands of panels share reads of rows */
  STRIP_COLUMNS = 128,
  PACKED_PARTS = 64, /* parts of a row that are packed at a time */
  PACK_GRAIN = 1     /* minimum work of a thread, in units of PACKED_PARTS parts of a tile */
};

static int64_t dots_ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

typedef struct dots {
  const codes_product *p;
  dots_kernel kernel;
  int rows, panels;     /* per tile */
  int64_t tiles, bands; /* tiles of rows; bands of panels */
  int64_t tasks_of_rows, tasks_of_panels;
  int64_t tiles_of_task, bands_of_task;
  int64_t strip; /* bands whose sums a task keeps at once */
  int64_t work;  /* number of threads that the work justifies */
  int64_t batch;
  int32_t *a; /* (tiles, parts, words of a part) */
} dots;

static int64_t band_columns(const dots *dots) { return (int64_t)dots->panels * CODE_PANEL; }

/* Cuts a product into tasks of tiles and bands of panels. */
static dots plan_dots(const kernel_context *ctx, const codes_product *product) {
  const kgemm *kgemm = product->g;
  dots dots = {.p = product, .kernel = dots_kernel_for()};
  dots.rows = (int)dots_ceil_of(kgemm->m, dots_ceil_of(kgemm->m, dots.kernel.max_rows));
  dots.panels = dots.kernel.panels(dots.rows);
  dots.tiles = dots_ceil_of(kgemm->m, dots.rows);
  dots.bands = dots_ceil_of(kgemm->n, band_columns(&dots));
  dots.work = kgemm->m * kgemm->n * kgemm->k / MULTIPLIES_PER_THREAD;
  dots.tiles_of_task = min_i64(dots.tiles, TASK_ROWS / dots.rows);
  dots.tasks_of_rows = dots_ceil_of(dots.tiles, dots.tiles_of_task);
  int64_t wanted = dots.work > 1 ? TASKS_PER_THREAD * ctx->n_threads : 1;
  dots.bands_of_task = dots.bands * dots.tasks_of_rows / wanted;
  if (dots.bands_of_task < 1) dots.bands_of_task = 1;
  dots.tasks_of_panels = dots_ceil_of(dots.bands, dots.bands_of_task);
  int64_t most =
      dots.tiles_of_task * dots.rows < STRIP_ROWS ? 1 : STRIP_COLUMNS / band_columns(&dots);
  dots.strip = min_i64(dots.bands_of_task, most);
  return dots;
}

/* ---------------------------------------------------------------- rows */

static void dots_store_words(int bits, const int8_t *q, int rows, int32_t *to) {
  for (int i = 0; i < DOT_WORDS; i++) {
    int8_t bytes[4];
    for (int j = 0; j < 4; j++) bytes[j] = q[bits == 8 ? 4 * i + j : i / 2 * 8 + 2 * j + i % 2];
    memcpy(&to[i * rows], bytes, sizeof bytes);
  }
}

/* Packs a part of a row. to: its first word. */
static void store_part(const code_panels *panels, const float *x, int rows, int32_t *to) {
  int8_t q[DECODED_AT_ONCE];
  const int deep = DECODED_AT_ONCE / panels->spans;
  float scale = rounded_group(x, DECODED_AT_ONCE, q);
  dots_store_words(panels->bits, q, rows, to);
  memcpy(&to[DOT_WORDS * rows], &scale, sizeof scale);
  for (int span = 0; span < panels->spans; span++) {
    int32_t sum = 0, *at = &to[(DOT_WORDS + 1 + span) * rows];
    for (int k = 0; k < deep; k++) sum += q[span * deep + k];
    float scaled = scale * (float)sum;
    if (panels->has_lows)
      memcpy(at, &scaled, sizeof scaled);
    else
      *at = sum * panels->least;
  }
}

/* Packs PACKED_PARTS parts of a tile, or those that are left. Rows after the last are zeros. */
static void pack_some(const dots *dots, int64_t tile, int64_t part) {
  const kgemm *kgemm = dots->p->g;
  const code_panels *of = &dots->p->of;
  int64_t words = dots_part_words(of, dots->rows), n = min_i64(PACKED_PARTS, of->parts - part);
  int64_t k = part * DECODED_AT_ONCE, kn = min_i64(n * DECODED_AT_ONCE, kgemm->k - k);
  int32_t *to = dots->a + (tile * of->parts + part) * words;
  float x[PACKED_PARTS * DECODED_AT_ONCE];
  for (int r = 0; r < dots->rows; r++) {
    int64_t row = tile * dots->rows + r, filled = row < kgemm->m ? kn : 0;
    if (filled) kgemm->pack_a(kgemm->user, dots->batch, row, 1, k, kn, 1, x);
    memset(x + filled, 0, (size_t)(n * DECODED_AT_ONCE - filled) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
      store_part(of, x + i * DECODED_AT_ONCE, dots->rows, to + i * words + r);
  }
}

static int64_t packs_of_tile(const dots *dots) {
  return dots_ceil_of(dots->p->of.parts, PACKED_PARTS);
}

static void dots_pack_rows(void *ctx, int64_t begin, int64_t end) {
  const dots *dots = ctx;
  int64_t packs = packs_of_tile(dots);
  for (int64_t i = begin; i < end; i++) pack_some(dots, i / packs, i % packs * PACKED_PARTS);
}

/* ---------------------------------------------------------------- products */

static size_t dots_a_bytes(const dots *dots) {
  int64_t words = dots->tiles * dots->p->of.parts * dots_part_words(&dots->p->of, dots->rows);
  return kernel_scratch_size((size_t)words * sizeof(int32_t));
}
static int64_t strip_columns(const dots *dots) { return dots->strip * band_columns(dots); }
static int64_t task_sums(const dots *dots) {
  return dots->tiles_of_task * dots->rows * strip_columns(dots);
}
static size_t dots_task_scratch(const dots *dots) {
  int64_t factors = dots->p->of.block * dots_part_factors(&dots->p->of, dots->panels);
  return (size_t)(task_sums(dots) + factors) * sizeof(float);
}
static int64_t dots_task_count(const dots *dots) {
  return dots->tasks_of_rows * dots->tasks_of_panels;
}

/* Multiplies tiles [first, first + n) by one block of k of a band of panels. */
static void multiply_blocks(const dots *dots, int64_t first, int64_t n, int64_t band, int64_t part,
                            dots_tile *tile) {
  const code_panels *of = &dots->p->of;
  int64_t words = dots_part_words(of, dots->rows),
          last = dots_ceil_of(dots->p->g->n, CODE_PANEL) - 1;
  float *sums = tile->sums;
  for (int i = 0; i < dots->panels; i++) /* panels beyond the last repeat it */
    tile->block[i] = (const char *)dots->p->panels +
                     (size_t)min_i64(band * dots->panels + i, last) * of->bytes +
                     code_block_at(of, part);
  tile->n = (int)min_i64(of->block, of->parts - part);
  if (dots->rows > dots->kernel.in_order)
    dots->kernel.read_factors(tile, dots->panels, tile->factors);
  for (int64_t i = 0; i < n; i++, tile->sums += dots->rows * tile->ld) {
    tile->a = dots->a + ((first + i) * of->parts + part) * words;
    dots->kernel.run(tile, dots->rows);
  }
  tile->sums = sums;
}

/* Computes sums (n, rows, columns) of tiles [first, first + n) by a strip of bands. A block of k
 * of all rows stays in the cache meanwhile. Memory for factors follows the sums of a task. */
static void dots_multiply_strip(const dots *dots, int64_t first, int64_t n, int64_t band,
                                int64_t bands, float *sums) {
  const code_panels *of = &dots->p->of;
  dots_tile tile = {.p = of, .factors = sums + task_sums(dots), .ld = strip_columns(dots)};
  memset(sums, 0, (size_t)(n * dots->rows * tile.ld) * sizeof *sums);
  for (int64_t part = 0; part < of->parts; part += of->block)
    for (int64_t i = 0; i < bands; i++) {
      tile.sums = sums + i * band_columns(dots);
      multiply_blocks(dots, first, n, band + i, part, &tile);
    }
}

static void store_strip(const dots *dots, int64_t first, int64_t n, int64_t band, int64_t bands,
                        float *sums) {
  const kgemm *kgemm = dots->p->g;
  int64_t column = band * band_columns(dots),
          columns = min_i64(kgemm->n - column, bands * band_columns(dots));
  int64_t row = first * dots->rows, rows = min_i64(n * dots->rows, kgemm->m - row);
  for (int64_t i = 0; i < rows; i++)
    kgemm->store(kgemm->user, dots->batch, row + i, column, columns,
                 sums + i * strip_columns(dots));
}

static void dots_run_task(const void *user, int64_t task, char *scratch) {
  const dots *dots = user;
  int64_t first = task % dots->tasks_of_rows * dots->tiles_of_task,
          n = min_i64(dots->tiles_of_task, dots->tiles - first);
  int64_t band = task / dots->tasks_of_rows * dots->bands_of_task,
          end = min_i64(band + dots->bands_of_task, dots->bands);
  float *sums = (float *)(void *)scratch;
  for (; band < end; band += dots->strip) {
    int64_t bands = min_i64(dots->strip, end - band);
    dots_multiply_strip(dots, first, n, band, bands, sums);
    store_strip(dots, first, n, band, bands, sums);
  }
}

size_t dots_bytes(const kernel_context *ctx, const codes_product *product) {
  if (product->g->batch * product->g->m * product->g->n == 0) return 0;
  const dots dots = plan_dots(ctx, product);
  return dots_a_bytes(&dots) +
         slots_bytes(ctx, dots_task_count(&dots), dots.work, dots_task_scratch(&dots));
}

void dots_run(const kernel_context *ctx, const codes_product *product, char *memory) {
  if (product->g->batch * product->g->m * product->g->n == 0) return;
  dots dots = plan_dots(ctx, product);
  dots.a = (int32_t *)(void *)memory;
  for (dots.batch = 0; dots.batch < product->g->batch; dots.batch++) {
    ctx->parallel_for(ctx->pool, dots.tiles * packs_of_tile(&dots), PACK_GRAIN, dots_pack_rows,
                      &dots);
    run_slots_in(ctx, dots_task_count(&dots), dots.work, dots_task_scratch(&dots), dots_run_task,
                 &dots, memory + dots_a_bytes(&dots));
  }
}
