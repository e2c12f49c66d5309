/* Matmul: out = alpha * a * b + beta * bias, then epilogue and steps, in four ways (product_way):
 * loops over a few rows that read b once, in place; codes.h; dots.h; or gemm.c. Packed b: panels of
 * gemm.h, pairs.h or base/code_panels.h. */
#include "backend/cpu/kernels/gemm/matmul.h"

#include <string.h>

#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/dots.h"
#include "backend/cpu/kernels/gemm/few_rows.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vector.h"

enum {
  FEW_ROWS = 6,      /* maximum rows for which a b that is contiguous along n is read in place */
  FEW_DOTS = 32,     /* maximum rows for which a b that is contiguous along k is read in place */
  FEW_BATCHES = 64,  /* maximum number of products for which b is read in place */
  WIDENED_ROWS = 48, /* maximum rows of a for which a packed 16-bit b is converted at each use */
  DOT_COLUMNS = 4,   /* columns of b that are converted to floats at once */
  STRIP = ROW_BLOCK, /* columns of a task of few rows */
  READS_PER_THREAD = 64 * 1024
};

static bool kernel_matmul_is_rounded(const matmul_args *args) {
  return !KERNEL_PLAIN && args->rounds;
}
static bool stores_bf16(const matmul_args *args) {
  return args->type == DTYPE_F32 && is_bf16(args->out_type);
}

typedef struct product {
  const matmul_args *args;
  compute_type c;
  codes_product codes; /* panels of codes */
  float *a_rows;       /* (m, k): a few rows of a as floats */
  float *sums;         /* (batches, m, n), if out is BF16 */
  int64_t batch;
} product;

/* Returns the address of element `offset` of a batch of an operand. */
static void *operand_at(dtype type, const void *data, const klayout *batches, int64_t batch,
                        int64_t offset) {
  for (int d = batches->rank - 1; d >= 0; batch /= batches->dims[d], d--)
    offset += batch % batches->dims[d] * batches->strides[d];
  return element_at(data, type, offset);
}

/* value = alpha * value + beta * bias, in class c. */
static void scale_columns(const product *product, int64_t n, const row_block *bias, void *value) {
  float *f = value, alpha = (float)product->args->alpha, beta = (float)product->args->beta;
  double *d = value;
  int64_t *k = value, alpha_int = float_to_i64(product->args->alpha),
          beta_int = float_to_i64(product->args->beta);
  if (product->c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = alpha * f[i] + beta * bias->f32[i];
  if (product->c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++)
      d[i] = product->args->alpha * d[i] + product->args->beta * bias->f64[i];
  if (product->c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++)
      k[i] = (int64_t)((uint64_t)alpha_int * (uint64_t)k[i] +
                       (uint64_t)beta_int * (uint64_t)bias->i64[i]);
}

/* True if the result is the product, perhaps plus rows of a bias, because alpha and beta are 1. */
static bool is_plain_sum(const matmul_args *args) {
  return args->type == DTYPE_F32 && args->alpha == 1 &&
         (args->beta == 0 || (args->beta == 1 && args->bias_n == 1));
}

/* Stores alpha * value + beta * bias, computed in the compute type. */
static void store_columns(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const product *product = user;
  const matmul_args *args = product->args;
  char *value = values;
  int64_t size = (int64_t)compute_size(product->c);
  row_block block;
  if (args->bias && is_plain_sum(args)) {
    conv_epilogue sum = conv_epilogue_none;
    sum.added =
        operand_at(args->type, args->bias, &args->bias_batch, batch, row * args->bias_m + column);
    conv_epilogue_row(&sum, -0.0F, 0, 0, n, values,
                      (float *)args->out + (batch * args->m + row) * args->n + column);
    return;
  }
  if (!args->bias && args->alpha != 1) memset(&block, 0, sizeof block);
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t m = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    if (args->bias)
      load_row(product->c, args->type,
               operand_at(args->type, args->bias, &args->bias_batch, batch,
                          row * args->bias_m + (column + at) * args->bias_n),
               args->bias_n, m, &block);
    if (args->bias || args->alpha != 1) scale_columns(product, m, &block, value + at * size);
    int64_t to = (batch * args->m + row) * args->n + column + at;
    store_row(product->c, args->type, element_at(args->out, args->type, to), 1, m,
              value + at * size);
  }
}

