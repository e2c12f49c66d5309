/* Rows in tiles, rounded to 8 bits, and tiles by panels of codes, shared out among threads. */
#include "backend/cpu/kernels/gemm/dots.h"

#include <string.h>

#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/rounded.h"

enum {
  MULTIPLIES_PER_THREAD = 256 << 10, /* that are worth waking one up */
  TASKS_PER_THREAD = 4,
  TASK_ROWS = 128,
  STRIP_ROWS = 16, /* of a task, from which several groups of panels share what is read of them */
  STRIP_COLUMNS = 128,
  PACKED_PARTS = 64, /* of a row at a time */
  PACK_GRAIN = 1     /* tiles of PACKED_PARTS */
};

static int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

typedef struct dots {
  const codes_product *p;
  dots_kernel kernel;
  int rows, panels;      /* side by side */
  int64_t tiles, groups; /* of rows; of panels */
  int64_t tasks_of_rows, tasks_of_panels;
  int64_t tiles_of_task, groups_of_task;
  int64_t strip; /* groups whose sums a task has at once */
  int64_t work;  /* threads that it is worth */
  int64_t batch;
  int32_t *a; /* (tiles, parts, words of a part) */
} dots;

static int64_t group_columns(const dots *d) { return (int64_t)d->panels * CODE_PANEL; }

static dots plan_dots(const kernel_context *ctx, const codes_product *p) {
  const kgemm *g = p->g;
  dots d = {.p = p, .kernel = dots_kernel_for()};
  d.rows = (int)ceil_of(g->m, ceil_of(g->m, d.kernel.most_rows));
  d.panels = d.kernel.panels(d.rows);
  d.tiles = ceil_of(g->m, d.rows);
  d.groups = ceil_of(g->n, group_columns(&d));
  d.work = g->m * g->n * g->k / MULTIPLIES_PER_THREAD;
  d.tiles_of_task = least(d.tiles, TASK_ROWS / d.rows);
  d.tasks_of_rows = ceil_of(d.tiles, d.tiles_of_task);
  int64_t wanted = d.work > 1 ? TASKS_PER_THREAD * ctx->n_threads : 1;
  d.groups_of_task = d.groups * d.tasks_of_rows / wanted;
  if (d.groups_of_task < 1) d.groups_of_task = 1;
  d.tasks_of_panels = ceil_of(d.groups, d.groups_of_task);
  int64_t most = d.tiles_of_task * d.rows < STRIP_ROWS ? 1 : STRIP_COLUMNS / group_columns(&d);
  d.strip = least(d.groups_of_task, most);
  return d;
}

/* ---------------------------------------------------------------- rows */

static void store_words(int bits, const int8_t *q, int rows, int32_t *to) {
  for (int i = 0; i < DOT_WORDS; i++) {
    int8_t bytes[4];
    for (int j = 0; j < 4; j++) bytes[j] = q[bits == 8 ? 4 * i + j : i / 2 * 8 + 2 * j + i % 2];
    memcpy(&to[i * rows], bytes, sizeof bytes);
  }
}

/* A part of a row; to: its first word. */
static void store_part(const code_panels *p, const float *x, int rows, int32_t *to) {
  int8_t q[DECODED_AT_ONCE];
  const int deep = DECODED_AT_ONCE / p->spans;
  float scale = rounded_group(x, DECODED_AT_ONCE, q);
  store_words(p->bits, q, rows, to);
  memcpy(&to[DOT_WORDS * rows], &scale, sizeof scale);
  for (int span = 0; span < p->spans; span++) {
    int32_t sum = 0, *at = &to[(DOT_WORDS + 1 + span) * rows];
    for (int k = 0; k < deep; k++) sum += q[span * deep + k];
    float scaled = scale * (float)sum;
    if (p->has_lows)
      memcpy(at, &scaled, sizeof scaled);
    else
      *at = sum * p->least;
  }
}

