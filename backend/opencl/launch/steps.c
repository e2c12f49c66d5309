/* Source text and arguments of elementwise steps. */
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

static dtype input_dtype(const steps_text *text, int i) {
  return text->desc.inputs[i]->tensor.type;
}

/* ---------------------------------------------------------------- planning */

static void find_strides(steps_text *text) {
  text->rank = text->desc.shapes[0].rank;
  for (int i = 0; i < text->desc.n_inputs; i++) {
    const tensor *tensor = &text->desc.shapes[1 + i];
    int64_t stride = tensor->rank ? tensor->strides[tensor->rank - 1] : 0;
    text->inner[i] = stride == 0 ? INNER_ZERO : stride == 1 ? INNER_ONE : INNER_ANY;
  }
}

static bool add_number(steps_text *text, const elementwise_operand *operand) {
  if (text->n_numbers == MAX_NUMBERS) return false;
  text->numbers[text->n_numbers++] = operand;
  return true;
}

/* Collects the host scalars if `values`, else the immediates. Host scalars are collected first,
 * because immediates can also be written into the source. */
static clave_status collect_numbers(steps_text *text, bool values) {
  for (int i = 0; i < text->desc.n_steps; i++) {
    const elementwise_step *step = &text->desc.steps[i];
    for (int j = 0; j < step->n_operands; j++) {
      const elementwise_operand *operand = &step->operands[j];
      if (!is_number(operand) || (operand->source == IR_OPERAND_SOURCE_VALUE) != values) continue;
      if (!add_number(text, operand) && values)
        return UNSUPPORTED("more than %d host scalars in one elementwise node", MAX_NUMBERS);
    }
  }
  return NULL;
}

clave_status steps_plan(steps_text *text) {
  text->n_numbers = 0;
  find_strides(text);
  TRY(collect_numbers(text, true));
  return collect_numbers(text, false);
}

bool steps_divide(const steps_text *text) {
  for (int i = 0; i < text->desc.n_steps; i++)
    if (text->desc.steps[i].divides) return true;
  return false;
}

bool steps_change_dtype(const steps_text *text) {
  return text->desc.n_inputs > 0 && text->desc.inputs[0] == &text->desc.result;
}

bool steps_can_turn(const steps_text *text, int input) {
  const tensor *tensor = &text->desc.shapes[1 + input];
  return text->rank > 1 && text->inner[input] == INNER_ANY &&
         tensor->strides[tensor->rank - 2] == 1 && input_dtype(text, input) == DTYPE_F32;
}

bool steps_need_strides(const steps_text *text, int input) {
  return text->rank > 1 || (text->rank == 1 && text->inner[input] == INNER_ANY);
}

int steps_inner_code(const steps_text *text) {
  int code = 0;
  for (int i = 0; i < text->desc.n_inputs; i++) code = code * 3 + (int)text->inner[i];
  return code;
}

bool describe_own_epilogue(const node *node, elementwise_desc *desc) {
  if (!describe_epilogue(node, desc)) return false;
  if (desc->inputs[0] == &desc->result) {
    desc->result.slot = RESULT_SLOT;
    desc->result.tensor.offset = 0;
  }
  return true;
}

/* ---------------------------------------------------------------- source text */

static int find_number(const steps_text *text, const elementwise_operand *operand) {
  for (int i = 0; i < text->n_numbers; i++)
    if (text->numbers[i] == operand) return i;
  return -1;
}

/* Writes a literal with the exact bits of the number. */
static void write_literal(text *text, const elementwise_operand *operand) {
  union {
    double d;
    uint64_t u;
  } wide = {.d = operand->f};
  union {
    float f;
    uint32_t u;
  } narrow = {.f = (float)operand->f};
  if (operand->compute == DTYPE_I64)
    text_printf(text, "(long)0x%llxul", (unsigned long long)operand->i);
  else if (operand->compute == DTYPE_F64)
    text_printf(text, "as_double(0x%llxul)", (unsigned long long)wide.u);
  else
    text_printf(text, "as_float(0x%xu)", narrow.u);
}

static void write_operand(const steps_text *steps_text, text *text,
                          const elementwise_operand *operand) {
  int k;
  if (operand->source == IR_OPERAND_SOURCE_INPUT)
    text_printf(text, "v%u", operand->index);
  else if (operand->source == IR_OPERAND_SOURCE_STEP)
    text_printf(text, "s%u", operand->index);
  else if ((k = find_number(steps_text, operand)) >= 0)
    text_printf(text, "%s", steps_text->names->numbers[k]);
  else
    write_literal(text, operand);
}

