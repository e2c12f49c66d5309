/* Pooling: kernels_cl/pool.cl. x is dense; planes are its last n_spatial dimensions, 1-d ones have
 * one row. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

static void begin_pool(launch *l, cl_stream *s, const node *n, const char *kernel,
                       const bound_tensor *x) {
  launch_begin(l, s, n, "pool", kernel);
  launch_dtype(l, "X_TYPE", x->t.type);
  launch_compute(l, x->t.type);
  launch_define(l, "BY_ROW", stream_traits(s)->is_cpu);
}

/* items (rows or cells of out), then the plane's rows and columns in x and out. */
static int64_t launch_planes(launch *l, const bound_tensor *x, const bound_tensor *out,
                             int spatial) {
  int rank = x->t.rank;
  bool by_row = stream_traits(l->s)->is_cpu;
  int64_t cells = tensor_numel(&out->t),
          items = by_row ? cells / max_i64(out->t.dims[rank - 1], 1) : cells;
  launch_int(l, items);
  launch_int(l, spatial == 2 ? x->t.dims[rank - 2] : 1);
  launch_int(l, x->t.dims[rank - 1]);
  launch_int(l, spatial == 2 ? out->t.dims[rank - 2] : 1);
  launch_int(l, out->t.dims[rank - 1]);
  return items;
}

/* An attribute for rows and columns; `none` for the missing rows of 1-d planes. */
static void launch_pair(launch *l, const ir_i32s *v, int none) {
  launch_int(l, v->count == 2 ? v->items[0] : none);
  launch_int(l, v->items[v->count - 1]);
}

clave_status opencl_pool(cl_stream *s, const node *n) {
  const ir_pool *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out],
                     *indices = operand_of(n, op->indices);
  bool is_max = op->kind == IR_POOL_KIND_MAX;
  ir_i32s stride = op->stride.count ? op->stride : op->kernel;
  launch l;
  begin_pool(&l, s, n, is_max ? "pool_max" : "pool_average", x);
  launch_define(&l, "HAS_INDICES", is_max && indices);
  launch_define(&l, "COUNT_PAD", !is_max && op->count_include_pad);
  launch_buffer(&l, x);
  launch_buffer(&l, out);
  if (is_max) launch_optional(&l, indices);
  int64_t items = launch_planes(&l, x, out, (int)op->kernel.count), work = 1;
  for (uint32_t i = 0; i < op->kernel.count; i++) work *= op->kernel.items[i];
  launch_pair(&l, &op->kernel, 1);
  launch_pair(&l, &stride, 1);
  launch_pair(&l, &op->padding, 0);
  if (is_max)
    launch_pair(&l, &op->dilation, 1);
  else
    launch_int(&l, op->divisor.present ? op->divisor.value : 0);
  return launch_loops(&l, items, 1, 2 * work * (tensor_numel(&out->t) / max_i64(items, 1)));
}

clave_status opencl_adaptive_pool(cl_stream *s, const node *n) {
  const ir_adaptive_pool *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out],
                     *indices = operand_of(n, op->indices);
  int rank = x->t.rank;
  launch l;
  begin_pool(&l, s, n, "pool_adaptive", x);
  launch_define(&l, "MAX", op->kind == IR_POOL_KIND_MAX);
  launch_define(&l, "HAS_INDICES", indices != NULL);
  launch_buffer(&l, x);
  launch_buffer(&l, out);
  launch_optional(&l, indices);
  int64_t items = launch_planes(&l, x, out, rank - 2);
  return launch_loops(&l, items, 1, items ? tensor_numel(&x->t) / items : 1);
}
