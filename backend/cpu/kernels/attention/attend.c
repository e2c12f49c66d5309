/* Attention for few queries. Each task has a few queries that read the same keys, of one or several
 * heads. It computes all their scores, normalises them, and sums the values. Keys and values are
 * read in place. Floats up to F32 compute in float with sums in double, F64 in double. */
#include "backend/cpu/kernels/attention/attend.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/attention/attend_panels.h"
#include "backend/cpu/kernels/gemm/few_rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vector.h"
#include "backend/cpu/kernels/support/walk.h"

enum { MAX_ROWS = 8, FEW_KEYS = 8, MULTIPLIES_PER_THREAD = 128 * 1024 };
enum { AHEAD = 16, LINE = 64 }; /* prefetch distance in rows; bytes per cache line */

/* A pair is a batch and a head of k and v. Its rows are all queries of the heads that share it. */
typedef struct heads {
  const attention *p;
  compute_type c;
  int rank;                            /* rank of all operands except the scales */
  int64_t l_q, l_k, head_dim, v_dim;   /* attention_sizes; l_q, l_k: n_queries, n_keys */
  int64_t rows, rows_per_task, blocks; /* rows and tasks (blocks) per head of k */
  int64_t n_tasks, work;               /* arguments of run_slots */
  size_t scratch_size;
} heads;