/* ---------------------------------------------------------------- products written in place */

/* Returns the place of a product in out; its sums start with the bias. */
static gemm_place place_product(const void *user, int64_t batch) {
  const product *product = user;
  const matmul_args *args = product->args;
  return (gemm_place){
      .c = (stores_bf16(args) ? product->sums : (float *)args->out) + batch * args->m * args->n,
      .c_stride = args->n,
      .from = args->bias ? operand_at(args->type, args->bias, &args->bias_batch, batch, 0) : NULL,
      .from_stride = args->bias_m};
}

/* Applies epilogue and steps to the part of the result that was just computed. */
static void finish_product(const void *user, int64_t batch, int64_t row, int64_t rows,
                           int64_t column, int64_t columns) {
  const product *product = user;
  const matmul_args *args = product->args;
  const conv_epilogue *epilogue = &args->epilogue;
  const int64_t at = (batch * args->m + row) * args->n + column;
  const bool rounds = stores_bf16(args);
  float *const sums = (rounds ? product->sums : (float *)args->out) + at, *out = sums;
  const bool has_epilogue =
      epilogue->added || epilogue->low > -INFINITY || epilogue->high < INFINITY;
  for (int64_t i = 0; has_epilogue && i < rows; i++, out += args->n)
    conv_epilogue_row(epilogue, -0.0F, 0, at + i * args->n, columns, out, out);
  if (!rounds) steps_in_place(&args->steps, sums, at, columns, rows, args->n);
  for (int64_t i = 0; rounds && i < rows; i++) {
    bf16_steps(&args->steps, sums + i * args->n, columns);
    row_to_bf16(sums + i * args->n, columns, (uint16_t *)args->out + at + i * args->n);
  }
}

static void kernel_matmul_pack_a(const void *user, int64_t batch, int64_t lane, int64_t lanes,
                                 int64_t k, int64_t kn, int64_t width, void *to) {
  const product *product = user;
  const matmul_args *args = product->args;
  gemm_pack_strided(
      product->c, args->type,
      operand_at(args->type, args->a, &args->a_batch, batch, lane * args->a_m + k * args->a_k),
      args->a_m, args->a_k, lanes, kn, width, to);
}

/* Packs words of pairs.h. */
static void kernel_matmul_pack_pairs(const void *user, int64_t batch, int64_t lane, int64_t lanes,
                                     int64_t word, int64_t n, int64_t width, void *to) {
  const matmul_args *args = ((const product *)user)->args;
  const pairs_source source = {args->a_type,
                               operand_at(args->a_type, args->a, &args->a_batch, batch, 0), args->k,
                               args->a_m, args->a_k};
  (pairs_kernel_for(args->m).blocks ? pairs_pack_blocks : pairs_pack)(&source, lane, lanes, word, n,
                                                                      width, to);
}

/* Decodes elements [k, k + n) of an encoded column of b to to[i * stride]; k is a multiple of
 * DECODED_AT_ONCE. */
static void decode_column(const product *product, int64_t column, int64_t k, int64_t n, float *to,
                          int64_t stride) {
  const encoding *encoding = &product->args->encoding;
  code_bytes row = (code_bytes)product->args->b +
                   (size_t)column * encoding_row_bytes(encoding, product->args->k);
  float x[DECODED_AT_ONCE];
  for (int64_t at = 0; at < n; at += DECODED_AT_ONCE) {
    int64_t m = n - at < DECODED_AT_ONCE ? n - at : DECODED_AT_ONCE;
    encoding_decode(encoding, row, product->args->k, (k + at) / DECODED_AT_ONCE, x);
    for (int64_t i = 0; i < m; i++) to[(at + i) * stride] = x[i];
  }
}

