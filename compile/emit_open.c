/* model.c of open sizes: the method's instructions, slots and values as the planner reads them, and
 * the tables of the ops that it has. */
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

/* "IR_OP_LAYER_NORM". */
static void write_op(text *to, uint32_t op) {
  text_puts(to, "IR_OP_");
  write_upper(to, op_table[op].name);
}

static void write_numbers(const char *type, const char *name, const uint32_t *all, uint32_t n,
                          text *to) {
  text_printf(to, "static %s open_%s[] = {", type, name);
  for (uint32_t i = 0; i < n; i++)
    text_printf(to, "%s%" PRIu32 "u,", i % 16 ? " " : "\n  ", all[i]);
  text_puts(to, n ? "\n};\n" : "0};\n");
}

/* ---------------------------------------------------------------- slots and values */

static void write_rows(const char *what, const ir_table *t, const void *items, uint32_t n,
                       text *to) {
  text_puts(to, "static ir_");
  write_ir_name(to, t->name);
  text_printf(to, " open_%s[] = {\n", what);
  for (uint32_t i = 0; i < n; i++) {
    text_puts(to, "  ");
    write_ir(to, t, (const char *)items + i * t->size);
    text_puts(to, ",\n");
  }
  text_puts(to, n ? "};\n" : "  {0}\n};\n");
}

static void write_int64s(const int64_t *all, int n, text *to) {
  text_puts(to, "{");
  for (int i = 0; i < n; i++) text_printf(to, "%s%" PRId64, i ? ", " : "", all[i]);
  text_puts(to, n ? "}" : "0}");
}

static void write_type(const tensor *t, text *to) {
  const encoding *e = &t->encoding;
  text_printf(to, "  {.type = DTYPE_%s, .rank = %d, .dims = ", dtype_name(t->type), t->rank);
  write_int64s(t->dims, t->rank, to);
  text_puts(to, ", .strides = ");
  write_int64s(t->strides, t->rank, to);
  if (e->kind)
    text_printf(to, ", .encoding = {%u, %u, %u, %u, %u, %u, %u, %" PRIu32 "}", e->kind, e->axis,
                e->format, e->code, e->bits, e->scale, e->has_zeros, e->group);
  text_puts(to, "},\n");
}

static void write_types(const program *p, text *to) {
  text_puts(to, "static tensor open_types[] = {\n");
  for (uint32_t i = 0; i < slot_count(p); i++) write_type(&p->types[i], to);
  text_puts(to, slot_count(p) ? "};\n" : "  {0}\n};\n");
}

static void write_known(const scalar_value *v, text *to) {
  if (!v->known) {
    text_puts(to, "  {0},\n");
    return;
  }
  text_printf(to, "  {true, %d, ", (int)v->type);
  write_int(to, v->i);
  text_puts(to, ", ");
  write_float(to, v->f);
  text_puts(to, "},\n");
}

static void write_values(const compile_plan *k, text *to) {
  const ir_values *all = &k->prog->ir.values;
  write_rows("values", &ir_value_table, all->items, all->count, to);
  text_puts(to, "static const scalar_value open_known[] = {\n");
  for (uint32_t i = 0; i < all->count; i++) write_known(&k->sizes[i], to);
  text_puts(to, all->count ? "};\n" : "  {0}\n};\n");
}

static void write_places(const compile_plan *k, text *to) {
  text_puts(to, "static const size_t open_places[] = {\n");
  for (uint32_t i = 0; i < slot_count(k->prog); i++) {
    if (k->slot_place[i] == NO_PLACE) {
      text_puts(to, "  MODEL_NOWHERE,\n");
    } else {
      text_printf(to, "  %zu,\n", k->slot_place[i]);
    }
  }
  text_puts(to, slot_count(k->prog) ? "};\n" : "  0\n};\n");
}

/* ---------------------------------------------------------------- instructions */

static void write_instruction(const ir_instruction *ins, text *to) {
  const ir_table *t = op_table[ins->op_type].table;
  text_puts(to, "  {");
  write_op(to, ins->op_type);
  text_puts(to, ", &(ir_");
  write_ir_name(to, t->name);
  text_puts(to, ")");
  write_ir(to, t, ins->op);
  text_puts(to, ", ");
  write_string(to, ins->name);
  text_puts(to, "},\n");
}

