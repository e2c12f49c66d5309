/* Reductions, argmax and argmin: kernels_cl/reduce.cl. Chooses rows or columns, teams, and how many
 * work-items share one output if there are few outputs. */
#include "ops/reduce.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum {
  KIND_ARGMAX = 11,
  KIND_ARGMIN = 12,
  MAX_SPLITS = 256,
  MIN_SPLIT_WORK = 16384, /* minimum elements per split on a CPU; MIN_ITEM_WORK: on a GPU */
  MIN_ITEM_WORK = 128,
  CPU_STRIP = 8
};

typedef struct reduction {
  reduce_desc desc;
  int kind;
  row_layout rows;
  int64_t n_outer, n_inner, inner_stride, n_splits; /* n_outer * n_inner elements per output */
} reduction;

static bool is_arg(int kind) { return kind >= KIND_ARGMAX; }

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Sorts dimensions so that memory is read forwards, which does not change these reductions. */
static void sort_dims(tensor *tensor) {
  for (int i = 1; i < tensor->rank; i++)
    for (int j = i; j > 0 && magnitude(tensor->strides[j]) > magnitude(tensor->strides[j - 1]);
         j--) {
      int64_t dim = tensor->dims[j], stride = tensor->strides[j];
      tensor->dims[j] = tensor->dims[j - 1];
      tensor->strides[j] = tensor->strides[j - 1];
      tensor->dims[j - 1] = dim;
      tensor->strides[j - 1] = stride;
    }
  tensors_collapse(tensor, 1);
}

/* Returns the number of outputs per work-item. */
static int64_t opencl_reduce_lanes_of(const reduction *reduction) {
  return reduction->rows.row ? 1 : reduction->rows.width * reduction->rows.strip;
}

static int64_t opencl_reduce_count_splits(const cl_recorder *recorder, const reduction *reduction) {
  const device_traits *traits = recorder_traits(recorder);
  int64_t wanted = (int64_t)traits->compute_units * (traits->is_cpu             ? 2
                                                     : reduction->rows.team > 1 ? 8
                                                                                : 512);
  int64_t items = row_layout_items(reduction->rows, &reduction->desc.kept),
          total = reduction->n_outer * reduction->n_inner;
  int64_t lanes = opencl_reduce_lanes_of(reduction),
          least = traits->is_cpu ? MIN_SPLIT_WORK : MIN_ITEM_WORK * reduction->rows.team;
  if (items >= wanted || total * lanes < 2 * least) return 1;
  return min_i64(min_i64(wanted / items, total * lanes / least), MAX_SPLITS);
}

/* parameters: number of splits. */
static bool opencl_reduce_accepts_splits(const void *problem, const kernel_variant *variant) {
  enum { LEAST = 64 }; /* elements per split */
  const reduction *reduction = problem;
  return variant->parameters[0] * LEAST <= reduction->n_outer * reduction->n_inner;
}

static const kernel_variant splits_variants[] = {
    {.name = "rule"},
    {"1", .parameters = {1}},
    {"2", opencl_reduce_accepts_splits, .parameters = {2}},
    {"4", opencl_reduce_accepts_splits, .parameters = {4}},
    {"8", opencl_reduce_accepts_splits, .parameters = {8}},
    {"16", opencl_reduce_accepts_splits, .parameters = {16}},
    {"32", opencl_reduce_accepts_splits, .parameters = {32}},
    {"64", opencl_reduce_accepts_splits, .parameters = {64}},
    {"128", opencl_reduce_accepts_splits, .parameters = {128}},
    {"256", opencl_reduce_accepts_splits, .parameters = {MAX_SPLITS}}};

static int64_t opencl_reduce_choose_splits(cl_recorder *recorder, const reduction *reduction) {
  tuning_key key = recorder_key(recorder);
  tuning_key_int(&key, "kind", reduction->kind);
  tuning_key_text(&key, "x", dtype_name(reduction->desc.x->tensor.type));
  tuning_key_int(&key, "kept", reduction->desc.n_kept);
  tuning_key_int(&key, "outer", reduction->n_outer);
  tuning_key_int(&key, "inner", reduction->n_inner);
  tuning_key_int(&key, "rows", reduction->rows.row);
  const variants all = {.family = "reduce splits",
                        .rows = splits_variants,
                        .n = sizeof splits_variants / sizeof *splits_variants,
                        .problem = reduction};
  const int64_t n = recorder_choose(recorder, &all, &key)->parameters[0];
  return n ? n : opencl_reduce_count_splits(recorder, reduction);
}

static void opencl_reduce_lay_out(cl_recorder *recorder, reduction *reduction) {
  if (!is_arg(reduction->kind)) sort_dims(&reduction->desc.over);
  reduction->rows = choose_row_layout(recorder, &reduction->desc.kept, &reduction->desc.over, 1);
  if (is_arg(reduction->kind) && !reduction->rows.row)
    reduction->rows.width = 1; /* argmin and argmax compare element by element */
  reduction->rows.strip =
      !reduction->rows.row && reduction->rows.width > 1 &&
              kept_row_size(&reduction->desc.kept) >= CPU_STRIP * reduction->rows.width
          ? CPU_STRIP
          : 1;
  const tensor *over = &reduction->desc.over;
  reduction->n_inner = over->rank > 0 ? over->dims[over->rank - 1] : 1;
  reduction->inner_stride = over->rank > 0 ? over->strides[over->rank - 1] : 1;
  reduction->n_outer = reduction->n_inner == 0 ? 0 : reduction->desc.n_over / reduction->n_inner;
  reduction->n_splits = opencl_reduce_choose_splits(recorder, reduction);
}

