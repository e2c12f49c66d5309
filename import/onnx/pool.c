/* Pooling: MaxPool, AveragePool, LpPool, the global ones, and MaxUnpool. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"
#include "import/onnx/window.h"

/* ---------------------------------------------------------------- windows */

/* Runtimes disagree on auto_pad if two or more elements at the ends are in no window: some crop
 * both ends, some only the last one. */
static void pool_check_same(node *node, const value *input, const onnx_window *window) {
  const bool same = strncmp(node_text(node, "auto_pad", "NOTSET"), "SAME", 4) == 0;
  for (int d = 0; d < window->window.n && same; d++) {
    const int64_t extent = (window->window.kernel[d] - 1) * window->window.dilation[d] + 1,
                  stride = window->window.stride[d];
    const number size = input->dims[2 + d];
    if (extent + 1 < stride && (size.id || (size.i - 1) / stride * stride + extent + 1 < size.i))
      import_unsupported(node->im, "auto_pad with a kernel smaller than its stride");
  }
}

/* Reads the window and the sizes of the result. With ceil_mode a window may extend beyond the
 * padding, but must begin before it. */
static bool pool_read(node *node, const value *input, onnx_window *out, number *dims) {
  importer *im = node->im;
  if (!onnx_read_window(node, input, NULL, out)) return false;
  out->window.ceil_mode = node_int(node, "ceil_mode", 0);
  pool_check_same(node, input, out);
  for (int d = 0; d < out->window.n; d++) {
    const int64_t extent = (out->window.kernel[d] - 1) * out->window.dilation[d] + 1,
                  stride = out->window.stride[d];
    const number begins = number_add(im, input->dims[2 + d], out->before[d]);
    const number spare =
        number_add(im, number_int(stride - extent), number_add(im, out->before[d], out->after[d]));
    const number padded = number_add(im, input->dims[2 + d], spare);
    dims[d] = number_floor_div(im, padded, number_int(stride));
    if (out->window.ceil_mode)
      dims[d] =
          number_min(im, number_ceil_div(im, padded, stride), number_ceil_div(im, begins, stride));
    dims[d].no_sign = true;
  }
  return import_ok(im);
}

/* True if clave's Pool has the same padding. */
static bool pool_is_plain(const onnx_window *window) {
  if (!onnx_window_is_even(window)) return false;
  for (int d = 0; d < window->window.n; d++)
    if (window->before[d].i > window->window.kernel[d] / 2) return false;
  return true;
}

static bool pool_is_dilated(const onnx_window *window) {
  for (int d = 0; d < window->window.n; d++)
    if (window->window.dilation[d] != 1) return true;
  return false;
}

/* Pads input, with ceil_mode to exactly what `count` windows cover. */
static value *pool_pad(importer *im, value *input, onnx_window *window, const number *count,
                       double fill) {
  number before[CLAVE_MAX_RANK] = {{0}}, after[CLAVE_MAX_RANK] = {{0}};
  before[0] = before[1] = after[0] = after[1] = number_int(0);
  for (int d = 0; d < window->window.n; d++) {
    const int64_t extent = (window->window.kernel[d] - 1) * window->window.dilation[d] + 1,
                  stride = window->window.stride[d];
    const number covered =
        number_add(im, number_mul(im, count[d], number_int(stride)), number_int(extent - stride));
    before[2 + d] = window->before[d];
    after[2 + d] = window->after[d];
    if (window->window.ceil_mode)
      after[2 + d] = number_sub(im, number_sub(im, covered, input->dims[2 + d]), window->before[d]);
    window->window.padding[d] = 0;
  }
  window->window.ceil_mode = false;
  return emit_pad(im, input, before, after, "constant", fill);
}

static void pool_set_padding(onnx_window *window) {
  for (int d = 0; d < window->window.n; d++) window->window.padding[d] = window->before[d].i;
}

/* ---------------------------------------------------------------- MaxPool */

static double lowest(clave_dtype type) {
  if (dtype_is_float((dtype)type)) return (double)-INFINITY;
  switch (type) {
    case CLAVE_I8:
      return INT8_MIN;
    case CLAVE_I16:
      return INT16_MIN;
    case CLAVE_I32:
      return INT32_MIN;
    case CLAVE_I64:
      return (double)INT64_MIN;
    default:
      return 0;
  }
}

static value *int_step(importer *im, const char *kind, value *input, number y) {
  return emit_binary(im, kind, input, value_of_number(im, CLAVE_I64, y));
}

