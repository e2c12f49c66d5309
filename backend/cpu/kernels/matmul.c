/* Matmul: the packed multiplication of gemm.c over strided operands, and for a few rows of floats
 * loops that read b once, where it lies. */
#include "backend/cpu/kernels/matmul.h"

#include <string.h>

#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/vector.h"
#include "backend/cpu/kernels/walk.h"

enum {
  FEW_ROWS = 6,      /* up to here b is read in place where it is contiguous along n, */
  FEW_DOTS = 32,     /* and up to here where it is so along k */
  DOT_COLUMNS = 4,   /* columns of b that are made floats at once */
  STRIP = ROW_BLOCK, /* columns of a task of few rows */
  READS_PER_THREAD = 64 * 1024
};

/* The operands with merged batch dimensions. */
typedef struct product {
  const matmul *p;
  compute_class c;
  int rank; /* of the batch dimensions */
  int64_t dims[KERNEL_MAX_RANK];
  int64_t a_batch[KERNEL_MAX_RANK], b_batch[KERNEL_MAX_RANK], bias_batch[KERNEL_MAX_RANK];
  int64_t batch, m, n, k;
  int64_t a_m, a_k, b_k, b_n, bias_m, bias_n; /* strides */
  float *a_rows;                              /* (m, k): a few rows of a as floats */
  int64_t batch_index;
} product;

static int64_t batch_offset(const product *q, const int64_t *strides, int64_t batch) {
  int64_t offset = 0;
  for (int d = q->rank - 1; d >= 0; batch /= q->dims[d], d--)
    offset += batch % q->dims[d] * strides[d];
  return offset;
}

static void *operand_at(const product *q, const ktensor *t, const int64_t *strides, int64_t batch,
                        int64_t offset) {
  return element_at(t->data, t->type, batch_offset(q, strides, batch) + offset);
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

/* alpha * value + beta * bias, in the compute type, then stored. */
static void store_columns(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const product *q = user;
  const ktensor *out = q->p->out, *bias = q->p->beta != 0 ? q->p->bias : NULL;
  char *value = values;
  int64_t size = (int64_t)compute_size(q->c);
  row_block v;
  if (!bias && q->p->alpha != 1) memset(&v, 0, sizeof v);
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t m = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    if (bias)
      load_row(
          q->c, bias->type,
          operand_at(q, bias, q->bias_batch, batch, row * q->bias_m + (column + at) * q->bias_n),
          q->bias_n, m, &v);
    if (bias || q->p->alpha != 1) scale_columns(q, m, &v, value + at * size);
    int64_t to = (batch * q->m + row) * q->n + column + at;
    store_row(q->c, out->type, element_at(out->data, out->type, to), 1, m, value + at * size);
  }
}

static void pack_a(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                   int64_t kn, int64_t width, void *to) {
  const product *q = user;
  gemm_pack_strided(q->c, q->p->a->type,
                    operand_at(q, q->p->a, q->a_batch, batch, lane * q->a_m + k * q->a_k), q->a_m,
                    q->a_k, lanes, kn, width, to);
}

static void pack_b(const void *user, int64_t batch, int64_t lane, int64_t lanes, int64_t k,
                   int64_t kn, int64_t width, void *to) {
  const product *q = user;
  gemm_pack_strided(q->c, q->p->b->type,
                    operand_at(q, q->p->b, q->b_batch, batch, lane * q->b_n + k * q->b_k), q->b_n,
                    q->b_k, lanes, kn, width, to);
}

/* ---------------------------------------------------------------- few rows */

/* Columns of b that are contiguous along k: a dot product each. */
static void dot_columns(const product *q, const char *b, int64_t n, float (*sums)[STRIP]) {
  const ktensor *from = q->p->b;
  float blocks[DOT_COLUMNS][ROW_BLOCK];
  if (from->type == DTYPE_F32) {
    dots_f32(q->m, n, q->k, q->a_rows, q->k, (const float *)(const void *)b, q->b_n, sums[0],
             STRIP);
    return;
  }
  for (int64_t j = 0; j < n; j += DOT_COLUMNS) {
    int64_t jn = n - j < DOT_COLUMNS ? n - j : DOT_COLUMNS;
    for (int64_t k = 0; k < q->k; k += ROW_BLOCK) {
      int64_t kn = q->k - k < ROW_BLOCK ? q->k - k : ROW_BLOCK;
      for (int64_t i = 0; i < jn; i++)
        load_row(COMPUTE_F32, from->type, element_at(b, from->type, (j + i) * q->b_n + k), 1, kn,
                 blocks[i]);
      dots_f32(q->m, jn, kn, q->a_rows + k, q->k, blocks[0], ROW_BLOCK, sums[0] + j, STRIP);
    }
  }
}