/* Writes the expression, adding the suffix of the compute type to each step_ function. */
static void write_expression(text *text, const char *end, dtype compute) {
  static const char prefix[] = "step_";
  while (*end) {
    const char *at = strstr(end, prefix);
    if (!at) break;
    size_t n = strcspn(at, "(");
    text_append(text, end, (size_t)(at - end) + n);
    text_printf(text, "%s", compute_suffix(compute));
    end = at + n;
  }
  text_printf(text, "%s", end);
}

/* True if the operand is an F32 immediate and not NaN. Sets *in_int if it fits an int. */
static bool is_known_float(const elementwise_operand *operand, bool *in_int) {
  *in_int = fabs(operand->f) < 0x1p31;
  return is_number(operand) && operand->source != IR_OPERAND_SOURCE_VALUE &&
         operand->compute == DTYPE_F32 && !isnan(operand->f);
}

/* True for clamp(x, low, high) of floats with known limits. Sets *in_int if both fit an int. */
static bool is_limited(const elementwise_step *step, bool *in_int) {
  bool low_in = false, high_in = false;
  const bool is = step->kind == IR_STEP_KIND_CLAMP && step->result != STEP_CAST &&
                  is_known_float(&step->operands[1], &low_in) &&
                  is_known_float(&step->operands[2], &high_in);
  *in_int = is && low_in && high_in;
  return is;
}

static bool is_limited_to_int(const steps_text *text, const elementwise_operand *operand) {
  bool in_int;
  return operand->source == IR_OPERAND_SOURCE_STEP &&
         is_limited(&text->desc.steps[operand->index], &in_int) && in_int;
}

/* Returns step i if it is of this kind, in F32, over the result of step i - 1 and a known number;
 * else NULL. */
static const elementwise_step *known_step(const elementwise_desc *desc, int i, ir_step_kind kind) {
  bool in_int;
  if (i >= desc->n_steps) return NULL;
  const elementwise_step *step = &desc->steps[i];
  const bool is = step->kind == kind && step->result != STEP_CAST && step->type == DTYPE_F32 &&
                  step->operand_type == DTYPE_F32 &&
                  step->operands[0].source == IR_OPERAND_SOURCE_STEP &&
                  step->operands[0].index == (uint32_t)(i - 1) &&
                  (step->n_operands == 1 || is_known_float(&step->operands[1], &in_int));
  return is ? step : NULL;
}

static bool is_read_once(const elementwise_desc *desc, int step) {
  int n = 0;
  for (int i = 0; i < desc->n_steps; i++)
    for (int j = 0; j < desc->steps[i].n_operands; j++) {
      const elementwise_operand *operand = &desc->steps[i].operands[j];
      n += operand->source == IR_OPERAND_SOURCE_STEP && operand->index == (uint32_t)step;
    }
  return n == 1;
}

/* True if clamp i is redundant: round(x scale) + zero follows, and is clamped again to limits
 * inside the images of the first ones. All these functions are non-decreasing and keep NaN. */
static bool is_limited_again(const elementwise_desc *desc, int i) {
  bool in_int;
  const elementwise_step *clamp = &desc->steps[i],
                         *scale = known_step(desc, i + 1, IR_STEP_KIND_MUL),
                         *rounding = known_step(desc, i + 2, IR_STEP_KIND_ROUND),
                         *zero = known_step(desc, i + 3, IR_STEP_KIND_ADD),
                         *again = known_step(desc, i + 4, IR_STEP_KIND_CLAMP);
  if (!scale || !rounding || !zero || !again || !is_limited(clamp, &in_int) ||
      !is_limited(again, &in_int) || clamp->type != DTYPE_F32 || clamp->operand_type != DTYPE_F32)
    return false;
  for (int k = 0; k < 4; k++)
    if (!is_read_once(desc, i + k)) return false;
  const float by = (float)scale->operands[1].f, plus = (float)zero->operands[1].f,
              low = rintf((float)clamp->operands[1].f * by) + plus,
              high = rintf((float)clamp->operands[2].f * by) + plus;
  return by > 0 && isfinite(by) && clamp->operands[1].f <= clamp->operands[2].f &&
         low <= (float)again->operands[1].f && high >= (float)again->operands[2].f;
}

