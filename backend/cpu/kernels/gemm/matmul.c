/* Matmul: the packed multiplication of gemm.c over strided operands, and for a few rows of floats
 * loops that read b once, where it lies. Groups of rows are a product each. */
#include "backend/cpu/kernels/gemm/matmul.h"

#include <string.h>

#include "backend/cpu/kernels/elementwise/bf16_steps.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/gemm/dots.h"
#include "backend/cpu/kernels/gemm/few_rows.h"
#include "backend/cpu/kernels/gemm/gemm.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/kernels/index.h"
#include "backend/cpu/kernels/support/bf16.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vector.h"

enum {
  FEW_ROWS = 6,      /* up to here b is read in place where it is contiguous along n, */
  FEW_DOTS = 32,     /* and up to here where it is so along k, */
  FEW_BATCHES = 64,  /* of at most so many products */
  WIDENED_ROWS = 48, /* of a for which a packed b of 16 bits is made floats at each use */
  DOT_COLUMNS = 4,   /* columns of b that are made floats at once */
  STRIP = ROW_BLOCK, /* columns of a task of few rows */
  READS_PER_THREAD = 64 * 1024
};

static bool is_rounded(const matmul_args *p) { return !KERNEL_PLAIN && p->rounds; }
static bool stores_bf16(const matmul_args *p) {
  return p->type == DTYPE_F32 && is_bf16(p->out_type);
}

typedef struct product {
  const matmul_args *p;
  compute_class c;
  codes_product codes; /* of panels of codes */
  float *a_rows;       /* (m, k): a few rows of a as floats */
  float *sums;         /* (batches, m, n), where out is BF16 */
  int64_t batch;
} product;

/* Element `offset` of a batch of an operand. */
static void *operand_at(dtype type, const void *data, const klayout *batches, int64_t batch,
                        int64_t offset) {
  for (int d = batches->rank - 1; d >= 0; batch /= batches->dims[d], d--)
    offset += batch % batches->dims[d] * batches->strides[d];
  return element_at(data, type, offset);
}

/* value = alpha * value + beta * bias, in class c. */
static void scale_columns(const product *q, int64_t n, const row_block *bias, void *value) {
  float *f = value, alpha = (float)q->p->alpha, beta = (float)q->p->beta;
  double *d = value;
  int64_t *k = value, alpha_int = float_to_i64(q->p->alpha), beta_int = float_to_i64(q->p->beta);
  if (q->c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] = alpha * f[i] + beta * bias->f32[i];
  if (q->c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] = q->p->alpha * d[i] + q->p->beta * bias->f64[i];
  if (q->c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++)
      k[i] = (int64_t)((uint64_t)alpha_int * (uint64_t)k[i] +
                       (uint64_t)beta_int * (uint64_t)bias->i64[i]);
}

/* Whether the result is the product, or it plus rows of a bias: a factor of 1 changes no bit. */
static bool is_plain_sum(const matmul_args *p) {
  return p->type == DTYPE_F32 && p->alpha == 1 &&
         (p->beta == 0 || (p->beta == 1 && p->bias_n == 1));
}

/* alpha * value + beta * bias, in the compute type, then stored. */
static void store_columns(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const product *q = user;
  const matmul_args *p = q->p;
  char *value = values;
  int64_t size = (int64_t)compute_size(q->c);
  row_block v;
  if (p->bias && is_plain_sum(p)) {
    conv_tail sum = conv_tail_none;
    sum.added = operand_at(p->type, p->bias, &p->bias_batch, batch, row * p->bias_m + column);
    conv_tail_row(&sum, -0.0F, 0, n, values,
                  (float *)p->out + (batch * p->m + row) * p->n + column);
    return;
  }
  if (!p->bias && p->alpha != 1) memset(&v, 0, sizeof v);
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t m = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    if (p->bias)
      load_row(q->c, p->type,
               operand_at(p->type, p->bias, &p->bias_batch, batch,
                          row * p->bias_m + (column + at) * p->bias_n),
               p->bias_n, m, &v);
    if (p->bias || p->alpha != 1) scale_columns(q, m, &v, value + at * size);
    int64_t to = (batch * p->m + row) * p->n + column + at;
    store_row(q->c, p->type, element_at(p->out, p->type, to), 1, m, value + at * size);
  }
}

/* ---------------------------------------------------------------- in place */