static void pack_encoded(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  (void)batch;
  for (int64_t i = 0; i < lanes; i++) decode_column(user, lane + i, k, kn, (float *)to + i, width);
}

static gemm_b b_of(const matmul_args *args) {
  return (gemm_b){.type = args->b_type,
                  .data = args->b,
                  .n = args->n,
                  .k = args->k,
                  .n_stride = args->b_n,
                  .k_stride = args->b_k};
}

static void kernel_matmul_pack_b(const void *user, int64_t batch, int64_t lane, int64_t lanes,
                                 int64_t k, int64_t kn, int64_t width, void *to) {
  const product *product = user;
  const matmul_args *args = product->args;
  gemm_pack_strided(
      product->c, args->b_type,
      operand_at(args->b_type, args->b, &args->b_batch, batch, lane * args->b_n + k * args->b_k),
      args->b_n, args->b_k, lanes, kn, width, to);
}

/* Converts panels of 16 bits to floats. The panels are as wide as those that pack_b packs. */
static void pack_widened(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  const matmul_args *args = ((const product *)user)->args;
  const gemm_b gemm_b = b_of(args);
  (void)batch;
  (void)lanes;
  load_row(COMPUTE_F32, args->b_type, gemm_b_panel(&gemm_b, args->panels, lane, k), 1, kn * width,
           to);
}

static void kernel_matmul_pack_codes(const void *user, int64_t batch, int64_t lane, int64_t lanes,
                                     int64_t k, int64_t kn, int64_t width, void *to) {
  const product *product = user;
  (void)batch;
  codes_widen(&product->codes, lane, lanes, k, kn, width, to);
}

/* ---------------------------------------------------------------- few rows */

static const void *column_at(const product *product, int64_t column) {
  return operand_at(product->args->b_type, product->args->b, &product->args->b_batch,
                    product->batch, column * product->args->b_n);
}

/* Loads n elements of a column of b that is contiguous along k, as floats. */
static void load_column(const product *product, int64_t column, int64_t k, int64_t n, float *to) {
  if (is_encoded(&product->args->encoding))
    decode_column(product, column, k, n, to, 1);
  else
    load_row(COMPUTE_F32, product->args->b_type,
             element_at(column_at(product, column), product->args->b_type, k), 1, n, to);
}

/* Computes columns of b that are contiguous along k, as dot products. */
static void dot_columns(const product *product, int64_t column, int64_t n, float (*sums)[STRIP]) {
  const matmul_args *args = product->args;
  float blocks[DOT_COLUMNS][ROW_BLOCK];
  if (rows_accept_type(args->b_type) && !is_encoded(&args->encoding)) {
    const rows_in_place b = {args->b_type, column_at(product, column), args->b_n};
    dots_of_rows(args->m, n, args->k, product->a_rows, args->k, &b, sums[0], STRIP);
    return;
  }
  for (int64_t j = 0; j < n; j += DOT_COLUMNS) {
    int64_t jn = n - j < DOT_COLUMNS ? n - j : DOT_COLUMNS;
    for (int64_t k = 0; k < args->k; k += ROW_BLOCK) {
      int64_t kn = args->k - k < ROW_BLOCK ? args->k - k : ROW_BLOCK;
      for (int64_t i = 0; i < jn; i++) load_column(product, column + j + i, k, kn, blocks[i]);
      const rows_in_place decoded = {DTYPE_F32, blocks, ROW_BLOCK};
      dots_of_rows(args->m, jn, kn, product->a_rows + k, args->k, &decoded, sums[0] + j, STRIP);
    }
  }
}