static void write_graph(const compile_plan *k, text *to) {
  const graph *g = k->g;
  text_puts(to, "static ir_instruction open_instructions[] = {\n");
  for (uint32_t i = 0; i < g->n; i++) write_instruction(&g->instructions[i], to);
  text_puts(to, g->n ? "};\n" : "  {0}\n};\n");
  write_numbers("uint32_t", "source", g->source, g->n, to);
  write_numbers("uint32_t", "writer", g->writer, slot_count(k->prog), to);
  write_numbers("uint32_t", "last_use", g->last_use, slot_count(k->prog), to);
  text_puts(to, "static range open_bodies[][2] = {\n");
  for (uint32_t i = 0; i < g->n; i++)
    text_printf(to, "  {{%" PRIu32 "u, %" PRIu32 "u}, {%" PRIu32 "u, %" PRIu32 "u}},\n",
                g->bodies[i][0].first, g->bodies[i][0].end, g->bodies[i][1].first,
                g->bodies[i][1].end);
  text_puts(to, g->n ? "};\n" : "  {{0}}\n};\n");
}

/* Where each instruction runs: on the one backend there is, or on none. */
static void write_homes(const compile_plan *k, text *to) {
  const uint8_t *where = k->x->methods[k->method].where;
  text_puts(to, "static uint8_t open_where[] = {");
  for (uint32_t i = 0; i < k->g->n; i++) text_printf(to, "%s%u,", i % 16 ? " " : "\n  ", where[i]);
  text_puts(to, k->g->n ? "\n};\n" : "0};\n");
  text_printf(to,
              "static uint8_t open_state_home[%" PRIu32 "];\nstatic void *open_cache[%" PRIu32
              "];\nstatic void *open_copy_cache[MAX_BACKENDS];\n",
              k->prog->ir.n_state + 1, k->g->n + 1);
  text_puts(to, "static bool open_is_multiplied[] = {");
  for (uint32_t i = 0; i < slot_count(k->prog); i++)
    text_printf(to, "%s%d,", i % 16 ? " " : "\n  ", k->x->is_multiplied[i]);
  text_puts(to, slot_count(k->prog) ? "\n};\n" : "0};\n");
}

static void write_method(const compile_plan *k, text *to) {
  ir_method m = *k->g->method;
  m.metadata = "";
  m.chain = 0;
  write_rows("method", &ir_method_table, &m, 1, to);
}

/* ---------------------------------------------------------------- ops */

static void write_rule(uint32_t op, text *to) {
  const op_info *o = &op_table[op];
  text_puts(to, "    [");
  write_op(to, op);
  text_printf(to,
              "] = {.name = \"%s\", .family = \"%s\", .since = %d, .is_view = %d, .is_host = %d, "
              ".moves = %d, .rule = rule_%s, ",
              o->name, o->family, o->since, o->is_view, o->is_host, o->moves, o->name);
  if (o->is_view) text_printf(to, ".view = view_%s, ", o->name);
  text_printf(to, ".table = &ir_%s_table},\n", o->name);
}

static void write_recorder(uint32_t op, text *to) {
  if (op_table[op].is_view || op_table[op].is_host) return;
  text_puts(to, "    [");
  write_op(to, op);
  text_printf(to, "] = cpu_%s,\n", op_table[op].name);
}

static void write_ops(const emitted *used, text *to) {
  text_puts(to, "const op_info op_table[IR_OP_COUNT] = {\n");
  for (uint32_t i = 0; i < IR_OP_COUNT; i++)
    if (used->ops[i]) write_rule(i, to);
  text_puts(to, "};\nconst cpu_op cpu_table[IR_OP_COUNT] = {\n");
  for (uint32_t i = 0; i < IR_OP_COUNT; i++)
    if (used->ops[i]) write_recorder(i, to);
  text_puts(to, "};\n\n");
}

