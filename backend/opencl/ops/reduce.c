/* Reductions and argmax, argmin: see kernels_cl/reduce.cl. Chooses rows or columns, teams, and how
 * many work-items share one output where there are few. */
#include "ops/reduce.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum {
  KIND_ARGMAX = 11,
  KIND_ARGMIN = 12,
  MAX_SPLITS = 256,
  MIN_SPLIT_WORK = 16384, /* elements of a part: of a CPU's work-item, of one among many */
  MIN_ITEM_WORK = 128,
  CPU_STRIP = 8
};

typedef struct reduction {
  reduce_form f;
  int kind;
  row_class rows;
  int64_t n_outer, n_inner, inner_stride, n_splits;
} reduction;

static bool is_arg(int kind) { return kind >= KIND_ARGMAX; }

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Order does not matter to these folds: walk the memory forwards. */
static void sort_dims(tensor *t) {
  for (int i = 1; i < t->rank; i++)
    for (int j = i; j > 0 && magnitude(t->strides[j]) > magnitude(t->strides[j - 1]); j--) {
      int64_t dim = t->dims[j], stride = t->strides[j];
      t->dims[j] = t->dims[j - 1];
      t->strides[j] = t->strides[j - 1];
      t->dims[j - 1] = dim;
      t->strides[j - 1] = stride;
    }
  tensors_collapse(t, 1);
}

/* Outputs that a work-item makes. */
static int64_t lanes_of(const reduction *r) {
  return r->rows.row ? 1 : r->rows.width * r->rows.strip;
}

static int64_t count_splits(const cl_recorder *s, const reduction *r) {
  const device_traits *t = recorder_traits(s);
  int64_t wanted = (int64_t)t->compute_units * (t->is_cpu ? 2 : r->rows.team > 1 ? 8 : 512);
  int64_t items = row_class_items(r->rows, &r->f.kept), total = r->n_outer * r->n_inner;
  int64_t lanes = lanes_of(r), least = t->is_cpu ? MIN_SPLIT_WORK : MIN_ITEM_WORK * r->rows.team;
  if (items >= wanted || total * lanes < 2 * least) return 1;
  return min_i64(min_i64(wanted / items, total * lanes / least), MAX_SPLITS);
}

/* parameters: how many splits. */
static bool takes_splits(const void *problem, const kernel_variant *variant) {
  enum { LEAST = 64 }; /* elements of a part */
  const reduction *r = problem;
  return variant->parameters[0] * LEAST <= r->n_outer * r->n_inner;
}

static const kernel_variant splits_variants[] = {{.name = "rule"},
                                                 {"1", .parameters = {1}},
                                                 {"2", takes_splits, .parameters = {2}},
                                                 {"4", takes_splits, .parameters = {4}},
                                                 {"8", takes_splits, .parameters = {8}},
                                                 {"16", takes_splits, .parameters = {16}},
                                                 {"32", takes_splits, .parameters = {32}},
                                                 {"64", takes_splits, .parameters = {64}},
                                                 {"128", takes_splits, .parameters = {128}},
                                                 {"256", takes_splits, .parameters = {MAX_SPLITS}}};

static int64_t choose_splits(cl_recorder *s, const reduction *r) {
  tuning_key k = recorder_key(s);
  tuning_key_int(&k, "kind", r->kind);
  tuning_key_text(&k, "x", dtype_name(r->f.x->t.type));
  tuning_key_int(&k, "kept", r->f.n_kept);
  tuning_key_int(&k, "outer", r->n_outer);
  tuning_key_int(&k, "inner", r->n_inner);
  tuning_key_int(&k, "rows", r->rows.row);
  const variants all = {.family = "reduce splits",
                        .rows = splits_variants,
                        .n = sizeof splits_variants / sizeof *splits_variants,
                        .problem = r};
  const int64_t n = recorder_choose(s, &all, &k)->parameters[0];
  return n ? n : count_splits(s, r);
}

static void lay_out(cl_recorder *s, reduction *r) {
  if (!is_arg(r->kind)) sort_dims(&r->f.over);
  r->rows = choose_row_class(s, &r->f.kept, &r->f.over, 1);
  if (is_arg(r->kind) && !r->rows.row)
    r->rows.width = 1; /* finding the place goes element by element */
  r->rows.strip =
      !r->rows.row && r->rows.width > 1 && kept_row_size(&r->f.kept) >= CPU_STRIP * r->rows.width
          ? CPU_STRIP
          : 1;
  const tensor *over = &r->f.over;
  r->n_inner = over->rank > 0 ? over->dims[over->rank - 1] : 1;
  r->inner_stride = over->rank > 0 ? over->strides[over->rank - 1] : 1;
  r->n_outer = r->n_inner == 0 ? 0 : r->f.n_over / r->n_inner;
  r->n_splits = choose_splits(s, r);
}

