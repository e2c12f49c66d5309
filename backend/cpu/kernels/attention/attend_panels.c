/* Attention in floats for many queries that share keys: a panel has a query in each lane. A block
 * of keys and values is converted to floats once for all panels of a task. Each panel multiplies
 * its queries by the block, and keeps per lane the largest score, the sum of exponentials and the
 * sums of weighted values (Dao et al.). A panel's results do not depend on other panels. */
#include "backend/cpu/kernels/attention/attend_panels.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/attention/attend_amx.h"
#include "backend/cpu/kernels/attention/attend_kernels.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  BLOCK_KEYS = 128,
  BLOCK_SIZE = 64, /* chained additions along head_dim; sums of blocks round less */
  COLUMNS = ROW_BLOCK / PANEL_TILE, /* columns of queries that are transposed at once */
  MAX_BYTES = 17 << 15,             /* panels of a task fit the second-level cache */
  MULTIPLIES_PER_THREAD = 128 * 1024
};

/* Parameters that all panels share. */
typedef struct plan {
  const attention *p;
  panel_kernels kernels;
  int64_t rows, panels; /* per head of k */
  int64_t panels_per_task, tasks_per_pair;
  bool pairs;               /* products multiply words of pairs.h */
  const panel_tiles *tiles; /* kernels of the products on AMX; NULL: not used */
  int64_t tile;             /* rows of a product are a multiple of this */
  int64_t q_width, v_width; /* head_dim, v_dim, rounded up to multiples of `tile` */
  int64_t k_width;          /* columns of a key: head_dim, with tiles q_width */
  int64_t block;            /* keys per block, a multiple of `tile` */
  int64_t n_tasks, work;    /* arguments of run_slots */
  size_t scratch_size;
} plan;

typedef struct panel {
  _Alignas(KERNEL_SCRATCH_ALIGNMENT) panel_sums state;
  query_row rows[PANEL_LANES]; /* rows beyond the last repeat it */
  int64_t n;                   /* number of rows */
  int lanes;
  int64_t from, to;         /* keys that at least one row may see */
  int64_t all_from, all_to; /* keys that every row may see */
  float *q;                 /* (q_width, lanes), scaled; words (q_width / 2, lanes) */
  float *sums;              /* (v_width, lanes) */
} panel;

/* A task and its memory. */
typedef struct work {
  const plan *s;
  key_rows k, v;
  int64_t n, from, to; /* number of panels; keys that at least one panel may see */
  panel *panels;       /* (n) */
  float *scores;       /* (block, PANEL_LANES) */
  float *keys;         /* (block, k_width) */
  float *values;       /* (block, v_width) */
  /* Words, with `pairs`: */
  uint32_t *key_words;   /* (block, k_width / 2) */
  uint32_t *value_words; /* (block / 2, v_width); with tiles (v_width, block / 2) */
  uint32_t *score_words; /* (block / 2, PANEL_LANES) */
  bool joined;           /* value_words also holds the block's values, because all fit into BF16 */
  int64_t at, n_keys;    /* first key of the block and number of keys */
} work;

/* ---------------------------------------------------------------- queries */

static void find_panel(const attention *attention, int64_t pair, int64_t first, int64_t rows,
                       panel *panel) {
  panel->n = min_i64(rows - first, PANEL_LANES);
  panel->lanes = panel->n <= PANEL_HALF ? PANEL_HALF : PANEL_LANES;
  panel->from = panel->all_to = attention->sizes.n_keys;
  panel->to = panel->all_from = 0;
  for (int l = 0; l < panel->lanes; l++) {
    query_row *row = &panel->rows[l];
    *row = find_query(attention, pair, first + min_i64(l, panel->n - 1));
    panel->from = min_i64(panel->from, row->from);
    panel->to = larger(panel->to, row->to);
    panel->all_from = larger(panel->all_from, row->from);
    panel->all_to = min_i64(panel->all_to, row->to);
  }
}

