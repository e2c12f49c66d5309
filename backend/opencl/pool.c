/* Pooling: kernels_cl/pool.cl. x is dense; planes are its last spatial dimensions, with missing
 * ones of size 1 in front. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

static void begin_pool(launch *l, cl_recorder *s, const node *n, const bound_tensor *x) {
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", x->t.type);
  launch_compute(l, x->t.type);
  launch_define(l, "BY_ROW", recorder_traits(s)->is_cpu);
}

/* Rows or cells of out. */
static int64_t count_items(const cl_recorder *s, const bound_tensor *out) {
  int64_t cells = tensor_numel(&out->t);
  return recorder_traits(s)->is_cpu ? cells / max_i64(out->t.dims[out->t.rank - 1], 1) : cells;
}

/* A number for each dimension of a plane: z, y, x. */
typedef struct triple {
  int64_t z, y, x;
} triple;

static triple plane_of(const tensor *t, int spatial) {
  const int64_t *end = t->dims + t->rank;
  return (triple){spatial > 2 ? end[-3] : 1, spatial > 1 ? end[-2] : 1, end[-1]};
}

/* An attribute, `none` for the missing dimensions. */
static triple attribute_of(const ir_i32s *v, int none) {
  const int32_t *end = v->items + v->count;
  return (triple){v->count > 2 ? end[-3] : none, v->count > 1 ? end[-2] : none, end[-1]};
}

static planes_params planes_of(const bound_tensor *x, const bound_tensor *out, int spatial,
                               int64_t items) {
  triple from = plane_of(&x->t, spatial), to = plane_of(&out->t, spatial);
  return (planes_params){.items = items,
                         .depth = from.z,
                         .rows = from.y,
                         .columns = from.x,
                         .out_depth = to.z,
                         .out_rows = to.y,
                         .out_columns = to.x};
}

static window_params window_of(const ir_pool *op) {
  triple kernel = attribute_of(&op->kernel, 1), pad = attribute_of(&op->padding, 0),
         stride = attribute_of(op->stride.count ? &op->stride : &op->kernel, 1);
  return (window_params){.kernel_z = kernel.z,
                         .kernel_y = kernel.y,
                         .kernel_x = kernel.x,
                         .stride_z = stride.z,
                         .stride_y = stride.y,
                         .stride_x = stride.x,
                         .pad_z = pad.z,
                         .pad_y = pad.y,
                         .pad_x = pad.x};
}

clave_status opencl_pool(cl_recorder *s, const node *n) {
  const ir_pool *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out],
                     *indices = operand_of(n, op->indices);
  bool is_max = op->kind == IR_POOL_KIND_MAX;
  int spatial = (int)op->kernel.count;
  int64_t items = count_items(s, out), work = 1;
  for (int i = 0; i < spatial; i++) work *= op->kernel.items[i];
  triple dilation = is_max ? attribute_of(&op->dilation, 1) : (triple){1, 1, 1};
  launch l;
  begin_pool(&l, s, n, x);
  launch_define(&l, "HAS_INDICES", is_max && indices);
  launch_define(&l, "COUNT_PAD", !is_max && op->count_include_pad);
  if (is_max)
    launch_args(&l, &(pool_max_args){.x = buffer_arg(x),
                                     .out = buffer_arg(out),
                                     .indices = optional_arg(indices),
                                     .planes = planes_of(x, out, spatial, items),
                                     .window = window_of(op),
                                     .dilation_z = dilation.z,
                                     .dilation_y = dilation.y,
                                     .dilation_x = dilation.x});
  else
    launch_args(&l, &(pool_average_args){.x = buffer_arg(x),
                                         .out = buffer_arg(out),
                                         .planes = planes_of(x, out, spatial, items),
                                         .window = window_of(op),
                                         .divisor = op->divisor.present ? op->divisor.value : 0});
  return launch_loops(&l, items, 1, 2 * work * (tensor_numel(&out->t) / max_i64(items, 1)));
}

clave_status opencl_adaptive_pool(cl_recorder *s, const node *n) {
  const ir_adaptive_pool *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out],
                     *indices = operand_of(n, op->indices);
  int64_t items = count_items(s, out);
  launch l;
  begin_pool(&l, s, n, x);
  launch_define(&l, "MAX", op->kind == IR_POOL_KIND_MAX);
  launch_define(&l, "HAS_INDICES", indices != NULL);
  launch_args(&l, &(pool_adaptive_args){.x = buffer_arg(x),
                                        .out = buffer_arg(out),
                                        .indices = optional_arg(indices),
                                        .planes = planes_of(x, out, x->t.rank - 2, items)});
  return launch_loops(&l, items, 1, items ? tensor_numel(&x->t) / items : 1);
}
