/* Writes model.c with open sizes: the method's instructions, slots and values for the planner, and
 * the tables of its ops. */
#include "compile/emit_open.h"

#include <inttypes.h>

#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "base/ascii.h"
#include "compile/fields.h"
#include "compile/ir_text.h"
#include "serialize/fields.h"

/* ---------------------------------------------------------------- names */

static void write_upper(text *to, const char *name) {
  for (const char *c = name; *c; c++) text_printf(to, "%c", ascii_upper(*c));
}

/* Writes "IR_OP_LAYER_NORM". */
static void write_op(text *to, uint32_t op) {
  text_puts(to, "IR_OP_");
  write_upper(to, op_table[op].name);
}

static void emit_open_write_numbers(const char *type, const char *name, const uint32_t *all,
                                    uint32_t n, text *to) {
  text_printf(to, "static %s open_%s[] = {", type, name);
  for (uint32_t i = 0; i < n; i++)
    text_printf(to, "%s%" PRIu32 "u,", i % 16 ? " " : "\n  ", all[i]);
  text_puts(to, n ? "\n};\n" : "0};\n");
}

/* ---------------------------------------------------------------- slots and values */

static void emit_open_write_rows(const char *what, const ir_table *table, const void *items,
                                 uint32_t n, text *to) {
  text_puts(to, "static ir_");
  write_ir_name(to, table->name);
  text_printf(to, " open_%s[] = {\n", what);
  for (uint32_t i = 0; i < n; i++) {
    text_puts(to, "  ");
    write_ir(to, table, (const char *)items + i * table->size);
    text_puts(to, ",\n");
  }
  text_puts(to, n ? "};\n" : "  {0}\n};\n");
}

static void write_int64s(const int64_t *all, int n, text *to) {
  text_puts(to, "{");
  for (int i = 0; i < n; i++) text_printf(to, "%s%" PRId64, i ? ", " : "", all[i]);
  text_puts(to, n ? "}" : "0}");
}

static void write_type(const tensor *tensor, text *to) {
  const encoding *encoding = &tensor->encoding;
  text_printf(to, "  {.type = DTYPE_%s, .rank = %d, .dims = ", dtype_name(tensor->type),
              tensor->rank);
  write_int64s(tensor->dims, tensor->rank, to);
  text_puts(to, ", .strides = ");
  write_int64s(tensor->strides, tensor->rank, to);
  if (encoding->kind)
    text_printf(to, ", .encoding = {%u, %u, %u, %u, %u, %u, %u, %" PRIu32 "}", encoding->kind,
                encoding->axis, encoding->format, encoding->code, encoding->bits, encoding->scale,
                encoding->has_zeros, encoding->group);
  text_puts(to, "},\n");
}

static void write_types(const program *program, text *to) {
  text_puts(to, "static tensor open_types[] = {\n");
  for (uint32_t i = 0; i < slot_count(program); i++) write_type(&program->types[i], to);
  text_puts(to, slot_count(program) ? "};\n" : "  {0}\n};\n");
}

static void emit_open_write_known(const scalar_value *value, text *to) {
  if (!value->known) {
    text_puts(to, "  {0},\n");
    return;
  }
  text_printf(to, "  {true, %d, ", (int)value->type);
  write_int(to, value->i);
  text_puts(to, ", ");
  write_float(to, value->f);
  text_puts(to, "},\n");
}

static void write_values(const compile_plan *plan, text *to) {
  const ir_values *all = &plan->prog->ir.values;
  emit_open_write_rows("values", &ir_value_table, all->items, all->count, to);
  text_puts(to, "static const scalar_value open_known[] = {\n");
  for (uint32_t i = 0; i < all->count; i++) emit_open_write_known(&plan->sizes[i], to);
  text_puts(to, all->count ? "};\n" : "  {0}\n};\n");
}

static void write_places(const compile_plan *plan, text *to) {
  text_puts(to, "static const size_t open_places[] = {\n");
  for (uint32_t i = 0; i < slot_count(plan->prog); i++) {
    if (plan->slot_place[i] == NO_PLACE) {
      text_puts(to, "  MODEL_NOWHERE,\n");
    } else {
      text_printf(to, "  %zu,\n", plan->slot_place[i]);
    }
  }
  text_puts(to, slot_count(plan->prog) ? "};\n" : "  0\n};\n");
}

/* ---------------------------------------------------------------- instructions */

static void write_instruction(const ir_instruction *ins, text *to) {
  const ir_table *table = op_table[ins->op_type].table;
  text_puts(to, "  {");
  write_op(to, ins->op_type);
  text_puts(to, ", &(ir_");
  write_ir_name(to, table->name);
  text_puts(to, ")");
  write_ir(to, table, ins->op);
  text_puts(to, ", ");
  write_string(to, ins->name);
  text_puts(to, "},\n");
}