/* Its sums begin with the bias. */
static gemm_place place_product(const void *user, int64_t batch) {
  const product *q = user;
  const matmul_args *p = q->p;
  return (gemm_place){
      .c = (stores_bf16(p) ? q->sums : (float *)p->out) + batch * p->m * p->n,
      .c_step = p->n,
      .from = p->bias ? operand_at(p->type, p->bias, &p->bias_batch, batch, 0) : NULL,
      .from_step = p->bias_m};
}

/* What follows the product, on what was just made. */
static void finish_product(const void *user, int64_t batch, int64_t row, int64_t rows,
                           int64_t column, int64_t columns) {
  const product *q = user;
  const matmul_args *p = q->p;
  const conv_tail *t = &p->tail;
  const int64_t at = (batch * p->m + row) * p->n + column;
  const bool rounds = stores_bf16(p);
  float *const sums = (rounds ? q->sums : (float *)p->out) + at, *out = sums;
  const bool has_tail = t->added || t->low > -INFINITY || t->high < INFINITY;
  for (int64_t i = 0; has_tail && i < rows; i++, out += p->n)
    conv_tail_row(t, -0.0F, at + i * p->n, columns, out, out);
  if (!rounds) steps_in_place(&p->steps, sums, at, columns, rows, p->n);
  for (int64_t i = 0; rounds && i < rows; i++) {
    bf16_steps(&p->steps, sums + i * p->n, columns);
    narrow_row(sums + i * p->n, columns, (uint16_t *)p->out + at + i * p->n);
  }
}

static void pack_a(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                   int64_t kn, int64_t width, void *to) {
  const product *q = user;
  const matmul_args *p = q->p;
  gemm_pack_strided(q->c, p->type,
                    operand_at(p->type, p->a, &p->a_batch, batch, lane * p->a_m + k * p->a_k),
                    p->a_m, p->a_k, lanes, kn, width, to);
}

/* Words of pairs.h. */
static void pack_pairs(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t word,
                       int64_t n, int64_t width, void *to) {
  const matmul_args *p = ((const product *)user)->p;
  const pairs_source a = {p->a_type, operand_at(p->a_type, p->a, &p->a_batch, batch, 0), p->k,
                          p->a_m, p->a_k};
  (pairs_kernel_for(p->m).blocks ? pairs_pack_blocks : pairs_pack)(&a, lane, lanes, word, n, width,
                                                                   to);
}

/* Elements [k, k + n) of an encoded column of b, k a multiple of DECODED_AT_ONCE, to[i * step]. */
static void decode_column(const product *q, int64_t column, int64_t k, int64_t n, float *to,
                          int64_t step) {
  const encoding *e = &q->p->encoding;
  code_bytes row = (code_bytes)q->p->b + (size_t)column * encoding_row_bytes(e, q->p->k);
  float x[DECODED_AT_ONCE];
  for (int64_t at = 0; at < n; at += DECODED_AT_ONCE) {
    int64_t m = n - at < DECODED_AT_ONCE ? n - at : DECODED_AT_ONCE;
    encoding_decode(e, row, q->p->k, (k + at) / DECODED_AT_ONCE, x);
    for (int64_t i = 0; i < m; i++) to[(at + i) * step] = x[i];
  }
}

static void pack_encoded(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  (void)batch;
  for (int64_t i = 0; i < lanes; i++) decode_column(user, lane + i, k, kn, (float *)to + i, width);
}

static gemm_b b_of(const matmul_args *p) {
  return (gemm_b){.type = p->b_type,
                  .data = p->b,
                  .n = p->n,
                  .k = p->k,
                  .n_stride = p->b_n,
                  .k_stride = p->b_k};
}

static void pack_b(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                   int64_t kn, int64_t width, void *to) {
  const product *q = user;
  const matmul_args *p = q->p;
  gemm_pack_strided(q->c, p->b_type,
                    operand_at(p->b_type, p->b, &p->b_batch, batch, lane * p->b_n + k * p->b_k),
                    p->b_n, p->b_k, lanes, kn, width, to);
}

/* Columns of panels of 16 bits, as floats: as wide as the panels that are packed on the way. */
static void pack_widened(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  const matmul_args *p = ((const product *)user)->p;
  const gemm_b b = b_of(p);
  (void)batch;
  (void)lanes;
  load_row(COMPUTE_F32, p->b_type, gemm_b_panel(&b, p->panels, lane, k), 1, kn * width, to);
}