/* Converts positions in the padded plane (its sizes are `padded`) to positions in all of input. */
static value *pool_indices(importer *im, value *index, const value *input,
                           const onnx_window *window, const number *padded, bool by_columns) {
  const int n = window->window.n;
  number factor[MAX_SPATIAL], plane = number_int(1), dims[CLAVE_MAX_RANK];
  value *sum = NULL, *rest = index;
  for (int k = 0; k < n; k++) {
    const int d = by_columns ? k : n - 1 - k;
    factor[d] = plane;
    plane = number_mul(im, plane, input->dims[2 + d]);
  }
  for (int d = n - 1; d >= 0; d--) {
    value *at = d ? int_step(im, "remainder", rest, padded[d]) : rest;
    rest = d ? int_step(im, "floor_divide", rest, padded[d]) : rest;
    at = int_step(im, "mul", int_step(im, "sub", at, window->before[d]), factor[d]);
    sum = sum ? emit_binary(im, "add", sum, at) : at;
  }
  const number planes = number_mul(im, input->dims[0], input->dims[1]);
  for (int d = 0; d < input->rank; d++) dims[d] = d < 2 ? input->dims[d] : number_int(1);
  value *base = emit_arange(im, CLAVE_I64, number_int(0), plane, planes);
  return emit_binary(im, "add", sum, emit_reshape(im, base, input->rank, dims));
}

void onnx_max_pool(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *indices = NULL, *in = x;
  onnx_window window;
  number count[MAX_SPATIAL], padded[MAX_SPATIAL];
  const bool wanted = node_has_output(node, 1), by_columns = node_int(node, "storage_order", 0);
  if (!x || !pool_read(node, x, &window, count)) return;
  const bool plain = pool_is_plain(&window);
  /* The padding must be less than each element, or its position could be the result. */
  const bool widened = wanted && !plain && !dtype_is_float((dtype)x->type);
  if (widened) in = emit_cast(im, x, CLAVE_F32);
  if (plain)
    pool_set_padding(&window);
  else
    in = pool_pad(im, in, &window, count, lowest(widened ? CLAVE_F32 : x->type));
  value *out = emit_pool(im, "max", in, &window.window, false, wanted ? &indices : NULL);
  node_set(node, 0, widened ? emit_cast(im, out, x->type) : out);
  if (!wanted || !out) return;
  for (int d = 0; d < window.window.n; d++) {
    padded[d] = in->dims[2 + d];
    if (plain) window.before[d] = number_int(0);
  }
  node_set(node, 1, pool_indices(im, indices, x, &window, padded, by_columns));
}

/* ---------------------------------------------------------------- AveragePool */

/* Returns the number of elements that each window along dimension d covers, with the sizes (1, 1,
 * count, 1...). with_padding: padding is counted too. */
static value *pool_counts(importer *im, const value *input, const onnx_window *all, int d,
                          number positions, bool with_padding) {
  number dims[CLAVE_MAX_RANK];
  onnx_window one = {.window = {.n = 1,
                                .kernel = {all->window.kernel[d]},
                                .stride = {all->window.stride[d]},
                                .dilation = {all->window.dilation[d]},
                                .ceil_mode = all->window.ceil_mode},
                     .before = {all->before[d]},
                     .after = {all->after[d]}};
  dims[0] = dims[1] = number_int(1);
  dims[2] = input->dims[2 + d];
  if (with_padding) {
    dims[2] = number_add(im, dims[2], number_add(im, one.before[0], one.after[0]));
    dims[2].no_sign = true;
    one.before[0] = one.after[0] = number_int(0);
  }
  value *ones = emit_full(im, input->type, 3, dims, number_float(1));
  if (!ones) return NULL;
  value *sums = emit_window_sum(im, pool_pad(im, ones, &one, &positions, 0), &one.window);
  for (int k = 0; k < input->rank; k++) dims[k] = k == 2 + d ? positions : number_int(1);
  return emit_reshape(im, sums, input->rank, dims);
}

/* Divides the sums of the windows by the number of elements of each. input: F32 or F64 */
static value *pool_mean(importer *im, value *input, onnx_window *window, const number *count,
                        bool with_padding) {
  value *divisor = NULL;
  for (int d = 0; d < window->window.n; d++) {
    value *factor = pool_counts(im, input, window, d, count[d], with_padding);
    divisor = d ? emit_binary(im, "mul", divisor, factor) : factor;
  }
  value *sum = emit_window_sum(im, pool_pad(im, input, window, count, 0), &window->window);
  return emit_binary(im, "div", sum, divisor);
}

/* Casts 16-bit floats to F32, in which sums are computed. */
static value *pool_wide(node *node, value *input) {
  if (!input) return NULL;
  if (!dtype_is_float((dtype)input->type))
    import_unsupported(node->im, "dtype %s", clave_dtype_name(input->type));
  return input->type == CLAVE_F64 ? input : emit_cast(node->im, input, CLAVE_F32);
}

