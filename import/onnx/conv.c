/* Conv and ConvTranspose. */
#include "import/onnx/converters.h"
#include "import/onnx/window.h"

static bool conv_has_ranks(node *node, const value *input, const value *weight) {
  if (!input || !weight) return false;
  if (weight->rank != input->rank) import_invalid(node->im, "the weight's rank is not the input's");
  return import_ok(node->im);
}

void onnx_conv(node *node) {
  value *x = node_required(node, 0), *weight = node_required(node, 1), *bias = node_input(node, 2);
  onnx_window window;
  const int64_t groups = node_int(node, "group", 1);
  if (!conv_has_ranks(node, x, weight) || !onnx_read_window(node, x, weight, &window)) return;
  x = onnx_pad_window(node, x, &window, false, 0);
  node_set(node, 0, emit_conv(node->im, x, weight, bias, &window.window, groups));
}

/* ---------------------------------------------------------------- ConvTranspose */

/* Sets how much of the full result is cut off before and after each dimension, if the sizes of the
 * result are given (sizes, or NULL: the input's times the stride). A result that is larger than
 * the full one is extended at its end. */
static void cut_to_sizes(importer *im, const value *input, const int64_t *sizes,
                         const int64_t *output_padding, bool upper, onnx_window *out) {
  const number zero = number_int(0), two = number_int(2);
  for (int d = 0; d < out->window.n; d++) {
    const int64_t stride = out->window.stride[d],
                  extent = (out->window.kernel[d] - 1) * out->window.dilation[d] + 1;
    const number more = number_int(extent - stride + output_padding[d]);
    const number spread = number_mul(im, input->dims[2 + d], number_int(stride));
    const number total =
        sizes ? number_sub(im, number_add(im, spread, more), number_int(sizes[d])) : more;
    if (!sizes && !total.id && total.i < 0) /* runtimes disagree on the sizes of the result */
      import_unsupported(im, "auto_pad with a kernel smaller than its stride");
    const number cut = number_max(im, total, zero), half = number_floor_div(im, cut, two);
    out->before[d] = upper ? half : number_sub(im, cut, half);
    out->after[d] = number_sub(im, total, out->before[d]);
  }
}

/* Reads output_padding, output_shape and auto_pad, which determine what is cut off. */
static void read_cuts(node *node, const value *input, onnx_window *window,
                      int64_t *output_padding) {
  static const char *const modes[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  int64_t shape[2 + MAX_SPATIAL];
  const int n = window->window.n, mode = node_choice(node, "auto_pad", modes, 4);
  const int given = node_ints(node, "output_padding", output_padding, MAX_SPATIAL),
            sizes = node_ints(node, "output_shape", shape, 2 + MAX_SPATIAL);
  if ((given > 0 && given != n) || (sizes > 0 && sizes != n && sizes != n + 2))
    import_invalid(node->im, "output_padding or output_shape: expected %d numbers", n);
  for (int d = 0; d < n; d++) {
    if (given <= 0) output_padding[d] = 0;
    if (output_padding[d] < 0 || output_padding[d] > INT32_MAX)
      import_invalid(node->im, "output_padding is %lld", (long long)output_padding[d]);
  }
  if (import_ok(node->im) && (sizes > 0 || mode == 1 || mode == 2))
    cut_to_sizes(node->im, input, sizes > 0 ? shape + (sizes - n) : NULL, output_padding, mode == 1,
                 window);
}

/* True if the op itself can cut and extend its result so. */
static bool transpose_is_plain(const onnx_window *window, const int64_t *output_padding) {
  if (!onnx_window_is_even(window)) return false;
  for (int d = 0; d < window->window.n; d++)
    if (output_padding[d] >= window->window.stride[d] &&
        output_padding[d] >= window->window.dilation[d])
      return false;
  return true;
}

/* The full result, cut and extended by zeros, plus the bias. */
static value *transposed_and_cut(importer *im, value *input, value *weight, value *bias,
                                 onnx_window *window, int64_t *output_padding, int64_t groups) {
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK], dims[CLAVE_MAX_RANK];
  bool extends = false;
  before[0] = before[1] = after[0] = after[1] = number_int(0);
  for (int d = 0; d < window->window.n; d++) {
    before[2 + d] = number_sub(im, number_int(0), window->before[d]);
    after[2 + d] = number_sub(im, number_int(output_padding[d]), window->after[d]);
    extends = extends || after[2 + d].id || after[2 + d].i > 0 || before[2 + d].i > 0;
    window->window.padding[d] = output_padding[d] = 0;
  }
  value *full = emit_conv_transpose(im, input, weight, extends ? NULL : bias, &window->window,
                                    output_padding, groups);
  value *out = emit_pad(im, full, before, after, "constant", 0);
  if (!bias || !extends || !out) return out;
  for (int d = 0; d < input->rank; d++) dims[d] = d == 1 ? bias->dims[0] : number_int(1);
  return emit_binary(im, "add", out, emit_reshape(im, bias, input->rank, dims));
}

