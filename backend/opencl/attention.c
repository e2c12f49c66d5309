/* Attention: kernels_cl/attention*.cl. Chooses the class of head sizes, and splits the keys where
 * there are few rows. With a cache: rows are stored, then attended to; where a ring has no room for
 * all of them, piece by piece. */
#include <math.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { SPLIT_KEYS = 128, LARGEST_CLASS = 256, FEW_ROWS = 8, FEW_ITEMS = 3 };

/* What attention over a cache adds. */
typedef struct cache_operands {
  const bound_tensor *k, *v, *position; /* k, v: the new rows */
  int64_t window, total, skip; /* window: 0 without; rows [skip, skip + n_queries) of total */
} cache_operands;

typedef struct attention {
  bound_tensor q, k, v, out; /* of a cache: k and v are the caches */
  const bound_tensor *mask, *k_scale, *v_scale;
  const cache_operands *cache; /* NULL without */
  tensor mask_view;            /* mask broadcast to (*, n_heads, n_queries, n_keys) */
  int64_t n_batch, n_kv, share, n_queries, n_keys, head_dim, v_dim;
  int64_t items, n_splits;
  int width, rows;     /* rows: of a work-item */
  bool causal, by_row; /* by_row: attention_row */
  bool empty_nan;      /* a row of scores -inf gives NaN */
  double scale, masked, softcap;
} attention;

/* Private arrays come in few sizes: the kernel's key must not depend on shapes. */
static int size_class(int64_t n) { return n <= 64 ? 64 : n <= 128 ? 128 : LARGEST_CLASS; }
/* One token's heads that share keys, for one program at all lengths. */
static int rows_class(int64_t share) { return share > 4 ? 8 : share > 2 ? 4 : share > 1 ? 2 : 1; }

static void choose_splits(const cl_recorder *s, attention *a) {
  const device_traits *t = recorder_traits(s);
  int64_t wanted = (int64_t)t->compute_units * (t->is_cpu ? 2 : 256);
  int64_t splits = a->items >= wanted ? 1 : wanted / max_i64(a->items, 1);
  a->n_splits = max_i64(min_i64(splits, a->n_keys / SPLIT_KEYS), 1);
}

/* Everything that follows from the operands. */
static void choose_shape(const cl_recorder *s, attention *a) {
  const tensor *q = &a->q.t, *k = &a->k.t;
  int r = q->rank;
  tensor batch = take_dims(q, 0, r - 3);
  a->n_batch = tensor_numel(&batch);
  a->n_kv = k->dims[r - 3];
  a->share = a->n_kv ? q->dims[r - 3] / a->n_kv : 0;
  a->n_queries = q->dims[r - 2];
  a->n_keys = k->dims[r - 2];
  a->head_dim = q->dims[r - 1];
  a->v_dim = a->v.t.dims[r - 1];
  a->width = recorder_traits(s)->is_cpu ? 16 : 1;
  int64_t rows = a->share * a->n_queries;
  int few = rows_class(a->share);
  a->by_row = a->width > 1 && rows <= FEW_ROWS && ceil_div(rows, few) <= FEW_ITEMS &&
              max_i64(a->head_dim, a->v_dim) <= LARGEST_CLASS;
  a->rows = a->by_row ? few : a->width;
  a->items = a->n_batch * a->n_kv * ceil_div(rows, a->rows);
  choose_splits(s, a);
}

static double scale_of(const ir_opt_f64 *scale, int64_t head_dim) {
  return scale->present ? scale->value : 1 / sqrt((double)head_dim);
}

static attention read_attention(const cl_recorder *s, const node *n) {
  const ir_attention *op = n->instruction->op;
  attention a = {.q = n->tensors[op->q],
                 .k = n->tensors[op->k],
                 .v = n->tensors[op->v],
                 .out = n->tensors[op->out],
                 .mask = operand_of(n, op->mask),
                 .causal = op->causal};
  choose_shape(s, &a);
  a.scale = scale_of(&op->scale, a.head_dim);
  a.masked = op->masked.present ? op->masked.value : -INFINITY;
  a.empty_nan = op->masked.present && a.n_keys > 0;
  if (a.mask) {
    tensor scores = a.q.t;
    scores.dims[scores.rank - 1] = a.n_keys;
    tensor_broadcast(&a.mask->t, scores.rank, scores.dims, &a.mask_view);
  }
  return a;
}

