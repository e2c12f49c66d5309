/* MatmulInteger: sums (m, n) = bias + a (m, k) * b (n, k), then the formula of requantise_args.
 * Rows of a are packed as words of four neighbouring k; rows of b are read in place
 * (conv_integer_kernels.h). If the kernel needs the other signedness than a has, word bytes are a
 * +- 128, and begin corrects the sums. A task is TILES tiles of rows by some columns. Loop order:
 * task, columns, tile of rows. The formula runs on 16 columns while their sums are in the
 * first-level cache. */
#include "backend/cpu/kernels/gemm/matmul_integer.h"

#include "backend/cpu/kernels/gemm/matmul_integer_kernels.h"
#include "backend/cpu/kernels/gemm/matmul_integer_tiles.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum {
  TILE = INTEGER_TILE,
  TILES = 2, /* tiles of rows per task */
  COLUMNS = INTEGER_COLUMNS,
  MIN_BLOCK = 4 * COLUMNS, /* minimum columns of a task that make packing its rows worthwhile */
  TASKS = 4                /* minimum per thread, so that all threads end at about the same time */
};
static const int64_t MULTIPLIES_PER_TASK = 512 * 1024, BYTES_PER_TASK = 64 * 1024;

typedef struct product {
  const matmul_integer_args *args;
  integer_kernel kernel;
  integer_rows rows;
  int64_t tiles, blocks, block; /* groups of TILES tiles; blocks of columns; columns per block */
  int32_t *begin;               /* (n): initial values of the sums */
  unsigned char *rest;          /* (n, step): see integer_rest */
} product;

/* Returns 1 or -1 if word bytes are a + 128 or a - 128, otherwise 0. */
static int kernel_matmul_integer_shift_of(const product *product) {
  bool is_signed = product->args->type == DTYPE_I8;
  return is_signed == product->kernel.is_signed ? 0 : is_signed ? 1 : -1;
}

/* Computes columns of a tile and stores them, at most COLUMNS at a time. */
static void kernel_matmul_integer_multiply_columns(const product *product, out_tile tile,
                                                   const uint32_t *words) {
  _Alignas(64) int32_t sums[INTEGER_ROWS * TILE];
  const int64_t first = tile.column, last = first + tile.columns;
  for (int64_t n, at = first; at < last; at += n) {
    n = min_i64(product->kernel.rows, last - at);
    const weight_rows weights =
        integer_weight(&product->kernel, product->args->b, product->rest, product->args->k, at);
    product->kernel.multiply((int)n, tile.rows, &weights, words, product->begin + at,
                             sums + (at - first) * TILE);
  }
  for (; tile.column < last; tile.column += COLUMNS) {
    tile.columns = (int)min_i64(COLUMNS, last - tile.column);
    product->rows.store(
        product->args, &tile,
        &(out_sums){.at = sums + (tile.column - first) * TILE, .row = 1, .column = TILE});
  }
}

/* Computes columns [first, last) of rows from tile.row on, whose words are packed tile after tile.
 * Rows of b come from memory once. */
static void multiply_block(const product *product, out_tile tile, int64_t last,
                           const uint32_t *words) {
  const int64_t row = tile.row, end = min_i64(row + TILES * TILE, product->args->m),
                each = integer_words(&product->kernel, product->args->k) * TILE;
  if (product->kernel.begin) product->kernel.begin();
  for (; tile.column < last; tile.column += tile.columns) {
    tile.columns = (int)min_i64(max_i64(product->kernel.rows, COLUMNS), last - tile.column);
    for (tile.row = row; tile.row < end; tile.row += TILE) {
      tile.rows = (int)min_i64(TILE, end - tile.row);
      kernel_matmul_integer_multiply_columns(product, tile, words + (tile.row - row) / TILE * each);
    }
  }
  if (product->kernel.end) product->kernel.end();
}