static void pack_codes(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                       int64_t kn, int64_t width, void *to) {
  const product *q = user;
  (void)batch;
  codes_widen(&q->codes, lane, lanes, k, kn, width, to);
}

/* ---------------------------------------------------------------- few rows */

static const void *column_at(const product *q, int64_t column) {
  return operand_at(q->p->b_type, q->p->b, &q->p->b_batch, q->batch, column * q->p->b_n);
}

/* n of a column of b that is contiguous along k, as floats. */
static void load_column(const product *q, int64_t column, int64_t k, int64_t n, float *to) {
  if (is_encoded(&q->p->encoding))
    decode_column(q, column, k, n, to, 1);
  else
    load_row(COMPUTE_F32, q->p->b_type, element_at(column_at(q, column), q->p->b_type, k), 1, n,
             to);
}

/* Columns of b that are contiguous along k: a dot product each. */
static void dot_columns(const product *q, int64_t column, int64_t n, float (*sums)[STRIP]) {
  const matmul_args *p = q->p;
  float blocks[DOT_COLUMNS][ROW_BLOCK];
  if (rows_take(p->b_type) && !is_encoded(&p->encoding)) {
    const rows_in_place b = {p->b_type, column_at(q, column), p->b_n};
    dots_of_rows(p->m, n, p->k, q->a_rows, p->k, &b, sums[0], STRIP);
    return;
  }
  for (int64_t j = 0; j < n; j += DOT_COLUMNS) {
    int64_t jn = n - j < DOT_COLUMNS ? n - j : DOT_COLUMNS;
    for (int64_t k = 0; k < p->k; k += ROW_BLOCK) {
      int64_t kn = p->k - k < ROW_BLOCK ? p->k - k : ROW_BLOCK;
      for (int64_t i = 0; i < jn; i++) load_column(q, column + j + i, k, kn, blocks[i]);
      const rows_in_place b = {DTYPE_F32, blocks, ROW_BLOCK};
      dots_of_rows(p->m, jn, kn, q->a_rows + k, p->k, &b, sums[0] + j, STRIP);
    }
  }
}

/* Rows of b that are contiguous along n: each is added with a's factor. */
static void add_rows(const product *q, int64_t column, int64_t n, float (*sums)[STRIP]) {
  const matmul_args *p = q->p;
  const void *b = column_at(q, column);
  float block[ROW_BLOCK];
  for (int64_t k = 0; k < p->k; k++) {
    const void *row = element_at(b, p->b_type, k * p->b_k);
    const float *x = p->b_type == DTYPE_F32 ? row : block;
    if (x == block) load_row(COMPUTE_F32, p->b_type, row, 1, n, block);
    for (int64_t i = 0; i < p->m; i++) axpy_f32(n, q->a_rows[i * p->k + k], x, sums[i]);
  }
}

/* A column along k is long enough to make a task of fewer. */
static int64_t strip_width(const matmul_args *p) { return p->b_k == 1 ? STRIP / 4 : STRIP; }

static int64_t strip_count(const matmul_args *p) {
  return (p->n + strip_width(p) - 1) / strip_width(p);
}

static void multiply_strip(const void *user, int64_t task, char *scratch) {
  const product *q = user;
  const matmul_args *p = q->p;
  float(*sums)[STRIP] = (float(*)[STRIP])(void *)scratch; /* (m, STRIP) */
  int64_t width = strip_width(p);
  int64_t column = task * width, n = p->n - column < width ? p->n - column : width;
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < n; j++) sums[i][j] = 0;
  if (p->b_k == 1) {
    dot_columns(q, column, n, sums);
  } else {
    add_rows(q, column, n, sums);
  }
  for (int64_t i = 0; i < p->m; i++) store_columns(q, q->batch, i, column, n, sums[i]);
}

static int64_t strip_work(const matmul_args *p) { return p->n * p->k / READS_PER_THREAD; }
static size_t strip_scratch(const matmul_args *p) { return (size_t)p->m * STRIP * sizeof(float); }
static size_t rows_bytes(const matmul_args *p) {
  return ((size_t)(p->m * p->k) * sizeof(float) + 63) / 64 * 64;
}

/* In memory of rows_bytes and that of a strip's slots. */
static void multiply_few(const kernel_context *ctx, product *q, char *memory) {
  const matmul_args *p = q->p;
  q->a_rows = (float *)(void *)memory;
  for (q->batch = 0; q->batch < p->batches; q->batch++) {
    for (int64_t i = 0; i < p->m; i++)
      load_row(COMPUTE_F32, p->type, operand_at(p->type, p->a, &p->a_batch, q->batch, i * p->a_m),
               p->a_k, p->k, q->a_rows + i * p->k);
    run_slots_in(ctx, strip_count(p), strip_work(p), strip_scratch(p), multiply_strip, q,
                 memory + rows_bytes(p));
  }
}

