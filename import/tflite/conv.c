/* Convolutions. */
#include "import/tflite/converters.h"
#include "import/tflite/window.h"

/* Slots of the options of a convolution; -1: it has none. */
typedef struct conv_slots {
  int activation, stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
} conv_slots;

static window read_window(operation *op, const conv_slots *slots, int n, const number *kernel) {
  window window = {.n = n};
  for (int d = 0; d < n; d++) {
    if (kernel[d].id) import_unsupported(op->im, "a kernel of open size");
    window.kernel[d] = kernel[d].i;
    window.stride[d] = flat_int(&op->options, slots->stride[d], 4, 0);
    window.dilation[d] =
        slots->dilation[d] < 0 ? 1 : flat_int(&op->options, slots->dilation[d], 4, 1);
  }
  return window;
}

/* Returns the bias, or NULL if it is absent. */
static value *conv_bias(operation *op, int i, const value *weight) {
  value *bias = tflite_bias(op, i, 0, 1);
  if (bias && weight && (bias->rank != 1 || !number_is_same(bias->dims[0], weight->dims[0])))
    import_invalid(op->im, "the bias does not have one element for each channel");
  return bias;
}

static void emit_padded_conv(operation *op, value *input, value *weight, const conv_slots *slots,
                             int64_t groups) {
  importer *im = op->im;
  if (!input || !weight || !import_ok(im)) return;
  window window = read_window(op, slots, input->rank - 2, weight->dims + 2);
  value *bias = conv_bias(op, 2, weight);
  if (!tflite_check_window(op, &window)) return;
  const same_padding padding = tflite_padding(op, input, &window, flat_int(&op->options, 0, 1, 0));
  input = tflite_padded(op, input, &padding, &window, 0);
  value *out = emit_conv(im, input, weight, bias, &window, groups);
  op->is_sum = true;
  tflite_set(op, 0, tflite_activated(op, out, slots->activation));
}

/* Checks the ranks. Returns x. */
static value *conv_input(operation *op, int i, const value *weight, int rank) {
  op->rank = rank;
  value *x = tflite_required(op, i);
  if (x && weight && (x->rank != rank || weight->rank != rank))
    import_invalid(op->im, "ranks %d and %d, expected %d", x->rank, weight->rank, rank);
  if (x && import_ok(op->im) && x->dims[1].id)
    import_unsupported(op->im, "an open number of channels");
  return import_ok(op->im) ? x : NULL;
}

static int64_t groups_of_conv(operation *op, const value *input, int64_t channels) {
  if (!input || !import_ok(op->im)) return 1;
  if (channels > 0 && input->dims[1].i % channels == 0) return input->dims[1].i / channels;
  import_invalid(op->im, "%lld channels, and a weight of %lld", (long long)input->dims[1].i,
                 (long long)channels);
  return 1;
}

static bool has_rank(operation *op, int i, int rank) {
  operand *x = tflite_operand(op, i);
  const value *stored = x ? tflite_in_layout(op->im, x, LAST) : NULL;
  if (stored && stored->rank == rank) return true;
  import_invalid(op->im, "expected a weight of rank %d", rank);
  return false;
}

/* weight: (O, H, W, I) */
void tflite_conv_2d(operation *op) {
  static const conv_slots slots = {3, {2, 1, 0}, {5, 4, 0}};
  if (!has_rank(op, 1, 4)) return;
  value *weight = tflite_weight(op, 1, (int[]){0, 3, 1, 2}, NULL);
  value *x = conv_input(op, 0, weight, 4);
  if (x && weight)
    emit_padded_conv(op, x, weight, &slots, groups_of_conv(op, x, weight->dims[1].i));
}

/* weight: (1, H, W, C * multiplier) */
void tflite_depthwise_conv_2d(operation *op) {
  static const conv_slots slots = {4, {2, 1, 0}, {6, 5, 0}};
  if (!has_rank(op, 1, 4)) return;
  value *weight = tflite_weight(op, 1, (int[]){3, 0, 1, 2}, NULL);
  value *x = conv_input(op, 0, weight, 4);
  if (!x || !weight) return;
  if (!number_is(weight->dims[1], 1) || weight->dims[0].id || x->dims[1].i == 0 ||
      weight->dims[0].i % x->dims[1].i)
    import_invalid(op->im, "the weight does not fit %lld channels", (long long)x->dims[1].i);
  emit_padded_conv(op, x, weight, &slots, x->dims[1].i);
}

/* weight: (D, H, W, I, O) */
void tflite_conv_3d(operation *op) {
  static const conv_slots slots = {4, {1, 3, 2}, {5, 7, 6}};
  if (!has_rank(op, 1, 5)) return;
  value *weight = tflite_weight(op, 1, (int[]){4, 3, 0, 1, 2}, NULL);
  value *x = conv_input(op, 0, weight, 5);
  if (x && weight)
    emit_padded_conv(op, x, weight, &slots, groups_of_conv(op, x, weight->dims[1].i));
}

/* ---------------------------------------------------------------- transposed convolutions */

