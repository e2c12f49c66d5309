/* model.c as a whole: the functions and statements, and the tables of arguments and state. */
#include "compile/emit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compile/emit_open.h"
#include "compile/emitter.h"
#include "compile/fields.h"
#include "compile/packed.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- arguments */

static void write_dims(const tensor *t, text *to) {
  text_printf(to, ".rank = %d, .dims = {", t->rank);
  for (int i = 0; i < t->rank; i++) text_printf(to, "%s%" PRId64, i ? ", " : "", t->dims[i]);
  text_puts(to, t->rank ? "}" : "0}");
}

/* An argument's tensor or scalar. Scalar inputs that are fixed are none. */
static bool is_listed(const emitter *e, const ir_argument *a, bool is_input) {
  return !is_input || plan_has_input(e->k, a);
}

/* Open dimensions as model_argument has them. */
static tensor type_of(const emitter *e, const ir_argument *a) {
  const program *prog = e->k->prog;
  tensor t = {0};
  unsigned char bytes[8];
  if (a->tensor == IR_NONE) {
    const scalar_value v = {.type = prog->ir.values.items[a->value].type};
    scalar_to_bytes(&v, &t, bytes);
    return t;
  }
  if (e->p) return e->p->types[a->tensor];
  const ir_int_or_vids *shape = &prog->ir.tensors.items[a->tensor].shape;
  t = prog->types[a->tensor];
  for (uint32_t i = 0; i < shape->count; i++) t.dims[i] = plan_dim(e->k, &shape->items[i]);
  return t;
}

static void write_argument(const emitter *e, const ir_argument *a, bool is_input, text *to) {
  const tensor t = type_of(e, a);
  text_puts(to, "  {.name = ");
  write_string(to, a->name);
  text_printf(to, ", .type = DTYPE_%s, ", dtype_name(t.type));
  if (a->tensor == IR_NONE && is_input) text_puts(to, ".is_scalar = true, ");
  write_dims(&t, to);
  text_puts(to, "},\n");
}

/* Where in the arena; of inputs that nothing reads, nowhere. */
static void write_offset(const emitter *e, uint32_t tid, text *to) {
  const uint32_t in = e->p->at[tid].storage;
  const uint32_t b = in == NO_INDEX ? NO_INDEX : e->p->storages[in].block[0];
  if (b == NO_INDEX || e->p->blocks[b].kind != BLOCK_ARENA) {
    text_puts(to, "MODEL_NOWHERE");
  } else {
    text_printf(to, "%zu", e->k->place[b]);
  }
}

/* A host scalar is known once sizes are. */
static void write_known(const scalar_value *v, text *to) {
  unsigned char bytes[8];
  tensor t = {0};
  scalar_to_bytes(v, &t, bytes);
  text_printf(to, "%zu, MODEL_NOWHERE, \"", dtype_size(t.type));
  for (size_t i = 0; i < dtype_size(t.type); i++) text_printf(to, "\\%03o", bytes[i]);
  text_puts(to, "\"");
}

static clave_status write_place(const emitter *e, const ir_argument *a, text *to) {
  size_t bytes;
  text_puts(to, "  {");
  if (a->tensor == IR_NONE) {
    write_known(&e->p->values[a->value], to);
  } else {
    TRY(known_bytes(&e->p->types[a->tensor], &bytes));
    text_printf(to, "%zu, ", bytes);
    write_offset(e, a->tensor, to);
    text_puts(to, ", NULL");
  }
  text_puts(to, "},\n");
  return NULL;
}

/* inputs[], or outputs[]. */
static void write_arguments(const emitter *e, const char *what, const ir_arguments *all,
                            bool is_input, text *to) {
  bool is_empty = true;
  text_printf(to, "static const model_argument %ss[] = {\n", what);
  for (uint32_t i = 0; i < all->count; i++) {
    if (!is_listed(e, &all->items[i], is_input)) continue;
    write_argument(e, &all->items[i], is_input, to);
    is_empty = false;
  }
  text_puts(to, is_empty ? "  {0}\n};\n" : "};\n");
}

/* input_places[], or those of outputs. */
static clave_status write_argument_places(const emitter *e, const char *what,
                                          const ir_arguments *all, bool is_input, text *to) {
  bool is_empty = true;
  text_printf(to, "static const model_place %s_places[] = {\n", what);
  for (uint32_t i = 0; i < all->count; i++) {
    if (!is_listed(e, &all->items[i], is_input)) continue;
    TRY(write_place(e, &all->items[i], to));
    is_empty = false;
  }
  text_puts(to, is_empty ? "  {0}\n};\n\n" : "};\n\n");
  return NULL;
}

/* ---------------------------------------------------------------- state */

