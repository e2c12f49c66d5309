/* Writes model.c: its functions and statements, and the tables of arguments and state. */
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

static void emit_write_dims(const tensor *tensor, text *to) {
  text_printf(to, ".rank = %d, .dims = {", tensor->rank);
  for (int i = 0; i < tensor->rank; i++)
    text_printf(to, "%s%" PRId64, i ? ", " : "", tensor->dims[i]);
  text_puts(to, tensor->rank ? "}" : "0}");
}

/* True if the tables list the argument: a tensor, or a scalar that is not fixed. */
static bool is_listed(const emitter *emitter, const ir_argument *argument, bool is_input) {
  return !is_input || plan_has_input(emitter->plan, argument);
}

/* Returns the type of an argument, with open dimensions encoded as in model_argument. */
static tensor emit_type_of(const emitter *emitter, const ir_argument *argument) {
  const program *prog = emitter->plan->prog;
  tensor tensor = {0};
  unsigned char bytes[8];
  if (argument->tensor == IR_NONE) {
    const scalar_value value = {.type = prog->ir.values.items[argument->value].type};
    scalar_to_bytes(&value, &tensor, bytes);
    return tensor;
  }
  if (emitter->schedule) return emitter->schedule->types[argument->tensor];
  const ir_int_or_vids *shape = &prog->ir.tensors.items[argument->tensor].shape;
  tensor = prog->types[argument->tensor];
  for (uint32_t i = 0; i < shape->count; i++)
    tensor.dims[i] = plan_dim(emitter->plan, &shape->items[i]);
  return tensor;
}

static void write_argument(const emitter *emitter, const ir_argument *argument, bool is_input,
                           text *to) {
  const tensor tensor = emit_type_of(emitter, argument);
  text_puts(to, "  {.name = ");
  write_string(to, argument->name);
  text_printf(to, ", .type = DTYPE_%s, ", dtype_name(tensor.type));
  if (argument->tensor == IR_NONE && is_input) text_puts(to, ".is_scalar = true, ");
  emit_write_dims(&tensor, to);
  text_puts(to, "},\n");
}

/* Writes a tensor's offset in the arena; MODEL_NOWHERE if it has no block there, for example an
 * unused input. */
static void write_offset(const emitter *emitter, uint32_t tid, text *to) {
  const uint32_t in = emitter->schedule->at[tid].storage;
  const uint32_t b = in == NO_INDEX ? NO_INDEX : emitter->schedule->storages[in].block[0];
  if (b == NO_INDEX || emitter->schedule->blocks[b].kind != BLOCK_ARENA) {
    text_puts(to, "MODEL_NOWHERE");
  } else {
    text_printf(to, "%zu", emitter->plan->place[b]);
  }
}

/* Writes the value of a host scalar that is known once sizes are. */
static void emit_write_known(const scalar_value *value, text *to) {
  unsigned char bytes[8];
  tensor tensor = {0};
  scalar_to_bytes(value, &tensor, bytes);
  text_printf(to, "%zu, MODEL_NOWHERE, \"", dtype_size(tensor.type));
  for (size_t i = 0; i < dtype_size(tensor.type); i++) text_printf(to, "\\%03o", bytes[i]);
  text_puts(to, "\"");
}

static clave_status write_place(const emitter *emitter, const ir_argument *argument, text *to) {
  size_t bytes;
  text_puts(to, "  {");
  if (argument->tensor == IR_NONE) {
    emit_write_known(&emitter->schedule->values[argument->value], to);
  } else {
    TRY(known_bytes(&emitter->schedule->types[argument->tensor], &bytes));
    text_printf(to, "%zu, ", bytes);
    write_offset(emitter, argument->tensor, to);
    text_puts(to, ", NULL");
  }
  text_puts(to, "},\n");
  return NULL;
}