static void kernel_matmul_integer_run_task(const void *user, int64_t task, char *scratch) {
  const product *product = user;
  const matmul_integer_args *args = product->args;
  uint32_t *words = (uint32_t *)(void *)scratch;
  const int64_t each = integer_words(&product->kernel, args->k) * TILE,
                row = task % product->tiles * TILES * TILE,
                end = min_i64(row + TILES * TILE, args->m),
                first = task / product->tiles * product->block,
                last = min_i64(first + product->block, args->n);
  for (int64_t r = row; r < end; r += TILE)
    product->rows.pack(
        (const unsigned char *)args->a + r * args->k, args->k, (int)min_i64(TILE, end - r),
        kernel_matmul_integer_shift_of(product) ? 0x80808080 : 0, words + (r - row) / TILE * each);
  multiply_block(product, (out_tile){.row = row, .column = first}, last, words);
}

/* ---------------------------------------------------------------- the kernel */

static product kernel_matmul_integer_make_product(const kernel_context *ctx,
                                                  const matmul_integer_args *args) {
  product a = {
      .args = args, .kernel = choose_integer_kernel(args->k), .rows = choose_integer_rows()};
  if (args->m == 0 || args->n == 0) return a;
  a.tiles = ceil_div(args->m, TILES * TILE);
  const int64_t wanted = ceil_div(TASKS * (int64_t)ctx->n_threads, a.tiles);
  a.block = round_up(ceil_div(args->n, wanted), COLUMNS);
  if (a.block < MIN_BLOCK) a.block = MIN_BLOCK;
  a.blocks = ceil_div(args->n, a.block);
  return a;
}

/* Returns n * size; on overflow SIZE_MAX / 4, which cannot be allocated. */
static size_t kernel_matmul_integer_bytes_of(int64_t n, size_t size) {
  size_t bytes;
  return __builtin_mul_overflow((size_t)n, size, &bytes) || bytes > SIZE_MAX / 4 ? SIZE_MAX / 4
                                                                                 : bytes;
}

static size_t begin_bytes(const product *product) {
  return kernel_scratch_size(kernel_matmul_integer_bytes_of(product->args->n, sizeof(int32_t)));
}
static int64_t kernel_matmul_integer_rest_step(const product *product) {
  return product->args->k % product->kernel.step ? product->kernel.step : 0;
}
static size_t rest_bytes(const product *product) {
  return kernel_scratch_size(kernel_matmul_integer_bytes_of(
      product->args->n, (size_t)kernel_matmul_integer_rest_step(product)));
}
static size_t kernel_matmul_integer_task_bytes(const product *product) {
  return kernel_matmul_integer_bytes_of(
      integer_words(&product->kernel, product->args->k),
      (size_t)min_i64(TILES, ceil_div(product->args->m, TILE)) * TILE * sizeof(uint32_t));
}
static size_t fixed_bytes(const product *product) {
  return begin_bytes(product) + rest_bytes(product);
}

static int64_t kernel_matmul_integer_work_of(const product *product) {
  const double work =
      (double)product->args->m * (double)product->args->n * (double)product->args->k;
  return (int64_t)(work < 1e18 ? work : 1e18) / MULTIPLIES_PER_TASK;
}

static size_t matmul_integer_scratch(const kernel_context *ctx, const void *args) {
  const matmul_integer_args *own = args;
  if (own->in_tiles) return matmul_integer_tiles_scratch(ctx, own);
  const product a = kernel_matmul_integer_make_product(ctx, own);
  return a.tiles ? fixed_bytes(&a) + slots_bytes(ctx, a.tiles * a.blocks,
                                                 kernel_matmul_integer_work_of(&a),
                                                 kernel_matmul_integer_task_bytes(&a))
                 : 0;
}

static void kernel_matmul_integer_find_begin(void *ctx, int64_t begin, int64_t end) {
  const product *product = ctx;
  const matmul_integer_args *args = product->args;
  const int shift = kernel_matmul_integer_shift_of(product);
  for (int64_t n = begin; n < end; n++) {
    int32_t sum = 0;
    for (int64_t k = 0; k < args->k && shift; k++) sum += args->b[n * args->k + k];
    product->begin[n] =
        (int32_t)((args->bias ? (uint32_t)args->bias[n] : 0) - 128 * (uint32_t)(shift * sum));
    if (kernel_matmul_integer_rest_step(product))
      integer_rest(&product->kernel, args->b + n * args->k, args->k,
                   product->rest + n * product->kernel.step);
  }
}

