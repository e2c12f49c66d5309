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
} conv_window;

/* dilation * (kernel - 1) + 1; DIM_UNKNOWN as the kernel's size. */
static clave_status covered_size(const conv_window *w, int64_t *out) {
  *out = DIM_UNKNOWN;
  if (w->kernel == DIM_UNKNOWN) return NULL;
  if (w->kernel < 1) return INVALID("kernel: expected at least 1, got %lld", (long long)w->kernel);
  if (!mul_i64(w->kernel - 1, w->dilation, out) || !add_i64(*out, 1, out))
    return INVALID("kernel %lld is too large", (long long)w->kernel);
  return NULL;
}

/* (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1 */
static clave_status conv_size(int64_t size, const conv_window *w, int64_t *out) {
  int64_t padded, covered;
  *out = DIM_UNKNOWN;
  TRY(covered_size(w, &covered));
  if (size == DIM_UNKNOWN || covered == DIM_UNKNOWN) return NULL;
  if (!add_i64(size, 2 * w->padding, &padded))
    return INVALID("size %lld is too large", (long long)size);
  if (padded < covered)
    return INVALID("kernel covers %lld, more than the padded size %lld", (long long)covered,
                   (long long)padded);
  *out = (padded - covered) / w->stride + 1;
  return NULL;
}

/* (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 */
static clave_status transposed_size(int64_t size, const conv_window *w, int64_t *out) {
  int64_t spread, covered;
  *out = DIM_UNKNOWN;
  if (w->output_padding >= w->stride && w->output_padding >= w->dilation)
    return INVALID("output_padding: expected less than stride %lld or dilation %lld, got %lld",
                   (long long)w->stride, (long long)w->dilation, (long long)w->output_padding);
  TRY(covered_size(w, &covered));
  if (size == DIM_UNKNOWN || covered == DIM_UNKNOWN) return NULL;
  if (!mul_i64(size - 1, w->stride, &spread) || !add_i64(spread, covered, &spread) ||
      !add_i64(spread, w->output_padding, &spread))
    return INVALID("size %lld is too large", (long long)size);
  if (spread < 2 * w->padding + 1)
    return INVALID("padding is %lld, which leaves nothing of the size %lld", (long long)w->padding,
                   (long long)spread);
  *out = spread - 2 * w->padding;
  return NULL;
}

static clave_status check_ranks(const rule_context *c, uint32_t x_id, uint32_t weight) {
  const tensor *x = rule_tensor(c, x_id), *w = rule_tensor(c, weight);
  if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
    return INVALID("x: expected rank 3 to %d, got %d", 2 + MAX_SPATIAL, x->rank);
  if (w->rank == x->rank) return NULL;
  return INVALID("weight: expected rank %d like x, got %d", x->rank, w->rank);
}

/* Of an encoded weight. */
static clave_status check_codes(const tensor *x, const tensor *w) {
  if (!dtype_is_float(x->type) || x->type == DTYPE_F64)
    return INVALID("x: expected F32, F16 or BF16 as weight is encoded, got %s",
                   dtype_name(x->type));
  if (w->encoding.axis == 1) return NULL;
  return INVALID("weight: expected encoded rows along axis 1, got axis %d", w->encoding.axis);
}

static clave_status check_operands(const rule_context *c, uint32_t x_id, uint32_t weight) {
  const tensor *x = rule_tensor(c, x_id), *w = rule_tensor(c, weight);
  TRY(check_not_bool(c, x_id, "x"));
  if (w->encoding.kind)
    TRY(check_codes(x, w));
  else if (w->type != x->type)
    return INVALID("weight: expected %s like x, got %s", dtype_name(x->type), dtype_name(w->type));
  return check_ranks(c, x_id, weight);
}

/* `divided`: the weight's channels that all groups share, dims[0]. */
static clave_status check_groups(int32_t groups, int64_t divided) {
  if (groups < 1) return INVALID("groups: expected at least 1, got %d", groups);
  if (divided == DIM_UNKNOWN || divided % groups == 0) return NULL;
  return INVALID("groups: expected a divisor of the weight's %lld channels, got %d",
                 (long long)divided, groups);
}

/* per_group * groups, DIM_UNKNOWN as per_group. */
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

/* Backends lay out what a kernel sees of x, its padding and what strides spread too: of sizes that
 * they can multiply by 8 for each dimension and by the bytes of an element. */
static clave_status check_extent(const tensor *x, const tensor *out, const ir_i32s *padding) {
  const int64_t most = INT64_MAX >> 12;
  int64_t elements = 1;
  for (int i = 0; i < x->rank; i++) {
    int64_t n = x->dims[i];
    bool fits = true;
    if (n == DIM_UNKNOWN || (i >= 2 && out->dims[i] == DIM_UNKNOWN)) continue;
    if (i >= 2)
      fits = add_i64(n, out->dims[i], &n) && add_i64(n, 2 * (int64_t)padding->items[i - 2], &n);
    if (n == 0) continue;
    if (!fits || !mul_i64(elements, n, &elements) || elements > most)
      return INVALID("x with its padding: expected at most %lld elements, got more",
                     (long long)most);
  }
  return NULL;
}

