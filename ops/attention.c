/* Attention: scaled dot product attention with grouped heads, also over caches and pages. */
#include "ops/attention.h"

#include <math.h>

#include "ops/rule_checks.h"

/* Checks a mask, BOOL or of q's dtype, whose shape must broadcast to that of the scores, (*,
 * n_heads, Lq, Lk). */
static clave_status check_mask(const rule_context *context, uint32_t mask_id,
                               const tensor *scores) {
  if (mask_id == IR_NONE) return NULL;
  const tensor *mask = rule_tensor(context, mask_id);
  if (mask->type != DTYPE_BOOL && mask->type != scores->type) {
    return INVALID("mask: expected BOOL or %s, got %s", dtype_name(scores->type),
                   dtype_name(mask->type));
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
  return INVALID("q: expected a multiple of k's %lld heads, got %lld", (long long)n_kv,
                 (long long)n_heads);
}

clave_status rule_attention(const rule_context *context, const void *op) {
  const ir_attention *attention = op;
  TRY(check_float(context, attention->q, "q"));
  TRY(check_rank_at_least(context, attention->q, "q", 3));
  const tensor *q = rule_tensor(context, attention->q), *k = rule_tensor(context, attention->k),
               *v = rule_tensor(context, attention->v);
  int r = q->rank;
  tensor want_k = *q; /* k has q's shape except for heads and length */
  want_k.dims[r - 3] = want_k.dims[r - 2] = DIM_UNKNOWN;
  TRY(rule_expect_like(context, attention->k, "k", &want_k));
  tensor want_v = *k;
  want_v.dims[r - 1] = DIM_UNKNOWN;
  TRY(rule_expect_like(context, attention->v, "v", &want_v));
  TRY(check_heads(q->dims[r - 3], k->dims[r - 3]));
  if (attention->scale.present && !isfinite(attention->scale.value))
    return INVALID("scale: expected a finite number, got %g", attention->scale.value);
  tensor scores = *q, want = *q;
  scores.dims[r - 1] = dim_known(k->dims[r - 2], v->dims[r - 2]);
  want.dims[r - 1] = v->dims[r - 1];
  TRY(check_mask(context, attention->mask, &scores));
  return rule_expect_like(context, attention->out, "out", &want);
}

/* ---------------------------------------------------------------- with a cache */

static clave_status check_float_up_to_f32(const rule_context *context, uint32_t tid,
                                          const char *what) {
  dtype t = rule_tensor(context, tid)->type;
  if (t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16) return NULL;
  return INVALID("%s: expected F32, F16 or BF16, got %s", what, dtype_name(t));
}

/* Operands that AttentionCached and AttentionPaged share. */
typedef struct cache_operands {
  uint32_t q, k, v, out, key_cache, value_cache, key_scale, value_scale;
  uint32_t key_cache_out, value_cache_out, key_scale_out, value_scale_out, sinks;
  ir_opt_f64 scale, softcap;
} cache_operands;

#define CACHE_OPERANDS(o)                                    \
  ((cache_operands){.q = (o)->q,                             \
                    .k = (o)->k,                             \
                    .v = (o)->v,                             \
                    .out = (o)->out,                         \
                    .key_cache = (o)->key_cache,             \
                    .value_cache = (o)->value_cache,         \
                    .key_scale = (o)->key_scale,             \
                    .value_scale = (o)->value_scale,         \
                    .key_cache_out = (o)->key_cache_out,     \
                    .value_cache_out = (o)->value_cache_out, \
                    .key_scale_out = (o)->key_scale_out,     \
                    .value_scale_out = (o)->value_scale_out, \
                    .sinks = (o)->sinks,                     \
                    .scale = (o)->scale,                     \
                    .softcap = (o)->softcap})

/* Checks key_cache: (first, n_kv, any, head_dim) of a dtype that caches support. */
static clave_status check_key_cache(const rule_context *context, const cache_operands *operands,
                                    int64_t first) {
  const tensor *cache = rule_tensor(context, operands->key_cache),
               *k = rule_tensor(context, operands->k);
  if (cache->type != DTYPE_I8)
    TRY(check_float_up_to_f32(context, operands->key_cache, "key_cache"));
  tensor want = *k;
  want.type = cache->type;
  want.dims[0] = first;
  want.dims[2] = DIM_UNKNOWN;
  return rule_expect_like(context, operands->key_cache, "key_cache", &want);
}

/* Fails unless an I8 cache has scales and any other cache has none. */
static clave_status check_scale(const rule_context *context, uint32_t tid, const char *what,
                                const tensor *cache) {
  bool wanted = cache->type == DTYPE_I8;
  if (wanted != (tid != IR_NONE))
    return INVALID("%s is %s for a cache of %s", what, wanted ? "missing" : "given",
                   dtype_name(cache->type));
  return check_optional(context, tid, what, DTYPE_F32, 3, cache->dims);
}

static clave_status op_attention_check_scales(const rule_context *context,
                                              const cache_operands *operands) {
  const tensor *cache = rule_tensor(context, operands->key_cache);
  TRY(check_scale(context, operands->key_scale, "key_scale", cache));
  TRY(check_scale(context, operands->value_scale, "value_scale", cache));
  TRY(check_scale(context, operands->key_scale_out, "key_scale_out", cache));
  return check_scale(context, operands->value_scale_out, "value_scale_out", cache);
}

static clave_status check_caches(const rule_context *context, const cache_operands *operands,
                                 int64_t first) {
  TRY(check_key_cache(context, operands, first));
  const tensor *keys = rule_tensor(context, operands->key_cache),
               *v = rule_tensor(context, operands->v);
  tensor values = *keys;
  values.dims[3] = v->dims[3];
  TRY(rule_expect_like(context, operands->value_cache, "value_cache", &values));
  TRY(rule_expect_like(context, operands->key_cache_out, "key_cache_out", keys));
  TRY(rule_expect_like(context, operands->value_cache_out, "value_cache_out", &values));
  return op_attention_check_scales(context, operands);
}

/* Checks that the window, or the new rows if there is no window, fit into the cache. */
static clave_status check_capacity(const rule_context *context, const ir_attention_cached *op) {
  int64_t rows = rule_tensor(context, op->key_cache)->dims[2],
          n = rule_tensor(context, op->k)->dims[2];
  if (rows == DIM_UNKNOWN) return NULL;
  if (op->window.present && (op->window.value < 1 || op->window.value > rows))
    return INVALID("window: expected 1 to the cache's %lld rows, got %lld", (long long)rows,
                   (long long)op->window.value);
  if (op->window.present || n == DIM_UNKNOWN || n <= rows) return NULL;
  return INVALID("%lld new rows do not fit into a cache of %lld", (long long)n, (long long)rows);
}

static clave_status check_numbers(const cache_operands *operands) {
  if (operands->scale.present && !isfinite(operands->scale.value))
    return INVALID("scale: expected a finite number, got %g", operands->scale.value);
  if (operands->softcap.present &&
      !(isfinite(operands->softcap.value) && operands->softcap.value > 0))
    return INVALID("softcap: expected a finite positive number, got %g", operands->softcap.value);
  return NULL;
}

static clave_status check_position(const rule_context *context, uint32_t tid) {
  const tensor *tensor = rule_tensor(context, tid);
  bool one = true;
  for (int i = 0; i < tensor->rank; i++) one = one && dim_matches(tensor->dims[i], 1);
  if (tensor->type == DTYPE_I64 && one) return NULL;
  char is[SHAPE_TEXT];
  return INVALID("position: expected one I64, got %s %s", dtype_name(tensor->type),
                 tensor_shape_text(tensor, is, SHAPE_TEXT));
}

/* Checks q, new rows of k and v, caches with `first` as first dimension, numbers and out. */
static clave_status check_cache_operands(const rule_context *context,
                                         const cache_operands *operands, int64_t first) {
  const tensor *q = rule_tensor(context, operands->q), *k = rule_tensor(context, operands->k),
               *v = rule_tensor(context, operands->v);
  tensor want_k = *q;
  want_k.dims[1] = DIM_UNKNOWN;
  TRY(rule_expect_like(context, operands->k, "k", &want_k));
  tensor want_v = *k;
  want_v.dims[3] = DIM_UNKNOWN;
  TRY(rule_expect_like(context, operands->v, "v", &want_v));
  TRY(check_heads(q->dims[1], k->dims[1]));
  TRY(check_caches(context, operands, first));
  TRY(check_optional(context, operands->sinks, "sinks", DTYPE_F32, 1, &q->dims[1]));
  TRY(check_numbers(operands));
  tensor want = *q;
  want.dims[3] = v->dims[3];
  return rule_expect_like(context, operands->out, "out", &want);
}

static clave_status check_query(const rule_context *context, uint32_t tid) {
  TRY(check_float_up_to_f32(context, tid, "q"));
  int rank = rule_tensor(context, tid)->rank;
  return rank == 4 ? NULL : INVALID("q: expected rank 4, got %d", rank);
}

clave_status rule_attention_cached(const rule_context *context, const void *op) {
  const ir_attention_cached *attention_cached = op;
  const cache_operands all = CACHE_OPERANDS(attention_cached);
  TRY(check_query(context, attention_cached->q));
  TRY(check_position(context, attention_cached->position));
  TRY(check_cache_operands(context, &all, rule_tensor(context, attention_cached->q)->dims[0]));
  return check_capacity(context, attention_cached);
}

/* ---------------------------------------------------------------- paged caches */

static clave_status check_page_rows(const rule_context *context, uint32_t key_cache) {
  int64_t rows = rule_tensor(context, key_cache)->dims[2];
  bool fits = rows >= MIN_PAGE_ROWS && rows <= MAX_PAGE_ROWS && (rows & (rows - 1)) == 0;
  if (rows == DIM_UNKNOWN || fits) return NULL;
  return INVALID("pages: expected a power of two from %d to %d as rows, got %lld", MIN_PAGE_ROWS,
                 MAX_PAGE_ROWS, (long long)rows);
}

clave_status rule_attention_paged(const rule_context *context, const void *op) {
  const ir_attention_paged *attention_paged = op;
  const cache_operands all = CACHE_OPERANDS(attention_paged);
  TRY(check_query(context, attention_paged->q));
  const tensor *tensor = rule_tensor(context, attention_paged->q);
  const int64_t any[] = {DIM_UNKNOWN, DIM_UNKNOWN};
  if (!dim_matches(tensor->dims[0], 1))
    return INVALID("q: expected 1 batch, got %lld", (long long)tensor->dims[0]);
  TRY(check_cache_operands(context, &all, DIM_UNKNOWN));
  TRY(check_optional(context, attention_paged->position, "position", DTYPE_I64, 1,
                     &tensor->dims[2]));
  TRY(check_optional(context, attention_paged->sequence, "sequence", DTYPE_I32, 1,
                     &tensor->dims[2]));
  TRY(check_optional(context, attention_paged->page_table, "page_table", DTYPE_I32, 2, any));
  if (attention_paged->window.present && attention_paged->window.value < 1)
    return INVALID("window: expected 1 or more, got %lld",
                   (long long)attention_paged->window.value);
  return check_page_rows(context, attention_paged->key_cache);
}

/* ---------------------------------------------------------------- descriptions */

static attention_desc heads_desc(const node *node, uint32_t q, uint32_t k, uint32_t v, uint32_t out,
                                 const ir_opt_f64 *scale) {
  attention_desc desc = {.q = &node->tensors[q],
                         .k = &node->tensors[k],
                         .v = &node->tensors[v],
                         .out = &node->tensors[out]};
  int r = desc.q->tensor.rank;
  desc.n_batch = count_dims(&desc.q->tensor, 0, r - 3);
  desc.n_kv = desc.k->tensor.dims[r - 3];
  desc.share = desc.n_kv > 0 ? desc.q->tensor.dims[r - 3] / desc.n_kv : 0;
  desc.n_queries = desc.q->tensor.dims[r - 2];
  desc.n_keys = desc.k->tensor.dims[r - 2];
  desc.head_dim = desc.q->tensor.dims[r - 1];
  desc.v_dim = desc.v->tensor.dims[r - 1];
  desc.scale = scale->present ? scale->value : 1 / sqrt((double)desc.head_dim);
  return desc;
}

void describe_attention(const node *node, attention_desc *desc) {
  const ir_attention *op = node->instruction->op;
  *desc = heads_desc(node, op->q, op->k, op->v, op->out, &op->scale);
  desc->causal = op->causal;
  desc->masked = op->masked.present ? op->masked.value : -INFINITY;
  desc->empty_nan = op->masked.present && desc->n_keys > 0;
  desc->mask = operand_of(node, op->mask);
  if (!desc->mask) return;
  tensor scores = desc->q->tensor;
  scores.dims[scores.rank - 1] = desc->n_keys;
  desc->mask_view = broadcast_operand(desc->mask, &scores).tensor;
}

static attention_cached_desc cached_desc(const node *node, const cache_operands *operands,
                                         uint32_t position, const ir_opt_i64 *window) {
  attention_cached_desc desc = {
      .attention = heads_desc(node, operands->q, operands->key_cache_out, operands->value_cache_out,
                              operands->out, &operands->scale),
      .new_k = &node->tensors[operands->k],
      .new_v = &node->tensors[operands->v],
      .position = &node->tensors[position],
      .k_scale = operand_of(node, operands->key_scale_out),
      .v_scale = operand_of(node, operands->value_scale_out),
      .window = window->present ? window->value : 0,
      .softcap = operands->softcap.present ? operands->softcap.value : 0};
  desc.attention.causal = true;
  desc.attention.sinks = operand_of(node, operands->sinks);
  desc.attention.masked = -INFINITY;
  desc.max_new_rows = desc.attention.n_queries;
  return desc;
}

void describe_attention_cached(const node *node, attention_cached_desc *desc) {
  const ir_attention_cached *op = node->instruction->op;
  const cache_operands all = CACHE_OPERANDS(op);
  *desc = cached_desc(node, &all, op->position, &op->window);
  if (desc->window) desc->max_new_rows = desc->attention.n_keys - desc->window + 1;
}

void describe_attention_paged(const node *node, attention_paged_desc *desc) {
  const ir_attention_paged *op = node->instruction->op;
  const cache_operands all = CACHE_OPERANDS(op);
  *desc = (attention_paged_desc){.cached = cached_desc(node, &all, op->position, &op->window),
                                 .sequence = &node->tensors[op->sequence],
                                 .page_table = &node->tensors[op->page_table]};
  desc->n_pages = desc->cached.attention.k->tensor.dims[0];
  desc->page_rows = desc->cached.attention.k->tensor.dims[2];
  desc->n_sequences = desc->page_table->tensor.dims[0];
  desc->max_pages = desc->n_sequences > 0 ? desc->page_table->tensor.dims[1] : 0;
  desc->cached.attention.n_keys = desc->max_pages * desc->page_rows;
}
