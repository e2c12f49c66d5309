/* Discrete Fourier transforms: a row goes through Stockham's passes, which leave it in order. Pass
 * by pass `stride` transforms lie interleaved, each of n = radix * m points:
 *
 *   to[q + stride * (radix * p + j)] = w_n^(p j) * sum over k of from[q + stride * (p + m k)] *
 * w_radix^(j k)
 *
 * With a chirp c[j] = exp(-pi i j^2 / n), j k = (j^2 + k^2 - (k - j)^2) / 2 makes the transform of
 * n points c[k] * sum over j of (x[j] c[j]) * conj(c[k - j]): a convolution, by transforms of
 * `length`. */
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
  const fft_args *p;
  point *roots;    /* (length): exp(-2 pi i t / length); conjugated where the passes are inverse */
  point *chirp;    /* (n) */
  point *spectrum; /* (length): of the chirp's conjugate, / length */
  bool inverse;    /* of the passes */
} fft_task;

static point plus(point a, point b) { return (point){a.re + b.re, a.im + b.im}; }
static point minus(point a, point b) { return (point){a.re - b.re, a.im - b.im}; }
static point times(point a, point b) {
  return (point){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static point times_real(point a, double s) { return (point){a.re * s, a.im * s}; }
static point times_i(point a) { return (point){-a.im, a.re}; }
static point conjugate(point a) { return (point){a.re, -a.im}; }

/* exp(-2 pi i k / n), 0 <= k < n < 2^60: by a sine and cosine of at most pi / 4. */
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

static void butterfly_four(bool inverse, point *a) {
  point b = plus(a[0], a[2]), c = minus(a[0], a[2]), d = plus(a[1], a[3]);
  point e = times_i(inverse ? minus(a[1], a[3]) : minus(a[3], a[1]));
  a[0] = plus(b, d);
  a[1] = plus(c, e);
  a[2] = minus(b, d);
  a[3] = minus(c, e);
}

/* w: (r) the roots of the radix. Of k and r - k the roots are conjugates. */
static void butterfly_odd(int r, const point *w, point *a) {
  point sum[KFFT_MAX_RADIX / 2 + 1], rest[KFFT_MAX_RADIX / 2 + 1], first = a[0];
  for (int k = 1; k <= r / 2; k++) {
    sum[k] = plus(a[k], a[r - k]);
    rest[k] = minus(a[k], a[r - k]);
    a[0] = plus(a[0], sum[k]);
  }
  for (int j = 1; j <= r / 2; j++) {
    point even = first, odd = {0, 0};
    for (int k = 1; k <= r / 2; k++) {
      even = plus(even, times_real(sum[k], w[j * k % r].re));
      odd = plus(odd, times_real(rest[k], w[j * k % r].im));
    }
    a[j] = plus(even, times_i(odd));
    a[r - j] = minus(even, times_i(odd));
  }
}

static void butterfly(const fft_task *t, int r, const point *w, point *a) {
  if (r == 4) {
    butterfly_four(t->inverse, a);
  } else if (r == 2) {
    point b = a[1];
    a[1] = minus(a[0], b);
    a[0] = plus(a[0], b);
  } else {
    butterfly_odd(r, w, a);
  }
}

static void run_pass(const fft_task *t, int r, int64_t m, int64_t stride, const point *from,
                     point *to) {
  point a[KFFT_MAX_RADIX], w[KFFT_MAX_RADIX];
  for (int j = 0; j < r; j++) w[j] = t->roots[j * (t->p->length / r)];
  for (int64_t p = 0; p < m; p++) {
    for (int64_t q = 0; q < stride; q++) {
      for (int k = 0; k < r; k++) a[k] = from[q + stride * (p + m * k)];
      butterfly(t, r, w, a);
      for (int j = 0; j < r; j++)
        to[q + stride * (r * p + j)] = p * j > 0 ? times(a[j], t->roots[p * j * stride]) : a[j];
    }
  }
}

/* Transforms a, with b to write to; gives the one of both that has the result. */
static point *transform(const fft_task *t, point *a, point *b) {
  int64_t m = t->p->length, stride = 1;
  for (int i = 0; i < t->p->n_passes; i++) {
    int r = t->p->radices[i];
    m /= r;
    run_pass(t, r, m, stride, a, b);
    stride *= r;
    point *swap = a;
    a = b;
    b = swap;
  }
  return a;
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

/* Of a real signal's transform these have no imaginary part. */
static bool is_real_point(const fft_args *p, int64_t k) { return k == 0 || 2 * k == p->n; }

/* Point j < n of the row at `row`. */
static point read_point(const fft_args *p, int64_t row, int64_t j) {
  int64_t step = p->x.strides[p->x.rank - 1];
  if (p->kind == KFFT_FROM_REAL) return (point){read_real(&p->x, row + j * step), 0};
  bool mirrored = j >= p->n_in;
  int64_t at = row + (mirrored ? p->n - j : j) * step;
  point v = {read_real(&p->x, at), read_real(&p->x, at + p->x_pair)};
  if (p->kind == KFFT_TO_REAL && is_real_point(p, j)) v.im = 0;
  return mirrored ? conjugate(v) : v;
}

static void write_point(const fft_args *p, int64_t row, int64_t k, point v) {
  int64_t at = row + k * p->out.strides[p->out.rank - 1];
  write_real(&p->out, at, v.re * p->scale);
  if (p->kind == KFFT_TO_REAL) return;
  bool real = p->kind == KFFT_FROM_REAL && is_real_point(p, k);
  write_real(&p->out, at + p->out_pair, real ? 0 : v.im * p->scale);
}

/* a, a row times the chirp, becomes its convolution with the chirp's conjugate: conjugated. */
static point *convolve(const fft_task *t, point *a, point *b) {
  point *found = transform(t, a, b), *other = found == a ? b : a;
  for (int64_t i = 0; i < t->p->length; i++) found[i] = conjugate(times(found[i], t->spectrum[i]));
  return transform(t, found, other);
}

static void transform_row(const void *user, int64_t row, char *scratch) {
  const fft_task *t = user;
  const fft_args *p = t->p;
  walk w = {.rank = p->x.rank - 1, .dims = p->x.dims};
  walk_add(&w, p->x.strides);
  walk_add(&w, p->out.strides);
  walk_seek(&w, row);
  point *a = (point *)(void *)scratch, *b = a + p->length;
  for (int64_t j = 0; j < p->n; j++) {
    point v = read_point(p, w.offset[0], j);
    a[j] = p->chirp ? times(v, t->chirp[j]) : v;
  }
  for (int64_t j = p->n; j < p->length; j++) a[j] = (point){0, 0};
  const point *made = p->chirp ? convolve(t, a, b) : transform(t, a, b);
  for (int64_t k = 0; k < p->n_out; k++)
    write_point(p, w.offset[1], k, p->chirp ? times(conjugate(made[k]), t->chirp[k]) : made[k]);
}

/* ---------------------------------------------------------------- tables */

static void fill_roots(fft_task *t) {
  for (int64_t k = 0; k < t->p->length; k++) {
    point w = root_of_unity(k, t->p->length);
    t->roots[k] = t->inverse ? conjugate(w) : w;
  }
}

/* b: (length) to work in. */
static void fill_chirp(fft_task *t, point *b) {
  const fft_args *p = t->p;
  point *a = t->spectrum;
  int64_t square = 0; /* j^2 mod 2 n */
  for (int64_t j = 0; j < p->length; j++) a[j] = (point){0, 0};
  for (int64_t j = 0; j < p->n; j++) {
    point w = root_of_unity(square, 2 * p->n);
    t->chirp[j] = p->inverse ? conjugate(w) : w;
    a[j] = times_real(conjugate(t->chirp[j]), 1 / (double)p->length);
    if (j > 0) a[p->length - j] = a[j];
    square = (square + 2 * j + 1) % (2 * p->n);
  }
  t->spectrum = transform(t, a, b);
}

/* Roots, and for a chirp itself and two of the length. */
static size_t table_bytes(const fft_args *p) {
  int64_t points = p->length + (p->chirp ? p->n + 2 * p->length : 0);
  return (size_t)points * sizeof(point);
}
static size_t row_bytes(const fft_args *p) { return 2 * (size_t)p->length * sizeof(point); }
static int64_t work_of(const fft_args *p) { return p->n_rows * p->length / ROW_WORK; }

static size_t fft_scratch(const kernel_context *ctx, const void *args) {
  const fft_args *p = args;
  return kernel_scratch_size(table_bytes(p)) +
         slots_bytes(ctx, p->n_rows, work_of(p), row_bytes(p));
}

static bool fft(const kernel_context *ctx, const void *args) {
  const fft_args *p = args;
  fft_task t = {.p = p, .inverse = p->inverse && !p->chirp};
  t.roots = ctx->scratch(ctx->pool, table_bytes(p));
  if (!t.roots) return false;
  t.chirp = t.roots + p->length;
  t.spectrum = t.chirp + p->n;
  fill_roots(&t);
  if (p->chirp) fill_chirp(&t, t.spectrum + p->length);
  return run_slots(ctx, p->n_rows, work_of(p), row_bytes(p), transform_row, &t);
}

const kernel_desc kernel_fft = {.name = "fft",
                                .run = fft,
                                .scratch = fft_scratch,
                                .args_size = sizeof(fft_args),
                                .operands = {OPERAND(fft_args, x), OPERAND(fft_args, out)}};
