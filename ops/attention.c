/* Attention: scaled dot product with grouped heads. */
#include "ops/attention.h"

#include <math.h>

#include "ops/rule_checks.h"

/* mask: (*, n_heads, Lq, Lk) or what broadcasts to it, BOOL or q's dtype. */
static clave_status check_mask(const rule_context *c, uint32_t mask_id, const tensor *scores) {
  if (mask_id == IR_NONE) return NULL;
  const tensor *mask = rule_tensor(c, mask_id);
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
    return INVALID("scale: expected a finite number, got %g", o->scale.value);
  tensor scores = *q, want = *q;
  scores.dims[r - 1] = dim_known(k->dims[r - 2], v->dims[r - 2]);
  want.dims[r - 1] = v->dims[r - 1];
  TRY(check_mask(c, o->mask, &scores));
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- with a cache */

static clave_status check_float_up_to_f32(const rule_context *c, uint32_t tid, const char *what) {
  dtype t = rule_tensor(c, tid)->type;
  if (t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16) return NULL;
  return INVALID("%s: expected F32, F16 or BF16, got %s", what, dtype_name(t));
}

/* What ops with caches have in common. */
typedef struct cache_operands {
  uint32_t q, k, v, out, key_cache, value_cache, key_scale, value_scale;
  uint32_t key_cache_out, value_cache_out, key_scale_out, value_scale_out;
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
                    .scale = (o)->scale,                     \
                    .softcap = (o)->softcap})

/* (first, n_kv, any, head_dim) of a dtype that caches have. */
static clave_status check_key_cache(const rule_context *c, const cache_operands *o, int64_t first) {
  const tensor *cache = rule_tensor(c, o->key_cache), *k = rule_tensor(c, o->k);
  if (cache->type != DTYPE_I8) TRY(check_float_up_to_f32(c, o->key_cache, "key_cache"));
  tensor want = *k;
  want.type = cache->type;
  want.dims[0] = first;
  want.dims[2] = DIM_UNKNOWN;
  return rule_expect_like(c, o->key_cache, "key_cache", &want);
}

/* Scales are there for I8 caches, for others not. */
static clave_status check_scale(const rule_context *c, uint32_t tid, const char *what,
                                const tensor *cache) {
  bool wanted = cache->type == DTYPE_I8;
  if (wanted != (tid != IR_NONE))
    return INVALID("%s is %s for a cache of %s", what, wanted ? "missing" : "given",
                   dtype_name(cache->type));
  return check_optional(c, tid, what, DTYPE_F32, 3, cache->dims);
}

static clave_status check_scales(const rule_context *c, const cache_operands *o) {
  const tensor *cache = rule_tensor(c, o->key_cache);
  TRY(check_scale(c, o->key_scale, "key_scale", cache));
  TRY(check_scale(c, o->value_scale, "value_scale", cache));
  TRY(check_scale(c, o->key_scale_out, "key_scale_out", cache));
  return check_scale(c, o->value_scale_out, "value_scale_out", cache);
}

static clave_status check_caches(const rule_context *c, const cache_operands *o, int64_t first) {
  TRY(check_key_cache(c, o, first));
  const tensor *keys = rule_tensor(c, o->key_cache), *v = rule_tensor(c, o->v);
  tensor values = *keys;
  values.dims[3] = v->dims[3];
  TRY(rule_expect_like(c, o->value_cache, "value_cache", &values));
  TRY(rule_expect_like(c, o->key_cache_out, "key_cache_out", keys));
  TRY(rule_expect_like(c, o->value_cache_out, "value_cache_out", &values));
  return check_scales(c, o);
}

/* window, or the new rows where there is none, must fit into the cache. */
static clave_status check_room(const rule_context *c, const ir_attention_cached *o) {
  int64_t rows = rule_tensor(c, o->key_cache)->dims[2], n = rule_tensor(c, o->k)->dims[2];
  if (rows == DIM_UNKNOWN) return NULL;
  if (o->window.present && (o->window.value < 1 || o->window.value > rows))
    return INVALID("window: expected 1 to the cache's %lld rows, got %lld", (long long)rows,
                   (long long)o->window.value);
  if (o->window.present || n == DIM_UNKNOWN || n <= rows) return NULL;
  return INVALID("%lld new rows do not fit into a cache of %lld", (long long)n, (long long)rows);
}

