/* Conv, ConvInteger and ConvTranspose over one to three spatial dimensions. */
#include "ops/conv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops/rule_checks.h"

enum { MAX_SPATIAL = 3 };

/* The attributes of one spatial dimension. */
typedef struct conv_window {
  int64_t kernel, stride, padding, dilation, output_padding;
  int64_t padding_after; /* not of transposed convolutions */
} conv_window;

/* Stores the kernel's extent, dilation * (kernel - 1) + 1, or DIM_UNKNOWN if its size is
 * unknown. */
static clave_status kernel_extent(const conv_window *window, int64_t *out) {
  *out = DIM_UNKNOWN;
  if (window->kernel == DIM_UNKNOWN) return NULL;
  if (window->kernel < 1)
    return INVALID("kernel: expected at least 1, got %lld", (long long)window->kernel);
  if (!mul_i64(window->kernel - 1, window->dilation, out) || !add_i64(*out, 1, out))
    return INVALID("kernel %lld is too large", (long long)window->kernel);
  return NULL;
}

/* Stores the output size, (size + padding + padding_after - dilation * (kernel - 1) - 1) / stride +
 * 1. */
static clave_status conv_size(int64_t size, const conv_window *window, int64_t *out) {
  int64_t padded, extent;
  *out = DIM_UNKNOWN;
  TRY(kernel_extent(window, &extent));
  if (size == DIM_UNKNOWN || extent == DIM_UNKNOWN) return NULL;
  if (!add_i64(size, window->padding + window->padding_after, &padded))
    return INVALID("size %lld is too large", (long long)size);
  if (padded < extent)
    return INVALID("kernel covers %lld, more than the padded size %lld", (long long)extent,
                   (long long)padded);
  *out = (padded - extent) / window->stride + 1;
  return NULL;
}

/* Stores the output size, (size - 1) * stride - 2 * padding + dilation * (kernel - 1) +
 * output_padding + 1. */
static clave_status transposed_size(int64_t size, const conv_window *window, int64_t *out) {
  int64_t spread, extent;
  *out = DIM_UNKNOWN;
  if (window->output_padding >= window->stride && window->output_padding >= window->dilation)
    return INVALID("output_padding: expected less than stride %lld or dilation %lld, got %lld",
                   (long long)window->stride, (long long)window->dilation,
                   (long long)window->output_padding);
  TRY(kernel_extent(window, &extent));
  if (size == DIM_UNKNOWN || extent == DIM_UNKNOWN) return NULL;
  if (!mul_i64(size - 1, window->stride, &spread) || !add_i64(spread, extent, &spread) ||
      !add_i64(spread, window->output_padding, &spread))
    return INVALID("size %lld is too large", (long long)size);
  if (spread < 2 * window->padding + 1)
    return INVALID("padding is %lld, which leaves nothing of the size %lld",
                   (long long)window->padding, (long long)spread);
  *out = spread - 2 * window->padding;
  return NULL;
}

static clave_status check_ranks(const rule_context *context, uint32_t x_id, uint32_t weight) {
  const tensor *x = rule_tensor(context, x_id), *w = rule_tensor(context, weight);
  if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
    return INVALID("x: expected rank 3 to %d, got %d", 2 + MAX_SPATIAL, x->rank);
  if (w->rank == x->rank) return NULL;
  return INVALID("weight: expected rank %d like x, got %d", x->rank, w->rank);
}

/* Checks the operands of a convolution with an encoded weight. */
static clave_status check_codes(const tensor *input, const tensor *weight) {
  if (!dtype_is_float(input->type) || input->type == DTYPE_F64)
    return INVALID("x: expected F32, F16 or BF16 as weight is encoded, got %s",
                   dtype_name(input->type));
  if (weight->encoding.axis == 1) return NULL;
  return INVALID("weight: expected encoded rows along axis 1, got axis %d", weight->encoding.axis);
}

static clave_status op_conv_check_operands(const rule_context *context, uint32_t x_id,
                                           uint32_t weight) {
  const tensor *x = rule_tensor(context, x_id), *w = rule_tensor(context, weight);
  TRY(check_not_bool(context, x_id, "x"));
  if (w->encoding.kind)
    TRY(check_codes(x, w));
  else if (w->type != x->type)
    return INVALID("weight: expected %s like x, got %s", dtype_name(x->type), dtype_name(w->type));
  return check_ranks(context, x_id, weight);
}

