/* Conv: one and two spatial dimensions. */
#include "ops/rule_checks.h"

/* (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1 */
static clave_status conv_size(int64_t size, int64_t kernel, int32_t stride, int32_t padding,
                              int32_t dilation, int64_t *out) {
  *out = DIM_UNKNOWN;
  if (kernel != DIM_UNKNOWN && kernel < 1)
    return INVALID("kernel is %lld, expected at least 1", (long long)kernel);
  if (size == DIM_UNKNOWN || kernel == DIM_UNKNOWN) return NULL;
  int64_t padded, covered;
  if (!add_i64(size, 2 * (int64_t)padding, &padded) || !mul_i64(kernel - 1, dilation, &covered) ||
      !add_i64(covered, 1, &covered)) {
    return INVALID("size %lld, padding %d and kernel %lld are too large", (long long)size, padding,
                   (long long)kernel);
  }
  if (padded < covered)
    return INVALID("kernel covers %lld, more than the padded size %lld", (long long)covered,
                   (long long)padded);
  *out = (padded - covered) / stride + 1;
  return NULL;
}

static clave_status check_operands(const rule_context *c, const ir_conv *o) {
  const tensor *x = rule_tensor(c, o->x), *w = rule_tensor(c, o->weight);
  TRY(check_float(c, o->x, "x"));
  if (w->type != x->type)
    return INVALID("weight is %s, expected %s as x", dtype_name(w->type), dtype_name(x->type));
  if (x->rank > 4)
    return UNSUPPORTED("convolution over %d spatial dimensions, only 1 and 2 are", x->rank - 2);
  if (x->rank < 3) return INVALID("x has rank %d, expected 3 or 4", x->rank);
  if (w->rank != x->rank) return INVALID("weight has rank %d, expected %d as x", w->rank, x->rank);
  return check_optional(c, o->bias, "bias", x->type, 1, &w->dims[0]);
}

static clave_status check_groups(const ir_conv *o, int64_t channels, int64_t outputs,
                                 int64_t per_group) {
  int64_t expected;
  if (o->groups < 1) return INVALID("groups is %d, expected at least 1", o->groups);
  if (outputs != DIM_UNKNOWN && outputs % o->groups != 0) {
    return INVALID("groups is %d, expected a divisor of the %lld output channels", o->groups,
                   (long long)outputs);
  }
  if (per_group == DIM_UNKNOWN) return NULL;
  if (!mul_i64(per_group, o->groups, &expected)) return INVALID("weight has too many channels");
  if (dim_matches(channels, expected)) return NULL;
  return INVALID("x has %lld channels, expected %lld (%d groups of %lld)", (long long)channels,
                 (long long)expected, o->groups, (long long)per_group);
}

clave_status rule_conv(const rule_context *c, const void *op) {
  const ir_conv *o = op;
  TRY(check_operands(c, o));
  const tensor *x = rule_tensor(c, o->x), *w = rule_tensor(c, o->weight);
  int n = x->rank - 2;
  TRY(check_spatial(&o->stride, "stride", n, 1));
  TRY(check_spatial(&o->padding, "padding", n, 0));
  TRY(check_spatial(&o->dilation, "dilation", n, 1));
  TRY(check_groups(o, x->dims[1], w->dims[0], w->dims[1]));
  tensor want = {.type = x->type, .rank = x->rank, .dims = {x->dims[0], w->dims[0]}};
  for (int i = 0; i < n; i++) {
    clave_status st = conv_size(x->dims[2 + i], w->dims[2 + i], o->stride.items[i],
                                o->padding.items[i], o->dilation.items[i], &want.dims[2 + i]);
    TRY(status_while(st, "spatial dimension %d", i));
  }
  return rule_expect_like(c, o->out, "out", &want);
}
