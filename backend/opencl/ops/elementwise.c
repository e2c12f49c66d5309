/* Elementwise lists: one generated kernel per list of steps, dtypes and way of walking, never per
 * shape.
 *
 * Four ways of walking the collapsed shape: LINES, a 2-D range of (inner dimension, all others),
 * inner strides 0 and 1 known to the compiler; POINTS, one division chain per element, where the
 * inner dimension is short; and on CPUs LOOPS, a part of out for each work-item, line by line, or
 * TILES, parts of 16 lines, where neighbours of an input lie across the lines. */
#include "ops/elementwise.h"

#include <string.h>

#include "backend/opencl/launch/steps.h"
#include "backend/opencl/launch/stream.h"
#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"
#include "ops/epilogue.h"

/* Below this a line does not fill a vector and POINTS is faster. */
enum { MIN_LINE = 16 };

typedef enum walk { LINES, POINTS, LOOPS, TILES } walk;

typedef struct elementwise_kernel {
  steps_text s;
  walk how;
  int64_t each; /* LOOPS, TILES: neighbours of a work-item */
} elementwise_kernel;

/* ---------------------------------------------------------------- source text */

static int list_parameters(const elementwise_kernel *p, arg_info *args) {
  int n = 0;
  bool loops = p->how == LOOPS || p->how == TILES;
  args[n++] = (arg_info){.name = loops ? "total" : "n", .type = "index_t", .kind = ARG_INDEX};
  if (loops) args[n++] = (arg_info){.name = "each", .type = "index_t", .kind = ARG_INDEX};
  steps_list_inputs(&p->s, 0, args, &n);
  args[n++] = (arg_info){.name = "out", .type = "__global void *", .kind = ARG_BUFFER};
  args[n++] = (arg_info){.name = "out_offset", .type = "long", .kind = ARG_LONG};
  steps_list_numbers(&p->s, args, &n);
  if (!steps_divide(&p->s)) return n;
  args[n++] =
      (arg_info){.name = "fault", .type = "volatile __global fault_record *", .kind = ARG_FAULT};
  args[n++] = (arg_info){.name = "fault_node", .type = "uint", .kind = ARG_FAULT_NODE};
  return n;
}

/* Sets i0 (inner) ... of the element, and `o`, its place in out. */
static void write_indices(const elementwise_kernel *p, text *t) {
  text_printf(t, "  const index_t i = (index_t)get_global_id(0);\n  if (i >= n) return;\n");
  bool lines = p->how == LINES;
  if (p->s.rank <= 1) {
    text_printf(t, "  const index_t i0 = i, o = i;\n");
    return;
  }
  if (lines)
    text_printf(t,
                "  const index_t row = (index_t)get_global_id(1), i0 = i, o = row * n + i;\n  "
                "index_t r = row;\n");
  else
    text_printf(t, "  const index_t o = i, i0 = i %% dims.s0;\n  index_t r = i / dims.s0;\n");
  for (int d = 1; d < p->s.rank - 1; d++)
    text_printf(t, "  const index_t i%d = r %% dims.s%d;\n  r /= dims.s%d;\n", d, d, d);
  text_printf(t, "  const index_t i%d = r;\n", p->s.rank - 1);
}

static void write_load(const elementwise_kernel *p, text *t, int input) {
  const step_names *names = p->s.names;
  text pointer = {0}, at = {0};
  text_printf(&pointer, "%s + %s", names->inputs[input], names->offsets[input]);
  if (p->s.inner[input] == INNER_ANY)
    text_printf(&at, "i0 * %s.s0", names->strides[input]);
  else
    text_printf(&at, "%s", p->s.inner[input] == INNER_ONE ? "i0" : "0");
  for (int d = 1; d < p->s.rank; d++)
    text_printf(&at, " + i%d * %s.s%d", d, names->strides[input], d);
  steps_write_load(&p->s, t, input, pointer.data, at.data);
  if (pointer.failed || at.failed) t->failed = true;
  text_free(&pointer);
  text_free(&at);
}

static void write_loops(const elementwise_kernel *p, text *t) {
  const char *out = dtype_name(p->s.f.out->t.type);
  text_printf(t,
              "  index_t first = (index_t)get_global_id(0) * each, n = min(each, total - first);\n"
              "  __global STORAGE(%s) *y = (__global STORAGE(%s) *)out + out_offset + first;\n",
              out, out);
  steps_write_lines(&p->s, t, 0);
}

static void write_tiles(const elementwise_kernel *p, text *t) {
  text_printf(t,
              "  const index_t item = (index_t)get_global_id(0);\n  if (item >= total) return;\n");
  steps_write_tiles(&p->s, t);
}

static void write_items(const elementwise_kernel *p, text *t) {
  const char *out = dtype_name(p->s.f.out->t.type);
  write_indices(p, t);
  for (int i = 0; i < p->s.f.n_inputs; i++) write_load(p, t, i);
  steps_write(&p->s, t);
  text_printf(t, "  STORE(%s, (__global STORAGE(%s) *)out + out_offset, o, s%d);\n", out, out,
              p->s.f.n_steps - 1);
}