/* Loads columns [d, d + n) of the queries of lanes [l, l + PANEL_TILE). */
static void load_lanes(const attention *attention, panel *panel, const int64_t *at, int l,
                       int64_t d, int64_t n) {
  row_block some = {{0}}; /* (PANEL_TILE, COLUMNS) */
  for (int i = 0; i < PANEL_TILE; i++) {
    float *row = some.f32 + i * COLUMNS;
    load_row(COMPUTE_F32, attention->q->type,
             element_at(attention->q->data, attention->q->type, at[i] + d), 1, n, row);
    for (int64_t c = 0; c < n; c++) row[c] *= (float)attention->scale;
  }
  for (int64_t c = 0; c < n; c += PANEL_TILE)
    transpose_8x8(some.f32 + c, COLUMNS, panel->q + (d + c) * panel->lanes + l, panel->lanes);
}

/* Stores columns [d, d + n) of the sums of these lanes, divided by the totals, to the rows of out
 * that exist. Stores `empty` for a lane whose scores were all -inf. */
static void store_lanes(const attention *attention, const panel *panel, const int64_t *at, int l,
                        int64_t d, int64_t n) {
  row_block some; /* (PANEL_TILE, COLUMNS) */
  for (int64_t c = 0; c < n; c += PANEL_TILE)
    transpose_8x8(panel->sums + (d + c) * panel->lanes + l, panel->lanes, some.f32 + c, COLUMNS);
  for (int i = 0; i < PANEL_TILE && l + i < panel->n; i++) {
    const float total = panel->state.total[l + i], scale = 1 / total;
    float *row = some.f32 + i * COLUMNS;
    for (int64_t c = 0; c < n; c++) row[c] = total == 0 ? attention->empty : row[c] * scale;
    store_row(COMPUTE_F32, attention->out->type,
              element_at(attention->out->data, attention->out->type, at[i] + d), 1, n, row);
  }
}

/* Finds the offsets of the rows of PANEL_TILE lanes in q or out. */
static void find_lanes(const attention *attention, const ktensor *x, const panel *panel, int l,
                       int64_t *at) {
  for (int i = 0; i < PANEL_TILE; i++) at[i] = query_offset(attention, x, &panel->rows[l + i]);
}

/* Bounds of the bits of a magnitude. Numbers from NOT_FINITE on are infinite or NaN. Finite numbers
 * from NOT_BF16 on round to infinity in BF16. */
enum { MAGNITUDE = 0x7fffffff, NOT_FINITE = 0x7f800000, NOT_BF16 = 0x7f7f8000 };
static int32_t largest_bits(const plan *plan, int64_t n, const float *x) {
  return plan->kernels.largest_bits(n, x);
}
static bool attend_panels_all_finite(const plan *plan, int64_t n, const float *x) {
  return largest_bits(plan, n, x) < NOT_FINITE;
}

/* Replaces finite numbers that would round to infinity in BF16 by the largest BF16 number. A score
 * that a mask hides must not become infinite or NaN if it is finite in floats. */
static void keep_finite(const plan *plan, int64_t n, float *x) {
  enum { LARGEST_BF16 = 0x7f7f0000 };
  if (largest_bits(plan, n, x) < NOT_BF16) return;
  for (int64_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    const int32_t size = bits & MAGNITUDE;
    if (size < NOT_BF16 || size >= NOT_FINITE) continue;
    bits = (bits ^ size) | LARGEST_BF16;
    memcpy(&x[i], &bits, sizeof bits);
  }
}

/* Joins neighbouring rows of x (rows, width) to words; `to` may be x. */
static void join_rows(const float *x, int64_t rows, int64_t width, uint32_t *to) {
  for (int64_t i = 0; i < rows; i += 2, x += 2 * width, to += width)
    pairs_join(x, i + 1 < rows ? x + width : NULL, width, to);
}

