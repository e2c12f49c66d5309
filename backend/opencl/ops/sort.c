/* Stable merge sort: kernels_cl/sort.cl. Only the first k entries of each run are kept, so a small
 * k costs little more than one pass over x. On CPUs a run is a whole row, or a range of it if there
 * are fewer rows than cores. Runs are sorted by insertion if k is small, else by radix. */
#include "ops/sort.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_RUN = 128, GPU_RUN = 16 }; /* maximum entries that are sorted by insertion */
enum { CPU_CHUNK = 1024, GPU_CHUNK = 16 };
enum {
  MIN_CPU_RUN_SIZE = 4096,
  MAX_GPU_RUN_SIZE = 1024
}; /* per run: minimum on CPUs, maximum on GPUs */

typedef struct sorting {
  cl_recorder *recorder;
  const node *node;
  sort_desc desc;
  tensor kept[2], over[2]; /* [0]: of x; [1]: of out */
  bool long_key, by_digits;
  int64_t stretch, length, m, pitch; /* stretch: elements per run; length: entries per run; m:
                                        entries per row, `pitch` at first */
  int half;                          /* half of the scratch memory that holds the entries */
} sorting;

static bool has_long_key(dtype t) { return t == DTYPE_F64 || t == DTYPE_I64; }

static int run_of(const sorting *sorting) {
  return recorder_traits(sorting->recorder)->is_cpu ? CPU_RUN : GPU_RUN;
}

/* Scratch memory has two halves of entries, each of a key and a position of the same size. */
static size_t entry_bytes(const sorting *sorting) { return sorting->long_key ? 16 : 8; }
static int64_t entries_offset(const sorting *sorting, int half) {
  return half * sorting->desc.n_rows * sorting->pitch;
}

static clave_status make_entries(sorting *sorting) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)(sorting->desc.n_rows * sorting->pitch),
                             2 * entry_bytes(sorting), &bytes))
    return status_no_memory();
  return recorder_scratch(sorting->recorder, bytes);
}

/* Returns the best number of runs: enough for all cores or lanes, but more cost more merges. */
static int64_t wanted_runs(const sorting *sorting) {
  const device_traits *traits = recorder_traits(sorting->recorder);
  return (int64_t)traits->compute_units * (!traits->is_cpu ? 512 : sorting->by_digits ? 1 : 4);
}

/* Returns the run size, so that all runs of a row have about the same size. */
static int64_t cpu_run_size(const sorting *sorting) {
  int64_t least = max_i64(
      MIN_CPU_RUN_SIZE, ceil_div(sorting->desc.n_rows * sorting->desc.size, wanted_runs(sorting)));
  return ceil_div(sorting->desc.size, ceil_div(sorting->desc.size, least));
}

static int64_t gpu_run_size(const sorting *sorting, int64_t run) {
  if (sorting->desc.k >= run) return run;
  return max_i64(run, min_i64(MAX_GPU_RUN_SIZE,
                              sorting->desc.n_rows * sorting->desc.size / wanted_runs(sorting)));
}

static void opencl_sort_lay_out(sorting *sorting) {
  split_rows(sorting->desc.rows, 2, sorting->kept, sorting->over);
  sorting->long_key = has_long_key(sorting->desc.x->tensor.type);
  int64_t run = run_of(sorting);
  bool is_cpu = recorder_traits(sorting->recorder)->is_cpu;
  sorting->by_digits = is_cpu && sorting->desc.k > run;
  sorting->stretch = is_cpu ? cpu_run_size(sorting) : gpu_run_size(sorting, run);
  sorting->length = sorting->by_digits ? sorting->stretch : min_i64(sorting->desc.k, run);
  sorting->m = sorting->desc.size / sorting->stretch * sorting->length +
               min_i64(sorting->desc.size % sorting->stretch, sorting->length);
  sorting->pitch = sorting->m;
}

static void begin_runs(launch *launch, const sorting *sorting) {
  launch_begin(launch, sorting->recorder, sorting->node);
  launch_dtype(launch, "X_TYPE", sorting->desc.x->tensor.type);
  launch_compute(launch, sorting->desc.x->tensor.type);
  launch_define(launch, "DESCENDING", sorting->desc.descending);
  launch_define(launch, "LONG_KEY", sorting->long_key);
}

static clave_status launch_runs(sorting *sorting) {
  launch launch;
  begin_runs(&launch, sorting);
  launch_define(&launch, "RUN", run_of(sorting));
  int64_t per_row = ceil_div(sorting->desc.size, sorting->stretch);
  launch_args(&launch, &(sort_runs_args){.x = buffer_arg(sorting->desc.x),
                                         .entries = scratch_arg(entries_offset(sorting, 0)),
                                         .kept_dims = dims_arg(&sorting->kept[0]),
                                         .x_strides = strides_arg(&sorting->kept[0]),
                                         .items = sorting->desc.n_rows * per_row,
                                         .per_row = per_row,
                                         .pitch = sorting->pitch,
                                         .n = sorting->desc.size,
                                         .stride = sorting->over[0].strides[0],
                                         .stretch = sorting->stretch,
                                         .keep = sorting->length});
  return launch_loops(&launch, sorting->desc.n_rows * per_row, 1, sorting->stretch * 4);
}

