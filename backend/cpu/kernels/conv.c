/* Conv: per group a matrix product weight (outputs, patch) x patches (patch, batch * out), the
 * patches packed straight from the image; with one input channel per group (depthwise) a direct sum
 * over the kernel. */
#include "backend/cpu/kernels/conv.h"

#include <string.h>

#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/slots.h"
#include "backend/cpu/kernels/vector.h"

enum { MULTIPLIES_PER_THREAD = 128 * 1024 };

static int64_t plane_in(const conv *p) { return p->in[0] * p->in[1]; }
static int64_t plane_out(const conv *p) { return p->out[0] * p->out[1]; }
static int64_t kernel_size(const conv *p) { return p->kernel[0] * p->kernel[1]; }

/* The output columns [*first, *stop) within [from, to) whose input column ow * stride + shift lies
 * in the image. */
static void valid_columns(const conv *p, int64_t shift, int64_t from, int64_t to, int64_t *first,
                          int64_t *stop) {
  int64_t stride = p->stride[1], last = p->in[1] - 1 - shift;
  int64_t low = shift < 0 ? (-shift + stride - 1) / stride : 0,
          high = last < 0 ? 0 : last / stride + 1;
  *first = low < from ? from : low > to ? to : low;
  *stop = high > to ? to : high < *first ? *first : high;
}

/* ---------------------------------------------------------------- as a matrix product */

static void pack_weight(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                        int64_t kn, int64_t width, void *to) {
  const conv *p = user;
  int64_t patch = p->channels / p->groups * kernel_size(p),
          row = group * (p->outputs / p->groups) + lane;
  gemm_pack_strided(compute_class_of(p->out_type), p->weight_type,
                    element_at(p->weight, p->weight_type, row * patch + k), patch, 1, lanes, kn,
                    width, to);
}

/* One row of the patch matrix: element k of the patches of outputs [at, at + n) of all images'
 * planes. */
static void gather_patches(const conv *p, compute_class c, int64_t group, int64_t k, int64_t at,
                           int64_t n, char *to) {
  int64_t size = (int64_t)compute_size(c),
          channel = k / kernel_size(p) + group * (p->channels / p->groups);
  int64_t kh = k / p->kernel[1] % p->kernel[0], kw = k % p->kernel[1];
  int64_t shift = kw * p->dilation[1] - p->padding[1];
  while (n > 0) {
    int64_t image = at / plane_out(p), oh = at / p->out[1] % p->out[0], ow = at % p->out[1];
    int64_t m = p->out[1] - ow < n ? p->out[1] - ow : n,
            ih = oh * p->stride[0] + kh * p->dilation[0] - p->padding[0];
    int64_t first = ow + m, stop = ow + m;
    if (ih >= 0 && ih < p->in[0]) valid_columns(p, shift, ow, ow + m, &first, &stop);
    memset(to, 0, (size_t)((first - ow) * size));
    int64_t from =
        ((image * p->channels + channel) * p->in[0] + ih) * p->in[1] + first * p->stride[1] + shift;
    if (stop > first)
      load_row(c, p->type, element_at(p->x, p->type, from), p->stride[1], stop - first,
               to + (first - ow) * size);
    memset(to + (stop - ow) * size, 0, (size_t)((ow + m - stop) * size));
    to += m * size;
    at += m;
    n -= m;
  }
}

static void pack_patches(const void *user, int64_t group, int64_t lane, int64_t lanes, int64_t k,
                         int64_t kn, int64_t width, void *to) {
  const conv *p = user;
  compute_class c = compute_class_of(p->out_type);
  for (int64_t i = 0; i < kn; i++)
    gather_patches(p, c, group, k + i, lane, lanes,
                   (char *)to + i * width * (int64_t)compute_size(c));
}

static void add_bias(const conv *p, int64_t output, int64_t n, void *values) {
  row_block bias;
  if (!p->bias) return;
  compute_class c = compute_class_of(p->out_type);
  load_row(c, p->bias_type, element_at(p->bias, p->bias_type, output), 1, 1, &bias);
  float *f = values;
  double *d = values;
  uint64_t *k = values;
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) f[i] += bias.f32[0];
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) d[i] += bias.f64[0];
  if (c == COMPUTE_I64)
    for (int64_t i = 0; i < n; i++) k[i] += (uint64_t)bias.i64[0];
}

static void store_outputs(const void *user, int64_t group, int64_t row, int64_t column, int64_t n,
                          void *values) {
  const conv *p = user;
  compute_class c = compute_class_of(p->out_type);
  int64_t output = group * (p->outputs / p->groups) + row;
  add_bias(p, output, n, values);
  const char *from = values;
  while (n > 0) {
    int64_t image = column / plane_out(p), at = column % plane_out(p);
    int64_t m = plane_out(p) - at < n ? plane_out(p) - at : n;
    int64_t to = (image * p->outputs + output) * plane_out(p) + at;
    store_row(c, p->out_type, element_at(p->y, p->out_type, to), 1, m, from);
    from += m * (int64_t)compute_size(c);
    column += m;
    n -= m;
  }
}