/* Loads the scaled queries of a panel and clears its sums. */
static void begin_panel(const plan *plan, panel *panel) {
  const int64_t n = plan->p->sizes.head_dim;
  int64_t at[PANEL_TILE];
  for (int l = 0; l < panel->lanes; l += PANEL_TILE) {
    find_lanes(plan->p, plan->p->q, panel, l, at);
    for (int64_t d = 0; d < n; d += COLUMNS)
      load_lanes(plan->p, panel, at, l, d, min_i64(COLUMNS, n - d));
  }
  if (plan->pairs) {
    keep_finite(plan, n * panel->lanes, panel->q);
    memset(panel->q + n * panel->lanes, 0,
           (size_t)((plan->k_width - n) * panel->lanes) * sizeof(float));
    join_rows(panel->q, plan->k_width, panel->lanes, (uint32_t *)panel->q);
  }
  memset(panel->sums, 0, (size_t)(plan->v_width * panel->lanes) * sizeof(float));
  for (int l = 0; l < panel->lanes; l++) {
    panel->state.largest[l] = find_sink(plan->p, &panel->rows[l]);
    panel->state.total[l] = plan->p->sinks ? 1 : 0;
  }
}

static void store_panel(const attention *attention, const panel *panel) {
  const int64_t n = attention->sizes.v_dim;
  int64_t at[PANEL_TILE];
  for (int l = 0; l < panel->n; l += PANEL_TILE) {
    find_lanes(attention, attention->out, panel, l, at);
    for (int64_t d = 0; d < n; d += COLUMNS)
      store_lanes(attention, panel, at, l, d, min_i64(COLUMNS, n - d));
  }
}

/* ---------------------------------------------------------------- keys and values */

/* Loads rows [j, j + n) as floats, `width` apart. Pads rows with zeros; adds `more` rows of
 * zeros. */
static void attend_panels_fill_rows(const key_rows *rows, int64_t j, int64_t n, int64_t more,
                                    int64_t width, float *to) {
  const ktensor *t = rows->t;
  const int64_t size = t->dims[t->rank - 1], step = t->strides[t->rank - 2];
  const bool dense = step == size && width == size;
  for (int64_t i = 0, run; i < n; i += run) {
    int64_t at = place_row(rows, t, rows->at, j + i, &run), rest;
    run = min_i64(run, n - i);
    for (int64_t l = 0; l < run; l += dense ? run : 1)
      load_row(COMPUTE_F32, t->type, element_at(t->data, t->type, at + l * step), 1,
               dense ? run * size : size, to + (i + l) * width);
    for (int64_t l = i; rows->scale && l < i + run; l++) {
      const float *scales = rows->scale->data;
      const float scale = scales[place_row(rows, rows->scale, rows->scale_at, j + l, &rest)];
      for (int64_t d = 0; d < size; d++) to[l * width + d] *= scale;
    }
  }
  for (int64_t i = 0; i < n && width > size; i++)
    memset(to + i * width + size, 0, (size_t)(width - size) * sizeof *to);
  memset(to + n * width, 0, (size_t)(more * width) * sizeof *to);
}

static void fill_block(work *work, int64_t at) {
  const plan *plan = work->s;
  work->at = at;
  work->n_keys = min_i64(plan->block, work->to - at);
  const int64_t all = round_up(work->n_keys, plan->tile), more = all - work->n_keys;
  attend_panels_fill_rows(&work->k, at, work->n_keys, more, plan->k_width, work->keys);
  attend_panels_fill_rows(&work->v, at, work->n_keys, more, plan->v_width, work->values);
  if (!plan->pairs) return;
  keep_finite(plan, work->n_keys * plan->k_width, work->keys);
  pairs_round(work->keys, all * plan->k_width / 2, work->key_words);
  work->joined = largest_bits(plan, work->n_keys * plan->v_width, work->values) < NOT_BF16;
  if (!work->joined) return;
  if (plan->tiles)
    plan->tiles->join_columns(work->values, all, plan->v_width, plan->block / 2, work->value_words);
  else
    join_rows(work->values, work->n_keys, plan->v_width, work->value_words);
}

/* Prefetches rows [j, end). */
static void prefetch_rows(const key_rows *rows, int64_t j, int64_t end) {
  const ktensor *t = rows->t;
  const int64_t size = (int64_t)dtype_size(t->type), step = t->strides[t->rank - 2] * size,
                bytes = t->dims[t->rank - 1] * size;
  for (int64_t run; j < end; j += run) {
    const char *x = element_at(t->data, t->type, place_row(rows, t, rows->at, j, &run));
    run = min_i64(run, end - j);
    for (int64_t i = 0; i < run; i++) prefetch_bytes(x + i * step, bytes);
  }
}

