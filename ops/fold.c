/* Im2col and Col2im: the blocks that a sliding window sees, and their sum back into the planes. */
#include "ops/fold.h"

#include "ops/rule_checks.h"

typedef struct window_attributes {
  const ir_i32s *kernel, *stride, *padding, *dilation;
} window_attributes;

static clave_status check_attributes(const window_attributes *w) {
  TRY(check_spatial(w->kernel, "kernel", 2, 1));
  TRY(check_spatial(w->stride, "stride", 2, 1));
  TRY(check_spatial(w->padding, "padding", 2, 0));
  return check_spatial(w->dilation, "dilation", 2, 1);
}

/* Positions of the window along dimension d. */
static clave_status count_positions(const window_attributes *w, int d, int64_t size, int64_t *out) {
  *out = DIM_UNKNOWN;
  if (size == DIM_UNKNOWN) return NULL;
  int64_t padded, extent = (int64_t)w->dilation->items[d] * (w->kernel->items[d] - 1) + 1;
  if (!add_i64(size, 2 * (int64_t)w->padding->items[d], &padded))
    return INVALID("size %lld is too large", (long long)size);
  if (padded < extent)
    return INVALID("window of %lld does not fit the padded size %lld", (long long)extent,
                   (long long)padded);
  *out = (padded - extent) / w->stride->items[d] + 1;
  return NULL;
}

static bool multiply_known(int64_t a, int64_t b, int64_t *out) {
  *out = DIM_UNKNOWN;
  return a == DIM_UNKNOWN || b == DIM_UNKNOWN || mul_i64(a, b, out);
}

/* The blocks of planes (N, C, H, W). */
static clave_status blocks_of(const window_attributes *w, const tensor *planes, tensor *blocks) {
  TRY(check_attributes(w));
  if (planes->rank != 4) return INVALID("planes: expected rank 4, got %d", planes->rank);
  int64_t rows, columns, kernel = (int64_t)w->kernel->items[0] * w->kernel->items[1];
  TRY(count_positions(w, 0, planes->dims[2], &rows));
  TRY(count_positions(w, 1, planes->dims[3], &columns));
  *blocks = (tensor){.type = planes->type, .rank = 3, .dims = {planes->dims[0]}};
  if (!multiply_known(planes->dims[1], kernel, &blocks->dims[1]) ||
      !multiply_known(rows, columns, &blocks->dims[2]))
    return INVALID("the blocks have too many elements");
  return NULL;
}

clave_status rule_im2col(const rule_context *c, const void *op) {
  const ir_im2col *o = op;
  window_attributes w = {&o->kernel, &o->stride, &o->padding, &o->dilation};
  tensor blocks;
  TRY(blocks_of(&w, rule_tensor(c, o->x), &blocks));
  return rule_expect_like(c, o->out, "out", &blocks);
}

clave_status rule_col2im(const rule_context *c, const void *op) {
  const ir_col2im *o = op;
  window_attributes w = {&o->kernel, &o->stride, &o->padding, &o->dilation};
  tensor blocks;
  TRY(check_not_bool(c, o->x, "x"));
  TRY(blocks_of(&w, rule_tensor(c, o->out), &blocks));
  return rule_expect_like(c, o->x, "x", &blocks);
}

/* ---------------------------------------------------------------- descriptions */

static fold_form window_form(const bound_tensor *x, const bound_tensor *out, const tensor *planes,
                             const window_attributes *w) {
  fold_form f = {.x = x, .out = out, .planes = count_dims(planes, 0, 2)};
  for (int d = 0; d < 2; d++) {
    f.size[d] = planes->dims[2 + d];
    f.kernel[d] = w->kernel->items[d];
    f.stride[d] = w->stride->items[d];
    f.padding[d] = w->padding->items[d];
    f.dilation[d] = w->dilation->items[d];
    int64_t extent = f.dilation[d] * (f.kernel[d] - 1) + 1;
    f.positions[d] = (f.size[d] + 2 * f.padding[d] - extent) / f.stride[d] + 1;
  }
  return f;
}

void describe_im2col(const node *n, fold_form *f) {
  const ir_im2col *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  const window_attributes w = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  *f = window_form(x, out, &x->t, &w);
}

void describe_col2im(const node *n, fold_form *f) {
  const ir_col2im *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  const window_attributes w = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  *f = window_form(x, out, &out->t, &w);
}
