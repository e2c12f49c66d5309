/* Pool and AdaptivePool over one to three spatial dimensions. */
#include "ops/pool.h"

#include "ops/rule_checks.h"

static clave_status check_input(const rule_context *c, uint32_t x_id, ir_pool_kind kind) {
  const tensor *x = rule_tensor(c, x_id);
  if ((uint32_t)kind >= IR_POOL_KIND_COUNT)
    return INVALID("pool kind %u is unknown", (uint32_t)kind);
  if (x->rank < 3 || x->rank > 5) return INVALID("x: expected rank 3 to 5, got %d", x->rank);
  return check_not_bool(c, x_id, "x");
}

static clave_status check_indices(const rule_context *c, uint32_t indices, ir_pool_kind kind,
                                  const tensor *out) {
  if (indices == IR_NONE) return NULL;
  if (kind != IR_POOL_KIND_MAX) return INVALID("average pooling has no indices");
  return rule_expect(c, indices, "indices", DTYPE_I64, out->rank, out->dims);
}

/* The attributes of one spatial dimension. */
typedef struct pool_window {
  int64_t kernel, stride, padding, dilation;
  bool ceil_mode;
} pool_window;

/* torch's rule: with ceil_mode the last window may hang over the end, but must start inside the
 * input or the left padding. The attributes have 32 bits, so only the size can overflow. */
static clave_status pool_size(int64_t size, const pool_window *w, int64_t *out) {
  if (w->padding > w->kernel / 2) {
    return INVALID("padding: expected at most half of the kernel %lld, got %lld",
                   (long long)w->kernel, (long long)w->padding);
  }
  *out = DIM_UNKNOWN;
  if (size == DIM_UNKNOWN) return NULL;
  int64_t spare = w->ceil_mode ? w->stride - 1 : 0, padded, n;
  if (!add_i64(size, 2 * w->padding + spare, &padded))
    return INVALID("size %lld is too large", (long long)size);
  n = padded - w->dilation * (w->kernel - 1) - 1; /* what the first window leaves */
  if (n < 0) return INVALID("window does not fit the size %lld", (long long)size);
  n = n / w->stride + 1;
  if (w->ceil_mode && (n - 1) * w->stride >= size + w->padding) n--;
  if (n < 1) return INVALID("no window fits the size %lld", (long long)size);
  *out = n;
  return NULL;
}

static clave_status check_attributes(const ir_pool *o, int n) {
  TRY(check_spatial(&o->kernel, "kernel", n, 1));
  TRY(check_spatial(&o->stride, "stride", n, 1));
  TRY(check_spatial(&o->padding, "padding", n, 0));
  TRY(check_spatial(&o->dilation, "dilation", n, 1));
  if (o->kind == IR_POOL_KIND_MAX)
    return o->divisor.present ? INVALID("max pooling has no divisor") : NULL;
  if (o->divisor.present && o->divisor.value == 0) return INVALID("divisor is 0");
  for (int i = 0; i < n; i++) {
    if (o->dilation.items[i] != 1)
      return INVALID("dilation: expected 1 for average pooling, got %d", o->dilation.items[i]);
  }
  return NULL;
}

clave_status rule_pool(const rule_context *c, const void *op) {
  const ir_pool *o = op;
  TRY(check_input(c, o->x, o->kind));
  tensor want = *rule_tensor(c, o->x);
  int n = want.rank - 2;
  TRY(check_attributes(o, n));
  for (int i = 0; i < n; i++) {
    pool_window w = {o->kernel.items[i], o->stride.items[i], o->padding.items[i],
                     o->dilation.items[i], o->ceil_mode};
    TRY(status_while(pool_size(want.dims[2 + i], &w, &want.dims[2 + i]), "spatial dimension %d",
                     i));
  }
  TRY(rule_expect_like(c, o->out, "out", &want));
  return check_indices(c, o->indices, o->kind, &want);
}

clave_status rule_adaptive_pool(const rule_context *c, const void *op) {
  const ir_adaptive_pool *o = op;
  TRY(check_input(c, o->x, o->kind));
  const tensor *x = rule_tensor(c, o->x);
  tensor want = *rule_tensor(c, o->out);
  if (want.rank != x->rank)
    return INVALID("out: expected rank %d like x, got %d", x->rank, want.rank);
  for (int i = 0; i < x->rank; i++) {
    if (i < 2)
      want.dims[i] = x->dims[i];
    else if (x->dims[i] == 0)
      return INVALID("spatial dimension %d is empty", i - 2);
  }
  want.type = x->type;
  TRY(rule_expect_like(c, o->out, "out", &want));
  return check_indices(c, o->indices, o->kind, rule_tensor(c, o->out));
}

/* ---------------------------------------------------------------- descriptions */

static pool_form planes_form(const node *n, uint32_t x, uint32_t out, uint32_t indices,
                             ir_pool_kind kind) {
  pool_form f = {.x = &n->tensors[x],
                 .out = &n->tensors[out],
                 .indices = operand_of(n, indices),
                 .type = program_type(n, x),
                 .average = kind == IR_POOL_KIND_AVG};
  int spatial = f.x->t.rank - 2;
  f.planes = count_dims(&f.x->t, 0, 2);
  align_dims(&f.x->t, spatial, f.in);
  align_dims(&f.out->t, spatial, f.size);
  return f;
}

void describe_pool(const node *n, pool_form *f) {
  const ir_pool *op = n->instruction->op;
  *f = planes_form(n, op->x, op->out, op->indices, op->kind);
  int spatial = f->x->t.rank - 2;
  align_right(&op->kernel, spatial, 1, f->kernel);
  align_right(&op->stride, spatial, 1, f->stride);
  align_right(&op->padding, spatial, 0, f->padding);
  align_right(&op->dilation, spatial, 1, f->dilation);
  f->count_include_pad = op->count_include_pad;
  f->divisor = op->divisor.present ? op->divisor.value : 0;
}

void describe_adaptive_pool(const node *n, pool_form *f) {
  const ir_adaptive_pool *op = n->instruction->op;
  *f = planes_form(n, op->x, op->out, op->indices, op->kind);
}

static int64_t volume(const int64_t sizes[SPATIAL_DIMS]) { return sizes[0] * sizes[1] * sizes[2]; }

bool pool_is_mean(const pool_form *f) {
  return f->average && f->type == DTYPE_F32 && volume(f->size) == 1 && volume(f->in) > 0;
}