/* Writes inputs[] or outputs[]. */
static void emit_write_arguments(const emitter *emitter, const char *what, const ir_arguments *all,
                                 bool is_input, text *to) {
  bool is_empty = true;
  text_printf(to, "static const model_argument %ss[] = {\n", what);
  for (uint32_t i = 0; i < all->count; i++) {
    if (!is_listed(emitter, &all->items[i], is_input)) continue;
    write_argument(emitter, &all->items[i], is_input, to);
    is_empty = false;
  }
  text_puts(to, is_empty ? "  {0}\n};\n" : "};\n");
}

/* Writes input_places[] or output_places[]. */
static clave_status write_argument_places(const emitter *emitter, const char *what,
                                          const ir_arguments *all, bool is_input, text *to) {
  bool is_empty = true;
  text_printf(to, "static const model_place %s_places[] = {\n", what);
  for (uint32_t i = 0; i < all->count; i++) {
    if (!is_listed(emitter, &all->items[i], is_input)) continue;
    TRY(write_place(emitter, &all->items[i], to));
    is_empty = false;
  }
  text_puts(to, is_empty ? "  {0}\n};\n\n" : "};\n\n");
  return NULL;
}

/* ---------------------------------------------------------------- state */

static clave_status write_states(const emitter *emitter, text *to) {
  const program *program = emitter->plan->prog;
  text_puts(to, "static const model_state states[] = {\n");
  for (uint32_t i = 0; i < program->ir.n_state; i++) {
    const uint32_t tid = first_state(program) + i, initial = plan_initial_constant(program, i);
    size_t bytes;
    if (!program_state_bytes(&program->ir, tid, &bytes))
      return INVALID("the size of a state overflows");
    text_printf(to, "  {%zu, %zu, ", emitter->plan->slot_place[tid], bytes);
    if (initial == IR_NONE) {
      text_puts(to, "NULL},\n");
    } else {
      emitter->used->constants[initial] = true;
      text_printf(to, "model_weights + %zu},\n", emitter->plan->slot_place[initial]);
    }
  }
  text_puts(to, program->ir.n_state ? "};\n\n" : "  {0}\n};\n\n");
  return NULL;
}

/* ---------------------------------------------------------------- the file */

static void emit_write_head(const emitter *emitter, text *to) {
  text_puts(to,
            "/* Made by clave compile: the commands of a program in their order, each with the "
            "arguments of its kernels. */\n#include <math.h>\n\n#include "
            "\"compile/runtime/core.h\"\n");
  for (int i = 0; i < n_kernel_infos; i++) {
    bool is_first = emitter->used->kernels[i];
    for (int j = 0; j < i && is_first; j++)
      is_first = !emitter->used->kernels[j] || kernel_infos[j].header != kernel_infos[i].header;
    if (is_first) text_printf(to, "#include \"%s\"\n", source_files[kernel_infos[i].header].path);
  }
  if (!emitter->schedule) emit_open_head(to);
  if (emitter->used->packed.n)
    text_puts(to, "#include \"backend/cpu/kernels/support/features.h\"\n");
  text_puts(to, "\nextern const unsigned char model_weights[];\n");
  if (emitter->used->packed.n)
    text_puts(to, "extern const unsigned char model_packed_weights[];\n");
  text_puts(to, "\n");
}

static void emit_write_packed(const emitter *emitter, text *to) {
  const packed_list *list = &emitter->used->packed;
  if (!list->n) return;
  text_puts(to, "static const model_packed packed[] = {\n");
  for (size_t i = 0; i < list->n; i++) {
    const packed_entry *entry = &list->items[i];
    text_printf(to, "  {%d, ", entry->number);
    write_string(to, packed_level(entry));
    text_printf(to, ", model_packed_weights + %zu, %zu},\n", entry->offset, entry->weight->bytes);
  }
  text levels = {0}; /* levels come from a file and may be any printable text */
  packed_write_levels(list, &levels);
  text_puts(to, "};\nstatic const char packed_for[] = ");
  write_string(to, levels.data ? levels.data : "");
  text_puts(to, ";\n\n");
  to->failed |= levels.failed;
  text_free(&levels);
}