/* Strides of all but the last dimension, innermost first. */
static arg_index8 row_strides(const tensor *t) {
  tensor rows = take_dims(t, 0, t->rank > 0 ? t->rank - 1 : 0);
  return strides_arg(&rows);
}

/* How many rows there are of the queries in all pieces. */
static int64_t count_rows(const attention *a) { return a->cache ? a->cache->total : a->n_queries; }

static attention_params arguments_of(const attention *a) {
  const cache_operands *c = a->cache;
  const tensor *mask = &a->mask_view;
  tensor batch = take_dims(&a->q.t, 0, a->q.t.rank - 3);
  return (attention_params){.q = buffer_arg(&a->q),
                            .k = buffer_arg(&a->k),
                            .v = buffer_arg(&a->v),
                            .mask = optional_arg(a->mask),
                            .out = buffer_arg(&a->out),
                            .parts = a->n_splits > 1 ? scratch_arg(0) : absent_arg(),
                            .k_scale = optional_arg(a->k_scale),
                            .v_scale = optional_arg(a->v_scale),
                            .position = optional_arg(c ? c->position : NULL),
                            .batch_dims = dims_arg(&batch),
                            .q_strides = row_strides(&a->q.t),
                            .k_strides = row_strides(&a->k.t),
                            .v_strides = row_strides(&a->v.t),
                            .mask_strides = row_strides(mask),
                            .mask_step = a->mask ? mask->strides[mask->rank - 1] : 0,
                            .items = a->items,
                            .n_kv = a->n_kv,
                            .share = a->share,
                            .n_queries = a->n_queries,
                            .n_keys = a->n_keys,
                            .head_dim = a->head_dim,
                            .v_dim = a->v_dim,
                            .n_splits = a->n_splits,
                            .out_rows = count_rows(a),
                            .skip = c ? c->skip : 0,
                            .window = c ? c->window : 0,
                            .scale = a->scale,
                            .masked = a->masked,
                            .softcap = a->softcap};
}

static void launch_types(launch *l, const attention *a) {
  launch_dtype(l, "X_TYPE", a->q.t.type);
  launch_dtype(l, "KEY_TYPE", a->k.t.type);
  launch_compute(l, a->q.t.type);
  launch_define(l, "CACHED", a->cache != NULL);
  launch_define(l, "WINDOWED", a->cache && a->cache->window > 0);
}

static clave_status launch_attention(cl_recorder *s, const node *n, const attention *a) {
  int v_max = size_class(a->v_dim);
  dtype mask_type = a->mask ? a->mask->t.type : DTYPE_BOOL;
  launch l;
  launch_begin(&l, s, n);
  launch_types(&l, a);
  launch_dtype(&l, "MASK_TYPE", mask_type);
  launch_define(&l, "W", a->width);
  launch_define(&l, "ROWS", a->rows);
  launch_define(&l, "MASK", !a->mask ? 0 : mask_type == DTYPE_BOOL ? 1 : 2);
  launch_define(&l, "CAUSAL", a->causal);
  launch_define(&l, "SOFTCAP", a->softcap > 0);
  launch_define(&l, "EMPTY_NAN", a->empty_nan);
  launch_define(&l, "Q_MAX", a->head_dim > LARGEST_CLASS ? 0 : size_class(a->head_dim));
  launch_define(&l, "V_MAX", v_max);
  launch_define(&l, "SPLIT", a->n_splits > 1);
  if (a->mask_view.rank > 0 && tensor_numel(&a->mask_view) > INT32_MAX / 2) launch_wide(&l);
  if (a->by_row)
    launch_args(&l, &(attention_row_args){.attention = arguments_of(a)});
  else
    launch_args(&l, &(attention_args){.attention = arguments_of(a)});
  size_t local = recorder_traits(s)->is_cpu ? 1 : LOCAL_SIZE;
  size_t global[3] = {(size_t)a->items, (size_t)a->n_splits, (size_t)ceil_div(a->v_dim, v_max)},
         locals[3] = {local, 1, 1};
  return launch_run(&l, 3, global, locals);
}

static clave_status launch_merge(cl_recorder *s, const node *n, const attention *a) {
  int64_t rows = a->n_batch * a->n_kv * a->share * a->n_queries;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", a->q.t.type);
  launch_compute(&l, a->q.t.type);
  launch_define(&l, "EMPTY_NAN", a->empty_nan);
  launch_args(&l, &(attention_merge_args){.parts = scratch_arg(0),
                                          .out = buffer_arg(&a->out),
                                          .n_rows = rows,
                                          .v_dim = a->v_dim,
                                          .n_splits = a->n_splits,
                                          .n_queries = a->n_queries,
                                          .out_rows = count_rows(a)});
  return launch_loops(&l, rows, 1, a->v_dim * a->n_splits * 8);
}

