/* Matmul: the packed multiplication of gemm.c over strided operands, and for a few rows of floats
 * loops that read b once, where it lies. */
#include "backend/cpu/kernels/matmul.h"

#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/vector.h"
#include "backend/cpu/kernels/walk.h"

enum {
  FEW_ROWS = 6,      /* up to here b is read in place */
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

/* alpha * value + beta * bias, in the compute type, then stored. */
static void store_columns(const void *user, int64_t batch, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const product *q = user;
  const ktensor *out = q->p->out, *bias = q->p->bias;
  char *value = values;
  int64_t size = (int64_t)compute_size(q->c);
  for (int64_t at = 0; at < n; at += ROW_BLOCK) {
    int64_t m = n - at < ROW_BLOCK ? n - at : ROW_BLOCK;
    row_block v = {0};
    if (bias && q->p->beta != 0)
      load_row(
          q->c, bias->type,
          operand_at(q, bias, q->bias_batch, batch, row * q->bias_m + (column + at) * q->bias_n),
          q->bias_n, m, &v);
    float *f = (float *)(void *)value + at, alpha = (float)q->p->alpha, beta = (float)q->p->beta;
    double *d = (double *)(void *)value + at;
    int64_t *k = (int64_t *)(void *)value + at, alpha_int = float_to_i64(q->p->alpha),
            beta_int = float_to_i64(q->p->beta);
    if (q->c == COMPUTE_F32)
      for (int64_t i = 0; i < m; i++) f[i] = alpha * f[i] + beta * v.f32[i];
    if (q->c == COMPUTE_F64)
      for (int64_t i = 0; i < m; i++) d[i] = q->p->alpha * d[i] + q->p->beta * v.f64[i];
    if (q->c == COMPUTE_I64)
      for (int64_t i = 0; i < m; i++)
        k[i] = (int64_t)((uint64_t)alpha_int * (uint64_t)k[i] +
                         (uint64_t)beta_int * (uint64_t)v.i64[i]);
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

/* n contiguous elements of b as floats, in place if they are. */
static const float *floats_at(const ktensor *b, const void *from, int64_t n, float *block) {
  if (b->type == DTYPE_F32) return from;
  load_row(COMPUTE_F32, b->type, from, 1, n, block);
  return block;
}

/* Columns of b that are contiguous along k: a dot product each. */
static void dot_columns(const product *q, const char *b, int64_t n, float (*sums)[STRIP]) {
  float block[ROW_BLOCK];
  for (int64_t j = 0; j < n; j++) {
    const char *column = element_at(b, q->p->b->type, j * q->b_n);
    int64_t step = q->p->b->type == DTYPE_F32 ? q->k : ROW_BLOCK;
    for (int64_t k = 0; k < q->k; k += step) {
      int64_t kn = q->k - k < step ? q->k - k : step;
      const float *x = floats_at(q->p->b, element_at(column, q->p->b->type, k), kn, block);
      for (int64_t i = 0; i < q->m; i++) sums[i][j] += dot_f32(kn, q->a_rows + i * q->k + k, x);
    }
  }
}

/* Rows of b that are contiguous along n: each is added with a's factor. */
static void add_rows(const product *q, const char *b, int64_t n, float (*sums)[STRIP]) {
  float block[ROW_BLOCK];
  for (int64_t k = 0; k < q->k; k++) {
    const float *x = floats_at(q->p->b, element_at(b, q->p->b->type, k * q->b_k), n, block);
    for (int64_t i = 0; i < q->m; i++) axpy_f32(n, q->a_rows[i * q->k + k], x, sums[i]);
  }
}

static void multiply_strip(const void *user, int64_t task, char *scratch) {
  const product *q = user;
  float(*sums)[STRIP] = (float(*)[STRIP])(void *)scratch; /* (m, STRIP) */
  int64_t width = q->b_k == 1 ? STRIP / 8 : STRIP;        /* a column along k is long enough */
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
  int64_t width = q->b_k == 1 ? STRIP / 8 : STRIP, strips = (q->n + width - 1) / width;
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
  bool in_place =
      q.c == COMPUTE_F32 && q.m <= FEW_ROWS && (q.b_k == 1 || q.b_n == 1) && q.batch <= 64;
  if (in_place) return multiply_few(ctx, &q);
  gemm g = {.c = q.c,
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
