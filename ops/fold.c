/* Im2col and Col2im: copy the blocks under a sliding window, and add blocks to planes again. */
#include "ops/fold.h"

#include "ops/rule_checks.h"

typedef struct window_attributes {
  const ir_i32s *kernel, *stride, *padding, *dilation;
} window_attributes;

static clave_status op_fold_check_attributes(const window_attributes *attributes) {
  TRY(check_spatial(attributes->kernel, "kernel", 2, 1));
  TRY(check_spatial(attributes->stride, "stride", 2, 1));
  TRY(check_spatial(attributes->padding, "padding", 2, 0));
  return check_spatial(attributes->dilation, "dilation", 2, 1);
}

/* Counts the positions of the window along dimension d. */
static clave_status op_fold_count_positions(const window_attributes *attributes, int d,
                                            int64_t size, int64_t *out) {
  *out = DIM_UNKNOWN;
  if (size == DIM_UNKNOWN) return NULL;
  int64_t padded,
      extent = (int64_t)attributes->dilation->items[d] * (attributes->kernel->items[d] - 1) + 1;
  if (!add_i64(size, 2 * (int64_t)attributes->padding->items[d], &padded))
    return INVALID("size %lld is too large", (long long)size);
  if (padded < extent)
    return INVALID("window of %lld does not fit the padded size %lld", (long long)extent,
                   (long long)padded);
  *out = (padded - extent) / attributes->stride->items[d] + 1;
  return NULL;
}

static bool multiply_known(int64_t a, int64_t b, int64_t *out) {
  *out = DIM_UNKNOWN;
  return a == DIM_UNKNOWN || b == DIM_UNKNOWN || mul_i64(a, b, out);
}

/* Computes the shape of the blocks of planes (N, C, H, W). */
static clave_status op_fold_blocks_of(const window_attributes *attributes, const tensor *planes,
                                      tensor *blocks) {
  TRY(op_fold_check_attributes(attributes));
  if (planes->rank != 4) return INVALID("planes: expected rank 4, got %d", planes->rank);
  int64_t rows, columns,
      kernel = (int64_t)attributes->kernel->items[0] * attributes->kernel->items[1];
  TRY(op_fold_count_positions(attributes, 0, planes->dims[2], &rows));
  TRY(op_fold_count_positions(attributes, 1, planes->dims[3], &columns));
  *blocks = (tensor){.type = planes->type, .rank = 3, .dims = {planes->dims[0]}};
  if (!multiply_known(planes->dims[1], kernel, &blocks->dims[1]) ||
      !multiply_known(rows, columns, &blocks->dims[2]))
    return INVALID("the blocks have too many elements");
  return NULL;
}

clave_status rule_im2col(const rule_context *context, const void *op) {
  const ir_im2col *im2col = op;
  window_attributes attributes = {&im2col->kernel, &im2col->stride, &im2col->padding,
                                  &im2col->dilation};
  tensor blocks;
  TRY(op_fold_blocks_of(&attributes, rule_tensor(context, im2col->x), &blocks));
  return rule_expect_like(context, im2col->out, "out", &blocks);
}

clave_status rule_col2im(const rule_context *context, const void *op) {
  const ir_col2im *col2im = op;
  window_attributes attributes = {&col2im->kernel, &col2im->stride, &col2im->padding,
                                  &col2im->dilation};
  tensor blocks;
  TRY(check_not_bool(context, col2im->x, "x"));
  TRY(op_fold_blocks_of(&attributes, rule_tensor(context, col2im->out), &blocks));
  return rule_expect_like(context, col2im->x, "x", &blocks);
}

/* ---------------------------------------------------------------- descriptions */

static fold_desc window_desc(const bound_tensor *input, const bound_tensor *out,
                             const tensor *planes, const window_attributes *attributes) {
  fold_desc desc = {.x = input, .out = out, .planes = count_dims(planes, 0, 2)};
  for (int d = 0; d < 2; d++) {
    desc.size[d] = planes->dims[2 + d];
    desc.kernel[d] = attributes->kernel->items[d];
    desc.stride[d] = attributes->stride->items[d];
    desc.padding[d] = attributes->padding->items[d];
    desc.dilation[d] = attributes->dilation->items[d];
    int64_t extent = desc.dilation[d] * (desc.kernel[d] - 1) + 1;
    desc.positions[d] = (desc.size[d] + 2 * desc.padding[d] - extent) / desc.stride[d] + 1;
  }
  return desc;
}

void describe_im2col(const node *node, fold_desc *desc) {
  const ir_im2col *op = node->instruction->op;
  const bound_tensor *tensor = &node->tensors[op->x], *out = &node->tensors[op->out];
  const window_attributes attributes = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  *desc = window_desc(tensor, out, &tensor->tensor, &attributes);
}

void describe_col2im(const node *node, fold_desc *desc) {
  const ir_col2im *op = node->instruction->op;
  const bound_tensor *tensor = &node->tensors[op->x], *out = &node->tensors[op->out];
  const window_attributes attributes = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  *desc = window_desc(tensor, out, &out->tensor, &attributes);
}