/* Prefetches a block, because a few panels would wait for memory longer than they compute. */
static void prefetch_block(const work *work, int64_t at) {
  const int64_t end = min_i64(at + work->s->block, work->to);
  prefetch_rows(&work->k, at, end);
  prefetch_rows(&work->v, at, end);
}

/* ---------------------------------------------------------------- a panel and a block */

/* The keys [from, to) of the block. */
typedef struct span {
  int64_t from, to;
} span;

static void attend_panels_multiply(const work *work, const panel *panel, bool pairs,
                                   const panel_product *product) {
  const panel_kernels *kernels = &work->s->kernels;
  if (pairs && work->s->tiles)
    work->s->tiles->multiply(panel->lanes, product);
  else
    (pairs ? kernels->multiply_pairs : kernels->multiply)(panel->lanes, product);
}

/* Computes the scores of the span's keys. The first key is rounded down to the start of a tile. */
static void score_keys(const work *work, const panel *panel, span keys) {
  const bool pairs = work->s->pairs;
  const int64_t size = work->s->k_width / (pairs ? 2 : 1),
                most = work->s->tiles ? larger(size, 1) : BLOCK_SIZE,
                n = round_up(keys.to - keys.from, work->s->tile);
  float ones[PANEL_LANES];
  for (int l = 0; l < PANEL_LANES; l++) ones[l] = 1;
  for (int64_t d = 0; d == 0 || d < size; d += most)
    attend_panels_multiply(
        work, panel, pairs,
        &(panel_product){
            .rows = n,
            .k = min_i64(most, size - d),
            .a = (pairs ? (const float *)work->key_words : work->keys) + keys.from * size + d,
            .a_row = size,
            .a_k = 1,
            .b = panel->q + d * panel->lanes,
            .c = work->scores,
            .fade = d > 0 ? ones : NULL});
}

/* Adds a float mask; where a BOOL mask is false, replaces the score by `masked`. */
static void attend_panels_mask_scores(const work *work, const panel *panel, span keys) {
  const attention *attention = work->s->p;
  const ktensor *m = attention->mask;
  const int64_t n = keys.to - keys.from, stride = m->strides[m->rank - 1];
  row_block some; /* at most BLOCK_KEYS */
  for (int l = 0; l < panel->lanes; l++) {
    const int64_t at =
        query_offset(attention, m, &panel->rows[l]) + (work->at + keys.from) * stride;
    load_row(COMPUTE_F32, m->type, element_at(m->data, m->type, at), stride, n, &some);
    float *score = work->scores + l;
    for (int64_t j = 0; j < n; j++, score += panel->lanes)
      if (m->type != DTYPE_BOOL)
        *score += some.f32[j];
      else if (some.f32[j] == 0)
        *score = (float)attention->masked;
  }
}

static void hide_scores(const work *work, const panel *panel, span keys) {
  for (int l = 0; l < panel->lanes; l++) {
    const int64_t from = panel->rows[l].from - work->at, to = panel->rows[l].to - work->at;
    float *scores = work->scores + l - keys.from * panel->lanes;
    for (int64_t j = keys.from; j < min_i64(from, keys.to); j++)
      scores[j * panel->lanes] = -INFINITY;
    for (int64_t j = larger(to, keys.from); j < keys.to; j++) scores[j * panel->lanes] = -INFINITY;
  }
}

/* True if a lane does not see a value of the span that is not finite: 0 times such a value is
 * NaN. */
static bool hides_infinite(const work *work, const panel *panel, span keys) {
  const int64_t width = work->s->v_width, first = min_i64(panel->all_from - work->at, keys.to),
                last = larger(panel->all_to - work->at, keys.from);
  return !attend_panels_all_finite(work->s, (first - keys.from) * width,
                                   work->values + keys.from * width) ||
         !attend_panels_all_finite(work->s, (keys.to - last) * width, work->values + last * width);
}

