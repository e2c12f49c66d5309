/* Codes of sums of products: what follows each convolution of a quantised network, in one pass. A
 * block of a row is made floats, computed and stored while it is in the first cache. */
#include "backend/cpu/kernels/requantise.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/features.h"
#include "backend/cpu/kernels/rows.h"

enum { GRAIN = 16 * 1024 /* elements that are worth a thread */ };

/* One term's numbers for a channel. */
typedef struct affine {
  const float *x; /* (n) */
  float zero, scale, bias;
} affine;

static affine affine_of(const requantise_term *t, int64_t channel) {
  return (affine){.zero = t->zero,
                  .scale = t->scale.of_channel ? t->scale.of_channel[channel] : t->scale.number,
                  .bias = t->bias.of_channel ? t->bias.of_channel[channel] : t->bias.number};
}

/* As the steps clamp, where NaN passes. */
KERNEL_INLINE float clamp(float x, float low, float high) {
  x = low > x ? low : x;
  return high < x ? high : x;
}

KERNEL_INLINE float value_of(const affine *t, int64_t i) {
  return (t->x[i] - t->zero) * t->scale + t->bias;
}

KERNEL_INLINE void compute(const requantise_args *p, const affine t[2], int64_t n, float *to) {
  const affine a = t[0], b = t[1];
  const requantise_args q = *p;
  for (int64_t i = 0; i < n; i++) {
    float x = value_of(&a, i);
    if (b.x) x += value_of(&b, i);
    x = rintf(clamp(x, q.low, q.high) * q.inverse) + q.zero;
    to[i] = clamp(x, q.least, q.greatest);
  }
}

#if KERNEL_X86
TARGET_AVX2 static void compute_avx2(const requantise_args *p, const affine t[2], int64_t n,
                                     float *to) {
  compute(p, t, n, to);
}
TARGET_AVX512 static void compute_avx512(const requantise_args *p, const affine t[2], int64_t n,
                                         float *to) {
  compute(p, t, n, to);
}
#endif

static void compute_block(const requantise_args *p, const affine t[2], int64_t n, float *to) {
#if KERNEL_X86
  if (cpu_has_avx512()) {
    compute_avx512(p, t, n, to);
    return;
  }
  if (cpu_has_avx2()) {
    compute_avx2(p, t, n, to);
    return;
  }
#endif
  compute(p, t, n, to);
}

/* Elements [at, at + n) of a term as floats. */
static const float *load_term(const requantise_term *t, int64_t at, int64_t n, float *block) {
  const void *from = element_at(t->x, t->type, at);
  if (t->type == DTYPE_F32) return from;
  load_row(COMPUTE_F32, t->type, from, 1, n, block);
  return block;
}

static void run_row(const requantise_args *p, int64_t row) {
  float blocks[2][ROW_BLOCK], codes[ROW_BLOCK];
  affine t[2];
  for (int k = 0; k < 2; k++) t[k] = affine_of(&p->terms[k], row % p->channels);
  for (int64_t i = 0; i < p->row; i += ROW_BLOCK) {
    int64_t n = p->row - i < ROW_BLOCK ? p->row - i : ROW_BLOCK, at = row * p->row + i;
    for (int k = 0; k < 2 && p->terms[k].x; k++) t[k].x = load_term(&p->terms[k], at, n, blocks[k]);
    compute_block(p, t, n, codes);
    cast_row(p->type, element_at(p->out, p->type, at), n, codes);
  }
}

static void run_rows(void *ctx, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++) run_row(ctx, row);
}

static bool requantise(const kernel_context *ctx, const void *args) {
  requantise_args p = *(const requantise_args *)args;
  if (p.row > 0)
    ctx->parallel_for(ctx->pool, p.images * p.channels, GRAIN / p.row + 1, run_rows, &p);
  return true;
}

const kernel_desc kernel_requantise = {
    .name = "requantise",
    .run = requantise,
    .args_size = sizeof(requantise_args),
    .operands = {
        OPERAND(requantise_args, terms[0].x), OPERAND(requantise_args, terms[0].scale.of_channel),
        OPERAND(requantise_args, terms[0].bias.of_channel), OPERAND(requantise_args, terms[1].x),
        OPERAND(requantise_args, terms[1].scale.of_channel),
        OPERAND(requantise_args, terms[1].bias.of_channel), OPERAND(requantise_args, out)}};