static bool matmul_integer(const kernel_context *ctx, const void *args) {
  const matmul_integer_args *given = args;
  if (given->in_tiles) return matmul_integer_run_tiles(ctx, given);
  product a = kernel_matmul_integer_make_product(ctx, given);
  if (!a.tiles) return true;
  char *memory = ctx->scratch(ctx->pool, matmul_integer_scratch(ctx, args));
  if (!memory) return false;
  a.begin = (int32_t *)(void *)memory;
  a.rest = (unsigned char *)memory + begin_bytes(&a);
  ctx->parallel_for(
      ctx->pool, a.args->n,
      kernel_matmul_integer_shift_of(&a) ? BYTES_PER_TASK / (a.args->k + 1) + 1 : BYTES_PER_TASK,
      kernel_matmul_integer_find_begin, &a);
  run_slots_in(ctx, a.tiles * a.blocks, kernel_matmul_integer_work_of(&a),
               kernel_matmul_integer_task_bytes(&a), kernel_matmul_integer_run_task, &a,
               memory + fixed_bytes(&a));
  return true;
}

const kernel_desc kernel_matmul_integer = {
    .name = "matmul_integer",
    .run = matmul_integer,
    .scratch = matmul_integer_scratch,
    .args_size = sizeof(matmul_integer_args),
    .steps = OPERAND(matmul_integer_args, steps.head),
    .operands = {OPERAND(matmul_integer_args, a), OPERAND(matmul_integer_args, b),
                 OPERAND(matmul_integer_args, tiles), OPERAND(matmul_integer_args, bias),
                 OPERAND(matmul_integer_args, out),
                 REQUANTISE_OPERANDS(matmul_integer_args, formula)}};

/* ---------------------------------------------------------------- other epilogues */

static size_t kernel_matmul_integer_sums_bytes(const matmul_integer_steps_args *args) {
  return kernel_matmul_integer_bytes_of(args->steps.head.n, sizeof(int32_t));
}

static size_t matmul_integer_steps_scratch(const kernel_context *ctx, const void *args) {
  const matmul_integer_steps_args *own = args;
  return kernel_scratch_size(kernel_matmul_integer_sums_bytes(own)) +
         matmul_integer_scratch(ctx, &own->product) +
         kernel_scratch_size(kernel_elementwise.scratch(ctx, &own->steps));
}

static bool matmul_integer_steps(const kernel_context *ctx, const void *args) {
  matmul_integer_steps_args own = *(const matmul_integer_steps_args *)args;
  if (own.steps.head.n == 0) return true;
  own.product.out = own.steps.inputs[0].data =
      ctx->scratch(ctx->pool, kernel_matmul_integer_sums_bytes(&own));
  return own.product.out && matmul_integer(ctx, &own.product) &&
         kernel_elementwise.run(ctx, &own.steps);
}

const kernel_desc kernel_matmul_integer_steps = {
    .name = "matmul_integer_steps",
    .run = matmul_integer_steps,
    .scratch = matmul_integer_steps_scratch,
    .args_size = sizeof(matmul_integer_steps_args),
    .operands = {OPERAND(matmul_integer_steps_args, product.a),
                 OPERAND(matmul_integer_steps_args, product.b),
                 OPERAND(matmul_integer_steps_args, product.tiles),
                 OPERAND(matmul_integer_steps_args, product.bias),
                 OPERAND(matmul_integer_steps_args, steps.head.out),
                 OPERAND(matmul_integer_steps_args, steps.inputs[1]),
                 OPERAND(matmul_integer_steps_args, steps.inputs[2]),
                 OPERAND(matmul_integer_steps_args, steps.inputs[3]),
                 OPERAND(matmul_integer_steps_args, steps.inputs[4]),
                 OPERAND(matmul_integer_steps_args, steps.inputs[5]),
                 OPERAND(matmul_integer_steps_args, steps.inputs[6]),
                 OPERAND(matmul_integer_steps_args, steps.inputs[7])}};