/* Returns the function that converts floats to integers of dtype `to`. */
static const char *to_integer(dtype to) {
  if (to == DTYPE_U64) return "step_to_ulong";
  return to == DTYPE_I64 || to == DTYPE_U32 ? "step_to_long" : "step_to_int";
}

/* Writes a cast from the operand's compute type to the result's. */
static void write_cast(const steps_text *steps_text, text *text, const elementwise_step *step) {
  if (step->type == DTYPE_BOOL)
    text_printf(text, "a != 0");
  else if (dtype_has_fractions(step->type))
    text_printf(text, step->operand_type == DTYPE_U64 ? "as_ulong(a)" : "a");
  else if (dtype_size(step->type) < sizeof(int32_t) &&
           is_limited_to_int(steps_text, &step->operands[0]))
    text_printf(text, "step_to_int_of_limited_f32(a)");
  else
    text_printf(text, "%s%s(a)", to_integer(step->type),
                compute_suffix(compute_dtype(step->operand_type)));
}

static void write_step(const steps_text *steps_text, text *text, int index) {
  static const char *const names[MAX_STEP_ARITY] = {"a", "b", "c"};
  const elementwise_step *step = &steps_text->desc.steps[index];
  dtype compute = compute_dtype(step->operand_type), result = compute_dtype(step->type);
  bool in_int;
  text_printf(text, "  %s s%d;\n  {\n    typedef %s real;\n", compute_type(result), index,
              compute_type(compute));
  for (int i = 0; i < step->n_operands; i++) {
    bool condition = i == 0 && step->result == STEP_WHERE;
    text_printf(text, "    %s %s = ", condition ? "long" : "real", names[i]);
    write_operand(steps_text, text, &step->operands[i]);
    text_printf(text, ";\n");
  }
  if (step->divides)
    text_printf(text, "    if (b == 0) set_fault(fault, fault_node, FAULT_DIVISION, 0, 0, 0);\n");
  text_printf(text, "    %s value = ", compute_type(result));
  if (step->result == STEP_CAST)
    write_cast(steps_text, text, step);
  else if (is_limited_again(&steps_text->desc, index))
    text_printf(text, "a");
  else if (is_limited(step, &in_int))
    text_printf(text, "step_limit_f32(a, b, c)");
  else
    write_expression(text, step_table[step->kind].cl, compute);
  text_printf(text, ";\n    s%d = value;\n  }\n", index);
  bool exact = dtype_size(step->type) == dtype_size(result);
  if (index + 1 == steps_text->desc.n_steps || exact) return; /* the store rounds the last step */
  text_printf(text, "  {\n    typedef %s real;\n    s%d = ROUND(%s, s%d);\n  }\n",
              compute_type(result), index, dtype_name(step->type), index);
}

static bool is_float8(dtype t) { return dtype_is_stored(t) && dtype_has_fractions(t); }

void steps_include(const steps_text *steps_text, text *text) {
  bool float8 = false, turned = false;
  for (int i = 0; i < steps_text->desc.n_inputs; i++)
    float8 |= is_float8(input_dtype(steps_text, i));
  for (int i = 0; i < steps_text->desc.n_steps; i++)
    float8 |= is_float8(steps_text->desc.steps[i].type);
  text_printf(text, "#include \"common.h\"\n#include \"steps.h\"\n");
  if (float8) text_printf(text, "#include \"float8.h\"\n");
  for (int i = 0; i < steps_text->desc.n_inputs; i++)
    if (steps_text->turned[i]) turned = true;
  if (turned) text_printf(text, "#include \"turned.h\"\n");
}

void steps_write_load(const steps_text *steps_text, text *text, int input, const char *pointer,
                      const char *at) {
  dtype type = input_dtype(steps_text, input);
  const char *real = compute_type(compute_dtype(type)), *name = dtype_name(type);
  text_printf(text,
              "  %s v%d;\n  {\n    typedef %s real;\n    v%d = LOAD(%s, (__global const "
              "STORAGE(%s) *)%s, %s);\n  }\n",
              real, input, real, input, name, name, pointer, at);
}

