/* Recurrence of state space models. Threads share the heads. A thread processes TOKENS tokens of
 * each of its heads in turn, so that the rows that neighbouring heads share stay in the cache. */
#include "backend/cpu/kernels/ssm_scan.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/vector.h"

enum { TOKENS = 16, GRAIN = 4 * 1024 /* GRAIN: state elements, times tokens, per thread */ };

/* Up to TOKENS tokens of one head. The pointers are to the rows of the first token, the strides are
 * from token to token. */
typedef struct chunk {
  const void *x, *log_decay, *b, *c, *rate; /* (head_dim), one, (n_state) each */
  void *state, *out;                        /* (head_dim, n_state), (head_dim) */
  int64_t n, x_stride, decay_stride, b_stride, c_stride, out_stride;
} chunk;

/* Computes the decay of each token. With rates it is exp(log_decay * rate) for rates [at, at + n):
 * (chunk->n, n). Without rates it is exp(log_decay): (chunk->n). */
static void decays_f32(const chunk *chunk, int64_t at, int64_t n, float *decay) {
  const float *log_decay = chunk->log_decay, *rate = chunk->rate;
  int64_t width = rate ? n : 1;
  for (int64_t k = 0; k < chunk->n; k++)
    for (int64_t i = 0; i < width; i++)
      decay[k * width + i] = log_decay[k * chunk->decay_stride] * (rate ? rate[at + i] : 1);
  (void)exponentials_f32(chunk->n * width, 0, decay, decay);
}

/* Advances the state by the tokens of a chunk and stores their outputs. */
static void scan_f32(const ssm_scan_args *args, const chunk *chunk) {
  float decay[ROW_BLOCK], *out = chunk->out;
  int64_t block = chunk->rate ? ROW_BLOCK / TOKENS : args->n_state;
  for (int64_t k = 0; k < chunk->n; k++)
    for (int64_t row = 0; row < args->head_dim; row++) out[k * chunk->out_stride + row] = 0;
  for (int64_t at = 0; at < args->n_state; at += block) {
    int64_t n = args->n_state - at < block ? args->n_state - at : block;
    scanned_row scanned_row = {.n_tokens = chunk->n,
                               .n = n,
                               .decay = decay,
                               .each = chunk->rate,
                               .b = (const float *)chunk->b + at,
                               .c = (const float *)chunk->c + at,
                               .x_stride = chunk->x_stride,
                               .b_stride = chunk->b_stride,
                               .c_stride = chunk->c_stride,
                               .out_stride = chunk->out_stride};
    decays_f32(chunk, at, n, decay);
    for (int64_t row = 0; row < args->head_dim; row++) {
      scanned_row.x = (const float *)chunk->x + row;
      scanned_row.h = (float *)chunk->state + row * args->n_state + at;
      scanned_row.out = out + row;
      scan_row_f32(&scanned_row);
    }
  }
}

static double advance_f64(const ssm_scan_args *args, const chunk *chunk, int64_t token,
                          int64_t row) {
  const double *b = (const double *)chunk->b + token * chunk->b_stride, *rate = chunk->rate,
               *c = (const double *)chunk->c + token * chunk->c_stride;
  double *h = (double *)chunk->state + row * args->n_state, sum = 0;
  double log_decay = ((const double *)chunk->log_decay)[token * chunk->decay_stride],
         x = ((const double *)chunk->x)[token * chunk->x_stride + row];
  for (int64_t i = 0; i < args->n_state; i++) {
    h[i] = exp(log_decay * (rate ? rate[i] : 1)) * h[i] + x * b[i];
    sum += h[i] * c[i];
  }
  return sum;
}

static void scan_f64(const ssm_scan_args *args, const chunk *chunk) {
  for (int64_t k = 0; k < chunk->n; k++)
    for (int64_t row = 0; row < args->head_dim; row++)
      ((double *)chunk->out)[k * chunk->out_stride + row] = advance_f64(args, chunk, k, row);
}

/* Returns the row of t at (batch, token, j). */
static void *kernel_ssm_scan_row_of(const ktensor *t, int64_t batch, int64_t token, int64_t j) {
  return element_at(t->data, t->type,
                    batch * t->strides[0] + token * t->strides[1] + j * t->strides[2]);
}

/* Processes tokens [from, from + n) of head `head`, counted over all batches. */
static void scan_head(const ssm_scan_args *args, int64_t head, int64_t from, int64_t n) {
  int64_t batch = head / args->n_heads, own = head % args->n_heads, group = own / args->share;
  dtype type = args->x.type;
  chunk chunk = {.x = kernel_ssm_scan_row_of(&args->x, batch, from, own),
                 .log_decay = kernel_ssm_scan_row_of(&args->log_decay, batch, from, own),
                 .b = kernel_ssm_scan_row_of(&args->b, batch, from, group),
                 .c = kernel_ssm_scan_row_of(&args->c, batch, from, group),
                 .state = element_at(args->state.data, type, head * args->head_dim * args->n_state),
                 .out = kernel_ssm_scan_row_of(&args->out, batch, from, own),
                 .n = n,
                 .x_stride = args->x.strides[1],
                 .decay_stride = args->log_decay.strides[1],
                 .b_stride = args->b.strides[1],
                 .c_stride = args->c.strides[1],
                 .out_stride = args->out.strides[1]};
  if (args->rate.data) chunk.rate = element_at(args->rate.data, type, own * args->n_state);
  if (type == DTYPE_F64) {
    scan_f64(args, &chunk);
  } else {
    scan_f32(args, &chunk);
  }
}

static void scan_heads(void *ctx, int64_t begin, int64_t end) {
  const ssm_scan_args *args = ctx;
  for (int64_t from = 0; from < args->length; from += TOKENS) {
    int64_t n = args->length - from < TOKENS ? args->length - from : TOKENS;
    for (int64_t head = begin; head < end; head++) scan_head(args, head, from, n);
  }
}

static bool ssm_scan(const kernel_context *ctx, const void *args) {
  ssm_scan_args own = *(const ssm_scan_args *)args;
  int64_t work = own.length * own.head_dim * own.n_state;
  ctx->parallel_for(ctx->pool, own.n_batch * own.n_heads, GRAIN / (work > 0 ? work : 1) + 1,
                    scan_heads, &own);
  return true;
}

const kernel_desc kernel_ssm_scan = {
    .name = "ssm_scan",
    .run = ssm_scan,
    .args_size = sizeof(ssm_scan_args),
    .operands = {OPERAND(ssm_scan_args, x), OPERAND(ssm_scan_args, log_decay),
                 OPERAND(ssm_scan_args, b), OPERAND(ssm_scan_args, c), OPERAND(ssm_scan_args, rate),
                 OPERAND(ssm_scan_args, state), OPERAND(ssm_scan_args, out)}};