/* ---------------------------------------------------------------- the kernel */

static bool has_few_rows(const matmul_args *p) {
  int64_t few = p->b_k == 1 ? FEW_DOTS : p->b_n == 1 ? FEW_ROWS : 0;
  return compute_class_of(p->type) == COMPUTE_F32 && p->m <= few && p->batches <= FEW_BATCHES;
}

/* Panels of b are read as they are: always if they are floats, else unless so many rows read them
 * that it is worth making them floats first. */
static bool reads_panels(const matmul_args *p) {
  return p->is_packed && !is_encoded(&p->encoding) &&
         (p->b_type == DTYPE_F32 || p->m <= WIDENED_ROWS);
}

/* Products of pairs of BF16. */
static bool has_pairs(const matmul_args *p) { return is_rounded(p) && !is_encoded(&p->encoding); }

static gemm_pack packing_of_b(const matmul_args *p) {
  if (p->is_packed) return is_encoded(&p->encoding) ? pack_codes : pack_widened;
  return is_encoded(&p->encoding) ? pack_encoded : pack_b;
}

static kgemm gemm_of(const product *q) {
  const matmul_args *p = q->p;
  bool pairs = has_pairs(p);
  return (kgemm){.c = q->c,
                 .batch = p->batches,
                 .m = p->m,
                 .n = p->n,
                 .k = pairs ? pairs_of(p->k) : p->k,
                 .pack_a = pairs ? pack_pairs : pack_a,
                 .pack_b = packing_of_b(p),
                 .store = store_columns,
                 .place = is_plain_sum(p) ? place_product : NULL,
                 .finish = matmul_takes_tail(p) ? finish_product : NULL,
                 .user = q,
                 .kernel = pairs ? pairs_kernel_for(p->m) : (gemm_kernel){0},
                 .packed_b = p->panels,
                 .b_is_packed = pairs || reads_panels(p),
                 .b_type = pairs ? DTYPE_F32 : p->b_type,
                 .cut = p->cut};
}

/* How a product is computed. */
typedef enum product_way { WAY_FEW, WAY_CODES, WAY_DOTS, WAY_GEMM } product_way;

static product_way way_of(const matmul_args *p) {
  if (is_rounded(p)) return is_encoded(&p->encoding) ? WAY_DOTS : WAY_GEMM;
  if (p->is_packed && is_encoded(&p->encoding) && p->m <= codes_few_rows()) return WAY_CODES;
  return !p->is_packed && has_few_rows(p) ? WAY_FEW : WAY_GEMM;
}

bool matmul_is_cut(const matmul_args *p) { return way_of(p) == WAY_GEMM; }

bool matmul_takes_tail(const matmul_args *p) {
  return way_of(p) == WAY_GEMM && p->type == DTYPE_F32;
}

bool matmul_may_narrow(const matmul_args *p) {
  return has_pairs(p) && is_plain_sum(p) && pairs_kernel_for(p->m).blocks;
}

/* Sums that are rounded when all of k is added. */
static size_t sums_bytes(const matmul_args *p) {
  if (!stores_bf16(p)) return 0;
  return kernel_scratch_size((size_t)(p->batches * p->m * p->n) * sizeof(float));
}

static product make_product(const matmul_args *p) {
  product q = {.p = p, .c = compute_class_of(p->type), .codes = {.panels = p->panels}};
  if (p->is_packed && is_encoded(&p->encoding))
    (void)code_panels_of(&p->encoding, p->k, &q.codes.of);
  return q;
}

static size_t matmul_scratch(const kernel_context *ctx, const void *args) {
  const matmul_args *p = args;
  product q = make_product(p);
  const kgemm g = gemm_of(&q);
  if (g.batch * g.m * g.n == 0) return 0;
  q.codes.g = &g;
  switch (way_of(p)) {
    case WAY_CODES:
      return codes_bytes(ctx, &q.codes);
    case WAY_DOTS:
      return dots_bytes(ctx, &q.codes);
    case WAY_FEW:
      return rows_bytes(p) + slots_bytes(ctx, strip_count(p), strip_work(p), strip_scratch(p));
    default:
      return sums_bytes(p) + gemm_bytes(ctx, &g);
  }
}

