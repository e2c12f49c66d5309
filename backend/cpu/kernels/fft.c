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

enum { ROW_WORK = 4 * 1024 /* points worth a thread */ };

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

static point plus(point left, point right) {
  return (point){left.re + right.re, left.im + right.im};
}
static point minus(point left, point right) {
  return (point){left.re - right.re, left.im - right.im};
}
static point times(point left, point right) {
  return (point){left.re * right.re - left.im * right.im, left.re * right.im + left.im * right.re};
}
static point times_real(point factor, double s) { return (point){factor.re * s, factor.im * s}; }
static point times_i(point factor) { return (point){-factor.im, factor.re}; }
static point conjugate(point factor) { return (point){factor.re, -factor.im}; }

/* Returns exp(-2 pi i k / n), 0 <= k < n < 2^60, by an angle of at most pi / 4. */
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

static void butterfly_four(bool inverse, point *factor) {
  point sum = plus(factor[0], factor[2]), c = minus(factor[0], factor[2]),
        d = plus(factor[1], factor[3]);
  point point = times_i(inverse ? minus(factor[1], factor[3]) : minus(factor[3], factor[1]));
  factor[0] = plus(sum, d);
  factor[1] = plus(c, point);
  factor[2] = minus(sum, d);
  factor[3] = minus(c, point);
}

/* weight: (r) the roots of the radix. The roots of k and r - k are conjugates. */
static void butterfly_odd(int r, const point *weight, point *left) {
  point sum[KFFT_MAX_RADIX / 2 + 1], rest[KFFT_MAX_RADIX / 2 + 1], first = left[0];
  for (int k = 1; k <= r / 2; k++) {
    sum[k] = plus(left[k], left[r - k]);
    rest[k] = minus(left[k], left[r - k]);
    left[0] = plus(left[0], sum[k]);
  }
  for (int j = 1; j <= r / 2; j++) {
    point even = first, odd = {0, 0};
    for (int k = 1; k <= r / 2; k++) {
      even = plus(even, times_real(sum[k], weight[j * k % r].re));
      odd = plus(odd, times_real(rest[k], weight[j * k % r].im));
    }
    left[j] = plus(even, times_i(odd));
    left[r - j] = minus(even, times_i(odd));
  }
}

static void butterfly(const fft_task *task, int r, const point *weight, point *left) {
  if (r == 4) {
    butterfly_four(task->inverse, left);
  } else if (r == 2) {
    point point = left[1];
    left[1] = minus(left[0], point);
    left[0] = plus(left[0], point);
  } else {
    butterfly_odd(r, weight, left);
  }
}

static void run_pass(const fft_task *task, int r, int64_t m, int64_t stride, const point *from,
                     point *to) {
  point point[KFFT_MAX_RADIX], factor[KFFT_MAX_RADIX];
  for (int j = 0; j < r; j++) factor[j] = task->roots[j * (task->args->length / r)];
  for (int64_t p = 0; p < m; p++) {
    for (int64_t q = 0; q < stride; q++) {
      for (int k = 0; k < r; k++) point[k] = from[q + stride * (p + m * k)];
      butterfly(task, r, factor, point);
      for (int j = 0; j < r; j++)
        to[q + stride * (r * p + j)] =
            p * j > 0 ? times(point[j], task->roots[p * j * stride]) : point[j];
    }
  }
}

/* Transforms `left`, with `right` as second buffer. Returns the one that has the result. */
static point *transform(const fft_task *task, point *left, point *right) {
  int64_t m = task->args->length, stride = 1;
  for (int i = 0; i < task->args->n_passes; i++) {
    int r = task->args->radices[i];
    m /= r;
    run_pass(task, r, m, stride, left, right);
    stride *= r;
    point *swap = left;
    left = right;
    right = swap;
  }
  return left;
}

/* ---------------------------------------------------------------- rows */

