/* Attention: each task takes a few queries that read the same keys, of one head or of several,
 * computes all their scores, normalises them, and sums the values. Keys and values are read in
 * place; narrow floats compute in float with sums in double, F64 in double. */
#include "backend/cpu/kernels/attention/attend.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/attention/attend_panels.h"
#include "backend/cpu/kernels/gemm/few_rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vector.h"
#include "backend/cpu/kernels/support/walk.h"

enum { MOST_ROWS = 8, FEW_KEYS = 8, MULTIPLIES_PER_THREAD = 128 * 1024 };
enum { AHEAD = 16, LINE = 64 }; /* of memory that is asked for: rows ahead; bytes */

/* All queries of the heads that share one of k and v are its rows. */
typedef struct heads {
  const attention *p;
  compute_class c;
  int rank;                            /* of all operands but the scales */
  int64_t l_q, l_k, head_dim, v_dim;   /* of p's sizes */
  int64_t rows, rows_per_task, blocks; /* per head of k; blocks: tasks */
  int64_t n_tasks, work;               /* as run_slots wants them */
  size_t scratch_size;
} heads;

/* The rows of a task and their memory, in the compute type. */
typedef struct work {
  const heads *h;
  query_row rows[MOST_ROWS];
  int64_t pair, n, from, to; /* [from, to): keys that one of them may see */
  char *q;                   /* (n, head_dim), scaled */
  char *scores;              /* (n, l_k) */
  char *line;                /* (FEW_KEYS, max(head_dim, v_dim)): keys or values */
  char *sums;                /* (n, v_dim) */
} work;

static double dot_f64(int64_t n, const double *a, const double *b) {
  double lane[4] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) lane[k] += a[i + k] * b[i + k];
  for (; i < n; i++) sum += a[i] * b[i];
  return sum + ((lane[0] + lane[1]) + (lane[2] + lane[3]));
}

static void find_rows(work *w, int64_t task) {
  const heads *h = w->h;
  const attention *p = h->p;
  int64_t pair = task / h->blocks, first = task % h->blocks * h->rows_per_task;
  w->n = h->rows - first < h->rows_per_task ? h->rows - first : h->rows_per_task;
  w->pair = pair;
  w->from = h->l_k;
  for (int64_t i = 0; i < w->n; i++) {
    query_row *r = &w->rows[i];
    *r = find_query(p, pair, first + i);
    if (r->from < w->from) w->from = r->from;
    if (r->to > w->to) w->to = r->to;
  }
}

/* Some rows from j on: those that lie behind one another where they are read as they are, else
 * FEW_KEYS at most, as floats in w->line. */
typedef struct some_rows {
  rows_in_place x;
  int64_t n;
  float factors[FEW_KEYS]; /* where they have scales; they are few then, too */
} some_rows;

/* What is read after n rows from j on is asked for, if they lie in pages: the processor itself does
 * not foresee where the next one is. Many queries read the keys from the cache anyway. */
static void ask_for_next(const work *w, const key_rows *r, int64_t j, int64_t n, int64_t to) {
  int64_t next = j + (rows_take(r->t->type) ? n : AHEAD), rest;
  if (!r->pages || w->h->l_q > 1 || next >= to) return;
  const char *x = element_at(r->t->data, r->t->type, place_row(r, r->t, r->at, next, &rest));
  int64_t row = r->t->strides[w->h->rank - 2] * (int64_t)dtype_size(r->t->type),
          bytes = (n < rest ? n : rest) * row;
  for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(x + i);
}

static some_rows read_rows(const work *w, const key_rows *r, int64_t j, int64_t to) {
  int64_t rest, at = place_row(r, r->t, r->at, j, &rest), size = r->t->dims[w->h->rank - 1];
  some_rows f = {.n = to - j < rest ? to - j : rest, .x = {DTYPE_F32, w->line, size}};
  if (rows_take(r->t->type) && !r->scale) {
    f.x = (rows_in_place){r->t->type, element_at(r->t->data, r->t->type, at),
                          r->t->strides[w->h->rank - 2]};
    ask_for_next(w, r, j, f.n, to);
    return f;
  }
  float *line = (float *)(void *)w->line;
  if (f.n > FEW_KEYS) f.n = FEW_KEYS;
  ask_for_next(w, r, j, FEW_KEYS, to);
  for (int64_t i = 0; i < f.n; i++) {
    double factor;
    (void)read_row(r, w->h->c, j + i, line + i * size, &factor);
    f.factors[i] = (float)factor;
  }
  return f;
}