static clave_status rule_sums(const rule_context *c, const ir_conv *o, dtype bias, dtype out) {
  const tensor *x = rule_tensor(c, o->x), *w = rule_tensor(c, o->weight);
  int n = x->rank - 2;
  int64_t channels;
  TRY(check_optional(c, o->bias, "bias", bias, 1, &w->dims[0]));
  TRY(check_windows(&o->stride, &o->padding, &o->dilation, n));
  TRY(check_groups(o->groups, w->dims[0]));
  TRY(count_channels(w->dims[1], o->groups, &channels));
  TRY(check_input_channels(x->dims[1], channels));
  tensor want = {.type = out, .rank = x->rank, .dims = {x->dims[0], w->dims[0]}};
  for (int i = 0; i < n; i++) {
    conv_window v = {w->dims[2 + i], o->stride.items[i], o->padding.items[i], o->dilation.items[i],
                     0};
    TRY(status_while(conv_size(x->dims[2 + i], &v, &want.dims[2 + i]), "spatial dimension %d", i));
  }
  TRY(check_extent(x, &want, &o->padding));
  return rule_expect_like(c, o->out, "out", &want);
}

clave_status rule_conv(const rule_context *c, const void *op) {
  const ir_conv *o = op;
  TRY(check_operands(c, o->x, o->weight));
  const dtype type = rule_tensor(c, o->x)->type;
  return rule_sums(c, o, type, type);
}

/* Its fields that Conv has, too. */
static ir_conv as_conv(const ir_conv_integer *o) {
  return (ir_conv){.x = o->x,
                   .weight = o->weight,
                   .bias = o->bias,
                   .stride = o->stride,
                   .padding = o->padding,
                   .dilation = o->dilation,
                   .groups = o->groups,
                   .out = o->out};
}

clave_status rule_conv_integer(const rule_context *c, const void *op) {
  const ir_conv_integer *o = op;
  const ir_conv sums = as_conv(o);
  dtype x = rule_tensor(c, o->x)->type, w = rule_tensor(c, o->weight)->type;
  if (x != DTYPE_I8 && x != DTYPE_U8) return INVALID("x: expected I8 or U8, got %s", dtype_name(x));
  if (w != DTYPE_I8) return INVALID("weight: expected I8, got %s", dtype_name(w));
  TRY(check_ranks(c, o->x, o->weight));
  if (!int_fits(x, o->padding_value))
    return INVALID("padding_value %d does not fit %s", o->padding_value, dtype_name(x));
  return rule_sums(c, &sums, DTYPE_I32,
                   o->epilogue.count ? rule_tensor(c, o->out)->type : DTYPE_I32);
}