/* The rows of a task and their memory, in the compute type. */
typedef struct work {
  const heads *h;
  query_row rows[MAX_ROWS];
  int64_t pair, n, from, to; /* [from, to): keys that at least one row may see */
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

static void attend_find_rows(work *work, int64_t task) {
  const heads *heads = work->h;
  const attention *attention = heads->p;
  int64_t pair = task / heads->blocks, first = task % heads->blocks * heads->rows_per_task;
  work->n = heads->rows - first < heads->rows_per_task ? heads->rows - first : heads->rows_per_task;
  work->pair = pair;
  work->from = heads->l_k;
  for (int64_t i = 0; i < work->n; i++) {
    query_row *row = &work->rows[i];
    *row = find_query(attention, pair, first + i);
    if (row->from < work->from) work->from = row->from;
    if (row->to > work->to) work->to = row->to;
  }
}

/* Some rows from j on: contiguous ones if they can be read in place, else at most FEW_KEYS rows as
 * floats in work->line. */
typedef struct some_rows {
  rows_in_place x;
  int64_t n;
  float factors[FEW_KEYS]; /* scales of at most FEW_KEYS rows, if k or v has scales */
} some_rows;

/* Prefetches the rows that follow [j, j + n) if they are in pages, since the hardware prefetcher
 * does not predict the next page. Several queries read the keys from the cache anyway. */
static void prefetch_next(const work *work, const key_rows *rows, int64_t j, int64_t n,
                          int64_t to) {
  int64_t next = j + (rows_accept_type(rows->t->type) ? n : AHEAD), rest;
  if (!rows->pages || work->h->l_q > 1 || next >= to) return;
  const char *x =
      element_at(rows->t->data, rows->t->type, place_row(rows, rows->t, rows->at, next, &rest));
  int64_t row = rows->t->strides[work->h->rank - 2] * (int64_t)dtype_size(rows->t->type),
          bytes = (n < rest ? n : rest) * row;
  for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(x + i);
}

static some_rows read_rows(const work *work, const key_rows *rows, int64_t j, int64_t to) {
  int64_t rest, at = place_row(rows, rows->t, rows->at, j, &rest),
                size = rows->t->dims[work->h->rank - 1];
  some_rows read = {.n = to - j < rest ? to - j : rest, .x = {DTYPE_F32, work->line, size}};
  if (rows_accept_type(rows->t->type) && !rows->scale) {
    read.x = (rows_in_place){rows->t->type, element_at(rows->t->data, rows->t->type, at),
                             rows->t->strides[work->h->rank - 2]};
    prefetch_next(work, rows, j, read.n, to);
    return read;
  }
  float *line = (float *)(void *)work->line;
  if (read.n > FEW_KEYS) read.n = FEW_KEYS;
  prefetch_next(work, rows, j, FEW_KEYS, to);
  for (int64_t i = 0; i < read.n; i++) {
    double factor;
    (void)read_row(rows, work->h->c, j + i, line + i * size, &factor);
    read.factors[i] = (float)factor;
  }
  return read;
}

static void load_queries(const work *work) {
  const heads *heads = work->h;
  const ktensor *q = heads->p->q;
  int64_t total = work->n * heads->head_dim;
  for (int64_t i = 0; i < work->n; i++)
    load_row(heads->c, q->type,
             element_at(q->data, q->type, query_offset(heads->p, q, &work->rows[i])), 1,
             heads->head_dim, work->q + (size_t)(i * heads->head_dim) * compute_size(heads->c));
  float *f = (float *)(void *)work->q;
  double *d = (double *)(void *)work->q;
  for (int64_t i = 0; i < total && heads->c == COMPUTE_F32; i++) f[i] *= (float)heads->p->scale;
  for (int64_t i = 0; i < total && heads->c == COMPUTE_F64; i++) d[i] *= heads->p->scale;
}

static double cap_score(const attention *attention, double score) {
  return attention->softcap > 0 ? attention->softcap * tanh(score / attention->softcap) : score;
}

/* Computes the scores of all rows of a task, before the mask. */
static void score_keys_f32(const work *work) {
  const heads *heads = work->h;
  float *scores = (float *)(void *)work->scores;
  key_rows keys = find_keys(heads->p, work->pair);
  for (int64_t i = 0; i < work->n; i++)
    memset(scores + i * heads->l_k + work->from, 0,
           (size_t)(work->to - work->from) * sizeof *scores);
  for (int64_t j = work->from, n; j < work->to; j += n) {
    const some_rows rows = read_rows(work, &keys, j, work->to);
    n = rows.n;
    dots_of_rows(work->n, n, heads->head_dim, (const float *)(const void *)work->q, heads->head_dim,
                 &rows.x, scores + j, heads->l_k);
    if (!keys.scale && heads->p->softcap <= 0) continue;
    for (int64_t i = 0; i < work->n; i++)
      for (int64_t l = 0; l < n; l++) {
        float *score = &scores[i * heads->l_k + j + l];
        if (keys.scale) *score *= rows.factors[l];
        *score = (float)cap_score(heads->p, (double)*score);
      }
  }
}

static void score_keys_f64(const work *work) {
  const heads *heads = work->h;
  double *scores = (double *)(void *)work->scores;
  const double *q = (const double *)(const void *)work->q;
  key_rows keys = find_keys(heads->p, work->pair);
  for (int64_t j = work->from; j < work->to; j++) {
    double factor;
    const void *key = read_row(&keys, heads->c, j, work->line, &factor);
    for (int64_t i = 0; i < work->n; i++)
      scores[i * heads->l_k + j] =
          cap_score(heads->p, dot_f64(heads->head_dim, q + i * heads->head_dim, key) * factor);
  }
}

/* Adds the mask to the n scores of row i, the first of which is that of key 0. */
static void attend_mask_scores(const work *work, int64_t i, int64_t n, char *scores) {
  const heads *heads = work->h;
  const ktensor *m = heads->p->mask;
  if (!m) return;
  int64_t stride = m->strides[heads->rank - 1];
  int64_t at = query_offset(heads->p, m, &work->rows[i]);
  float *f = (float *)(void *)scores;
  double *d = (double *)(void *)scores;
  row_block block;
  for (int64_t j = 0; j < n; j += ROW_BLOCK) {
    int64_t count = n - j < ROW_BLOCK ? n - j : ROW_BLOCK;
    load_row(heads->c, m->type, element_at(m->data, m->type, at + j * stride), stride, count,
             &block);
    for (int64_t l = 0; l < count; l++) {
      bool hidden = m->type == DTYPE_BOOL &&
                    (heads->c == COMPUTE_F32 ? block.f32[l] == 0 : block.f64[l] == 0);
      bool added = m->type != DTYPE_BOOL;
      if (heads->c == COMPUTE_F32)
        f[j + l] = hidden ? (float)heads->p->masked : added ? f[j + l] + block.f32[l] : f[j + l];
      if (heads->c == COMPUTE_F64)
        d[j + l] = hidden ? heads->p->masked : added ? d[j + l] + block.f64[l] : d[j + l];
    }
  }
}

/* Replaces scores by weights, which are all `empty` if every score is -inf. sink: a further score.
 */
static void softmax_f32(float *x, int64_t n, float sink, float empty) {
  float max = largest_f32(n, x);
  if (sink > max) max = sink;
  double sum = max == -INFINITY ? 0 : exponentials_f32(n, max, x, x) + exp((double)sink - max);
  float scale = sum == 0 ? 0 : (float)(1 / sum);
  for (int64_t i = 0; i < n; i++) x[i] = sum == 0 ? empty : x[i] * scale;
}

static void softmax_f64(double *x, int64_t n, double sink, double empty) {
  double max = sink, sum = 0;
  for (int64_t i = 0; i < n; i++) max = x[i] > max || isnan(x[i]) ? x[i] : max;
  for (int64_t i = 0; i < n; i++) sum += x[i] = max == -INFINITY ? 0 : exp(x[i] - max);
  if (max > -INFINITY) sum += exp(sink - max);
  double scale = sum == 0 ? 0 : 1 / sum;
  for (int64_t i = 0; i < n; i++) x[i] = sum == 0 ? empty : x[i] * scale;
}

static void normalize_scores(const work *work) {
  const heads *heads = work->h;
  for (int64_t i = 0; i < work->n; i++) {
    const query_row *row = &work->rows[i];
    int64_t n = row->to - row->from, size = (int64_t)compute_size(heads->c);
    char *scores = work->scores + i * heads->l_k * size;
    attend_mask_scores(work, i, row->to, scores);
    scores += row->from * size;
    const float sink = find_sink(heads->p, row), empty = heads->p->empty;
    if (heads->c == COMPUTE_F32) softmax_f32((float *)(void *)scores, n, sink, empty);
    if (heads->c == COMPUTE_F64) softmax_f64((double *)(void *)scores, n, (double)sink, empty);
  }
}

/* Adds values [from, to) to the rows that may see them: row i sees [rows[i].from, rows[i].to). */
static void sum_each_f32(const work *work, const key_rows *values, int64_t from, int64_t to) {
  const heads *heads = work->h;
  const float *weights = (const float *)(const void *)work->scores;
  float *y = (float *)(void *)work->sums;
  for (int64_t j = from; j < to; j++) {
    double factor;
    const void *value = read_row(values, heads->c, j, work->line, &factor);
    for (int64_t i = 0; i < work->n; i++)
      if (j >= work->rows[i].from && j < work->rows[i].to)
        axpy_f32(heads->v_dim, weights[i * heads->l_k + j] * (float)factor, value,
                 y + i * heads->v_dim);
  }
}

/* Adds values [from, to), which every row may see. */
static void sum_common_f32(const work *work, const key_rows *values, int64_t from, int64_t to) {
  const heads *heads = work->h;
  float *weights = (float *)(void *)work->scores;
  for (int64_t j = from, n; j < to; j += n) {
    const some_rows rows = read_rows(work, values, j, to);
    n = rows.n;
    for (int64_t i = 0; i < work->n && values->scale; i++)
      for (int64_t l = 0; l < n; l++) weights[i * heads->l_k + j + l] *= rows.factors[l];
    sums_of_rows(work->n, heads->v_dim, n, weights + j, heads->l_k, &rows.x,
                 (float *)(void *)work->sums, heads->v_dim);
  }
}

static void sum_values_f32(const work *work) {
  const heads *heads = work->h;
  key_rows values = find_values(heads->p, work->pair);
  int64_t from = work->from, to = work->to;
  for (int64_t i = 0; i < work->n; i++) {
    if (work->rows[i].from > from) from = work->rows[i].from;
    if (work->rows[i].to < to) to = work->rows[i].to;
  }
  if (from > to) from = to = work->to; /* no key is visible to all rows */
  sum_each_f32(work, &values, work->from, from);
  sum_common_f32(work, &values, from, to);
  sum_each_f32(work, &values, to, work->to);
}

static void sum_values_f64(const work *work) {
  const heads *heads = work->h;
  const double *weights = (const double *)(const void *)work->scores;
  double *y = (double *)(void *)work->sums;
  key_rows values = find_values(heads->p, work->pair);
  for (int64_t j = work->from; j < work->to; j++) {
    double factor;
    const double *x = read_row(&values, heads->c, j, work->line, &factor);
    for (int64_t i = 0; i < work->n; i++) {
      if (j >= work->rows[i].to || j < work->rows[i].from) continue;
      for (int64_t d = 0; d < heads->v_dim; d++)
        y[i * heads->v_dim + d] += weights[i * heads->l_k + j] * factor * x[d];
    }
  }
}

static void attend(const void *user, int64_t task, char *scratch) {
  const heads *heads = user;
  size_t size = compute_size(heads->c);
  work work = {.h = heads};
  attend_find_rows(&work, task);
  work.q = scratch;
  work.scores = work.q + (size_t)(work.n * heads->head_dim) * size;
  work.line = work.scores + (size_t)(work.n * heads->l_k) * size;
  work.sums = work.line + (size_t)(FEW_KEYS * larger(heads->head_dim, heads->v_dim)) * size;
  load_queries(&work);
  if (heads->c == COMPUTE_F32) score_keys_f32(&work);
  if (heads->c == COMPUTE_F64) score_keys_f64(&work);
  normalize_scores(&work);
  memset(work.sums, 0, (size_t)(work.n * heads->v_dim) * size);
  if (heads->c == COMPUTE_F32) sum_values_f32(&work);
  if (heads->c == COMPUTE_F64) sum_values_f64(&work);
  const ktensor *out = heads->p->out;
  for (int64_t i = 0; i < work.n; i++)
    store_row(heads->c, out->type,
              element_at(out->data, out->type, query_offset(heads->p, out, &work.rows[i])), 1,
              heads->v_dim, work.sums + (size_t)(i * heads->v_dim) * size);
}

/* Chooses the number of rows per task so that each thread has a task. */
static void divide(heads *heads, int64_t n_pairs, int n_threads) {
  int64_t fair = n_pairs * heads->rows / (n_threads > 0 ? n_threads : 1);
  heads->rows_per_task = fair < 1 ? 1 : fair < MAX_ROWS ? fair : MAX_ROWS;
  heads->blocks = (heads->rows + heads->rows_per_task - 1) / heads->rows_per_task;
  heads->n_tasks = heads->v_dim > 0 ? n_pairs * heads->blocks : 0;
}

/* Plans the tasks of an attention with `rows` rows per pair. */
static heads make_heads(const kernel_context *ctx, const attention *attention, int64_t rows) {
  const attention_sizes *sizes = &attention->sizes;
  heads heads = {.p = attention,
                 .c = attention->q->type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32,
                 .rank = attention->q->rank,
                 .l_q = sizes->n_queries,
                 .l_k = sizes->n_keys,
                 .head_dim = sizes->head_dim,
                 .v_dim = sizes->v_dim,
                 .rows = rows};
  int64_t n_pairs = sizes->n_batch * sizes->n_kv;
  divide(&heads, n_pairs, ctx->n_threads);
  heads.work =
      n_pairs * heads.rows * heads.l_k * (heads.head_dim + heads.v_dim) / MULTIPLIES_PER_THREAD;
  int64_t elements = heads.rows_per_task * (heads.head_dim + heads.l_k + heads.v_dim) +
                     FEW_KEYS * larger(heads.head_dim, heads.v_dim);
  heads.scratch_size = (size_t)elements * compute_size(heads.c);
  return heads;
}

static int64_t attend_count_rows(const attention *attention) {
  return attention->sizes.share * attention->sizes.n_queries;
}

/* True if panels are used. The rows of a single query are distributed over threads instead. */
static bool has_panels(const attention *attention) {
  return attention->q->type != DTYPE_F64 && attend_count_rows(attention) > MAX_ROWS &&
         attention->sizes.n_queries > 1 && attention->sizes.n_keys > 0 &&
         attention->sizes.v_dim > 0;
}

bool attend_rounds(const attention *attention) {
  return has_panels(attention) && attention->sizes.head_dim % 2 == 0;
}

/* A piece with fewer queries may not use panels. It then has few rows, or one query. */
size_t attend_scratch(const kernel_context *ctx, const attention *attention) {
  const bool panels = has_panels(attention);
  const heads heads =
      make_heads(ctx, attention,
                 panels ? larger(MAX_ROWS, attention->sizes.share) : attend_count_rows(attention));
  const size_t bytes = slots_bytes(ctx, heads.n_tasks, heads.work, heads.scratch_size),
               more = panels ? attend_panels_scratch(ctx, attention) : 0;
  return bytes > more ? bytes : more;
}

void attend_heads(const kernel_context *ctx, const attention *attention, char *scratch) {
  if (has_panels(attention)) {
    attend_panels(ctx, attention, scratch);
    return;
  }
  const heads heads = make_heads(ctx, attention, attend_count_rows(attention));
  run_slots_in(ctx, heads.n_tasks, heads.work, heads.scratch_size, attend, &heads, scratch);
}
