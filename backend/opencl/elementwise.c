/* Elementwise lists: one generated kernel per list of steps, dtypes and way of walking, never per
 * shape. The text comes from the expressions of ops/elementwise.tsv; every step is rounded to its
 * dtype, so fused or not gives the same bits.
 *
 * Two ways of walking the collapsed shape: LINES, a 2-D range of (inner dimension, all others),
 * inner strides 0 and 1 known to the compiler; and POINTS, one division chain per element, where
 * the inner dimension is short. */
#include "ops/elementwise.h"

#include <stdio.h>
#include <string.h>

#include "opencl_ops.h"

/* Below this a line does not fill a vector and POINTS is faster. */
enum { MIN_LINE = 16 };
/* Numbers passed as arguments; the immediates beyond are written into the source. */
enum { MAX_NUMBERS = 24 };

typedef enum walk { LINES, POINTS } walk;
typedef enum inner_stride { INNER_ZERO, INNER_ONE, INNER_ANY } inner_stride;

typedef struct elementwise_kernel {
  elementwise_form f;
  int rank;
  inner_stride inner[MAX_STEP_INPUTS];
  walk how;
  const elementwise_operand *numbers[MAX_NUMBERS]; /* of f */
  int n_numbers;
} elementwise_kernel;

static const char *const input_names[MAX_STEP_INPUTS] = {"x0", "x1", "x2", "x3",
                                                         "x4", "x5", "x6", "x7"};
static const char *const offset_names[MAX_STEP_INPUTS] = {"x0_offset", "x1_offset", "x2_offset",
                                                          "x3_offset", "x4_offset", "x5_offset",
                                                          "x6_offset", "x7_offset"};
static const char *const stride_names[MAX_STEP_INPUTS] = {"x0_strides", "x1_strides", "x2_strides",
                                                          "x3_strides", "x4_strides", "x5_strides",
                                                          "x6_strides", "x7_strides"};
static const char *const number_names[MAX_NUMBERS] = {
    "n0",  "n1",  "n2",  "n3",  "n4",  "n5",  "n6",  "n7",  "n8",  "n9",  "n10", "n11",
    "n12", "n13", "n14", "n15", "n16", "n17", "n18", "n19", "n20", "n21", "n22", "n23"};

static const char *compute_type(dtype compute) {
  return compute == DTYPE_F64 ? "double" : compute == DTYPE_F32 ? "float" : "long";
}
static const char *compute_suffix(dtype compute) {
  return compute == DTYPE_F64 ? "_f64" : compute == DTYPE_F32 ? "_f32" : "_i64";
}

static dtype input_dtype(const elementwise_kernel *p, int i) { return p->f.inputs[i]->t.type; }

/* ---------------------------------------------------------------- planning */

static void find_walk(elementwise_kernel *p) {
  const tensor *out = &p->f.shapes[0];
  p->rank = out->rank;
  p->how = out->rank <= 1 || out->dims[out->rank - 1] >= MIN_LINE ? LINES : POINTS;
  for (int i = 0; i < p->f.n_inputs; i++) {
    const tensor *x = &p->f.shapes[1 + i];
    int64_t stride = x->rank ? x->strides[x->rank - 1] : 0;
    p->inner[i] = stride == 0 ? INNER_ZERO : stride == 1 ? INNER_ONE : INNER_ANY;
  }
}

static bool add_number(elementwise_kernel *p, const elementwise_operand *o) {
  if (p->n_numbers == MAX_NUMBERS) return false;
  p->numbers[p->n_numbers++] = o;
  return true;
}

/* Values first: they cannot be written into the source. */
static clave_status collect_numbers(elementwise_kernel *p, bool values) {
  for (int i = 0; i < p->f.n_steps; i++) {
    const elementwise_step *s = &p->f.steps[i];
    for (int j = 0; j < s->n_operands; j++) {
      const elementwise_operand *o = &s->operands[j];
      if (!is_number(o) || (o->source == IR_OPERAND_SOURCE_VALUE) != values) continue;
      if (!add_number(p, o) && values)
        return UNSUPPORTED("more than %d host scalars in one elementwise node", MAX_NUMBERS);
    }
  }
  return NULL;
}

static clave_status plan_kernel(elementwise_kernel *p, const node *n) {
  describe_elementwise(n, &p->f);
  p->n_numbers = 0;
  find_walk(p);
  TRY(collect_numbers(p, true));
  return collect_numbers(p, false);
}

static bool divides(const elementwise_form *f) {
  for (int i = 0; i < f->n_steps; i++)
    if (f->steps[i].divides) return true;
  return false;
}

/* ---------------------------------------------------------------- source text */

static int find_number(const elementwise_kernel *p, const elementwise_operand *o) {
  for (int i = 0; i < p->n_numbers; i++)
    if (p->numbers[i] == o) return i;
  return -1;
}

