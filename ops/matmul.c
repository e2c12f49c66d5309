/* Matmul: batched, broadcast, with scaled bias. */
#include "ops/rule_checks.h"

static clave_status check_same_dtype(const rule_context *c, const ir_matmul *o) {
  dtype t = rule_tensor(c, o->a)->type, b = rule_tensor(c, o->b)->type;
  if (b != t) return INVALID("b is %s, expected %s as a", dtype_name(b), dtype_name(t));
  if (o->bias == IR_NONE) return NULL;
  dtype bias = rule_tensor(c, o->bias)->type;
  return bias == t ? NULL
                   : INVALID("bias is %s, expected %s as a", dtype_name(bias), dtype_name(t));
}

static clave_status check_scales(const ir_matmul *o, dtype t) {
  if (dtype_is_float(t)) return NULL;
  if (!float_fits_int(t, o->alpha))
    return INVALID("alpha %g does not fit %s", o->alpha, dtype_name(t));
  return float_fits_int(t, o->beta) ? NULL
                                    : INVALID("beta %g does not fit %s", o->beta, dtype_name(t));
}

/* bias broadcasts to out and must not widen it. */
static clave_status check_bias(const rule_context *c, uint32_t bias_id, const tensor *out) {
  if (bias_id == IR_NONE) return NULL;
  const tensor *bias = rule_tensor(c, bias_id);
  bool fits = bias->rank <= out->rank;
  for (int i = 0; fits && i < bias->rank; i++) {
    fits = bias->dims[i] == 1 || dim_matches(bias->dims[i], out->dims[out->rank - bias->rank + i]);
  }
  char a[SHAPE_TEXT], b[SHAPE_TEXT];
  if (fits) return NULL;
  return INVALID("bias %s does not broadcast to %s", tensor_shape_text(bias, a, SHAPE_TEXT),
                 tensor_shape_text(out, b, SHAPE_TEXT));
}

clave_status rule_matmul(const rule_context *c, const void *op) {
  const ir_matmul *o = op;
  TRY(check_rank_at_least(c, o->a, "a", 2));
  TRY(check_rank_at_least(c, o->b, "b", 2));
  TRY(check_not_bool(c, o->a, "a"));
  TRY(check_same_dtype(c, o));
  tensor a = *rule_tensor(c, o->a), b = *rule_tensor(c, o->b);
  TRY(check_scales(o, a.type));
  int64_t m = a.dims[a.rank - 2], ka = a.dims[a.rank - 1], kb = b.dims[b.rank - 2],
          n = b.dims[b.rank - 1];
  if (!dim_matches(ka, kb))
    return INVALID("a has %lld columns, b has %lld rows", (long long)ka, (long long)kb);
  a.rank -= 2;
  b.rank -= 2;
  TRY(status_while(rule_broadcast(&b, &a.rank, a.dims), "leading dimensions of a and b"));
  a.dims[a.rank++] = m;
  a.dims[a.rank++] = n;
  TRY(check_bias(c, o->bias, &a));
  return rule_expect_like(c, o->out, "out", &a);
}
