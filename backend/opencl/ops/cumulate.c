/* Running folds: kernels_cl/cumulate.cl. Few long rows are divided into parts. */
#include "ops/cumulate.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { MAX_SPLITS = 512, CPU_PART = 4096, GPU_PART = 256 };

typedef struct cumulating {
  cumulate_form f;
  tensor kept[2], over[2]; /* of x and out */
  int width;               /* W */
  int64_t items, n_splits;
} cumulating;

static bool is_extreme(ir_cumulate_kind kind) {
  return kind == IR_CUMULATE_KIND_MAX || kind == IR_CUMULATE_KIND_MIN;
}

static int64_t count_splits(const cl_recorder *s, const cumulating *g) {
  const device_traits *t = recorder_traits(s);
  int64_t wanted = (int64_t)t->compute_units * (t->is_cpu ? 2 : 512);
  if (g->items == 0 || g->items >= wanted) return 1;
  int64_t parts = min_i64(wanted / g->items, g->f.row / (t->is_cpu ? CPU_PART : GPU_PART));
  return max_i64(1, min_i64(parts, MAX_SPLITS));
}

static void lay_out(const cl_recorder *s, cumulating *g) {
  split_rows(g->f.rows, 2, g->kept, g->over);
  row_class rows = choose_row_class(s, g->kept, g->over, 2);
  bool vector = g->f.kind == IR_CUMULATE_KIND_SUM || g->f.kind == IR_CUMULATE_KIND_PROD;
  g->width = rows.row || !vector ? 1 : rows.width;
  g->items = row_class_items((row_class){.width = g->width}, g->kept);
  g->n_splits = count_splits(s, g);
}

static void define_fold(launch *l, const cumulating *g) {
  launch_dtype(l, "X_TYPE", g->f.x->t.type);
  launch_dtype(l, "OUT_TYPE", g->f.out->t.type);
  launch_compute(l, g->f.out->t.type);
  launch_define(l, "KIND", (int)g->f.kind);
  launch_define(l, "INDICES", g->f.indices != NULL);
  launch_define(l, "W", g->width);
}

/* Scratch memory: parts, then places; both of 8 bytes at most. */
static cumulate_params arguments_of(const cumulating *g) {
  bool split = g->n_splits > 1;
  int64_t places = 2 * g->n_splits * g->items * g->width;
  return (cumulate_params){.x = buffer_arg(g->f.x),
                           .parts = split ? scratch_arg(0) : absent_arg(),
                           .places = split ? scratch_arg(places) : absent_arg(),
                           .kept_dims = dims_arg(&g->kept[0]),
                           .x_strides = strides_arg(&g->kept[0]),
                           .groups = g->items,
                           .row_size = kept_row_size(g->kept),
                           .n = g->f.row,
                           .x_step = g->over[0].strides[0],
                           .n_splits = g->n_splits};
}

static clave_status run_parts(launch *l, const cumulating *g) {
  return launch_loops(l, g->items, g->n_splits, 4 * g->f.row / g->n_splits * g->width);
}

static clave_status launch_parts(cl_recorder *s, const node *n, const cumulating *g) {
  launch l;
  launch_begin(&l, s, n);
  define_fold(&l, g);
  launch_args(&l, &(cumulate_parts_args){.cumulate = arguments_of(g)});
  return run_parts(&l, g);
}

static clave_status launch_folds(cl_recorder *s, const node *n, const cumulating *g) {
  launch l;
  launch_begin(&l, s, n);
  define_fold(&l, g);
  launch_args(&l, &(cumulate_args){.cumulate = arguments_of(g),
                                   .out = buffer_arg(g->f.out),
                                   .indices = optional_arg(g->f.indices),
                                   .out_strides = strides_arg(&g->kept[1]),
                                   .out_step = g->over[1].strides[0]});
  return run_parts(&l, g);
}

clave_status opencl_cumulate(cl_recorder *s, const node *n) {
  cumulating g;
  describe_cumulate(n, &g.f);
  lay_out(s, &g);
  if (g.n_splits > 1) {
    int64_t states = g.n_splits * g.items * (2 * g.width + is_extreme(g.f.kind));
    TRY(recorder_scratch(s, (size_t)states * sizeof(int64_t)));
    TRY(launch_parts(s, n, &g));
  }
  return launch_folds(s, n, &g);
}