/* Works like sum_values, but a lane adds only the keys that it may see. */
static void sum_seen_values(const work *work, panel *panel, span keys) {
  const int64_t width = work->s->v_width;
  for (int l = 0; l < panel->lanes; l++) {
    const int64_t from = larger(keys.from, panel->rows[l].from - work->at),
                  to = min_i64(keys.to, panel->rows[l].to - work->at);
    for (int64_t d = 0; d < width; d++) {
      float *sum = &panel->sums[d * panel->lanes + l];
      *sum *= panel->state.fade[l];
      for (int64_t j = from; j < to; j++)
        *sum += work->scores[(j - keys.from) * panel->lanes + l] * work->values[j * width + d];
    }
  }
}

/* Adds the weighted values of a span to the sums, which are first multiplied by `fade`. */
static void sum_values(const work *work, panel *panel, span keys) {
  const int64_t width = work->s->v_width, n = keys.to - keys.from;
  panel_product product = {.rows = width,
                           .k = work->joined ? pairs_of(n) : n,
                           .a = work->values + keys.from * width,
                           .a_row = 1,
                           .a_k = width,
                           .b = work->joined ? (const float *)work->score_words : work->scores,
                           .c = panel->sums,
                           .fade = panel->state.fade};
  if (work->joined && work->s->tiles) {
    product.k = round_up(n, work->s->tile) / 2;
    product.a = (const float *)work->value_words + keys.from / 2;
    product.a_row = work->s->block / 2;
    product.a_k = 1;
  } else if (work->joined) {
    product.a = (const float *)work->value_words + keys.from / 2 * width;
    join_rows(work->scores, n, panel->lanes, work->score_words);
  }
  attend_panels_multiply(work, panel, work->joined, &product);
}

/* Adds the keys of the current block that the panel may see. */
static void attend_block(const work *work, panel *panel) {
  const attention *attention = work->s->p;
  const plan *plan = work->s;
  const span keys = {larger(panel->from - work->at, 0) / plan->tile * plan->tile,
                     min_i64(panel->to - work->at, work->n_keys)};
  const int64_t n = keys.to - keys.from;
  if (n <= 0) return;
  score_keys(work, panel, keys);
  if (attention->softcap > 0)
    plan->kernels.cap(n * panel->lanes, (float)attention->softcap, work->scores);
  if (attention->mask) attend_panels_mask_scores(work, panel, keys);
  hide_scores(work, panel, keys);
  if (plan->tiles && work->joined)
    plan->tiles->exponentiate(panel->lanes, n, work->scores, work->score_words, &panel->state);
  else
    plan->kernels.exponentiate(panel->lanes, n, work->scores, &panel->state);
  if (!work->joined && hides_infinite(work, panel, keys))
    sum_seen_values(work, panel, keys);
  else
    sum_values(work, panel, keys);
}

/* ---------------------------------------------------------------- tasks */

static size_t attend_panels_panel_bytes(const plan *plan) {
  return sizeof(panel) + (size_t)((plan->q_width + plan->v_width) * PANEL_LANES) * sizeof(float);
}

/* Returns the bytes of a block: scores, keys, values and, with half the size, their words. If
 * `rounds`, the size includes the words even on processors that do not use them. */
static size_t attend_panels_block_bytes(const plan *plan) {
  const int64_t n = plan->block * (PANEL_LANES + plan->k_width + plan->v_width);
  return (size_t)(plan->p->rounds ? n + n / 2 : n) * sizeof(float);
}