/* Adds rows of b that are contiguous along n, each times an element of a. */
static void add_rows(const product *product, int64_t column, int64_t n, float (*sums)[STRIP]) {
  const matmul_args *args = product->args;
  const void *b = column_at(product, column);
  float block[ROW_BLOCK];
  for (int64_t k = 0; k < args->k; k++) {
    const void *row = element_at(b, args->b_type, k * args->b_k);
    const float *x = args->b_type == DTYPE_F32 ? row : block;
    if (x == block) load_row(COMPUTE_F32, args->b_type, row, 1, n, block);
    for (int64_t i = 0; i < args->m; i++) axpy_f32(n, product->a_rows[i * args->k + k], x, sums[i]);
  }
}

/* Returns the columns per task of few rows. Dot products read whole columns along k, so fewer
 * columns are enough work for a task. */
static int64_t strip_width(const matmul_args *args) { return args->b_k == 1 ? STRIP / 4 : STRIP; }

static int64_t kernel_matmul_strip_count(const matmul_args *args) {
  return (args->n + strip_width(args) - 1) / strip_width(args);
}

static void kernel_matmul_multiply_strip(const void *user, int64_t task, char *scratch) {
  const product *product = user;
  const matmul_args *args = product->args;
  float(*sums)[STRIP] = (float(*)[STRIP])(void *)scratch; /* (m, STRIP) */
  int64_t width = strip_width(args);
  int64_t column = task * width, n = args->n - column < width ? args->n - column : width;
  for (int64_t i = 0; i < args->m; i++)
    for (int64_t j = 0; j < n; j++) sums[i][j] = 0;
  if (args->b_k == 1) {
    dot_columns(product, column, n, sums);
  } else {
    add_rows(product, column, n, sums);
  }
  for (int64_t i = 0; i < args->m; i++)
    store_columns(product, product->batch, i, column, n, sums[i]);
}

static int64_t kernel_matmul_strip_work(const matmul_args *args) {
  return args->n * args->k / READS_PER_THREAD;
}
static size_t strip_scratch(const matmul_args *args) {
  return (size_t)args->m * STRIP * sizeof(float);
}
static size_t rows_bytes(const matmul_args *args) {
  return ((size_t)(args->m * args->k) * sizeof(float) + 63) / 64 * 64;
}

/* Computes a product with few rows. memory: rows_bytes bytes, followed by the slots of strips. */
static void kernel_matmul_multiply_few(const kernel_context *ctx, product *product, char *memory) {
  const matmul_args *args = product->args;
  product->a_rows = (float *)(void *)memory;
  for (product->batch = 0; product->batch < args->batches; product->batch++) {
    for (int64_t i = 0; i < args->m; i++)
      load_row(COMPUTE_F32, args->type,
               operand_at(args->type, args->a, &args->a_batch, product->batch, i * args->a_m),
               args->a_k, args->k, product->a_rows + i * args->k);
    run_slots_in(ctx, kernel_matmul_strip_count(args), kernel_matmul_strip_work(args),
                 strip_scratch(args), kernel_matmul_multiply_strip, product,
                 memory + rows_bytes(args));
  }
}

/* ---------------------------------------------------------------- the kernel */

static bool kernel_matmul_has_few_rows(const matmul_args *args) {
  int64_t few = args->b_k == 1 ? FEW_DOTS : args->b_n == 1 ? FEW_ROWS : 0;
  return compute_type_of(args->type) == COMPUTE_F32 && args->m <= few &&
         args->batches <= FEW_BATCHES;
}

/* True if panels of b are read without being converted first. Panels of 16 bits are converted if so
 * many rows read them that this is faster. */
static bool reads_panels(const matmul_args *args) {
  return args->is_packed && !is_encoded(&args->encoding) &&
         (args->b_type == DTYPE_F32 || args->m <= WIDENED_ROWS);
}

/* True if the product multiplies pairs of BF16. */
static bool has_pairs(const matmul_args *args) {
  return kernel_matmul_is_rounded(args) && !is_encoded(&args->encoding);
}