static clave_status write_kernel(const void *ctx, text *t, arg_info *args, int *n_args) {
  const elementwise_kernel *p = ctx;
  *n_args = list_parameters(p, args);
  steps_include(&p->s, t);
  text_printf(t, "__kernel void elementwise() {\n");
  if (p->how == LOOPS)
    write_loops(p, t);
  else if (p->how == TILES)
    write_tiles(p, t);
  else
    write_items(p, t);
  text_printf(t, "}\n");
  return text_status(t);
}

/* ---------------------------------------------------------------- launch */

/* Neighbours of a work-item that loops. */
enum { LEAST_EACH = 1024, MOST_EACH = 16384, ITEMS_PER_CORE = 8 };
static int64_t share_of(const cl_recorder *s, int64_t n) {
  int64_t items = ITEMS_PER_CORE * (int64_t)recorder_traits(s)->compute_units;
  return min_i64(max_i64(ceil_div(n, items), LEAST_EACH), MOST_EACH);
}

/* Work-items by TILES. */
static int64_t count_tiles(const elementwise_kernel *p) {
  const tensor *out = &p->s.f.shapes[0];
  const int64_t line = out->dims[out->rank - 1], lines = out->dims[out->rank - 2];
  return p->s.f.n / (line * lines) * ceil_div(lines, MIN_LINE) * ceil_div(line, p->each);
}

static void push_arguments(launch *l, const elementwise_kernel *p) {
  const tensor *out = &p->s.f.shapes[0];
  const int64_t line = out->rank ? out->dims[out->rank - 1] : p->s.f.n;
  launch_push_int(l, p->how == TILES ? count_tiles(p) : p->how == LINES ? line : p->s.f.n);
  if (p->how == LOOPS || p->how == TILES) launch_push_int(l, p->each);
  steps_push_inputs(&p->s, 0, l);
  launch_push_buffer(l, buffer_arg(p->s.f.out));
  steps_push_numbers(&p->s, l);
}

/* Which inputs are read by tiles; false: none. */
static bool find_turned(elementwise_kernel *p) {
  const tensor *out = &p->s.f.shapes[0];
  bool any = false;
  if (out->rank < 2 || out->dims[out->rank - 2] < MIN_LINE) return false;
  for (int i = 0; i < p->s.f.n_inputs; i++) any |= p->s.turned[i] = steps_can_turn(&p->s, i);
  return any;
}

/* One number for all of `turned`. */
static int turned_code(const elementwise_kernel *p) {
  int code = 0;
  for (int i = 0; i < p->s.f.n_inputs; i++) code = code * 2 + p->s.turned[i];
  return code;
}

static walk choose_walk(const cl_recorder *s, elementwise_kernel *p) {
  const tensor *out = &p->s.f.shapes[0];
  const int64_t line = out->rank ? max_i64(out->dims[out->rank - 1], 1) : 1;
  if (out->rank > 1 && line < MIN_LINE) return POINTS;
  if (recorder_traits(s)->is_cpu && !steps_divide(&p->s)) return find_turned(p) ? TILES : LOOPS;
  return out->rank > 1 && !recorder_takes_groups(s, p->s.f.n / line) ? POINTS : LINES;
}

static clave_status launch_steps(cl_recorder *s, const node *n, elementwise_kernel *p) {
  const tensor *out = &p->s.f.shapes[0];
  p->s.names = &elementwise_names;
  memset(p->s.turned, 0, sizeof p->s.turned);
  TRY(steps_plan(&p->s));
  p->how = choose_walk(s, p);
  p->each = p->how == TILES ? LEAST_EACH / 2 : share_of(s, p->s.f.n);
  launch l;
  launch_begin(&l, s, n);
  launch_generated(&l, "elementwise", write_kernel, p);
  launch_define(&l, "RANK", p->s.rank);
  launch_define(&l, "POINTS", (int)p->how);
  launch_define(&l, "INNER", steps_inner_code(&p->s));
  launch_define(&l, "TILES", turned_code(p));
  push_arguments(&l, p);
  int64_t total = p->s.f.n;
  if (p->how == LOOPS) return launch_groups(&l, ceil_div(total, p->each), 1);
  if (p->how == TILES) return launch_groups(&l, count_tiles(p), 1);
  if (p->how == POINTS || p->s.rank <= 1) return launch_items(&l, total);
  int64_t line = out->dims[p->s.rank - 1];
  size_t global[2] = {(size_t)line, (size_t)(line ? total / line : 0)}, local[2] = {LOCAL_SIZE, 1};
  return launch_run(&l, 2, global, local);
}

clave_status opencl_elementwise(cl_recorder *s, const node *n) {
  elementwise_kernel p;
  describe_elementwise(n, &p.s.f);
  return launch_steps(s, n, &p);
}

clave_status launch_epilogue_alone(cl_recorder *s, const node *n) {
  elementwise_kernel p;
  return describe_own_epilogue(n, &p.s.f) ? launch_steps(s, n, &p) : NULL;
}