/* PACKED_PARTS of a tile, or those that are left; rows beyond the last are zeros. */
static void pack_some(const dots *d, int64_t tile, int64_t part) {
  const kgemm *g = d->p->g;
  const code_panels *of = &d->p->of;
  int64_t words = dots_part_words(of, d->rows), n = least(PACKED_PARTS, of->parts - part);
  int64_t k = part * DECODED_AT_ONCE, kn = least(n * DECODED_AT_ONCE, g->k - k);
  int32_t *to = d->a + (tile * of->parts + part) * words;
  float x[PACKED_PARTS * DECODED_AT_ONCE];
  for (int r = 0; r < d->rows; r++) {
    int64_t row = tile * d->rows + r, filled = row < g->m ? kn : 0;
    if (filled) g->pack_a(g->user, d->batch, row, 1, k, kn, 1, x);
    memset(x + filled, 0, (size_t)(n * DECODED_AT_ONCE - filled) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
      store_part(of, x + i * DECODED_AT_ONCE, d->rows, to + i * words + r);
  }
}

static int64_t packs_of_tile(const dots *d) { return ceil_of(d->p->of.parts, PACKED_PARTS); }

static void pack_rows(void *ctx, int64_t begin, int64_t end) {
  const dots *d = ctx;
  int64_t packs = packs_of_tile(d);
  for (int64_t i = begin; i < end; i++) pack_some(d, i / packs, i % packs * PACKED_PARTS);
}

/* ---------------------------------------------------------------- products */

static size_t a_bytes(const dots *d) {
  int64_t words = d->tiles * d->p->of.parts * dots_part_words(&d->p->of, d->rows);
  return kernel_scratch_size((size_t)words * sizeof(int32_t));
}
static int64_t strip_columns(const dots *d) { return d->strip * group_columns(d); }
static int64_t task_sums(const dots *d) { return d->tiles_of_task * d->rows * strip_columns(d); }
static size_t task_scratch(const dots *d) {
  int64_t factors = d->p->of.block * dots_part_factors(&d->p->of, d->panels);
  return (size_t)(task_sums(d) + factors) * sizeof(float);
}
static int64_t task_count(const dots *d) { return d->tasks_of_rows * d->tasks_of_panels; }

/* Tiles [first, first + n) by the blocks of a group of panels that begin at a part of k. */
static void multiply_blocks(const dots *d, int64_t first, int64_t n, int64_t group, int64_t part,
                            dots_tile *t) {
  const code_panels *of = &d->p->of;
  int64_t words = dots_part_words(of, d->rows), last = ceil_of(d->p->g->n, CODE_PANEL) - 1;
  float *sums = t->sums;
  for (int i = 0; i < d->panels; i++) /* those behind the last repeat it */
    t->block[i] = (const char *)d->p->panels +
                  (size_t)least(group * d->panels + i, last) * of->bytes + code_block_at(of, part);
  t->n = (int)least(of->block, of->parts - part);
  if (d->rows > d->kernel.in_order) d->kernel.read_factors(t, d->panels, t->factors);
  for (int64_t i = 0; i < n; i++, t->sums += d->rows * t->ld) {
    t->a = d->a + ((first + i) * of->parts + part) * words;
    d->kernel.run(t, d->rows);
  }
  t->sums = sums;
}

/* sums (n, rows, columns) of tiles [first, first + n) by a strip of groups. A block of k of all
 * rows stays in the cache meanwhile. Behind the sums of a task is room for factors. */
static void multiply_strip(const dots *d, int64_t first, int64_t n, int64_t group, int64_t groups,
                           float *sums) {
  const code_panels *of = &d->p->of;
  dots_tile t = {.p = of, .factors = sums + task_sums(d), .ld = strip_columns(d)};
  memset(sums, 0, (size_t)(n * d->rows * t.ld) * sizeof *sums);
  for (int64_t part = 0; part < of->parts; part += of->block)
    for (int64_t i = 0; i < groups; i++) {
      t.sums = sums + i * group_columns(d);
      multiply_blocks(d, first, n, group + i, part, &t);
    }
}

static void store_strip(const dots *d, int64_t first, int64_t n, int64_t group, int64_t groups,
                        float *sums) {
  const kgemm *g = d->p->g;
  int64_t column = group * group_columns(d),
          columns = least(g->n - column, groups * group_columns(d));
  int64_t row = first * d->rows, rows = least(n * d->rows, g->m - row);
  for (int64_t i = 0; i < rows; i++)
    g->store(g->user, d->batch, row + i, column, columns, sums + i * strip_columns(d));
}

static void run_task(const void *user, int64_t task, char *scratch) {
  const dots *d = user;
  int64_t first = task % d->tasks_of_rows * d->tiles_of_task,
          n = least(d->tiles_of_task, d->tiles - first);
  int64_t group = task / d->tasks_of_rows * d->groups_of_task,
          end = least(group + d->groups_of_task, d->groups);
  float *sums = (float *)(void *)scratch;
  for (; group < end; group += d->strip) {
    int64_t groups = least(d->strip, end - group);
    multiply_strip(d, first, n, group, groups, sums);
    store_strip(d, first, n, group, groups, sums);
  }
}

size_t dots_bytes(const kernel_context *ctx, const codes_product *p) {
  if (p->g->batch * p->g->m * p->g->n == 0) return 0;
  const dots d = plan_dots(ctx, p);
  return a_bytes(&d) + slots_bytes(ctx, task_count(&d), d.work, task_scratch(&d));
}

void dots_run(const kernel_context *ctx, const codes_product *p, char *memory) {
  if (p->g->batch * p->g->m * p->g->n == 0) return;
  dots d = plan_dots(ctx, p);
  d.a = (int32_t *)(void *)memory;
  for (d.batch = 0; d.batch < p->g->batch; d.batch++) {
    ctx->parallel_for(ctx->pool, d.tiles * packs_of_tile(&d), PACK_GRAIN, pack_rows, &d);
    run_slots_in(ctx, task_count(&d), d.work, task_scratch(&d), run_task, &d, memory + a_bytes(&d));
  }
}