/* Bit-exact, whatever the number. */
static void write_literal(text *t, const elementwise_operand *o) {
  union {
    double d;
    uint64_t u;
  } wide = {.d = o->f};
  union {
    float f;
    uint32_t u;
  } narrow = {.f = (float)o->f};
  if (o->compute == DTYPE_I64)
    text_printf(t, "(long)0x%llxul", (unsigned long long)o->i);
  else if (o->compute == DTYPE_F64)
    text_printf(t, "as_double(0x%llxul)", (unsigned long long)wide.u);
  else
    text_printf(t, "as_float(0x%xu)", narrow.u);
}

static void write_operand(const elementwise_kernel *p, text *t, const elementwise_operand *o) {
  int k;
  if (o->source == IR_OPERAND_SOURCE_INPUT)
    text_printf(t, "v%u", o->index);
  else if (o->source == IR_OPERAND_SOURCE_STEP)
    text_printf(t, "s%u", o->index);
  else if ((k = find_number(p, o)) >= 0)
    text_printf(t, "%s", number_names[k]);
  else
    write_literal(t, o);
}

/* The expression, with the suffix of the compute type on each step_ function. */
static void write_expression(text *t, const char *e, dtype compute) {
  static const char prefix[] = "step_";
  while (*e) {
    const char *at = strstr(e, prefix);
    if (!at) break;
    size_t n = strcspn(at, "(");
    text_append(t, e, (size_t)(at - e) + n);
    text_printf(t, "%s", compute_suffix(compute));
    e = at + n;
  }
  text_printf(t, "%s", e);
}

/* a cast: from the operand's compute type to that of the result. */
static void write_cast(text *t, dtype from, dtype to) {
  if (to == DTYPE_BOOL)
    text_printf(t, "a != 0");
  else if (dtype_is_float(to))
    text_printf(t, "a");
  else
    text_printf(t, "%s%s(a)", to == DTYPE_I64 ? "step_to_long" : "step_to_int",
                compute_suffix(from));
}

static void write_step(const elementwise_kernel *p, text *t, int index) {
  static const char *const names[MAX_STEP_ARITY] = {"a", "b", "c"};
  const elementwise_step *s = &p->f.steps[index];
  dtype compute = compute_dtype(s->operand_type), result = compute_dtype(s->type);
  text_printf(t, "  %s s%d;\n  {\n    typedef %s real;\n", compute_type(result), index,
              compute_type(compute));
  for (int i = 0; i < s->n_operands; i++) {
    bool condition = i == 0 && s->result == STEP_WHERE;
    text_printf(t, "    %s %s = ", condition ? "long" : "real", names[i]);
    write_operand(p, t, &s->operands[i]);
    text_printf(t, ";\n");
  }
  if (s->divides)
    text_printf(t, "    if (b == 0) set_fault(fault, fault_node, FAULT_DIVISION, 0, 0, 0);\n");
  text_printf(t, "    %s value = ", compute_type(result));
  if (s->result == STEP_CAST)
    write_cast(t, compute, s->type);
  else
    write_expression(t, step_table[s->kind].cl, compute);
  text_printf(t, ";\n    s%d = value;\n  }\n", index);
  bool exact = s->type == DTYPE_F32 || s->type == DTYPE_F64 || s->type == DTYPE_I64;
  if (index + 1 == p->f.n_steps || exact) return; /* the last step is rounded by the store */
  text_printf(t, "  {\n    typedef %s real;\n    s%d = ROUND(%s, s%d);\n  }\n",
              compute_type(result), index, dtype_name(s->type), index);
}

/* ---- parameters */

typedef struct parameters {
  arg_info *args;
  int n;
} parameters;

static void add_parameter(parameters *w, arg_kind kind, const char *type, const char *name) {
  w->args[w->n++] = (arg_info){.name = name, .type = type, .kind = kind};
}

static bool takes_strides(const elementwise_kernel *p, int input) {
  return p->rank > 1 || (p->rank == 1 && p->inner[input] == INNER_ANY);
}

static int list_parameters(const elementwise_kernel *p, arg_info *args) {
  parameters w = {.args = args};
  add_parameter(&w, ARG_INDEX, "index_t", "n");
  if (p->rank > 1) add_parameter(&w, ARG_INDEX8, "index8", "dims");
  for (int i = 0; i < p->f.n_inputs; i++) {
    add_parameter(&w, ARG_BUFFER, "__global const void *", input_names[i]);
    add_parameter(&w, ARG_LONG, "long", offset_names[i]);
    if (takes_strides(p, i)) add_parameter(&w, ARG_INDEX8, "index8", stride_names[i]);
  }
  add_parameter(&w, ARG_BUFFER, "__global void *", "out");
  add_parameter(&w, ARG_LONG, "long", "out_offset");
  for (int i = 0; i < p->n_numbers; i++) {
    dtype c = p->numbers[i]->compute;
    arg_kind kind = c == DTYPE_F64 ? ARG_DOUBLE : c == DTYPE_F32 ? ARG_FLOAT : ARG_LONG;
    add_parameter(&w, kind, compute_type(c), number_names[i]);
  }
  if (divides(&p->f)) {
    add_parameter(&w, ARG_FAULT, "volatile __global fault_record *", "fault");
    add_parameter(&w, ARG_FAULT_NODE, "uint", "fault_node");
  }
  return w.n;
}