/* Kernel step kinds by schema step kind, from 1 on. */
#define FLOAT_KIND(NAME, name, arity, result, expression) \
  [IR_STEP_KIND_##NAME] = 1 + FLOAT_STEP_##NAME,
#define INT_KIND(NAME, name, arity, result, expression) [IR_STEP_KIND_##NAME] = 1 + INT_STEP_##NAME,
static const uint8_t float_kinds[IR_STEP_KIND_COUNT] = {STEPS_FLOAT(FLOAT_KIND)};
static const uint8_t int_kinds[IR_STEP_KIND_COUNT] = {STEPS_INT(INT_KIND)};

static void mark_kind(uint64_t bits[2], uint8_t kind) {
  if (kind) bits[(kind - 1) / 64] |= (uint64_t)1 << (kind - 1) % 64;
}

/* An op's own steps, or those of its epilogue, whatever the dtype of their operands. */
static void mark_steps(const ir_instruction *ins, emitted *used) {
  const ir_table *t = op_table[ins->op_type].table;
  for (uint32_t i = 0; i < t->n_fields; i++) {
    if (t->fields[i].kind != IR_FIELD_TABLES || t->fields[i].table != &ir_step_table) continue;
    const ir_vector v = vector_at(&t->fields[i], ins->op);
    const ir_step *steps = v.items;
    for (uint32_t k = 0; k < v.count; k++) {
      mark_kind(used->float_steps, float_kinds[steps[k].kind]);
      mark_kind(used->int_steps, int_kinds[steps[k].kind]);
    }
  }
}

static void mark_used(const compile_plan *k, emitted *used) {
  used->ops[IR_OP_COPY] = true; /* the planner's */
  for (uint32_t i = 0; i < k->g->n; i++) {
    used->ops[k->g->instructions[i].op_type] = true;
    mark_steps(&k->g->instructions[i], used);
  }
  for (uint32_t i = 0; i < k->n_weights; i++) used->constants[k->weights[i]] = true;
}

/* ---------------------------------------------------------------- the file */

static void write_program(const compile_plan *k, text *to) {
  const ir_program *p = &k->prog->ir;
  text_printf(to,
              "static program open_program = {\n    .ir = {.tensors = {open_tensors, %" PRIu32
              "u},\n           .n_inputs = %" PRIu32 "u,\n           .n_outputs = %" PRIu32
              "u,\n           .n_state = %" PRIu32 "u,\n           .values = {open_values, %" PRIu32
              "u},\n           .constants = {.count = %" PRIu32
              "u},\n           .methods = {open_method, 1}},\n    .types = open_types};\n",
              p->tensors.count, p->n_inputs, p->n_outputs, p->n_state, p->values.count,
              p->constants.count);
  text_printf(
      to,
      "static method open_methods[] = {{.g = {.prog = &open_program, .method = open_method, "
      ".instructions = open_instructions, .n = %" PRIu32
      "u, .source = open_source, .bodies = open_bodies, .writer = open_writer, .last_use = "
      "open_last_use}, .where = open_where, .cache = {open_cache}}};\n",
      k->g->n);
  text_printf(to,
              "static const executable open_executable = {.prog = &open_program, .methods = "
              "open_methods, .state_home = open_state_home, .is_multiplied = open_is_multiplied, "
              ".copy = {%" PRIu32 "u, %" PRIu32
              "u}, .copy_cache = open_copy_cache};\n"
              "static const planned_code open_code = {&open_executable, open_known, open_places, "
              "model_weights};\n\n",
              p->tensors.count, p->tensors.count + 1);
}

static void write_sizes(const compile_plan *k, text *to) {
  text_puts(to, "static const model_size sizes[] = {\n");
  for (uint32_t i = 0; i < k->n_open; i++) {
    const ir_value *v = &k->prog->ir.values.items[k->open[i]];
    text_puts(to, "  {");
    write_string(to, v->name);
    text_printf(to, ", %" PRId64 ", ", v->min.present && v->min.value > 0 ? v->min.value : 0);
    if (v->max.present) {
      text_printf(to, "%" PRId64 "},\n", v->max.value);
    } else {
      text_puts(to, "INT64_MAX},\n");
    }
  }
  text_puts(to, k->n_open ? "};\n\n" : "  {0}\n};\n\n");
}

void emit_open_head(text *to) {
  text_puts(to, "#include \"compile/open/planned.h\"\n#include \"cpu_ops.h\"\n");
}

void emit_open_tables(const compile_plan *k, emitted *used, text *to) {
  const ir_program *p = &k->prog->ir;
  mark_used(k, used);
  write_rows("tensors", &ir_tensor_table, p->tensors.items, p->tensors.count, to);
  write_types(k->prog, to);
  write_values(k, to);
  write_places(k, to);
  write_method(k, to);
  write_graph(k, to);
  write_homes(k, to);
  write_program(k, to);
  write_ops(used, to);
  write_sizes(k, to);
}
