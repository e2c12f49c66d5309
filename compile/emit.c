/* model.c as a whole: the functions and statements, and the tables of arguments and state. */
#include "compile/emit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compile/emitter.h"
#include "compile/fields.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- arguments */

static void write_dims(const tensor *t, text *to) {
  text_printf(to, ".rank = %d, .dims = {", t->rank);
  for (int i = 0; i < t->rank; i++) text_printf(to, "%s%" PRId64, i ? ", " : "", t->dims[i]);
  text_puts(to, t->rank ? "}" : "0}");
}

/* Where in the arena; of inputs that nothing reads, nowhere. */
static void write_place(const emitter *e, uint32_t tid, text *to) {
  const uint32_t in = e->p->at[tid].storage;
  const uint32_t b = in == NO_INDEX ? NO_INDEX : e->p->storages[in].block[0];
  if (b == NO_INDEX || e->p->blocks[b].kind != BLOCK_ARENA) {
    text_puts(to, "MODEL_NOWHERE");
  } else {
    text_printf(to, "%zu", e->k->place[b]);
  }
}

static clave_status write_tensor(const emitter *e, const ir_argument *a, text *to) {
  const tensor *t = &e->p->types[a->tensor];
  size_t bytes;
  TRY(known_bytes(t, &bytes));
  text_printf(to, ".type = DTYPE_%s, ", dtype_name(t->type));
  write_dims(t, to);
  text_printf(to, ", .bytes = %zu, .offset = ", bytes);
  write_place(e, a->tensor, to);
  return NULL;
}

/* A host scalar is known once sizes are. */
static void write_scalar(const emitter *e, const ir_argument *a, text *to) {
  unsigned char bytes[8];
  tensor t = {0};
  scalar_to_bytes(&e->p->values[a->value], &t, bytes);
  text_printf(to, ".type = DTYPE_%s, .bytes = %zu, .offset = MODEL_NOWHERE, .value = \"",
              dtype_name(t.type), dtype_size(t.type));
  for (size_t i = 0; i < dtype_size(t.type); i++) text_printf(to, "\\%03o", bytes[i]);
  text_puts(to, "\"");
}

/* n: those that are listed; less than there are: scalars are not. */
static clave_status write_arguments(const emitter *e, const char *name, const ir_arguments *all,
                                    uint32_t n, text *to) {
  text_printf(to, "static const model_argument %s[] = {\n", name);
  for (uint32_t i = 0; i < all->count; i++) {
    const ir_argument *a = &all->items[i];
    if (a->tensor == IR_NONE && n < all->count) continue; /* fixed */
    text_puts(to, "  {.name = ");
    write_string(to, a->name);
    text_puts(to, ", ");
    if (a->tensor == IR_NONE) {
      write_scalar(e, a, to);
    } else {
      TRY(write_tensor(e, a, to));
    }
    text_puts(to, "},\n");
  }
  text_puts(to, n ? "};\n\n" : "  {0}\n};\n\n");
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
      text_printf(to, "model_weights + %zu},\n", e->k->slot_place[initial]);
    }
  }
  text_puts(to, p->ir.n_state ? "};\n\n" : "  {0}\n};\n\n");
  return NULL;
}

/* ---------------------------------------------------------------- the file */

static void write_head(const emitter *e, const compile_options *o, text *to) {
  text_puts(to,
            "/* Made by clave compile: the commands of a program in their order, each with the "
            "arguments of its kernels. */\n#include <math.h>\n\n#include "
            "\"compile/runtime/core.h\"\n");
  if (o->n_threads >= 0) text_puts(to, "#include \"compile/runtime/pool.h\"\n");
  for (int i = 0; i < n_kernel_infos; i++) {
    bool is_first = e->used->kernels[i];
    for (int j = 0; j < i && is_first; j++)
      is_first = !e->used->kernels[j] || kernel_infos[j].header != kernel_infos[i].header;
    if (is_first) text_printf(to, "#include \"%s\"\n", source_files[kernel_infos[i].header].path);
  }
  text_puts(to, "\nextern const unsigned char model_weights[];\n\n");
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

/* Where its memory and its threads come from. */
static void write_means(const compile_options *o, text *to) {
  if (o->n_threads >= 0)
    text_printf(to, "    .threads = &model_pool,\n    .n_threads = %d,\n", o->n_threads);
  text_puts(to, o->static_memory
                    ? "    .memory = {&the_model, memory, sizeof memory, forms, rebased},\n"
                    : "    .heap = &compiled_heap,\n");
}

static void write_info(const emitter *e, const compile_options *o, text *to) {
  const ir_method *m = e->k->g->method;
  if (o->static_memory) write_memory(e, to);
  text_puts(to, "const model_info compiled_model = {\n    .program = ");
  write_string(to, o->name);
  text_puts(to, ",\n    .method = ");
  write_string(to, m->name);
  text_printf(to,
              ",\n    .inputs = inputs,\n    .outputs = outputs,\n    .states = states,\n"
              "    .n_inputs = %u,\n    .n_outputs = %u,\n    .n_states = %u,\n"
              "    .arena_bytes = %zu,\n    .state_bytes = %zu,\n    .n_forms = %zu,\n"
              "    .n_rebased = %d,\n",
              compiled_inputs(e->k), m->outputs.count, e->k->prog->ir.n_state, e->k->arena_bytes,
              e->k->state_bytes, e->forms.n, e->k->n_rebased);
  write_means(o, to);
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
  write_head(e, o, to);
  TRY(write_arguments(e, "inputs", &m->inputs, compiled_inputs(e->k), to));
  TRY(write_arguments(e, "outputs", &m->outputs, m->outputs.count, to));
  TRY(write_states(e, to));
  write_function("pack_forms", &e->pack, to);
  if (e->functions.size) text_append(to, e->functions.data, e->functions.size);
  write_function("run_model", &e->run, to);
  write_info(e, o, to);
  TRY(text_status(&e->functions));
  TRY(text_status(&e->pack));
  TRY(text_status(&e->run));
  return text_status(to);
}

static clave_status emit_all(emitter *e, const compile_options *o, text *to) {
  const schedule *p = e->p;
  const uint32_t n = slot_count(e->k->prog);
  e->now = malloc(((size_t)n + 1) * sizeof *e->now);
  if (!e->now) return status_no_memory();
  memcpy(e->now, p->at, n * sizeof *e->now);
  text_puts(&e->run, "  if (!model_begin_stretch(m)) return;\n");
  TRY(emit_commands(e, (range){0, p->n_commands}));
  e->used->memory_bytes = memory_bytes(e);
  return write_file(e, o, to);
}

clave_status emitted_create(emitted *out) {
  *out = (emitted){.kernels = calloc((size_t)n_kernel_infos, sizeof *out->kernels)};
  return out->kernels ? NULL : status_no_memory();
}

void emitted_free(emitted *e) { free(e->kernels); }

clave_status emit_model(const compile_plan *k, const compile_options *o, text *to, emitted *used) {
  emitter e = {.k = k, .p = k->p, .used = used, .depth = 1};
  clave_status st = emit_all(&e, o, to);
  free(e.now);
  free(e.forms.items);
  text_free(&e.functions);
  text_free(&e.pack);
  text_free(&e.run);
  return st;
}