static clave_status check_numbers(const cache_operands *o) {
  if (o->scale.present && !isfinite(o->scale.value))
    return INVALID("scale: expected a finite number, got %g", o->scale.value);
  if (o->softcap.present && !(isfinite(o->softcap.value) && o->softcap.value > 0))
    return INVALID("softcap: expected a finite positive number, got %g", o->softcap.value);
  return NULL;
}

static clave_status check_position(const rule_context *c, uint32_t tid) {
  const tensor *t = rule_tensor(c, tid);
  bool one = true;
  for (int i = 0; i < t->rank; i++) one = one && dim_matches(t->dims[i], 1);
  if (t->type == DTYPE_I64 && one) return NULL;
  char is[SHAPE_TEXT];
  return INVALID("position: expected one I64, got %s %s", dtype_name(t->type),
                 tensor_shape_text(t, is, SHAPE_TEXT));
}

/* q, new rows of k and v, caches with `first` as their first dimension, numbers and the result. */
static clave_status check_cache_operands(const rule_context *c, const cache_operands *o,
                                         int64_t first) {
  const tensor *q = rule_tensor(c, o->q), *k = rule_tensor(c, o->k), *v = rule_tensor(c, o->v);
  tensor want_k = *q;
  want_k.dims[1] = DIM_UNKNOWN;
  TRY(rule_expect_like(c, o->k, "k", &want_k));
  tensor want_v = *k;
  want_v.dims[3] = DIM_UNKNOWN;
  TRY(rule_expect_like(c, o->v, "v", &want_v));
  TRY(check_heads(q->dims[1], k->dims[1]));
  TRY(check_caches(c, o, first));
  TRY(check_numbers(o));
  tensor want = *q;
  want.dims[3] = v->dims[3];
  return rule_expect_like(c, o->out, "out", &want);
}

static clave_status check_query(const rule_context *c, uint32_t tid) {
  TRY(check_float_up_to_f32(c, tid, "q"));
  int rank = rule_tensor(c, tid)->rank;
  return rank == 4 ? NULL : INVALID("q: expected rank 4, got %d", rank);
}

clave_status rule_attention_cached(const rule_context *c, const void *op) {
  const ir_attention_cached *o = op;
  const cache_operands all = CACHE_OPERANDS(o);
  TRY(check_query(c, o->q));
  TRY(check_position(c, o->position));
  TRY(check_cache_operands(c, &all, rule_tensor(c, o->q)->dims[0]));
  return check_room(c, o);
}

/* ---------------------------------------------------------------- in pages */

static clave_status check_page_rows(const rule_context *c, uint32_t key_cache) {
  int64_t rows = rule_tensor(c, key_cache)->dims[2];
  bool fits = rows >= LEAST_PAGE_ROWS && rows <= MOST_PAGE_ROWS && (rows & (rows - 1)) == 0;
  if (rows == DIM_UNKNOWN || fits) return NULL;
  return INVALID("pages: expected a power of two from %d to %d as rows, got %lld", LEAST_PAGE_ROWS,
                 MOST_PAGE_ROWS, (long long)rows);
}