clave_status rule_conv_transpose(const rule_context *c, const void *op) {
  const ir_conv_transpose *o = op;
  TRY(check_operands(c, o->x, o->weight));
  const tensor *x = rule_tensor(c, o->x), *w = rule_tensor(c, o->weight);
  int n = x->rank - 2;
  int64_t outputs;
  TRY(check_windows(&o->stride, &o->padding, &o->dilation, n));
  TRY(check_spatial(&o->output_padding, "output_padding", n, 0));
  TRY(check_groups(o->groups, w->dims[0]));
  TRY(check_input_channels(x->dims[1], w->dims[0]));
  TRY(count_channels(w->dims[1], o->groups, &outputs));
  TRY(check_optional(c, o->bias, "bias", x->type, 1, &outputs));
  tensor want = {.type = x->type, .rank = x->rank, .dims = {x->dims[0], outputs}};
  for (int i = 0; i < n; i++) {
    conv_window v = {w->dims[2 + i], o->stride.items[i], o->padding.items[i], o->dilation.items[i],
                     o->output_padding.items[i]};
    TRY(status_while(transposed_size(x->dims[2 + i], &v, &want.dims[2 + i]), "spatial dimension %d",
                     i));
  }
  TRY(check_extent(x, &want, &o->padding));
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

static void describe_dims(conv_form *f, const ir_i32s *strides, const ir_i32s *paddings,
                          const ir_i32s *dilations) {
  int n = f->x->t.rank - 2;
  int64_t in[SPATIAL_DIMS], out[SPATIAL_DIMS], kernel[SPATIAL_DIMS];
  int64_t stride[SPATIAL_DIMS], padding[SPATIAL_DIMS], dilation[SPATIAL_DIMS];
  align_dims(&f->x->t, n, in);
  align_dims(&f->out->t, n, out);
  align_dims(&f->weight->t, n, kernel);
  align_right(strides, n, 1, stride);
  align_right(paddings, n, 0, padding);
  align_right(dilations, n, 1, dilation);
  for (int i = 0; i < SPATIAL_DIMS; i++) {
    conv_dim d = {in[i], out[i], kernel[i], stride[i], padding[i], dilation[i], 1, 1};
    if (f->transposed) {
      d.phases = d.stride < d.out ? d.stride : d.out;
      d.tap_step = d.stride / common_divisor(d.stride, d.dilation);
    }
    f->dims[i] = d;
  }
}

static void describe_channels(conv_form *f) {
  f->images = f->x->t.dims[0];
  f->channels = f->x->t.dims[1] / f->groups;
  f->outputs = f->out->t.dims[1] / f->groups;
}

static void describe_sums(const node *n, const ir_conv *op, conv_form *f) {
  *f = (conv_form){.x = &n->tensors[op->x],
                   .weight = &n->tensors[op->weight],
                   .bias = operand_of(n, op->bias),
                   .out = &n->tensors[op->out],
                   .type = program_type(n, op->x),
                   .groups = op->groups};
  describe_channels(f);
  describe_dims(f, &op->stride, &op->padding, &op->dilation);
}

void describe_conv(const node *n, conv_form *f) { describe_sums(n, n->instruction->op, f); }

void describe_conv_integer(const node *n, conv_form *f) {
  const ir_conv_integer *op = n->instruction->op;
  const ir_conv sums = as_conv(op);
  describe_sums(n, &sums, f);
  f->padding_value = op->padding_value;
}

void describe_conv_transpose(const node *n, conv_form *f) {
  const ir_conv_transpose *op = n->instruction->op;
  *f = (conv_form){.x = &n->tensors[op->x],
                   .weight = &n->tensors[op->weight],
                   .bias = operand_of(n, op->bias),
                   .out = &n->tensors[op->out],
                   .type = program_type(n, op->x),
                   .transposed = true,
                   .groups = op->groups};
  describe_channels(f);
  describe_dims(f, &op->stride, &op->padding, &op->dilation);
}

/* ---------------------------------------------------------------- Winograd's method */

/* From so many channels on tiles keep to the bound that direct sums have (test_cpu_winograd.c),
 * which grows faster with the channels than what they are off by. */
enum { LEAST_CHANNELS = 64, LEAST_OUTPUTS = 16 };

static bool is_side(const conv_dim *d) {
  return d->kernel == 3 && d->stride == 1 && d->dilation == 1;
}

bool conv_takes_winograd(const conv_form *f) {
  return f->weight->is_constant && f->type == DTYPE_F32 && !f->transposed &&
         conv_dim_is_absent(&f->dims[0]) && is_side(&f->dims[1]) && is_side(&f->dims[2]) &&
         f->channels >= LEAST_CHANNELS && f->outputs >= LEAST_OUTPUTS;
}

/* By the images' sizes alone, not by how many there are, so that their number asks for no other
 * form of the weight. Tiles of 4 multiply 36 times for 16 outputs, where tiles of 2 do 64 times,
 * but the weight is 4 times as large as the plain one then, in place of 16 / 9 times, and must be
 * read for few tiles. In a line most of a tile is beyond the image. */
int conv_winograd_tile(const conv_form *f) {
  enum { SMALL_IMAGE = 14 * 14 };
  const int64_t rows = f->dims[1].out, columns = f->dims[2].out;
  const int64_t side = rows < columns ? rows : columns;
  if (side <= 1) return 0;
  return side <= 2 || rows * columns <= SMALL_IMAGE ? 2 : 4;
}

/* Sizes of the three dimensions, a field of conv_dim. */
static void add_sizes(tuning_key *k, const char *name, const conv_form *f, size_t field) {
  char value[80];
  int64_t n[SPATIAL_DIMS];
  for (int i = 0; i < SPATIAL_DIMS; i++)
    memcpy(&n[i], (const char *)&f->dims[i] + field, sizeof n[i]);
  (void)snprintf(value, sizeof value, "%" PRId64 "x%" PRId64 "x%" PRId64, n[0], n[1], n[2]);
  tuning_key_text(k, name, value);
}

void add_conv_key(tuning_key *k, const conv_form *f) {
  if (!k->is_wanted) return;
  tuning_key_text(k, f->transposed ? "transposed" : "x", dtype_name(f->type));
  tuning_key_text(k, "weight", dtype_name(f->weight->t.type));
  tuning_key_encoding(k, "encoding", &f->weight->t.encoding);
  tuning_key_int(k, "images", f->images);
  tuning_key_int(k, "groups", f->groups);
  tuning_key_int(k, "channels", f->channels);
  tuning_key_int(k, "outputs", f->outputs);
  add_sizes(k, "in", f, offsetof(conv_dim, in));
  add_sizes(k, "out", f, offsetof(conv_dim, out));
  add_sizes(k, "kernel", f, offsetof(conv_dim, kernel));
  add_sizes(k, "stride", f, offsetof(conv_dim, stride));
  add_sizes(k, "dilation", f, offsetof(conv_dim, dilation));
  tuning_key_int(k, "constant", f->weight->is_constant);
}
