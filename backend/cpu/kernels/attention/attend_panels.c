/* Attention in floats of many queries that share keys: a panel has a query in each lane. A block of
 * keys and values becomes floats once for all panels of a task; each multiplies it, and keeps the
 * largest score of its lanes, the sum of exponentials and the sums of weighted values (Dao et al.).
 * Which queries are in a panel does not depend on the threads, nor on other panels what it does. */
#include "backend/cpu/kernels/attention/attend_panels.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/attention/attend_amx.h"
#include "backend/cpu/kernels/attention/attend_kernels.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/features.h"
#include "backend/cpu/kernels/support/slots.h"

enum {
  BLOCK_KEYS = 128,
  BLOCK_SIZE = 64, /* of head_dim: additions in a row; sums of blocks keep rounding errors small */
  COLUMNS = ROW_BLOCK / PANEL_TILE, /* of queries that are transposed at once */
  MOST_BYTES = 17 << 15,            /* of a task's panels, which the second-level cache keeps */
  MULTIPLIES_PER_THREAD = 128 * 1024
};

/* What of all panels is the same. */
typedef struct plan {
  const attention *p;
  panel_kernels kernels;
  int64_t rows, panels; /* that share a head of k */
  int64_t panels_per_task, tasks_per_pair;
  bool pairs;               /* products are of words of pairs.h */
  const panel_tiles *tiles; /* which multiply these; NULL: none do */
  int64_t tile;             /* rows that a product has a multiple of */
  int64_t q_width, v_width; /* head_dim, v_dim, up to multiples of `tile` */
  int64_t k_width;          /* of a key: head_dim, with tiles q_width */
  int64_t block;            /* keys, a multiple of `tile` */
  int64_t n_tasks, work;    /* as run_slots wants them */
  size_t scratch_size;
} plan;

typedef struct panel {
  _Alignas(KERNEL_SCRATCH_ALIGNMENT) panel_sums state;
  query_row rows[PANEL_LANES]; /* those behind the last repeat it */
  int64_t n;                   /* rows */
  int lanes;
  int64_t from, to;         /* keys that one of them may see */
  int64_t all_from, all_to; /* that each of them may see */
  float *q;                 /* (q_width, lanes), scaled; words (q_width / 2, lanes) */
  float *sums;              /* (v_width, lanes) */
} panel;

/* A task and its memory. */
typedef struct work {
  const plan *s;
  key_rows k, v;
  int64_t n, from, to; /* panels; keys that one of them may see */
  panel *panels;       /* (n) */
  float *scores;       /* (block, PANEL_LANES) */
  float *keys;         /* (block, k_width) */
  float *values;       /* (block, v_width) */
  /* Words, with `pairs`: */
  uint32_t *key_words;   /* (block, k_width / 2) */
  uint32_t *value_words; /* (block / 2, v_width); with tiles (v_width, block / 2) */
  uint32_t *score_words; /* (block / 2, PANEL_LANES) */
  bool joined; /* the block's values are in value_words, too: there is none that BF16 has not */
  int64_t at, n_keys; /* the block's keys */
} work;

/* ---------------------------------------------------------------- queries */

static void find_panel(const attention *p, int64_t pair, int64_t first, int64_t rows, panel *t) {
  t->n = least(rows - first, PANEL_LANES);
  t->lanes = t->n <= PANEL_HALF ? PANEL_HALF : PANEL_LANES;
  t->from = t->all_to = p->sizes.n_keys;
  t->to = t->all_from = 0;
  for (int l = 0; l < t->lanes; l++) {
    query_row *r = &t->rows[l];
    *r = find_query(p, pair, first + least(l, t->n - 1));
    t->from = least(t->from, r->from);
    t->to = larger(t->to, r->to);
    t->all_from = larger(t->all_from, r->from);
    t->all_to = least(t->all_to, r->to);
  }
}

/* n columns from d on of the queries of PANEL_TILE lanes from l on. */
static void load_lanes(const attention *p, panel *t, const int64_t *at, int l, int64_t d,
                       int64_t n) {
  row_block some = {{0}}; /* (PANEL_TILE, COLUMNS) */
  for (int i = 0; i < PANEL_TILE; i++) {
    float *row = some.f32 + i * COLUMNS;
    load_row(COMPUTE_F32, p->q->type, element_at(p->q->data, p->q->type, at[i] + d), 1, n, row);
    for (int64_t c = 0; c < n; c++) row[c] *= (float)p->scale;
  }
  for (int64_t c = 0; c < n; c += PANEL_TILE)
    transpose_8x8(some.f32 + c, COLUMNS, t->q + (d + c) * t->lanes + l, t->lanes);
}

