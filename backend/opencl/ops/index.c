/* Reading by index tensors: index_select, gather, index, ravel_index; kernels_cl/index.cl. */
#include "ops/index.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/panel_rows.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

static int64_t count_dense(const tensor *t) {
  return t->rank == 0 || (t->rank == 1 && t->strides[0] == 1) ? tensor_numel(t) : 0;
}

static int kinds_of(const pick_form *p) {
  int kinds = 0;
  for (int i = 0; i < p->n; i++) kinds |= (p->indices[i]->t.type == DTYPE_I64) << i;
  return kinds;
}

static arg_buffer index_at(const pick_form *p, int i) {
  return optional_arg(i < p->n ? p->indices[i] : NULL);
}

static indices_params indices_of(const pick_form *p) {
  return (indices_params){.pick_dims = dims_arg(&p->index[0]),
                          .sizes = index8_arg(p->sizes),
                          .steps = index8_arg(p->steps),
                          .kinds = kinds_of(p),
                          .i0 = index_at(p, 0),
                          .i0_strides = strides_arg(&p->index[0]),
                          .i1 = index_at(p, 1),
                          .i1_strides = strides_arg(&p->index[1]),
                          .i2 = index_at(p, 2),
                          .i2_strides = strides_arg(&p->index[2]),
                          .i3 = index_at(p, 3),
                          .i3_strides = strides_arg(&p->index[3]),
                          .i4 = index_at(p, 4),
                          .i4_strides = strides_arg(&p->index[4]),
                          .i5 = index_at(p, 5),
                          .i5_strides = strides_arg(&p->index[5]),
                          .i6 = index_at(p, 6),
                          .i6_strides = strides_arg(&p->index[6]),
                          .i7 = index_at(p, 7),
                          .i7_strides = strides_arg(&p->index[7])};
}

static clave_status launch_pick(cl_recorder *s, const node *n, const pick_form *p) {
  int64_t n_back = tensor_numel(&p->back);
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = tensor_numel(&p->front) * p->n_picks * ceil_div(n_back, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(p->x->t.type));
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "DENSE", count_dense(&p->back) > 0);
  launch_define(&l, "N_INDICES", p->n);
  launch_define(&l, "WRAP", p->wrap);
  launch_args(&l, &(index_pick_args){.x = buffer_arg(p->x),
                                     .out = buffer_arg(p->out),
                                     .front_dims = dims_arg(&p->front),
                                     .front_strides = strides_arg(&p->front),
                                     .back_dims = dims_arg(&p->back),
                                     .back_strides = strides_arg(&p->back),
                                     .items = items,
                                     .n_picks = p->n_picks,
                                     .n_back = n_back,
                                     .indices = indices_of(p)});
  return launch_loops(&l, items, 1, min_i64(n_back, chunk));
}

clave_status opencl_index_select(cl_recorder *s, const node *n) {
  pick_form f;
  bool done;
  TRY(opencl_panel_rows(s, n, &done));
  if (done) return NULL;
  describe_index_select(n, &f);
  return f.x->t.encoding.kind ? opencl_pick_rows(s, n) : launch_pick(s, n, &f);
}

clave_status opencl_index(cl_recorder *s, const node *n) {
  pick_form f;
  describe_index(n, &f);
  return launch_pick(s, n, &f);
}

clave_status opencl_gather(cl_recorder *s, const node *n) {
  gather_form f;
  describe_gather(n, &f);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(f.x->t.type));
  launch_dtype(&l, "INDEX_TYPE", f.index->t.type);
  launch_args(&l, &(index_gather_args){.x = buffer_arg(f.x),
                                       .index = buffer_arg(f.index),
                                       .out = buffer_arg(f.out),
                                       .dims = dims_arg(&f.x_places),
                                       .x_strides = strides_arg(&f.x_places),
                                       .index_strides = strides_arg(&f.index_places),
                                       .items = f.n,
                                       .size = f.size,
                                       .step = f.step});
  return launch_loops(&l, f.n, 1, 8);
}

clave_status opencl_ravel_index(cl_recorder *s, const node *n) {
  pick_form f;
  describe_ravel_index(n, &f);
  launch l;
  launch_begin(&l, s, n);
  launch_define(&l, "N_INDICES", f.n);
  launch_define(&l, "WRAP", f.wrap);
  if (f.sizes[0] > 0 && f.steps[0] > INT32_MAX / f.sizes[0]) launch_wide(&l);
  launch_args(&l, &(index_ravel_args){
                      .out = buffer_arg(f.out), .items = f.n_picks, .indices = indices_of(&f)});
  return launch_loops(&l, f.n_picks, 1, 8);
}