void onnx_conv_transpose(node *node) {
  value *x = node_required(node, 0), *weight = node_required(node, 1), *bias = node_input(node, 2);
  onnx_window window;
  int64_t output_padding[MAX_SPATIAL];
  const int64_t groups = node_int(node, "group", 1);
  if (!conv_has_ranks(node, x, weight) || !onnx_read_window(node, x, weight, &window)) return;
  read_cuts(node, x, &window, output_padding);
  if (!import_ok(node->im)) return;
  if (!transpose_is_plain(&window, output_padding)) {
    node_set(node, 0,
             transposed_and_cut(node->im, x, weight, bias, &window, output_padding, groups));
    return;
  }
  for (int d = 0; d < window.window.n; d++) window.window.padding[d] = window.before[d].i;
  node_set(node, 0,
           emit_conv_transpose(node->im, x, weight, bias, &window.window, output_padding, groups));
}

/* ---------------------------------------------------------------- CausalConvWithState */

/* A depthwise convolution along time of the past state, or zeros, followed by x. The last steps of
 * both are the next state. */
void onnx_causal_conv(node *node) {
  static const char *const activations[] = {"none", "silu", "swish"};
  importer *im = node->im;
  value *x = node_required(node, 0), *weight = node_required(node, 1), *bias = node_input(node, 2),
        *past = node_input(node, 3);
  const int activation = node_choice(node, "activation", activations, 3);
  if (!conv_has_ranks(node, x, weight)) return;
  if (x->rank != 3) import_invalid(im, "the input has rank %d, expected 3", x->rank);
  const number channels = x->dims[1].id ? weight->dims[0] : x->dims[1];
  if (channels.id || weight->dims[2].id)
    import_unsupported(im, "open sizes of the channels or the kernel");
  if (!weight->dims[2].id && weight->dims[2].i < 1) import_invalid(im, "the kernel is empty");
  if (!import_ok(im)) return;
  const window window = {.n = 1, .kernel = {weight->dims[2].i}, .stride = {1}, .dilation = {1}};
  const number steps = number_int(window.kernel[0] - 1), state[3] = {x->dims[0], channels, steps};
  if (!past) past = emit_full(im, x->type, 3, state, number_float(0));
  value *all = steps.i > 0 ? emit_cat(im, (value *[]){past, x}, 2, 2) : x;
  value *out = emit_conv(im, all, weight, bias, &window, channels.i);
  if (!out) return;
  out->dims[2] = x->dims[2];
  node_set(node, 0, activation ? emit_unary(im, "silu", out) : out);
  if (!node_has_output(node, 1)) return;
  value *next = emit_slice(im, all, 2, x->dims[2], number_add(im, x->dims[2], steps));
  if (next && next != all) next->dims[2] = steps;
  node_set(node, 1, next);
}