void steps_write(const steps_text *steps_text, text *text) {
  for (int i = 0; i < steps_text->desc.n_steps; i++) write_step(steps_text, text, i);
}

/* ---------------------------------------------------------------- lines */

/* Writes i0 of the first element, the number of elements left in its line, and i1, ... */
static void steps_write_line(const steps_text *steps_text, text *text) {
  const char *dims = steps_text->names->dims;
  if (steps_text->rank <= 1) {
    text_printf(text, "  const index_t i0 = first, count = n;\n");
    return;
  }
  text_printf(text,
              "  const index_t i0 = first %% %s.s0, count = min(n, %s.s0 - i0);\n"
              "  index_t r = first / %s.s0;\n",
              dims, dims, dims);
  for (int d = 1; d < steps_text->rank - 1; d++)
    text_printf(text, "  const index_t i%d = r %% %s.s%d;\n  r /= %s.s%d;\n", d, dims, d, dims, d);
  text_printf(text, "  const index_t i%d = r;\n", steps_text->rank - 1);
}

/* Writes p<input>, the address of the line's elements of an input. */
static void write_start(const steps_text *steps_text, text *text, int input) {
  const char *type = dtype_name(steps_text->desc.inputs[input]->tensor.type);
  const char *strides = steps_text->names->strides[input];
  text_printf(text, "  __global const STORAGE(%s) *p%d = (__global const STORAGE(%s) *)%s + %s",
              type, input, type, steps_text->names->inputs[input],
              steps_text->names->offsets[input]);
  if (steps_text->inner[input] == INNER_ANY) text_printf(text, " + i0 * %s.s0", strides);
  if (steps_text->inner[input] == INNER_ONE) text_printf(text, " + i0");
  for (int d = 1; d < steps_text->rank; d++) text_printf(text, " + i%d * %s.s%d", d, strides, d);
  text_printf(text, ";\n");
}

/* True if input 0 is `from`, in private memory. */
static bool reads_from(const steps_text *text, int first) {
  return first > 0 && steps_change_dtype(text);
}

static void write_loads(const steps_text *steps_text, text *text, int first) {
  char at[64], pointer[16];
  if (reads_from(steps_text, first))
    text_printf(text, "  const %s v0 = from[j];\n",
                compute_type(compute_dtype(input_dtype(steps_text, 0))));
  else if (first > 0)
    steps_write_load(steps_text, text, 0, "y", "j");
  for (int i = first; i < steps_text->desc.n_inputs; i++) {
    if (steps_text->turned[i]) {
      text_printf(text, "  const float v%d = t%d[l * TURNED + j];\n", i, i);
      continue;
    }
    snprintf(pointer, sizeof pointer, "p%d", i);
    snprintf(at, sizeof at, "j * %s.s0", steps_text->names->strides[i]);
    const char *const where[] = {[INNER_ZERO] = "0", [INNER_ONE] = "j", [INNER_ANY] = at};
    steps_write_load(steps_text, text, i, pointer, where[steps_text->inner[i]]);
  }
}

#define VECTORS                                                                        \
  "#ifdef __clang__\n#pragma clang loop vectorize(assume_safety) vectorize_width(16) " \
  "interleave_count(1)\n#endif\n"

/* Writes the loop over `count` neighbours from y on. */
static void write_loop(const steps_text *steps_text, text *text, int first_input) {
  text_printf(text, VECTORS "  for (index_t j = 0; j < count; j++) {\n");
  write_loads(steps_text, text, first_input);
  steps_write(steps_text, text);
  text_printf(text, "  STORE(%s, y, j, s%d);\n  }\n", dtype_name(steps_text->desc.out->tensor.type),
              steps_text->desc.n_steps - 1);
}

void steps_write_lines(const steps_text *steps_text, text *text, int first_input) {
  text_printf(text, "  while (n > 0) {\n");
  steps_write_line(steps_text, text);
  for (int i = first_input; i < steps_text->desc.n_inputs; i++) write_start(steps_text, text, i);
  write_loop(steps_text, text, first_input);
  text_printf(text, "  y += count;\n%s  first += count;\n  n -= count;\n  }\n",
              reads_from(steps_text, first_input) ? "  from += count;\n" : "");
}

