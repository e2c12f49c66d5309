/* Elementwise: one kernel is generated for each list of steps, dtypes and walk; kernels do not
 * depend on shapes.
 *
 * There are four walks over the collapsed shape. LINES is a 2-D range of (inner dimension, all
 * others), whose inner strides of 0 and 1 are known to the compiler. POINTS, for short inner
 * dimensions, divides indices for each element. On CPUs, a work-item of LOOPS has a range of out,
 * line by line. A work-item of TILES has a range of 16 lines, because neighbours of an input are
 * stored across the lines. */
#include "ops/elementwise.h"

#include <string.h>

#include "backend/opencl/launch/steps.h"
#include "backend/opencl/launch/stream.h"
#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"
#include "ops/epilogue.h"

/* Shorter lines do not fill a vector, so POINTS is faster. */
enum { MIN_LINE = 16 };

typedef enum walk { LINES, POINTS, LOOPS, TILES } walk;

typedef struct elementwise_kernel {
  steps_text text;
  walk how;
  int64_t each; /* LOOPS, TILES: neighbours per work-item */
} elementwise_kernel;

/* ---------------------------------------------------------------- source text */

static int opencl_elementwise_list_parameters(const elementwise_kernel *kernel, arg_info *args) {
  int n = 0;
  bool loops = kernel->how == LOOPS || kernel->how == TILES;
  args[n++] = (arg_info){.name = loops ? "total" : "n", .type = "index_t", .kind = ARG_INDEX};
  if (loops) args[n++] = (arg_info){.name = "each", .type = "index_t", .kind = ARG_INDEX};
  steps_list_inputs(&kernel->text, 0, args, &n);
  args[n++] = (arg_info){.name = "out", .type = "__global void *", .kind = ARG_BUFFER};
  args[n++] = (arg_info){.name = "out_offset", .type = "long", .kind = ARG_LONG};
  steps_list_numbers(&kernel->text, args, &n);
  if (!steps_divide(&kernel->text)) return n;
  args[n++] =
      (arg_info){.name = "fault", .type = "volatile __global fault_record *", .kind = ARG_FAULT};
  args[n++] = (arg_info){.name = "fault_node", .type = "uint", .kind = ARG_FAULT_NODE};
  return n;
}

/* Writes the indices of an element: i0 (inner), i1, ..., and `o`, its index in out. */
static void write_indices(const elementwise_kernel *kernel, text *text) {
  text_printf(text, "  const index_t i = (index_t)get_global_id(0);\n  if (i >= n) return;\n");
  bool lines = kernel->how == LINES;
  if (kernel->text.rank <= 1) {
    text_printf(text, "  const index_t i0 = i, o = i;\n");
    return;
  }
  if (lines)
    text_printf(text,
                "  const index_t row = (index_t)get_global_id(1), i0 = i, o = row * n + i;\n  "
                "index_t r = row;\n");
  else
    text_printf(text, "  const index_t o = i, i0 = i %% dims.s0;\n  index_t r = i / dims.s0;\n");
  for (int d = 1; d < kernel->text.rank - 1; d++)
    text_printf(text, "  const index_t i%d = r %% dims.s%d;\n  r /= dims.s%d;\n", d, d, d);
  text_printf(text, "  const index_t i%d = r;\n", kernel->text.rank - 1);
}

static void write_load(const elementwise_kernel *kernel, text *load, int input) {
  const step_names *names = kernel->text.names;
  text pointer = {0}, at = {0};
  text_printf(&pointer, "%s + %s", names->inputs[input], names->offsets[input]);
  if (kernel->text.inner[input] == INNER_ANY)
    text_printf(&at, "i0 * %s.s0", names->strides[input]);
  else
    text_printf(&at, "%s", kernel->text.inner[input] == INNER_ONE ? "i0" : "0");
  for (int d = 1; d < kernel->text.rank; d++)
    text_printf(&at, " + i%d * %s.s%d", d, names->strides[input], d);
  steps_write_load(&kernel->text, load, input, pointer.data, at.data);
  if (pointer.failed || at.failed) load->failed = true;
  text_free(&pointer);
  text_free(&at);
}

static void write_loops(const elementwise_kernel *kernel, text *text) {
  const char *out = dtype_name(kernel->text.desc.out->tensor.type);
  text_printf(text,
              "  index_t first = (index_t)get_global_id(0) * each, n = min(each, total - first);\n"
              "  __global STORAGE(%s) *y = (__global STORAGE(%s) *)out + out_offset + first;\n",
              out, out);
  steps_write_lines(&kernel->text, text, 0);
}

static void write_tiles(const elementwise_kernel *kernel, text *text) {
  text_printf(text,
              "  const index_t item = (index_t)get_global_id(0);\n  if (item >= total) return;\n");
  steps_write_tiles(&kernel->text, text);
}

static void write_items(const elementwise_kernel *kernel, text *text) {
  const char *out = dtype_name(kernel->text.desc.out->tensor.type);
  write_indices(kernel, text);
  for (int i = 0; i < kernel->text.desc.n_inputs; i++) write_load(kernel, text, i);
  steps_write(&kernel->text, text);
  text_printf(text, "  STORE(%s, (__global STORAGE(%s) *)out + out_offset, o, s%d);\n", out, out,
              kernel->text.desc.n_steps - 1);
}