/* Fails unless `groups` divides `divided`, the channels in dims[0] of the weight. */
static clave_status op_conv_check_groups(int32_t groups, int64_t divided) {
  if (groups < 1) return INVALID("groups: expected at least 1, got %d", groups);
  if (divided == DIM_UNKNOWN || divided % groups == 0) return NULL;
  return INVALID("groups: expected a divisor of the weight's %lld channels, got %d",
                 (long long)divided, groups);
}

/* Stores per_group * groups, or DIM_UNKNOWN if per_group is unknown. */
static clave_status count_channels(int64_t per_group, int32_t groups, int64_t *out) {
  *out = DIM_UNKNOWN;
  if (per_group == DIM_UNKNOWN || mul_i64(per_group, groups, out)) return NULL;
  return INVALID("weight has too many channels");
}

static clave_status check_input_channels(int64_t actual, int64_t expected) {
  if (dim_matches(actual, expected)) return NULL;
  return INVALID("x: expected %lld channels as weight and groups say, got %lld",
                 (long long)expected, (long long)actual);
}

static clave_status check_windows(const ir_i32s *stride, const ir_i32s *padding,
                                  const ir_i32s *dilation, int n) {
  TRY(check_spatial(stride, "stride", n, 1));
  TRY(check_spatial(padding, "padding", n, 0));
  return check_spatial(dilation, "dilation", n, 1);
}

/* Fails if x has too many elements, counted with its padding and with the positions that strides
 * add. Backends multiply this count by 8 per dimension and by the bytes per element when they lay
 * out a kernel's input; the product must not overflow. after: the padding after x. */
static clave_status check_extent(const tensor *input, const tensor *out, const ir_i32s *padding,
                                 const ir_i32s *after) {
  const int64_t most = INT64_MAX >> 12;
  int64_t elements = 1;
  for (int i = 0; i < input->rank; i++) {
    int64_t n = input->dims[i];
    bool fits = true;
    if (n == DIM_UNKNOWN || (i >= 2 && out->dims[i] == DIM_UNKNOWN)) continue;
    if (i >= 2)
      fits = add_i64(n, out->dims[i], &n) &&
             add_i64(n, (int64_t)padding->items[i - 2] + after->items[i - 2], &n);
    if (n == 0) continue;
    if (!fits || !mul_i64(elements, n, &elements) || elements > most)
      return INVALID("x with its padding: expected at most %lld elements, got more",
                     (long long)most);
  }
  return NULL;
}

static clave_status rule_sums(const rule_context *context, const ir_conv *op, dtype bias,
                              dtype out) {
  const tensor *x = rule_tensor(context, op->x), *w = rule_tensor(context, op->weight);
  int n = x->rank - 2;
  int64_t channels;
  TRY(check_optional(context, op->bias, "bias", bias, 1, &w->dims[0]));
  TRY(check_windows(&op->stride, &op->padding, &op->dilation, n));
  if (op->padding_after.count) TRY(check_spatial(&op->padding_after, "padding_after", n, 0));
  const ir_i32s *after = op->padding_after.count ? &op->padding_after : &op->padding;
  TRY(op_conv_check_groups(op->groups, w->dims[0]));
  TRY(count_channels(w->dims[1], op->groups, &channels));
  TRY(check_input_channels(x->dims[1], channels));
  tensor want = {.type = out, .rank = x->rank, .dims = {x->dims[0], w->dims[0]}};
  for (int i = 0; i < n; i++) {
    conv_window window = {
        w->dims[2 + i], op->stride.items[i], op->padding.items[i], op->dilation.items[i], 0,
        after->items[i]};
    TRY(status_while(conv_size(x->dims[2 + i], &window, &want.dims[2 + i]), "spatial dimension %d",
                     i));
  }
  TRY(check_extent(x, &want, &op->padding, after));
  return rule_expect_like(context, op->out, "out", &want);
}

clave_status rule_conv(const rule_context *context, const void *op) {
  const ir_conv *conv = op;
  TRY(op_conv_check_operands(context, conv->x, conv->weight));
  const dtype type = rule_tensor(context, conv->x)->type;
  return rule_sums(context, conv, type, type);
}

/* Returns the fields that ConvInteger and Conv share. */
static ir_conv as_conv(const ir_conv_integer *op) {
  return (ir_conv){.x = op->x,
                   .weight = op->weight,
                   .bias = op->bias,
                   .stride = op->stride,
                   .padding = op->padding,
                   .dilation = op->dilation,
                   .groups = op->groups,
                   .out = op->out,
                   .padding_after = op->padding_after};
}