/* In memory of matmul_scratch. */
static void multiply(const kernel_context *ctx, const matmul_args *p, char *memory) {
  product q = make_product(p);
  const kgemm g = gemm_of(&q);
  product_way way = way_of(p);
  q.codes.g = &g;
  if (way == WAY_CODES) codes_run(ctx, &q.codes, memory);
  if (way == WAY_DOTS) dots_run(ctx, &q.codes, memory);
  if (way == WAY_FEW) multiply_few(ctx, &q, memory);
  q.sums = (float *)(void *)memory;
  if (way == WAY_GEMM) gemm_run(ctx, &g, memory + sums_bytes(p));
}

static bool matmul(const kernel_context *ctx, const void *args) {
  const matmul_args *p = args;
  if (p->batches * p->m * p->n == 0) return true;
  char *memory = ctx->scratch(ctx->pool, matmul_scratch(ctx, args));
  if (!memory) return false;
  multiply(ctx, p, memory);
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
                 OPERAND(matmul_args, tail.added), OPERAND(matmul_args, steps.inputs[1]),
                 OPERAND(matmul_args, steps.inputs[2])}};

/* ---------------------------------------------------------------- packing */

static bool has_one_b(const matmul_args *p) {
  for (int i = 0; i < p->b_batch.rank; i++)
    if (p->b_batch.dims[i] > 1 && p->b_batch.strides[i] != 0) return false;
  return true;
}

bool matmul_packs(const matmul_args *p) {
  code_panels of;
  if (p->k == 0 || p->n == 0) return false;
  if (is_encoded(&p->encoding)) return code_panels_of(&p->encoding, p->k, &of);
  return compute_class_of(p->type) == COMPUTE_F32 && has_one_b(p);
}

bool matmul_rounds(const matmul_args *p) {
  code_panels of;
  if (!matmul_packs(p)) return false;
  if (!is_encoded(&p->encoding)) return true;
  return code_panels_of(&p->encoding, p->k, &of) && code_panels_take_rounded(&of);
}

static size_t pack_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  const matmul_args *p = args;
  const gemm_b b = b_of(p);
  code_panels of;
  if (!is_encoded(&p->encoding))
    return kernel_scratch_size(is_rounded(p) ? pairs_b_bytes(&b) : gemm_b_bytes(&b));
  if (!code_panels_of(&p->encoding, p->k, &of)) return 0;
  return kernel_scratch_size(codes_panels_bytes(&of, p->n));
}

static bool pack(const kernel_context *ctx, const void *args) {
  const matmul_args *p = args;
  const gemm_b b = b_of(p);
  char *to = ctx->scratch(ctx->pool, pack_scratch(ctx, args));
  if (!to) return false;
  if (is_encoded(&p->encoding))
    codes_pack(ctx, &p->encoding, p->b, p->n, p->k, to);
  else if (is_rounded(p))
    pairs_pack_b(ctx, &b, to);
  else
    gemm_pack_b(ctx, &b, to);
  return true;
}

const kernel_desc kernel_matmul_pack = {.name = "matmul_pack",
                                        .run = pack,
                                        .scratch = pack_scratch,
                                        .args_size = sizeof(matmul_args),
                                        .operands = {OPERAND(matmul_args, b)}};

/* ---------------------------------------------------------------- groups of rows */

enum { MOST_ROWS = 512 /* of a product: what bounds the scratch memory */ };

/* Bytes of the panels of a matrix. */
static size_t panels_bytes(const grouped_matmul_args *p) {
  code_panels of;
  bool has_panels =
      is_encoded(&p->encoding) && p->n > 0 && p->k > 0 && code_panels_of(&p->encoding, p->k, &of);
  return has_panels ? codes_panels_bytes(&of, p->n) : 0;
}

static const void *panels_at(const grouped_matmul_args *p, int64_t group) {
  return p->is_packed ? (const char *)p->panels + (size_t)group * panels_bytes(p) : NULL;
}

static const void *matrix_at(const grouped_matmul_args *p, int64_t group) {
  if (!is_encoded(&p->encoding)) return element_at(p->b, p->b_type, group * p->b_group);
  return (const char *)p->b + (size_t)(group * p->n) * encoding_row_bytes(&p->encoding, p->k);
}