/* Sets i0 (inner) ... of the element, and `o`, its place in out. */
static void write_indices(const elementwise_kernel *p, text *t) {
  text_printf(t, "  const index_t i = (index_t)get_global_id(0);\n  if (i >= n) return;\n");
  bool lines = p->how == LINES;
  if (p->rank <= 1) {
    text_printf(t, "  const index_t i0 = i, o = i;\n");
    return;
  }
  if (lines)
    text_printf(t,
                "  const index_t row = (index_t)get_global_id(1), i0 = i, o = row * n + i;\n  "
                "index_t r = row;\n");
  else
    text_printf(t, "  const index_t o = i, i0 = i %% dims.s0;\n  index_t r = i / dims.s0;\n");
  for (int d = 1; d < p->rank - 1; d++)
    text_printf(t, "  const index_t i%d = r %% dims.s%d;\n  r /= dims.s%d;\n", d, d, d);
  text_printf(t, "  const index_t i%d = r;\n", p->rank - 1);
}

static void write_load(const elementwise_kernel *p, text *t, int input) {
  dtype type = input_dtype(p, input);
  const char *real = compute_type(compute_dtype(type)), *name = input_names[input];
  text_printf(t,
              "  %s v%d;\n  {\n    typedef %s real;\n    v%d = LOAD(%s, (__global const "
              "STORAGE(%s) *)%s + %s, ",
              real, input, real, input, dtype_name(type), dtype_name(type), name,
              offset_names[input]);
  static const char *const inner[] = {[INNER_ZERO] = "0", [INNER_ONE] = "i0"};
  if (p->inner[input] == INNER_ANY)
    text_printf(t, "i0 * %s.s0", stride_names[input]);
  else
    text_printf(t, "%s", inner[p->inner[input]]);
  for (int d = 1; d < p->rank; d++) text_printf(t, " + i%d * %s.s%d", d, stride_names[input], d);
  text_printf(t, ");\n  }\n");
}

static clave_status write_kernel(const void *ctx, text *t, arg_info *args, int *n_args) {
  const elementwise_kernel *p = ctx;
  const char *out = dtype_name(p->f.out->t.type);
  *n_args = list_parameters(p, args);
  text_printf(t, "#include \"common.h\"\n#include \"steps.h\"\n__kernel void elementwise() {\n");
  write_indices(p, t);
  for (int i = 0; i < p->f.n_inputs; i++) write_load(p, t, i);
  for (int i = 0; i < p->f.n_steps; i++) write_step(p, t, i);
  text_printf(t, "  STORE(%s, (__global STORAGE(%s) *)out + out_offset, o, s%d);\n}\n", out, out,
              p->f.n_steps - 1);
  return text_status(t);
}

/* ---------------------------------------------------------------- launch */

static void push_number(launch *l, const elementwise_operand *o) {
  if (o->compute == DTYPE_I64)
    launch_push_int(l, o->i);
  else
    launch_push_float(l, o->f);
}

static void push_arguments(launch *l, const elementwise_kernel *p) {
  const tensor *out = &p->f.shapes[0];
  launch_push_int(l, p->how == LINES && out->rank ? out->dims[out->rank - 1] : p->f.n);
  if (p->rank > 1) launch_push_index8(l, dims_arg(out));
  for (int i = 0; i < p->f.n_inputs; i++) {
    launch_push_buffer(l, buffer_arg(p->f.inputs[i]));
    if (takes_strides(p, i)) launch_push_index8(l, strides_arg(&p->f.shapes[1 + i]));
  }
  launch_push_buffer(l, buffer_arg(p->f.out));
  for (int i = 0; i < p->n_numbers; i++) push_number(l, p->numbers[i]);
}

clave_status opencl_elementwise(cl_recorder *s, const node *n) {
  elementwise_kernel p;
  TRY(plan_kernel(&p, n));
  launch l;
  launch_begin(&l, s, n);
  launch_generated(&l, "elementwise", write_kernel, &p);
  launch_define(&l, "RANK", p.rank);
  launch_define(&l, "POINTS", (int)p.how);
  int inner = 0;
  for (int i = 0; i < p.f.n_inputs; i++) inner = inner * 3 + (int)p.inner[i];
  launch_define(&l, "INNER", inner);
  push_arguments(&l, &p);
  int64_t total = p.f.n;
  if (p.how == POINTS || p.rank <= 1) return launch_items(&l, total);
  int64_t line = p.f.shapes[0].dims[p.rank - 1];
  size_t global[2] = {(size_t)line, (size_t)(line ? total / line : 0)}, local[2] = {LOCAL_SIZE, 1};
  return launch_run(&l, 2, global, local);
}
