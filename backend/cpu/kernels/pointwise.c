/* Planes times a weight, where they lie. A task is some columns of an image by some strips of the
 * weight. */
#include "backend/cpu/kernels/pointwise.h"

#include "backend/cpu/kernels/codes.h"
#include "backend/cpu/kernels/counts.h"
#include "backend/cpu/kernels/pointwise_kernels.h"
#include "backend/cpu/kernels/slots.h"

enum {
  TASK_PANELS = 8,           /* columns of a task, in tiles: a row of them is in few pages */
  CACHED_WEIGHT = 256 << 10, /* bytes that the second-level cache keeps beside planes */
  TASKS = 4,                 /* of a thread, at least, so that all end at about the same time */
  TASK_WORK = 32 * 1024,     /* multiplications of a task of few strips, at least */
  WORK = 256 * 1024          /* multiplications that are worth waking a thread up */
};

/* How a convolution is cut. */
typedef struct cutting {
  const conv_part *a;
  const kgemm *g;
  pointwise_kernel whole, half;
  int64_t cells, height, strips;
  int64_t across, down; /* tasks of an image and group: of columns, and of strips */
} cutting;

static bool is_own_position(const window *d, const kconv_dim *k) {
  return d->taps == 1 && d->stride == 1 && d->origin == 0 && d->count == k->in;
}

bool pointwise_fits(const conv_part *a) {
  const conv_args *p = a->p;
  if (p->type != DTYPE_F32 || p->weight_type != DTYPE_F32 || p->transposed || !p->is_packed ||
      is_encoded(&p->encoding) || cell_count(a) < pointwise_kernel_for(false).nr)
    return false;
  for (int d = 0; d < CONV_DIMS; d++)
    if (!is_own_position(&a->d[d], &p->dims[d])) return false;
  return true;
}

static cutting cut(const kernel_context *ctx, const conv_part *a, const kgemm *g) {
  cutting c = {.a = a,
               .g = g,
               .whole = pointwise_kernel_for(false),
               .half = pointwise_kernel_for(true),
               .cells = cell_count(a),
               .height = gemm_strip_height(g)};
  c.strips = ceil_div(g->m, c.height);
  const int64_t panels = c.cells / c.whole.nr, products = a->p->images * g->batch;
  c.across = ceil_div(panels, TASK_PANELS);
  if (products * c.across < TASKS * ctx->n_threads) {
    const int64_t most = g->m * g->k * c.cells / c.across / TASK_WORK;
    c.down = least(least(c.strips, 2 * TASKS * ctx->n_threads), most);
  }
  if (c.down < 1) c.down = 1;
  if (c.down == 1 && c.across > 1)
    c.across = least(panels, ceil_div(c.across, ctx->n_threads) * ctx->n_threads);
  return c;
}

/* What a task makes: strips [strip, stop) of columns [from, to). */
typedef struct patch {
  int64_t image, group, strip, stop, from, to;
} patch;

static patch patch_of(const cutting *c, int64_t task) {
  const int64_t panels = c->cells / c->whole.nr, across = task / c->down % c->across;
  patch t = {.image = task / c->down / c->across / c->g->batch,
             .group = task / c->down / c->across % c->g->batch,
             .strip = task % c->down * c->strips / c->down,
             .stop = (task % c->down + 1) * c->strips / c->down,
             .from = across * panels / c->across * c->whole.nr,
             .to = (across + 1) * panels / c->across * c->whole.nr};
  if (across + 1 == c->across) t.to = c->cells;
  return t;
}

/* A row of the group's outputs among those of all images. */
static int64_t output_at(const cutting *c, const patch *t, int64_t row) {
  const conv_args *p = c->a->p;
  return (t->image * p->groups + t->group) * p->outputs + row;
}

/* A strip by the columns of a tile from `column` on. */
static void run_tile(const cutting *c, const patch *t, int64_t strip, int64_t column,
                     const pointwise_kernel *kernel) {
  const conv_args *p = c->a->p;
  const int64_t row = strip * c->height, output = t->group * p->outputs + row, k = p->channels;
  const int64_t at = output_at(c, t, row) * c->cells + column;
  float none[POINTWISE_MOST_ROWS];
  for (int i = 0; i < POINTWISE_MOST_ROWS; i++) none[i] = -0.0F;
  const pointwise_tile tile = {
      .k = k,
      .a = (const float *)c->g->packed_a + (t->group * c->strips + strip) * c->height * k,
      .a_step = c->height,
      .b = (const float *)p->x + (t->image * p->groups + t->group) * k * c->cells + column,
      .b_step = c->cells,
      .bias = p->bias ? (const float *)p->bias + output : none,
      .added = p->tail.added ? (const float *)p->tail.added + at : NULL,
      .c = (float *)p->out + at,
      .c_step = c->cells,
      .low = p->tail.low,
      .high = p->tail.high};
  kernel->run(&tile, (int)least(c->height, c->g->m - row));
}

/* The last columns are made once more where they do not fill a tile. */
static void run_strips(const cutting *c, const patch *t, int64_t strip, int64_t stop, int64_t from,
                       int64_t to) {
  for (int64_t column = from; column < to;) {
    const pointwise_kernel *kernel = to - column <= c->half.nr ? &c->half : &c->whole;
    const int64_t first = least(column, t->to - kernel->nr);
    for (int64_t s = strip; s < stop; s++) run_tile(c, t, s, first, kernel);
    column = first + kernel->nr;
  }
  const conv_args *p = c->a->p;
  const int64_t row = strip * c->height, rows = least(stop * c->height, c->g->m) - row;
  const int64_t at = output_at(c, t, row) * c->cells + from;
  steps_in_place(&p->steps, (float *)p->out + at, at, to - from, rows, c->cells);
}

static void run_patch(const void *user, int64_t task, char *scratch) {
  const cutting *c = user;
  const patch t = patch_of(c, task);
  const int64_t weight = (t.stop - t.strip) * c->height * c->g->k * (int64_t)sizeof(float);
  (void)scratch;
  if (weight <= CACHED_WEIGHT) {
    run_strips(c, &t, t.strip, t.stop, t.from, t.to);
    return;
  }
  for (int64_t s = t.strip; s < t.stop; s++) run_strips(c, &t, s, s + 1, t.from, t.to);
}

void pointwise_run(const kernel_context *ctx, const conv_part *a, const kgemm *g) {
  char none = 0;
  if (a->p->images * g->batch * g->m == 0) return;
  const cutting c = cut(ctx, a, g);
  const int64_t tasks = a->p->images * g->batch * c.across * c.down;
  const int64_t work = a->p->images * g->batch * (g->m * g->k * c.cells / 1024 + 1) / (WORK / 1024);
  run_slots_in(ctx, tasks, work, 0, run_patch, &c, &none);
}
