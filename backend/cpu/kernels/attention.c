/* Attention: each task takes a few queries that read the same keys, of one head or of several,
 * computes all their scores, normalises them, and sums the values. Keys and values are read in
 * place; narrow floats compute in float with sums in double, F64 in double. */
#include "backend/cpu/kernels/attention.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/vector.h"
#include "backend/cpu/kernels/walk.h"

enum {
  MOST_ROWS = 8,
  FEW_KEYS = 8,
  MULTIPLIES_PER_THREAD = 128 * 1024,
  ELEMENTS_PER_THREAD = 16 * 1024
};

/* What is attended to: all of an op, or a piece of one with a cache. Key j is row (first_row + j)
 * mod rows of k and v. */
typedef struct attention {
  const ktensor *q, *k, *v, *mask, *out; /* mask: NULL where there is none */
  const ktensor *k_scale, *v_scale;      /* factors of the rows, or NULL */
  attention_sizes sizes;                 /* n_keys: up to the last one that is seen */
  int64_t first_row;
  bool causal;            /* query i sees keys <= before + i ... */
  int64_t before, window; /* ... and of these the last `window`; 0: all */
  double scale, softcap, masked;
  float empty; /* 0 or NaN: the weights of a query whose scores are all -inf */
} attention;

/* All queries of the heads that share one of k and v are its rows. */
typedef struct heads {
  const attention *p;
  compute_class c;
  int rank;                                 /* of all operands but the scales */
  int64_t share, l_q, l_k, head_dim, v_dim; /* of p's sizes */
  int64_t rows, rows_per_task, blocks;      /* per head of k; blocks: tasks */
  int64_t n_tasks, work;                    /* as run_slots wants them */
  size_t scratch_size;
} heads;

/* A query: it may see the keys [from, to) before the mask. */
typedef struct query_row {
  int64_t head, query, from, to; /* head: flat over (..., n_heads) */
} query_row;

/* The rows of a task and their memory, in the compute type. */
typedef struct work {
  const heads *h;
  query_row rows[MOST_ROWS];
  int64_t n, from, to; /* [from, to): keys that one of them may see */
  char *q;             /* (n, head_dim), scaled */
  char *scores;        /* (n, l_k) */
  char *line;          /* (FEW_KEYS, max(head_dim, v_dim)): keys or values */
  char *sums;          /* (n, v_dim) */
} work;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Offset of the matrix of flat head `head` in t, whose heads are shared by `group`. */
static int64_t head_offset(const heads *h, const ktensor *t, int64_t head, int64_t group) {
  int64_t offset = 0;
  for (int d = h->rank - 3; d >= 0; d--) {
    int64_t size = h->p->q->dims[d], i = head % size;
    if (t->dims[d] > 1) offset += (d == h->rank - 3 ? i / group : i) * t->strides[d];
    head /= size;
  }
  return offset;
}

/* n elements of class c, in place if they are stored so. */
static const void *row_in_place(compute_class c, dtype t, const void *from, int64_t n, void *row) {
  if (t == DTYPE_F32 && c == COMPUTE_F32) return from;
  if (t == DTYPE_F64 && c == COMPUTE_F64) return from;
  load_row(c, t, from, 1, n, row);
  return row;
}

static double dot_f64(int64_t n, const double *a, const double *b) {
  double lane[4] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) lane[k] += a[i + k] * b[i + k];
  for (; i < n; i++) sum += a[i] * b[i];
  return sum + ((lane[0] + lane[1]) + (lane[2] + lane[3]));
}

/* Where a row begins in q, mask or out. */
static int64_t row_offset(const heads *h, const ktensor *t, const query_row *r) {
  return head_offset(h, t, r->head, 1) + r->query * t->strides[h->rank - 2];
}