/* Lays out the memory of a task and begins all of its panels. */
static work begin_task(const plan *plan, int64_t task, char *scratch) {
  const int64_t pair = task / plan->tasks_per_pair,
                first = task % plan->tasks_per_pair * plan->panels_per_task,
                n = min_i64(plan->panels - first, plan->panels_per_task), size = plan->k_width;
  float *memory = (float *)(void *)(scratch + n * (int64_t)sizeof(panel));
  work work = {.s = plan,
               .k = find_keys(plan->p, pair),
               .v = find_values(plan->p, pair),
               .n = n,
               .from = plan->p->sizes.n_keys,
               .panels = (panel *)(void *)scratch};
  for (int64_t i = 0; i < n; i++) {
    panel *panel = &work.panels[i];
    find_panel(plan->p, pair, (first + i) * PANEL_LANES, plan->rows, panel);
    panel->q = memory;
    panel->sums = panel->q + plan->q_width * panel->lanes;
    memory = panel->sums + plan->v_width * panel->lanes;
    work.from = min_i64(work.from, panel->from);
    work.to = larger(work.to, panel->to);
    begin_panel(plan, panel);
  }
  work.scores = memory;
  work.keys = work.scores + plan->block * PANEL_LANES;
  work.values = work.keys + plan->block * size;
  work.key_words = (uint32_t *)(work.values + plan->block * plan->v_width);
  work.value_words = work.key_words + plan->block * size / 2;
  work.score_words =
      plan->tiles ? (uint32_t *)work.scores : work.value_words + plan->block / 2 * plan->v_width;
  return work;
}

static void attend_task(const void *user, int64_t task, char *scratch) {
  const plan *plan = user;
  work work = begin_task(plan, task, scratch);
  if (plan->tiles) plan->tiles->begin();
  for (int64_t at = work.from / plan->block * plan->block; at < work.to; at += plan->block) {
    fill_block(&work, at);
    prefetch_block(&work, at + plan->block);
    for (int64_t i = 0; i < work.n; i++) attend_block(&work, &work.panels[i]);
  }
  if (plan->tiles) plan->tiles->end();
  for (int64_t i = 0; i < work.n; i++) store_panel(plan->p, &work.panels[i]);
}

/* Chooses the number of panels per task. There are no more tasks than the threads need, because
 * each task converts all keys and values that its queries see. */
static plan attend_panels_make_plan(const kernel_context *ctx, const attention *attention) {
  const attention_sizes *sizes = &attention->sizes;
  const int64_t pairs = sizes->n_batch * sizes->n_kv;
  plan plan = {
      .p = attention, .kernels = choose_panel_kernels(), .rows = sizes->share * sizes->n_queries};
  plan.pairs = attention->rounds && plan.kernels.multiply_pairs;
  plan.tiles = plan.pairs ? choose_panel_tiles() : NULL;
  plan.tile = plan.tiles ? PANEL_PAIRS : PANEL_TILE;
  plan.q_width = round_up(sizes->head_dim, plan.tile);
  plan.v_width = round_up(sizes->v_dim, plan.tile);
  plan.k_width = plan.tiles ? plan.q_width : sizes->head_dim;
  plan.block = min_i64(BLOCK_KEYS, round_up(sizes->n_keys, plan.tile));
  plan.panels = (plan.rows + PANEL_LANES - 1) / PANEL_LANES;
  const int64_t most = larger(MAX_BYTES / (int64_t)attend_panels_panel_bytes(&plan), 1),
                each = min_i64(larger(pairs * plan.panels / larger(ctx->n_threads, 1), 1), most);
  plan.tasks_per_pair = (plan.panels + each - 1) / each;
  plan.panels_per_task = (plan.panels + plan.tasks_per_pair - 1) / larger(plan.tasks_per_pair, 1);
  plan.n_tasks = pairs * plan.tasks_per_pair;
  plan.work =
      pairs * plan.rows * sizes->n_keys * (sizes->head_dim + sizes->v_dim) / MULTIPLIES_PER_THREAD;
  plan.scratch_size = (size_t)each * attend_panels_panel_bytes(&plan) +
                      attend_panels_block_bytes(&plan); /* does not decrease with more rows */
  return plan;
}

size_t attend_panels_scratch(const kernel_context *ctx, const attention *attention) {
  const plan plan = attend_panels_make_plan(ctx, attention);
  return slots_bytes(ctx, plan.n_tasks, plan.work, plan.scratch_size);
}

void attend_panels(const kernel_context *ctx, const attention *attention, char *scratch) {
  const plan plan = attend_panels_make_plan(ctx, attention);
  run_slots_in(ctx, plan.n_tasks, plan.work, plan.scratch_size, attend_task, &plan, scratch);
}