/* n columns from d on of the sums of the same lanes to rows of out, as far as there are; a lane
 * whose scores were all -inf has no sums. */
static void store_lanes(const attention *p, const panel *t, const int64_t *at, int l, int64_t d,
                        int64_t n) {
  row_block some; /* (PANEL_TILE, COLUMNS) */
  for (int64_t c = 0; c < n; c += PANEL_TILE)
    transpose_8x8(t->sums + (d + c) * t->lanes + l, t->lanes, some.f32 + c, COLUMNS);
  for (int i = 0; i < PANEL_TILE && l + i < t->n; i++) {
    const float total = t->state.total[l + i], scale = 1 / total;
    float *row = some.f32 + i * COLUMNS;
    for (int64_t c = 0; c < n; c++) row[c] = total == 0 ? p->empty : row[c] * scale;
    store_row(COMPUTE_F32, p->out->type, element_at(p->out->data, p->out->type, at[i] + d), 1, n,
              row);
  }
}

/* Where the rows of PANEL_TILE lanes begin in q or out. */
static void find_lanes(const attention *p, const ktensor *x, const panel *t, int l, int64_t *at) {
  for (int i = 0; i < PANEL_TILE; i++) at[i] = query_offset(p, x, &t->rows[l + i]);
}

/* Of magnitudes as bits: those of what is not finite are at least NOT_FINITE, and of what
 * BF16 has not, but infinity for it, NOT_BF16. */
enum { MAGNITUDE = 0x7fffffff, NOT_FINITE = 0x7f800000, NOT_BF16 = 0x7f7f8000 };
static int32_t largest_bits(const plan *s, int64_t n, const float *x) {
  return s->kernels.largest_bits(n, x);
}
static bool all_finite(const plan *s, int64_t n, const float *x) {
  return largest_bits(s, n, x) < NOT_FINITE;
}

/* What is finite and rounds to infinity in BF16 becomes the largest number that BF16 has: a score
 * that a mask hides must not be infinite or NaN where it is finite in floats. */
static void keep_finite(const plan *s, int64_t n, float *x) {
  enum { LARGEST_BF16 = 0x7f7f0000 };
  if (largest_bits(s, n, x) < NOT_BF16) return;
  for (int64_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    const int32_t size = bits & MAGNITUDE;
    if (size < NOT_BF16 || size >= NOT_FINITE) continue;
    bits = (bits ^ size) | LARGEST_BF16;
    memcpy(&x[i], &bits, sizeof bits);
  }
}

/* Words of neighbouring rows of x (rows, width), which may be `to`. */
static void join_rows(const float *x, int64_t rows, int64_t width, uint32_t *to) {
  for (int64_t i = 0; i < rows; i += 2, x += 2 * width, to += width)
    pairs_join(x, i + 1 < rows ? x + width : NULL, width, to);
}

static void begin_panel(const plan *s, panel *t) {
  const int64_t n = s->p->sizes.head_dim;
  int64_t at[PANEL_TILE];
  for (int l = 0; l < t->lanes; l += PANEL_TILE) {
    find_lanes(s->p, s->p->q, t, l, at);
    for (int64_t d = 0; d < n; d += COLUMNS) load_lanes(s->p, t, at, l, d, least(COLUMNS, n - d));
  }
  if (s->pairs) {
    keep_finite(s, n * t->lanes, t->q);
    memset(t->q + n * t->lanes, 0, (size_t)((s->k_width - n) * t->lanes) * sizeof(float));
    join_rows(t->q, s->k_width, t->lanes, (uint32_t *)t->q);
  }
  memset(t->sums, 0, (size_t)(s->v_width * t->lanes) * sizeof(float));
  for (int l = 0; l < t->lanes; l++) {
    t->state.largest[l] = -INFINITY;
    t->state.total[l] = 0;
  }
}

static void store_panel(const attention *p, const panel *t) {
  const int64_t n = p->sizes.v_dim;
  int64_t at[PANEL_TILE];
  for (int l = 0; l < t->n; l += PANEL_TILE) {
    find_lanes(p, p->out, t, l, at);
    for (int64_t d = 0; d < n; d += COLUMNS) store_lanes(p, t, at, l, d, least(COLUMNS, n - d));
  }
}

/* ---------------------------------------------------------------- keys and values */