static void find_rows(work *w, int64_t task) {
  const heads *h = w->h;
  const attention *p = h->p;
  int64_t pair = task / h->blocks, first = task % h->blocks * h->rows_per_task;
  w->n = h->rows - first < h->rows_per_task ? h->rows - first : h->rows_per_task;
  w->from = h->l_k;
  for (int64_t i = 0; i < w->n; i++) {
    query_row *r = &w->rows[i];
    r->head = pair * h->share + (first + i) / h->l_q;
    r->query = (first + i) % h->l_q;
    int64_t to = p->before + r->query + 1, from = to - p->window;
    r->to = p->causal && to < h->l_k ? to : h->l_k;
    r->from = p->window && from > 0 ? from : 0;
    if (r->from < w->from) w->from = r->from;
    if (r->to > w->to) w->to = r->to;
  }
}

/* Where the rows of a head of k or v are, and their scales. */
typedef struct key_rows {
  const ktensor *t, *scale;
  int64_t at, scale_at, first, size;
} key_rows;

static key_rows keys_of(const work *w, const ktensor *t, const ktensor *scale) {
  const heads *h = w->h;
  int64_t head = w->rows[0].head;
  return (key_rows){t,
                    scale,
                    head_offset(h, t, head, h->share),
                    scale ? head_offset(h, scale, head, h->share) : 0,
                    h->p->first_row,
                    t->dims[h->rank - 2]};
}

/* Row j in the compute type, in `line` unless it is stored so; it is to be multiplied by *factor.
 */
static const void *read_row(const work *w, const key_rows *r, int64_t j, void *line,
                            double *factor) {
  const heads *h = w->h;
  int64_t row = r->first + j < r->size ? r->first + j : r->first + j - r->size;
  *factor = 1;
  if (r->scale) {
    int64_t at = r->scale_at + row * r->scale->strides[h->rank - 2];
    *factor = ((const float *)r->scale->data)[at];
  }
  return row_in_place(h->c, r->t->type,
                      element_at(r->t->data, r->t->type, r->at + row * r->t->strides[h->rank - 2]),
                      r->t->dims[h->rank - 1], line);
}

/* Some rows from j on as floats, `stride` apart: those that lie behind one another where they are
 * floats, else FEW_KEYS at most, in w->line. */
typedef struct float_rows {
  const float *x;
  int64_t n, stride;
  float factors[FEW_KEYS]; /* where they have scales; they are few then, too */
} float_rows;

static float_rows read_rows(const work *w, const key_rows *r, int64_t j, int64_t to) {
  int64_t row = r->first + j < r->size ? r->first + j : r->first + j - r->size;
  int64_t size = r->t->dims[w->h->rank - 1];
  float_rows f = {.n = to - j < r->size - row ? to - j : r->size - row, .stride = size};
  if (r->t->type == DTYPE_F32 && !r->scale) {
    f.stride = r->t->strides[w->h->rank - 2];
    f.x = (const float *)r->t->data + r->at + row * f.stride;
    return f;
  }
  float *line = (float *)(void *)w->line;
  if (f.n > FEW_KEYS) f.n = FEW_KEYS;
  for (int64_t i = 0; i < f.n; i++) {
    double factor;
    (void)read_row(w, r, j + i, line + i * size, &factor);
    f.factors[i] = (float)factor;
  }
  f.x = line;
  return f;
}

