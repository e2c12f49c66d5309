/* The linalg kernels: each matrix of a batch is a task, loaded as doubles into scratch memory,
 * factored there (matrix.h) and stored, rounded once. */
#include "backend/cpu/kernels/linalg/linalg.h"

#include "backend/cpu/kernels/linalg/matrix.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "base/counts.h"

enum { WORK_PER_THREAD = 1 << 14 /* multiplications */ };

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Loads matrix i, of n elements. */
static void kernel_linalg_load(const ktensor *t, int64_t i, int64_t n, double *to) {
  if (n > 0) load_row(COMPUTE_F64, t->type, element_at(t->data, t->type, i * n), 1, n, to);
}

static void kernel_linalg_store(const ktensor *t, int64_t i, int64_t n, const double *from) {
  if (t->data) store_row(COMPUTE_F64, t->type, element_at(t->data, t->type, i * n), 1, n, from);
}

/* Stores the columns of x (rows, n) as rows of matrix i. */
static void store_transposed(const ktensor *t, int64_t i, int64_t rows, int64_t n,
                             const double *x) {
  for (int64_t r = 0; t->data && r < rows; r++)
    store_row(COMPUTE_F64, t->type, element_at(t->data, t->type, i * rows * n + r), rows, n,
              x + r * n);
}

static void store_info(const ktensor *t, int64_t i, int32_t info) {
  if (t->data) ((int32_t *)t->data)[i] = info;
}

static void mirror(double *x, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++)
      if (upper)
        x[i * n + j] = x[j * n + i];
      else
        x[j * n + i] = x[i * n + j];
}

/* ---------------------------------------------------------------- one matrix */

static void run_lu(const linalg_args *args, int64_t i, double *x) {
  kernel_linalg_load(&args->x, i, args->m * args->n, x);
  int32_t *pivots = args->b.data ? (int32_t *)args->b.data + i * min_i64(args->m, args->n) : NULL;
  store_info(&args->info, i, matrix_lu(x, args->m, args->n, pivots));
  kernel_linalg_store(&args->out, i, args->m * args->n, x);
}

static void run_cholesky(const linalg_args *args, int64_t i, double *x) {
  int64_t n = args->n;
  kernel_linalg_load(&args->x, i, n * n, x);
  mirror(x, n, args->upper);
  store_info(&args->info, i, matrix_cholesky(x, n));
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = r + 1; c < n; c++) x[r * n + c] = 0;
  if (args->upper)
    store_transposed(&args->out, i, n, n, x);
  else
    kernel_linalg_store(&args->out, i, n * n, x);
}

/* Returns the number of rows of R, which is that of the columns of Q. */
static int64_t qr_size(const linalg_args *args) { return args->out.dims[args->out.rank - 2]; }

static void run_qr(const linalg_args *args, int64_t i, double *x) {
  int64_t m = args->m, n = args->n, k = min_i64(m, n), j = qr_size(args);
  double *tau = x + m * n, *work = tau + k, *q = work + most(n, j);
  kernel_linalg_load(&args->x, i, m * n, x);
  matrix_qr(x, m, n, tau, work);
  if (args->b.data) {
    matrix_q(x, m, n, tau, q, j, work);
    kernel_linalg_store(&args->b, i, m * j, q);
  }
  for (int64_t r = 0; r < m; r++)
    for (int64_t c = 0; c < min_i64(r, n); c++) x[r * n + c] = 0;
  kernel_linalg_store(&args->out, i, j * n, x);
}

static void run_eigh(const linalg_args *args, int64_t i, double *x) {
  int64_t n = args->n;
  double *values = x + n * n, *vectors = args->b.data ? values + n : NULL;
  kernel_linalg_load(&args->x, i, n * n, x);
  mirror(x, n, args->upper);
  matrix_eigh(x, n, values, vectors);
  kernel_linalg_store(&args->out, i, n, values);
  if (vectors) store_transposed(&args->b, i, n, n, vectors);
}

/* Returns the number of orthonormal rows in the outputs: k, or a complete basis. */
static int64_t svd_rows(const linalg_args *args) {
  const ktensor *t = args->m < args->n ? &args->c : &args->b;
  if (t->rank == 0) return min_i64(args->m, args->n); /* the output is absent */
  return t->dims[args->m < args->n ? t->rank - 2 : t->rank - 1];
}

static void run_svd(const linalg_args *args, int64_t i, double *x) {
  int64_t m = args->m, n = args->n, k = min_i64(m, n), l = most(m, n), rows = svd_rows(args);
  bool wide = m < n;
  double *values = x + rows * l, *left = values + k;
  if (wide)
    kernel_linalg_load(&args->x, i, m * n, x);
  else
    for (int64_t r = 0; r < n; r++)
      load_row(COMPUTE_F64, args->x.type, element_at(args->x.data, args->x.type, i * m * n + r), n,
               m, x + r * l);
  matrix_svd(x, k, l, rows, values, left);
  kernel_linalg_store(&args->out, i, k, values);
  store_transposed(&args->b, i, wide ? k : rows, wide ? k : l, wide ? left : x);
  kernel_linalg_store(&args->c, i, wide ? rows * l : k * k, wide ? x : left);
}

static void run_exp(const linalg_args *args, int64_t i, double *x) {
  int64_t size = args->n * args->n;
  kernel_linalg_load(&args->x, i, size, x);
  matrix_exp(x, args->n, x + size);
  kernel_linalg_store(&args->out, i, size, x);
}