/* Rows [j, j + n) as floats, `width` apart, filled up with zeros: columns and `more` rows. */
static void fill_rows(const key_rows *r, int64_t j, int64_t n, int64_t more, int64_t width,
                      float *to) {
  const ktensor *t = r->t;
  const int64_t size = t->dims[t->rank - 1], step = t->strides[t->rank - 2];
  const bool dense = step == size && width == size;
  for (int64_t i = 0, run; i < n; i += run) {
    int64_t at = place_row(r, t, r->at, j + i, &run), rest;
    run = least(run, n - i);
    for (int64_t l = 0; l < run; l += dense ? run : 1)
      load_row(COMPUTE_F32, t->type, element_at(t->data, t->type, at + l * step), 1,
               dense ? run * size : size, to + (i + l) * width);
    for (int64_t l = i; r->scale && l < i + run; l++) {
      const float *scales = r->scale->data;
      const float scale = scales[place_row(r, r->scale, r->scale_at, j + l, &rest)];
      for (int64_t d = 0; d < size; d++) to[l * width + d] *= scale;
    }
  }
  for (int64_t i = 0; i < n && width > size; i++)
    memset(to + i * width + size, 0, (size_t)(width - size) * sizeof *to);
  memset(to + n * width, 0, (size_t)(more * width) * sizeof *to);
}

static void fill_block(work *w, int64_t at) {
  const plan *s = w->s;
  w->at = at;
  w->n_keys = least(s->block, w->to - at);
  const int64_t all = round_up(w->n_keys, s->tile), more = all - w->n_keys;
  fill_rows(&w->k, at, w->n_keys, more, s->k_width, w->keys);
  fill_rows(&w->v, at, w->n_keys, more, s->v_width, w->values);
  if (!s->pairs) return;
  keep_finite(s, w->n_keys * s->k_width, w->keys);
  pairs_round(w->keys, all * s->k_width / 2, w->key_words);
  w->joined = largest_bits(s, w->n_keys * s->v_width, w->values) < NOT_BF16;
  if (!w->joined) return;
  if (s->tiles)
    s->tiles->join_columns(w->values, all, s->v_width, s->block / 2, w->value_words);
  else
    join_rows(w->values, w->n_keys, s->v_width, w->value_words);
}

/* Asks for rows [j, end). */
static void ask_for_rows(const key_rows *r, int64_t j, int64_t end) {
  const ktensor *t = r->t;
  const int64_t size = (int64_t)dtype_size(t->type), step = t->strides[t->rank - 2] * size,
                bytes = t->dims[t->rank - 1] * size;
  for (int64_t run; j < end; j += run) {
    const char *x = element_at(t->data, t->type, place_row(r, t, r->at, j, &run));
    run = least(run, end - j);
    for (int64_t i = 0; i < run; i++) ask_for_bytes(x + i * step, bytes);
  }
}

/* Few panels wait for memory longer than they compute. */
static void ask_for_block(const work *w, int64_t at) {
  const int64_t end = least(at + w->s->block, w->to);
  ask_for_rows(&w->k, at, end);
  ask_for_rows(&w->v, at, end);
}

/* ---------------------------------------------------------------- a panel and a block */

/* Keys [from, to) of the block. */
typedef struct span {
  int64_t from, to;
} span;

static void multiply(const work *w, const panel *t, bool pairs, const panel_product *p) {
  const panel_kernels *kernels = &w->s->kernels;
  if (pairs && w->s->tiles)
    w->s->tiles->multiply(t->lanes, p);
  else
    (pairs ? kernels->multiply_pairs : kernels->multiply)(t->lanes, p);
}

/* Scores of the span's keys, from the first of a tile on. */
static void score_keys(const work *w, const panel *t, span keys) {
  const bool pairs = w->s->pairs;
  const int64_t size = w->s->k_width / (pairs ? 2 : 1),
                most = w->s->tiles ? larger(size, 1) : BLOCK_SIZE,
                n = round_up(keys.to - keys.from, w->s->tile);
  float ones[PANEL_LANES];
  for (int l = 0; l < PANEL_LANES; l++) ones[l] = 1;
  for (int64_t d = 0; d == 0 || d < size; d += most)
    multiply(w, t, pairs,
             &(panel_product){
                 .rows = n,
                 .k = least(most, size - d),
                 .a = (pairs ? (const float *)w->key_words : w->keys) + keys.from * size + d,
                 .a_row = size,
                 .a_k = 1,
                 .b = t->q + d * t->lanes,
                 .c = w->scores,
                 .fade = d > 0 ? ones : NULL});
}