static gemm_pack packing_of_b(const matmul_args *args) {
  if (args->is_packed) return is_encoded(&args->encoding) ? kernel_matmul_pack_codes : pack_widened;
  return is_encoded(&args->encoding) ? pack_encoded : kernel_matmul_pack_b;
}

static kgemm kernel_matmul_gemm_of(const product *product) {
  const matmul_args *args = product->args;
  bool pairs = has_pairs(args);
  return (kgemm){.c = product->c,
                 .batch = args->batches,
                 .m = args->m,
                 .n = args->n,
                 .k = pairs ? pairs_of(args->k) : args->k,
                 .pack_a = pairs ? kernel_matmul_pack_pairs : kernel_matmul_pack_a,
                 .pack_b = packing_of_b(args),
                 .store = store_columns,
                 .place = is_plain_sum(args) ? place_product : NULL,
                 .finish = matmul_accepts_epilogue(args) ? finish_product : NULL,
                 .user = product,
                 .kernel = pairs ? pairs_kernel_for(args->m) : (gemm_kernel){0},
                 .packed_b = args->panels,
                 .b_is_packed = pairs || reads_panels(args),
                 .b_type = pairs ? DTYPE_F32 : args->b_type,
                 .cut = args->cut};
}

/* Ways to compute a product. */
typedef enum product_way { WAY_FEW, WAY_CODES, WAY_DOTS, WAY_GEMM } product_way;

static product_way way_of(const matmul_args *args) {
  if (kernel_matmul_is_rounded(args)) return is_encoded(&args->encoding) ? WAY_DOTS : WAY_GEMM;
  if (args->is_packed && is_encoded(&args->encoding) && args->m <= codes_few_rows())
    return WAY_CODES;
  return !args->is_packed && kernel_matmul_has_few_rows(args) ? WAY_FEW : WAY_GEMM;
}

bool matmul_is_cut(const matmul_args *args) { return way_of(args) == WAY_GEMM; }

bool matmul_accepts_epilogue(const matmul_args *args) {
  return way_of(args) == WAY_GEMM && args->type == DTYPE_F32;
}

bool matmul_may_be_bf16(const matmul_args *args) {
  return has_pairs(args) && is_plain_sum(args) && pairs_kernel_for(args->m).blocks;
}

/* Returns the bytes of the sums, which are rounded to out when all of k is added. */
static size_t kernel_matmul_sums_bytes(const matmul_args *args) {
  if (!stores_bf16(args)) return 0;
  return kernel_scratch_size((size_t)(args->batches * args->m * args->n) * sizeof(float));
}

static product kernel_matmul_make_product(const matmul_args *args) {
  product q = {.args = args, .c = compute_type_of(args->type), .codes = {.panels = args->panels}};
  if (args->is_packed && is_encoded(&args->encoding))
    (void)code_panels_of(&args->encoding, args->k, &q.codes.of);
  return q;
}

size_t matmul_scratch(const kernel_context *ctx, const void *args) {
  const matmul_args *own = args;
  product q = kernel_matmul_make_product(own);
  const kgemm kgemm = kernel_matmul_gemm_of(&q);
  if (kgemm.batch * kgemm.m * kgemm.n == 0) return 0;
  q.codes.g = &kgemm;
  switch (way_of(own)) {
    case WAY_CODES:
      return codes_bytes(ctx, &q.codes);
    case WAY_DOTS:
      return dots_bytes(ctx, &q.codes);
    case WAY_FEW:
      return rows_bytes(own) + slots_bytes(ctx, kernel_matmul_strip_count(own),
                                           kernel_matmul_strip_work(own), strip_scratch(own));
    default:
      return kernel_matmul_sums_bytes(own) + gemm_bytes(ctx, &kgemm);
  }
}

