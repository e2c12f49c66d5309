/* Attention: kernels_cl/attention.cl. Chooses the class of head sizes, and splits the keys where
 * there are few rows. */
#include <math.h>

#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { SPLIT_KEYS = 128, LARGEST_CLASS = 256, FEW_ROWS = 4 };

typedef struct attention {
  const bound_tensor *q, *k, *v, *mask, *out;
  tensor mask_view; /* mask broadcast to (*, n_heads, n_queries, n_keys) */
  int64_t n_batch, n_kv, share, n_queries, n_keys, head_dim, v_dim;
  int64_t items, n_splits, split_keys;
  int width;
  bool causal, by_row; /* by_row: attention_row */
  bool empty_nan;      /* a row of scores -inf gives NaN */
  double scale, masked;
} attention;

/* Private arrays come in few sizes: the kernel's key must not depend on shapes. */
static int size_class(int64_t n) { return n <= 64 ? 64 : n <= 128 ? 128 : LARGEST_CLASS; }

static void choose_splits(const cl_stream *s, attention *a) {
  const device_traits *t = stream_traits(s);
  int64_t wanted = (int64_t)t->compute_units * (t->is_cpu ? 2 : 256);
  int64_t splits = a->items >= wanted ? 1 : wanted / max_i64(a->items, 1);
  splits = max_i64(min_i64(splits, a->n_keys / SPLIT_KEYS), 1);
  a->split_keys = max_i64(ceil_div(a->n_keys, splits), 1);
  a->n_splits = max_i64(ceil_div(a->n_keys, a->split_keys), 1);
}

static attention read_attention(const cl_stream *s, const node *n) {
  const ir_attention *op = n->instruction->op;
  attention a = {.q = &n->tensors[op->q],
                 .k = &n->tensors[op->k],
                 .v = &n->tensors[op->v],
                 .mask = operand_of(n, op->mask),
                 .out = &n->tensors[op->out],
                 .causal = op->causal};
  const tensor *q = &a.q->t, *k = &a.k->t;
  int r = q->rank;
  tensor batch = take_dims(q, 0, r - 3);
  a.n_batch = tensor_numel(&batch);
  a.n_kv = k->dims[r - 3];
  a.share = a.n_kv ? q->dims[r - 3] / a.n_kv : 0;
  a.n_queries = q->dims[r - 2];
  a.n_keys = k->dims[r - 2];
  a.head_dim = q->dims[r - 1];
  a.v_dim = a.v->t.dims[r - 1];
  a.scale = op->scale.present ? op->scale.value : 1 / sqrt((double)a.head_dim);
  a.masked = op->masked.present ? op->masked.value : -INFINITY;
  a.empty_nan = op->masked.present && a.n_keys > 0;
  a.width = stream_traits(s)->is_cpu ? 16 : 1;
  int64_t rows = a.share * a.n_queries;
  a.by_row = a.width > 1 && rows < FEW_ROWS && max_i64(a.head_dim, a.v_dim) <= LARGEST_CLASS;
  a.items = a.n_batch * a.n_kv * (a.by_row ? rows : ceil_div(rows, a.width));
  if (a.mask) {
    tensor scores = *q;
    scores.dims[r - 1] = a.n_keys;
    tensor_broadcast(&a.mask->t, r, scores.dims, &a.mask_view);
  }
  choose_splits(s, &a);
  return a;
}

/* Strides of all but the last dimension, innermost first. */
static void launch_row_strides(launch *l, const tensor *t) {
  tensor rows = take_dims(t, 0, t->rank > 0 ? t->rank - 1 : 0);
  launch_strides(l, &rows);
}

