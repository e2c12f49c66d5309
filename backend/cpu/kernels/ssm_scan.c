/* The recurrence of state space models: heads go to threads; of those that a thread has each takes
 * TOKENS tokens, then the next head does, so that what neighbouring heads read stays in the cache.
 */
#include "backend/cpu/kernels/ssm_scan.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"

enum { TOKENS = 16, GRAIN = 4 * 1024 /* elements of the state, times tokens, worth a thread */ };

/* Up to TOKENS tokens of one head: where the first one's rows lie, and how far apart the tokens'.
 */
typedef struct stretch {
  const void *x, *log_decay, *b, *c, *rate; /* (head_dim), one, (n_state) each */
  void *state, *out;                        /* (head_dim, n_state), (head_dim) */
  int64_t n, x_step, decay_step, b_step, c_step, out_step;
} stretch;

/* decay: exp(log_decay * rate) of each token, (t->n, n) for rates [at, at + n); without rates
 * exp(log_decay), (t->n). */
static void decays_f32(const stretch *t, int64_t at, int64_t n, float *decay) {
  const float *log_decay = t->log_decay, *rate = t->rate;
  int64_t width = rate ? n : 1;
  for (int64_t k = 0; k < t->n; k++)
    for (int64_t i = 0; i < width; i++)
      decay[k * width + i] = log_decay[k * t->decay_step] * (rate ? rate[at + i] : 1);
  (void)exponentials_f32(t->n * width, 0, decay, decay);
}

static void scan_f32(const ssm_scan_args *p, const stretch *t) {
  float decay[ROW_BLOCK], *out = t->out;
  int64_t block = t->rate ? ROW_BLOCK / TOKENS : p->n_state;
  for (int64_t k = 0; k < t->n; k++)
    for (int64_t row = 0; row < p->head_dim; row++) out[k * t->out_step + row] = 0;
  for (int64_t at = 0; at < p->n_state; at += block) {
    int64_t n = p->n_state - at < block ? p->n_state - at : block;
    scanned_row r = {.n_tokens = t->n,
                     .n = n,
                     .decay = decay,
                     .each = t->rate,
                     .b = (const float *)t->b + at,
                     .c = (const float *)t->c + at,
                     .x_step = t->x_step,
                     .b_step = t->b_step,
                     .c_step = t->c_step,
                     .out_step = t->out_step};
    decays_f32(t, at, n, decay);
    for (int64_t row = 0; row < p->head_dim; row++) {
      r.x = (const float *)t->x + row;
      r.h = (float *)t->state + row * p->n_state + at;
      r.out = out + row;
      scan_row_f32(&r);
    }
  }
}

static double advance_f64(const ssm_scan_args *p, const stretch *t, int64_t token, int64_t row) {
  const double *b = (const double *)t->b + token * t->b_step, *rate = t->rate,
               *c = (const double *)t->c + token * t->c_step;
  double *h = (double *)t->state + row * p->n_state, sum = 0;
  double log_decay = ((const double *)t->log_decay)[token * t->decay_step],
         x = ((const double *)t->x)[token * t->x_step + row];
  for (int64_t i = 0; i < p->n_state; i++) {
    h[i] = exp(log_decay * (rate ? rate[i] : 1)) * h[i] + x * b[i];
    sum += h[i] * c[i];
  }
  return sum;
}

static void scan_f64(const ssm_scan_args *p, const stretch *t) {
  for (int64_t k = 0; k < t->n; k++)
    for (int64_t row = 0; row < p->head_dim; row++)
      ((double *)t->out)[k * t->out_step + row] = advance_f64(p, t, k, row);
}

/* The row of t at (batch, token, j). */
static void *row_of(const ktensor *t, int64_t batch, int64_t token, int64_t j) {
  return element_at(t->data, t->type,
                    batch * t->strides[0] + token * t->strides[1] + j * t->strides[2]);
}

/* Tokens [from, from + n) of head `head`, counted over all batches. */
static void scan_head(const ssm_scan_args *p, int64_t head, int64_t from, int64_t n) {
  int64_t batch = head / p->n_heads, own = head % p->n_heads, group = own / p->share;
  dtype type = p->x.type;
  stretch t = {.x = row_of(&p->x, batch, from, own),
               .log_decay = row_of(&p->log_decay, batch, from, own),
               .b = row_of(&p->b, batch, from, group),
               .c = row_of(&p->c, batch, from, group),
               .state = element_at(p->state.data, type, head * p->head_dim * p->n_state),
               .out = row_of(&p->out, batch, from, own),
               .n = n,
               .x_step = p->x.strides[1],
               .decay_step = p->log_decay.strides[1],
               .b_step = p->b.strides[1],
               .c_step = p->c.strides[1],
               .out_step = p->out.strides[1]};
  if (p->rate.data) t.rate = element_at(p->rate.data, type, own * p->n_state);
  if (type == DTYPE_F64) {
    scan_f64(p, &t);
  } else {
    scan_f32(p, &t);
  }
}

static void scan_heads(void *ctx, int64_t begin, int64_t end) {
  const ssm_scan_args *p = ctx;
  for (int64_t from = 0; from < p->length; from += TOKENS) {
    int64_t n = p->length - from < TOKENS ? p->length - from : TOKENS;
    for (int64_t head = begin; head < end; head++) scan_head(p, head, from, n);
  }
}

static bool ssm_scan(const kernel_context *ctx, const void *args) {
  ssm_scan_args p = *(const ssm_scan_args *)args;
  int64_t work = p.length * p.head_dim * p.n_state;
  ctx->parallel_for(ctx->pool, p.n_batch * p.n_heads, GRAIN / (work > 0 ? work : 1) + 1, scan_heads,
                    &p);
  return true;
}

const kernel_desc kernel_ssm_scan = {
    .name = "ssm_scan",
    .run = ssm_scan,
    .args_size = sizeof(ssm_scan_args),
    .operands = {OPERAND(ssm_scan_args, x), OPERAND(ssm_scan_args, log_decay),
                 OPERAND(ssm_scan_args, b), OPERAND(ssm_scan_args, c), OPERAND(ssm_scan_args, rate),
                 OPERAND(ssm_scan_args, state), OPERAND(ssm_scan_args, out)}};