void onnx_average_pool(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *wide = pool_wide(node, x);
  onnx_window window;
  number count[MAX_SPATIAL];
  const bool with_padding = node_int(node, "count_include_pad", 0);
  if (!wide || !pool_read(node, x, &window, count)) return;
  if (pool_is_plain(&window) && !pool_is_dilated(&window)) {
    pool_set_padding(&window);
    node_set(node, 0, emit_pool(im, "avg", x, &window.window, with_padding, NULL));
    return;
  }
  node_set(node, 0, emit_cast(im, pool_mean(im, wide, &window, count, with_padding), x->type));
}

/* ---------------------------------------------------------------- LpPool */

/* |input|^p, or its inverse, input^(1/p) */
static value *norm_power(importer *im, value *input, int64_t p, bool inverse) {
  if (p == 2) return inverse ? emit_unary(im, "sqrt", input) : emit_binary(im, "mul", input, input);
  if (inverse) return p == 1 ? input : emit_binary_float(im, "pow", input, 1 / (double)p);
  input = emit_unary(im, "abs", input);
  return p == 1 ? input : emit_binary_float(im, "pow", input, (double)p);
}

static int64_t norm_order(node *node) {
  const int64_t p = node_int(node, "p", 2);
  if (p < 1) import_unsupported(node->im, "p = %lld", (long long)p);
  return p;
}

void onnx_lp_pool(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *wide = pool_wide(node, x);
  onnx_window window;
  number count[MAX_SPATIAL];
  const int64_t p = norm_order(node);
  if (!wide || !pool_read(node, x, &window, count)) return;
  value *powers = pool_pad(im, norm_power(im, wide, p, false), &window, count, 0);
  value *sum = emit_window_sum(im, powers, &window.window);
  node_set(node, 0, emit_cast(im, norm_power(im, sum, p, true), x->type));
}

/* ---------------------------------------------------------------- global */

/* Reduces all spatial dimensions. kind: of Reduce, or "norm" */
void onnx_global_pool(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *out = x;
  int axes[CLAVE_MAX_RANK];
  if (!x) return;
  const bool norm = strcmp(node->kind, "norm") == 0;
  const int64_t p = norm ? norm_order(node) : 1;
  if (x->rank < 2) import_invalid(im, "the input has rank %d", x->rank);
  for (int d = 2; d < x->rank; d++) axes[d - 2] = d;
  if (norm) out = norm_power(im, pool_wide(node, x), p, false);
  if (x->rank > 2) out = emit_reduce(im, norm ? "sum" : node->kind, out, axes, x->rank - 2, true);
  if (norm) out = emit_cast(im, norm_power(im, out, p, true), x->type);
  node_set(node, 0, out);
}

/* ---------------------------------------------------------------- MaxUnpool */

/* Places each element at its index, which counts in a tensor of the sizes before pooling. */
static value *unpool(importer *im, value *input, value *index, const number *dims) {
  const number minus = value_numel(im, input);
  number all = number_int(1);
  for (int d = 0; d < input->rank; d++) all = number_mul(im, all, dims[d]);
  value *flat = emit_full(im, input->type, 1, &all, number_int(0));
  value *out = emit_scatter(im, "assign", flat, 0, emit_reshape(im, index, 1, &minus),
                            emit_reshape(im, input, 1, &minus));
  return emit_reshape(im, out, input->rank, dims);
}

void onnx_max_unpool(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *index = node_required(node, 1), *shape = node_input(node, 2);
  onnx_window window;
  number dims[CLAVE_MAX_RANK], wanted[CLAVE_MAX_RANK], zero[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  if (!x || !index || !onnx_read_window(node, x, NULL, &window)) return;
  for (int d = 0; d < x->rank; d++) {
    dims[d] = x->dims[d];
    zero[d] = number_int(0);
    if (d < 2) continue;
    const int64_t kernel = window.window.kernel[d - 2], stride = window.window.stride[d - 2];
    const number pads = number_add(im, window.before[d - 2], window.after[d - 2]);
    dims[d] = number_sub(im, number_mul(im, x->dims[d], number_int(stride)), pads);
    dims[d] = number_add(im, dims[d], number_int(kernel - stride));
    dims[d].no_sign = true;
  }
  value *out = unpool(im, x, index, dims);
  if (shape && out) {
    if (onnx_sizes(node, shape, "output_shape", wanted) != x->rank) {
      import_invalid(im, "output_shape: expected %d sizes", x->rank);
      return;
    }
    for (int d = 0; d < x->rank; d++) after[d] = number_sub(im, wanted[d], dims[d]);
    out = emit_pad(im, out, zero, after, "constant", 0);
  }
  node_set(node, 0, out);
}
