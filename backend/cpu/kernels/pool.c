/* Pool: per plane, in double or int64_t, each output cell over its window. */
#include "backend/cpu/kernels/pool.h"

#include <math.h>

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/slots.h"

enum { READS_PER_THREAD = 32 * 1024 };

/* The positions first, first + step, ... below stop of a window in one dimension; padded: the
 * length of a window without dilation when padding counts. */
typedef struct window {
  int64_t first, stop, step, padded;
} window;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static window window_of(const pool *p, int d, int64_t o) {
  int64_t in = p->in[d], out = p->out[d];
  if (p->adaptive) {
    window w = {.first = o * in / out, .stop = ceil_div((o + 1) * in, out), .step = 1};
    w.padded = w.stop - w.first;
    return w;
  }
  int64_t step = p->dilation[d], first = o * p->stride[d] - p->padding[d],
          stop = first + (p->kernel[d] - 1) * step + 1;
  int64_t limit = in + p->padding[d];
  window w = {.first = first,
              .stop = stop < in ? stop : in,
              .step = step,
              .padded = (stop < limit ? stop : limit) - first};
  if (w.first < 0) w.first += ceil_div(-w.first, step) * step;
  return w;
}

static int64_t window_count(const window *w) {
  return w->stop > w->first ? (w->stop - w->first - 1) / w->step + 1 : 0;
}

/* Position in the plane of the window's maximum, the last NaN if there is one; -1 for an empty
 * window. */
static int64_t find_max_f64(const double *x, int64_t width, const window *h, const window *w) {
  int64_t at = -1;
  double best = -INFINITY;
  for (int64_t i = h->first; i < h->stop; i += h->step)
    for (int64_t j = w->first; j < w->stop; j += w->step) {
      double v = x[i * width + j];
      if (at >= 0 && !(v > best || isnan(v))) continue;
      best = v;
      at = i * width + j;
    }
  return at;
}

static int64_t find_max_i64(const int64_t *x, int64_t width, const window *h, const window *w) {
  int64_t at = -1;
  for (int64_t i = h->first; i < h->stop; i += h->step)
    for (int64_t j = w->first; j < w->stop; j += w->step)
      if (at < 0 || x[i * width + j] > x[at]) at = i * width + j;
  return at;
}

static double sum_f64(const double *x, int64_t width, const window *h, const window *w) {
  double sum = 0;
  for (int64_t i = h->first; i < h->stop; i++)
    for (int64_t j = w->first; j < w->stop; j++) sum += x[i * width + j];
  return sum;
}

static int64_t sum_i64(const int64_t *x, int64_t width, const window *h, const window *w) {
  uint64_t sum = 0;
  for (int64_t i = h->first; i < h->stop; i++)
    for (int64_t j = w->first; j < w->stop; j++) sum += (uint64_t)x[i * width + j];
  return (int64_t)sum;
}

static int64_t divisor_of(const pool *p, const window *h, const window *w) {
  if (p->divisor != 0) return p->divisor;
  if (p->count_include_pad && !p->adaptive) return h->padded * w->padded;
  return window_count(h) * window_count(w);
}

static void average_cell(const pool *p, compute_class c, const void *plane, const window *h,
                         const window *w, int64_t to) {
  int64_t divisor = divisor_of(p, h, w);
  bool empty = window_count(h) == 0 || window_count(w) == 0;
  void *y = element_at(p->y, p->type, to);
  if (c == COMPUTE_I64) {
    int64_t v = empty || divisor == 0 ? 0 : sum_i64(plane, p->in[1], h, w) / divisor;
    store_row(c, p->type, y, 1, 1, &v);
  } else {
    double v = empty ? 0 : sum_f64(plane, p->in[1], h, w) / (double)divisor;
    store_row(c, p->type, y, 1, 1, &v);
  }
}

static void max_cell(const pool *p, compute_class c, const void *plane, const window *h,
                     const window *w, int64_t to) {
  int64_t at =
      c == COMPUTE_I64 ? find_max_i64(plane, p->in[1], h, w) : find_max_f64(plane, p->in[1], h, w);
  double v = at < 0 ? -INFINITY : c == COMPUTE_I64 ? 0 : ((const double *)plane)[at];
  int64_t k = at < 0 ? INT64_MIN : c == COMPUTE_I64 ? ((const int64_t *)plane)[at] : 0;
  store_row(c, p->type, element_at(p->y, p->type, to), 1, 1,
            c == COMPUTE_I64 ? (void *)&k : (void *)&v);
  if (p->indices) p->indices[to] = at < 0 ? 0 : at;
}

static void pool_plane(const void *user, int64_t task, char *scratch) {
  const pool *p = user;
  compute_class c = compute_class_of(p->type) == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_F64;
  int64_t size = p->in[0] * p->in[1];
  load_row(c, p->type, element_at(p->x, p->type, task * size), 1, size, scratch);
  for (int64_t i = 0; i < p->out[0]; i++) {
    window h = window_of(p, 0, i);
    for (int64_t j = 0; j < p->out[1]; j++) {
      window w = window_of(p, 1, j);
      int64_t to = (task * p->out[0] + i) * p->out[1] + j;
      if (p->average) {
        average_cell(p, c, scratch, &h, &w, to);
      } else {
        max_cell(p, c, scratch, &h, &w, to);
      }
    }
  }
}

bool kernel_pool(const kernel_context *ctx, const pool *p) {
  int64_t in = p->in[0] * p->in[1], out = p->out[0] * p->out[1];
  if (p->planes * out == 0) return true;
  int64_t reads = p->adaptive ? in : out * p->kernel[0] * p->kernel[1];
  return run_slots(ctx, p->planes, p->planes * (reads + in) / READS_PER_THREAD,
                   (size_t)in * sizeof(double), pool_plane, p);
}
