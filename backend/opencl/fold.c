/* Sliding blocks: kernels_cl/fold.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

typedef struct fold_window {
  const ir_i32s *kernel, *stride, *padding, *dilation;
} fold_window;

static int64_t positions_of(const fold_window *w, const tensor *planes, int d) {
  int64_t extent = (int64_t)w->dilation->items[d] * (w->kernel->items[d] - 1) + 1;
  return (planes->dims[2 + d] + 2 * (int64_t)w->padding->items[d] - extent) / w->stride->items[d] +
         1;
}

static void launch_pair(launch *l, const ir_i32s *v) {
  launch_int(l, v->items[0]);
  launch_int(l, v->items[1]);
}

/* rows of `row` elements; `work`: reads for each. */
static clave_status launch_window(launch *l, const bound_tensor *x, const bound_tensor *out,
                                  const tensor *planes, const fold_window *w, int64_t row,
                                  int64_t work) {
  int64_t chunk = recorder_traits(l->s)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = row ? tensor_numel(&out->t) / row * ceil_div(row, chunk) : 0;
  launch_define(l, "CHUNK", (int)chunk);
  launch_buffer(l, x);
  launch_buffer(l, out);
  launch_int(l, items);
  for (int d = 0; d < 2; d++) launch_int(l, planes->dims[2 + d]);
  for (int d = 0; d < 2; d++) launch_int(l, positions_of(w, planes, d));
  launch_pair(l, w->kernel);
  launch_pair(l, w->stride);
  launch_pair(l, w->padding);
  launch_pair(l, w->dilation);
  return launch_loops(l, items, 1, work * min_i64(row, chunk));
}

clave_status opencl_im2col(cl_recorder *s, const node *n) {
  const ir_im2col *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  fold_window w = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  launch l;
  launch_begin(&l, s, n, "fold", "im2col");
  launch_dtype(&l, "MOVED", moved_type(x->t.type));
  return launch_window(&l, x, out, &x->t, &w, positions_of(&w, &x->t, 1), 1);
}

clave_status opencl_col2im(cl_recorder *s, const node *n) {
  const ir_col2im *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  fold_window w = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  launch l;
  launch_begin(&l, s, n, "fold", "col2im");
  launch_dtype(&l, "TYPE", x->t.type);
  launch_compute(&l, x->t.type);
  return launch_window(&l, x, out, &out->t, &w, out->t.dims[3],
                       (int64_t)op->kernel.items[0] * op->kernel.items[1]);
}
