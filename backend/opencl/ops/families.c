/* Helpers that several op families share: operands, the split of dimensions into walked and kept
 * ones, work-group sizes for loops. */
#include "backend/opencl/ops/families.h"

dtype moved_type(dtype t) {
  static const dtype by_size[9] = {
      [1] = DTYPE_U8, [2] = DTYPE_I16, [4] = DTYPE_I32, [8] = DTYPE_I64};
  return by_size[dtype_size(t)];
}

/* A CPU runs a work-group on one core, so each core should get several groups, and each group
 * enough work. With little work the size hardly matters: 16 saves PoCL a compilation, because it is
 * used for more work, too. */
size_t choose_local(const cl_recorder *recorder, int64_t items, int64_t work) {
  const device_traits *traits = recorder_traits(recorder);
  if (!traits->is_cpu) return LOCAL_SIZE;
  enum { LITTLE = 1 << 14 };
  if (items * work <= LITTLE) return 16;
  int64_t wanted = 4 * (int64_t)traits->compute_units;
  if (work < 256 && items >= wanted * 64) return 64;
  if (work < 1024 && items >= wanted * 16) return 16;
  return 1;
}

/* parameters: work-items per work-group. Kernels for CPUs work with any group size. */
static bool accepts_group(const void *traits, const kernel_variant *variant) {
  const device_traits *device_traits = traits;
  return device_traits->is_cpu && (size_t)variant->parameters[0] <= device_traits->max_local;
}

static const kernel_variant group_variants[] = {{.name = "rule"},
                                                {"1", accepts_group, .parameters = {1}},
                                                {"16", accepts_group, .parameters = {16}},
                                                {"64", accepts_group, .parameters = {LOCAL_SIZE}}};

static size_t tuned_local(const launch *launch, int64_t items, int64_t others, int64_t work) {
  tuning_key key = recorder_key(launch->recorder);
  tuning_key_text(&key, "kernel", launch->kernel);
  tuning_key_int(&key, "items", items);
  tuning_key_int(&key, "others", others);
  tuning_key_int(&key, "work", work);
  const variants all = {.family = "group",
                        .rows = group_variants,
                        .n = sizeof group_variants / sizeof *group_variants,
                        .problem = recorder_traits(launch->recorder)};
  const int64_t local = recorder_choose(launch->recorder, &all, &key)->parameters[0];
  return local ? (size_t)local : choose_local(launch->recorder, items * others, work);
}

clave_status launch_loops(launch *launch, int64_t items, int64_t others, int64_t work) {
  if (items <= 0 || others <= 0) return NULL;
  size_t global[2] = {(size_t)items, (size_t)others},
         local[2] = {tuned_local(launch, items, others, work), 1};
  return launch_run(launch, others > 1 ? 2 : 1, global, local);
}

clave_status launch_rows(launch *launch, int64_t rows, int64_t row_size, int team) {
  return team > 1 ? launch_groups(launch, rows, (size_t)team)
                  : launch_loops(launch, rows, 1, row_size);
}

/* Kernels add a row in blocks of up to 64 W TEAM elements, whose lanes are added in pairs. The
 * error is at most n / (W TEAM) + log2(W TEAM) roundings of the sum of magnitudes, which is less
 * than n + 8, the bound that results are checked against. */
typedef struct rows_problem {
  const device_traits *traits;
  int64_t size;
} rows_problem;

/* parameters: team and width of a row_walk. A row needs an element for each lane of the team. */
static bool accepts_team(const void *problem, const kernel_variant *variant) {
  const rows_problem *rows_problem = problem;
  const int64_t team = variant->parameters[0], width = variant->parameters[1];
  return (size_t)team <= rows_problem->traits->max_local && rows_problem->size >= team * width;
}

static const kernel_variant rows_variants[] = {
    {.name = "rule"},
    {"alone", .parameters = {1, 1}},
    {"vector", .parameters = {1, 16}},
    {"team 16", accepts_team, .parameters = {16, 1}},
    {"team 64", accepts_team, .parameters = {64, 1}},
    {"team 256", accepts_team, .parameters = {256, 1}},
    {"vector team 16", accepts_team, .parameters = {16, 16}}};

row_walk choose_row_walk(cl_recorder *recorder, const char *family, const node *node,
                         const tensor *tensor, int64_t rows, int64_t size, row_walk by_rule) {
  const rows_problem problem = {recorder_traits(recorder), size};
  tuning_key key = recorder_key(recorder);
  tuning_key_text(&key, "op", op_table[node->instruction->op_type].name);
  tuning_key_text(&key, "x", dtype_name(tensor->type));
  tuning_key_int(&key, "rows", rows);
  tuning_key_int(&key, "size", size);
  const variants all = {.family = family,
                        .rows = rows_variants,
                        .n = sizeof rows_variants / sizeof *rows_variants,
                        .problem = &problem};
  const int64_t *walk = recorder_choose(recorder, &all, &key)->parameters;
  return walk[0] ? (row_walk){.team = (int)walk[0], .width = (int)walk[1]} : by_rule;
}

void split_rows(const tensor *rows, int n, tensor *kept, tensor *over) {
  for (int i = 0; i < n; i++) {
    kept[i] = take_dims(&rows[i], 0, rows[i].rank - 1);
    over[i] = take_dims(&rows[i], rows[i].rank - 1, rows[i].rank);
  }
}

static bool all_unit_stride(const tensor *ts, int n) {
  for (int i = 0; i < n; i++)
    if (ts[i].rank > 0 && ts[i].strides[ts[i].rank - 1] != 1) return false;
  return true;
}

row_layout choose_row_layout(const cl_recorder *recorder, const tensor *kept, const tensor *over,
                             int n) {
  bool is_cpu = recorder_traits(recorder)->is_cpu;
  int64_t inner = over->rank > 0 ? over->dims[over->rank - 1] : 1;
  if (inner > 1 && all_unit_stride(over, n))
    return (row_layout){
        .row = true, .team = !is_cpu && inner >= 32 ? LOCAL_SIZE : 1, .width = is_cpu ? 16 : 1};
  bool wide = is_cpu && kept_row_size(kept) >= 16 && all_unit_stride(kept, n);
  return (row_layout){.row = false, .team = 1, .width = wide ? 16 : 1};
}

void launch_row_layout(launch *launch, row_layout layout) {
  launch_define(launch, "ROW", layout.row);
  launch_define(launch, "TEAM", layout.team > 1 ? layout.team : 1);
  launch_define(launch, "W", layout.width);
}

int64_t kept_row_size(const tensor *kept) {
  return kept->rank > 0 ? kept->dims[kept->rank - 1] : 1;
}

int64_t row_layout_items(row_layout layout, const tensor *kept) {
  int64_t rows = tensor_numel(kept), size = kept_row_size(kept);
  return layout.row || size == 0
             ? rows
             : rows / size * ceil_div(size, layout.width * (layout.strip > 1 ? layout.strip : 1));
}

bound_tensor slice_images(const bound_tensor *tensor, int64_t first, int64_t count) {
  bound_tensor part = *tensor;
  int64_t size =
      tensor->tensor.dims[0] ? tensor_numel(&tensor->tensor) / tensor->tensor.dims[0] : 0;
  part.tensor.dims[0] = count;
  part.tensor.offset += first * size;
  return part;
}