static size_t memory_bytes(const emitter *emitter) {
  return plan_aligned(emitter->plan->arena_bytes) + plan_aligned(emitter->plan->state_bytes) +
         emitter->packed_bytes + plan_aligned(emitter->scratch_bytes + 1);
}

static void emit_write_memory(const emitter *emitter, text *to) {
  text_printf(
      to,
      "/* %zu bytes: arena %zu, state %zu, packed weights %zu, scratch memory %zu. */\n"
      "static _Alignas(MODEL_ALIGNMENT) char memory[%zu];\n"
      "static model the_model;\nstatic void *packed_weights[%zu];\nstatic char *rebased[%d];\n\n",
      memory_bytes(emitter), emitter->plan->arena_bytes, emitter->plan->state_bytes,
      emitter->packed_bytes, emitter->scratch_bytes, memory_bytes(emitter),
      emitter->packed_weights.n + 1, emitter->plan->n_rebased + 1);
}

/* Writes static assertions on the target processor: byte order and address space. */
static void write_needs(const emitter *emitter, text *to) {
  text_printf(to,
              "_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, \"weights and files are "
              "little-endian: this processor is not\");\n_Static_assert(PTRDIFF_MAX >= %zu, \"this "
              "program needs more memory than this processor can address\");\n\n",
              memory_bytes(emitter) + emitter->plan->weight_bytes + emitter->used->packed.bytes);
}

/* Writes the members of model_code that say where memory and threads come from. */
static void write_services(const compile_options *options, text *to) {
  if (options->n_threads >= 0) text_puts(to, "    .threads = &model_pool,\n");
  text_puts(to,
            options->static_memory
                ? "    .memory = {&the_model, memory, sizeof memory, packed_weights, rebased},\n"
                : "    .heap = &model_host_heap,\n");
}

static void write_tests(const emitter *emitter, text *to) {
  write_digests(emitter->kept, emitter->plan->graph->method->outputs.count, 0, to);
  text_puts(to, "static const model_test tests[] = {{.digests = digests_0}};\n");
  write_processor(emitter->plan->cpu, to);
}

static void emit_write_info(const emitter *emitter, const compile_options *options, text *to) {
  const ir_method *method = emitter->plan->graph->method;
  if (emitter->kept) write_tests(emitter, to);
  if (options->static_memory) emit_write_memory(emitter, to);
  text_puts(to, "static const model_method the_method = {\n    .name = ");
  write_string(to, method->name);
  if (!emitter->schedule)
    text_printf(to, ",\n    .sizes = sizes,\n    .n_sizes = %" PRIu32, emitter->plan->n_open);
  text_printf(to,
              ",\n    .inputs = inputs,\n    .outputs = outputs,\n    .n_inputs = %u,\n"
              "    .n_outputs = %u,\n};\n\n"
              "const model_code compiled_model = {\n    .info = {.program = ",
              compiled_inputs(emitter->plan), method->outputs.count);
  write_string(to, options->name);
  text_printf(to,
              ", .device = \"cpu\", .methods = &the_method, .n_methods = 1, .n_threads = %d%s},\n"
              "    .states = states,\n    .n_states = %u,\n"
              "    .arena_bytes = %zu,\n    .state_bytes = %zu,\n    .n_packed_weights = %zu,\n"
              "    .n_rebased = %d,\n",
              options->n_threads,
              emitter->kept ? ", .tests = {.methods = tests, .processor = processor}" : "",
              emitter->plan->prog->ir.n_state, emitter->plan->arena_bytes,
              emitter->plan->state_bytes, emitter->packed_weights.n, emitter->plan->n_rebased);
  if (emitter->used->packed.n)
    text_printf(to,
                "    .packed = packed,\n    .n_packed = %zu,\n    .packed_for = packed_for,\n"
                "    .level = cpu_level_name,\n",
                emitter->used->packed.n);
  write_services(options, to);
  text_puts(to, emitter->schedule
                    ? "    .inputs = input_places,\n    .outputs = output_places,\n"
                    : "    .planner = &model_open_sizes,\n    .planned = &open_code,\n");
  text_puts(to, "    .pack = pack_weights,\n    .run = run_model,\n};\n");
}