/* Rows [from, from + m) of a times b[group]. */
static matmul_args product_of_rows(const grouped_matmul_args *p, int64_t group, int64_t from,
                                   int64_t m) {
  const ktensor *a = &p->a;
  return (matmul_args){.a = element_at(a->data, a->type, from * a->strides[0]),
                       .b = p->is_packed ? NULL : matrix_at(p, group),
                       .panels = panels_at(p, group),
                       .is_packed = p->is_packed,
                       .rounds = p->rounds,
                       .out = element_at(p->out.data, a->type, from * p->n),
                       .type = a->type,
                       .b_type = p->b_type,
                       .encoding = p->encoding,
                       .m = m,
                       .n = p->n,
                       .k = p->k,
                       .batches = 1,
                       .a_m = a->strides[0],
                       .a_k = a->strides[1],
                       .b_k = p->b_k,
                       .b_n = p->b_n,
                       .alpha = 1,
                       .tail = conv_tail_none};
}

static int64_t most_rows(const grouped_matmul_args *p) {
  return p->a.dims[0] < MOST_ROWS ? p->a.dims[0] : MOST_ROWS;
}

/* The most that a product of any number of rows takes. */
static size_t grouped_scratch(const kernel_context *ctx, const void *args) {
  size_t most = 0;
  for (int64_t m = 1; m <= most_rows(args); m++) {
    const matmul_args rows = product_of_rows(args, 0, 0, m);
    size_t bytes = matmul_scratch(ctx, &rows);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Where a group ends that begins at `start`. */
static int64_t end_of_group(const kernel_context *ctx, const grouped_matmul_args *p, int64_t group,
                            int64_t start) {
  int64_t end = load_index(&p->ends, group * p->ends.strides[0]), rows = p->a.dims[0];
  if (end >= start && end <= rows) return end;
  kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, end, start, rows);
  return start;
}

static bool grouped_matmul(const kernel_context *ctx, const void *args) {
  const grouped_matmul_args *p = args;
  int64_t rows = p->a.dims[0], n = p->n, start = 0;
  if (rows * n == 0) return true;
  char *memory = ctx->scratch(ctx->pool, grouped_scratch(ctx, args));
  if (!memory) return false;
  for (int64_t group = 0; group < p->groups; group++) {
    int64_t end = end_of_group(ctx, p, group, start);
    while (start < end) {
      int64_t m = end - start < most_rows(p) ? end - start : most_rows(p);
      const matmul_args some = product_of_rows(p, group, start, m);
      multiply(ctx, &some, memory);
      start += m;
    }
  }
  memset(element_at(p->out.data, p->out.type, start * n), 0,
         (size_t)((rows - start) * n) * dtype_size(p->out.type));
  return true;
}

const kernel_desc kernel_grouped_matmul = {
    .name = "grouped_matmul",
    .run = grouped_matmul,
    .scratch = grouped_scratch,
    .args_size = sizeof(grouped_matmul_args),
    .operands = {OPERAND(grouped_matmul_args, a), OPERAND(grouped_matmul_args, b),
                 OPERAND(grouped_matmul_args, panels), OPERAND(grouped_matmul_args, ends),
                 OPERAND(grouped_matmul_args, out)}};

bool grouped_matmul_packs(const grouped_matmul_args *p) { return panels_bytes(p) > 0; }

bool grouped_matmul_rounds(const grouped_matmul_args *p) {
  const matmul_args one = product_of_rows(p, 0, 0, 1);
  return grouped_matmul_packs(p) && matmul_rounds(&one);
}

static size_t pack_groups_scratch(const kernel_context *ctx, const void *args) {
  (void)ctx;
  const grouped_matmul_args *p = args;
  return kernel_scratch_size((size_t)p->groups * panels_bytes(p));
}

static bool pack_groups(const kernel_context *ctx, const void *args) {
  const grouped_matmul_args *p = args;
  char *to = ctx->scratch(ctx->pool, pack_groups_scratch(ctx, args));
  for (int64_t i = 0; to && i < p->groups; i++)
    codes_pack(ctx, &p->encoding, matrix_at(p, i), p->n, p->k, to + (size_t)i * panels_bytes(p));
  return to != NULL;
}

const kernel_desc kernel_grouped_matmul_pack = {.name = "grouped_matmul_pack",
                                                .run = pack_groups,
                                                .scratch = pack_groups_scratch,
                                                .args_size = sizeof(grouped_matmul_args),
                                                .operands = {OPERAND(grouped_matmul_args, b)}};