/* ---------------------------------------------------------------- depthwise */

static size_t scratch_size(const conv *p) {
  size_t size = compute_size(compute_class_of(p->out_type));
  return (size_t)(plane_in(p) + kernel_size(p)) * size;
}

/* values[i] += weight * x[i * stride], all in class c. */
static void add_scaled(compute_class c, int64_t n, const void *weight, const void *from,
                       int64_t stride, void *values) {
  float *f = values;
  double *d = values;
  uint64_t *k = values;
  const float *xf = from, *wf = weight;
  const double *xd = from, *wd = weight;
  const uint64_t *xk = from, *wk = weight;
  if (c == COMPUTE_F32 && stride == 1) {
    axpy_f32(n, *wf, xf, f);
  } else if (c == COMPUTE_F32) {
    for (int64_t i = 0; i < n; i++) f[i] += *wf * xf[i * stride];
  } else if (c == COMPUTE_F64) {
    for (int64_t i = 0; i < n; i++) d[i] += *wd * xd[i * stride];
  } else {
    for (int64_t i = 0; i < n; i++) k[i] += *wk * xk[i * stride];
  }
}

/* Columns [at, at + n) of output row oh. plane: (in), weight: (kernel), in the compute class. */
static void sum_row(const conv *p, const char *plane, const char *weight, int64_t oh, int64_t at,
                    int64_t n, char *values) {
  compute_class c = compute_class_of(p->out_type);
  int64_t size = (int64_t)compute_size(c);
  memset(values, 0, (size_t)(n * size));
  for (int64_t k = 0; k < kernel_size(p); k++) {
    int64_t ih = oh * p->stride[0] + k / p->kernel[1] * p->dilation[0] - p->padding[0], first, stop;
    if (ih < 0 || ih >= p->in[0]) continue;
    int64_t shift = k % p->kernel[1] * p->dilation[1] - p->padding[1];
    valid_columns(p, shift, at, at + n, &first, &stop);
    if (stop > first)
      add_scaled(c, stop - first, weight + k * size,
                 plane + (ih * p->in[1] + first * p->stride[1] + shift) * size, p->stride[1],
                 values + (first - at) * size);
  }
}

/* One output plane. */
static void run_plane(const void *user, int64_t task, char *scratch) {
  const conv *p = user;
  compute_class c = compute_class_of(p->out_type);
  int64_t image = task / p->outputs, output = task % p->outputs, size = (int64_t)compute_size(c);
  int64_t channel = output / (p->outputs / p->groups);
  char *weight = scratch, *plane = scratch + kernel_size(p) * size;
  load_row(c, p->weight_type, element_at(p->weight, p->weight_type, output * kernel_size(p)), 1,
           kernel_size(p), weight);
  const void *from = element_at(p->x, p->type, (image * p->channels + channel) * plane_in(p));
  bool in_place = p->type == DTYPE_F32 && c == COMPUTE_F32;
  if (!in_place) load_row(c, p->type, from, 1, plane_in(p), plane);
  row_block values;
  for (int64_t oh = 0; oh < p->out[0]; oh++)
    for (int64_t at = 0; at < p->out[1]; at += ROW_BLOCK) {
      int64_t n = p->out[1] - at < ROW_BLOCK ? p->out[1] - at : ROW_BLOCK;
      sum_row(p, in_place ? from : plane, weight, oh, at, n, (char *)&values);
      add_bias(p, output, n, &values);
      int64_t to = (task * p->out[0] + oh) * p->out[1] + at;
      store_row(c, p->out_type, element_at(p->y, p->out_type, to), 1, n, &values);
    }
}

bool kernel_conv(const kernel_context *ctx, const conv *p) {
  int64_t columns = p->batch * plane_out(p), patch = p->channels / p->groups * kernel_size(p);
  if (columns * p->outputs == 0) return true;
  if (p->groups > 1 && p->channels == p->groups)
    return run_slots(ctx, p->batch * p->outputs,
                     columns * p->outputs * patch / MULTIPLIES_PER_THREAD, scratch_size(p),
                     run_plane, p);
  gemm g = {.c = compute_class_of(p->out_type),
            .batch = p->groups,
            .m = p->outputs / p->groups,
            .n = columns,
            .k = patch,
            .pack_a = pack_weight,
            .pack_b = pack_patches,
            .store = store_outputs,
            .user = p};
  return gemm_run(ctx, &g);
}