static void load_queries(const work *w) {
  const heads *h = w->h;
  const ktensor *q = h->p->q;
  int64_t total = w->n * h->head_dim;
  for (int64_t i = 0; i < w->n; i++)
    load_row(h->c, q->type, element_at(q->data, q->type, query_offset(h->p, q, &w->rows[i])), 1,
             h->head_dim, w->q + (size_t)(i * h->head_dim) * compute_size(h->c));
  float *f = (float *)(void *)w->q;
  double *d = (double *)(void *)w->q;
  for (int64_t i = 0; i < total && h->c == COMPUTE_F32; i++) f[i] *= (float)h->p->scale;
  for (int64_t i = 0; i < total && h->c == COMPUTE_F64; i++) d[i] *= h->p->scale;
}

static double cap_score(const attention *p, double score) {
  return p->softcap > 0 ? p->softcap * tanh(score / p->softcap) : score;
}

static void score_keys_f32(const work *w) {
  const heads *h = w->h;
  float *scores = (float *)(void *)w->scores;
  key_rows keys = find_keys(h->p, w->pair);
  for (int64_t i = 0; i < w->n; i++)
    memset(scores + i * h->l_k + w->from, 0, (size_t)(w->to - w->from) * sizeof *scores);
  for (int64_t j = w->from, n; j < w->to; j += n) {
    const some_rows rows = read_rows(w, &keys, j, w->to);
    n = rows.n;
    dots_of_rows(w->n, n, h->head_dim, (const float *)(const void *)w->q, h->head_dim, &rows.x,
                 scores + j, h->l_k);
    if (!keys.scale && h->p->softcap <= 0) continue;
    for (int64_t i = 0; i < w->n; i++)
      for (int64_t l = 0; l < n; l++) {
        float *score = &scores[i * h->l_k + j + l];
        if (keys.scale) *score *= rows.factors[l];
        *score = (float)cap_score(h->p, (double)*score);
      }
  }
}

static void score_keys_f64(const work *w) {
  const heads *h = w->h;
  double *scores = (double *)(void *)w->scores;
  const double *q = (const double *)(const void *)w->q;
  key_rows keys = find_keys(h->p, w->pair);
  for (int64_t j = w->from; j < w->to; j++) {
    double factor;
    const void *key = read_row(&keys, h->c, j, w->line, &factor);
    for (int64_t i = 0; i < w->n; i++)
      scores[i * h->l_k + j] =
          cap_score(h->p, dot_f64(h->head_dim, q + i * h->head_dim, key) * factor);
  }
}

/* Adds the mask to the first n scores of row i, which begin at key 0. */
static void mask_scores(const work *w, int64_t i, int64_t n, char *scores) {
  const heads *h = w->h;
  const ktensor *m = h->p->mask;
  if (!m) return;
  int64_t stride = m->strides[h->rank - 1];
  int64_t at = query_offset(h->p, m, &w->rows[i]);
  float *f = (float *)(void *)scores;
  double *d = (double *)(void *)scores;
  row_block block;
  for (int64_t j = 0; j < n; j += ROW_BLOCK) {
    int64_t count = n - j < ROW_BLOCK ? n - j : ROW_BLOCK;
    load_row(h->c, m->type, element_at(m->data, m->type, at + j * stride), stride, count, &block);
    for (int64_t l = 0; l < count; l++) {
      bool hidden =
          m->type == DTYPE_BOOL && (h->c == COMPUTE_F32 ? block.f32[l] == 0 : block.f64[l] == 0);
      bool added = m->type != DTYPE_BOOL;
      if (h->c == COMPUTE_F32)
        f[j + l] = hidden ? (float)h->p->masked : added ? f[j + l] + block.f32[l] : f[j + l];
      if (h->c == COMPUTE_F64)
        d[j + l] = hidden ? h->p->masked : added ? d[j + l] + block.f64[l] : d[j + l];
    }
  }
}

