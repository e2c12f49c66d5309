/* Writes the functions of model.c: the kernel calls of each command, with the recorded arguments,
 * where slots become addresses. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/cpu/kernels/conv/conv_integer_steps.h"
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/cpu/kernels/gemm/matmul_integer.h"
#include "backend/cpu/recorded.h"
#include "compile/emitter.h"
#include "compile/fields.h"
#include "compile/packed.h"

/* ---------------------------------------------------------------- addresses */

static void emit_calls_write_block(const emitter *emitter, uint32_t index, int64_t offset,
                                   text *to) {
  const block *block = &emitter->schedule->blocks[index];
  const char *base = block->kind == BLOCK_CONSTANT ? "model_weights"
                     : block->kind == BLOCK_STATE  ? "m->state"
                                                   : "m->arena";
  if (block->kind == BLOCK_REBASED) {
    text_printf(to, "model_at(m->rebased[%zu], %" PRId64 ")", emitter->plan->place[index], offset);
    return;
  }
  if (block->kind == BLOCK_CONSTANT) emitter->used->constants[block->slot] = true;
  const bool is_slots = block->kind == BLOCK_CONSTANT || block->kind == BLOCK_STATE;
  const size_t at = is_slots ? emitter->plan->slot_place[block->slot] : emitter->plan->place[index];
  text_printf(to, "model_at(%s, %" PRId64 ")", base, (int64_t)at + offset);
}

/* Writes the address of a storage. A storage without a block has no elements, so any address will
 * do. */
void write_storage(const emitter *emitter, uint32_t in, int64_t offset, text *to) {
  const uint32_t b = in == NO_INDEX ? NO_INDEX : emitter->schedule->storages[in].block[0];
  if (b == NO_INDEX) {
    text_puts(to, "m->arena");
  } else {
    emit_calls_write_block(emitter, b, offset, to);
  }
}

int64_t byte_offset(const tensor *tensor) {
  return tensor->offset * (int64_t)dtype_size(tensor->type);
}

static void emit_calls_write_slot(const emitter *emitter, uint32_t slot, int64_t offset, text *to) {
  const uint32_t n = slot_count(emitter->plan->prog);
  if (slot < n) {
    write_storage(emitter, emitter->now[slot].storage, offset, to);
  } else if (slot == n && emitter->source) {
    text_printf(to, "model_at(%s, %" PRId64 ")", emitter->source, offset);
  } else {
    write_storage(emitter, slot == n ? emitter->copy->x.storage : emitter->copy->out.storage,
                  offset, to);
  }
}

/* ---------------------------------------------------------------- calls */

enum { NOT_PACKED = -1 }; /* no command packs the weight */

static int find_kernel(const kernel_desc *desc) {
  int i = 0;
  while (kernel_infos[i].kernel != desc) i++; /* every kernel is in the table */
  return i;
}

typedef struct call_writer {
  const emitter *emitter;
  const cpu_command *command;
  const int *packed_weights; /* the recording's packed weights, by their numbers in the model */
} call_writer;

static bool write_pointer(void *ctx, size_t at, text *to) {
  const call_writer *writer = ctx;
  for (int i = 0; i < writer->command->n_operands; i++) {
    const cpu_operand_place *place = &writer->command->operands[i];
    if (place->at != at) continue;
    const bool is_there = !place->is_packed || writer->packed_weights[place->slot] != NOT_PACKED;
    if (!is_there || (place->unless && writer->packed_weights[place->unless - 1] != NOT_PACKED)) {
      text_puts(to, "NULL");
    } else if (place->is_packed) {
      text_printf(to, "m->packed_weights[%d]", writer->packed_weights[place->slot]);
    } else {
      emit_calls_write_slot(writer->emitter, place->slot, place->offset, to);
    }
    return true;
  }
  return false;
}

/* Marks the kinds of elementwise steps in use. Only these are compiled. */
static void emit_calls_mark_steps(emitted *used, const kstep *steps, int n) {
  for (int i = 0; i < n; i++) {
    uint64_t *bits =
        dtype_has_fractions(steps[i].operand_type) ? used->float_steps : used->int_steps;
    bits[steps[i].kind / 64] |= (uint64_t)1 << steps[i].kind % 64;
  }
}

static void mark_short_steps(emitted *used, const short_elementwise_args *few) {
  emit_calls_mark_steps(used, few->steps, few->head.n_steps);
}

static void emit_calls_mark_used(emitted *used, int kernel, const cpu_command *command) {
  const elementwise_args *all = command->args;
  const conv_integer_steps_args *sums = command->args;
  const matmul_integer_steps_args *products = command->args;
  const void *few =
      (const char *)command->args + (command->desc->steps ? command->desc->steps - 1 : 0);
  used->kernels[kernel] = true;
  if (command->desc == &kernel_conv_integer_steps)
    emit_calls_mark_steps(used, sums->steps.steps, sums->steps.head.n_steps);
  if (command->desc == &kernel_matmul_integer_steps)
    emit_calls_mark_steps(used, products->steps.steps, products->steps.head.n_steps);
  if (command->desc == &kernel_elementwise)
    emit_calls_mark_steps(used, all->steps, all->head.n_steps);
  if (command->desc->steps) mark_short_steps(used, few);
}

/* Writes a kernel call. call: "model_call(m" or "model_pack(m, 3", to which kernel and arguments
 * are appended. */