/* Writes the block's range of the innermost dimension, its lines, and the lines' indices i2, ... */
static void steps_write_block(const steps_text *steps_text, text *text) {
  const char *dims = steps_text->names->dims;
  text_printf(text,
              "  const index_t parts = (%s.s0 + each - 1) / each, blocks = (%s.s1 + 15) / 16;\n"
              "  index_t r = item / parts;\n  const index_t part = item %% parts * each, "
              "line = r %% blocks * 16;\n  r /= blocks;\n"
              "  const index_t outer = r * %s.s1 + line, end = min(part + each, %s.s0);\n"
              "  const int lines = (int)min((index_t)16, %s.s1 - line);\n",
              dims, dims, dims, dims, dims);
  for (int d = 2; d < steps_text->rank; d++)
    text_printf(text, "  const index_t i%d = r %% %s.s%d;\n  r /= %s.s%d;\n", d, dims, d, dims, d);
}

void steps_write_tiles(const steps_text *steps_text, text *text) {
  const char *out = dtype_name(steps_text->desc.out->tensor.type);
  steps_write_block(steps_text, text);
  for (int i = 0; i < steps_text->desc.n_inputs; i++)
    if (steps_text->turned[i]) text_printf(text, "  float t%d[16 * TURNED];\n", i);
  text_printf(text,
              "  for (index_t i0 = part; i0 < end; i0 += TURNED) {\n"
              "  const index_t count = min((index_t)TURNED, end - i0);\n  {\n"
              "  const index_t i1 = line;\n");
  for (int i = 0; i < steps_text->desc.n_inputs; i++) {
    if (!steps_text->turned[i]) continue;
    write_start(steps_text, text, i);
    text_printf(text, "  turn_tile(p%d, %s.s0, (int)count, lines, t%d);\n", i,
                steps_text->names->strides[i], i);
  }
  text_printf(text,
              "  }\n  for (int l = 0; l < lines; l++) {\n  const index_t i1 = line + l;\n"
              "  __global STORAGE(%s) *y = (__global STORAGE(%s) *)out + out_offset + "
              "(outer + l) * %s.s0 + i0;\n",
              out, out, steps_text->names->dims);
  for (int i = 0; i < steps_text->desc.n_inputs; i++)
    if (!steps_text->turned[i]) write_start(steps_text, text, i);
  write_loop(steps_text, text, 0);
  text_printf(text, "  }\n  }\n");
}

/* ---------------------------------------------------------------- parameters */

static void add_parameter(arg_info *args, int *count, arg_kind kind, const char *type,
                          const char *name) {
  args[(*count)++] = (arg_info){.name = name, .type = type, .kind = kind};
}

void steps_list_inputs(const steps_text *text, int first, arg_info *args, int *count) {
  if (text->rank > 1) add_parameter(args, count, ARG_INDEX8, "index8", text->names->dims);
  for (int i = first; i < text->desc.n_inputs; i++) {
    add_parameter(args, count, ARG_BUFFER, "__global const void *", text->names->inputs[i]);
    add_parameter(args, count, ARG_LONG, "long", text->names->offsets[i]);
    if (steps_need_strides(text, i))
      add_parameter(args, count, ARG_INDEX8, "index8", text->names->strides[i]);
  }
}

void steps_list_numbers(const steps_text *text, arg_info *args, int *count) {
  for (int i = 0; i < text->n_numbers; i++) {
    dtype c = text->numbers[i]->compute;
    arg_kind kind = c == DTYPE_F64 ? ARG_DOUBLE : c == DTYPE_F32 ? ARG_FLOAT : ARG_LONG;
    add_parameter(args, count, kind, compute_type(c), text->names->numbers[i]);
  }
}

void steps_push_inputs(const steps_text *text, int first, launch *launch) {
  if (text->rank > 1) launch_push_index8(launch, dims_arg(&text->desc.shapes[0]));
  for (int i = first; i < text->desc.n_inputs; i++) {
    launch_push_buffer(launch, buffer_arg(text->desc.inputs[i]));
    if (steps_need_strides(text, i))
      launch_push_index8(launch, strides_arg(&text->desc.shapes[1 + i]));
  }
}

void steps_push_numbers(const steps_text *text, launch *launch) {
  for (int i = 0; i < text->n_numbers; i++) {
    const elementwise_operand *operand = text->numbers[i];
    if (operand->compute == DTYPE_I64)
      launch_push_int(launch, operand->i);
    else
      launch_push_float(launch, operand->f);
  }
}