static void emit_open_write_graph(const compile_plan *plan, text *to) {
  const graph *graph = plan->graph;
  text_puts(to, "static ir_instruction open_instructions[] = {\n");
  for (uint32_t i = 0; i < graph->n; i++) write_instruction(&graph->instructions[i], to);
  text_puts(to, graph->n ? "};\n" : "  {0}\n};\n");
  emit_open_write_numbers("uint32_t", "source", graph->source, graph->n, to);
  emit_open_write_numbers("uint32_t", "writer", graph->writer, slot_count(plan->prog), to);
  emit_open_write_numbers("uint32_t", "last_use", graph->last_use, slot_count(plan->prog), to);
  text_puts(to, "static range open_bodies[][2] = {\n");
  for (uint32_t i = 0; i < graph->n; i++)
    text_printf(to, "  {{%" PRIu32 "u, %" PRIu32 "u}, {%" PRIu32 "u, %" PRIu32 "u}},\n",
                graph->bodies[i][0].first, graph->bodies[i][0].end, graph->bodies[i][1].first,
                graph->bodies[i][1].end);
  text_puts(to, graph->n ? "};\n" : "  {{0}}\n};\n");
}

/* Writes where each instruction runs: on the only backend, or on none. */
static void emit_open_write_placement(const compile_plan *plan, text *to) {
  const uint8_t *where = plan->executable->methods[plan->method].where;
  text_puts(to, "static uint8_t open_where[] = {");
  for (uint32_t i = 0; i < plan->graph->n; i++)
    text_printf(to, "%s%u,", i % 16 ? " " : "\n  ", where[i]);
  text_puts(to, plan->graph->n ? "\n};\n" : "0};\n");
  text_printf(to,
              "static uint8_t open_state_home[%" PRIu32 "];\nstatic void *open_cache[%" PRIu32
              "];\nstatic void *open_copy_cache[MAX_BACKENDS];\n",
              plan->prog->ir.n_state + 1, plan->graph->n + 1);
  text_puts(to, "static bool open_is_multiplied[] = {");
  for (uint32_t i = 0; i < slot_count(plan->prog); i++)
    text_printf(to, "%s%d,", i % 16 ? " " : "\n  ", plan->executable->is_multiplied[i]);
  text_puts(to, slot_count(plan->prog) ? "\n};\n" : "0};\n");
}

static void emit_open_write_method(const compile_plan *plan, text *to) {
  ir_method m = *plan->graph->method;
  m.metadata = "";
  m.chain = 0;
  emit_open_write_rows("method", &ir_method_table, &m, 1, to);
}

/* ---------------------------------------------------------------- ops */

static void write_rule(uint32_t op, text *to) {
  const op_info *info = &op_table[op];
  text_puts(to, "    [");
  write_op(to, op);
  text_printf(to,
              "] = {.name = \"%s\", .family = \"%s\", .since = %d, .is_view = %d, .is_host = %d, "
              ".moves = %d, .rule = rule_%s, ",
              info->name, info->family, info->since, info->is_view, info->is_host, info->moves,
              info->name);
  if (info->is_view) text_printf(to, ".view = view_%s, ", info->name);
  text_printf(to, ".table = &ir_%s_table},\n", info->name);
}

static void write_recorder(uint32_t op, text *to) {
  if (op_table[op].is_view || op_table[op].is_host) return;
  text_puts(to, "    [");
  write_op(to, op);
  text_printf(to, "] = cpu_%s,\n", op_table[op].name);
}

static void emit_open_write_ops(const emitted *used, text *to) {
  text_puts(to, "const op_info op_table[IR_OP_COUNT] = {\n");
  for (uint32_t i = 0; i < IR_OP_COUNT; i++)
    if (used->ops[i]) write_rule(i, to);
  text_puts(to, "};\nconst cpu_op cpu_table[IR_OP_COUNT] = {\n");
  for (uint32_t i = 0; i < IR_OP_COUNT; i++)
    if (used->ops[i]) write_recorder(i, to);
  text_puts(to, "};\n\n");
}