static void define_types(launch *l, const reduction *r) {
  launch_define(l, "KIND", r->kind);
  launch_dtype(l, "X_TYPE", r->f.x->t.type);
  launch_dtype(l, "OUT_TYPE", r->f.out->t.type);
  launch_compute(l, r->f.x->t.type);
}

/* Scratch: states of 8 bytes a part, then places. */
static int64_t places_offset(const reduction *r) { return 3 * r->n_splits * r->f.n_kept; }

static clave_status launch_reduce(cl_recorder *s, const node *n, const reduction *r) {
  launch l;
  launch_begin(&l, s, n);
  define_types(&l, r);
  launch_row_class(&l, r->rows);
  launch_define(&l, "SPLIT", r->n_splits > 1);
  launch_define(&l, "STRIP", r->rows.strip);
  tensor outer = take_dims(&r->f.over, 0, r->f.over.rank > 0 ? r->f.over.rank - 1 : 0);
  int64_t items = row_class_items(r->rows, &r->f.kept);
  bool split = r->n_splits > 1;
  launch_args(&l, &(reduce_args){.x = buffer_arg(r->f.x),
                                 .out = buffer_arg(r->f.out),
                                 .parts = split ? scratch_arg(0) : absent_arg(),
                                 .places = split ? scratch_arg(places_offset(r)) : absent_arg(),
                                 .kept_dims = dims_arg(&r->f.kept),
                                 .kept_strides = strides_arg(&r->f.kept),
                                 .outer_dims = dims_arg(&outer),
                                 .outer_strides = strides_arg(&outer),
                                 .n_kept = r->f.n_kept,
                                 .groups = items,
                                 .row_size = kept_row_size(&r->f.kept),
                                 .n_outer = r->n_outer,
                                 .n_inner = r->n_inner,
                                 .inner_stride = r->inner_stride,
                                 .n_splits = r->n_splits,
                                 .divisor = r->f.divisor});
  int64_t work = ceil_div(r->n_outer * r->n_inner * lanes_of(r), r->n_splits);
  if (r->rows.team <= 1) return launch_loops(&l, items, r->n_splits, work);
  size_t global[2] = {(size_t)items * LOCAL_SIZE, (size_t)r->n_splits}, local[2] = {LOCAL_SIZE, 1};
  return launch_run(&l, 2, global, local);
}

static clave_status launch_merge(cl_recorder *s, const node *n, const reduction *r) {
  launch l;
  launch_begin(&l, s, n);
  define_types(&l, r);
  launch_row_class(&l, (row_class){.row = true, .width = 1});
  launch_define(&l, "SPLIT", 0);
  launch_args(&l, &(reduce_merge_args){.parts = scratch_arg(0),
                                       .places = scratch_arg(places_offset(r)),
                                       .out = buffer_arg(r->f.out),
                                       .n_kept = r->f.n_kept,
                                       .n_splits = r->n_splits,
                                       .divisor = r->f.divisor});
  return launch_items(&l, r->f.n_kept);
}

static clave_status run_reduction(cl_recorder *s, const node *n, reduction *r) {
  lay_out(s, r);
  if (r->n_splits == 1) return launch_reduce(s, n, r);
  TRY(recorder_scratch(s, (size_t)(4 * r->n_splits * r->f.n_kept) * sizeof(int64_t)));
  TRY(launch_reduce(s, n, r));
  return launch_merge(s, n, r);
}

clave_status opencl_reduce(cl_recorder *s, const node *n) {
  const ir_reduce *op = n->instruction->op;
  reduction r = {.kind = (int)op->kind};
  describe_reduce(n, &r.f);
  return run_reduction(s, n, &r);
}

clave_status launch_means(cl_recorder *s, const node *n, const bound_tensor *x,
                          const bound_tensor *out, int64_t rows, int64_t size) {
  reduction r = {.kind = (int)IR_REDUCE_KIND_MEAN,
                 .f = {.x = x,
                       .out = out,
                       .kept = {.rank = 1, .dims = {rows}, .strides = {size}},
                       .over = {.rank = 1, .dims = {size}, .strides = {1}},
                       .n_kept = rows,
                       .n_over = size,
                       .divisor = (double)size}};
  return run_reduction(s, n, &r);
}

clave_status opencl_arg_reduce(cl_recorder *s, const node *n) {
  const ir_arg_reduce *op = n->instruction->op;
  reduction r = {.kind = KIND_ARGMAX + (int)op->kind};
  describe_arg_reduce(n, &r.f);
  return run_reduction(s, n, &r);
}