static clave_status attend(cl_recorder *s, const node *n, const attention *a) {
  if (a->n_splits == 1) return launch_attention(s, n, a);
  int64_t rows = a->n_batch * a->n_kv * a->share * a->n_queries;
  size_t bytes = (size_t)(rows * a->n_splits * (a->v_dim + 2)) * sizeof(double);
  TRY(recorder_scratch(s, bytes));
  TRY(launch_attention(s, n, a));
  return launch_merge(s, n, a);
}

clave_status opencl_attention(cl_recorder *s, const node *n) {
  attention a = read_attention(s, n);
  return attend(s, n, &a);
}

/* ---------------------------------------------------------------- with a cache */

/* The new rows go to the caches. Those of I8 need all of a row for its scale. */
static clave_status launch_store(cl_recorder *s, const node *n, const attention *a) {
  const cache_operands *c = a->cache;
  int64_t size = max_i64(a->head_dim, a->v_dim);
  int64_t chunk = recorder_traits(s)->is_cpu || a->k.t.type == DTYPE_I8 ? max_i64(size, 1) : 1;
  int64_t n_chunks = ceil_div(size, chunk), items = a->n_batch * a->n_kv * a->n_queries * n_chunks;
  launch l;
  launch_begin(&l, s, n);
  launch_types(&l, a);
  launch_args(&l, &(attention_store_args){.k = buffer_arg(c->k),
                                          .v = buffer_arg(c->v),
                                          .key_cache = buffer_arg(&a->k),
                                          .value_cache = buffer_arg(&a->v),
                                          .k_scale = optional_arg(a->k_scale),
                                          .v_scale = optional_arg(a->v_scale),
                                          .position = buffer_arg(c->position),
                                          .k_strides = row_strides(&c->k->t),
                                          .v_strides = row_strides(&c->v->t),
                                          .items = items,
                                          .n_chunks = n_chunks,
                                          .chunk = chunk,
                                          .n_kv = a->n_kv,
                                          .n_new = a->n_queries,
                                          .n_keys = a->n_keys,
                                          .head_dim = a->head_dim,
                                          .v_dim = a->v_dim,
                                          .total = c->total,
                                          .skip = c->skip});
  return launch_loops(&l, items, 2, chunk);
}

/* Rows [first, first + n) of t: (B, heads, L, size). */
static bound_tensor rows_from(const bound_tensor *t, int64_t first, int64_t n) {
  bound_tensor part = *t;
  part.t.offset += first * t->t.strides[2];
  part.t.dims[2] = n;
  return part;
}

static clave_status attend_piece(cl_recorder *s, const node *n, int64_t first, int64_t count) {
  const ir_attention_cached *op = n->instruction->op;
  bound_tensor k = rows_from(&n->tensors[op->k], first, count),
               v = rows_from(&n->tensors[op->v], first, count);
  cache_operands c = {.k = &k,
                      .v = &v,
                      .position = &n->tensors[op->position],
                      .window = op->window.present ? op->window.value : 0,
                      .total = n->tensors[op->q].t.dims[2],
                      .skip = first};
  attention a = {.q = rows_from(&n->tensors[op->q], first, count),
                 .k = n->tensors[op->key_cache_out],
                 .v = n->tensors[op->value_cache_out],
                 .out = rows_from(&n->tensors[op->out], first, count),
                 .k_scale = operand_of(n, op->key_scale_out),
                 .v_scale = operand_of(n, op->value_scale_out),
                 .cache = &c,
                 .causal = true};
  choose_shape(s, &a);
  a.scale = scale_of(&op->scale, a.head_dim);
  a.softcap = op->softcap.present ? op->softcap.value : 0;
  TRY(launch_store(s, n, &a));
  return attend(s, n, &a);
}

clave_status opencl_attention_cached(cl_recorder *s, const node *n) {
  const ir_attention_cached *op = n->instruction->op;
  int64_t rows = n->tensors[op->q].t.dims[2], size = n->tensors[op->key_cache].t.dims[2];
  /* What does not overwrite keys in use. */
  int64_t room = op->window.present ? size - op->window.value + 1 : rows;
  for (int64_t first = 0; first < rows; first += room)
    TRY(attend_piece(s, n, first, min_i64(room, rows - first)));
  return NULL;
}