/* Maps schema step kinds to kernel step kinds plus 1. */
#define FLOAT_KIND(NAME, name, arity, result, expression) \
  [IR_STEP_KIND_##NAME] = 1 + FLOAT_STEP_##NAME,
#define INT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = 1 + INT_STEP_##NAME,
static const uint8_t float_kinds[IR_STEP_KIND_COUNT] = {STEPS_FLOAT(FLOAT_KIND)};
static const uint8_t int_kinds[IR_STEP_KIND_COUNT] = {STEPS_INT(INT_KIND)};

static void mark_kind(uint64_t bits[2], uint8_t kind) {
  if (kind) bits[(kind - 1) / 64] |= (uint64_t)1 << (kind - 1) % 64;
}

/* Marks an op's own steps and those of its epilogue, for all dtypes. */
static void emit_open_mark_steps(const ir_instruction *ins, emitted *used) {
  const ir_table *table = op_table[ins->op_type].table;
  for (uint32_t i = 0; i < table->n_fields; i++) {
    if (table->fields[i].kind != IR_FIELD_TABLES || table->fields[i].table != &ir_step_table)
      continue;
    const ir_vector vector = vector_at(&table->fields[i], ins->op);
    const ir_step *steps = vector.items;
    for (uint32_t k = 0; k < vector.count; k++) {
      mark_kind(used->float_steps, float_kinds[steps[k].kind]);
      mark_kind(used->int_steps, int_kinds[steps[k].kind]);
    }
  }
}

static void emit_open_mark_used(const compile_plan *plan, emitted *used) {
  used->ops[IR_OP_COPY] = true; /* inserted by the planner */
  for (uint32_t i = 0; i < plan->graph->n; i++) {
    used->ops[plan->graph->instructions[i].op_type] = true;
    emit_open_mark_steps(&plan->graph->instructions[i], used);
  }
  for (uint32_t i = 0; i < plan->n_weights; i++) used->constants[plan->weights[i]] = true;
}

/* ---------------------------------------------------------------- the file */

static void emit_open_write_program(const compile_plan *plan, text *to) {
  const ir_program *program = &plan->prog->ir;
  text_printf(to,
              "static program open_program = {\n    .ir = {.tensors = {open_tensors, %" PRIu32
              "u},\n           .n_inputs = %" PRIu32 "u,\n           .n_outputs = %" PRIu32
              "u,\n           .n_state = %" PRIu32 "u,\n           .values = {open_values, %" PRIu32
              "u},\n           .constants = {.count = %" PRIu32
              "u},\n           .methods = {open_method, 1}},\n    .types = open_types};\n",
              program->tensors.count, program->n_inputs, program->n_outputs, program->n_state,
              program->values.count, program->constants.count);
  text_printf(
      to,
      "static method open_methods[] = {{.graph = {.prog = &open_program, .method = open_method, "
      ".instructions = open_instructions, .n = %" PRIu32
      "u, .source = open_source, .bodies = open_bodies, .writer = open_writer, .last_use = "
      "open_last_use}, .where = open_where, .cache = {open_cache}}};\n",
      plan->graph->n);
  text_printf(to,
              "static const executable open_executable = {.prog = &open_program, .methods = "
              "open_methods, .state_home = open_state_home, .is_multiplied = open_is_multiplied, "
              ".copy = {%" PRIu32 "u, %" PRIu32
              "u}, .copy_cache = open_copy_cache};\n"
              "static const planned_code open_code = {&open_executable, open_known, open_places, "
              "model_weights};\n\n",
              program->tensors.count, program->tensors.count + 1);
}

static void write_sizes(const compile_plan *plan, text *to) {
  text_puts(to, "static const model_size sizes[] = {\n");
  for (uint32_t i = 0; i < plan->n_open; i++) {
    const ir_value *value = &plan->prog->ir.values.items[plan->open[i]];
    text_puts(to, "  {");
    write_string(to, value->name);
    text_printf(to, ", %" PRId64 ", ",
                value->min.present && value->min.value > 0 ? value->min.value : 0);
    if (value->max.present) {
      text_printf(to, "%" PRId64 "},\n", value->max.value);
    } else {
      text_puts(to, "INT64_MAX},\n");
    }
  }
  text_puts(to, plan->n_open ? "};\n\n" : "  {0}\n};\n\n");
}

void emit_open_head(text *to) {
  text_puts(to, "#include \"compile/open/planned.h\"\n#include \"cpu_ops.h\"\n");
}

void emit_open_tables(const compile_plan *plan, emitted *used, text *to) {
  const ir_program *program = &plan->prog->ir;
  emit_open_mark_used(plan, used);
  emit_open_write_rows("tensors", &ir_tensor_table, program->tensors.items, program->tensors.count,
                       to);
  write_types(plan->prog, to);
  write_values(plan, to);
  write_places(plan, to);
  emit_open_write_method(plan, to);
  emit_open_write_graph(plan, to);
  emit_open_write_placement(plan, to);
  emit_open_write_program(plan, to);
  emit_open_write_ops(used, to);
  write_sizes(plan, to);
}