static clave_status launch_digits(sorting *sorting) {
  launch launch;
  begin_runs(&launch, sorting);
  int64_t per_row = ceil_div(sorting->desc.size, sorting->stretch);
  launch_args(&launch,
              &(sort_digits_args){.x = buffer_arg(sorting->desc.x),
                                  .entries = scratch_arg(entries_offset(sorting, 0)),
                                  .entries_b = scratch_arg(entries_offset(sorting, 1)),
                                  .kept_dims = dims_arg(&sorting->kept[0]),
                                  .x_strides = strides_arg(&sorting->kept[0]),
                                  .items = sorting->desc.n_rows * per_row,
                                  .per_row = per_row,
                                  .n = sorting->desc.size,
                                  .stride = sorting->over[0].strides[0],
                                  .stretch = sorting->stretch,
                                  .keep = per_row > 1 ? sorting->stretch : sorting->desc.k});
  return launch_loops(&launch, sorting->desc.n_rows * per_row, 1, sorting->stretch * 8);
}

static clave_status opencl_sort_launch_merge(sorting *sorting) {
  launch launch;
  launch_begin(&launch, sorting->recorder, sorting->node);
  launch_define(&launch, "LONG_KEY", sorting->long_key);
  launch_dtype(&launch, "X_TYPE", sorting->long_key ? DTYPE_I64 : DTYPE_I32);
  launch_compute(&launch, DTYPE_I64);
  if (sorting->desc.n_rows * sorting->pitch > INT32_MAX) launch_wide(&launch);
  int64_t keep = min_i64(2 * sorting->length, sorting->desc.k),
          pairs = ceil_div(sorting->m, 2 * sorting->length);
  int64_t chunk = min_i64(keep, recorder_traits(sorting->recorder)->is_cpu ? CPU_CHUNK : GPU_CHUNK);
  int64_t per_pair = ceil_div(keep, chunk), items = sorting->desc.n_rows * pairs * per_pair;
  launch_args(&launch,
              &(sort_merge_args){.entries = scratch_arg(entries_offset(sorting, sorting->half)),
                                 .out = scratch_arg(entries_offset(sorting, 1 - sorting->half)),
                                 .items = items,
                                 .per_row = pairs,
                                 .per_pair = per_pair,
                                 .pitch = sorting->pitch,
                                 .m = sorting->m,
                                 .length = sorting->length,
                                 .keep = keep,
                                 .chunk = chunk});
  TRY(launch_loops(&launch, items, 1, chunk * 4));
  sorting->m =
      sorting->m / (2 * sorting->length) * keep + min_i64(sorting->m % (2 * sorting->length), keep);
  sorting->length = keep;
  sorting->half = 1 - sorting->half;
  return NULL;
}

static clave_status opencl_sort_launch_order(sorting *sorting) {
  if (sorting->desc.size > UINT32_MAX) return UNSUPPORTED("sorting rows of 2^32 elements or more");
  TRY(make_entries(sorting));
  TRY(sorting->by_digits ? launch_digits(sorting) : launch_runs(sorting));
  while (sorting->m > sorting->length) TRY(opencl_sort_launch_merge(sorting));
  return NULL;
}

clave_status launch_sort(cl_recorder *recorder, const node *node, const bound_tensor *tensor,
                         int axis, sorted_positions *out) {
  sorting sorting = {.recorder = recorder, .node = node};
  describe_order(tensor, axis, &sorting.desc);
  opencl_sort_lay_out(&sorting);
  TRY(opencl_sort_launch_order(&sorting));
  const int64_t stride = (int64_t)(entry_bytes(&sorting) / sizeof(uint32_t));
  *out = (sorted_positions){entries_offset(&sorting, sorting.half) * stride, sorting.pitch * stride,
                            stride};
  return NULL;
}

static clave_status opencl_sort_launch_store(sorting *sorting) {
  launch launch;
  launch_begin(&launch, sorting->recorder, sorting->node);
  launch_dtype(&launch, "TYPE", moved_type(sorting->desc.x->tensor.type));
  launch_define(&launch, "LONG_KEY", sorting->long_key);
  launch_dtype(&launch, "X_TYPE", sorting->long_key ? DTYPE_I64 : DTYPE_I32);
  launch_define(&launch, "INDICES", sorting->desc.indices != NULL);
  launch_compute(&launch, DTYPE_I64);
  launch_args(&launch,
              &(sort_store_args){.x = buffer_arg(sorting->desc.x),
                                 .entries = scratch_arg(entries_offset(sorting, sorting->half)),
                                 .out = buffer_arg(sorting->desc.out),
                                 .indices = optional_arg(sorting->desc.indices),
                                 .kept_dims = dims_arg(&sorting->kept[0]),
                                 .x_strides = strides_arg(&sorting->kept[0]),
                                 .out_strides = strides_arg(&sorting->kept[1]),
                                 .items = sorting->desc.n_rows * sorting->desc.k,
                                 .k = sorting->desc.k,
                                 .pitch = sorting->pitch,
                                 .x_stride = sorting->over[0].strides[0],
                                 .out_stride = sorting->over[1].strides[0]});
  return launch_loops(&launch, sorting->desc.n_rows * sorting->desc.k, 1, 8);
}

clave_status opencl_sort(cl_recorder *recorder, const node *node) {
  sorting sorting = {.recorder = recorder, .node = node};
  describe_sort(node, &sorting.desc);
  if (sorting.desc.n_rows * sorting.desc.k == 0) return NULL;
  opencl_sort_lay_out(&sorting);
  TRY(opencl_sort_launch_order(&sorting));
  return opencl_sort_launch_store(&sorting);
}
