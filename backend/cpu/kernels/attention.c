/* Attention: each task takes a few queries of one head, computes all their scores, normalises them,
 * and sums the values. Keys and values are read in place; narrow floats compute in float with sums
 * in double, F64 in double. */
#include "backend/cpu/kernels/attention.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/vector.h"
#include "backend/cpu/kernels/walk.h"

enum { QUERIES = 8, MULTIPLIES_PER_THREAD = 128 * 1024 };

typedef struct heads {
  const attention *p;
  compute_class c;
  int rank;                                                  /* of all operands */
  int64_t n_heads, group, l_q, l_k, head_dim, v_dim, blocks; /* blocks of queries per head */
} heads;

/* The queries of a task and their memory, in the compute type. */
typedef struct work {
  const heads *h;
  int64_t head, first, n; /* flat head over (..., n_heads); queries [first, first + n) */
  char *q;                /* (n, head_dim), scaled */
  char *scores;           /* (n, l_k) */
  char *row;              /* (max(head_dim, v_dim)): one key or value */
  char *sums;             /* (n, v_dim) */
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

/* Keys that query i may see before the mask. */
static int64_t visible(const heads *h, int64_t i) {
  return h->p->causal && i + 1 < h->l_k ? i + 1 : h->l_k;
}

static void load_queries(const work *w) {
  const heads *h = w->h;
  const ktensor *q = h->p->q;
  int64_t at = head_offset(h, q, w->head, 1), stride = q->strides[h->rank - 2],
          total = w->n * h->head_dim;
  for (int64_t i = 0; i < w->n; i++)
    load_row(h->c, q->type, element_at(q->data, q->type, at + (w->first + i) * stride), 1,
             h->head_dim, w->q + (size_t)(i * h->head_dim) * compute_size(h->c));
  float *f = (float *)(void *)w->q;
  double *d = (double *)(void *)w->q;
  for (int64_t i = 0; i < total && h->c == COMPUTE_F32; i++) f[i] *= (float)h->p->scale;
  for (int64_t i = 0; i < total && h->c == COMPUTE_F64; i++) d[i] *= h->p->scale;
}

static void score_keys(const work *w) {
  const heads *h = w->h;
  const ktensor *k = h->p->k;
  float *sf = (float *)(void *)w->scores;
  double *sd = (double *)(void *)w->scores;
  const float *qf = (const float *)(const void *)w->q;
  const double *qd = (const double *)(const void *)w->q;
  int64_t at = head_offset(h, k, w->head, h->group), stride = k->strides[h->rank - 2];
  int64_t stop = visible(h, w->first + w->n - 1);
  for (int64_t j = 0; j < stop; j++) {
    const void *key = row_in_place(h->c, k->type, element_at(k->data, k->type, at + j * stride),
                                   h->head_dim, w->row);
    for (int64_t i = 0; i < w->n; i++) {
      if (h->c == COMPUTE_F32) {
        sf[i * h->l_k + j] = dot_f32(h->head_dim, qf + i * h->head_dim, key);
      } else {
        sd[i * h->l_k + j] = dot_f64(h->head_dim, qd + i * h->head_dim, key);
      }
    }
  }
}

/* Adds the mask to the first n scores of query i. */
static void mask_scores(const work *w, int64_t i, int64_t n, char *scores) {
  const heads *h = w->h;
  const ktensor *m = h->p->mask;
  if (!m) return;
  int64_t stride = m->strides[h->rank - 1];
  int64_t at = head_offset(h, m, w->head, 1) + (w->first + i) * m->strides[h->rank - 2];
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
  float max = -INFINITY;
  for (int64_t i = 0; i < n; i++) max = x[i] > max || isnan(x[i]) ? x[i] : max;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)(x[i] = max == -INFINITY ? 0 : expf(x[i] - max));
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
    int64_t n = visible(h, w->first + i), size = (int64_t)compute_size(h->c);
    char *scores = w->scores + i * h->l_k * size;
    mask_scores(w, i, n, scores);
    if (h->c == COMPUTE_F32) softmax_f32((float *)(void *)scores, n, h->p->empty);
    if (h->c == COMPUTE_F64) softmax_f64((double *)(void *)scores, n, h->p->empty);
    memset(scores + n * size, 0, (size_t)((h->l_k - n) * size));
  }
}

