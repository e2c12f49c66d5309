/* Attention: brings all operands to one rank and the mask to the scores' shape. With a cache: rows
 * are stored, then attended to; where a ring has no room for all of them, piece by piece. */
#include "backend/cpu/kernels/attention.h"

#include <math.h>

#include "backend/cpu/kernels/rows.h"
#include "cpu_ops.h"

/* t with leading dimensions of 1 up to `rank`. */
static ktensor raise_rank(ktensor t, int rank) {
  int grow = rank - t.rank;
  for (int d = rank - 1; d >= 0; d--) {
    t.dims[d] = d >= grow ? t.dims[d - grow] : 1;
    t.strides[d] = d >= grow ? t.strides[d - grow] : 0;
  }
  t.rank = rank;
  return t;
}

clave_status cpu_attention(cpu_stream *s, const node *n) {
  const ir_attention *op = n->instruction->op;
  ktensor q = cpu_tensor(n, op->q), k = cpu_tensor(n, op->k), v = cpu_tensor(n, op->v),
          out = cpu_tensor(n, op->out), mask;
  int rank = q.rank > 3 ? q.rank : 3;
  q = raise_rank(q, rank);
  k = raise_rank(k, rank);
  v = raise_rank(v, rank);
  attention p = {.q = &q, .k = &k, .v = &v, .out = &out, .causal = op->causal};
  p.n_keys = k.dims[rank - 2];
  p.masked = op->masked.present ? op->masked.value : -INFINITY;
  p.empty = op->masked.present ? NAN : 0;
  p.scale = op->scale.present ? op->scale.value : 1 / sqrt((double)q.dims[rank - 1]);
  if (op->mask != IR_NONE) {
    const bound_tensor *b = &n->tensors[op->mask];
    tensor scores = {.rank = rank};
    for (int d = 0; d < rank; d++) scores.dims[d] = q.dims[d];
    scores.dims[rank - 1] = k.dims[rank - 2];
    tensor t = cpu_broadcast(b, &scores);
    mask = cpu_bound_view(b, &t);
    p.mask = &mask;
  }
  return cpu_done(kernel_attention(&s->kernel, &p));
}

/* ---------------------------------------------------------------- with a cache */

typedef struct cached {
  const ir_attention_cached *op;
  ktensor q, k, v, out, keys, values, key_scale, value_scale;
  bool has_scales;
  int64_t position, window; /* window: 0 without */
} cached;

/* (B, n_kv, C) as (B, n_kv, C, 1). */
static ktensor scale_of(const node *n, uint32_t tid) {
  ktensor t = cpu_tensor(n, tid);
  t.dims[t.rank] = 1;
  t.strides[t.rank++] = 1;
  return t;
}

static cached read_cached(const node *n) {
  const ir_attention_cached *op = n->instruction->op;
  cached c = {.op = op,
              .q = cpu_tensor(n, op->q),
              .k = cpu_tensor(n, op->k),
              .v = cpu_tensor(n, op->v),
              .out = cpu_tensor(n, op->out),
              .keys = cpu_tensor(n, op->key_cache_out),
              .values = cpu_tensor(n, op->value_cache_out),
              .has_scales = op->key_scale != IR_NONE,
              .window = op->window.present ? op->window.value : 0};
  if (c.has_scales) {
    c.key_scale = scale_of(n, op->key_scale_out);
    c.value_scale = scale_of(n, op->value_scale_out);
  }
  c.position = *(const int64_t *)cpu_tensor(n, op->position).data;
  return c;
}

/* Rows [first, first + n) of a (B, heads, L, size). */
static ktensor rows_from(ktensor t, int64_t first, int64_t n) {
  t.data = element_at(t.data, t.type, first * t.strides[2]);
  t.dims[2] = n;
  return t;
}

static clave_status attend_piece(cpu_stream *s, const cached *c, int64_t first, int64_t n) {
  int64_t at = c->position + first, size = c->keys.dims[2];
  int64_t start = c->window && at >= c->window ? at - c->window + 1 : 0;
  ktensor q = rows_from(c->q, first, n), k = rows_from(c->k, first, n),
          v = rows_from(c->v, first, n), out = rows_from(c->out, first, n);
  const ktensor *k_scale = c->has_scales ? &c->key_scale : NULL,
                *v_scale = c->has_scales ? &c->value_scale : NULL;
  kernel_attention_store(&s->kernel, &k, at, &c->keys, k_scale);
  kernel_attention_store(&s->kernel, &v, at, &c->values, v_scale);
  attention p = {.q = &q, .k = &c->keys, .v = &c->values, .out = &out, .causal = true};
  p.k_scale = k_scale;
  p.v_scale = v_scale;
  p.before = at - start;
  p.n_keys = p.before + n;
  p.first_row = start % size;
  p.window = c->window;
  p.scale = c->op->scale.present ? c->op->scale.value : 1 / sqrt((double)q.dims[3]);
  p.softcap = c->op->softcap.present ? c->op->softcap.value : 0;
  bool good = kernel_attention(&s->kernel, &p);
  cpu_free_scratch(s);
  return cpu_done(good);
}

clave_status cpu_attention_cached(cpu_stream *s, const node *n) {
  cached c = read_cached(n);
  int64_t rows = c.q.dims[2], size = c.keys.dims[2];
  int64_t last = c.window ? INT64_MAX - size : size;
  if (c.position < 0 || c.position > last - rows) {
    kernel_fault_set(&s->fault, KERNEL_FAULT_ROWS, c.position, rows, size);
    return NULL;
  }
  int64_t room = c.window ? size - c.window + 1 : rows; /* what does not overwrite keys in use */
  for (int64_t first = 0; first < rows; first += room)
    TRY(attend_piece(s, &c, first, rows - first < room ? rows - first : room));
  return NULL;
}