/* Returns the number of doubles of scratch memory that a matrix needs. */
static size_t working_size(const linalg_args *args) {
  int64_t m = args->m, n = args->n, k = min_i64(m, n);
  switch (args->kind) {
    case KLINALG_QR:
      return (size_t)(m * n + k + most(n, qr_size(args)) + m * qr_size(args));
    case KLINALG_EIGH:
      return (size_t)(2 * n * n + n);
    case KLINALG_SVD:
      return (size_t)(svd_rows(args) * most(m, n) + k + k * k);
    case KLINALG_EXP:
      return (size_t)(n * n) + matrix_exp_work(n);
    default:
      return (size_t)(m * n);
  }
}

static void run_matrix(const void *user, int64_t i, char *scratch) {
  static void (*const runs[])(const linalg_args *, int64_t, double *) = {
      [KLINALG_LU] = run_lu,     [KLINALG_CHOLESKY] = run_cholesky, [KLINALG_QR] = run_qr,
      [KLINALG_EIGH] = run_eigh, [KLINALG_SVD] = run_svd,           [KLINALG_EXP] = run_exp};
  const linalg_args *args = user;
  runs[args->kind](args, i, (double *)(void *)scratch);
}

static int64_t kernel_linalg_work_of(const linalg_args *args) {
  int64_t each =
      args->m * args->n * min_i64(args->m, args->n) * (args->kind < KLINALG_EIGH ? 1 : 20);
  return args->batches * (each / 64 + 1) / (WORK_PER_THREAD / 64);
}

/* Adds one double, because scratch memory of zero bytes cannot be distinguished from none. */
static size_t kernel_linalg_task_bytes(size_t doubles) { return (doubles + 1) * sizeof(double); }

static size_t linalg_scratch(const kernel_context *ctx, const void *args) {
  const linalg_args *own = args;
  return slots_bytes(ctx, own->batches, kernel_linalg_work_of(own),
                     kernel_linalg_task_bytes(working_size(own)));
}

static bool linalg(const kernel_context *ctx, const void *args) {
  const linalg_args *own = args;
  return run_slots(ctx, own->batches, kernel_linalg_work_of(own),
                   kernel_linalg_task_bytes(working_size(own)), run_matrix, own);
}

const kernel_desc kernel_linalg = {
    .name = "linalg",
    .run = linalg,
    .scratch = linalg_scratch,
    .args_size = sizeof(linalg_args),
    .operands = {OPERAND(linalg_args, x), OPERAND(linalg_args, out), OPERAND(linalg_args, b),
                 OPERAND(linalg_args, c), OPERAND(linalg_args, info)}};

/* ---------------------------------------------------------------- triangular systems */

static void run_triangular(const void *user, int64_t i, char *scratch) {
  const triangular_solve_args *args = user;
  double *a = (double *)(void *)scratch, *x = a + args->m * args->m;
  kernel_linalg_load(&args->a, i, args->m * args->m, a);
  kernel_linalg_load(&args->b, i, args->m * args->n, x);
  matrix_solve_triangular(a, args->m, args->upper, args->unit, x, args->n);
  kernel_linalg_store(&args->out, i, args->m * args->n, x);
}

static int64_t triangular_work(const triangular_solve_args *args) {
  return args->batches * (args->m * args->m * args->n / 64 + 1) / (WORK_PER_THREAD / 64);
}

static size_t triangular_bytes(const triangular_solve_args *args) {
  return kernel_linalg_task_bytes((size_t)(args->m * args->m + args->m * args->n));
}

static size_t triangular_scratch(const kernel_context *ctx, const void *args) {
  const triangular_solve_args *own = args;
  return slots_bytes(ctx, own->batches, triangular_work(own), triangular_bytes(own));
}

static bool triangular_solve(const kernel_context *ctx, const void *args) {
  const triangular_solve_args *own = args;
  return run_slots(ctx, own->batches, triangular_work(own), triangular_bytes(own), run_triangular,
                   own);
}

const kernel_desc kernel_triangular_solve = {
    .name = "triangular_solve",
    .run = triangular_solve,
    .scratch = triangular_scratch,
    .args_size = sizeof(triangular_solve_args),
    .operands = {OPERAND(triangular_solve_args, a), OPERAND(triangular_solve_args, b),
                 OPERAND(triangular_solve_args, out)}};

/* ---------------------------------------------------------------- pivots */

static void exchange_all(const kernel_context *ctx, const pivot_order_args *args, int64_t i) {
  int64_t *order = (int64_t *)args->out.data + i * args->m;
  const int32_t *pivots = (const int32_t *)args->pivots.data + i * args->k;
  for (int64_t r = 0; r < args->m; r++) order[r] = r;
  for (int64_t r = 0; r < args->k; r++) {
    int64_t with = pivots[r] - 1;
    if (with < 0 || with >= args->m) {
      kernel_fault_set(ctx->fault, KERNEL_FAULT_INDEX, pivots[r], 1, args->m);
      continue;
    }
    int64_t t = order[r];
    order[r] = order[with];
    order[with] = t;
  }
}

static bool pivot_order(const kernel_context *ctx, const void *args) {
  const pivot_order_args *own = args;
  for (int64_t i = 0; i < own->batches && own->m > 0; i++) exchange_all(ctx, own, i);
  return true;
}

const kernel_desc kernel_pivot_order = {
    .name = "pivot_order",
    .run = pivot_order,
    .args_size = sizeof(pivot_order_args),
    .operands = {OPERAND(pivot_order_args, pivots), OPERAND(pivot_order_args, out)}};
