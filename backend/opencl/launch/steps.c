/* Text and arguments of elementwise steps. */
#include "backend/opencl/launch/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/epilogue.h"

#define NAMES_OF_INPUTS(p, end) \
  { p "0" end, p "1" end, p "2" end, p "3" end, p "4" end, p "5" end, p "6" end, p "7" end }
#define NAMES(p)                                                                                 \
  {                                                                                              \
    .dims = p "dims", .inputs = NAMES_OF_INPUTS(p "x", ""),                                      \
    .offsets = NAMES_OF_INPUTS(p "x", "_offset"), .strides = NAMES_OF_INPUTS(p "x", "_strides"), \
    .numbers = {                                                                                 \
      p "n0",                                                                                    \
      p "n1",                                                                                    \
      p "n2",                                                                                    \
      p "n3",                                                                                    \
      p "n4",                                                                                    \
      p "n5",                                                                                    \
      p "n6",                                                                                    \
      p "n7",                                                                                    \
      p "n8",                                                                                    \
      p "n9",                                                                                    \
      p "n10",                                                                                   \
      p "n11",                                                                                   \
      p "n12",                                                                                   \
      p "n13",                                                                                   \
      p "n14",                                                                                   \
      p "n15",                                                                                   \
      p "n16",                                                                                   \
      p "n17",                                                                                   \
      p "n18",                                                                                   \
      p "n19",                                                                                   \
      p "n20",                                                                                   \
      p "n21",                                                                                   \
      p "n22",                                                                                   \
      p "n23"                                                                                    \
    }                                                                                            \
  }
const step_names elementwise_names = NAMES(""), epilogue_names = NAMES("epilogue_");

static const char *compute_type(dtype compute) {
  return compute == DTYPE_F64 ? "double" : compute == DTYPE_F32 ? "float" : "long";
}
static const char *compute_suffix(dtype compute) {
  return compute == DTYPE_F64 ? "_f64" : compute == DTYPE_F32 ? "_f32" : "_i64";
}

static dtype input_dtype(const steps_text *p, int i) { return p->f.inputs[i]->t.type; }

/* ---------------------------------------------------------------- planning */

static void find_strides(steps_text *p) {
  p->rank = p->f.shapes[0].rank;
  for (int i = 0; i < p->f.n_inputs; i++) {
    const tensor *x = &p->f.shapes[1 + i];
    int64_t stride = x->rank ? x->strides[x->rank - 1] : 0;
    p->inner[i] = stride == 0 ? INNER_ZERO : stride == 1 ? INNER_ONE : INNER_ANY;
  }
}

static bool add_number(steps_text *p, const elementwise_operand *o) {
  if (p->n_numbers == MAX_NUMBERS) return false;
  p->numbers[p->n_numbers++] = o;
  return true;
}