static void sum_values(const work *w) {
  const heads *h = w->h;
  const ktensor *v = h->p->v;
  const float *sf = (const float *)(const void *)w->scores;
  const double *sd = (const double *)(const void *)w->scores;
  float *yf = (float *)(void *)w->sums;
  double *yd = (double *)(void *)w->sums;
  memset(w->sums, 0, (size_t)(w->n * h->v_dim) * compute_size(h->c));
  int64_t at = head_offset(h, v, w->head, h->group), stride = v->strides[h->rank - 2];
  for (int64_t j = 0; j < visible(h, w->first + w->n - 1); j++) {
    const void *row = row_in_place(h->c, v->type, element_at(v->data, v->type, at + j * stride),
                                   h->v_dim, w->row);
    const double *x = row;
    for (int64_t i = 0; i < w->n; i++) {
      if (j >= visible(h, w->first + i)) continue;
      if (h->c == COMPUTE_F32) axpy_f32(h->v_dim, sf[i * h->l_k + j], row, yf + i * h->v_dim);
      if (h->c == COMPUTE_F64)
        for (int64_t d = 0; d < h->v_dim; d++) yd[i * h->v_dim + d] += sd[i * h->l_k + j] * x[d];
    }
  }
}

static void attend(const void *user, int64_t task, char *scratch) {
  const heads *h = user;
  size_t size = compute_size(h->c);
  work w = {.h = h, .head = task / h->blocks, .first = task % h->blocks * QUERIES};
  w.n = h->l_q - w.first < QUERIES ? h->l_q - w.first : QUERIES;
  w.q = scratch;
  w.scores = w.q + (size_t)(QUERIES * h->head_dim) * size;
  w.row = w.scores + (size_t)(QUERIES * h->l_k) * size;
  w.sums = w.row + (size_t)larger(h->head_dim, h->v_dim) * size;
  load_queries(&w);
  score_keys(&w);
  normalize_scores(&w);
  sum_values(&w);
  const ktensor *out = h->p->out;
  int64_t to = (w.head * h->l_q + w.first) * h->v_dim;
  store_row(h->c, out->type, element_at(out->data, out->type, to), 1, w.n * h->v_dim, w.sums);
}

bool kernel_attention(const kernel_context *ctx, const attention *p) {
  const ktensor *q = p->q;
  int r = q->rank;
  heads h = {.p = p, .c = q->type == DTYPE_F64 ? COMPUTE_F64 : COMPUTE_F32, .rank = r};
  h.n_heads = q->dims[r - 3];
  h.group = p->k->dims[r - 3] > 0 ? h.n_heads / p->k->dims[r - 3] : 1;
  h.l_q = q->dims[r - 2];
  h.l_k = p->k->dims[r - 2];
  h.head_dim = q->dims[r - 1];
  h.v_dim = p->v->dims[r - 1];
  h.blocks = (h.l_q + QUERIES - 1) / QUERIES;
  int64_t n_heads = product_of(q->dims, r - 2);
  if (n_heads * h.l_q * h.v_dim == 0) return true;
  int64_t elements = QUERIES * (h.head_dim + h.l_k + h.v_dim) + larger(h.head_dim, h.v_dim);
  int64_t multiplies = n_heads * h.l_q * h.l_k * (h.head_dim + h.v_dim);
  return run_slots(ctx, n_heads * h.blocks, multiplies / MULTIPLIES_PER_THREAD,
                   (size_t)elements * compute_size(h.c), attend, &h);
}
