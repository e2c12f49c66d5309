/* Writing at positions that an index tensor holds: scatter; kernels_cl/scatter.cl. */
#include "backend/opencl/scatter.h"

#include "opencl_ops.h"

enum {
  CPU_CHUNK = 64,
  GPU_ITEMS = 1 << 14,
  MIN_SORTED = 1024,   /* entries of a line that are worth a sort */
  MAX_SORTED = 1 << 24 /* entries of all lines: bounds the scratch memory of the sort */
};

enum { INDEX, SOURCE, OUT, OPERANDS };

/* The index's dimensions: lines across the axis in front, the ones over which it stays the same
 * behind. */
typedef struct scatter_split {
  tensor front[OPERANDS], back[OPERANDS];
  int64_t step[OPERANDS]; /* along the axis */
  int64_t n, size;        /* entries and destinations on the axis */
  bound_tensor lines;     /* the index without its dimensions behind */
} scatter_split;

static scatter_split split_operands(const scatter_operands *o) {
  const tensor *all[OPERANDS] = {&o->index_layout, &o->source->t, &o->out->t};
  int axis = o->axis, rank = o->index_layout.rank, first = rank;
  while (first > axis + 1 &&
         (o->index_layout.strides[first - 1] == 0 || o->index_layout.dims[first - 1] == 1))
    first--;
  scatter_split p = {.n = o->index_layout.dims[axis], .size = o->out->t.dims[axis]};
  for (int k = 0; k < OPERANDS; k++) {
    tensor t = *all[k];
    for (int d = 0; d < rank; d++) t.dims[d] = o->index_layout.dims[d];
    p.step[k] = t.strides[axis];
    p.back[k] = take_dims(&t, first, rank);
    t.dims[axis] = 1;
    p.front[k] = take_dims(&t, 0, first);
  }
  tensors_collapse(p.front, OPERANDS);
  tensors_collapse(p.back, OPERANDS);
  p.lines = *o->index;
  p.lines.t = take_dims(&o->index_layout, 0, first);
  p.lines.t.offset = o->index->t.offset;
  return p;
}

static bool is_dense(const tensor *t) {
  return t->rank == 0 || (t->rank == 1 && t->strides[0] == 1);
}

/* Ranges of destinations, so that there are enough work-items: each walks the whole index. */
static int64_t count_parts(const cl_recorder *s, int64_t items, int64_t size) {
  const device_traits *t = recorder_traits(s);
  int64_t wanted = ceil_div(t->is_cpu ? (int64_t)t->compute_units : GPU_ITEMS, max_i64(items, 1));
  return max_i64(1, min_i64(wanted, size));
}

static void begin_launch(launch *l, cl_recorder *s, const node *n, ir_scatter_kind kind,
                         const scatter_operands *o) {
  bool assign = kind == IR_SCATTER_KIND_ASSIGN;
  launch_begin(l, s, n);
  launch_dtype(l, "TYPE", assign ? moved_type(o->out->t.type) : o->out->t.type);
  launch_dtype(l, "INDEX_TYPE", o->index->t.type);
  if (!assign) launch_compute(l, o->out->t.type);
  launch_define(l, "KIND", (int)kind);
}

static scatter_params arguments_of(const scatter_operands *o, const scatter_split *p,
                                   int64_t items) {
  return (scatter_params){.source = buffer_arg(o->source),
                          .index = buffer_arg(o->index),
                          .out = buffer_arg(o->out),
                          .front_dims = dims_arg(&p->front[SOURCE]),
                          .source_front = strides_arg(&p->front[SOURCE]),
                          .index_front = strides_arg(&p->front[INDEX]),
                          .out_front = strides_arg(&p->front[OUT]),
                          .back_dims = dims_arg(&p->back[SOURCE]),
                          .source_back = strides_arg(&p->back[SOURCE]),
                          .out_back = strides_arg(&p->back[OUT]),
                          .items = items,
                          .n = p->n,
                          .n_back = tensor_numel(&p->back[OUT]),
                          .size = p->size,
                          .source_step = p->step[SOURCE],
                          .index_step = p->step[INDEX],
                          .out_step = p->step[OUT]};
}

static clave_status launch_walk(cl_recorder *s, const node *n, ir_scatter_kind kind,
                                const scatter_operands *o, const scatter_split *p) {
  int chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t n_back = tensor_numel(&p->back[OUT]);
  int64_t rows = tensor_numel(&p->front[OUT]) * ceil_div(n_back, chunk),
          parts = count_parts(s, rows, p->size);
  launch l;
  begin_launch(&l, s, n, kind, o);
  launch_define(&l, "WRAP", o->wrap);
  launch_define(&l, "CHUNK", chunk);
  launch_define(&l, "DENSE", is_dense(&p->back[SOURCE]) && is_dense(&p->back[OUT]));
  launch_args(&l,
              &(scatter_walk_args){.scatter = arguments_of(o, p, rows * parts), .parts = parts});
  return launch_loops(&l, rows * parts, 1, p->n * min_i64(n_back, chunk));
}

static clave_status launch_segments(cl_recorder *s, const node *n, ir_scatter_kind kind,
                                    const scatter_operands *o, const scatter_split *p) {
  sorted_places places;
  TRY(launch_sort(s, n, &p->lines, o->axis, &places));
  int64_t items = tensor_numel(&p->front[OUT]) * p->n * tensor_numel(&p->back[OUT]);
  launch l;
  begin_launch(&l, s, n, kind, o);
  if (items > INT32_MAX) launch_wide(&l);
  launch_args(&l, &(scatter_segments_args){.scatter = arguments_of(o, p, items),
                                           .places = scratch_arg(places.offset),
                                           .pitch = places.pitch});
  return launch_loops(&l, items, 1, 8);
}

/* Where there are few lines, a GPU is busy only with a work-item for each entry. */
static bool wants_sort(const cl_recorder *s, const scatter_operands *o, const scatter_split *p) {
  int64_t front = tensor_numel(&p->front[OUT]), rows = front * tensor_numel(&p->back[OUT]);
  if (recorder_traits(s)->is_cpu || o->wrap || p->n < MIN_SORTED) return false;
  return rows > 0 && rows < GPU_ITEMS && p->n <= MAX_SORTED / front;
}

clave_status launch_scatter(cl_recorder *s, const node *n, ir_scatter_kind kind,
                            const scatter_operands *o) {
  scatter_split p = split_operands(o);
  return wants_sort(s, o, &p) ? launch_segments(s, n, kind, o, &p) : launch_walk(s, n, kind, o, &p);
}

clave_status opencl_scatter(cl_recorder *s, const node *n) {
  const ir_scatter *op = n->instruction->op;
  scatter_operands o = {.index = &n->tensors[op->index],
                        .source = &n->tensors[op->source],
                        .out = &n->tensors[op->out],
                        .wrap = op->wrap};
  o.index_layout = o.index->t;
  o.axis = axis_of(op->axis, o.out->t.rank);
  return launch_scatter(s, n, op->kind, &o);
}