/* Values first: they cannot be written into the source. */
static clave_status collect_numbers(steps_text *p, bool values) {
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

clave_status steps_plan(steps_text *p) {
  p->n_numbers = 0;
  find_strides(p);
  TRY(collect_numbers(p, true));
  return collect_numbers(p, false);
}

bool steps_divide(const steps_text *p) {
  for (int i = 0; i < p->f.n_steps; i++)
    if (p->f.steps[i].divides) return true;
  return false;
}

bool steps_change_dtype(const steps_text *p) {
  return p->f.n_inputs > 0 && p->f.inputs[0] == &p->f.result;
}

bool steps_can_turn(const steps_text *p, int input) {
  const tensor *x = &p->f.shapes[1 + input];
  return p->rank > 1 && p->inner[input] == INNER_ANY && x->strides[x->rank - 2] == 1 &&
         input_dtype(p, input) == DTYPE_F32;
}

bool steps_take_strides(const steps_text *p, int input) {
  return p->rank > 1 || (p->rank == 1 && p->inner[input] == INNER_ANY);
}

int steps_inner_code(const steps_text *p) {
  int code = 0;
  for (int i = 0; i < p->f.n_inputs; i++) code = code * 3 + (int)p->inner[i];
  return code;
}

bool describe_own_epilogue(const node *n, elementwise_form *f) {
  if (!describe_epilogue(n, f)) return false;
  if (f->inputs[0] == &f->result) {
    f->result.slot = RESULT_SLOT;
    f->result.t.offset = 0;
  }
  return true;
}

/* ---------------------------------------------------------------- source text */

static int find_number(const steps_text *p, const elementwise_operand *o) {
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

static void write_operand(const steps_text *p, text *t, const elementwise_operand *o) {
  int k;
  if (o->source == IR_OPERAND_SOURCE_INPUT)
    text_printf(t, "v%u", o->index);
  else if (o->source == IR_OPERAND_SOURCE_STEP)
    text_printf(t, "s%u", o->index);
  else if ((k = find_number(p, o)) >= 0)
    text_printf(t, "%s", p->names->numbers[k]);
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

/* A number of the program's own, which is known not to be NaN, and whether within an int. */
static bool is_known(const elementwise_operand *o, bool *in_int) {
  *in_int = fabs(o->f) < 0x1p31;
  return is_number(o) && o->source != IR_OPERAND_SOURCE_VALUE && o->compute == DTYPE_F32 &&
         !isnan(o->f);
}

/* clamp(x, low, high) of floats between numbers that are known. */
static bool is_limited(const elementwise_step *s, bool *in_int) {
  bool low_in = false, high_in = false;
  const bool is = s->kind == IR_STEP_KIND_CLAMP && s->result != STEP_CAST &&
                  is_known(&s->operands[1], &low_in) && is_known(&s->operands[2], &high_in);
  *in_int = is && low_in && high_in;
  return is;
}

static bool is_limited_to_int(const steps_text *p, const elementwise_operand *o) {
  bool in_int;
  return o->source == IR_OPERAND_SOURCE_STEP && is_limited(&p->f.steps[o->index], &in_int) &&
         in_int;
}

/* Step i, where it takes what step i - 1 made and, of `kind`, a number that is known. */
static const elementwise_step *known_step(const elementwise_form *f, int i, ir_step_kind kind) {
  bool in_int;
  if (i >= f->n_steps) return NULL;
  const elementwise_step *s = &f->steps[i];
  const bool is = s->kind == kind && s->result != STEP_CAST && s->type == DTYPE_F32 &&
                  s->operand_type == DTYPE_F32 && s->operands[0].source == IR_OPERAND_SOURCE_STEP &&
                  s->operands[0].index == (uint32_t)(i - 1) &&
                  (s->n_operands == 1 || is_known(&s->operands[1], &in_int));
  return is ? s : NULL;
}

static bool is_read_once(const elementwise_form *f, int step) {
  int n = 0;
  for (int i = 0; i < f->n_steps; i++)
    for (int j = 0; j < f->steps[i].n_operands; j++) {
      const elementwise_operand *o = &f->steps[i].operands[j];
      n += o->source == IR_OPERAND_SOURCE_STEP && o->index == (uint32_t)step;
    }
  return n == 1;
}

/* Whether a clamp changes nothing, as what follows, round(x scale) + zero, is clamped within what
 * its limits become: the functions do not decrease, and NaN stays what it is. */
static bool is_limited_again(const elementwise_form *f, int i) {
  bool in_int;
  const elementwise_step *s = &f->steps[i], *scale = known_step(f, i + 1, IR_STEP_KIND_MUL),
                         *whole = known_step(f, i + 2, IR_STEP_KIND_ROUND),
                         *zero = known_step(f, i + 3, IR_STEP_KIND_ADD),
                         *again = known_step(f, i + 4, IR_STEP_KIND_CLAMP);
  if (!scale || !whole || !zero || !again || !is_limited(s, &in_int) ||
      !is_limited(again, &in_int) || s->type != DTYPE_F32 || s->operand_type != DTYPE_F32)
    return false;
  for (int k = 0; k < 4; k++)
    if (!is_read_once(f, i + k)) return false;
  const float by = (float)scale->operands[1].f, plus = (float)zero->operands[1].f,
              low = rintf((float)s->operands[1].f * by) + plus,
              high = rintf((float)s->operands[2].f * by) + plus;
  return by > 0 && isfinite(by) && s->operands[1].f <= s->operands[2].f &&
         low <= (float)again->operands[1].f && high >= (float)again->operands[2].f;
}

/* Which function makes integers of floats. */
static const char *to_integer(dtype to) {
  if (to == DTYPE_U64) return "step_to_ulong";
  return to == DTYPE_I64 || to == DTYPE_U32 ? "step_to_long" : "step_to_int";
}

/* a cast: from the operand's compute type to that of the result. */
static void write_cast(const steps_text *p, text *t, const elementwise_step *s) {
  if (s->type == DTYPE_BOOL)
    text_printf(t, "a != 0");
  else if (dtype_has_fractions(s->type))
    text_printf(t, s->operand_type == DTYPE_U64 ? "as_ulong(a)" : "a");
  else if (dtype_size(s->type) < sizeof(int32_t) && is_limited_to_int(p, &s->operands[0]))
    text_printf(t, "step_to_int_of_limited_f32(a)");
  else
    text_printf(t, "%s%s(a)", to_integer(s->type), compute_suffix(compute_dtype(s->operand_type)));
}

static void write_step(const steps_text *p, text *t, int index) {
  static const char *const names[MAX_STEP_ARITY] = {"a", "b", "c"};
  const elementwise_step *s = &p->f.steps[index];
  dtype compute = compute_dtype(s->operand_type), result = compute_dtype(s->type);
  bool in_int;
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
    write_cast(p, t, s);
  else if (is_limited_again(&p->f, index))
    text_printf(t, "a");
  else if (is_limited(s, &in_int))
    text_printf(t, "step_limit_f32(a, b, c)");
  else
    write_expression(t, step_table[s->kind].cl, compute);
  text_printf(t, ";\n    s%d = value;\n  }\n", index);
  bool exact = dtype_size(s->type) == dtype_size(result);
  if (index + 1 == p->f.n_steps || exact) return; /* the last step is rounded by the store */
  text_printf(t, "  {\n    typedef %s real;\n    s%d = ROUND(%s, s%d);\n  }\n",
              compute_type(result), index, dtype_name(s->type), index);
}

static bool is_float8(dtype t) { return dtype_is_stored(t) && dtype_has_fractions(t); }

void steps_include(const steps_text *p, text *t) {
  bool float8 = false, turned = false;
  for (int i = 0; i < p->f.n_inputs; i++) float8 |= is_float8(input_dtype(p, i));
  for (int i = 0; i < p->f.n_steps; i++) float8 |= is_float8(p->f.steps[i].type);
  text_printf(t, "#include \"common.h\"\n#include \"steps.h\"\n");
  if (float8) text_printf(t, "#include \"float8.h\"\n");
  for (int i = 0; i < p->f.n_inputs; i++)
    if (p->turned[i]) turned = true;
  if (turned) text_printf(t, "#include \"turned.h\"\n");
}

void steps_write_load(const steps_text *p, text *t, int input, const char *pointer,
                      const char *at) {
  dtype type = input_dtype(p, input);
  const char *real = compute_type(compute_dtype(type)), *name = dtype_name(type);
  text_printf(t,
              "  %s v%d;\n  {\n    typedef %s real;\n    v%d = LOAD(%s, (__global const "
              "STORAGE(%s) *)%s, %s);\n  }\n",
              real, input, real, input, name, name, pointer, at);
}

void steps_write(const steps_text *p, text *t) {
  for (int i = 0; i < p->f.n_steps; i++) write_step(p, t, i);
}

/* ---------------------------------------------------------------- lines */

/* i0 of the first element, how many lie behind it in the same line, and i1, ... of the line. */
static void write_line(const steps_text *p, text *t) {
  const char *dims = p->names->dims;
  if (p->rank <= 1) {
    text_printf(t, "  const index_t i0 = first, count = n;\n");
    return;
  }
  text_printf(t,
              "  const index_t i0 = first %% %s.s0, count = min(n, %s.s0 - i0);\n"
              "  index_t r = first / %s.s0;\n",
              dims, dims, dims);
  for (int d = 1; d < p->rank - 1; d++)
    text_printf(t, "  const index_t i%d = r %% %s.s%d;\n  r /= %s.s%d;\n", d, dims, d, dims, d);
  text_printf(t, "  const index_t i%d = r;\n", p->rank - 1);
}

/* Where the line's elements of an input begin. */
static void write_start(const steps_text *p, text *t, int input) {
  const char *type = dtype_name(p->f.inputs[input]->t.type);
  const char *strides = p->names->strides[input];
  text_printf(t, "  __global const STORAGE(%s) *p%d = (__global const STORAGE(%s) *)%s + %s", type,
              input, type, p->names->inputs[input], p->names->offsets[input]);
  if (p->inner[input] == INNER_ANY) text_printf(t, " + i0 * %s.s0", strides);
  if (p->inner[input] == INNER_ONE) text_printf(t, " + i0");
  for (int d = 1; d < p->rank; d++) text_printf(t, " + i%d * %s.s%d", d, strides, d);
  text_printf(t, ";\n");
}

/* Whether input 0 is `from`, in private memory. */
static bool reads_from(const steps_text *p, int first) {
  return first > 0 && steps_change_dtype(p);
}

static void write_loads(const steps_text *p, text *t, int first) {
  char at[64], pointer[16];
  if (reads_from(p, first))
    text_printf(t, "  const %s v0 = from[j];\n", compute_type(compute_dtype(input_dtype(p, 0))));
  else if (first > 0)
    steps_write_load(p, t, 0, "y", "j");
  for (int i = first; i < p->f.n_inputs; i++) {
    if (p->turned[i]) {
      text_printf(t, "  const float v%d = t%d[l * TURNED + j];\n", i, i);
      continue;
    }
    snprintf(pointer, sizeof pointer, "p%d", i);
    snprintf(at, sizeof at, "j * %s.s0", p->names->strides[i]);
    const char *const where[] = {[INNER_ZERO] = "0", [INNER_ONE] = "j", [INNER_ANY] = at};
    steps_write_load(p, t, i, pointer, where[p->inner[i]]);
  }
}

#define VECTORS                                                                        \
  "#ifdef __clang__\n#pragma clang loop vectorize(assume_safety) vectorize_width(16) " \
  "interleave_count(1)\n#endif\n"

/* Over `count` neighbours from y on. */
static void write_loop(const steps_text *p, text *t, int first_input) {
  text_printf(t, VECTORS "  for (index_t j = 0; j < count; j++) {\n");
  write_loads(p, t, first_input);
  steps_write(p, t);
  text_printf(t, "  STORE(%s, y, j, s%d);\n  }\n", dtype_name(p->f.out->t.type), p->f.n_steps - 1);
}

void steps_write_lines(const steps_text *p, text *t, int first_input) {
  text_printf(t, "  while (n > 0) {\n");
  write_line(p, t);
  for (int i = first_input; i < p->f.n_inputs; i++) write_start(p, t, i);
  write_loop(p, t, first_input);
  text_printf(t, "  y += count;\n%s  first += count;\n  n -= count;\n  }\n",
              reads_from(p, first_input) ? "  from += count;\n" : "");
}

/* The block's part of the innermost dimension, its lines, and i2, ... of them. */
static void write_block(const steps_text *p, text *t) {
  const char *dims = p->names->dims;
  text_printf(t,
              "  const index_t parts = (%s.s0 + each - 1) / each, blocks = (%s.s1 + 15) / 16;\n"
              "  index_t r = item / parts;\n  const index_t part = item %% parts * each, "
              "line = r %% blocks * 16;\n  r /= blocks;\n"
              "  const index_t outer = r * %s.s1 + line, end = min(part + each, %s.s0);\n"
              "  const int lines = (int)min((index_t)16, %s.s1 - line);\n",
              dims, dims, dims, dims, dims);
  for (int d = 2; d < p->rank; d++)
    text_printf(t, "  const index_t i%d = r %% %s.s%d;\n  r /= %s.s%d;\n", d, dims, d, dims, d);
}

void steps_write_tiles(const steps_text *p, text *t) {
  const char *out = dtype_name(p->f.out->t.type);
  write_block(p, t);
  for (int i = 0; i < p->f.n_inputs; i++)
    if (p->turned[i]) text_printf(t, "  float t%d[16 * TURNED];\n", i);
  text_printf(t,
              "  for (index_t i0 = part; i0 < end; i0 += TURNED) {\n"
              "  const index_t count = min((index_t)TURNED, end - i0);\n  {\n"
              "  const index_t i1 = line;\n");
  for (int i = 0; i < p->f.n_inputs; i++) {
    if (!p->turned[i]) continue;
    write_start(p, t, i);
    text_printf(t, "  turn_tile(p%d, %s.s0, (int)count, lines, t%d);\n", i, p->names->strides[i],
                i);
  }
  text_printf(t,
              "  }\n  for (int l = 0; l < lines; l++) {\n  const index_t i1 = line + l;\n"
              "  __global STORAGE(%s) *y = (__global STORAGE(%s) *)out + out_offset + "
              "(outer + l) * %s.s0 + i0;\n",
              out, out, p->names->dims);
  for (int i = 0; i < p->f.n_inputs; i++)
    if (!p->turned[i]) write_start(p, t, i);
  write_loop(p, t, 0);
  text_printf(t, "  }\n  }\n");
}

/* ---------------------------------------------------------------- parameters */

static void add_parameter(arg_info *args, int *n, arg_kind kind, const char *type,
                          const char *name) {
  args[(*n)++] = (arg_info){.name = name, .type = type, .kind = kind};
}

void steps_list_inputs(const steps_text *p, int first, arg_info *args, int *n) {
  if (p->rank > 1) add_parameter(args, n, ARG_INDEX8, "index8", p->names->dims);
  for (int i = first; i < p->f.n_inputs; i++) {
    add_parameter(args, n, ARG_BUFFER, "__global const void *", p->names->inputs[i]);
    add_parameter(args, n, ARG_LONG, "long", p->names->offsets[i]);
    if (steps_take_strides(p, i))
      add_parameter(args, n, ARG_INDEX8, "index8", p->names->strides[i]);
  }
}

void steps_list_numbers(const steps_text *p, arg_info *args, int *n) {
  for (int i = 0; i < p->n_numbers; i++) {
    dtype c = p->numbers[i]->compute;
    arg_kind kind = c == DTYPE_F64 ? ARG_DOUBLE : c == DTYPE_F32 ? ARG_FLOAT : ARG_LONG;
    add_parameter(args, n, kind, compute_type(c), p->names->numbers[i]);
  }
}

void steps_push_inputs(const steps_text *p, int first, launch *l) {
  if (p->rank > 1) launch_push_index8(l, dims_arg(&p->f.shapes[0]));
  for (int i = first; i < p->f.n_inputs; i++) {
    launch_push_buffer(l, buffer_arg(p->f.inputs[i]));
    if (steps_take_strides(p, i)) launch_push_index8(l, strides_arg(&p->f.shapes[1 + i]));
  }
}

void steps_push_numbers(const steps_text *p, launch *l) {
  for (int i = 0; i < p->n_numbers; i++) {
    const elementwise_operand *o = p->numbers[i];
    if (o->compute == DTYPE_I64)
      launch_push_int(l, o->i);
    else
      launch_push_float(l, o->f);
  }
}