static void define_types(launch *launch, const reduction *reduction) {
  launch_define(launch, "KIND", reduction->kind);
  launch_dtype(launch, "X_TYPE", reduction->desc.x->tensor.type);
  launch_dtype(launch, "OUT_TYPE", reduction->desc.out->tensor.type);
  launch_compute(launch, reduction->desc.x->tensor.type);
}

/* Scratch memory holds states of 8 bytes per split, then the indices. */
static int64_t places_offset(const reduction *reduction) {
  return 3 * reduction->n_splits * reduction->desc.n_kept;
}

static clave_status launch_reduce(cl_recorder *recorder, const node *node,
                                  const reduction *reduction) {
  launch launch;
  launch_begin(&launch, recorder, node);
  define_types(&launch, reduction);
  launch_row_layout(&launch, reduction->rows);
  launch_define(&launch, "SPLIT", reduction->n_splits > 1);
  launch_define(&launch, "STRIP", reduction->rows.strip);
  tensor outer = take_dims(&reduction->desc.over, 0,
                           reduction->desc.over.rank > 0 ? reduction->desc.over.rank - 1 : 0);
  int64_t items = row_layout_items(reduction->rows, &reduction->desc.kept);
  bool split = reduction->n_splits > 1;
  launch_args(&launch,
              &(reduce_args){.x = buffer_arg(reduction->desc.x),
                             .out = buffer_arg(reduction->desc.out),
                             .splits = split ? scratch_arg(0) : absent_arg(),
                             .places = split ? scratch_arg(places_offset(reduction)) : absent_arg(),
                             .kept_dims = dims_arg(&reduction->desc.kept),
                             .kept_strides = strides_arg(&reduction->desc.kept),
                             .outer_dims = dims_arg(&outer),
                             .outer_strides = strides_arg(&outer),
                             .n_kept = reduction->desc.n_kept,
                             .groups = items,
                             .row_size = kept_row_size(&reduction->desc.kept),
                             .n_outer = reduction->n_outer,
                             .n_inner = reduction->n_inner,
                             .inner_stride = reduction->inner_stride,
                             .n_splits = reduction->n_splits,
                             .divisor = reduction->desc.divisor});
  int64_t work =
      ceil_div(reduction->n_outer * reduction->n_inner * opencl_reduce_lanes_of(reduction),
               reduction->n_splits);
  if (reduction->rows.team <= 1) return launch_loops(&launch, items, reduction->n_splits, work);
  size_t global[2] = {(size_t)items * LOCAL_SIZE, (size_t)reduction->n_splits},
         local[2] = {LOCAL_SIZE, 1};
  return launch_run(&launch, 2, global, local);
}

static clave_status opencl_reduce_launch_merge(cl_recorder *recorder, const node *node,
                                               const reduction *reduction) {
  launch launch;
  launch_begin(&launch, recorder, node);
  define_types(&launch, reduction);
  launch_row_layout(&launch, (row_layout){.row = true, .width = 1});
  launch_define(&launch, "SPLIT", 0);
  launch_args(&launch, &(reduce_merge_args){.splits = scratch_arg(0),
                                            .places = scratch_arg(places_offset(reduction)),
                                            .out = buffer_arg(reduction->desc.out),
                                            .n_kept = reduction->desc.n_kept,
                                            .n_splits = reduction->n_splits,
                                            .divisor = reduction->desc.divisor});
  return launch_items(&launch, reduction->desc.n_kept);
}

static clave_status run_reduction(cl_recorder *recorder, const node *node, reduction *reduction) {
  opencl_reduce_lay_out(recorder, reduction);
  if (reduction->n_splits == 1) return launch_reduce(recorder, node, reduction);
  TRY(recorder_scratch(
      recorder, (size_t)(4 * reduction->n_splits * reduction->desc.n_kept) * sizeof(int64_t)));
  TRY(launch_reduce(recorder, node, reduction));
  return opencl_reduce_launch_merge(recorder, node, reduction);
}

clave_status opencl_reduce(cl_recorder *recorder, const node *node) {
  const ir_reduce *op = node->instruction->op;
  reduction reduction = {.kind = (int)op->kind};
  describe_reduce(node, &reduction.desc);
  return run_reduction(recorder, node, &reduction);
}

clave_status launch_means(cl_recorder *recorder, const node *node, const bound_tensor *values,
                          const bound_tensor *out, int64_t rows, int64_t size) {
  reduction reduction = {.kind = (int)IR_REDUCE_KIND_MEAN,
                         .desc = {.x = values,
                                  .out = out,
                                  .kept = {.rank = 1, .dims = {rows}, .strides = {size}},
                                  .over = {.rank = 1, .dims = {size}, .strides = {1}},
                                  .n_kept = rows,
                                  .n_over = size,
                                  .divisor = (double)size}};
  return run_reduction(recorder, node, &reduction);
}

clave_status opencl_arg_reduce(cl_recorder *recorder, const node *node) {
  const ir_arg_reduce *op = node->instruction->op;
  reduction reduction = {.kind = KIND_ARGMAX + (int)op->kind};
  describe_arg_reduce(node, &reduction.desc);
  return run_reduction(recorder, node, &reduction);
}