/* Scores become weights; all `empty` when every score is -inf. */
static void softmax_f32(float *x, int64_t n, float empty) {
  float max = largest_f32(n, x);
  double sum = max == -INFINITY ? 0 : exponentials_f32(n, max, x, x);
  float scale = sum == 0 ? 0 : (float)(1 / sum);
  for (int64_t i = 0; i < n; i++) x[i] = sum == 0 ? empty : x[i] * scale;
}

static void softmax_f64(double *x, int64_t n, double empty) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) max = x[i] > max || isnan(x[i]) ? x[i] : max;
  for (int64_t i = 0; i < n; i++) sum += x[i] = max == -INFINITY ? 0 : exp(x[i] - max);
  double scale = sum == 0 ? 0 : 1 / sum;
  for (int64_t i = 0; i < n; i++) x[i] = sum == 0 ? empty : x[i] * scale;
}

static void normalize_scores(const work *w) {
  const heads *h = w->h;
  for (int64_t i = 0; i < w->n; i++) {
    const query_row *r = &w->rows[i];
    int64_t n = r->to - r->from, size = (int64_t)compute_size(h->c);
    char *scores = w->scores + i * h->l_k * size;
    mask_scores(w, i, r->to, scores);
    scores += r->from * size;
    if (h->c == COMPUTE_F32) softmax_f32((float *)(void *)scores, n, h->p->empty);
    if (h->c == COMPUTE_F64) softmax_f64((double *)(void *)scores, n, h->p->empty);
  }
}

/* Values [from, to), of which row i may see [rows[i].from, rows[i].to). */
static void sum_each_f32(const work *w, const key_rows *values, int64_t from, int64_t to) {
  const heads *h = w->h;
  const float *weights = (const float *)(const void *)w->scores;
  float *y = (float *)(void *)w->sums;
  for (int64_t j = from; j < to; j++) {
    double factor;
    const void *value = read_row(values, h->c, j, w->line, &factor);
    for (int64_t i = 0; i < w->n; i++)
      if (j >= w->rows[i].from && j < w->rows[i].to)
        axpy_f32(h->v_dim, weights[i * h->l_k + j] * (float)factor, value, y + i * h->v_dim);
  }
}

/* Of all that every row sees. */
static void sum_common_f32(const work *w, const key_rows *values, int64_t from, int64_t to) {
  const heads *h = w->h;
  float *weights = (float *)(void *)w->scores;
  for (int64_t j = from, n; j < to; j += n) {
    const some_rows rows = read_rows(w, values, j, to);
    n = rows.n;
    for (int64_t i = 0; i < w->n && values->scale; i++)
      for (int64_t l = 0; l < n; l++) weights[i * h->l_k + j + l] *= rows.factors[l];
    sums_of_rows(w->n, h->v_dim, n, weights + j, h->l_k, &rows.x, (float *)(void *)w->sums,
                 h->v_dim);
  }
}

static void sum_values_f32(const work *w) {
  const heads *h = w->h;
  key_rows values = find_values(h->p, w->pair);
  int64_t from = w->from, to = w->to;
  for (int64_t i = 0; i < w->n; i++) {
    if (w->rows[i].from > from) from = w->rows[i].from;
    if (w->rows[i].to < to) to = w->rows[i].to;
  }
  if (from > to) from = to = w->to; /* they have none in common */
  sum_each_f32(w, &values, w->from, from);
  sum_common_f32(w, &values, from, to);
  sum_each_f32(w, &values, to, w->to);
}

static void sum_values_f64(const work *w) {
  const heads *h = w->h;
  const double *weights = (const double *)(const void *)w->scores;
  double *y = (double *)(void *)w->sums;
  key_rows values = find_values(h->p, w->pair);
  for (int64_t j = w->from; j < w->to; j++) {
    double factor;
    const double *x = read_row(&values, h->c, j, w->line, &factor);
    for (int64_t i = 0; i < w->n; i++) {
      if (j >= w->rows[i].to || j < w->rows[i].from) continue;
      for (int64_t d = 0; d < h->v_dim; d++)
        y[i * h->v_dim + d] += weights[i * h->l_k + j] * factor * x[d];
    }
  }
}

