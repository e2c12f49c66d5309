/* Pooling: kernels_cl/pool.cl; on CPUs maxima without indices by pool_rows.cl. */
#include "ops/pool.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CHUNK = 128, REACH = 64 }; /* of pool_rows: cells at a time, columns of a window */

static void begin_pool(launch *l, cl_recorder *s, const node *n, const pool_form *f) {
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", f->x->t.type);
  launch_dtype(l, "OUT_TYPE", f->out->t.type);
  launch_compute(l, f->x->t.type);
  launch_define(l, "BY_ROW", recorder_traits(s)->is_cpu);
}

/* Rows or cells of out. */
static int64_t count_items(const cl_recorder *s, const pool_form *f) {
  return f->planes * f->size[0] * f->size[1] * (recorder_traits(s)->is_cpu ? 1 : f->size[2]);
}

static planes_params planes_of(const pool_form *f, int64_t items) {
  return (planes_params){.items = items,
                         .depth = f->in[0],
                         .rows = f->in[1],
                         .columns = f->in[2],
                         .out_depth = f->size[0],
                         .out_rows = f->size[1],
                         .out_columns = f->size[2]};
}

static window_params window_of(const pool_form *f) {
  return (window_params){.kernel_z = f->kernel[0],
                         .kernel_y = f->kernel[1],
                         .kernel_x = f->kernel[2],
                         .stride_z = f->stride[0],
                         .stride_y = f->stride[1],
                         .stride_x = f->stride[2],
                         .pad_z = f->padding[0],
                         .pad_y = f->padding[1],
                         .pad_x = f->padding[2]};
}

static void pass_max(launch *l, const pool_form *f, int64_t items) {
  launch_args(l, &(pool_max_args){.x = buffer_arg(f->x),
                                  .out = buffer_arg(f->out),
                                  .indices = optional_arg(f->indices),
                                  .planes = planes_of(f, items),
                                  .window = window_of(f),
                                  .dilation_z = f->dilation[0],
                                  .dilation_y = f->dilation[1],
                                  .dilation_x = f->dilation[2]});
}

static void pass_average(launch *l, const pool_form *f, int64_t items) {
  launch_args(l, &(pool_average_args){.x = buffer_arg(f->x),
                                      .out = buffer_arg(f->out),
                                      .planes = planes_of(f, items),
                                      .window = window_of(f),
                                      .divisor = f->divisor});
}

/* Maxima row by row. Without dilation no window of an input that is not empty is empty, of which
 * integers are 0. */
static bool takes_rows(const cl_recorder *s, const pool_form *f) {
  for (int d = 0; d < SPATIAL_DIMS; d++)
    if ((f->dilation[d] != 1 || f->in[d] == 0) && dtype_is_int(f->x->t.type)) return false;
  return recorder_traits(s)->is_cpu && !f->average && !f->indices && f->stride[2] <= 2 &&
         (f->kernel[2] - 1) * f->dilation[2] < REACH;
}

static clave_status max_rows(cl_recorder *s, const node *n, const pool_form *f) {
  const int64_t items = f->planes * f->size[0] * f->size[1];
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", f->x->t.type);
  launch_dtype(&l, "OUT_TYPE", f->out->t.type);
  launch_compute(&l, f->x->t.type);
  launch_define(&l, "STRIDE", (int)f->stride[2]);
  launch_define(&l, "CHUNK", CHUNK);
  launch_define(&l, "REACH", REACH);
  launch_args(&l, &(pool_rows_args){.x = buffer_arg(f->x),
                                    .out = buffer_arg(f->out),
                                    .planes = planes_of(f, items),
                                    .window = window_of(f),
                                    .dilation_z = f->dilation[0],
                                    .dilation_y = f->dilation[1],
                                    .dilation_x = f->dilation[2]});
  const int64_t rows = f->kernel[0] * f->kernel[1];
  return launch_loops(&l, items, 1, rows * f->size[2] * f->stride[2]);
}

clave_status opencl_pool(cl_recorder *s, const node *n) {
  pool_form f;
  describe_pool(n, &f);
  if (takes_rows(s, &f)) return max_rows(s, n, &f);
  int64_t items = count_items(s, &f), reads = f.kernel[0] * f.kernel[1] * f.kernel[2];
  launch l;
  begin_pool(&l, s, n, &f);
  launch_define(&l, "HAS_INDICES", f.indices != NULL);
  launch_define(&l, "COUNT_PAD", f.average && f.count_include_pad);
  (f.average ? pass_average : pass_max)(&l, &f, items);
  return launch_loops(&l, items, 1, 2 * reads * (tensor_numel(&f.out->t) / max_i64(items, 1)));
}

clave_status opencl_adaptive_pool(cl_recorder *s, const node *n) {
  pool_form f;
  describe_adaptive_pool(n, &f);
  if (pool_is_mean(&f))
    return launch_means(s, n, f.x, f.out, f.planes, f.in[0] * f.in[1] * f.in[2]);
  int64_t items = count_items(s, &f);
  launch l;
  begin_pool(&l, s, n, &f);
  launch_define(&l, "MAX", !f.average);
  launch_define(&l, "HAS_INDICES", f.indices != NULL);
  launch_args(&l, &(pool_adaptive_args){.x = buffer_arg(f.x),
                                        .out = buffer_arg(f.out),
                                        .indices = optional_arg(f.indices),
                                        .planes = planes_of(&f, items)});
  return launch_loops(&l, items, 1, items ? tensor_numel(&f.x->t) / items : 1);
}
