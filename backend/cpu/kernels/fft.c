/* Discrete Fourier transforms by Stockham's passes, which leave a row in order. In each pass,
 * `stride` transforms are interleaved, each of n = radix * m points:
 *
 *   to[q + stride * (radix * p + j)] =
 *       w_n^(p j) * sum over k of from[q + stride * (p + m k)] * w_radix^(j k)
 *
 * With a chirp c[j] = exp(-pi i j^2 / n), the identity j k = (j^2 + k^2 - (k - j)^2) / 2 turns the
 * transform of n points into c[k] * sum over j of (x[j] c[j]) * conj(c[k - j]). This is a
 * convolution, computed by transforms of `length`. */
#include "backend/cpu/kernels/fft.h"

#include <math.h>

#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/walk.h"

enum { ROW_WORK = 4 * 1024 /* points that justify waking a thread */ };

typedef struct point {
  double re, im;
} point;

typedef struct fft_task {
  const fft_args *args;
  point *roots;    /* (length): exp(-2 pi i t / length), conjugated if the passes are inverse */
  point *chirp;    /* (n) */
  point *spectrum; /* (length): transform of the chirp's conjugate, / length */
  bool inverse;    /* direction of the passes */
} fft_task;

static point plus(point a, point b) { return (point){a.re + b.re, a.im + b.im}; }
static point minus(point a, point b) { return (point){a.re - b.re, a.im - b.im}; }
static point kernel_fft_times(point a, point b) {
  return (point){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static point times_real(point a, double s) { return (point){a.re * s, a.im * s}; }
static point times_i(point a) { return (point){-a.im, a.re}; }
static point conjugate(point a) { return (point){a.re, -a.im}; }

/* Returns exp(-2 pi i k / n), 0 <= k < n < 2^60, computed from an angle of at most pi / 4. */
static point root_of_unity(int64_t k, int64_t n) {
  static const double quarter_pi = 0.78539816339744830962;
  int64_t octant = 8 * k / n, rest = 8 * k % n;
  double angle = quarter_pi * (double)(octant % 2 ? n - rest : rest) / (double)n;
  double c = cos(angle), s = octant % 2 ? -sin(angle) : sin(angle);
  switch ((octant + 1) / 2 % 4) {
    case 0:
      return (point){c, -s};
    case 1:
      return (point){-s, -c};
    case 2:
      return (point){-c, s};
    default:
      return (point){s, c};
  }
}

/* ---------------------------------------------------------------- passes */

static void butterfly_four(bool inverse, point *x) {
  point even_sum = plus(x[0], x[2]), even_rest = minus(x[0], x[2]), odd_sum = plus(x[1], x[3]);
  point odd_rest = times_i(inverse ? minus(x[1], x[3]) : minus(x[3], x[1]));
  x[0] = plus(even_sum, odd_sum);
  x[1] = plus(even_rest, odd_rest);
  x[2] = minus(even_sum, odd_sum);
  x[3] = minus(even_rest, odd_rest);
}

/* Transforms x (r) in place. roots: (r), the radix's roots; those of k and r - k are conjugates. */
static void butterfly_odd(int r, const point *roots, point *x) {
  point sum[KFFT_MAX_RADIX / 2 + 1], rest[KFFT_MAX_RADIX / 2 + 1], first = x[0];
  for (int k = 1; k <= r / 2; k++) {
    sum[k] = plus(x[k], x[r - k]);
    rest[k] = minus(x[k], x[r - k]);
    x[0] = plus(x[0], sum[k]);
  }
  for (int j = 1; j <= r / 2; j++) {
    point even = first, odd = {0, 0};
    for (int k = 1; k <= r / 2; k++) {
      even = plus(even, times_real(sum[k], roots[j * k % r].re));
      odd = plus(odd, times_real(rest[k], roots[j * k % r].im));
    }
    x[j] = plus(even, times_i(odd));
    x[r - j] = minus(even, times_i(odd));
  }
}

static void butterfly(const fft_task *task, int r, const point *roots, point *x) {
  if (r == 4) {
    butterfly_four(task->inverse, x);
  } else if (r == 2) {
    point odd = x[1];
    x[1] = minus(x[0], odd);
    x[0] = plus(x[0], odd);
  } else {
    butterfly_odd(r, roots, x);
  }
}

static void kernel_fft_run_pass(const fft_task *task, int r, int64_t m, int64_t stride,
                                const point *from, point *to) {
  point x[KFFT_MAX_RADIX], roots[KFFT_MAX_RADIX];
  for (int j = 0; j < r; j++) roots[j] = task->roots[j * (task->args->length / r)];
  for (int64_t p = 0; p < m; p++) {
    for (int64_t q = 0; q < stride; q++) {
      for (int k = 0; k < r; k++) x[k] = from[q + stride * (p + m * k)];
      butterfly(task, r, roots, x);
      for (int j = 0; j < r; j++)
        to[q + stride * (r * p + j)] =
            p * j > 0 ? kernel_fft_times(x[j], task->roots[p * j * stride]) : x[j];
    }
  }
}

/* Transforms `from`, with `to` as second buffer. Returns the one that has the result. */
static point *transform(const fft_task *task, point *from, point *to) {
  int64_t m = task->args->length, stride = 1;
  for (int i = 0; i < task->args->n_passes; i++) {
    int r = task->args->radices[i];
    m /= r;
    kernel_fft_run_pass(task, r, m, stride, from, to);
    stride *= r;
    point *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* ---------------------------------------------------------------- rows */

static double kernel_fft_read_real(const ktensor *x, int64_t at) {
  return x->type == DTYPE_F64 ? ((const double *)x->data)[at] : ((const float *)x->data)[at];
}

static void write_real(const ktensor *out, int64_t at, double v) {
  if (out->type == DTYPE_F64) {
    ((double *)out->data)[at] = v;
  } else {
    ((float *)out->data)[at] = (float)v;
  }
}

/* True if point k of a real signal's transform has no imaginary part. */
static bool is_real_point(const fft_args *args, int64_t k) { return k == 0 || 2 * k == args->n; }

/* Returns point j < n of the row at offset `row`. */
static point kernel_fft_read_point(const fft_args *args, int64_t row, int64_t j) {
  int64_t step = args->x.strides[args->x.rank - 1];
  if (args->kind == KFFT_FROM_REAL)
    return (point){kernel_fft_read_real(&args->x, row + j * step), 0};
  bool mirrored = j >= args->n_in;
  int64_t at = row + (mirrored ? args->n - j : j) * step;
  point value = {kernel_fft_read_real(&args->x, at),
                 kernel_fft_read_real(&args->x, at + args->x_pair)};
  if (args->kind == KFFT_TO_REAL && is_real_point(args, j)) value.im = 0;
  return mirrored ? conjugate(value) : value;
}

static void write_point(const fft_args *args, int64_t row, int64_t k, point value) {
  int64_t at = row + k * args->out.strides[args->out.rank - 1];
  write_real(&args->out, at, value.re * args->scale);
  if (args->kind == KFFT_TO_REAL) return;
  bool real = args->kind == KFFT_FROM_REAL && is_real_point(args, k);
  write_real(&args->out, at + args->out_pair, real ? 0 : value.im * args->scale);
}

/* Convolves `row`, a row times the chirp, with the conjugated chirp. Returns the result's
 * conjugate. */
static point *convolve(const fft_task *task, point *row, point *spare) {
  point *product = transform(task, row, spare), *other = product == row ? spare : row;
  for (int64_t i = 0; i < task->args->length; i++)
    product[i] = conjugate(kernel_fft_times(product[i], task->spectrum[i]));
  return transform(task, product, other);
}

static void transform_row(const void *user, int64_t row, char *scratch) {
  const fft_task *task = user;
  const fft_args *args = task->args;
  walk w = {.rank = args->x.rank - 1, .dims = args->x.dims};
  walk_add(&w, args->x.strides);
  walk_add(&w, args->out.strides);
  walk_seek(&w, row);
  point *points = (point *)(void *)scratch, *spare = points + args->length;
  for (int64_t j = 0; j < args->n; j++) {
    point value = kernel_fft_read_point(args, w.offset[0], j);
    points[j] = args->chirp ? kernel_fft_times(value, task->chirp[j]) : value;
  }
  for (int64_t j = args->n; j < args->length; j++) points[j] = (point){0, 0};
  const point *made = args->chirp ? convolve(task, points, spare) : transform(task, points, spare);
  for (int64_t k = 0; k < args->n_out; k++)
    write_point(args, w.offset[1], k,
                args->chirp ? kernel_fft_times(conjugate(made[k]), task->chirp[k]) : made[k]);
}

/* ---------------------------------------------------------------- tables */

static void fill_roots(fft_task *task) {
  for (int64_t k = 0; k < task->args->length; k++) {
    point root = root_of_unity(k, task->args->length);
    task->roots[k] = task->inverse ? conjugate(root) : root;
  }
}

/* spare: (length), scratch. */
static void fill_chirp(fft_task *task, point *spare) {
  const fft_args *args = task->args;
  point *kernel = task->spectrum;
  int64_t square = 0; /* j^2 mod 2 n */
  for (int64_t j = 0; j < args->length; j++) kernel[j] = (point){0, 0};
  for (int64_t j = 0; j < args->n; j++) {
    point root = root_of_unity(square, 2 * args->n);
    task->chirp[j] = args->inverse ? conjugate(root) : root;
    kernel[j] = times_real(conjugate(task->chirp[j]), 1 / (double)args->length);
    if (j > 0) kernel[args->length - j] = kernel[j];
    square = (square + 2 * j + 1) % (2 * args->n);
  }
  task->spectrum = transform(task, kernel, spare);
}

/* Returns the bytes of the roots and, with a chirp, of the chirp and two tables of `length`. */
static size_t kernel_fft_table_bytes(const fft_args *args) {
  int64_t points = args->length + (args->chirp ? args->n + 2 * args->length : 0);
  return (size_t)points * sizeof(point);
}
static size_t kernel_fft_row_bytes(const fft_args *args) {
  return 2 * (size_t)args->length * sizeof(point);
}
static int64_t kernel_fft_work_of(const fft_args *args) {
  return args->n_rows * args->length / ROW_WORK;
}

static size_t fft_scratch(const kernel_context *ctx, const void *args) {
  const fft_args *own = args;
  return kernel_scratch_size(kernel_fft_table_bytes(own)) +
         slots_bytes(ctx, own->n_rows, kernel_fft_work_of(own), kernel_fft_row_bytes(own));
}

static bool fft(const kernel_context *ctx, const void *args) {
  const fft_args *own = args;
  fft_task task = {.args = own, .inverse = own->inverse && !own->chirp};
  task.roots = ctx->scratch(ctx->pool, kernel_fft_table_bytes(own));
  if (!task.roots) return false;
  task.chirp = task.roots + own->length;
  task.spectrum = task.chirp + own->n;
  fill_roots(&task);
  if (own->chirp) fill_chirp(&task, task.spectrum + own->length);
  return run_slots(ctx, own->n_rows, kernel_fft_work_of(own), kernel_fft_row_bytes(own),
                   transform_row, &task);
}

const kernel_desc kernel_fft = {.name = "fft",
                                .run = fft,
                                .scratch = fft_scratch,
                                .args_size = sizeof(fft_args),
                                .operands = {OPERAND(fft_args, x), OPERAND(fft_args, out)}};
