/* Cumulative folds: kernels_cl/cumulate.cl. Long rows are divided into splits if there are few. */
#include "ops/cumulate.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { MAX_SPLITS = 512, CPU_PART = 4096, GPU_PART = 256 };

typedef struct cumulating {
  cumulate_desc desc;
  tensor kept[2], over[2]; /* [0]: of x; [1]: of out */
  int width;               /* W */
  int64_t items, n_splits;
} cumulating;

static bool is_extreme(ir_cumulate_kind kind) {
  return kind == IR_CUMULATE_KIND_MAX || kind == IR_CUMULATE_KIND_MIN;
}

static int64_t opencl_cumulate_count_splits(const cl_recorder *recorder,
                                            const cumulating *cumulating) {
  const device_traits *traits = recorder_traits(recorder);
  int64_t wanted = (int64_t)traits->compute_units * (traits->is_cpu ? 2 : 512);
  if (cumulating->items == 0 || cumulating->items >= wanted) return 1;
  int64_t splits = min_i64(wanted / cumulating->items,
                           cumulating->desc.row / (traits->is_cpu ? CPU_PART : GPU_PART));
  return max_i64(1, min_i64(splits, MAX_SPLITS));
}

static void opencl_cumulate_lay_out(const cl_recorder *recorder, cumulating *cumulating) {
  split_rows(cumulating->desc.rows, 2, cumulating->kept, cumulating->over);
  row_layout rows = choose_row_layout(recorder, cumulating->kept, cumulating->over, 2);
  bool vector = cumulating->desc.kind == IR_CUMULATE_KIND_SUM ||
                cumulating->desc.kind == IR_CUMULATE_KIND_PROD;
  cumulating->width = rows.row || !vector ? 1 : rows.width;
  cumulating->items = row_layout_items((row_layout){.width = cumulating->width}, cumulating->kept);
  cumulating->n_splits = opencl_cumulate_count_splits(recorder, cumulating);
}

static void define_fold(launch *launch, const cumulating *cumulating) {
  launch_dtype(launch, "X_TYPE", cumulating->desc.x->tensor.type);
  launch_dtype(launch, "OUT_TYPE", cumulating->desc.out->tensor.type);
  launch_compute(launch, cumulating->desc.out->tensor.type);
  launch_define(launch, "KIND", (int)cumulating->desc.kind);
  launch_define(launch, "INDICES", cumulating->desc.indices != NULL);
  launch_define(launch, "W", cumulating->width);
}

/* Scratch memory holds the splits, then the indices; each takes at most 8 bytes. */
static cumulate_params opencl_cumulate_arguments_of(const cumulating *cumulating) {
  bool split = cumulating->n_splits > 1;
  int64_t places = 2 * cumulating->n_splits * cumulating->items * cumulating->width;
  return (cumulate_params){.x = buffer_arg(cumulating->desc.x),
                           .splits = split ? scratch_arg(0) : absent_arg(),
                           .places = split ? scratch_arg(places) : absent_arg(),
                           .kept_dims = dims_arg(&cumulating->kept[0]),
                           .x_strides = strides_arg(&cumulating->kept[0]),
                           .groups = cumulating->items,
                           .row_size = kept_row_size(cumulating->kept),
                           .n = cumulating->desc.row,
                           .x_stride = cumulating->over[0].strides[0],
                           .n_splits = cumulating->n_splits};
}

static clave_status opencl_cumulate_run_splits(launch *launch, const cumulating *cumulating) {
  return launch_loops(launch, cumulating->items, cumulating->n_splits,
                      4 * cumulating->desc.row / cumulating->n_splits * cumulating->width);
}

static clave_status opencl_cumulate_launch_splits(cl_recorder *recorder, const node *node,
                                                  const cumulating *cumulating) {
  launch launch;
  launch_begin(&launch, recorder, node);
  define_fold(&launch, cumulating);
  launch_args(&launch,
              &(cumulate_splits_args){.cumulate = opencl_cumulate_arguments_of(cumulating)});
  return opencl_cumulate_run_splits(&launch, cumulating);
}

static clave_status launch_folds(cl_recorder *recorder, const node *node,
                                 const cumulating *cumulating) {
  launch launch;
  launch_begin(&launch, recorder, node);
  define_fold(&launch, cumulating);
  launch_args(&launch, &(cumulate_args){.cumulate = opencl_cumulate_arguments_of(cumulating),
                                        .out = buffer_arg(cumulating->desc.out),
                                        .indices = optional_arg(cumulating->desc.indices),
                                        .out_strides = strides_arg(&cumulating->kept[1]),
                                        .out_stride = cumulating->over[1].strides[0]});
  return opencl_cumulate_run_splits(&launch, cumulating);
}

clave_status opencl_cumulate(cl_recorder *recorder, const node *node) {
  cumulating cumulating;
  describe_cumulate(node, &cumulating.desc);
  opencl_cumulate_lay_out(recorder, &cumulating);
  if (cumulating.n_splits > 1) {
    int64_t states = cumulating.n_splits * cumulating.items *
                     (2 * cumulating.width + is_extreme(cumulating.desc.kind));
    TRY(recorder_scratch(recorder, (size_t)states * sizeof(int64_t)));
    TRY(opencl_cumulate_launch_splits(recorder, node, &cumulating));
  }
  return launch_folds(recorder, node, &cumulating);
}
