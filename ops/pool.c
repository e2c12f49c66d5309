/* Pool and AdaptivePool over one to three spatial dimensions. */
#include "ops/pool.h"

#include "ops/rule_checks.h"

static clave_status op_pool_check_input(const rule_context *context, uint32_t x_id,
                                        ir_pool_kind kind) {
  const tensor *tensor = rule_tensor(context, x_id);
  if ((uint32_t)kind >= IR_POOL_KIND_COUNT)
    return INVALID("pool kind %u is unknown", (uint32_t)kind);
  if (tensor->rank < 3 || tensor->rank > 5)
    return INVALID("x: expected rank 3 to 5, got %d", tensor->rank);
  return check_not_bool(context, x_id, "x");
}

static clave_status op_pool_check_indices(const rule_context *context, uint32_t indices,
                                          ir_pool_kind kind, const tensor *out) {
  if (indices == IR_NONE) return NULL;
  if (kind != IR_POOL_KIND_MAX) return INVALID("average pooling has no indices");
  return rule_expect(context, indices, "indices", DTYPE_I64, out->rank, out->dims);
}

/* The attributes of one spatial dimension. */
typedef struct pool_window {
  int64_t kernel, stride, padding, dilation;
  bool ceil_mode;
} pool_window;

/* Computes the output size by torch's rule. With ceil_mode the last window may extend beyond the
 * end, but must start inside the input or the left padding. Attributes have 32 bits, so only size
 * can overflow. */
static clave_status pool_size(int64_t size, const pool_window *window, int64_t *out) {
  if (window->padding > window->kernel / 2) {
    return INVALID("padding: expected at most half of the kernel %lld, got %lld",
                   (long long)window->kernel, (long long)window->padding);
  }
  *out = DIM_UNKNOWN;
  if (size == DIM_UNKNOWN) return NULL;
  int64_t spare = window->ceil_mode ? window->stride - 1 : 0, padded, n;
  if (!add_i64(size, 2 * window->padding + spare, &padded))
    return INVALID("size %lld is too large", (long long)size);
  n = padded - window->dilation * (window->kernel - 1) - 1; /* elements after the first window */
  if (n < 0) return INVALID("window does not fit the size %lld", (long long)size);
  n = n / window->stride + 1;
  if (window->ceil_mode && (n - 1) * window->stride >= size + window->padding) n--;
  if (n < 1) return INVALID("no window fits the size %lld", (long long)size);
  *out = n;
  return NULL;
}

static clave_status op_pool_check_attributes(const ir_pool *op, int n) {
  TRY(check_spatial(&op->kernel, "kernel", n, 1));
  TRY(check_spatial(&op->stride, "stride", n, 1));
  TRY(check_spatial(&op->padding, "padding", n, 0));
  TRY(check_spatial(&op->dilation, "dilation", n, 1));
  if (op->kind == IR_POOL_KIND_MAX)
    return op->divisor.present ? INVALID("max pooling has no divisor") : NULL;
  if (op->divisor.present && op->divisor.value == 0) return INVALID("divisor is 0");
  for (int i = 0; i < n; i++) {
    if (op->dilation.items[i] != 1)
      return INVALID("dilation: expected 1 for average pooling, got %d", op->dilation.items[i]);
  }
  return NULL;
}

clave_status rule_pool(const rule_context *context, const void *op) {
  const ir_pool *pool = op;
  TRY(op_pool_check_input(context, pool->x, pool->kind));
  tensor want = *rule_tensor(context, pool->x);
  int n = want.rank - 2;
  TRY(op_pool_check_attributes(pool, n));
  for (int i = 0; i < n; i++) {
    pool_window window = {pool->kernel.items[i], pool->stride.items[i], pool->padding.items[i],
                          pool->dilation.items[i], pool->ceil_mode};
    TRY(status_while(pool_size(want.dims[2 + i], &window, &want.dims[2 + i]),
                     "spatial dimension %d", i));
  }
  TRY(rule_expect_like(context, pool->out, "out", &want));
  return op_pool_check_indices(context, pool->indices, pool->kind, &want);
}

clave_status rule_adaptive_pool(const rule_context *context, const void *op) {
  const ir_adaptive_pool *adaptive_pool = op;
  TRY(op_pool_check_input(context, adaptive_pool->x, adaptive_pool->kind));
  const tensor *x = rule_tensor(context, adaptive_pool->x);
  tensor want = *rule_tensor(context, adaptive_pool->out);
  if (want.rank != x->rank)
    return INVALID("out: expected rank %d like x, got %d", x->rank, want.rank);
  for (int i = 0; i < x->rank; i++) {
    if (i < 2)
      want.dims[i] = x->dims[i];
    else if (x->dims[i] == 0)
      return INVALID("spatial dimension %d is empty", i - 2);
  }
  want.type = x->type;
  TRY(rule_expect_like(context, adaptive_pool->out, "out", &want));
  return op_pool_check_indices(context, adaptive_pool->indices, adaptive_pool->kind,
                               rule_tensor(context, adaptive_pool->out));
}

/* ---------------------------------------------------------------- descriptions */

static pool_desc op_pool_planes_desc(const node *node, uint32_t x, uint32_t out, uint32_t indices,
                                     ir_pool_kind kind) {
  pool_desc desc = {.x = &node->tensors[x],
                    .out = &node->tensors[out],
                    .indices = operand_of(node, indices),
                    .type = program_type(node, x),
                    .average = kind == IR_POOL_KIND_AVG};
  int spatial = desc.x->tensor.rank - 2;
  desc.planes = count_dims(&desc.x->tensor, 0, 2);
  align_dims(&desc.x->tensor, spatial, desc.in);
  align_dims(&desc.out->tensor, spatial, desc.size);
  return desc;
}

void describe_pool(const node *node, pool_desc *desc) {
  const ir_pool *op = node->instruction->op;
  *desc = op_pool_planes_desc(node, op->x, op->out, op->indices, op->kind);
  int spatial = desc->x->tensor.rank - 2;
  align_right(&op->kernel, spatial, 1, desc->kernel);
  align_right(&op->stride, spatial, 1, desc->stride);
  align_right(&op->padding, spatial, 0, desc->padding);
  align_right(&op->dilation, spatial, 1, desc->dilation);
  desc->count_include_pad = op->count_include_pad;
  desc->divisor = op->divisor.present ? op->divisor.value : 0;
}

void describe_adaptive_pool(const node *node, pool_desc *desc) {
  const ir_adaptive_pool *op = node->instruction->op;
  *desc = op_pool_planes_desc(node, op->x, op->out, op->indices, op->kind);
}

static int64_t op_pool_volume(const int64_t sizes[SPATIAL_DIMS]) {
  return sizes[0] * sizes[1] * sizes[2];
}

bool pool_is_mean(const pool_desc *desc) {
  return desc->average && desc->type == DTYPE_F32 && op_pool_volume(desc->size) == 1 &&
         op_pool_volume(desc->in) > 0;
}
