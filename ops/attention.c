/* Attention: scaled dot product with grouped heads. */
#include <math.h>

#include "ops/rule_checks.h"

/* mask: (*, n_heads, Lq, Lk) or what broadcasts to it, BOOL or q's dtype. */
static clave_status check_mask(const rule_context *c, uint32_t mask_id, const tensor *scores) {
  if (mask_id == IR_NONE) return NULL;
  const tensor *mask = rule_tensor(c, mask_id);
  if (mask->type != DTYPE_BOOL && mask->type != scores->type) {
    return INVALID("mask is %s, expected BOOL or %s", dtype_name(mask->type),
                   dtype_name(scores->type));
  }
  bool fits = mask->rank <= scores->rank;
  for (int i = 0; fits && i < mask->rank; i++) {
    fits = mask->dims[i] == 1 ||
           dim_matches(mask->dims[i], scores->dims[scores->rank - mask->rank + i]);
  }
  char a[SHAPE_TEXT], b[SHAPE_TEXT];
  if (fits) return NULL;
  return INVALID("mask %s does not broadcast to %s", tensor_shape_text(mask, a, SHAPE_TEXT),
                 tensor_shape_text(scores, b, SHAPE_TEXT));
}

static clave_status check_heads(int64_t n_heads, int64_t n_kv) {
  if (n_kv == 0)
    return n_heads == 0 || n_heads == DIM_UNKNOWN
               ? NULL
               : INVALID("k has no heads, q has %lld", (long long)n_heads);
  if (n_heads == DIM_UNKNOWN || n_kv == DIM_UNKNOWN || n_heads % n_kv == 0) return NULL;
  return INVALID("q has %lld heads, expected a multiple of k's %lld", (long long)n_heads,
                 (long long)n_kv);
}

clave_status rule_attention(const rule_context *c, const void *op) {
  const ir_attention *o = op;
  TRY(check_float(c, o->q, "q"));
  TRY(check_rank_at_least(c, o->q, "q", 3));
  const tensor *q = rule_tensor(c, o->q), *k = rule_tensor(c, o->k), *v = rule_tensor(c, o->v);
  int r = q->rank;
  tensor want_k = *q; /* k has q's shape but for heads and length */
  want_k.dims[r - 3] = want_k.dims[r - 2] = DIM_UNKNOWN;
  TRY(rule_expect_like(c, o->k, "k", &want_k));
  tensor want_v = *k;
  want_v.dims[r - 1] = DIM_UNKNOWN;
  TRY(rule_expect_like(c, o->v, "v", &want_v));
  TRY(check_heads(q->dims[r - 3], k->dims[r - 3]));
  if (o->scale.present && !isfinite(o->scale.value))
    return INVALID("scale is %g, expected a finite number", o->scale.value);
  tensor scores = *q, want = *q;
  scores.dims[r - 1] = dim_known(k->dims[r - 2], v->dims[r - 2]);
  want.dims[r - 1] = v->dims[r - 1];
  TRY(check_mask(c, o->mask, &scores));
  return rule_expect_like(c, o->out, "out", &want);
}