/* Crops one dimension of the full result to `size` elements from `before` on, or extends it by
 * zeros. */
static value *fit_result(operation *op, value *full, int d, number before, number size) {
  importer *im = op->im;
  number zeros[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK];
  if (!full) return NULL;
  for (int k = 0; k < full->rank; k++) zeros[k] = after[k] = number_int(0);
  const number end = number_add(im, before, size);
  after[d] = number_max(im, number_sub(im, end, full->dims[d]), number_int(0));
  after[d].no_sign = true;
  full = emit_pad(im, full, zeros, after, "constant", 0);
  value *out = emit_slice(im, full, d, before, end);
  if (out && out != full) out->dims[d] = size;
  return out;
}

/* The inputs of a transposed convolution, and what is cropped from the full result: `size` elements
 * from `before` on remain of its height and width. */
typedef struct transposed {
  int x, weight, bias; /* indices of inputs; weight: (O, H, W, I) */
  int64_t stride[2], activation_slot;
  number before[2], size[2];
} transposed;

static void transpose_conv(operation *op, value *input, value *weight, const window *window,
                           const transposed *from) {
  importer *im = op->im;
  static const int64_t none[MAX_SPATIAL] = {0};
  value *out = emit_conv_transpose(im, input, weight, NULL, window, none, 1);
  for (int d = 0; d < 2; d++) out = fit_result(op, out, 2 + d, from->before[d], from->size[d]);
  value *bias = tflite_bias(op, from->bias, from->x, from->weight);
  if (bias && bias->rank == 1 && out) {
    const number column[] = {bias->dims[0], number_int(1), number_int(1)};
    out = emit_binary(im, "add", out, emit_reshape(im, bias, 3, column));
  }
  op->is_sum = true;
  tflite_set(
      op, 0,
      from->activation_slot < 0 ? out : tflite_activated(op, out, (int)from->activation_slot));
}

/* Reads input and the weight, and sets the window. Returns false after an error. */
static bool open_transposed(operation *op, const transposed *from, value **input, value **weight,
                            window *window) {
  if (!has_rank(op, from->weight, 4)) return false;
  *weight = tflite_weight(op, from->weight, (int[]){3, 0, 1, 2}, NULL);
  *input = conv_input(op, from->x, *weight, 4);
  if (!*input || !*weight || !import_ok(op->im)) return false;
  *window = (struct window){.n = 2, .dilation = {1, 1}};
  for (int d = 0; d < 2; d++) {
    const number kernel = (*weight)->dims[2 + d];
    if (kernel.id) import_unsupported(op->im, "a kernel of open size");
    window->kernel[d] = kernel.i;
    window->stride[d] = from->stride[d];
  }
  return import_ok(op->im) && tflite_check_window(op, window);
}

/* The first input is the shape of the result. The padding is that of the convolution whose gradient
 * this is. */
void tflite_transpose_conv(operation *op) {
  number sizes[CLAVE_MAX_RANK];
  transposed from = {.x = 2, .weight = 1, .bias = 3, .activation_slot = 3};
  value *x, *weight, result = {.rank = 4};
  window window;
  const int n = tflite_sizes(op, 0, "output_shape", sizes);
  if (n != 4 && import_ok(op->im)) import_invalid(op->im, "output_shape has %d numbers", n);
  for (int d = 0; d < 2; d++) from.stride[d] = flat_int(&op->options, 2 - d, 4, 0);
  if (!import_ok(op->im) || !open_transposed(op, &from, &x, &weight, &window)) return;
  for (int d = 0; d < 2; d++) result.dims[2 + d] = from.size[d] = sizes[1 + d];
  const same_padding padding =
      tflite_padding(op, &result, &window, flat_int(&op->options, 0, 1, 0));
  for (int d = 0; d < 2; d++) from.before[d] = padding.before[d];
  transpose_conv(op, x, weight, &window, &from);
}

/* MediaPipe's op: the size of the result follows from that of x. */
void tflite_conv_2d_transpose_bias(operation *op) {
  importer *im = op->im;
  transposed from = {.x = 0, .weight = 1, .bias = 2, .activation_slot = -1};
  value *x, *weight;
  window window;
  const bool same = tflite_custom_int(op, 0) == 1;
  for (int d = 0; d < 2; d++) from.stride[d] = tflite_custom_int(op, 2 - d);
  if (!import_ok(im) || !open_transposed(op, &from, &x, &weight, &window)) return;
  for (int d = 0; d < 2; d++) {
    const number stride = number_int(window.stride[d]), kernel = number_int(window.kernel[d]);
    const number last = number_sub(im, x->dims[2 + d], number_int(1));
    const number over = number_add(im, number_compute(im, NUMBER_MOD, last, stride), number_int(1));
    const number cut =
        same ? number_max(im, number_sub(im, kernel, over), number_int(0)) : number_int(0);
    from.before[d] = number_floor_div(im, cut, number_int(2));
    from.size[d] = number_sub(im, number_add(im, number_mul(im, last, stride), kernel), cut);
    from.size[d].no_sign = true;
  }
  transpose_conv(op, x, weight, &window, &from);
}