static clave_status opencl_elementwise_write_kernel(const void *ctx, text *text, arg_info *args,
                                                    int *n_args) {
  const elementwise_kernel *kernel = ctx;
  *n_args = opencl_elementwise_list_parameters(kernel, args);
  steps_include(&kernel->text, text);
  text_printf(text, "__kernel void elementwise() {\n");
  if (kernel->how == LOOPS)
    write_loops(kernel, text);
  else if (kernel->how == TILES)
    write_tiles(kernel, text);
  else
    write_items(kernel, text);
  text_printf(text, "}\n");
  return text_status(text);
}

/* ---------------------------------------------------------------- launch */

/* Limits on the neighbours per work-item of LOOPS and TILES. */
enum { MIN_EACH = 1024, MAX_EACH = 16384, ITEMS_PER_CORE = 8 };
static int64_t opencl_elementwise_share_of(const cl_recorder *recorder, int64_t n) {
  int64_t items = ITEMS_PER_CORE * (int64_t)recorder_traits(recorder)->compute_units;
  return min_i64(max_i64(ceil_div(n, items), MIN_EACH), MAX_EACH);
}

/* Returns the number of work-items of TILES. */
static int64_t opencl_elementwise_count_tiles(const elementwise_kernel *kernel) {
  const tensor *out = &kernel->text.desc.shapes[0];
  const int64_t line = out->dims[out->rank - 1], lines = out->dims[out->rank - 2];
  return kernel->text.desc.n / (line * lines) * ceil_div(lines, MIN_LINE) *
         ceil_div(line, kernel->each);
}

static void push_arguments(launch *launch, const elementwise_kernel *kernel) {
  const tensor *out = &kernel->text.desc.shapes[0];
  const int64_t line = out->rank ? out->dims[out->rank - 1] : kernel->text.desc.n;
  launch_push_int(launch, kernel->how == TILES   ? opencl_elementwise_count_tiles(kernel)
                          : kernel->how == LINES ? line
                                                 : kernel->text.desc.n);
  if (kernel->how == LOOPS || kernel->how == TILES) launch_push_int(launch, kernel->each);
  steps_push_inputs(&kernel->text, 0, launch);
  launch_push_buffer(launch, buffer_arg(kernel->text.desc.out));
  steps_push_numbers(&kernel->text, launch);
}

/* Marks the inputs that are read by tiles. Returns false if there are none. */
static bool find_turned(elementwise_kernel *kernel) {
  const tensor *out = &kernel->text.desc.shapes[0];
  bool any = false;
  if (out->rank < 2 || out->dims[out->rank - 2] < MIN_LINE) return false;
  for (int i = 0; i < kernel->text.desc.n_inputs; i++)
    any |= kernel->text.turned[i] = steps_can_turn(&kernel->text, i);
  return any;
}

/* Returns the flags of the inputs that are read transposed as the bits of a number. */
static int turned_code(const elementwise_kernel *kernel) {
  int code = 0;
  for (int i = 0; i < kernel->text.desc.n_inputs; i++) code = code * 2 + kernel->text.turned[i];
  return code;
}

static walk opencl_elementwise_choose_walk(const cl_recorder *recorder,
                                           elementwise_kernel *kernel) {
  const tensor *out = &kernel->text.desc.shapes[0];
  const int64_t line = out->rank ? max_i64(out->dims[out->rank - 1], 1) : 1;
  if (out->rank > 1 && line < MIN_LINE) return POINTS;
  if (recorder_traits(recorder)->is_cpu && !steps_divide(&kernel->text))
    return find_turned(kernel) ? TILES : LOOPS;
  return out->rank > 1 && !recorder_accepts_work_groups(recorder, kernel->text.desc.n / line)
             ? POINTS
             : LINES;
}

static clave_status opencl_elementwise_launch_steps(cl_recorder *recorder, const node *node,
                                                    elementwise_kernel *kernel) {
  const tensor *out = &kernel->text.desc.shapes[0];
  kernel->text.names = &elementwise_names;
  memset(kernel->text.turned, 0, sizeof kernel->text.turned);
  TRY(steps_plan(&kernel->text));
  kernel->how = opencl_elementwise_choose_walk(recorder, kernel);
  kernel->each = kernel->how == TILES ? MIN_EACH / 2
                                      : opencl_elementwise_share_of(recorder, kernel->text.desc.n);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_generated(&launch, "elementwise", opencl_elementwise_write_kernel, kernel);
  launch_define(&launch, "RANK", kernel->text.rank);
  launch_define(&launch, "POINTS", (int)kernel->how);
  launch_define(&launch, "INNER", steps_inner_code(&kernel->text));
  launch_define(&launch, "TILES", turned_code(kernel));
  push_arguments(&launch, kernel);
  int64_t total = kernel->text.desc.n;
  if (kernel->how == LOOPS) return launch_groups(&launch, ceil_div(total, kernel->each), 1);
  if (kernel->how == TILES)
    return launch_groups(&launch, opencl_elementwise_count_tiles(kernel), 1);
  if (kernel->how == POINTS || kernel->text.rank <= 1) return launch_items(&launch, total);
  int64_t line = out->dims[kernel->text.rank - 1];
  size_t global[2] = {(size_t)line, (size_t)(line ? total / line : 0)}, local[2] = {LOCAL_SIZE, 1};
  return launch_run(&launch, 2, global, local);
}

clave_status opencl_elementwise(cl_recorder *recorder, const node *node) {
  elementwise_kernel kernel;
  describe_elementwise(node, &kernel.text.desc);
  return opencl_elementwise_launch_steps(recorder, node, &kernel);
}

clave_status launch_epilogue_alone(cl_recorder *recorder, const node *node) {
  elementwise_kernel kernel;
  return describe_own_epilogue(node, &kernel.text.desc)
             ? opencl_elementwise_launch_steps(recorder, node, &kernel)
             : NULL;
}