static void write_call(emitter *emitter, const cpu_command *command, const int *packed_weights,
                       const char *call, text *to) {
  const int kernel = find_kernel(command->desc);
  const kernel_info *info = &kernel_infos[kernel];
  const call_writer writer = {emitter, command, packed_weights};
  emit_calls_mark_used(emitter->used, kernel, command);
  text_printf(to, "  {\n    const %s args = ", info->args->name);
  write_struct(to, info->args, command->args,
               &(pointer_writer){write_pointer, (void *)(uintptr_t)&writer});
  text_printf(to, ";\n    %s, &%s, &args);\n  }\n", call, info->name);
}

static void write_calls(emitter *emitter, const recording *recording, const int *packed_weights,
                        const char *call, text *to) {
  int n;
  const cpu_command *command = cpu_recorded_commands(recording, &n);
  for (int i = 0; i < n; i++) {
    char limited[48];
    (void)snprintf(limited, sizeof limited, "model_call_on(m, %d", command[i].n_threads);
    write_call(emitter, &command[i], packed_weights, command[i].n_threads ? limited : call, to);
  }
}

/* ---------------------------------------------------------------- packed weights */

static clave_status emit_calls_add_weight(weight_list *list, const packed_weight_request *request,
                                          int *number, bool *is_new) {
  for (size_t i = 0; i < list->n; i++) {
    *number = (int)i;
    *is_new = false;
    if (packed_weights_equal(&list->items[i], request)) return NULL;
  }
  if (!array_reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items))
    return status_no_memory();
  *number = (int)list->n;
  *is_new = true;
  list->items[list->n++] = *request;
  return NULL;
}

/* Returns the processor levels that the program may run on, as for plan_scratch. */
static const char *levels_of(const compile_options *options) {
  return options->is_portable ? "portable" : NULL;
}

/* Emits the packing of weight `number` at start. */
static clave_status emit_packing(emitter *emitter, const packed_weight_request *request,
                                 int number) {
  char call[48];
  bool is_packed;
  TRY(packed_add(emitter->plan, emitter->options, number, request, &emitter->used->packed,
                 &is_packed));
  if (emitter->options->packed_only && !is_packed)
    return INVALID(
        "--packed-only needs a packed weight for this processor (%s), and the program has none for "
        "this node",
        emitter->plan->cpu->info.weight_layout);
  if (emitter->options->packed_only) {
    text_printf(&emitter->pack, "  model_use_packed(m, %d);\n", number);
    return NULL;
  }
  (void)snprintf(call, sizeof call, "model_pack(m, %d", number);
  write_calls(emitter, request->pack, NULL, call, &emitter->pack);
  emitter->packed_bytes += plan_aligned(plan_scratch(request->pack, levels_of(emitter->options)));
  return NULL;
}

/* Returns `request` or an equivalent packed weight of another command that packs it; NULL if there
 * is none. */
static const packed_weight_request *find_packing(const emitter *emitter,
                                                 const packed_weight_request *request) {
  if (request->pack) return request;
  for (uint32_t i = 0; i < emitter->schedule->n_commands; i++) {
    const recording *recording = emitter->schedule->commands[i].recorded;
    for (int k = 0; recording && k < recording->n_weights; k++)
      if (recording->weights[k].pack && packed_weight_serves(&recording->weights[k], request))
        return &recording->weights[k];
  }
  return NULL;
}

/* Emits the packing of the recording's weights and sets numbers[i] to the number of weight i in the
 * model. */
static clave_status emit_packed_weights(emitter *emitter, const recording *recording,
                                        int numbers[MAX_PACKED_WEIGHTS]) {
  for (int i = 0; i < recording->n_weights; i++) {
    const packed_weight_request *request = find_packing(emitter, &recording->weights[i]);
    bool is_new = false;
    numbers[i] = NOT_PACKED;
    if (request)
      TRY(emit_calls_add_weight(&emitter->packed_weights, request, &numbers[i], &is_new));
    if (is_new) TRY(emit_packing(emitter, request, numbers[i]));
  }
  return NULL;
}

/* ---------------------------------------------------------------- commands */

static void emit_calls_write_node(const emitter *emitter, uint32_t instruction, text *to) {
  const graph *graph = emitter->plan->graph;
  if (instruction >= graph->n) { /* the update of a state tensor */
    text_puts(to, "NULL");
    return;
  }
  text name = {0};
  const ir_instruction *ins = &graph->instructions[instruction];
  text_printf(&name, "node %u (%s, %s)", graph->source[instruction], op_table[ins->op_type].name,
              ins->name);
  if (name.failed) to->failed = 1;
  if (!name.failed) write_string(to, name.data);
  text_free(&name);
}

clave_status emit_function(emitter *emitter, const command *command, const char *name,
                           const char *parameters) {
  int packed_weights[MAX_PACKED_WEIGHTS];
  TRY(emit_packed_weights(emitter, command->recorded, packed_weights));
  text_printf(&emitter->functions, "static void %s(model *m%s) {\n  if (!model_begin(m, ", name,
              parameters);
  emit_calls_write_node(emitter, command->instruction, &emitter->functions);
  text_puts(&emitter->functions, ")) return;\n");
  const size_t scratch = plan_scratch(command->recorded, levels_of(emitter->options));
  if (scratch > emitter->scratch_bytes) emitter->scratch_bytes = scratch;
  emitter->copy = command;
  write_calls(emitter, command->recorded, packed_weights, "model_call(m", &emitter->functions);
  text_puts(&emitter->functions, "}\n\n");
  return NULL;
}