static void attend(const void *user, int64_t task, char *scratch) {
  const heads *h = user;
  size_t size = compute_size(h->c);
  work w = {.h = h};
  find_rows(&w, task);
  w.q = scratch;
  w.scores = w.q + (size_t)(w.n * h->head_dim) * size;
  w.line = w.scores + (size_t)(w.n * h->l_k) * size;
  w.sums = w.line + (size_t)(FEW_KEYS * larger(h->head_dim, h->v_dim)) * size;
  load_queries(&w);
  if (h->c == COMPUTE_F32) score_keys_f32(&w);
  if (h->c == COMPUTE_F64) score_keys_f64(&w);
  normalize_scores(&w);
  memset(w.sums, 0, (size_t)(w.n * h->v_dim) * size);
  if (h->c == COMPUTE_F32) sum_values_f32(&w);
  if (h->c == COMPUTE_F64) sum_values_f64(&w);
  const ktensor *out = h->p->out;
  for (int64_t i = 0; i < w.n; i++)
    store_row(h->c, out->type,
              element_at(out->data, out->type, query_offset(h->p, out, &w.rows[i])), 1, h->v_dim,
              w.sums + (size_t)(i * h->v_dim) * size);
}

/* As many rows to a task as leave one for each thread. */
static void divide(heads *h, int64_t n_pairs, int n_threads) {
  int64_t fair = n_pairs * h->rows / (n_threads > 0 ? n_threads : 1);
  h->rows_per_task = fair < 1 ? 1 : fair < MOST_ROWS ? fair : MOST_ROWS;
  h->blocks = (h->rows + h->rows_per_task - 1) / h->rows_per_task;
  h->n_tasks = h->v_dim > 0 ? n_pairs * h->blocks : 0;
}

static heads make_heads(const kernel_context *ctx, const attention *p, int64_t rows) {
  const attention_sizes *s = &p->sizes;
  heads h = {.p = p,
             .c = p->q->type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32,
             .rank = p->q->rank,
             .l_q = s->n_queries,
             .l_k = s->n_keys,
             .head_dim = s->head_dim,
             .v_dim = s->v_dim,
             .rows = rows};
  int64_t n_pairs = s->n_batch * s->n_kv;
  divide(&h, n_pairs, ctx->n_threads);
  h.work = n_pairs * h.rows * h.l_k * (h.head_dim + h.v_dim) / MULTIPLIES_PER_THREAD;
  int64_t elements =
      h.rows_per_task * (h.head_dim + h.l_k + h.v_dim) + FEW_KEYS * larger(h.head_dim, h.v_dim);
  h.scratch_size = (size_t)elements * compute_size(h.c);
  return h;
}

static int64_t count_rows(const attention *p) { return p->sizes.share * p->sizes.n_queries; }

/* One query's rows are left to as many threads as there are. */
static bool has_panels(const attention *p) {
  return p->q->type != DTYPE_F64 && count_rows(p) > MOST_ROWS && p->sizes.n_queries > 1 &&
         p->sizes.n_keys > 0 && p->sizes.v_dim > 0;
}

bool attend_rounds(const attention *p) { return has_panels(p) && p->sizes.head_dim % 2 == 0; }

/* A piece of fewer queries may have no panels: then it has few rows, or one query. */
size_t attend_scratch(const kernel_context *ctx, const attention *p) {
  const bool panels = has_panels(p);
  const heads h = make_heads(ctx, p, panels ? larger(MOST_ROWS, p->sizes.share) : count_rows(p));
  const size_t bytes = slots_bytes(ctx, h.n_tasks, h.work, h.scratch_size),
               more = panels ? attend_panels_scratch(ctx, p) : 0;
  return bytes > more ? bytes : more;
}

void attend_heads(const kernel_context *ctx, const attention *p, char *scratch) {
  if (has_panels(p)) {
    attend_panels(ctx, p, scratch);
    return;
  }
  const heads h = make_heads(ctx, p, count_rows(p));
  run_slots_in(ctx, h.n_tasks, h.work, h.scratch_size, attend, &h, scratch);
}