static clave_status write_states(const emitter *e, text *to) {
  const program *p = e->k->prog;
  text_puts(to, "static const model_state states[] = {\n");
  for (uint32_t i = 0; i < p->ir.n_state; i++) {
    const uint32_t tid = first_state(p) + i, initial = plan_initial_constant(p, i);
    size_t bytes;
    if (!program_state_bytes(&p->ir, tid, &bytes)) return INVALID("a state's size overflows");
    text_printf(to, "  {%zu, %zu, ", e->k->slot_place[tid], bytes);
    if (initial == IR_NONE) {
      text_puts(to, "NULL},\n");
    } else {
      e->used->constants[initial] = true;
      text_printf(to, "model_weights + %zu},\n", e->k->slot_place[initial]);
    }
  }
  text_puts(to, p->ir.n_state ? "};\n\n" : "  {0}\n};\n\n");
  return NULL;
}

/* ---------------------------------------------------------------- the file */

static void write_head(const emitter *e, text *to) {
  text_puts(to,
            "/* Made by clave compile: the commands of a program in their order, each with the "
            "arguments of its kernels. */\n#include <math.h>\n\n#include "
            "\"compile/runtime/core.h\"\n");
  for (int i = 0; i < n_kernel_infos; i++) {
    bool is_first = e->used->kernels[i];
    for (int j = 0; j < i && is_first; j++)
      is_first = !e->used->kernels[j] || kernel_infos[j].header != kernel_infos[i].header;
    if (is_first) text_printf(to, "#include \"%s\"\n", source_files[kernel_infos[i].header].path);
  }
  if (!e->p) emit_open_head(to);
  if (e->used->packed.n) text_puts(to, "#include \"backend/cpu/kernels/support/features.h\"\n");
  text_puts(to, "\nextern const unsigned char model_weights[];\n");
  if (e->used->packed.n) text_puts(to, "extern const unsigned char model_forms[];\n");
  text_puts(to, "\n");
}

static void write_packed(const emitter *e, text *to) {
  const packed_list *l = &e->used->packed;
  if (!l->n) return;
  text_puts(to, "static const model_packed packed[] = {\n");
  for (size_t i = 0; i < l->n; i++) {
    const packed_entry *p = &l->items[i];
    text_printf(to, "  {%d, ", p->number);
    write_string(to, packed_level(p));
    text_printf(to, ", model_forms + %zu, %zu},\n", p->offset, p->form->bytes);
  }
  text levels = {0}; /* a file says which: any printable text */
  packed_write_levels(l, &levels);
  text_puts(to, "};\nstatic const char packed_for[] = ");
  write_string(to, levels.data ? levels.data : "");
  text_puts(to, ";\n\n");
  to->failed |= levels.failed;
  text_free(&levels);
}

static size_t memory_bytes(const emitter *e) {
  return plan_aligned(e->k->arena_bytes) + plan_aligned(e->k->state_bytes) + e->form_bytes +
         plan_aligned(e->scratch_bytes + 1);
}

static void write_memory(const emitter *e, text *to) {
  text_printf(to,
              "/* %zu bytes: arena %zu, state %zu, packed weights %zu, scratch memory %zu. */\n"
              "static _Alignas(MODEL_ALIGNMENT) char memory[%zu];\n"
              "static model the_model;\nstatic void *forms[%zu];\nstatic char *rebased[%d];\n\n",
              memory_bytes(e), e->k->arena_bytes, e->k->state_bytes, e->form_bytes,
              e->scratch_bytes, memory_bytes(e), e->forms.n + 1, e->k->n_rebased + 1);
}

/* What the program takes of the processor that it is compiled for. */
static void write_needs(const emitter *e, text *to) {
  text_printf(to,
              "_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, \"weights and files are "
              "little-endian: this processor is not\");\n"
              "_Static_assert(PTRDIFF_MAX >= %zu, \"this program takes more memory than this "
              "processor addresses\");\n\n",
              memory_bytes(e) + e->k->weight_bytes + e->used->packed.bytes);
}

/* Where its memory and its threads come from. */
static void write_means(const compile_options *o, text *to) {
  if (o->n_threads >= 0) text_puts(to, "    .threads = &model_pool,\n");
  text_puts(to, o->static_memory
                    ? "    .memory = {&the_model, memory, sizeof memory, forms, rebased},\n"
                    : "    .heap = &model_host_heap,\n");
}

static void write_tests(const emitter *e, text *to) {
  write_digests(e->kept, e->k->g->method->outputs.count, 0, to);
  text_puts(to, "static const model_test tests[] = {{.digests = digests_0}};\n");
  write_processor(e->k->cpu, to);
}