static void emit_write_function(const char *name, const text *body, text *to) {
  text_printf(to, "static void %s(model *m) {\n", name);
  if (body->size) {
    text_append(to, body->data, body->size);
  } else {
    text_puts(to, "  (void)m;\n");
  }
  text_puts(to, "}\n\n");
}

static clave_status emit_write_file(const emitter *emitter, const compile_options *options,
                                    text *to) {
  const ir_method *method = emitter->plan->graph->method;
  emit_write_head(emitter, to);
  write_needs(emitter, to);
  emit_write_arguments(emitter, "input", &method->inputs, true, to);
  emit_write_arguments(emitter, "output", &method->outputs, false, to);
  if (emitter->schedule) TRY(write_argument_places(emitter, "input", &method->inputs, true, to));
  if (emitter->schedule) TRY(write_argument_places(emitter, "output", &method->outputs, false, to));
  TRY(write_states(emitter, to));
  emit_write_packed(emitter, to);
  emit_write_function("pack_weights", &emitter->pack, to);
  if (emitter->functions.size) text_append(to, emitter->functions.data, emitter->functions.size);
  emit_write_function("run_model", &emitter->run, to);
  emit_write_info(emitter, options, to);
  TRY(text_status(&emitter->functions));
  TRY(text_status(&emitter->pack));
  TRY(text_status(&emitter->run));
  return text_status(to);
}

/* Writes a program with open sizes. Writes its tables and functions first, because the includes
 * depend on them. */
static clave_status emit_open(emitter *emitter, const compile_options *options, text *to) {
  emit_open_tables(emitter->plan, emitter->used, &emitter->functions);
  emitter->used->memory_bytes = memory_bytes(emitter);
  return emit_write_file(emitter, options, to);
}

static clave_status emit_all(emitter *emitter, const compile_options *options, text *to) {
  const schedule *schedule = emitter->schedule;
  if (!schedule) return emit_open(emitter, options, to);
  const uint32_t n = slot_count(emitter->plan->prog);
  emitter->now = malloc(((size_t)n + 1) * sizeof *emitter->now);
  if (!emitter->now) return status_no_memory();
  memcpy(emitter->now, schedule->at, n * sizeof *emitter->now);
  text_puts(&emitter->run, "  if (!model_begin_stretch(m)) return;\n");
  TRY(emit_commands(emitter, (range){0, schedule->n_commands}));
  emitter->used->memory_bytes = memory_bytes(emitter);
  return emit_write_file(emitter, options, to);
}

clave_status emitted_create(const compile_plan *plan, emitted *out) {
  *out = (emitted){.kernels = calloc((size_t)n_kernel_infos, sizeof *out->kernels),
                   .constants = calloc((size_t)slot_count(plan->prog) + 1, sizeof *out->constants)};
  return out->kernels && out->constants ? NULL : status_no_memory();
}

void emitted_free(emitted *emitted) {
  free(emitted->kernels);
  free(emitted->constants);
  free(emitted->packed.items);
}

clave_status emit_model(const compile_plan *plan, const compile_options *options,
                        const test_output *kept, text *to, emitted *used) {
  emitter emitter = {.plan = plan,
                     .options = options,
                     .schedule = plan->schedule,
                     .kept = kept,
                     .used = used,
                     .depth = 1};
  clave_status st = emit_all(&emitter, options, to);
  free(emitter.now);
  free(emitter.packed_weights.items);
  text_free(&emitter.functions);
  text_free(&emitter.pack);
  text_free(&emitter.run);
  return st;
}