/* A float mask is added; where a BOOL one is false the score becomes `masked`. */
static void mask_scores(const work *w, const panel *t, span keys) {
  const attention *p = w->s->p;
  const ktensor *m = p->mask;
  const int64_t n = keys.to - keys.from, stride = m->strides[m->rank - 1];
  row_block some; /* BLOCK_KEYS at most */
  for (int l = 0; l < t->lanes; l++) {
    const int64_t at = query_offset(p, m, &t->rows[l]) + (w->at + keys.from) * stride;
    load_row(COMPUTE_F32, m->type, element_at(m->data, m->type, at), stride, n, &some);
    float *score = w->scores + l;
    for (int64_t j = 0; j < n; j++, score += t->lanes)
      if (m->type != DTYPE_BOOL)
        *score += some.f32[j];
      else if (some.f32[j] == 0)
        *score = (float)p->masked;
  }
}

static void hide_scores(const work *w, const panel *t, span keys) {
  for (int l = 0; l < t->lanes; l++) {
    const int64_t from = t->rows[l].from - w->at, to = t->rows[l].to - w->at;
    float *scores = w->scores + l - keys.from * t->lanes;
    for (int64_t j = keys.from; j < least(from, keys.to); j++) scores[j * t->lanes] = -INFINITY;
    for (int64_t j = larger(to, keys.from); j < keys.to; j++) scores[j * t->lanes] = -INFINITY;
  }
}

/* Whether a lane hides a value of the span's that is not finite: 0 times it is NaN. */
static bool hides_infinite(const work *w, const panel *t, span keys) {
  const int64_t width = w->s->v_width, first = least(t->all_from - w->at, keys.to),
                last = larger(t->all_to - w->at, keys.from);
  return !all_finite(w->s, (first - keys.from) * width, w->values + keys.from * width) ||
         !all_finite(w->s, (keys.to - last) * width, w->values + last * width);
}

/* As sum_values, of what each lane sees alone. */
static void sum_seen_values(const work *w, panel *t, span keys) {
  const int64_t width = w->s->v_width;
  for (int l = 0; l < t->lanes; l++) {
    const int64_t from = larger(keys.from, t->rows[l].from - w->at),
                  to = least(keys.to, t->rows[l].to - w->at);
    for (int64_t d = 0; d < width; d++) {
      float *sum = &t->sums[d * t->lanes + l];
      *sum *= t->state.fade[l];
      for (int64_t j = from; j < to; j++)
        *sum += w->scores[(j - keys.from) * t->lanes + l] * w->values[j * width + d];
    }
  }
}

static void sum_values(const work *w, panel *t, span keys) {
  const int64_t width = w->s->v_width, n = keys.to - keys.from;
  panel_product p = {.rows = width,
                     .k = w->joined ? pairs_of(n) : n,
                     .a = w->values + keys.from * width,
                     .a_row = 1,
                     .a_k = width,
                     .b = w->joined ? (const float *)w->score_words : w->scores,
                     .c = t->sums,
                     .fade = t->state.fade};
  if (w->joined && w->s->tiles) {
    p.k = round_up(n, w->s->tile) / 2;
    p.a = (const float *)w->value_words + keys.from / 2;
    p.a_row = w->s->block / 2;
    p.a_k = 1;
  } else if (w->joined) {
    p.a = (const float *)w->value_words + keys.from / 2 * width;
    join_rows(w->scores, n, t->lanes, w->score_words);
  }
  multiply(w, t, w->joined, &p);
}

static void attend_block(const work *w, panel *t) {
  const attention *p = w->s->p;
  const plan *s = w->s;
  const span keys = {larger(t->from - w->at, 0) / s->tile * s->tile,
                     least(t->to - w->at, w->n_keys)};
  const int64_t n = keys.to - keys.from;
  if (n <= 0) return;
  score_keys(w, t, keys);
  if (p->softcap > 0) s->kernels.cap(n * t->lanes, (float)p->softcap, w->scores);
  if (p->mask) mask_scores(w, t, keys);
  hide_scores(w, t, keys);
  if (s->tiles && w->joined)
    s->tiles->soften(t->lanes, n, w->scores, w->score_words, &t->state);
  else
    s->kernels.soften(t->lanes, n, w->scores, &t->state);
  if (!w->joined && hides_infinite(w, t, keys))
    sum_seen_values(w, t, keys);
  else
    sum_values(w, t, keys);
}

/* ---------------------------------------------------------------- tasks */

static size_t panel_bytes(const plan *s) {
  return sizeof(panel) + (size_t)((s->q_width + s->v_width) * PANEL_LANES) * sizeof(float);
}

