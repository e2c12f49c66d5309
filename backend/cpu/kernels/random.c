/* Converts Philox's words to numbers. */
#include "backend/cpu/kernels/random.h"

#include <math.h>

#include "backend/cpu/kernels/random_kernels.h"
#include "backend/cpu/kernels/support/rows.h"
#include "base/counts.h"
#include "base/philox.h"

enum { GRAIN = 4096 };

typedef struct random_task {
  const random_args *args;
  uint64_t seed;
  uint32_t run;
} random_task;

/* Computes the four words of counter (block, stream, run). */
static void kernel_random_words_of(const random_task *task, uint64_t block, uint32_t w[4]) {
  w[0] = (uint32_t)block;
  w[1] = (uint32_t)(block >> 32);
  w[2] = task->args->stream;
  w[3] = task->run;
  philox(task->seed, w);
}

static uint64_t pair_of(const uint32_t *w) { return w[0] | (uint64_t)w[1] << 32; }

/* Returns the high half of the 128-bit product: a number uniform in [0, range). */
static uint64_t kernel_random_scale(uint64_t bits, uint64_t range) {
  uint64_t a = bits >> 32, b = bits & UINT32_MAX, c = range >> 32, d = range & UINT32_MAX;
  uint64_t middle = a * d + (b * d >> 32), other = b * c + (middle & UINT32_MAX);
  return a * c + (middle >> 32) + (other >> 32);
}

/* Returns the number of bits of a uniform number that its dtype represents exactly. */
static int uniform_bits(dtype t) {
  if (t == DTYPE_F16) return 11;
  if (t == DTYPE_BF16) return 8;
  return t == DTYPE_F64 ? 53 : 24;
}

/* Returns an element of the pair that Box-Muller computes from u in (0, 1] and v in [0, 1). */
static double normal_of(double u, double v, bool second) {
  double angle = 2 * 3.14159265358979323846 * v, radius = sqrt(-2 * log(u));
  return radius * (second ? sin(angle) : cos(angle));
}

/* Returns element i, which has 64 bits; each block has two such elements. */
static double wide_number(const random_task *task, int64_t i) {
  uint32_t w[4];
  kernel_random_words_of(task, (uint64_t)i / 2, w);
  if (task->args->kind == KRANDOM_UNIFORM)
    return ldexp((double)(pair_of(&w[i % 2 * 2]) >> 11), -53);
  return normal_of(ldexp((double)((pair_of(w) >> 11) + 1), -53),
                   ldexp((double)(pair_of(&w[2]) >> 11), -53), i % 2 != 0);
}

static int64_t integer(const random_task *task, int64_t i) {
  uint32_t w[4];
  kernel_random_words_of(task, (uint64_t)i / 2, w);
  uint64_t offset = kernel_random_scale(pair_of(&w[i % 2 * 2]), task->args->range);
  return (int64_t)((uint64_t)task->args->low + offset);
}

/* Fills elements [at, at + n) of 32 bits, four from each block; returns how many, at most n. */
static int64_t fill_narrow(const random_task *task, int64_t at, int64_t n) {
  const int64_t lead = at % 4, count = min_i64(n, 4 * RANDOM_BLOCKS - lead);
  random_blocks blocks = {
      .seed = task->seed,
      .first = (uint64_t)at / 4,
      .stream = task->args->stream,
      .run = task->run,
      .bits = task->args->kind == KRANDOM_UNIFORM ? uniform_bits(task->args->type) : 0};
  random_numbers(&blocks);
  store_row(COMPUTE_F64, task->args->type, element_at(task->args->out, task->args->type, at), 1,
            count, blocks.numbers + lead);
  return count;
}

static int64_t fill_wide(const random_task *task, int64_t at, int64_t n) {
  const bool is_int = task->args->kind == KRANDOM_INTEGER;
  const int64_t count = min_i64(n, ROW_BLOCK);
  row_block block;
  for (int64_t i = 0; i < count && is_int; i++) block.i64[i] = integer(task, at + i);
  for (int64_t i = 0; i < count && !is_int; i++) block.f64[i] = wide_number(task, at + i);
  store_row(is_int ? COMPUTE_I64 : COMPUTE_F64, task->args->type,
            element_at(task->args->out, task->args->type, at), 1, count, &block);
  return count;
}

static void kernel_random_fill(void *ctx, int64_t begin, int64_t end) {
  const random_task *task = ctx;
  const bool is_wide = task->args->kind == KRANDOM_INTEGER || task->args->type == DTYPE_F64;
  for (int64_t at = begin; at < end;)
    at += is_wide ? fill_wide(task, at, end - at) : fill_narrow(task, at, end - at);
}

static bool fill_random(const kernel_context *ctx, const void *args) {
  random_task task = {.args = args, .seed = ctx->seed, .run = (uint32_t)ctx->stretch};
  ctx->parallel_for(ctx->pool, task.args->n, GRAIN, kernel_random_fill, &task);
  return true;
}

const kernel_desc kernel_random = {.name = "random",
                                   .run = fill_random,
                                   .args_size = sizeof(random_args),
                                   .operands = {OPERAND(random_args, out)}};