/* Rows of b that are contiguous along n: each is added with a's factor. */
static void add_rows(const product *q, const char *b, int64_t n, float (*sums)[STRIP]) {
  float block[ROW_BLOCK];
  for (int64_t k = 0; k < q->k; k++) {
    const void *row = element_at(b, q->p->b->type, k * q->b_k);
    const float *x = q->p->b->type == DTYPE_F32 ? row : block;
    if (x == block) load_row(COMPUTE_F32, q->p->b->type, row, 1, n, block);
    for (int64_t i = 0; i < q->m; i++) axpy_f32(n, q->a_rows[i * q->k + k], x, sums[i]);
  }
}

/* A column along k is long enough to make a task of fewer. */
static int64_t strip_width(const product *q) { return q->b_k == 1 ? STRIP / 4 : STRIP; }

static void multiply_strip(const void *user, int64_t task, char *scratch) {
  const product *q = user;
  float(*sums)[STRIP] = (float(*)[STRIP])(void *)scratch; /* (m, STRIP) */
  int64_t width = strip_width(q);
  int64_t column = task * width, n = q->n - column < width ? q->n - column : width;
  for (int64_t i = 0; i < q->m; i++)
    for (int64_t j = 0; j < n; j++) sums[i][j] = 0;
  const char *b = operand_at(q, q->p->b, q->b_batch, q->batch_index, column * q->b_n);
  if (q->b_k == 1) {
    dot_columns(q, b, n, sums);
  } else {
    add_rows(q, b, n, sums);
  }
  for (int64_t i = 0; i < q->m; i++) store_columns(q, q->batch_index, i, column, n, sums[i]);
}

static bool multiply_few(const kernel_context *ctx, product *q) {
  q->a_rows = ctx->scratch(ctx->pool, (size_t)(q->m * q->k) * sizeof(float));
  if (!q->a_rows) return false;
  int64_t width = strip_width(q), strips = (q->n + width - 1) / width;
  for (q->batch_index = 0; q->batch_index < q->batch; q->batch_index++) {
    for (int64_t i = 0; i < q->m; i++)
      load_row(COMPUTE_F32, q->p->a->type,
               operand_at(q, q->p->a, q->a_batch, q->batch_index, i * q->a_m), q->a_k, q->k,
               q->a_rows + i * q->k);
    if (!run_slots(ctx, strips, q->n * q->k / READS_PER_THREAD,
                   (size_t)q->m * STRIP * sizeof(float), multiply_strip, q))
      return false;
  }
  return true;
}

/* ---------------------------------------------------------------- operands */

/* Takes dimensions over which b does not change into m, where a and the bias go on in equal steps.
 */
static void fold_batch(product *q) {
  while (q->rank > 0) {
    int d = q->rank - 1;
    if (q->m == 1) {
      q->a_m = q->a_batch[d];
      q->bias_m = q->bias_batch[d];
    }
    if (q->b_batch[d] != 0 || q->a_batch[d] != q->m * q->a_m ||
        q->bias_batch[d] != q->m * q->bias_m)
      return;
    q->m *= q->dims[d];
    q->rank--;
  }
}

static product make_product(const matmul *p) {
  product q = {.p = p, .c = compute_class_of(p->out->type)};
  const ktensor *a = p->a, *b = p->b, *out = p->out;
  int r = out->rank;
  q.m = out->dims[r - 2];
  q.n = out->dims[r - 1];
  q.k = a->dims[r - 1];
  q.a_m = a->strides[r - 2];
  q.a_k = a->strides[r - 1];
  q.b_k = b->strides[r - 2];
  q.b_n = b->strides[r - 1];
  q.bias_m = p->bias ? p->bias->strides[r - 2] : 0;
  q.bias_n = p->bias ? p->bias->strides[r - 1] : 0;
  for (int d = 0; d < r - 2; d++) {
    q.dims[d] = out->dims[d];
    q.a_batch[d] = a->dims[d] == 1 ? 0 : a->strides[d];
    q.b_batch[d] = b->dims[d] == 1 ? 0 : b->strides[d];
    q.bias_batch[d] = p->bias && p->bias->dims[d] != 1 ? p->bias->strides[d] : 0;
  }
  q.rank = merge_dims(r - 2, q.dims, 3, (int64_t *const[]){q.a_batch, q.b_batch, q.bias_batch});
  fold_batch(&q);
  q.batch = product_of(q.dims, q.rank);
  return q;
}

bool kernel_matmul(const kernel_context *ctx, const matmul *p) {
  product q = make_product(p);
  if (q.batch * q.m * q.n == 0) return true;
  int64_t few = q.b_k == 1 ? FEW_DOTS : q.b_n == 1 ? FEW_ROWS : 0;
  bool in_place = q.c == COMPUTE_F32 && q.m <= few && q.batch <= 64;
  if (in_place) return multiply_few(ctx, &q);
  kgemm g = {.c = q.c,
             .batch = q.batch,
             .m = q.m,
             .n = q.n,
             .k = q.k,
             .pack_a = pack_a,
             .pack_b = pack_b,
             .store = store_columns,
             .user = &q};
  return gemm_run(ctx, &g);
}
