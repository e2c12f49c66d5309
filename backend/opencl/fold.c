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

/* items: of `chunk` elements of a row. */
static windows_params windows_of(const fold_window *w, const tensor *planes, int64_t items) {
  return (windows_params){.items = items,
                          .rows = planes->dims[2],
                          .columns = planes->dims[3],
                          .n_y = positions_of(w, planes, 0),
                          .n_x = positions_of(w, planes, 1),
                          .k_y = w->kernel->items[0],
                          .k_x = w->kernel->items[1],
                          .stride_y = w->stride->items[0],
                          .stride_x = w->stride->items[1],
                          .padding_y = w->padding->items[0],
                          .padding_x = w->padding->items[1],
                          .dilation_y = w->dilation->items[0],
                          .dilation_x = w->dilation->items[1]};
}

/* Of a row that a work-item makes. */
static int64_t chunk_of(const cl_recorder *s) { return recorder_traits(s)->is_cpu ? CPU_CHUNK : 1; }

static int64_t count_items(const tensor *out, int64_t row, int64_t chunk) {
  return row ? tensor_numel(out) / row * ceil_div(row, chunk) : 0;
}

clave_status opencl_im2col(cl_recorder *s, const node *n) {
  const ir_im2col *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  fold_window w = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  int64_t chunk = chunk_of(s), row = positions_of(&w, &x->t, 1),
          items = count_items(&out->t, row, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "MOVED", moved_type(x->t.type));
  launch_define(&l, "CHUNK", (int)chunk);
  launch_args(
      &l, &(im2col_args){
              .x = buffer_arg(x), .out = buffer_arg(out), .windows = windows_of(&w, &x->t, items)});
  return launch_loops(&l, items, 1, min_i64(row, chunk));
}

clave_status opencl_col2im(cl_recorder *s, const node *n) {
  const ir_col2im *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  fold_window w = {&op->kernel, &op->stride, &op->padding, &op->dilation};
  int64_t chunk = chunk_of(s), row = out->t.dims[3], items = count_items(&out->t, row, chunk),
          work = (int64_t)op->kernel.items[0] * op->kernel.items[1];
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", x->t.type);
  launch_compute(&l, x->t.type);
  launch_define(&l, "CHUNK", (int)chunk);
  launch_args(&l, &(col2im_args){.x = buffer_arg(x),
                                 .out = buffer_arg(out),
                                 .windows = windows_of(&w, &out->t, items)});
  return launch_loops(&l, items, 1, work * min_i64(row, chunk));
}
