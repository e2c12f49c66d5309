/* Reading by index tensors: index_select, gather, index, ravel_index; kernels_cl/index.cl. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

/* x[front, picked axes, back] with n index tensors that are broadcast to one shape. */
typedef struct pick {
  const bound_tensor *x, *out;
  int n;
  const bound_tensor *indices[MAX_RANK];
  tensor index[MAX_RANK]; /* broadcast, collapsed together */
  int64_t sizes[8], steps[8];
  tensor front, back;
  bool wrap;
} pick;

static int64_t count_dense(const tensor *t) {
  return t->rank == 0 || (t->rank == 1 && t->strides[0] == 1) ? tensor_numel(t) : 0;
}

static int kinds_of(const pick *p) {
  int kinds = 0;
  for (int i = 0; i < p->n; i++) kinds |= (p->indices[i]->t.type == DTYPE_I64) << i;
  return kinds;
}

static arg_buffer index_at(const pick *p, int i) {
  return optional_arg(i < p->n ? p->indices[i] : NULL);
}

static indices_params indices_of(const pick *p) {
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

static clave_status launch_pick(cl_recorder *s, const node *n, pick *p) {
  tensors_collapse(&p->front, 1);
  tensors_collapse(&p->back, 1);
  tensors_collapse(p->index, p->n);
  int64_t n_back = tensor_numel(&p->back), n_picks = tensor_numel(&p->index[0]);
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t items = tensor_numel(&p->front) * n_picks * ceil_div(n_back, chunk);
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
                                     .n_picks = n_picks,
                                     .n_back = n_back,
                                     .indices = indices_of(p)});
  return launch_loops(&l, items, 1, min_i64(n_back, chunk));
}

clave_status opencl_index_select(cl_recorder *s, const node *n) {
  const ir_index_select *op = n->instruction->op;
  pick p = {.x = &n->tensors[op->x],
            .out = &n->tensors[op->out],
            .n = 1,
            .indices = {&n->tensors[op->index]}};
  const tensor *x = &p.x->t;
  int axis = axis_of(op->axis, x->rank);
  p.index[0] = p.indices[0]->t;
  p.sizes[0] = x->dims[axis];
  p.steps[0] = x->strides[axis];
  p.front = take_dims(x, 0, axis);
  p.back = take_dims(x, axis + 1, x->rank);
  return launch_pick(s, n, &p);
}

/* The common shape of the index tensors, right-aligned. */
static int broadcast_shape(const pick *p, int64_t *dims) {
  int rank = 0;
  for (int i = 0; i < p->n; i++) rank = p->indices[i]->t.rank > rank ? p->indices[i]->t.rank : rank;
  for (int d = 0; d < rank; d++) dims[d] = 1;
  for (int i = 0; i < p->n; i++)
    for (int d = 0; d < p->indices[i]->t.rank; d++) {
      int64_t size = p->indices[i]->t.dims[d], *to = &dims[rank - p->indices[i]->t.rank + d];
      if (size != 1) *to = size;
    }
  return rank;
}

/* x without the picked axes. */
static tensor drop_axes(const tensor *x, unsigned axes) {
  tensor kept = {.type = x->type};
  for (int d = 0; d < x->rank; d++) {
    if (axes >> d & 1) continue;
    kept.dims[kept.rank] = x->dims[d];
    kept.strides[kept.rank++] = x->strides[d];
  }
  return kept;
}

clave_status opencl_index(cl_recorder *s, const node *n) {
  const ir_index *op = n->instruction->op;
  pick p = {.x = &n->tensors[op->x],
            .out = &n->tensors[op->out],
            .n = (int)op->indices.count,
            .wrap = true};
  const tensor *x = &p.x->t;
  unsigned axes = 0;
  int first = x->rank, last = 0;
  for (int i = 0; i < p.n; i++) {
    int axis = axis_of(op->axes.items[i], x->rank);
    axes |= 1u << axis;
    first = axis < first ? axis : first;
    last = axis > last ? axis : last;
    p.indices[i] = &n->tensors[op->indices.items[i]];
    p.sizes[i] = x->dims[axis];
    p.steps[i] = x->strides[axis];
  }
  int64_t dims[MAX_RANK];
  int rank = broadcast_shape(&p, dims), front = last - first + 1 == p.n ? first : 0;
  for (int i = 0; i < p.n; i++) tensor_broadcast(&p.indices[i]->t, rank, dims, &p.index[i]);
  tensor kept = drop_axes(x, axes);
  p.front = take_dims(&kept, 0, front);
  p.back = take_dims(&kept, front, kept.rank);
  return launch_pick(s, n, &p);
}

clave_status opencl_gather(cl_recorder *s, const node *n) {
  const ir_gather *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *index = &n->tensors[op->index],
                     *out = &n->tensors[op->out];
  int rank = x->t.rank, axis = axis_of(op->axis, rank);
  int64_t size = rank ? x->t.dims[axis] : 1, step = rank ? x->t.strides[axis] : 0;
  tensor both[2] = {index->t, x->t};
  for (int d = 0; d < rank; d++) both[1].dims[d] = index->t.dims[d];
  if (rank) both[1].strides[axis] = 0;
  tensors_collapse(both, 2);
  int64_t items = tensor_numel(&index->t);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", moved_type(x->t.type));
  launch_dtype(&l, "INDEX_TYPE", index->t.type);
  launch_args(&l, &(index_gather_args){.x = buffer_arg(x),
                                       .index = buffer_arg(index),
                                       .out = buffer_arg(out),
                                       .dims = dims_arg(&both[1]),
                                       .x_strides = strides_arg(&both[1]),
                                       .index_strides = strides_arg(&both[0]),
                                       .items = items,
                                       .size = size,
                                       .step = step});
  return launch_loops(&l, items, 1, 8);
}

clave_status opencl_ravel_index(cl_recorder *s, const node *n) {
  const ir_ravel_index *op = n->instruction->op;
  pick p = {.out = &n->tensors[op->out], .n = (int)op->indices.count};
  int64_t dims[MAX_RANK], step = 1;
  for (int i = 0; i < p.n; i++) p.indices[i] = &n->tensors[op->indices.items[i]];
  int rank = broadcast_shape(&p, dims);
  for (int i = p.n - 1; i >= 0; i--) {
    tensor_broadcast(&p.indices[i]->t, rank, dims, &p.index[i]);
    p.sizes[i] = int_of(n, &op->sizes.items[i]);
    p.steps[i] = step;
    step *= max_i64(p.sizes[i], 1);
  }
  tensors_collapse(p.index, p.n);
  int64_t items = tensor_numel(&p.index[0]);
  launch l;
  launch_begin(&l, s, n);
  launch_define(&l, "N_INDICES", p.n);
  launch_define(&l, "WRAP", 1);
  if (step > INT32_MAX) launch_wide(&l);
  launch_args(
      &l, &(index_ravel_args){.out = buffer_arg(p.out), .items = items, .indices = indices_of(&p)});
  return launch_loops(&l, items, 1, 8);
}
