/* Writing at positions that an index tensor holds: scatter; kernels_cl/scatter.cl. */
#include "backend/opencl/ops/scatter.h"

#include "opencl_ops.h"

enum {
  CPU_CHUNK = 64,
  GPU_ITEMS = 1 << 14,
  MIN_SORTED = 1024,   /* entries of a line that are worth a sort */
  MAX_SORTED = 1 << 24 /* entries of all lines: bounds the scratch memory of the sort */
};

static bool is_dense(const tensor *t) {
  return t->rank == 0 || (t->rank == 1 && t->strides[0] == 1);
}

/* Ranges of destinations, so that there are enough work-items: each walks the whole index. */
static int64_t count_parts(const cl_recorder *s, int64_t items, int64_t size) {
  const device_traits *t = recorder_traits(s);
  int64_t wanted = ceil_div(t->is_cpu ? (int64_t)t->compute_units : GPU_ITEMS, max_i64(items, 1));
  return max_i64(1, min_i64(wanted, size));
}

static void begin_launch(launch *l, cl_recorder *s, const node *n, const scatter_form *f) {
  bool assign = f->kind == IR_SCATTER_KIND_ASSIGN;
  launch_begin(l, s, n);
  launch_dtype(l, "TYPE", assign ? moved_type(f->out->t.type) : f->out->t.type);
  launch_dtype(l, "INDEX_TYPE", f->index.t.type);
  if (!assign) launch_compute(l, f->out->t.type);
  launch_define(l, "KIND", (int)f->kind);
}

static scatter_params arguments_of(const scatter_form *f, int64_t items) {
  return (scatter_params){.source = buffer_arg(f->source),
                          .index = buffer_arg(&f->index),
                          .out = buffer_arg(f->out),
                          .front_dims = dims_arg(&f->front[SCATTER_SOURCE]),
                          .source_front = strides_arg(&f->front[SCATTER_SOURCE]),
                          .index_front = strides_arg(&f->front[SCATTER_INDEX]),
                          .out_front = strides_arg(&f->front[SCATTER_OUT]),
                          .back_dims = dims_arg(&f->back[SCATTER_SOURCE]),
                          .source_back = strides_arg(&f->back[SCATTER_SOURCE]),
                          .out_back = strides_arg(&f->back[SCATTER_OUT]),
                          .items = items,
                          .n = f->n,
                          .n_back = tensor_numel(&f->back[SCATTER_OUT]),
                          .size = f->size,
                          .source_step = f->step[SCATTER_SOURCE],
                          .index_step = f->step[SCATTER_INDEX],
                          .out_step = f->step[SCATTER_OUT]};
}

/* True if F16 or BF16 is combined in F32, in scratch memory with the offsets of out. */
static bool is_wide(const scatter_form *f) {
  bool rounds = f->kind == IR_SCATTER_KIND_ADD || f->kind == IR_SCATTER_KIND_MUL;
  return rounds && (f->out->t.type == DTYPE_F16 || f->out->t.type == DTYPE_BF16);
}

static clave_status launch_walk(cl_recorder *s, const node *n, const scatter_form *f) {
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t n_back = tensor_numel(&f->back[SCATTER_OUT]);
  int64_t rows = tensor_numel(&f->front[SCATTER_OUT]) * ceil_div(n_back, chunk),
          parts = count_parts(s, rows, f->size);
  launch l;
  if (is_wide(f)) TRY(recorder_scratch(s, (size_t)tensor_numel(&f->out->t) * sizeof(float)));
  begin_launch(&l, s, n, f);
  launch_define(&l, "IN_F32", is_wide(f));
  launch_define(&l, "WRAP", f->wrap);
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "DENSE", is_dense(&f->back[SCATTER_SOURCE]) && is_dense(&f->back[SCATTER_OUT]));
  launch_args(&l, &(scatter_walk_args){.scatter = arguments_of(f, rows * parts),
                                       .wide = is_wide(f) ? scratch_arg(0) : absent_arg(),
                                       .parts = parts});
  return launch_loops(&l, rows * parts, 1, f->n * min_i64(n_back, chunk));
}

static clave_status launch_segments(cl_recorder *s, const node *n, const scatter_form *f) {
  sorted_places places;
  TRY(launch_sort(s, n, &f->index, f->axis, &places));
  int64_t items = tensor_numel(&f->front[SCATTER_OUT]) * f->n * tensor_numel(&f->back[SCATTER_OUT]);
  launch l;
  begin_launch(&l, s, n, f);
  if (items > INT32_MAX) launch_wide(&l);
  launch_args(&l, &(scatter_segments_args){.scatter = arguments_of(f, items),
                                           .places = scratch_arg(places.offset),
                                           .pitch = places.pitch,
                                           .place_step = places.step});
  return launch_loops(&l, items, 1, 8);
}

/* Where there are few lines, a GPU is busy only with a work-item for each entry. */
static bool wants_sort(const cl_recorder *s, const scatter_form *f) {
  int64_t front = tensor_numel(&f->front[SCATTER_OUT]),
          rows = front * tensor_numel(&f->back[SCATTER_OUT]);
  if (recorder_traits(s)->is_cpu || f->wrap || f->n < MIN_SORTED) return false;
  return rows > 0 && rows < GPU_ITEMS && f->n <= MAX_SORTED / front;
}

clave_status launch_scatter(cl_recorder *s, const node *n, const scatter_form *f) {
  return wants_sort(s, f) ? launch_segments(s, n, f) : launch_walk(s, n, f);
}

clave_status opencl_scatter(cl_recorder *s, const node *n) {
  scatter_form f;
  describe_scatter(n, &f);
  return launch_scatter(s, n, &f);
}