static void write_info(const emitter *e, const compile_options *o, text *to) {
  const ir_method *m = e->k->g->method;
  if (e->kept) write_tests(e, to);
  if (o->static_memory) write_memory(e, to);
  text_puts(to, "static const model_method the_method = {\n    .name = ");
  write_string(to, m->name);
  if (!e->p) text_printf(to, ",\n    .sizes = sizes,\n    .n_sizes = %" PRIu32, e->k->n_open);
  text_printf(to,
              ",\n    .inputs = inputs,\n    .outputs = outputs,\n    .n_inputs = %u,\n"
              "    .n_outputs = %u,\n};\n\n"
              "const model_code compiled_model = {\n    .info = {.program = ",
              compiled_inputs(e->k), m->outputs.count);
  write_string(to, o->name);
  text_printf(to,
              ", .device = \"cpu\", .methods = &the_method, .n_methods = 1, .n_threads = %d%s},\n"
              "    .states = states,\n    .n_states = %u,\n"
              "    .arena_bytes = %zu,\n    .state_bytes = %zu,\n    .n_forms = %zu,\n"
              "    .n_rebased = %d,\n",
              o->n_threads, e->kept ? ", .tests = {.methods = tests, .processor = processor}" : "",
              e->k->prog->ir.n_state, e->k->arena_bytes, e->k->state_bytes, e->forms.n,
              e->k->n_rebased);
  if (e->used->packed.n)
    text_printf(to,
                "    .packed = packed,\n    .n_packed = %zu,\n    .packed_for = packed_for,\n"
                "    .level = cpu_level_name,\n",
                e->used->packed.n);
  write_means(o, to);
  text_puts(to, e->p ? "    .inputs = input_places,\n    .outputs = output_places,\n"
                     : "    .planner = &model_open_sizes,\n    .planned = &open_code,\n");
  text_puts(to, "    .pack = pack_forms,\n    .run = run_model,\n};\n");
}

static void write_function(const char *name, const text *body, text *to) {
  text_printf(to, "static void %s(model *m) {\n", name);
  if (body->size) {
    text_append(to, body->data, body->size);
  } else {
    text_puts(to, "  (void)m;\n");
  }
  text_puts(to, "}\n\n");
}

static clave_status write_file(const emitter *e, const compile_options *o, text *to) {
  const ir_method *m = e->k->g->method;
  write_head(e, to);
  write_needs(e, to);
  write_arguments(e, "input", &m->inputs, true, to);
  write_arguments(e, "output", &m->outputs, false, to);
  if (e->p) TRY(write_argument_places(e, "input", &m->inputs, true, to));
  if (e->p) TRY(write_argument_places(e, "output", &m->outputs, false, to));
  TRY(write_states(e, to));
  write_packed(e, to);
  write_function("pack_forms", &e->pack, to);
  if (e->functions.size) text_append(to, e->functions.data, e->functions.size);
  write_function("run_model", &e->run, to);
  write_info(e, o, to);
  TRY(text_status(&e->functions));
  TRY(text_status(&e->pack));
  TRY(text_status(&e->run));
  return text_status(to);
}

/* Its parts are written first, since they decide what it includes. */
static clave_status emit_open(emitter *e, const compile_options *o, text *to) {
  emit_open_tables(e->k, e->used, &e->functions);
  e->used->memory_bytes = memory_bytes(e);
  return write_file(e, o, to);
}

static clave_status emit_all(emitter *e, const compile_options *o, text *to) {
  const schedule *p = e->p;
  if (!p) return emit_open(e, o, to);
  const uint32_t n = slot_count(e->k->prog);
  e->now = malloc(((size_t)n + 1) * sizeof *e->now);
  if (!e->now) return status_no_memory();
  memcpy(e->now, p->at, n * sizeof *e->now);
  text_puts(&e->run, "  if (!model_begin_stretch(m)) return;\n");
  TRY(emit_commands(e, (range){0, p->n_commands}));
  e->used->memory_bytes = memory_bytes(e);
  return write_file(e, o, to);
}

clave_status emitted_create(const compile_plan *k, emitted *out) {
  *out = (emitted){.kernels = calloc((size_t)n_kernel_infos, sizeof *out->kernels),
                   .constants = calloc((size_t)slot_count(k->prog) + 1, sizeof *out->constants)};
  return out->kernels && out->constants ? NULL : status_no_memory();
}

void emitted_free(emitted *e) {
  free(e->kernels);
  free(e->constants);
  free(e->packed.items);
}

clave_status emit_model(const compile_plan *k, const compile_options *o, const test_output *kept,
                        text *to, emitted *used) {
  emitter e = {.k = k, .o = o, .p = k->p, .kept = kept, .used = used, .depth = 1};
  clave_status st = emit_all(&e, o, to);
  free(e.now);
  free(e.forms.items);
  text_free(&e.functions);
  text_free(&e.pack);
  text_free(&e.run);
  return st;
}