static void load_queries(const work *w) {
  const heads *h = w->h;
  const ktensor *q = h->p->q;
  int64_t total = w->n * h->head_dim;
  for (int64_t i = 0; i < w->n; i++)
    load_row(h->c, q->type, element_at(q->data, q->type, row_offset(h, q, &w->rows[i])), 1,
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
  key_rows keys = keys_of(w, h->p->k, h->p->k_scale);
  for (int64_t i = 0; i < w->n; i++)
    memset(scores + i * h->l_k + w->from, 0, (size_t)(w->to - w->from) * sizeof *scores);
  for (int64_t j = w->from, n; j < w->to; j += n) {
    const float_rows rows = read_rows(w, &keys, j, w->to);
    n = rows.n;
    dots_f32(w->n, n, h->head_dim, (const float *)(const void *)w->q, h->head_dim, rows.x,
             rows.stride, scores + j, h->l_k);
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
  key_rows keys = keys_of(w, h->p->k, h->p->k_scale);
  for (int64_t j = w->from; j < w->to; j++) {
    double factor;
    const void *key = read_row(w, &keys, j, w->line, &factor);
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
  int64_t at = row_offset(h, m, &w->rows[i]);
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
    const void *value = read_row(w, values, j, w->line, &factor);
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
    const float_rows rows = read_rows(w, values, j, to);
    n = rows.n;
    for (int64_t i = 0; i < w->n && values->scale; i++)
      for (int64_t l = 0; l < n; l++) weights[i * h->l_k + j + l] *= rows.factors[l];
    products_f32(w->n, h->v_dim, n, weights + j, h->l_k, rows.x, rows.stride,
                 (float *)(void *)w->sums, h->v_dim);
  }
}

static void sum_values_f32(const work *w) {
  const heads *h = w->h;
  key_rows values = keys_of(w, h->p->v, h->p->v_scale);
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
  key_rows values = keys_of(w, h->p->v, h->p->v_scale);
  for (int64_t j = w->from; j < w->to; j++) {
    double factor;
    const double *x = read_row(w, &values, j, w->line, &factor);
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
    store_row(h->c, out->type, element_at(out->data, out->type, row_offset(h, out, &w.rows[i])), 1,
              h->v_dim, w.sums + (size_t)(i * h->v_dim) * size);
}

/* As many rows to a task as leave one for each thread. */
static void divide(heads *h, int64_t n_pairs, int n_threads) {
  int64_t fair = n_pairs * h->rows / (n_threads > 0 ? n_threads : 1);
  h->rows_per_task = fair < 1 ? 1 : fair < MOST_ROWS ? fair : MOST_ROWS;
  h->blocks = (h->rows + h->rows_per_task - 1) / h->rows_per_task;
  h->n_tasks = h->v_dim > 0 ? n_pairs * h->blocks : 0;
}

static heads make_heads(const kernel_context *ctx, const attention *p) {
  const attention_sizes *s = &p->sizes;
  heads h = {.p = p,
             .c = p->q->type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32,
             .rank = p->q->rank,
             .share = s->share,
             .l_q = s->n_queries,
             .l_k = s->n_keys,
             .head_dim = s->head_dim,
             .v_dim = s->v_dim,
             .rows = s->share * s->n_queries};
  int64_t n_pairs = s->n_batch * s->n_kv;
  divide(&h, n_pairs, ctx->n_threads);
  h.work = n_pairs * h.rows * h.l_k * (h.head_dim + h.v_dim) / MULTIPLIES_PER_THREAD;
  int64_t elements =
      h.rows_per_task * (h.head_dim + h.l_k + h.v_dim) + FEW_KEYS * larger(h.head_dim, h.v_dim);
  h.scratch_size = (size_t)elements * compute_size(h.c);
  return h;
}

static size_t heads_scratch(const kernel_context *ctx, const attention *p) {
  heads h = make_heads(ctx, p);
  return slots_bytes(ctx, h.n_tasks, h.work, h.scratch_size);
}

static void attend_heads(const kernel_context *ctx, const attention *p, char *scratch) {
  heads h = make_heads(ctx, p);
  run_slots_in(ctx, h.n_tasks, h.work, h.scratch_size, attend, &h, scratch);
}

static attention whole(const attention_args *p) {
  return (attention){.q = &p->q,
                     .k = &p->k,
                     .v = &p->v,
                     .mask = p->mask.data ? &p->mask : NULL,
                     .out = &p->out,
                     .sizes = p->sizes,
                     .causal = p->causal,
                     .scale = p->scale,
                     .masked = p->masked,
                     .empty = p->empty_nan ? NAN : 0};
}

static size_t attention_scratch(const kernel_context *ctx, const void *args) {
  const attention a = whole(args);
  return heads_scratch(ctx, &a);
}

static bool run_attention(const kernel_context *ctx, const void *args) {
  const attention a = whole(args);
  size_t bytes = heads_scratch(ctx, &a);
  char *scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !scratch) return false;
  attend_heads(ctx, &a, scratch);
  return true;
}

const kernel_desc kernel_attention = {
    .name = "attention",
    .run = run_attention,
    .scratch = attention_scratch,
    .args_size = sizeof(attention_args),
    .operands = {OPERAND(attention_args, q), OPERAND(attention_args, k), OPERAND(attention_args, v),
                 OPERAND(attention_args, mask), OPERAND(attention_args, out)}};

/* ---------------------------------------------------------------- the cache */

typedef struct storing {
  const ktensor *x, *cache, *scale;
  int64_t at;
} storing;

static int64_t block_end(int64_t i, int64_t n) { return n - i < ROW_BLOCK ? n : i + ROW_BLOCK; }

/* NaN where there is one. */
static float largest_magnitude(dtype t, const void *x, int64_t n) {
  row_block block;
  float largest = 0;
  for (int64_t from = 0; from < n; from += ROW_BLOCK) {
    int64_t count = block_end(from, n) - from;
    load_row(COMPUTE_F32, t, element_at(x, t, from), 1, count, &block);
    for (int64_t i = 0; i < count; i++) {
      float v = fabsf(block.f32[i]);
      largest = v > largest || isnan(v) ? v : largest;
    }
  }
  return largest;
}

/* x / scale, to even; 0 where the scale says it all: 0, infinite or NaN. */
static float quantize(float x, float scale) {
  float q = scale > 0 ? rintf(x / scale) : 0;
  return isnan(q) ? 0 : q > 127 ? 127 : q < -127 ? -127 : q;
}

static void store_cache_row(const storing *s, const void *x, void *to, float *scale) {
  row_block block;
  int64_t n = s->x->dims[3];
  if (scale) *scale = largest_magnitude(s->x->type, x, n) / 127;
  for (int64_t from = 0; from < n; from += ROW_BLOCK) {
    int64_t count = block_end(from, n) - from;
    load_row(COMPUTE_F32, s->x->type, element_at(x, s->x->type, from), 1, count, &block);
    for (int64_t i = 0; scale && i < count; i++) block.f32[i] = quantize(block.f32[i], *scale);
    store_row(COMPUTE_F32, s->cache->type, element_at(to, s->cache->type, from), 1, count, &block);
  }
}

static void store_rows(void *ctx, int64_t begin, int64_t end) {
  const storing *s = ctx;
  const ktensor *x = s->x, *cache = s->cache, *scale = s->scale;
  for (int64_t flat = begin; flat < end; flat++) {
    int64_t i = flat % x->dims[2], g = flat / x->dims[2] % x->dims[1],
            b = flat / x->dims[2] / x->dims[1], row = (s->at + i) % cache->dims[2];
    int64_t from = b * x->strides[0] + g * x->strides[1] + i * x->strides[2],
            to = b * cache->strides[0] + g * cache->strides[1] + row * cache->strides[2];
    float *factor = NULL;
    if (scale)
      factor = (float *)scale->data + b * scale->strides[0] + g * scale->strides[1] +
               row * scale->strides[2];
    store_cache_row(s, element_at(x->data, x->type, from), element_at(cache->data, cache->type, to),
                    factor);
  }
}

/* Rows of x (B, n, L, size) to rows (at + i) mod rows of cache (B, n, rows, size). */
static void store_new(const kernel_context *ctx, const ktensor *x, int64_t at, const ktensor *cache,
                      const ktensor *scale) {
  storing s = {x, cache, scale, at % larger(cache->dims[2], 1)};
  int64_t grain = ELEMENTS_PER_THREAD / larger(x->dims[3], 1);
  ctx->parallel_for(ctx->pool, product_of(x->dims, 3), larger(grain, 1), store_rows, &s);
}

/* ---------------------------------------------------------------- with a cache */

/* Rows [first, first + n) of a (B, heads, L, size). */
static ktensor rows_from(const ktensor *t, int64_t first, int64_t n) {
  ktensor part = *t;
  part.data = element_at(t->data, t->type, first * t->strides[2]);
  part.dims[2] = n;
  return part;
}

static const ktensor *present(const ktensor *t) { return t->data ? t : NULL; }

/* n rows that see up to n_keys keys; without q and out. */
static attention piece_of(const attention_cached_args *p, int64_t n, int64_t n_keys) {
  attention a = {.k = &p->k,
                 .v = &p->v,
                 .k_scale = present(&p->k_scale),
                 .v_scale = present(&p->v_scale),
                 .sizes = p->sizes,
                 .causal = true,
                 .window = p->window,
                 .scale = p->scale,
                 .softcap = p->softcap};
  a.sizes.n_queries = n;
  a.sizes.n_keys = n_keys;
  return a;
}

/* Rows [first, first + n), whose first stands at position `at`. */
static void attend_piece(const kernel_context *ctx, const attention_cached_args *p, int64_t first,
                         int64_t n, int64_t at, char *scratch) {
  int64_t start = p->window && at >= p->window ? at - p->window + 1 : 0;
  ktensor q = rows_from(&p->q, first, n), out = rows_from(&p->out, first, n),
          k = rows_from(&p->new_k, first, n), v = rows_from(&p->new_v, first, n);
  attention a = piece_of(p, n, at - start + n);
  a.q = &q;
  a.out = &out;
  a.before = at - start;
  a.first_row = start % p->sizes.n_keys;
  store_new(ctx, &k, at, a.k, a.k_scale);
  store_new(ctx, &v, at, a.v, a.v_scale);
  attend_heads(ctx, &a, scratch);
}

/* That of the first piece, which has the most rows, where it sees the whole cache. */
static size_t attention_cached_scratch(const kernel_context *ctx, const void *args) {
  const attention_cached_args *p = args;
  int64_t rows = p->sizes.n_queries, n = rows < p->room ? rows : p->room;
  attention a = piece_of(p, n, p->sizes.n_keys);
  a.q = &p->q;
  return heads_scratch(ctx, &a);
}

static bool run_attention_cached(const kernel_context *ctx, const void *args) {
  const attention_cached_args *p = args;
  int64_t rows = p->sizes.n_queries, size = p->sizes.n_keys,
          position = *(const int64_t *)p->position.data;
  int64_t last = p->window ? INT64_MAX - size : size;
  if (position < 0 || position > last - rows) {
    kernel_fault_set(ctx->fault, KERNEL_FAULT_ROWS, position, rows, size);
    return true;
  }
  size_t bytes = attention_cached_scratch(ctx, p);
  char *scratch = bytes > 0 ? ctx->scratch(ctx->pool, bytes) : NULL;
  if (bytes > 0 && !scratch) return false;
  for (int64_t first = 0; first < rows; first += p->room)
    attend_piece(ctx, p, first, rows - first < p->room ? rows - first : p->room, position + first,
                 scratch);
  return true;
}

const kernel_desc kernel_attention_cached = {
    .name = "attention_cached",
    .run = run_attention_cached,
    .scratch = attention_cached_scratch,
    .args_size = sizeof(attention_cached_args),
    .operands = {OPERAND(attention_cached_args, q), OPERAND(attention_cached_args, new_k),
                 OPERAND(attention_cached_args, new_v), OPERAND(attention_cached_args, position),
                 OPERAND(attention_cached_args, k), OPERAND(attention_cached_args, v),
                 OPERAND(attention_cached_args, k_scale), OPERAND(attention_cached_args, v_scale),
                 OPERAND(attention_cached_args, out)}};
