/* Pooling: kernels_cl/pool.cl. x is dense; planes are its last spatial dimensions, with missing
 * ones of size 1 in front. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

static void begin_pool(launch *l, cl_recorder *s, const node *n, const char *kernel,
                       const bound_tensor *x) {
  launch_begin(l, s, n, "pool", kernel);
  launch_dtype(l, "X_TYPE", x->t.type);
  launch_compute(l, x->t.type);
  launch_define(l, "BY_ROW", recorder_traits(s)->is_cpu);
}

static void launch_sizes(launch *l, const tensor *t, int spatial) {
  for (int i = 0; i < SPATIAL_DIMS; i++)
    launch_int(l, i < SPATIAL_DIMS - spatial ? 1 : t->dims[t->rank - SPATIAL_DIMS + i]);
}

/* items (rows or cells of out), then the sizes of a plane in x and out. */
static int64_t launch_planes(launch *l, const bound_tensor *x, const bound_tensor *out,
                             int spatial) {
  bool by_row = recorder_traits(l->s)->is_cpu;
  int64_t cells = tensor_numel(&out->t),
          items = by_row ? cells / max_i64(out->t.dims[out->t.rank - 1], 1) : cells;
  launch_int(l, items);
  launch_sizes(l, &x->t, spatial);
  launch_sizes(l, &out->t, spatial);
  return items;
}

/* An attribute, `none` for the missing dimensions. */
static void launch_each(launch *l, const ir_i32s *v, int none) {
  int spatial = (int)v->count;
  for (int i = 0; i < SPATIAL_DIMS; i++)
    launch_int(l, i < SPATIAL_DIMS - spatial ? none : v->items[i - (SPATIAL_DIMS - spatial)]);
}

clave_status opencl_pool(cl_recorder *s, const node *n) {
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
  launch_each(&l, &op->kernel, 1);
  launch_each(&l, &stride, 1);
  launch_each(&l, &op->padding, 0);
  if (is_max)
    launch_each(&l, &op->dilation, 1);
  else
    launch_int(&l, op->divisor.present ? op->divisor.value : 0);
  return launch_loops(&l, items, 1, 2 * work * (tensor_numel(&out->t) / max_i64(items, 1)));
}

clave_status opencl_adaptive_pool(cl_recorder *s, const node *n) {
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