static double read_real(const ktensor *x, int64_t at) {
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
static point read_point(const fft_args *args, int64_t row, int64_t j) {
  int64_t step = args->x.strides[args->x.rank - 1];
  if (args->kind == KFFT_FROM_REAL) return (point){read_real(&args->x, row + j * step), 0};
  bool mirrored = j >= args->n_in;
  int64_t at = row + (mirrored ? args->n - j : j) * step;
  point point = {read_real(&args->x, at), read_real(&args->x, at + args->x_pair)};
  if (args->kind == KFFT_TO_REAL && is_real_point(args, j)) point.im = 0;
  return mirrored ? conjugate(point) : point;
}

static void write_point(const fft_args *args, int64_t row, int64_t k, point point) {
  int64_t at = row + k * args->out.strides[args->out.rank - 1];
  write_real(&args->out, at, point.re * args->scale);
  if (args->kind == KFFT_TO_REAL) return;
  bool real = args->kind == KFFT_FROM_REAL && is_real_point(args, k);
  write_real(&args->out, at + args->out_pair, real ? 0 : point.im * args->scale);
}

/* Convolves `left`, a row times the chirp, with the conjugated chirp. Returns the result's
 * conjugate. */
static point *convolve(const fft_task *task, point *left, point *right) {
  point *found = transform(task, left, right), *other = found == left ? right : left;
  for (int64_t i = 0; i < task->args->length; i++)
    found[i] = conjugate(times(found[i], task->spectrum[i]));
  return transform(task, found, other);
}

static void transform_row(const void *user, int64_t row, char *scratch) {
  const fft_task *task = user;
  const fft_args *args = task->args;
  walk w = {.rank = args->x.rank - 1, .dims = args->x.dims};
  walk_add(&w, args->x.strides);
  walk_add(&w, args->out.strides);
  walk_seek(&w, row);
  point *factor = (point *)(void *)scratch, *sum = factor + args->length;
  for (int64_t j = 0; j < args->n; j++) {
    point point = read_point(args, w.offset[0], j);
    factor[j] = args->chirp ? times(point, task->chirp[j]) : point;
  }
  for (int64_t j = args->n; j < args->length; j++) factor[j] = (point){0, 0};
  const point *made = args->chirp ? convolve(task, factor, sum) : transform(task, factor, sum);
  for (int64_t k = 0; k < args->n_out; k++)
    write_point(args, w.offset[1], k,
                args->chirp ? times(conjugate(made[k]), task->chirp[k]) : made[k]);
}

/* ---------------------------------------------------------------- tables */

static void fill_roots(fft_task *task) {
  for (int64_t k = 0; k < task->args->length; k++) {
    point point = root_of_unity(k, task->args->length);
    task->roots[k] = task->inverse ? conjugate(point) : point;
  }
}

/* factor: (length), scratch. */
static void fill_chirp(fft_task *task, point *factor) {
  const fft_args *args = task->args;
  point *sum = task->spectrum;
  int64_t square = 0; /* j^2 mod 2 n */
  for (int64_t j = 0; j < args->length; j++) sum[j] = (point){0, 0};
  for (int64_t j = 0; j < args->n; j++) {
    point point = root_of_unity(square, 2 * args->n);
    task->chirp[j] = args->inverse ? conjugate(point) : point;
    sum[j] = times_real(conjugate(task->chirp[j]), 1 / (double)args->length);
    if (j > 0) sum[args->length - j] = sum[j];
    square = (square + 2 * j + 1) % (2 * args->n);
  }
  task->spectrum = transform(task, sum, factor);
}

/* Bytes of the roots and, with a chirp, of the chirp and two tables of `length`. */
static size_t table_bytes(const fft_args *args) {
  int64_t points = args->length + (args->chirp ? args->n + 2 * args->length : 0);
  return (size_t)points * sizeof(point);
}
static size_t row_bytes(const fft_args *args) { return 2 * (size_t)args->length * sizeof(point); }
static int64_t work_of(const fft_args *args) { return args->n_rows * args->length / ROW_WORK; }

static size_t fft_scratch(const kernel_context *ctx, const void *args) {
  const fft_args *own = args;
  return kernel_scratch_size(table_bytes(own)) +
         slots_bytes(ctx, own->n_rows, work_of(own), row_bytes(own));
}

static bool fft(const kernel_context *ctx, const void *args) {
  const fft_args *own = args;
  fft_task task = {.args = own, .inverse = own->inverse && !own->chirp};
  task.roots = ctx->scratch(ctx->pool, table_bytes(own));
  if (!task.roots) return false;
  task.chirp = task.roots + own->length;
  task.spectrum = task.chirp + own->n;
  fill_roots(&task);
  if (own->chirp) fill_chirp(&task, task.spectrum + own->length);
  return run_slots(ctx, own->n_rows, work_of(own), row_bytes(own), transform_row, &task);
}

const kernel_desc kernel_fft = {.name = "fft",
                                .run = fft,
                                .scratch = fft_scratch,
                                .args_size = sizeof(fft_args),
                                .operands = {OPERAND(fft_args, x), OPERAND(fft_args, out)}};