clave_status rule_conv_integer(const rule_context *context, const void *op) {
  const ir_conv_integer *conv_integer = op;
  const ir_conv sums = as_conv(conv_integer);
  dtype x = rule_tensor(context, conv_integer->x)->type,
        w = rule_tensor(context, conv_integer->weight)->type;
  if (x != DTYPE_I8 && x != DTYPE_U8) return INVALID("x: expected I8 or U8, got %s", dtype_name(x));
  if (w != DTYPE_I8) return INVALID("weight: expected I8, got %s", dtype_name(w));
  TRY(check_ranks(context, conv_integer->x, conv_integer->weight));
  if (!int_fits(x, conv_integer->padding_value))
    return INVALID("padding_value %d does not fit %s", conv_integer->padding_value, dtype_name(x));
  return rule_sums(
      context, &sums, DTYPE_I32,
      conv_integer->epilogue.count ? rule_tensor(context, conv_integer->out)->type : DTYPE_I32);
}

clave_status rule_conv_transpose(const rule_context *context, const void *op) {
  const ir_conv_transpose *conv_transpose = op;
  TRY(op_conv_check_operands(context, conv_transpose->x, conv_transpose->weight));
  const tensor *x = rule_tensor(context, conv_transpose->x),
               *w = rule_tensor(context, conv_transpose->weight);
  int n = x->rank - 2;
  int64_t outputs;
  TRY(check_windows(&conv_transpose->stride, &conv_transpose->padding, &conv_transpose->dilation,
                    n));
  TRY(check_spatial(&conv_transpose->output_padding, "output_padding", n, 0));
  TRY(op_conv_check_groups(conv_transpose->groups, w->dims[0]));
  TRY(check_input_channels(x->dims[1], w->dims[0]));
  TRY(count_channels(w->dims[1], conv_transpose->groups, &outputs));
  TRY(check_optional(context, conv_transpose->bias, "bias", x->type, 1, &outputs));
  tensor want = {.type = x->type, .rank = x->rank, .dims = {x->dims[0], outputs}};
  for (int i = 0; i < n; i++) {
    conv_window window = {w->dims[2 + i],
                          conv_transpose->stride.items[i],
                          conv_transpose->padding.items[i],
                          conv_transpose->dilation.items[i],
                          conv_transpose->output_padding.items[i],
                          0};
    TRY(status_while(transposed_size(x->dims[2 + i], &window, &want.dims[2 + i]),
                     "spatial dimension %d", i));
  }
  TRY(check_extent(x, &want, &conv_transpose->padding, &conv_transpose->padding));
  return rule_expect_like(context, conv_transpose->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

static void describe_dims(conv_desc *desc, const ir_i32s *strides, const ir_i32s *paddings,
                          const ir_i32s *dilations) {
  int n = desc->x->tensor.rank - 2;
  int64_t in[SPATIAL_DIMS], out[SPATIAL_DIMS], kernel[SPATIAL_DIMS];
  int64_t stride[SPATIAL_DIMS], padding[SPATIAL_DIMS], dilation[SPATIAL_DIMS];
  align_dims(&desc->x->tensor, n, in);
  align_dims(&desc->out->tensor, n, out);
  align_dims(&desc->weight->tensor, n, kernel);
  align_right(strides, n, 1, stride);
  align_right(paddings, n, 0, padding);
  align_right(dilations, n, 1, dilation);
  for (int i = 0; i < SPATIAL_DIMS; i++) {
    conv_dim dim = {in[i], out[i], kernel[i], stride[i], padding[i], dilation[i], 1, 1};
    if (desc->transposed) {
      dim.phases = dim.stride < dim.out ? dim.stride : dim.out;
      dim.tap_step = dim.stride / common_divisor(dim.stride, dim.dilation);
    }
    desc->dims[i] = dim;
  }
}

static void describe_channels(conv_desc *desc) {
  desc->images = desc->x->tensor.dims[0];
  desc->channels = desc->x->tensor.dims[1] / desc->groups;
  desc->outputs = desc->out->tensor.dims[1] / desc->groups;
}

static void describe_sums(const node *node, const ir_conv *op, conv_desc *desc) {
  *desc = (conv_desc){.x = &node->tensors[op->x],
                      .weight = &node->tensors[op->weight],
                      .bias = operand_of(node, op->bias),
                      .out = &node->tensors[op->out],
                      .type = program_type(node, op->x),
                      .groups = op->groups};
  describe_channels(desc);
  describe_dims(desc, &op->stride, &op->padding, &op->dilation);
}

void describe_conv(const node *node, conv_desc *desc) {
  describe_sums(node, node->instruction->op, desc);
}

void describe_conv_integer(const node *node, conv_desc *desc) {
  const ir_conv_integer *op = node->instruction->op;
  const ir_conv sums = as_conv(op);
  describe_sums(node, &sums, desc);
  desc->padding_value = op->padding_value;
}

void describe_conv_transpose(const node *node, conv_desc *desc) {
  const ir_conv_transpose *op = node->instruction->op;
  *desc = (conv_desc){.x = &node->tensors[op->x],
                      .weight = &node->tensors[op->weight],
                      .bias = operand_of(node, op->bias),
                      .out = &node->tensors[op->out],
                      .type = program_type(node, op->x),
                      .transposed = true,
                      .groups = op->groups};
  describe_channels(desc);
  describe_dims(desc, &op->stride, &op->padding, &op->dilation);
}

/* ---------------------------------------------------------------- Winograd's method */

/* With at least MIN_CHANNELS, the error of Winograd's method is within the error bound of direct
 * sums (test_cpu_winograd.c), because the bound grows faster with the number of channels. */
enum { MIN_CHANNELS = 64, MIN_OUTPUTS = 16 };

static bool is_side(const conv_dim *dim) {
  return dim->kernel == 3 && dim->stride == 1 && dim->dilation == 1;
}

bool conv_accepts_winograd(const conv_desc *desc) {
  return desc->weight->is_constant && desc->type == DTYPE_F32 && !desc->transposed &&
         conv_dim_is_absent(&desc->dims[0]) && is_side(&desc->dims[1]) && is_side(&desc->dims[2]) &&
         desc->channels >= MIN_CHANNELS && desc->outputs >= MIN_OUTPUTS;
}

/* The result depends only on the image size, so that the packed weight serves any number of images.
 * For 16 outputs, a tile of 4 needs 36 multiplications, and tiles of 2 need 64. But the weight
 * packed for tiles of 4 is 4 times as large as the plain weight (16 / 9 times for tiles of 2), and
 * a small image has few tiles per read of the weight. If the output has only one row or column,
 * most of a tile is outside the image. */
int conv_winograd_tile(const conv_desc *desc) {
  enum { SMALL_IMAGE = 14 * 14 };
  const int64_t rows = desc->dims[1].out, columns = desc->dims[2].out;
  const int64_t side = rows < columns ? rows : columns;
  if (side <= 1) return 0;
  return side <= 2 || rows * columns <= SMALL_IMAGE ? 2 : 4;
}

/* Adds one field of conv_dim to the key for each of the three dimensions. */
static void add_sizes(tuning_key *key, const char *name, const conv_desc *desc, size_t field) {
  char value[80];
  int64_t n[SPATIAL_DIMS];
  for (int i = 0; i < SPATIAL_DIMS; i++)
    memcpy(&n[i], (const char *)&desc->dims[i] + field, sizeof n[i]);
  (void)snprintf(value, sizeof value, "%" PRId64 "x%" PRId64 "x%" PRId64, n[0], n[1], n[2]);
  tuning_key_text(key, name, value);
}

void add_conv_key(tuning_key *key, const conv_desc *desc) {
  if (!key->is_wanted) return;
  tuning_key_text(key, desc->transposed ? "transposed" : "x", dtype_name(desc->type));
  tuning_key_text(key, "weight", dtype_name(desc->weight->tensor.type));
  tuning_key_encoding(key, "encoding", &desc->weight->tensor.encoding);
  tuning_key_int(key, "images", desc->images);
  tuning_key_int(key, "groups", desc->groups);
  tuning_key_int(key, "channels", desc->channels);
  tuning_key_int(key, "outputs", desc->outputs);
  add_sizes(key, "in", desc, offsetof(conv_dim, in));
  add_sizes(key, "out", desc, offsetof(conv_dim, out));
  add_sizes(key, "kernel", desc, offsetof(conv_dim, kernel));
  add_sizes(key, "stride", desc, offsetof(conv_dim, stride));
  add_sizes(key, "dilation", desc, offsetof(conv_dim, dilation));
  tuning_key_int(key, "constant", desc->weight->is_constant);
}
