/* Sliding blocks: kernels_cl/fold.cl. */
#include "ops/fold.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

/* items: of `chunk` elements of a row. */
static windows_params windows_of(const fold_form *f, int64_t items) {
  return (windows_params){.items = items,
                          .rows = f->size[0],
                          .columns = f->size[1],
                          .n_y = f->positions[0],
                          .n_x = f->positions[1],
                          .k_y = f->kernel[0],
                          .k_x = f->kernel[1],
                          .stride_y = f->stride[0],
                          .stride_x = f->stride[1],
                          .padding_y = f->padding[0],
                          .padding_x = f->padding[1],
                          .dilation_y = f->dilation[0],
                          .dilation_x = f->dilation[1]};
}

/* Of a row that a work-item makes. */
static int64_t chunk_of(const cl_recorder *s) { return recorder_traits(s)->is_cpu ? CPU_CHUNK : 1; }

static int64_t count_items(const tensor *out, int64_t row, int64_t chunk) {
  return row ? tensor_numel(out) / row * ceil_div(row, chunk) : 0;
}

clave_status opencl_im2col(cl_recorder *s, const node *n) {
  fold_form f;
  describe_im2col(n, &f);
  int64_t chunk = chunk_of(s), row = f.positions[1], items = count_items(&f.out->t, row, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "MOVED", moved_type(f.x->t.type));
  launch_define(&l, "CHUNK", (int)chunk);
  launch_args(
      &l, &(im2col_args){
              .x = buffer_arg(f.x), .out = buffer_arg(f.out), .windows = windows_of(&f, items)});
  return launch_loops(&l, items, 1, min_i64(row, chunk));
}

clave_status opencl_col2im(cl_recorder *s, const node *n) {
  fold_form f;
  describe_col2im(n, &f);
  int64_t chunk = chunk_of(s), row = f.size[1], items = count_items(&f.out->t, row, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f.x->t.type);
  launch_compute(&l, f.x->t.type);
  launch_define(&l, "CHUNK", (int)chunk);
  launch_args(
      &l, &(col2im_args){
              .x = buffer_arg(f.x), .out = buffer_arg(f.out), .windows = windows_of(&f, items)});
  return launch_loops(&l, items, 1, f.kernel[0] * f.kernel[1] * min_i64(row, chunk));
}