static void launch_operands(launch *l, const attention *a, cl_mem parts) {
  launch_buffer(l, a->q);
  launch_buffer(l, a->k);
  launch_buffer(l, a->v);
  launch_optional(l, a->mask);
  launch_buffer(l, a->out);
  if (a->n_splits > 1)
    launch_memory(l, parts, 0);
  else
    launch_absent(l);
  tensor batch = take_dims(&a->q->t, 0, a->q->t.rank - 3);
  launch_dims(l, &batch);
  launch_row_strides(l, &a->q->t);
  launch_row_strides(l, &a->k->t);
  launch_row_strides(l, &a->v->t);
  launch_row_strides(l, &a->mask_view);
  launch_int(l, a->mask ? a->mask_view.strides[a->mask_view.rank - 1] : 0);
}

static clave_status launch_attention(cl_stream *s, const node *n, const attention *a,
                                     cl_mem parts) {
  int v_max = size_class(a->v_dim);
  dtype mask_type = a->mask ? a->mask->t.type : DTYPE_BOOL;
  launch l;
  launch_begin(&l, s, n, "attention", a->by_row ? "attention_row" : "attention");
  launch_dtype(&l, "X_TYPE", a->q->t.type);
  launch_dtype(&l, "MASK_TYPE", mask_type);
  launch_compute(&l, a->q->t.type);
  launch_define(&l, "W", a->width);
  launch_define(&l, "MASK", !a->mask ? 0 : mask_type == DTYPE_BOOL ? 1 : 2);
  launch_define(&l, "CAUSAL", a->causal);
  launch_define(&l, "EMPTY_NAN", a->empty_nan);
  launch_define(&l, "Q_MAX", a->head_dim > LARGEST_CLASS ? 0 : size_class(a->head_dim));
  launch_define(&l, "V_MAX", v_max);
  launch_define(&l, "SPLIT", a->n_splits > 1);
  if (a->mask_view.rank > 0 && tensor_numel(&a->mask_view) > INT32_MAX / 2) launch_wide(&l);
  launch_operands(&l, a, parts);
  launch_int(&l, a->items);
  launch_int(&l, a->n_kv);
  launch_int(&l, a->share);
  launch_int(&l, a->n_queries);
  launch_int(&l, a->n_keys);
  launch_int(&l, a->head_dim);
  launch_int(&l, a->v_dim);
  launch_int(&l, a->split_keys);
  launch_float(&l, a->scale);
  launch_float(&l, a->masked);
  size_t local = stream_traits(s)->is_cpu ? 1 : LOCAL_SIZE;
  size_t global[3] = {(size_t)a->items, (size_t)a->n_splits, (size_t)ceil_div(a->v_dim, v_max)},
         locals[3] = {local, 1, 1};
  return launch_run(&l, 3, global, locals);
}

static clave_status launch_merge(cl_stream *s, const node *n, const attention *a, cl_mem parts) {
  int64_t rows = a->n_batch * a->n_kv * a->share * a->n_queries;
  launch l;
  launch_begin(&l, s, n, "attention", "attention_merge");
  launch_dtype(&l, "X_TYPE", a->q->t.type);
  launch_compute(&l, a->q->t.type);
  launch_define(&l, "EMPTY_NAN", a->empty_nan);
  launch_memory(&l, parts, 0);
  launch_buffer(&l, a->out);
  launch_int(&l, rows);
  launch_int(&l, a->v_dim);
  launch_int(&l, a->n_splits);
  return launch_loops(&l, rows, 1, a->v_dim * a->n_splits * 8);
}

clave_status opencl_attention(cl_stream *s, const node *n) {
  attention a = read_attention(s, n);
  if (a.n_splits == 1) return launch_attention(s, n, &a, NULL);
  int64_t rows = a.n_batch * a.n_kv * a.share * a.n_queries;
  size_t bytes = (size_t)(rows * a.n_splits * (a.v_dim + 2)) * sizeof(double);
  cl_mem parts;
  TRY(stream_scratch(s, bytes, &parts));
  TRY(launch_attention(s, n, &a, parts));
  return launch_merge(s, n, &a, parts);
}