clave_status rule_attention_paged(const rule_context *c, const void *op) {
  const ir_attention_paged *o = op;
  const cache_operands all = CACHE_OPERANDS(o);
  TRY(check_query(c, o->q));
  const tensor *q = rule_tensor(c, o->q);
  const int64_t any[] = {DIM_UNKNOWN, DIM_UNKNOWN};
  if (!dim_matches(q->dims[0], 1))
    return INVALID("q: expected 1 batch, got %lld", (long long)q->dims[0]);
  TRY(check_cache_operands(c, &all, DIM_UNKNOWN));
  TRY(check_optional(c, o->position, "position", DTYPE_I64, 1, &q->dims[2]));
  TRY(check_optional(c, o->sequence, "sequence", DTYPE_I32, 1, &q->dims[2]));
  TRY(check_optional(c, o->page_table, "page_table", DTYPE_I32, 2, any));
  if (o->window.present && o->window.value < 1)
    return INVALID("window: expected 1 or more, got %lld", (long long)o->window.value);
  return check_page_rows(c, o->key_cache);
}

/* ---------------------------------------------------------------- descriptions */

static attention_form heads_form(const node *n, uint32_t q, uint32_t k, uint32_t v, uint32_t out,
                                 const ir_opt_f64 *scale) {
  attention_form f = {
      .q = &n->tensors[q], .k = &n->tensors[k], .v = &n->tensors[v], .out = &n->tensors[out]};
  int r = f.q->t.rank;
  f.n_batch = count_dims(&f.q->t, 0, r - 3);
  f.n_kv = f.k->t.dims[r - 3];
  f.share = f.n_kv > 0 ? f.q->t.dims[r - 3] / f.n_kv : 0;
  f.n_queries = f.q->t.dims[r - 2];
  f.n_keys = f.k->t.dims[r - 2];
  f.head_dim = f.q->t.dims[r - 1];
  f.v_dim = f.v->t.dims[r - 1];
  f.scale = scale->present ? scale->value : 1 / sqrt((double)f.head_dim);
  return f;
}

void describe_attention(const node *n, attention_form *f) {
  const ir_attention *op = n->instruction->op;
  *f = heads_form(n, op->q, op->k, op->v, op->out, &op->scale);
  f->causal = op->causal;
  f->masked = op->masked.present ? op->masked.value : -INFINITY;
  f->empty_nan = op->masked.present && f->n_keys > 0;
  f->mask = operand_of(n, op->mask);
  if (!f->mask) return;
  tensor scores = f->q->t;
  scores.dims[scores.rank - 1] = f->n_keys;
  f->mask_view = broadcast_operand(f->mask, &scores).t;
}

static attention_cached_form cached_form(const node *n, const cache_operands *o, uint32_t position,
                                         const ir_opt_i64 *window) {
  attention_cached_form f = {
      .attention = heads_form(n, o->q, o->key_cache_out, o->value_cache_out, o->out, &o->scale),
      .new_k = &n->tensors[o->k],
      .new_v = &n->tensors[o->v],
      .position = &n->tensors[position],
      .k_scale = operand_of(n, o->key_scale_out),
      .v_scale = operand_of(n, o->value_scale_out),
      .window = window->present ? window->value : 0,
      .softcap = o->softcap.present ? o->softcap.value : 0};
  f.attention.causal = true;
  f.attention.masked = -INFINITY;
  f.room = f.attention.n_queries;
  return f;
}

void describe_attention_cached(const node *n, attention_cached_form *f) {
  const ir_attention_cached *op = n->instruction->op;
  const cache_operands all = CACHE_OPERANDS(op);
  *f = cached_form(n, &all, op->position, &op->window);
  if (f->window) f->room = f->attention.n_keys - f->window + 1;
}

void describe_attention_paged(const node *n, attention_paged_form *f) {
  const ir_attention_paged *op = n->instruction->op;
  const cache_operands all = CACHE_OPERANDS(op);
  *f = (attention_paged_form){.cached = cached_form(n, &all, op->position, &op->window),
                              .sequence = &n->tensors[op->sequence],
                              .page_table = &n->tensors[op->page_table]};
  f->n_pages = f->cached.attention.k->t.dims[0];
  f->page_rows = f->cached.attention.k->t.dims[2];
  f->n_sequences = f->page_table->t.dims[0];
  f->most_pages = f->n_sequences > 0 ? f->page_table->t.dims[1] : 0;
  f->cached.attention.n_keys = f->most_pages * f->page_rows;
}