/* Of a block: scores, keys and values; words are half as many. There is room for these where
 * products may be of them, also on processors without. */
static size_t block_bytes(const plan *s) {
  const int64_t n = s->block * (PANEL_LANES + s->k_width + s->v_width);
  return (size_t)(s->p->rounds ? n + n / 2 : n) * sizeof(float);
}

static work begin_task(const plan *s, int64_t task, char *scratch) {
  const int64_t pair = task / s->tasks_per_pair,
                first = task % s->tasks_per_pair * s->panels_per_task,
                n = least(s->panels - first, s->panels_per_task), size = s->k_width;
  float *memory = (float *)(void *)(scratch + n * (int64_t)sizeof(panel));
  work w = {.s = s,
            .k = find_keys(s->p, pair),
            .v = find_values(s->p, pair),
            .n = n,
            .from = s->p->sizes.n_keys,
            .panels = (panel *)(void *)scratch};
  for (int64_t i = 0; i < n; i++) {
    panel *t = &w.panels[i];
    find_panel(s->p, pair, (first + i) * PANEL_LANES, s->rows, t);
    t->q = memory;
    t->sums = t->q + s->q_width * t->lanes;
    memory = t->sums + s->v_width * t->lanes;
    w.from = least(w.from, t->from);
    w.to = larger(w.to, t->to);
    begin_panel(s, t);
  }
  w.scores = memory;
  w.keys = w.scores + s->block * PANEL_LANES;
  w.values = w.keys + s->block * size;
  w.key_words = (uint32_t *)(w.values + s->block * s->v_width);
  w.value_words = w.key_words + s->block * size / 2;
  w.score_words = s->tiles ? (uint32_t *)w.scores : w.value_words + s->block / 2 * s->v_width;
  return w;
}

static void attend_task(const void *user, int64_t task, char *scratch) {
  const plan *s = user;
  work w = begin_task(s, task, scratch);
  if (s->tiles) s->tiles->begin();
  for (int64_t at = w.from / s->block * s->block; at < w.to; at += s->block) {
    fill_block(&w, at);
    ask_for_block(&w, at + s->block);
    for (int64_t i = 0; i < w.n; i++) attend_block(&w, &w.panels[i]);
  }
  if (s->tiles) s->tiles->end();
  for (int64_t i = 0; i < w.n; i++) store_panel(s->p, &w.panels[i]);
}

/* As many panels to a task as leave one for each thread: each task makes floats or words of all
 * keys and values that it sees. */
static plan make_plan(const kernel_context *ctx, const attention *p) {
  const attention_sizes *n = &p->sizes;
  const int64_t pairs = n->n_batch * n->n_kv;
  plan s = {.p = p, .kernels = choose_panel_kernels(), .rows = n->share * n->n_queries};
  s.pairs = p->rounds && s.kernels.multiply_pairs;
  s.tiles = s.pairs ? choose_panel_tiles() : NULL;
  s.tile = s.tiles ? PANEL_PAIRS : PANEL_TILE;
  s.q_width = round_up(n->head_dim, s.tile);
  s.v_width = round_up(n->v_dim, s.tile);
  s.k_width = s.tiles ? s.q_width : n->head_dim;
  s.block = least(BLOCK_KEYS, round_up(n->n_keys, s.tile));
  s.panels = (s.rows + PANEL_LANES - 1) / PANEL_LANES;
  const int64_t most = larger(MOST_BYTES / (int64_t)panel_bytes(&s), 1),
                each = least(larger(pairs * s.panels / larger(ctx->n_threads, 1), 1), most);
  s.tasks_per_pair = (s.panels + each - 1) / each;
  s.panels_per_task = (s.panels + s.tasks_per_pair - 1) / larger(s.tasks_per_pair, 1);
  s.n_tasks = pairs * s.tasks_per_pair;
  s.work = pairs * s.rows * n->n_keys * (n->head_dim + n->v_dim) / MULTIPLIES_PER_THREAD;
  s.scratch_size = (size_t)each * panel_bytes(&s) + block_bytes(&s); /* no less for more rows */
  return s;
}

size_t attend_panels_scratch(const kernel_context *ctx, const attention *p) {
  const plan s = make_plan(ctx, p);
  return slots_bytes(ctx, s.n_tasks, s.work, s.scratch_size);
}

void attend_panels(const kernel_context *ctx, const attention *p, char *scratch) {
  const plan s = make_plan(ctx, p);
  run_slots_in(ctx, s.n_tasks, s.work, s.scratch_size, attend_task, &s, scratch);
}