void matmul_multiply(const kernel_context *ctx, const matmul_args *args, char *memory) {
  product q = kernel_matmul_make_product(args);
  const kgemm kgemm = kernel_matmul_gemm_of(&q);
  product_way way = way_of(args);
  q.codes.g = &kgemm;
  if (way == WAY_CODES) codes_run(ctx, &q.codes, memory);
  if (way == WAY_DOTS) dots_run(ctx, &q.codes, memory);
  if (way == WAY_FEW) kernel_matmul_multiply_few(ctx, &q, memory);
  q.sums = (float *)(void *)memory;
  if (way == WAY_GEMM) gemm_run(ctx, &kgemm, memory + kernel_matmul_sums_bytes(args));
}

static bool matmul(const kernel_context *ctx, const void *args) {
  const matmul_args *own = args;
  if (own->batches * own->m * own->n == 0) return true;
  char *memory = ctx->scratch(ctx->pool, matmul_scratch(ctx, args));
  if (!memory) return false;
  matmul_multiply(ctx, own, memory);
  return true;
}

const kernel_desc kernel_matmul = {
    .name = "matmul",
    .run = matmul,
    .scratch = matmul_scratch,
    .args_size = sizeof(matmul_args),
    .steps = OPERAND(matmul_args, steps),
    .operands = {OPERAND(matmul_args, a), OPERAND(matmul_args, b), OPERAND(matmul_args, bias),
                 OPERAND(matmul_args, panels), OPERAND(matmul_args, out),
                 OPERAND(matmul_args, epilogue.added), OPERAND(matmul_args, steps.inputs[1]),
                 OPERAND(matmul_args, steps.inputs[2])}};

/* ---------------------------------------------------------------- packing */

static bool has_one_b(const matmul_args *args) {
  for (int i = 0; i < args->b_batch.rank; i++)
    if (args->b_batch.dims[i] > 1 && args->b_batch.strides[i] != 0) return false;
  return true;
}

bool matmul_packs(const matmul_args *args) {
  code_panels of;
  if (args->k == 0 || args->n == 0) return false;
  if (is_encoded(&args->encoding)) return code_panels_of(&args->encoding, args->k, &of);
  return compute_type_of(args->type) == COMPUTE_F32 && has_one_b(args);
}

bool matmul_rounds(const matmul_args *args) {
  code_panels of;
  if (!matmul_packs(args)) return false;
  if (!is_encoded(&args->encoding)) return true;
  return code_panels_of(&args->encoding, args->k, &of) && code_panels_accept_rounded(&of);
}

static size_t kernel_matmul_pack_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  const matmul_args *own = args;
  const gemm_b gemm_b = b_of(own);
  code_panels of;
  if (!is_encoded(&own->encoding))
    return kernel_scratch_size(kernel_matmul_is_rounded(own) ? pairs_b_bytes(&gemm_b)
                                                             : gemm_b_bytes(&gemm_b));
  if (!code_panels_of(&own->encoding, own->k, &of)) return 0;
  return kernel_scratch_size(codes_panels_bytes(&of, own->n));
}

static bool gemm_kernel_matmul_pack(const kernel_context *ctx, const void *args) {
  const matmul_args *own = args;
  const gemm_b gemm_b = b_of(own);
  char *to = ctx->scratch(ctx->pool, kernel_matmul_pack_scratch(ctx, args));
  if (!to) return false;
  if (is_encoded(&own->encoding))
    codes_pack(ctx, &own->encoding, own->b, own->n, own->k, to);
  else if (kernel_matmul_is_rounded(own))
    pairs_pack_b(ctx, &gemm_b, to);
  else
    gemm_pack_b(ctx, &gemm_b, to);
  return true;
}

const kernel_desc kernel_matmul_pack = {.name = "matmul_pack",
                                        .run = gemm_kernel_matmul_pack,
                                        .scratch = kernel_matmul_pack_scratch,
                                        .args_size = sizeof(matmul_args),
                                        .operands = {OPERAND(matmul_args, b)}};
